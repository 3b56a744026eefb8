"""onnxruntime-web, which runs the graphs in a browser; downloaded at first use."""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from seq2seq.files.paths import check_sha256

VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web-{VERSION}.tgz"
SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
_FOLDER = "package/dist"
_MODULE = f"{_FOLDER}/ort.wasm.bundle.min.mjs"
_WASM = f"{_FOLDER}/ort-wasm-simd-threaded.wasm"
_EXPORTS = re.compile(r"export\{([^}]*)\};")
_MAP = re.compile(r"//# sourceMappingURL=.*")


class WebRuntime(NamedTuple):
    """The files of onnxruntime-web that a page contains."""

    script: str
    """JavaScript module that sets `globalThis.ort`."""
    wasm: bytes


def load_web_runtime(cache_dir: Path) -> WebRuntime:
    """Read onnxruntime-web from its package; download the package (33 MB) if it is missing.

    The package is published only on npm, so npm downloads it.

    Args:
        cache_dir: The directory that keeps the package.

    Raises:
        ValueError: The package has another hash.
        OSError: There is no npm, or it cannot download the package.
    """
    path = cache_dir / PACKAGE
    if not path.exists():
        _download(path)
    check_sha256(path, SHA256, "delete it to download it again")
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name in (_MODULE, _WASM) and (file := archive.extractfile(member)):
                found[member.name] = file.read()
    return WebRuntime(_as_global(found[_MODULE].decode()), found[_WASM])


def _download(path: Path) -> None:
    """Download the package; it is complete or absent."""
    command = ["npm", "pack", f"onnxruntime-web@{VERSION}"]
    advice = f"run {' '.join(command)} where npm works, and copy {PACKAGE} to {path.parent}"
    path.parent.mkdir(parents=True, exist_ok=True)
    npm, fault = shutil.which(command[0]), "npm is not installed"
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        if npm is not None:
            command[0] = npm
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            lines = [line for line in done.stderr.splitlines() if "npm error" in line]
            fault = (lines or ["npm"])[0] if done.returncode else ""
        if fault:
            raise ConnectionError(f"{fault}: onnxruntime-web was not downloaded; {advice}")
        Path(folder, PACKAGE).replace(path)


def _as_global(module: str) -> str:
    """Replace the exports of a module by a global object.

    A page can import a module only from an address. As a script in the page, the module is covered
    by a hash in the content security policy.
    """
    exports = _EXPORTS.search(module)
    assert exports is not None, "the package has a known hash"
    names = (name.split(" as ") for name in exports[1].split(","))
    properties = ",".join(f"{public}:{private}" for private, public in names)
    script = _EXPORTS.sub(f"globalThis.ort={{{properties}}};", module)
    return _MAP.sub("", script)


if __name__ == "__main__":  # the tests and the documentation use the package if it is installed
    try:
        load_web_runtime(Path(sys.argv[1]))
    except (OSError, ValueError) as error:
        sys.exit(f"cannot build pages that translate: {error}")
