"""Connections, signals and the end of the service."""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_service import (
    KEYS,
    Shouter,
    ShutShouter,
    load_shouter,
    make_serve_config,
    running,
    wait_until,
)
from tiny_translator import make_translator, write_checkpoint

from seq2seq.files.paths import file_sha256
from seq2seq.serving.server import bind

BODY = b'{"q":"ja","source":"de","target":"en"}'
REQUEST = (
    b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)


def read_all(connection):
    """Read until the other side closes."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            received += data
    return received


def read_answer(connection):
    received = b""
    while not received.endswith(b"}"):
        received += connection.recv(65536)
    return received


def test_what_is_not_http_is_answered_by_400_without_a_warning(caplog):
    tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    with running() as live:
        for raw in (tls, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + 100_000 * b"x"):
            with live.connect() as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(raw)
                answer = read_all(connection)
            assert answer.startswith(b"HTTP/1.1 400") or answer == b""  # reset while it was sent
        with live.connect() as connection:
            upgrade = b"Connection: Upgrade\r\nUpgrade: websocket"
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % upgrade)
            assert connection.recv(65536)

    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_texts_and_keys_are_not_logged(caplog):
    caplog.set_level("DEBUG")
    with running(read_keys=lambda: KEYS) as live:
        for path in ("/translate", "/health", "/unknown"):
            live.ask(f"{path}?q=Geheimnis&api_key={KEYS[0]}")
            live.ask(
                f"{path}?q=Geheimnis&api_key={KEYS[0]}", {"q": "Geheimnis", "api_key": KEYS[0]}
            )

    lines = [record.getMessage() for record in caplog.records if record.name == "uvicorn.access"]
    assert [line.partition(" - ")[2] for line in lines[:3]] == [
        '"GET /translate HTTP/1.1" 405',
        '"POST /translate HTTP/1.1" 400',
        '"GET /health HTTP/1.1" 200',
    ]
    assert len(lines) == 6
    assert "Geheimnis" not in caplog.text
    assert KEYS[0] not in caplog.text


def test_a_body_in_chunks_is_limited_too(caplog):
    head = REQUEST.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    with running() as live, live.connect() as connection:
        connection.sendall(head + 9 * (b"3e8\r\n" + 1000 * b" " + b"\r\n"))
        answer = read_answer(connection)
        connection.sendall(b"no chunk\r\n")
        assert read_all(connection) == b""

    assert answer.startswith(b"HTTP/1.1 413")
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


def test_a_slow_body_is_answered_by_408():
    with running(make_serve_config(timeout=0.1)) as live, live.connect() as connection:
        connection.sendall(REQUEST[:-1])

        assert read_answer(connection).startswith(b"HTTP/1.1 408")


def test_the_headers_of_an_answer_may_be_asked_for_alone():
    with running() as live, live.connect() as connection:
        connection.sendall(b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n")

        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_request_whose_client_has_gone_is_not_translated():
    shut = ShutShouter()
    status = 'seq2seq_requests_total{path="/translate",status="499"}'
    with running(translate=shut) as live, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(live.translate, "first")
        wait_until(lambda: shut.begun)
        with live.connect() as connection:
            connection.sendall(REQUEST.replace(b"ja", b"no"))
            wait_until(lambda: live.num_waiting)
        wait_until(lambda: status in live.ask("/metrics").content.decode())
        shut.open()
        waiting.result(20)
        live.translate("last")

    assert shut.begun == ["first", "last"]


def test_stopping_answers_accepted_requests_and_closes_idle_connections():
    shut = ShutShouter()
    with running(translate=shut) as live, contextlib.ExitStack() as stack:
        idle, busy = (stack.enter_context(live.connect()) for _ in range(2))
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        read_answer(idle)
        busy.sendall(REQUEST)
        wait_until(lambda: shut.begun)
        live.server.should_exit = True

        assert read_all(idle) == b""
        with pytest.raises(ConnectionError):
            live.connect()
        shut.open()
        assert read_all(busy).startswith(b"HTTP/1.1 200")


def test_reloading_under_load_answers_every_request_by_one_of_the_models(caplog):
    marks = iter(range(1000))

    answers, is_over = [], threading.Event()

    def ask():
        while not is_over.is_set():
            answers.append(live.translate("Ja. Nein.\nJa."))

    def load(path):
        return load_shouter(path, Shouter(f" {next(marks)}"))

    with running(load=load) as live, ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(ask)
        wait_until(lambda: answers)
        for _ in range(5):
            live.service.models.reload()
        is_over.set()
        last = live.translate("Ja.").content

    texts = [
        re.fullmatch(r"JA\. (\d) NEIN\. \1\nJA\. \1", a.content["translatedText"]) for a in answers
    ]
    assert all(texts)
    assert last == {"translatedText": "JA. 5"}


def test_an_address_in_use_is_refused_in_one_line():
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]

        with pytest.raises(ValueError, match=rf"host=127.0.0.1 port={port}: address already in"):
            bind("127.0.0.1", port)


def test_the_parts_of_an_answer_do_not_wait_for_an_acknowledgement():
    with running() as live, live.connect():
        connections = live.server.server_state.connections
        wait_until(lambda: connections)
        [served] = [each.transport.get_extra_info("socket") for each in connections]

        assert served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_command_translates_reloads_and_ends_with_0_at_sigterm(tmp_path):
    path = write_checkpoint(tmp_path / "run")
    expected = make_translator()(["zwei"])[0].text.strip()
    command = [sys.executable, "-m", "seq2seq.cli.serve", f"checkpoint={path}", "port=0"]
    process = subprocess.Popen(
        [*command, "device=cpu", "decoding=greedy"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        port = int(re.search(r":(\d+)/$", process.stderr.readline())[1])
        body = BODY.replace(b"ja", b"zwei")
        request = REQUEST.replace(BODY, body).replace(b"%d" % len(BODY), b"%d" % len(body))
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(request)
            first = read_answer(connection)
            process.send_signal(signal.SIGHUP)
            assert '"POST /translate HTTP/1.1" 200' in process.stderr.readline()
            digest = file_sha256(path / "best.pt")[:12]
            reloaded = f" reloaded de-en (model run, sha256 {digest})\n"
            assert process.stderr.readline().endswith(reloaded)
            connection.sendall(request[:-5])
            select.select([], [], [], 0.2)  # until the head is read
            process.send_signal(signal.SIGTERM)
            select.select([], [], [], 0.2)
            connection.sendall(request[-5:])
            second = read_all(connection)
        assert process.wait(20) == 0
        assert process.stderr.read().endswith(" all requests are answered; stopped\n")
    finally:
        process.kill()
        process.stderr.close()
        process.wait()

    assert expected.encode() in first
    assert expected.encode() in second
