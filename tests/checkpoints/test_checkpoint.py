import dataclasses
import io
import os
import pickle
from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceTrainer
from tiny_translator import make_checkpoint

from seq2seq.checkpoints.checkpoint import (
    FORMAT,
    Checkpoint,
    TrainingState,
    load_checkpoint,
    load_checkpoints,
    save_checkpoint,
)
from seq2seq.config.serialization import config_to_dict
from seq2seq.data import (
    CharacterTokenizer,
    SentencePieceTokenizer,
    TokenizerPair,
    WordTokenizer,
)
from seq2seq.version import __version__


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return make_checkpoint()


@pytest.fixture
def path(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "best.pt", checkpoint)
    return tmp_path / "best.pt"


class Evil:
    """Code that pickle would run on loading."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_loaded_checkpoint_equals_the_saved_one(checkpoint, path):
    loaded = load_checkpoint(path)

    assert config_to_dict(loaded.config) == config_to_dict(checkpoint.config)
    assert loaded.tokenizers.source.encode(["a bc"]) == checkpoint.tokenizers.source.encode(
        ["a bc"]
    )
    assert loaded.model_state.keys() == checkpoint.model_state.keys()
    for name, value in checkpoint.model_state.items():
        assert torch.equal(loaded.model_state[name], value)
    assert loaded.training_state is None


def test_the_training_state_is_loaded(checkpoint, tmp_path):
    state: TrainingState = {
        "fingerprint": "1f",
        "progress": {"best": [(0.5, 3)]},
        "updater": {"optimizer": {"state": {0: {"step": torch.tensor(3.0)}}}},
    }
    checkpoint = make_checkpoint()
    checkpoint.training_state = state

    save_checkpoint(tmp_path / "last.pt", checkpoint)

    loaded = load_checkpoint(tmp_path / "last.pt").training_state
    assert loaded == state


def test_a_file_has_only_tensors_and_plain_types(path):
    content = torch.load(path, weights_only=True)

    assert content.keys() == {
        "format",
        "version",
        "config",
        "tokenizers",
        "model",
        "training",
    }
    assert (content["format"], content["version"]) == (FORMAT, __version__)


def test_the_model_is_built_with_its_weights_in_evaluation_mode(checkpoint, path):
    model = load_checkpoint(path).build_model()

    assert not model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, checkpoint.model_state[name])


def test_a_directory_means_its_best_checkpoint(path):
    assert (
        load_checkpoint(path.parent).model_state.keys() == load_checkpoint(path).model_state.keys()
    )


def test_a_path_may_begin_with_the_home_directory(path, monkeypatch):
    monkeypatch.setenv("HOME", str(path.parent))

    assert load_checkpoint("~/best.pt").config == load_checkpoint(path).config


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"checkpoint=.*best\.pt: no such file; train one"):
        load_checkpoint(tmp_path)


def test_the_home_of_an_unknown_user_is_refused():
    with pytest.raises(ValueError, match=r"^checkpoint=~nobodyatall/a: ~nobodyatall is not a home"):
        load_checkpoint("~nobodyatall/a")


@pytest.mark.parametrize("size", [0, 1, 10, 100, 0.3, 0.5, 0.9, 0.999])
def test_a_cut_file_is_an_error_that_names_it(path, size):
    content = path.read_bytes()
    path.write_bytes(content[: size if isinstance(size, int) else int(size * len(content))])

    with pytest.raises(ValueError, match=rf"^checkpoint={path} is not a checkpoint of train\.py"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "content",
    [
        b"ein hund\n",
        b"\x80\x02.",
        b"\x80\x04\x95",
        b"PK\x03\x04 not a zip file",
        b"(lp0\n",
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x00" * 300,
        "\u00e4\u00f6\u00fc".encode("latin-1") * 30,
    ],
)
def test_a_foreign_file_is_an_error_that_names_it(tmp_path, content):
    path = tmp_path / "x.pt"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=rf"^checkpoint={path} is not a checkpoint of train\.py"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    "content", [{"weights": torch.ones(2)}, torch.ones(3), [1, 2], {"format": FORMAT}]
)
def test_a_file_of_another_program_is_an_error_that_names_it(tmp_path, content):
    path = tmp_path / "x.pt"
    torch.save(content, path)

    with pytest.raises(ValueError, match=rf"^checkpoint={path} is not a checkpoint of train\.py"):
        load_checkpoint(path)


def test_another_format_is_an_error_with_both_numbers(path):
    content = torch.load(path, weights_only=True)
    torch.save({**content, "format": 7}, path)

    with pytest.raises(ValueError, match=rf"has format 7, this version reads {FORMAT}"):
        load_checkpoint(path)


def test_an_attention_that_this_version_lacks_is_an_error_with_the_choices(path):
    content = torch.load(path, weights_only=True)
    content["config"]["attention"]["name"] = "unheard"
    torch.save(content, path)

    with pytest.raises(ValueError, match="unknown attention 'unheard'; one of: additive, cov"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("version", "hint"),
    [(__version__, ""), ("9.9", rf" \(version 9\.9 wrote it, this is version {__version__}\)")],
)
def test_a_key_that_this_version_lacks_is_an_error(path, version, hint):
    content = torch.load(path, weights_only=True)
    content["config"]["model"]["encoder"]["depth"] = 3
    torch.save({**content, "version": version}, path)

    message = (
        rf"^checkpoint={path}: this version cannot read the configuration[^()]*depth[^()]*{hint}$"
    )
    with pytest.raises(ValueError, match=message):
        load_checkpoint(path)


def test_a_key_of_training_that_this_version_lacks_is_dropped(path, checkpoint):
    content = torch.load(path, weights_only=True)
    content["config"]["training"]["unheard"] = 3
    torch.save(content, path)

    assert load_checkpoint(path).config == checkpoint.config


def test_code_in_a_file_is_refused_and_not_run(tmp_path):
    path, trace = tmp_path / "x.pt", tmp_path / "trace"
    torch.save({"format": FORMAT, "evil": Evil(trace)}, path)

    with pytest.raises(ValueError, match="is not a checkpoint of train"):
        load_checkpoint(path)

    assert not trace.exists()
    with path.open("rb") as file:
        torch.load(file, weights_only=False)
    assert trace.exists()  # it would have run


def test_code_in_a_plain_pickle_is_refused_and_not_run(tmp_path):
    path, trace = tmp_path / "x.pt", tmp_path / "trace"
    path.write_bytes(pickle.dumps(Evil(trace)))

    with pytest.raises(ValueError, match="is not a checkpoint of train"):
        load_checkpoint(path)

    assert not trace.exists()


@pytest.mark.parametrize("step", ["torch.save", "os.fsync"])
def test_a_crash_while_saving_leaves_the_old_file(path, monkeypatch, step):
    before = path.read_bytes()

    def crash(*arguments: object) -> None:
        raise KeyboardInterrupt

    module, name = step.split(".")
    monkeypatch.setattr({"torch": torch, "os": os}[module], name, crash)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, make_checkpoint(seed=9))

    assert path.read_bytes() == before


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_the_old_one(checkpoint, path):
    resource = pytest.importorskip("resource")
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))

    try:
        with pytest.raises(OSError, match="File too large") as refused:
            save_checkpoint(path, checkpoint)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert refused.value.filename == str(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_saving_again_replaces_the_file_and_leaves_no_other(path):
    save_checkpoint(path, make_checkpoint(seed=9))

    assert [each.name for each in path.parent.iterdir()] == ["best.pt"]
    expected = make_checkpoint(seed=9).model_state
    loaded = load_checkpoint(path).model_state
    assert all(torch.equal(loaded[name], value) for name, value in expected.items())


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
def test_a_file_with_a_flipped_byte_is_refused_or_still_right(checkpoint, path, share):
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 0xFF
    path.write_bytes(content)

    try:
        loaded = load_checkpoint(path)
    except ValueError as error:
        assert str(path) in str(error)
    else:  # the byte was padding
        for name, value in checkpoint.model_state.items():
            assert torch.equal(loaded.model_state[name], value)


@pytest.mark.parametrize("tokenizers", [{}, {"source": 1, "target": 2}, None])
def test_invalid_tokenizers_are_an_error_that_names_the_file(path, tokenizers):
    content = torch.load(path, weights_only=True)
    torch.save({**content, "tokenizers": tokenizers}, path)

    with pytest.raises(ValueError, match=f"checkpoint={path} is not a checkpoint of train.py"):
        load_checkpoint(path)


@pytest.mark.parametrize("weights", [{}, {"encoder.embedding.weight": torch.zeros(1)}, None])
def test_weights_of_another_model_are_refused(path, weights):
    content = torch.load(path, weights_only=True)
    torch.save({**content, "model": weights}, path)

    with pytest.raises(ValueError, match=rf"^checkpoint={path}: the weights do not fit the model"):
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


def characters(text):
    return CharacterTokenizer(text)


def words(*listed, lowercase=False):
    return WordTokenizer(listed, tokenizer="basic_english", language="en", lowercase=lowercase)


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


@pytest.mark.parametrize(
    "make", [lambda: characters("abc"), lambda: words("a", "b"), lambda: tokens("abc d")]
)
def test_checkpoints_with_equal_tokenizers_keep_their_order(make, load):
    found = load((make(), characters("ab")), (make(), characters("ab")))

    assert len(found) == 2
    assert [len(each.tokenizers.source) for each in found] == [len(make())] * 2


def test_one_shared_tokenizer_equals_two_equal_ones(load):
    joint = characters("abc")

    assert len(load((joint, joint), (characters("abc"), characters("abc")))) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: characters("abc"), lambda: characters("abd")),
        (lambda: characters("abc"), lambda: characters("acb")),
        (lambda: characters("abc"), lambda: words("a", "b", "c")),
        (lambda: words("a"), lambda: words("a", lowercase=True)),
        (lambda: tokens("abc d"), lambda: tokens("abx d")),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_another_tokenizer_is_refused(first, second, side, load):
    pairs = [[tokenizer(), characters("xy")] for tokenizer in (first, first, second)]

    with pytest.raises(ValueError, match=r"2\.pt has other tokenizers than checkpoint=\S*0\.pt;"):
        load(*(pair if side == 0 else pair[::-1] for pair in pairs))


def test_a_configuration_that_contains_itself_is_refused(checkpoint, tmp_path):
    save_checkpoint(tmp_path / "best.pt", checkpoint)
    content = torch.load(tmp_path / "best.pt", weights_only=True)
    content["config"]["model"]["encoder"] = content["config"]
    torch.save(content, tmp_path / "best.pt")

    with pytest.raises(ValueError, match=r"best\.pt: .*cannot read the configuration"):
        load_checkpoint(tmp_path)
