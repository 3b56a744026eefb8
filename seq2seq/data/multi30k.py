"""Multi30k (Elliott et al. 2016), image captions in four languages; downloaded at first use."""

import hashlib
import logging
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from seq2seq.data.config import Multi30kConfig
from seq2seq.data.corpus import Corpora, Corpus, register_data
from seq2seq.data.files import read_files
from seq2seq.files.atomic import whole_file
from seq2seq.files.paths import expand_home, reading

logger = logging.getLogger(__name__)

_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_TIMEOUT = 30.0
"""Maximum number of seconds to wait for the connection, and for each part of the answer."""

_CHECKSUMS = Path(__file__).with_suffix(".sha256").read_text(encoding="ascii")
SHA256 = {name: sha256 for sha256, name in map(str.split, _CHECKSUMS.splitlines())}
"""SHA-256 of each file that the source offers."""


@register_data(Multi30kConfig, "multi30k")
def load_multi30k(config: Multi30kConfig) -> Corpora:
    """Open the corpora of two languages; download missing files.

    Raises:
        ValueError: There is no such language or test set, or a file has another hash or cannot be
            downloaded.
    """
    _check_names(config)
    train, valid, test = (
        _load_part(config, name=name, prefix=prefix)
        for name, prefix in (("train", "train"), ("valid", "val"), ("test", config.test))
    )
    return Corpora(train=train, valid=valid, test=test)


def _load_part(config: Multi30kConfig, *, name: str, prefix: str) -> Corpus:
    root = expand_home(config.root, key="data.root")
    file_names = [f"{prefix}.{language}.gz" for language in (config.source, config.target)]
    for file_name in file_names:
        fetch(f"{_URL}/{file_name}", path=root / file_name, sha256=SHA256[file_name])
    return read_files(
        name,
        paths=[root / file_name for file_name in file_names],
        skips_invalid=name == "train",
    )


def fetch(url: str, *, path: Path, sha256: str) -> None:
    """Download a file of a few megabytes unless it exists; it is complete or absent.

    Several processes may download the same file at once.

    Raises:
        ValueError: The file has another SHA-256, or the server cannot be reached or does not send
            it.
    """
    exists = path.exists()
    if exists:
        content = path.read_bytes()
    else:
        logger.info("downloading %s; without a network, copy it to %s or set data.root", url, path)
        with reading(url):
            try:
                with urlopen(url, timeout=_TIMEOUT) as answer:
                    content = answer.read()
            except HTTPError as error:
                error.close()  # otherwise it keeps the connection open
                raise
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise ValueError(
            f"{path if exists else url} has SHA-256 {found} instead of {sha256}; put the right "
            f"file at {path}, or name a directory that has it with data.root=DIR"
        )
    if not exists:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(content)


def _check_names(config: Multi30kConfig) -> None:
    """Raise ValueError unless the files of both languages exist."""
    for prefix in ("train", config.test):
        for language in (config.source, config.target):
            is_test = config.test.startswith("test") and config.source != config.target
            if not is_test or f"{prefix}.{language}.gz" not in SHA256:
                known = ", ".join(name.removesuffix(".gz") for name in SHA256)
                raise ValueError(
                    f"data.source={config.source}, data.target={config.target} and "
                    f"data.test={config.test} do not exist together; Multi30k has {known}"
                )
