import json

import pytest

from seq2seq.files.exported import FORMAT, Runtime, read_runtime, write_runtime
from seq2seq.files.paths import file_sha256


def make_runtime(**changes):
    return dict.fromkeys(Runtime.__annotations__) | {"format": FORMAT} | changes


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "step.onnx").write_bytes(b"graph")
    files = {"step.onnx": file_sha256(tmp_path / "step.onnx")}
    write_runtime(tmp_path, make_runtime(files=files))
    return tmp_path


def test_whole_folder_is_read(folder):
    assert read_runtime(folder)["format"] == FORMAT


def test_missing_folder_is_one_line(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder with a runtime\.json"):
        read_runtime(tmp_path / "missing")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"{}", b'{"format": 1}'])
def test_damaged_description_is_one_line(folder, content):
    (folder / "runtime.json").write_bytes(content)

    with pytest.raises(ValueError, match=r"runtime.json is damaged; export the model again"):
        read_runtime(folder)


def test_other_format_is_refused(folder):
    content = json.loads((folder / "runtime.json").read_text())
    (folder / "runtime.json").write_text(json.dumps(content | {"format": 9}))

    with pytest.raises(ValueError, match="has format 9, this version reads 1"):
        read_runtime(folder)


def test_missing_file_is_named(folder):
    (folder / "step.onnx").unlink()

    with pytest.raises(ValueError, match=r"lacks step.onnx"):
        read_runtime(folder)


def test_changed_file_is_named(folder):
    (folder / "step.onnx").write_bytes(b"grapf")

    with pytest.raises(ValueError, match=r"step.onnx is damaged"):
        read_runtime(folder)
