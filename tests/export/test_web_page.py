import hashlib
import io
import json
import re
import tarfile

import pytest
from tiny_export import EXAMPLES
from web_runtime_cache import CACHE, needs_web_runtime

from seq2seq.export import web_runtime
from seq2seq.export.web_page import write_page
from seq2seq.export.web_runtime import load_web_runtime


@needs_web_runtime
def test_page_describes_the_model_and_allows_no_other_script_style_or_request(page):
    text = page.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]

    assert policy.startswith("default-src 'none'")
    assert "'unsafe-inline'" not in policy
    assert "'unsafe-eval'" not in policy
    found = json.loads(re.search(r'<script type="[^"]*" id="model">([^<]*)</script>', text)[1])
    assert (found["source"], found["target"]) == ("de", "en")
    assert found["examples"] == EXAMPLES
    assert found["decoding"]["early_stopping"] == "exact"


@needs_web_runtime
def test_page_is_the_same_each_time(exported, page, tmp_path):
    path = tmp_path / "again.html"
    write_page(exported, path, runtime=load_web_runtime(CACHE), examples=EXAMPLES)

    assert path.read_bytes() == page.read_bytes()


MODULE = "/*! licence */var a=1,b=2;export{a as env,b as default};\n//# sourceMappingURL=x.map\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a small package in the place of the downloaded one."""
    path = tmp_path / web_runtime.PACKAGE
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


def install_npm(folder, monkeypatch, script):
    """Put a program called npm in the place of all others."""
    (folder / "bin").mkdir()
    path = folder / "bin" / "npm"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/bin:/usr/bin")


def test_npm_downloads_the_package_once(package, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    install_npm(
        tmp_path, monkeypatch, f'[ "$*" = "pack onnxruntime-web@1.30.0" ] && cp {package} .'
    )

    runtime = load_web_runtime(cache)
    (tmp_path / "bin" / "npm").write_text("#!/bin/sh\nexit 1\n")

    assert load_web_runtime(cache) == runtime
    assert [path.name for path in cache.iterdir()] == [package.name]


@pytest.mark.parametrize("script", [None, "echo 'npm error code ENOTFOUND' >&2; exit 1"])
def test_failed_download_is_one_line_that_names_the_place(tmp_path, monkeypatch, script):
    cache = tmp_path / "cache"
    if script is None:
        monkeypatch.setenv("PATH", "")
    else:
        install_npm(tmp_path, monkeypatch, script)

    with pytest.raises(OSError, match="onnxruntime-web") as error:
        load_web_runtime(cache)

    assert str(error.value).endswith(
        "; run npm pack onnxruntime-web@1.30.0 where npm works, and copy "
        f"onnxruntime-web-1.30.0.tgz to {cache}"
    )
    assert ("ENOTFOUND" in str(error.value)) == (script is not None)
    assert "\n" not in str(error.value)
    assert list(cache.iterdir()) == []
