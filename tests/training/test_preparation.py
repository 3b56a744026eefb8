import json
import math
import sys

import pytest
from tiny_training import tiny_config, tiny_run, write_corpus

from seq2seq.evaluation.metrics import ScoringRule
from seq2seq.runtime.distributed import SINGLE_PROCESS, Ranks
from seq2seq.studies.runs import read_runs
from seq2seq.training import preparation
from seq2seq.training.preparation import prepare_data, prepare_in_turn

FOLDED = ("tokenizer=unigram", "tokenizer.normalization=nmt_nfkc_cf")


def test_tokenizers_are_trained_only_on_training_text(tmp_path):
    write_corpus(tmp_path)
    (tmp_path / "a.valid").write_text("xyz\n" * 5)

    data = prepare_data(tiny_config(tmp_path))

    assert data.tokenizers.source.encode(["x"]) == [[1]]


def test_long_pairs_are_left_out_only_of_training(tmp_path):
    config = tiny_config(tmp_path, "data.max_length=3")

    data = prepare_data(config)

    assert 0 < len(data.train) < 22
    assert len(data.sets["valid"].encoded) == len(data.sets["valid"].sources) == 5
    assert len(data.sets["test"].encoded) == len(data.sets["test"].sources) == 3


def test_the_target_language_chooses_the_tokenizer_of_bleu(tmp_path):
    data = prepare_data(tiny_config(tmp_path, "data.target=zh"))

    assert data.sets["valid"].scoring_rule == data.sets["test"].scoring_rule == ScoringRule("zh")


@pytest.mark.parametrize(
    ("overrides", "is_lower"),
    [
        (["tokenizer=unigram", "tokenizer.normalization=nmt_nfkc"], False),
        (["tokenizer=bpe", "tokenizer.normalization=nmt_nfkc_cf"], True),
        (["tokenizer=words", "tokenizer.splitter=basic_english", "data.target=en"], True),
        ([*FOLDED, "tokenizer.user_symbols=['<x>']"], True),
    ],
)
def test_scores_ignore_case_if_the_tokenizer_does(tmp_path, overrides, is_lower):
    data = prepare_data(tiny_config(tmp_path, *overrides, "tokenizer.vocabulary_size=30"))

    assert data.sets["valid"].scoring_rule == ScoringRule(lowercase=is_lower)


def test_the_tokenizer_of_the_initial_weights_decides_on_case(tmp_path):
    folded = tiny_config(tmp_path, *FOLDED, "tokenizer.vocabulary_size=30")

    data = prepare_data(tiny_config(tmp_path), prepare_data(folded).tokenizers)

    assert data.sets["valid"].scoring_rule.lowercase


def test_a_run_without_a_test_set_says_so(tmp_path, capsys):
    bleu = tiny_run(tmp_path, "training.max_epochs=1", "data.test=null")

    directory = tmp_path / "runs" / "tiny"
    results = json.loads((directory / "results.json").read_text())
    assert results["test"] is None
    assert results["valid"]["bleu"] == bleu
    assert list(directory.glob("test.*")) == []
    assert "no test score, because data.test=null" in capsys.readouterr().err
    run = read_runs([directory]).iloc[0]
    assert run["failure"] == ""
    assert run["valid_bleu"] == bleu
    assert math.isnan(run["bleu"])
    assert run["signature"] == ""


def test_missing_packages_of_bleu_are_reported_before_the_data_are_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mecab_ko", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ko_mecab", raising=False)
    config = tiny_config(tmp_path, "data.target=ko")

    with pytest.raises(ValueError, match=r"bleu_tokenize=ko-mecab: .*pip install sacrebleu\[ko\]"):
        prepare_data(config)

    assert not (tmp_path / "cache").exists()
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ko_mecab", raising=False)


def test_references_without_spaces_are_reported_once(tmp_path, caplog):
    write_corpus(tmp_path)
    (tmp_path / "b.valid").write_text(("\u6211\u559c\u6b22\u82f9\u679c\u3002" * 3 + "\n") * 5)

    prepare_data(tiny_config(tmp_path))

    found = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    [warning] = [each for each in found if "unknown" not in each]
    assert warning.startswith("data.valid has hardly any spaces, so")


def test_each_validation_set_and_the_test_set_are_prepared_with_their_tags(tmp_path):
    pair = "files: ['{0}/a.{1}','{0}/b.{1}']"
    config = tiny_config(
        tmp_path,
        f"data.train={{{pair.format(tmp_path, 'train')}, tag: '<2b>'}}",
        f"data.valid={{tagged: {{{pair.format(tmp_path, 'valid')}, tag: '<2b>'}}, "
        f"plain: {{{pair.format(tmp_path, 'test')}}}}}",
        f"data.test={{{pair.format(tmp_path, 'test')}, tag: '<2b>'}}",
    )

    data = prepare_data(config)

    words = {name: (tmp_path / f"a.{name}").read_text().split() for name in ("valid", "test")}
    assert data.sets["valid"].sources == [f"<2b> {word}" for word in words["valid"]]
    assert data.sets["valid.plain"].sources == words["test"]
    assert data.sets["test"].sources == [f"<2b> {word}" for word in words["test"]]
    [tag] = data.tokenizers.source.encode(["<2b>"])[0]
    assert [data.sets["test"].encoded.source_rows[row][0] for row in range(3)] == [tag] * 3


def test_a_tag_of_validation_that_training_lacks_is_refused(tmp_path):
    valid = f"{{files: ['{tmp_path}/a.valid','{tmp_path}/b.valid'], tag: '<2c>'}}"

    with pytest.raises(
        ValueError, match=r"^data\.valid\.tag=<2c> is not a symbol of the tokenizer"
    ):
        prepare_data(tiny_config(tmp_path, f"data.valid={valid}"))


def test_pairs_to_score_are_compared_with_the_training_text(tmp_path, caplog):
    write_corpus(tmp_path)
    for side in "ab":
        lines = (tmp_path / f"{side}.train").read_text().splitlines()[:5]
        (tmp_path / f"{side}.valid").write_text("\n".join(lines) + "\n")

    prepare_data(tiny_config(tmp_path))

    [message] = caplog.messages
    assert message.startswith("valid: 5 of 5 pairs have a source (5) or a target (5) that is also")


SECOND = Ranks(1, 1, 2)


@pytest.fixture
def second_process(monkeypatch):
    """Return a list for what the first process shares; this process is the second one."""
    shared: list[object] = []
    monkeypatch.setattr(Ranks, "share_from_first", lambda *_: shared.pop(0))
    monkeypatch.setattr(Ranks, "barrier", lambda _: None)
    return shared


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("a.train", "the training data and the training ids"),
        ("b.valid", "data.valid"),
        ("a.test", "data.test"),
    ],
)
def test_data_that_differ_are_refused_and_named(tmp_path, second_process, name, named):
    config = tiny_config(tmp_path)
    second_process.append(dict(preparation._checksums(prepare_data(config))))
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text.replace("a", "b", 1))

    with pytest.raises(ValueError, match=f"^{named} differ from those of rank 0; copy"):
        prepare_in_turn(config, None, SECOND)


@pytest.mark.parametrize(
    ("ranks", "turn"),
    [(SINGLE_PROCESS, 0), (Ranks(0, 0, 4), 0), (Ranks(1, 1, 4), 2), (Ranks(2, 0, 4), 1)],
)
def test_the_first_process_of_each_machine_prepares_before_the_others(
    tmp_path, monkeypatch, ranks, turn
):
    calls: list[str] = []
    monkeypatch.setattr(Ranks, "barrier", lambda _: calls.append("barrier"))
    monkeypatch.setattr(preparation, "prepare_data", lambda *_: calls.append("prepare"))
    monkeypatch.setattr(preparation, "_check_same_data", lambda data, ranks: None)

    prepare_in_turn(tiny_config(tmp_path), None, ranks)

    assert calls.index("prepare") == turn
    assert calls.count("barrier") == 3
