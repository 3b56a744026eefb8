"""Multi30k is read from a directory, downloaded where missing, and checked by hash."""

import gzip
import hashlib
import socket
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
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
    "test_2018_flickr.cs.gz": "Mu\u017e.\n",
    "test_2018_flickr.en.gz": "A man.\n",
}
FILES = {name: gzip.compress(text.encode(), mtime=0) for name, text in TEXT.items()}


class Handler(SimpleHTTPRequestHandler):
    """Serve one directory, after the failures in `statuses`, and record the requests."""

    paths: list[str]
    statuses: list[int]
    root: Path

    def do_GET(self) -> None:
        self.paths.append(self.path)
        assert self.headers["Accept-Encoding"] == "identity"
        status = self.statuses.pop(0) if self.statuses else None
        if status is None:
            super().do_GET()
        elif status < 300:  # broken off, or empty
            self.send_response(status)
            self.send_header("Content-Length", "1000" if status == 200 else "0")
            self.end_headers()
        else:
            self.send_error(status)

    def translate_path(self, path: str) -> str:
        return str(self.root / path.removeprefix("/raw/"))

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def small_table(monkeypatch):
    table = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(multi30k, "SHA256", table)


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """Return the requested paths, in order."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(Handler, "paths", [], raising=False)
    monkeypatch.setattr(Handler, "statuses", [], raising=False)
    monkeypatch.setattr(Handler, "root", tmp_path / "served", raising=False)
    Handler.root.mkdir()
    for name, content in FILES.items():
        (Handler.root / name).write_bytes(content)
    return Handler.paths


@pytest.fixture
def base_url(paths):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.001})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/raw"
        server.shutdown()
        thread.join()


def make_config(
    *,
    root: Path,
    base_url: str = "http://127.0.0.1:1/raw",
    source: str = "de",
    target: str = "en",
    test: str = "test_2016_flickr",
) -> Multi30kConfig:
    return Multi30kConfig(
        **shared(name="multi30k", source=source, target=target),
        root=str(root),
        base_url=base_url,
        test=test,
    )


@pytest.mark.usefixtures("small_table")
def test_only_missing_files_are_downloaded_and_all_are_read(tmp_path, base_url, paths):
    root = tmp_path / "data" / "multi30k"

    corpora = load_corpora(make_config(root=root, base_url=base_url))

    assert [corpus.name for corpus in corpora[:3]] == ["train", "valid", "test"]
    assert [(pair.source, pair.target) for pair in corpora.train] == [
        ("Ein Hund.", "A dog."),
        ("Zwei M\u00e4nner.", "Two men."),
        ("Schnee.", "Snow."),
    ]
    assert [len(list(corpus)) for corpus in corpora[:3]] == [3, 2, 1]
    assert paths == [f"/raw/{name}" for name in list(FILES)[:6]]
    assert sorted(file.name for file in root.iterdir()) == sorted(list(FILES)[:6])
    (root / "train.de.gz").unlink()
    load_corpora(make_config(root=root, base_url=f"{base_url}/"))
    assert paths[6:] == ["/raw/train.de.gz"]


def fetch(url: str, path: Path) -> None:
    sha256 = hashlib.sha256(FILES["train.de.gz"]).hexdigest()
    multi30k.fetch(f"{url}/train.de.gz", path=path, sha256=sha256)


def test_a_file_with_another_hash_is_kept_and_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"mine")

    with pytest.raises(ValueError, match=r"a\.gz has SHA-256 .* instead of .*; delete it to down"):
        fetch("http://127.0.0.1:1", tmp_path / "a.gz")

    assert (tmp_path / "a.gz").read_bytes() == b"mine"


def test_a_server_that_does_not_answer_is_not_awaited_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "_TIMEOUT", 0.05)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ConnectionError, match="timed out; run again, copy it to"),
    ):
        fetch(f"http://127.0.0.1:{server.getsockname()[1]}", tmp_path / "a.gz")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, "HTTP Error 404: Not Found"),
        (503, "HTTP Error 503"),
        (200, "IncompleteRead"),
        (206, "the download has SHA-256 .* instead of"),
    ],
)
def test_a_failed_download_is_one_line_and_leaves_no_file(tmp_path, base_url, status, reason):
    Handler.statuses.append(status)

    with pytest.raises((ConnectionError, ValueError), match=reason) as caught:
        fetch(base_url, tmp_path / "new" / "a.gz")

    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{base_url}/train.de.gz: ")
    copying = f"copy it to {tmp_path}/new/a.gz yourself"
    assert message.endswith(f"{copying}, or name a directory that has it with data.root=DIR")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "values",
    [{"source": "xx"}, {"target": "xx"}, {"test": "val"}, {"source": "cs", "test": "test_2017_x"}],
)
def test_what_does_not_exist_is_answered_with_what_does(tmp_path, values):
    with pytest.raises(
        ValueError, match=r"^data\.source=.* data\.test=.* do not exist toge"
    ) as error:
        load_corpora(make_config(root=tmp_path, **values))

    assert all(f"={value}" in str(error.value) for value in values.values())
    assert all(name.removesuffix(".gz") in str(error.value) for name in multi30k.SHA256)
