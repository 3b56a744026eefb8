import json
import shutil

import pytest

from seq2seq.export.folder import FORMAT, read_runtime
from seq2seq.export.translator import OnnxTranslator
from seq2seq.files.paths import ReadingError, file_sha256


@pytest.fixture
def folder(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "folder")


def change(folder, **values):
    path = folder / "runtime.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"1", b'"a"', b"\xff", b"{}", b'{"format": 2}', b"[" * 200_000],
    ids=repr,
)
def test_damaged_description_is_one_line(folder, content):
    (folder / "runtime.json").write_bytes(content)

    with pytest.raises(ReadingError, match=f"^{folder}: ") as error:
        OnnxTranslator.load(folder)

    assert len(str(error.value)) < 1000 and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 9, f"format 9, but this version reads {FORMAT}"),
        ("decoding", None, "is not subscriptable"),
        ("files", {}, "'encoder.onnx'$"),
        ("num_heads", -1, "num_heads=-1 must be at least 0"),
        ("precision", "int4", "precision='int4' must be one of"),
        ("decoding", {"name": "mbr"}, "'mbr'$"),
        ("decoding", {"name": "greedy", "beam_size": 3}, "unexpected keyword argument 'beam_size'"),
        (
            "decoding",
            {"name": "beam", "beam_size": "5"},
            "beam_size='5' must be an integer",
        ),
        ("decoding", {"name": "beam", "coverage_penalty": 0.2}, "decoding.coverage_penalty=0.2"),
    ],
)
def test_value_that_this_version_lacks_is_named(folder, key, value, message):
    change(folder, **{key: value})

    with pytest.raises(ValueError, match=message):
        read_runtime(folder)


@pytest.mark.parametrize("name", ["encoder.onnx", "step.onnx", "source.spm", "target.spm"])
def test_missing_or_changed_file_is_named(folder, name):
    (folder / name).write_bytes(b"graph")
    with pytest.raises(ValueError, match=f"{name} has SHA-256 .*; export it again"):
        read_runtime(folder)

    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        read_runtime(folder)


@pytest.mark.parametrize("name", ["encoder.onnx", "step.onnx", "source.spm", "target.spm"])
@pytest.mark.parametrize("content", ["half", "empty", "step.onnx"])
def test_wrong_file_with_a_new_hash_is_one_line(folder, exported, name, content):
    whole = (folder / name).read_bytes()
    parts = {"half": whole[: len(whole) // 2], "empty": b""}
    other = parts[content] if content in parts else (folder / content).read_bytes()
    (folder / name).write_bytes(other)
    if other == whole:
        return
    change(folder, files=read_runtime(exported).files | {name: file_sha256(folder / name)})

    with pytest.raises(ReadingError, match=f"^{folder}: ") as error:
        OnnxTranslator.load(folder)

    assert "\n" not in str(error.value)


def test_card_and_checkpoint_may_be_edited_and_removed(folder, exported):
    (folder / "README.md").write_text("edited")
    (folder / "best.pt").unlink()

    [found] = OnnxTranslator.load(folder)(["ein hund"])

    assert found.text == OnnxTranslator.load(exported)(["ein hund"])[0].text
