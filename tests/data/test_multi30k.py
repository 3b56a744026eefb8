"""Multi30k is read from a directory, downloaded where missing, and checked by hash."""

import contextlib
import gzip
import hashlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_data import shared

from seq2seq.data import multi30k
from seq2seq.data.config import Multi30kConfig
from seq2seq.data.corpus import load_corpora

TEXT = {
    "train.de.gz": "Ein Hund.\nZwei M\u00e4nner.\nSchnee.\n",
    "train.en.gz": "A dog.\nTwo men.\nSnow.\n",
    "val.de.gz": "Eine Frau.\nEin Kind.\n",
    "val.en.gz": "A woman.\nA child.\n",
    "test_2016_flickr.de.gz": "Ein Mann.\n",
    "test_2016_flickr.en.gz": "A man.\n",
    "train.cs.gz": "Pes.\n",
}
FILES = {name: gzip.compress(text.encode(), mtime=0) for name, text in TEXT.items()}
CONFIG = Multi30kConfig(**shared(), root="data", test="test_2016_flickr")


@contextlib.contextmanager
def answering(content: bytes) -> Iterator[str]:
    """Yield the address of a server that answers one request with these bytes."""

    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(content)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_only_missing_files_are_downloaded_and_all_are_read(tmp_path, monkeypatch):
    table = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(multi30k, "SHA256", table)
    root, served = tmp_path / "data" / "multi30k", tmp_path / "served"
    served.mkdir()
    for name, content in FILES.items():
        (served / name).write_bytes(content)
    monkeypatch.setattr(multi30k, "_URL", served.as_uri())
    config = replace(CONFIG, root=str(root))

    corpora = load_corpora(config)

    assert [corpus.name for corpus in corpora[:3]] == ["train", "valid", "test"]
    assert [(pair.source, pair.target) for pair in corpora.train] == [
        ("Ein Hund.", "A dog."),
        ("Zwei M\u00e4nner.", "Two men."),
        ("Schnee.", "Snow."),
    ]
    assert [len(list(corpus)) for corpus in corpora[:3]] == [3, 2, 1]
    assert sorted(file.name for file in root.iterdir()) == sorted(list(FILES)[:6])
    (root / "train.de.gz").unlink()
    for file in served.iterdir():
        if file.name != "train.de.gz":
            file.unlink()
    load_corpora(config)
    assert (root / "train.de.gz").read_bytes() == FILES["train.de.gz"]


def fetch(url: str, path: Path) -> None:
    sha256 = hashlib.sha256(FILES["train.de.gz"]).hexdigest()
    multi30k.fetch(f"{url}/train.de.gz", path=path, sha256=sha256)


def test_a_file_with_another_hash_is_kept_and_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"mine")

    with pytest.raises(ValueError, match=r"a\.gz has SHA-256 .* instead of .*; put the right"):
        fetch("http://127.0.0.1:1", tmp_path / "a.gz")

    assert (tmp_path / "a.gz").read_bytes() == b"mine"


def test_a_server_that_does_not_answer_is_not_awaited_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "_TIMEOUT", 0.05)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ValueError, match=r"train\.de\.gz: timed out$"),
    ):
        fetch(f"http://127.0.0.1:{server.getsockname()[1]}", tmp_path / "a.gz")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("404 Not Found", "HTTP Error 404: Not Found"),
        ("503 Service Unavailable", "HTTP Error 503"),
        ("200 OK\r\nContent-Length: 1000", "IncompleteRead"),
        ("206 Partial Content", "has SHA-256 .* instead of"),
    ],
)
def test_a_failed_download_is_one_line_and_leaves_no_file(tmp_path, monkeypatch, answer, reason):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with (
        answering(f"HTTP/1.0 {answer}\r\n\r\n".encode()) as url,
        pytest.raises(ValueError, match=reason) as caught,
    ):
        fetch(url, tmp_path / "new" / "a.gz")

    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{url}/train.de.gz")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "values",
    [{"source": "xx"}, {"target": "xx"}, {"test": "val"}, {"source": "cs", "test": "test_2017_x"}],
)
def test_what_does_not_exist_is_answered_with_what_does(tmp_path, values):
    with pytest.raises(
        ValueError, match=r"^data\.source=.* data\.test=.* do not exist toge"
    ) as error:
        load_corpora(replace(CONFIG, root=str(tmp_path), **values))

    assert all(f"={value}" in str(error.value) for value in values.values())
    assert all(name.removesuffix(".gz") in str(error.value) for name in multi30k.SHA256)
