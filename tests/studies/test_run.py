import shutil

import pytest
import torch
from tiny_training import SMALL, tiny_run, write_corpus
from tiny_translator import make_translator
from torch.testing import assert_close

from seq2seq.config.schema import load_config
from seq2seq.data.corpus import load_corpora
from seq2seq.evaluation.alignment import argmax_links
from seq2seq.evaluation.measures import alignment_error_rate
from seq2seq.files.links import GoldLinks
from seq2seq.studies.run import attend, load_run
from seq2seq.training.run import run_training


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("analysis")
    return load_config(
        *SMALL,
        "data.num_train=60",
        f"data.cache_dir='{folder}/cache'",
        f"checkpoint_dir='{folder}'",
        "training.max_updates=2",
        "training.threads=1",
        "attention=multihead",
        "attention.size=4",
        "attention.num_heads=2",
    )


@pytest.fixture(scope="module")
def run(config):
    """Train once, with the grammar's gold links."""
    path = f"{config.checkpoint_dir}/run"
    run_training(config, path)
    return load_run(path, device="cpu")


@pytest.mark.parametrize("split", ["valid", "test"])
def test_pairs_are_those_of_the_corpus_with_their_translations(run, config, split):
    corpus = list(getattr(load_corpora(config.data), split))

    pairs = run.pairs(split)

    assert [pair.source for pair in pairs] == [each.source for each in corpus]
    assert [pair.reference for pair in pairs] == [each.target for each in corpus]
    assert run.gold(split) == [each.links for each in corpus]
    found = run.translator([pair.source for pair in pairs], config.decoding)
    assert [pair.translation for pair in pairs] == [each.text for each in found]


@pytest.mark.parametrize("split", ["valid", "test"])
def test_statistics_and_error_rate_are_those_of_the_results(run, split):
    attention, gold = run.attention(split), run.gold(split)

    measured = run.results[split]
    for found, head in zip(attention.statistics(gold), measured["heads"], strict=True):
        assert found == pytest.approx(head, rel=1e-5)
    assert attention.alignment_error_rate(gold) == pytest.approx(measured["aer"])
    assert 0 < measured["aer_of_diagonal"] < 1


def test_attention_over_translations_reads_them_and_not_the_references(run):
    attention = run.attention("test", target="translation")

    texts = [each.text for each in attention.translations]
    assert texts == [pair.translation for pair in run.pairs("test")]
    assert texts != [pair.reference for pair in run.pairs("test")]


def test_attributions_have_the_words_of_each_pair_and_the_weights_of_the_results(run):
    found = run.attributions("test")

    pairs, attention = run.pairs("test"), run.attention("test")
    assert [each.source_words for each in found] == [pair.source.split() for pair in pairs]
    assert [each.target_words for each in found] == [pair.reference.split() for pair in pairs]
    links = [argmax_links(torch.from_numpy(each.attention)) for each in found]
    assert links == attention.links()
    assert {each.tau_erasure.shape for each in found} == {
        (len(pair.reference.split()),) for pair in pairs
    }
    of_translations = run.attributions("test", target="translation")
    assert [" ".join(each.target_words) for each in of_translations] == [
        " ".join(pair.translation.split()) for pair in pairs
    ]


def test_run_without_gold_links_or_a_test_set_says_so(tmp_path):
    tiny_run(tmp_path, "training.max_updates=1", "data.test=null")
    other = load_run(tmp_path / "runs" / "tiny")

    assert {pair.gold for pair in other.pairs("valid")} == {None}
    assert other.gold("valid") == []
    with pytest.raises(FileNotFoundError, match=r"test\.src"):
        other.pairs("test")


def test_a_further_validation_set_is_found_by_its_name(tmp_path):
    write_corpus(tmp_path)
    sets = {name: f"['{tmp_path}/a.{name}','{tmp_path}/b.{name}']" for name in ("valid", "test")}
    several = f"data.valid={{first: {sets['valid']}, talks: {sets['test']}}}"
    tiny_run(tmp_path, several, "training.max_updates=1", "overwrite=true")
    run = load_run(tmp_path / "runs" / "tiny")

    assert run.pairs("valid.talks") == run.pairs("test")
    assert run.attention("valid.talks").statistics() == run.attention("test").statistics()


def test_an_unknown_target_is_refused(run):
    with pytest.raises(ValueError, match=r"^target=source is unknown; choose reference or transl"):
        run.attention("test", target="source")


def test_line_separators_in_a_sentence_do_not_split_it(tmp_path, run):
    for name in ("config.yaml", "results.json"):
        (tmp_path / name).write_bytes((run.path / name).read_bytes())
    for kind in ("src", "hyp", "ref"):
        (tmp_path / f"test.{kind}").write_text("a\u2028b\r\n\n", encoding="utf-8", newline="")

    assert [pair.source for pair in load_run(tmp_path).pairs()] == ["a\u2028b\r", ""]


def test_directory_without_a_finished_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.yaml"):
        load_run(tmp_path)


def test_files_that_do_not_fit_each_other_are_refused(run, tmp_path):
    copied = shutil.copytree(run.path, tmp_path / "copied")
    (copied / "valid.hyp").write_text("x\n")
    lines = (copied / "test.gold").read_text().splitlines()
    (copied / "test.gold").write_text("\n".join([*lines[:-1], "99-0"]) + "\n")
    changed = load_run(copied)

    with pytest.raises(ValueError, match=r"valid\..*have different numbers of lines; train"):
        changed.pairs("valid")
    with pytest.raises(
        ValueError, match=rf"test\.gold:{len(lines)}: link 99-0 lies outside the pair"
    ):
        changed.pairs()


PAIRS = [("ab cd", "ab c"), ("efg", "h a bc")]
GOLD = [GoldLinks(links, links) for links in (frozenset({(0, 0), (1, 1)}), frozenset({(0, 2)}))]


@pytest.fixture(scope="module")
def attention():
    return attend(make_translator("multihead"), PAIRS)


def test_each_head_has_links_and_an_error_rate_of_its_own(attention):
    heads = attention.statistics(GOLD)

    of_heads = [attention.links(head=number) for number in (1, 2, 3, 4)]
    rates = [alignment_error_rate(links, GOLD) for links in of_heads]
    assert [head["aer"] for head in heads] == rates
    assert any(links != attention.links() for links in of_heads)
    assert "aer" not in attention.statistics()[0]


@pytest.mark.parametrize("head", [-1, 0, 5])
def test_a_head_that_does_not_exist_is_named(attention, head):
    with pytest.raises(ValueError, match=f"^head={head} must be from 1 to 4; numbering"):
        attention.links(head=head)


@pytest.mark.parametrize("number", [0, 1])
def test_gold_links_of_another_corpus_are_refused(attention, number):
    for method in (attention.statistics, attention.alignment_error_rate):
        with pytest.raises(ValueError, match=r"is (shorter|longer)"):
            method(GOLD[:number])


def test_figures_have_a_panel_for_each_head_and_each_statistic(attention):
    assert len(attention.figure(1).axes) == attention.translator.num_heads
    panels = len(attention.head_figure().axes)
    assert len(attention.head_figure(GOLD).axes) == panels + 1


def test_model_without_attention_has_no_statistics_and_no_links():
    attention = attend(make_translator("none"), PAIRS)

    assert attention.statistics() == []
    with pytest.raises(ValueError, match="attention without heads"):
        attention.links()


def test_an_intervention_that_changes_nothing_loses_nothing_in_the_precision_of_the_run(tmp_path):
    write_corpus(tmp_path)
    for name in ("a.test", "b.test"):  # a translator of text would split, copy and recase
        (tmp_path / name).write_text("ab. Bc dea. Cb.\n12:30\nDEA BC DA\n" * 3)
    tiny_run(tmp_path, "attention=uniform", "training.precision=bf16", "training.max_updates=2")

    same = load_run(tmp_path / "runs" / "tiny", device="cpu").intervene("uniform")

    assert (same.bleu_lost, same.changed_words) == (0, 0)
    assert same.perplexity_factor == pytest.approx(1, abs=1e-7)


def test_a_cpu_intervenes_in_fp32_in_a_run_in_tf32(run, monkeypatch):
    expected = run.intervene("uniform").perplexity
    monkeypatch.setitem(run.results, "precision", "tf32")

    assert run.intervene("uniform").perplexity == expected


def test_intervention_translates_scores_and_keeps_the_model(run):
    before = run.results["test"]["perplexity"]

    uniform = run.intervene("uniform")

    pairs = run.pairs("test")
    assert [each.source for each in uniform.translations] == [pair.source for pair in pairs]
    assert uniform.perplexity / uniform.perplexity_factor == pytest.approx(before, rel=1e-4)
    assert uniform.bleu + uniform.bleu_lost == pytest.approx(run.results["test"]["bleu"], abs=1e-6)
    for each in uniform.references:
        weights = each.best.attention_weights
        assert_close(weights, torch.full_like(weights, 1 / weights.shape[-1]))
    assert not torch.equal(
        run.attention().translations[0].best.attention_weights,
        uniform.references[0].best.attention_weights,
    )
