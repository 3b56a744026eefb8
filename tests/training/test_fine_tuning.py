import json
from dataclasses import replace

import pytest
import torch
from same_run import is_equal
from tiny_training import tiny_config, tiny_run, write_corpus

from seq2seq.config.serialization import load_saved_config
from seq2seq.inference.checkpoint import average_files, load_checkpoint, save_checkpoint
from seq2seq.inference.translator import Translator
from seq2seq.training.preparation import prepare_data
from seq2seq.training.resume import load_initial_checkpoint
from seq2seq.training.run import run_training
from seq2seq.training.trainer import Trainer

GENERAL = ("training.max_updates=3", "model.dropout=0.1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("general")
    tiny_run(folder, *GENERAL)
    return folder


@pytest.fixture(scope="module")
def general(folder):
    """Return the directory of a trained run."""
    return folder / "runs" / "tiny"


@pytest.fixture
def domain(tmp_path):
    """Return a folder with another corpus, in which the letter z is new."""
    write_corpus(tmp_path)
    for path in tmp_path.glob("[ab].train"):
        path.write_text(path.read_text().replace("a", "z"))
    return tmp_path


def initial_weights(monkeypatch, folder, *overrides: str) -> dict[str, torch.Tensor]:
    """Return the weights with which a training begins."""
    found = []

    def train(self):
        found.append({name: value.clone() for name, value in self.model.state_dict().items()})
        raise StopIteration

    with monkeypatch.context() as patch, pytest.raises(StopIteration):
        patch.setattr(Trainer, "train", train)
        tiny_run(folder, *overrides)
    return found[0]


@pytest.mark.parametrize("name", ["", "best.pt", "last.pt"])
def test_weights_and_tokenizers_are_those_of_the_checkpoint(domain, general, monkeypatch, name):
    checkpoint = load_checkpoint(general / name)
    overrides = (f"init_from='{general / name}'", "training.optimizer.name=sgd")

    weights = initial_weights(monkeypatch, domain, *overrides)

    assert is_equal(weights, checkpoint.model_state)


def test_a_run_begins_anew_on_another_corpus(domain, general):
    tiny_run(domain, f"init_from='{general}'", "training.max_updates=2")

    results = json.loads((domain / "runs" / "tiny" / "results.json").read_text())
    assert results["updates"] == 2
    best = load_checkpoint(domain / "runs" / "tiny")
    assert best.config.init_from == str(general)
    for new, old in zip(best.tokenizers, load_checkpoint(general).tokenizers, strict=True):
        assert new.state() == old.state()


def test_a_fine_tuning_is_resumed_without_its_checkpoint(domain, general, tmp_path):
    copy = tmp_path / "copy.pt"
    copy.write_bytes((general / "best.pt").read_bytes())
    constant = ("training.schedule.name=constant", f"init_from='{copy}'")
    tiny_run(domain, *constant, "training.max_updates=3")
    whole = load_checkpoint(domain / "runs" / "tiny" / "last.pt").model_state
    tiny_run(domain, *constant, "training.max_updates=1", "overwrite=true")
    copy.unlink()

    tiny_run(domain, *constant, "training.max_updates=3", "resume=true")

    assert is_equal(load_checkpoint(domain / "runs" / "tiny" / "last.pt").model_state, whole)


@pytest.mark.parametrize("is_tagged", [False, True])
def test_a_warning_names_the_tags_that_the_sources_lack(
    general, folder, tmp_path, caplog, is_tagged
):
    checkpoint = load_checkpoint(general)
    files = checkpoint.config.data.train
    checkpoint.config.data.train = {"b": {"files": files, "tag": "<2b>"}}
    save_checkpoint(tmp_path / "tagged.pt", checkpoint)
    config = tiny_config(folder, f"init_from='{tmp_path}/tagged.pt'")
    config.data.train = checkpoint.config.data.train if is_tagged else files

    load_initial_checkpoint(config)

    warnings = [each for each in caplog.messages if "begin with a tag (<2b>), but" in each]
    assert len(warnings) == (not is_tagged)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("attention=general", r"attention\.name \(additive -> general\)"),
        ("model.decoder.hidden_size=9", r"model\.decoder\.hidden_size \(8 -> 9\)"),
        ("model.form=conditional", r"model\.form \(bahdanau -> conditional\)"),
        ("tokenizer=words", r"tokenizer\.name \(characters -> words\)"),
    ],
)
def test_what_does_not_fit_is_named_before_data_are_read(folder, general, override, named):
    config = tiny_config(folder, f"init_from='{general}'", override)
    config.data.train = ["missing", "missing"]

    with pytest.raises(ValueError, match=rf"^init_from=.* does not fit: .*{named}.*; give these"):
        run_training(config, folder / "runs" / "new")


@pytest.mark.parametrize("path", ["missing.pt", "config.yaml"])
def test_a_file_that_is_no_checkpoint_is_refused(folder, general, path):
    config = tiny_config(folder, f"init_from='{general / path}'")

    with pytest.raises((OSError, ValueError), match=path):
        load_initial_checkpoint(config)


def test_vectors_are_refused(folder, general):
    config = tiny_config(folder, f"init_from='{general}'", "model.encoder.vectors=glove.txt")

    with pytest.raises(ValueError, match=r"remove model\.encoder\.vectors"):
        load_initial_checkpoint(config)


@pytest.mark.parametrize("tied", ["decoder", "all"])
def test_a_restricted_target_is_trained_saved_averaged_and_fine_tuned(tmp_path, tied):
    restricted = (
        "tokenizer=unigram",
        "tokenizer.vocabulary_size=26",
        f"model.tied_embeddings={tied}",
        "training.max_updates=2",
    )
    # The source has words that the target lacks, and the other way round.
    write_corpus(tmp_path)
    source = tmp_path / "a.train"
    source.write_text(source.read_text().replace("a", "xy"))
    other = tmp_path / "other"
    write_corpus(other)
    target = other / "b.train"
    target.write_text(target.read_text().replace("a", "x"))

    tiny_run(tmp_path, *restricted)

    run = tmp_path / "runs" / "tiny"
    checkpoint = load_checkpoint(run / "last.pt")
    size = len(checkpoint.tokenizers.target)
    model = checkpoint.build_model()
    assert size < len(checkpoint.tokenizers.source) == len(model.encoder.embedding.weight)
    assert len(model.decoder.output.weight) == len(model.decoder.output.bias) == size
    average_files([run / "last.pt", run / "best.pt"], output=tmp_path / "average.pt")
    average = load_checkpoint(tmp_path / "average.pt").model_state
    assert is_equal(average, average | model.state_dict())
    paths = [run / "last.pt", tmp_path / "average.pt"]
    texts = [Translator.load(each)(["ab"])[0].text for each in (paths, paths[0])]
    assert texts[0] == texts[1]
    tiny_run(other, *restricted, f"init_from='{run / 'last.pt'}'")
    tuned = load_checkpoint(other / "runs" / "tiny" / "last.pt")
    assert len(tuned.tokenizers.target) == size
    turned = ("data.source=b", "data.target=a", f"init_from='{run}'")
    with pytest.raises(ValueError, match=r"^init_from=.* not fit: data\.target \(b -> a\);"):
        load_initial_checkpoint(tiny_config(tmp_path, *restricted, *turned))


def test_a_run_records_the_tokenizers_that_it_took_from_a_checkpoint(tmp_path, caplog):
    overrides = ("tokenizer=unigram", "training.max_updates=1")
    first = (*overrides, "tokenizer.vocabulary_size=26")
    tiny_run(tmp_path / "general", *first)
    general = tmp_path / "general" / "runs" / "tiny"
    other = (
        f"init_from='{general}'",
        *overrides,
        "tokenizer.vocabulary_size=30",
        "tokenizer.normalization=nmt_nfkc",
        "tokenizer.sampling_alpha=0.2",
    )

    tiny_run(tmp_path, *other)

    [warning] = [each for each in caplog.messages if each.startswith("init_from: the tokenizers")]
    assert "tokenizer.vocabulary_size (26 -> 30)" in warning
    run = tmp_path / "runs" / "tiny"
    expected = replace(load_checkpoint(general).config.tokenizer, sampling_alpha=0.2)
    tiny_run(tmp_path, *other, "training.max_updates=2", "resume=true")
    for config in (load_checkpoint(run / "last.pt").config, load_saved_config(run / "config.yaml")):
        assert config.tokenizer == expected


@pytest.mark.parametrize(
    "tokenizers",
    [
        ("tokenizer=characters",),
        ("tokenizer=unigram", "tokenizer.vocabulary_size=20", "tokenizer.joint=false"),
    ],
)
def test_ids_that_the_languages_do_not_share_are_refused_with_one_matrix(tmp_path, tokenizers):
    write_corpus(tmp_path)
    source = tmp_path / "a.train"
    source.write_text(source.read_text().replace("a", "x"))
    config = tiny_config(tmp_path, *tokenizers, "model.tied_embeddings=all")

    with pytest.raises(ValueError, match=r"^model\.tied_embeddings=all needs one vocabulary"):
        run_training(config, tmp_path / "runs" / "tiny")
    assert not (tmp_path / "runs" / "tiny" / "config.yaml").exists()


def test_embeddings_begin_with_the_vectors_of_a_file(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    file = tmp_path / "vectors.txt"
    file.write_text("a 1 2 3 4 5 6 7\nno 1 1 1 1 1 1 1\nc 7 6 5 4 3 2 1\n")

    drawn, filled = (
        initial_weights(monkeypatch, tmp_path, f"model.encoder.vectors={each}", "overwrite=true")
        for each in ("null", file)
    )

    expected = drawn["encoder.embedding.weight"].clone()
    tokenizer = prepare_data(tiny_config(tmp_path)).tokenizers.source
    labels = tokenizer.tokens(range(len(tokenizer)))
    expected[labels.index("a")] = torch.arange(1.0, 8.0)
    expected[labels.index("c")] = torch.arange(7.0, 0.0, -1)
    assert is_equal(filled, drawn | {"encoder.embedding.weight": expected})
    assert f"model.encoder.vectors: 2 of {len(labels)} tokens found" in caplog.messages
