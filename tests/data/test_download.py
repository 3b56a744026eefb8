"""A download is complete or absent, resumes after a break, and fails in one clear line."""

import fcntl
import hashlib
import io
import logging
import os
import runpy
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from seq2seq.data.download import fetch

CONTENT = bytes(range(256)) * 500
SHA256 = hashlib.sha256(CONTENT).hexdigest()
HALF = len(CONTENT) // 2
NO_WAITS = (0.0, 0.0)


@dataclass
class Site:
    """A server that fails on request and records the requested ranges."""

    url: str = ""
    content: bytes = CONTENT
    knows_ranges: bool = True
    knows_length: bool = True
    breaks: list[int] = field(default_factory=list)
    """Bytes after which each of the next answers breaks off."""
    statuses: list[int] = field(default_factory=list)
    """Failures to answer with first."""
    ranges: list[str | None] = field(default_factory=list)
    encodings: list[str | None] = field(default_factory=list)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def make_handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers["Range"]
            site.ranges.append(asked)
            site.encodings.append(self.headers["Accept-Encoding"])
            if site.statuses:
                self.send_error(site.statuses.pop(0))
                return
            start = start_of(asked) if site.knows_ranges else 0
            if start and start >= len(site.content):
                self.send_error(416)
                return
            self._send(site.content[start:], resumed=start > 0)

        def _send(self, body: bytes, *, resumed: bool) -> None:
            self.send_response(206 if resumed else 200)
            if site.knows_length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            num_sent = site.breaks.pop(0) if site.breaks else len(body)
            self.wfile.write(body[:num_sent])

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    return Handler


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), make_handler(site)) as server:
        site.url = f"http://127.0.0.1:{server.server_port}/train.de.gz"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.001})
        thread.start()
        yield site
        server.shutdown()
        thread.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "train.de.gz"


def start_of(asked: str | None) -> int:
    return 0 if asked is None else int(asked.removeprefix("bytes=").removesuffix("-"))


def part_of(path: Path, content: bytes) -> Path:
    part = path.with_name("train.de.gz.part")
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(content)
    return part


def files_beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.glob("*"))


def assert_one_line_with_way_out(error: BaseException, *, url: str, path: Path) -> None:
    message = str(error)
    assert "\n" not in message
    assert message.startswith(f"{url}: ")
    assert message.endswith(f"copy the file to {path} yourself")


def test_a_file_is_downloaded_into_a_new_directory(site: Site, path: Path) -> None:
    fetch(site.url, path=path, sha256=SHA256)

    assert path.read_bytes() == CONTENT
    assert files_beside(path) == ["train.de.gz"]
    assert site.ranges == [None]


def test_a_file_is_downloaded_on_windows(
    site: Site, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    windows = runpy.run_path(str(Path(fetch.__code__.co_filename)))

    windows["fetch"](site.url, path=path, sha256=SHA256)

    assert path.read_bytes() == CONTENT


def test_a_file_of_unknown_length_is_downloaded(site: Site, path: Path) -> None:
    site.knows_length = False

    fetch(site.url, path=path, sha256=SHA256)

    assert path.read_bytes() == CONTENT


def test_an_existing_file_is_not_requested(site: Site, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(CONTENT)

    fetch(site.url, path=path, sha256=SHA256)

    assert site.ranges == []


def test_an_existing_file_with_another_hash_is_kept_and_named(site: Site, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"mine")
    found = hashlib.sha256(b"mine").hexdigest()

    with pytest.raises(ValueError, match="delete it to download it again") as caught:
        fetch(site.url, path=path, sha256=SHA256)

    assert str(caught.value) == (
        f"{path} has SHA-256 {found} instead of {SHA256}; delete it to download it again"
    )
    assert path.read_bytes() == b"mine"
    assert site.ranges == []


def test_a_broken_download_resumes_where_it_stopped(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site.breaks = [HALF]

    with caplog.at_level(logging.WARNING):
        fetch(site.url, path=path, sha256=SHA256, retry_waits=NO_WAITS)

    assert path.read_bytes() == CONTENT
    first, second = map(start_of, site.ranges)
    assert first == 0
    assert HALF // 2 < second <= HALF
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith(f"{site.url}: ")
    assert caplog.records[0].getMessage().endswith("; trying again in 0 s")


def test_a_download_broken_too_often_resumes_in_the_next_run(site: Site, path: Path) -> None:
    site.breaks = [20_000, 30_000, 40_000]

    with pytest.raises(
        ConnectionError, match="3 tries; run again to resume the download"
    ) as caught:
        fetch(site.url, path=path, sha256=SHA256, retry_waits=NO_WAITS)
    interrupted = files_beside(path)
    fetch(site.url, path=path, sha256=SHA256)

    assert_one_line_with_way_out(caught.value, url=site.url, path=path)
    assert interrupted == ["train.de.gz.part"]
    starts = [start_of(asked) for asked in site.ranges]
    assert starts == sorted(set(starts))
    assert len(starts) == 4
    assert path.read_bytes() == CONTENT
    assert files_beside(path) == ["train.de.gz"]


def test_a_server_that_ignores_ranges_starts_again(site: Site, path: Path) -> None:
    site.knows_ranges = False
    part_of(path, CONTENT[:HALF])

    fetch(site.url, path=path, sha256=SHA256)

    assert path.read_bytes() == CONTENT
    assert site.ranges == [f"bytes={HALF}-"]


def test_a_complete_part_is_renamed_without_a_request(site: Site, path: Path) -> None:
    part_of(path, CONTENT)

    fetch(site.url, path=path, sha256=SHA256)

    assert path.read_bytes() == CONTENT
    assert files_beside(path) == ["train.de.gz"]
    assert site.ranges == []


def test_a_part_longer_than_the_file_is_deleted(site: Site, path: Path) -> None:
    part_of(path, CONTENT + b"more")

    fetch(site.url, path=path, sha256=SHA256)

    assert path.read_bytes() == CONTENT
    assert site.ranges == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_wrong_hash_leaves_nothing_behind(site: Site, path: Path) -> None:
    site.content = b"another file"
    found = hashlib.sha256(site.content).hexdigest()

    with pytest.raises(ValueError, match=f"has SHA-256 {found} instead of {SHA256}") as caught:
        fetch(site.url, path=path, sha256=SHA256)

    assert_one_line_with_way_out(caught.value, url=site.url, path=path)
    assert files_beside(path) == []


def test_a_file_that_does_not_exist_is_requested_once(site: Site, path: Path) -> None:
    site.statuses = [404]

    with pytest.raises(ConnectionError, match="the server answered 404 Not Found") as caught:
        fetch(site.url, path=path, sha256=SHA256, retry_waits=NO_WAITS)

    assert_one_line_with_way_out(caught.value, url=site.url, path=path)
    assert files_beside(path) == []
    assert site.ranges == [None]


def test_a_request_to_a_busy_server_is_repeated(site: Site, path: Path) -> None:
    site.statuses = [503]

    fetch(site.url, path=path, sha256=SHA256, retry_waits=NO_WAITS)

    assert path.read_bytes() == CONTENT
    assert site.ranges == [None, None]


def test_a_server_that_stays_busy_is_named(site: Site, path: Path) -> None:
    site.statuses = [500, 502, 503]

    with pytest.raises(ConnectionError, match=r"answered 503 .*3 tries") as caught:
        fetch(site.url, path=path, sha256=SHA256, retry_waits=NO_WAITS)

    assert_one_line_with_way_out(caught.value, url=site.url, path=path)


def test_a_refused_connection_is_one_clear_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/train.de.gz"

        with pytest.raises(ConnectionError, match="Connection refused, 3 tries") as caught:
            fetch(url, path=path, sha256=SHA256, retry_waits=NO_WAITS)

    assert_one_line_with_way_out(caught.value, url=url, path=path)
    assert files_beside(path) == []


def test_the_progress_bar_is_quiet_without_a_terminal(
    site: Site, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fetch(site.url, path=path, sha256=SHA256)

    assert capfd.readouterr() == ("", "")


def test_the_progress_bar_shows_on_a_terminal(
    site: Site, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    fetch(site.url, path=path, sha256=SHA256)

    assert "train.de.gz: 100%" in terminal.getvalue()


def test_the_progress_bar_counts_earlier_bytes(
    site: Site, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    part_of(path, CONTENT[:HALF])

    fetch(site.url, path=path, sha256=SHA256)

    assert "128k/128k" in terminal.getvalue()


def test_uncompressed_bytes_are_requested(site: Site, path: Path) -> None:
    fetch(site.url, path=path, sha256=SHA256)

    assert site.encodings == ["identity"]


def test_of_several_processes_one_downloads(
    site: Site, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    descriptor = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # as another process that downloads
    second = threading.Thread(target=lambda: fetch(site.url, path=path, sha256=SHA256))

    with caplog.at_level(logging.INFO):
        second.start()
        while not caplog.messages:
            second.join(0.001)
    path.write_bytes(CONTENT)
    os.close(descriptor)
    second.join()

    assert caplog.messages == [f"{path.parent}: waiting for another process to finish its download"]
    assert site.ranges == []
    assert files_beside(path) == ["train.de.gz"]


@pytest.mark.parametrize("status", [404, 503])
def test_a_refused_download_leaves_no_directory(site: Site, tmp_path: Path, status: int) -> None:
    site.statuses = [status]

    with pytest.raises(ConnectionError):
        fetch(site.url, path=tmp_path / "new" / "deep" / "a.gz", sha256=SHA256, retry_waits=())

    assert list(tmp_path.iterdir()) == []
