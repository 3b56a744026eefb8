"""A checkpoint is one file that restores a model, is refused by name, and runs no code."""

import dataclasses
import io
import math
from pathlib import Path

import pytest
import torch
from same_run import is_equal
from sentencepiece import SentencePieceTrainer
from tiny_translator import SENTENCES, make_checkpoint

from seq2seq.data.config import Splitter
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.sentencepiece import SentencePieceTokenizer
from seq2seq.data.tokenizers.words import CharacterTokenizer, WordTokenizer
from seq2seq.inference.checkpoint import (
    FORMAT,
    Checkpoint,
    TrainingState,
    average_checkpoints,
    average_files,
    load_checkpoint,
    load_checkpoints,
    save_checkpoint,
)
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Device
from seq2seq.version import __version__


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return make_checkpoint()


@pytest.fixture(scope="module")
def content(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "best.pt"
    save_checkpoint(path, checkpoint)
    return path.read_bytes()


@pytest.fixture
def path(content: bytes, tmp_path: Path) -> Path:
    (tmp_path / "best.pt").write_bytes(content)
    return tmp_path / "best.pt"


@pytest.fixture
def edit(path: Path):
    """Return a function that changes keys of the file."""

    def change(**values: object) -> None:
        torch.save({**torch.load(path, weights_only=True), **values}, path)

    return change


STATE: TrainingState = {
    "fingerprint": "1f",
    "valid_fingerprint": "2f",
    "progress": {"best": [(0.5, 3)]},
    "updater": {"optimizer": {"state": {0: {"step": torch.tensor(3.0)}}}},
}


@pytest.mark.parametrize("state", [None, STATE], ids=["best.pt", "last.pt"])
def test_a_loaded_checkpoint_equals_the_saved_one(checkpoint, tmp_path, state):
    save_checkpoint(tmp_path / "a.pt", dataclasses.replace(checkpoint, training_state=state))

    loaded = load_checkpoint(tmp_path / "a.pt")

    assert loaded.config == checkpoint.config
    for own, saved in zip(loaded.tokenizers, checkpoint.tokenizers, strict=True):
        assert own.state() == saved.state()
    assert is_equal(loaded.model_state, checkpoint.model_state)
    assert loaded.training_state == state
    model = loaded.build_model()
    assert not model.training
    assert is_equal(model.state_dict(), checkpoint.model_state)


def test_a_file_has_only_tensors_and_plain_types(path):
    content = torch.load(path, weights_only=True)

    keys = {"format", "version", "config", "tokenizers", "model", "training", "habits"}
    keys.add("confidence")
    assert content.keys() == keys
    assert (content["format"], content["version"]) == (FORMAT, __version__)


@pytest.mark.parametrize("given", ["~", "~/best.pt"])
def test_a_directory_means_its_best_checkpoint_and_may_be_the_home(path, monkeypatch, given):
    monkeypatch.setenv("HOME", str(path.parent))

    assert load_checkpoint(given).origin == f"checkpoint={path}"


@pytest.mark.parametrize(
    "write",
    [
        *[lambda whole, size=size: whole[:size] for size in (0, 1, 100)],
        *[lambda whole, at=at: whole[: int(at * len(whole))] for at in (0.5, 0.999)],
        lambda whole: b"ein hund\n",
        lambda whole: b"\x80\x02.",
        lambda whole: b"PK\x03\x04 not a zip file",
        lambda whole: b"cos\nsystem\n(S'true'\ntR.",
        lambda whole: archive({"weights": torch.ones(2)}),
        lambda whole: archive([1, 2]),
        lambda whole: archive({"format": FORMAT}),
        lambda whole: archive({"format": torch.ones(2)}),
    ],
)
def test_a_cut_or_foreign_file_is_an_error_that_names_it(path, content, write):
    path.write_bytes(write(content))

    with pytest.raises(ValueError, match=rf"^(checkpoint=)?{path}: "):
        load_checkpoint(path)


def archive(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def test_another_format_is_an_error_with_both_numbers(path, edit):
    edit(format=7)

    with pytest.raises(ValueError, match=rf"has format 7, but this version reads {FORMAT}"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("group", "key", "value", "message"),
    [
        ("attention", "name", "unheard", r"unknown attention 'unheard'; one of: add"),
        ("model", "depth", 3, "depth"),
    ],
)
def test_a_configuration_that_this_version_lacks_is_an_error(
    path, edit, group, key, value, message
):
    config = torch.load(path, weights_only=True)["config"]
    config[group][key] = value
    edit(config=config)

    with pytest.raises(ValueError, match=rf"^checkpoint={path}: .*{message}"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("tokenizers", each) for each in ({}, {"source": 1, "target": 2}, None)],
        *[("habits", each) for each in (None, {"capitals": "many"})],
    ],
)
def test_an_invalid_part_is_an_error_that_names_the_file(path, edit, key, value):
    edit(**{key: value})

    with pytest.raises(ValueError, match=f"^checkpoint={path}: "):
        load_checkpoint(path)


@pytest.mark.parametrize("weights", [{}, {"encoder.embedding.weight": torch.zeros(1)}, None])
def test_weights_of_another_model_are_refused(path, edit, weights):
    edit(model=weights)

    with pytest.raises(ValueError, match=f"^checkpoint={path}: "):
        load_checkpoint(path).build_model()


@pytest.mark.parametrize(
    "change",
    [
        *(lambda weights, dtype=each: weights.to(dtype) for each in (torch.int8, torch.complex64)),
        lambda weights: weights > 0,
        lambda weights: weights.to(torch.float8_e4m3fn),
        lambda weights: weights.masked_fill(weights > weights.median(), math.nan),
        lambda weights: weights / 0,
    ],
)
def test_weights_that_no_training_leaves_are_refused(path, edit, change):
    content = torch.load(path, weights_only=True)["model"]
    name = "encoder.embedding.weight"
    edit(model={**content, name: change(content[name])})

    with pytest.raises(ValueError, match=f"^checkpoint={path}: "):
        load_checkpoint(path).build_model()


@pytest.fixture
def load(checkpoint, tmp_path):
    """Return a function that loads a checkpoint for each pair of tokenizers."""

    def load_all(*tokenizers):
        paths = []
        for index, (source, target) in enumerate(tokenizers):
            pair = TokenizerPair(source, target)
            paths.append(tmp_path / f"{index}.pt")
            save_checkpoint(paths[-1], dataclasses.replace(checkpoint, tokenizers=pair))
        return load_checkpoints(paths)

    return load_all


def words(*listed, language="en"):
    return WordTokenizer(listed, splitter=Splitter.moses, language=language)


def tokens(line):
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([line]),
        model_writer=model,
        model_type="char",
        vocab_size=4 + len({*line}),
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return SentencePieceTokenizer(model.getvalue())


@pytest.mark.parametrize("make", [lambda: words("a", "b"), lambda: tokens("abc d")])
def test_checkpoints_with_equal_tokenizers_are_loaded_together(make, load):
    shared = make()

    assert len(load((make(), CharacterTokenizer("ab")), (make(), CharacterTokenizer("ab")))) == 2
    assert len(load((shared, shared), (make(), make()))) == 2


def test_a_checkpoint_that_is_given_twice_is_warned_of(checkpoint, tmp_path, caplog):
    save_checkpoint(tmp_path / "best.pt", checkpoint)

    load_checkpoints([tmp_path, tmp_path / "best.pt"])

    expected = f"checkpoint={tmp_path}/best.pt is given 2 times, and each counts; give it once"
    assert caplog.messages == [expected]


@pytest.mark.parametrize(
    ("first", "second", "side"),
    [
        (lambda: CharacterTokenizer("abc"), lambda: CharacterTokenizer("abd"), 0),
        (lambda: CharacterTokenizer("abc"), lambda: CharacterTokenizer("acb"), 1),
        (lambda: CharacterTokenizer("abc"), lambda: words("a", "b", "c"), 0),
        (lambda: words("a"), lambda: words("a", language="de"), 1),
        (lambda: tokens("abc d"), lambda: tokens("abx d"), 0),
    ],
)
def test_another_tokenizer_is_refused(first, second, side, load):
    pairs = [[tokenizer(), CharacterTokenizer("xy")] for tokenizer in (first, first, second)]

    with pytest.raises(
        ValueError, match=r"2\.pt has different tokenizers from checkpoint=\S*0\.pt;"
    ):
        load(*(pair if side == 0 else pair[::-1] for pair in pairs))


TIED = ("decoder.embedding.weight", "decoder.output.weight")


def scaled(checkpoint, factor):
    """Return a checkpoint of the same model with scaled weights."""
    state = {name: factor * weights for name, weights in checkpoint.model_state.items()}
    return dataclasses.replace(checkpoint, model_state=state)


def write(path, checkpoint):
    save_checkpoint(path, checkpoint)
    return str(path)


@pytest.fixture
def paths(checkpoint, tmp_path):
    """Return three files with different weights; the first one has a training state."""
    checkpoints = [scaled(checkpoint, factor) for factor in (1, -0.7, 2.3)]
    checkpoints[0] = dataclasses.replace(checkpoints[0], training_state=STATE)
    return [
        write(tmp_path / f"{name}.pt", each) for name, each in zip("abc", checkpoints, strict=True)
    ]


def test_an_average_has_the_mean_of_every_weight_and_translates(paths, tmp_path):
    average_files(paths, output=tmp_path / "mean.pt")

    mean, *others = (load_checkpoint(path) for path in (tmp_path / "mean.pt", *paths))
    states = [other.model_state for other in others]
    assert mean.model_state.keys() == states[0].keys()
    for name, weights in mean.model_state.items():
        expected = torch.stack([state[name].double() for state in states]).mean(dim=0)
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights, expected.float(), rtol=0, atol=0)
    assert mean.model_state[TIED[0]].data_ptr() == mean.model_state[TIED[1]].data_ptr()
    assert (mean.training_state, mean.config) == (None, others[0].config)
    translations = Translator.load(tmp_path / "mean.pt", device=Device.cpu).translate(SENTENCES)
    assert len(list(translations)) == len(SENTENCES)


def test_weights_that_do_not_fit_are_not_averaged(paths, tmp_path):
    damaged = {**torch.load(paths[1], weights_only=True), "model": {}}
    torch.save(damaged, paths[1])

    with pytest.raises(ValueError, match=rf"^checkpoint={paths[1]}: "):
        average_files(paths, output=tmp_path / "mean.pt")


def test_sums_are_exact(checkpoint):
    def filled(value):
        state = {
            name: torch.full_like(each, value) for name, each in checkpoint.model_state.items()
        }
        return dataclasses.replace(checkpoint, model_state=state)

    mean = average_checkpoints([filled(value) for value in (2.0**24, 1.0, 1.0)])

    bias = mean.model_state["bridge.projection.bias"]
    assert bias.tolist() == [torch.tensor((2.0**24 + 2) / 3).item()] * len(bias)


def with_layers(checkpoint):
    config = checkpoint.config
    decoder = dataclasses.replace(config.model.decoder, num_layers=2)
    return dataclasses.replace(config, model=dataclasses.replace(config.model, decoder=decoder))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_layers, "model.decoder.num_layers (1 -> 2); average checkpoints of one run"),
        (lambda each: dataclasses.replace(each.config, seed=9), "seed (1 -> 9); average"),
        (lambda each: dataclasses.replace(each.config, init_from="a.pt"), "init_from (null -> "),
        (lambda each: make_checkpoint("dot").config, "attention.name (additive -> dot), "),
    ],
)
def test_other_models_are_refused_with_both_names(change, reason, paths, checkpoint, tmp_path):
    changed = dataclasses.replace(checkpoint, config=change(checkpoint))
    other = write(tmp_path / "other.pt", changed)

    with pytest.raises(ValueError) as refused:
        average_files([paths[0], other], output=tmp_path / "mean.pt")

    expected = f"checkpoint={other} has a different model from checkpoint={paths[0]}: {reason}"
    assert str(refused.value).startswith(expected)
    assert not (tmp_path / "mean.pt").exists()


def test_an_output_that_exists_is_refused(paths, tmp_path):
    with pytest.raises(FileExistsError, match=f"^output={paths[0]} exists; choose another one$"):
        average_files(paths[1:], output=paths[0])

    assert load_checkpoint(paths[0]).training_state is not None
