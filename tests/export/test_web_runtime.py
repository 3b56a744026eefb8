import hashlib
import io
import tarfile

import pytest

from seq2seq.export import web_runtime
from seq2seq.export.web_runtime import load_web_runtime

MODULE = "/*! licence */var a=1,b=2;export{a as env,b as default};\n//# sourceMappingURL=x.map\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a small package in the place of the downloaded one."""
    path = tmp_path / web_runtime.URL.rpartition("/")[2]
    contents = {
        "package/dist/ort.wasm.bundle.min.mjs": MODULE.encode(),
        "package/dist/ort-wasm-simd-threaded.wasm": b"\0asm",
        "package/other": b"other",
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    monkeypatch.setattr(web_runtime, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_files_come_from_the_package(package):
    runtime = load_web_runtime(package.parent)

    assert runtime.wasm == b"\0asm"
    assert runtime.script == "/*! licence */var a=1,b=2;globalThis.ort={env:a,default:b};\n\n"


def test_another_package_is_refused(package):
    package.write_bytes(b"other")

    with pytest.raises(ValueError, match="instead of"):
        load_web_runtime(package.parent)


def test_failed_download_is_one_line_that_names_the_place(tmp_path, monkeypatch):
    monkeypatch.setattr(web_runtime, "URL", "http://127.0.0.1:9/onnxruntime-web.tgz")
    monkeypatch.setattr("seq2seq.data.multi30k.RETRY_WAIT", 0)

    with pytest.raises(ConnectionError) as error:
        load_web_runtime(tmp_path)

    assert str(error.value).endswith(
        f"copy the file to {tmp_path / 'onnxruntime-web.tgz'} yourself"
    )
    assert "\n" not in str(error.value)
