"""Two processes that want the same thing share it or refuse; neither spoils the other's."""

import hashlib
import multiprocessing
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fault_processes import arguments, finish, start, train
from same_run import assert_same_run

from seq2seq.data.multi30k import fetch

CONTENT = bytes(range(256)) * 4000


@pytest.mark.slow
def test_of_two_runs_with_one_name_one_is_refused_and_the_other_undisturbed(
    tmp_path: Path, corpus: Path
) -> None:
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    logs = [tmp_path / f"log{number}" for number in range(2)]
    assert train(arguments(corpus, alone), tmp_path / "log") == 0

    given = arguments(corpus, shared, "resume=auto")
    exits = [finish(each) for each in [start(given, log) for log in logs]]

    refusals = [log for log, code in zip(logs, exits, strict=True) if code == 2]
    assert sorted(exits) in ([0, 2], [0, 0])  # both, if one ended before the other began
    for log in refusals:
        assert "is in use by process " in log.read_text().splitlines()[-1]
    assert_same_run(alone / "runs" / "tiny", shared / "runs" / "tiny")


@pytest.mark.slow
def test_two_runs_fill_one_cache_at_a_time(tmp_path: Path, corpus: Path) -> None:
    names = ("tiny", "other")
    given = [arguments(corpus, tmp_path, f"run_name={name}") for name in names]
    logs = [tmp_path / f"log-{name}" for name in names]

    exits = [finish(each) for each in [start(*each) for each in zip(given, logs, strict=True)]]

    assert exits == [0, 0], [log.read_text() for log in logs]
    assert_same_run(tmp_path / "runs" / "tiny", tmp_path / "runs" / "other")
    assert len(list((tmp_path / "cache").iterdir())) == 4  # tokenizers and three corpora


def _download(url: str, path: Path) -> None:
    fetch(url, path=path, sha256=hashlib.sha256(CONTENT).hexdigest())


@pytest.mark.slow
def test_two_processes_download_one_file_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.gz").write_bytes(CONTENT)
    site = partial(SimpleHTTPRequestHandler, directory=tmp_path / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.gz"
        processes = [
            multiprocessing.get_context("forkserver").Process(
                target=_download, args=(url, tmp_path / "root" / "a.gz")
            )
            for _ in range(2)
        ]
        for each in processes:
            each.start()
        for each in processes:
            each.join(60)
        server.shutdown()

    assert [each.exitcode for each in processes] == [0, 0]
    [file] = (tmp_path / "root").iterdir()
    assert file.read_bytes() == CONTENT
