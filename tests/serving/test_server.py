"""Connections, signals and the end of the service."""

import asyncio
import contextlib
import http.client
import itertools
import json
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

from seq2seq.config.composition import describe_error
from seq2seq.files.paths import file_sha256
from seq2seq.search.config import GreedyConfig
from seq2seq.serving.server import bind, raise_file_limit

BODY = b'{"q":"ja","source":"de","target":"en"}'
REQUEST_HEAD = (
    b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n"
)
REQUEST = REQUEST_HEAD % len(BODY) + b"\r\n" + BODY


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


@pytest.fixture(scope="module")
def live():
    with running() as service:
        yield service


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


CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


def smuggling(path=b"/translate", version=b"1.1", headers=b"", body=b""):
    """Return a request that hides another one."""
    head = b"POST %s HTTP/%s\r\nHost: x\r\nContent-Type: application/json\r\n" % (path, version)
    return head + headers + b"\r\n\r\n" + body + b"GET /languages HTTP/1.1\r\nHost: x\r\n\r\n"


CHUNKED = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: %d" % len(BODY)
SMUGGLED = {
    "both": smuggling(headers=LENGTH + b"\r\n" + CHUNKED, body=CHUNKS),
    "both, the other way": smuggling(headers=CHUNKED + b"\r\n" + LENGTH, body=CHUNKS),
    "both, length 0": smuggling(headers=b"Content-Length: 0\r\n" + CHUNKED, body=CHUNKS),
    "both, in capitals": smuggling(headers=(LENGTH + b"\r\n" + CHUNKED).upper(), body=CHUNKS),
    "both to no path": smuggling(b"/x", headers=LENGTH + b"\r\n" + CHUNKED, body=CHUNKS),
    "both to GET": smuggling(headers=LENGTH + b"\r\n" + CHUNKED, body=CHUNKS).replace(
        b"POST /translate", b"GET /health"
    ),
    "both in HTTP/1.0": smuggling(version=b"1.0", headers=LENGTH + b"\r\n" + CHUNKED, body=CHUNKS),
    "chunks in HTTP/1.0": smuggling(version=b"1.0", headers=CHUNKED, body=CHUNKS),
    "two lengths": smuggling(headers=LENGTH + b"\r\nContent-Length: 4", body=BODY),
    "a list of lengths": smuggling(headers=LENGTH + b", 4", body=BODY),
    "a signed length": smuggling(headers=b"Content-Length: +4", body=BODY),
    "a negative length": smuggling(headers=b"Content-Length: -4", body=BODY),
    "a hexadecimal length": smuggling(headers=b"Content-Length: 0x4", body=BODY),
    "chunked twice": smuggling(headers=CHUNKED + b"\r\n" + CHUNKED, body=CHUNKS),
    "chunked and identity": smuggling(headers=CHUNKED + b", identity", body=CHUNKS),
    "only identity": smuggling(headers=b"Transfer-Encoding: identity", body=BODY),
    "xchunked": smuggling(headers=b"Transfer-Encoding: xchunked", body=CHUNKS),
    "a space before the colon": smuggling(headers=LENGTH + b"\r\nTransfer-Encoding : chunked"),
    "a tab in the name": smuggling(headers=LENGTH + b"\r\nTransfer-Encoding\t: chunked"),
    "a control character": smuggling(headers=b"Transfer-Encoding: \x0bchunked", body=CHUNKS),
    "a chunk of a negative size": smuggling(headers=CHUNKED, body=b"-1\r\n" + CHUNKS),
    "a chunk of a signed size": smuggling(headers=CHUNKED, body=b"+" + CHUNKS),
    "a chunk of a hexadecimal size": smuggling(headers=CHUNKED, body=b"0x" + CHUNKS),
    "a chunk without an end": smuggling(headers=CHUNKED, body=b"25\r\n" + CHUNKS[4:]),
}


@pytest.mark.parametrize("case", SMUGGLED)
def test_what_follows_a_request_of_doubtful_length_is_no_request(live, case):
    with live.connect() as connection:
        connection.sendall(SMUGGLED[case])
        answer = read_all(connection)

    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"targets" not in answer
    if "both" in case:
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.endswith(b'{"error":"send either Content-Length or Transfer-Encoding"}')


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


@pytest.mark.slow
def test_1500_requests_at_once_during_reloads_are_answered_by_one_of_the_models():
    marks = iter(range(1000))

    async def ask(number):
        body = json.dumps({"q": f"Satz {number}.\nNein.", "source": "de", "target": "en"}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
        writer.write(REQUEST_HEAD % len(body) + b"Connection: close\r\n\r\n" + body)
        head, _, answer = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 200"), head
        return json.loads(answer)["translatedText"]

    async def ask_all():
        asked = asyncio.gather(*map(ask, range(1500)))
        for _ in range(5):
            await asyncio.to_thread(live.service.models.reload)
            await asyncio.sleep(0.1)
        return await asked

    raise_file_limit()
    config = make_serve_config(max_waiting=5000, timeout=60.0)
    with running(config, load=lambda path: load_shouter(path, Shouter(f" {next(marks)}"))) as live:
        answers = asyncio.run(ask_all())

    for number, answer in enumerate(answers):
        assert re.fullmatch(rf"SATZ {number}\. (\d)\nNEIN\. \1", answer)
    assert len({answer[-1] for answer in answers}) > 1


def test_an_address_in_use_is_refused_in_one_line():
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]

        with pytest.raises(OSError) as error:
            bind("127.0.0.1", port)

    line = describe_error(error.value)
    assert line.startswith(f"host=127.0.0.1 port={port}: address already in use")


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


class Proxy:
    """Sends requests to two ports in turn over connections that stay open, as a proxy does.

    A request is sent to the other port if its connection is refused or reset, or if the answer is
    503.
    """

    def __init__(self, ports):
        self._ports = ports
        self._connections = {}
        self.num_repeated = 0

    def ask(self, number, text):
        first = number % 2
        try:
            answer = self._ask(self._ports[first], text)
        except ConnectionError:
            self.num_repeated += 1
            answer = self._ask(self._ports[1 - first], text)
        return answer

    def _ask(self, port, text):
        connection = self._connections.get(port)
        connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._connections[port] = connection
        body = json.dumps({"q": text, "source": "de", "target": "en"})
        try:
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = json.load(answer)
        except ConnectionError:
            self._connections.pop(port).close()
            raise
        if answer.status == 503:
            raise ConnectionRefusedError
        return content

    def close(self):
        for connection in self._connections.values():
            connection.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_upgrade_loses_no_answer_behind_a_proxy(tmp_path):
    path = write_checkpoint(tmp_path / "run")
    texts = ["zwei", "ein hund rennt", "ja"]
    expected = [{"translatedText": each.text} for each in make_translator()(texts, GreedyConfig())]
    with contextlib.ExitStack() as closing:
        sockets = [closing.enter_context(bind("127.0.0.1", 0)) for _ in range(2)]
        ports = [each.getsockname()[1] for each in sockets]

    def start(port):
        command = [sys.executable, "-m", "seq2seq.cli.serve", f"checkpoint={path}"]
        command += [f"port={port}", "device=cpu", "decoding=greedy", "threads=1"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert f":{port}/" in process.stderr.readline()
        threading.Thread(target=drain, args=[process.stderr], daemon=True).start()
        return process

    def drain(stream):
        with stream:
            stream.read()

    is_over = threading.Event()

    def work():
        with contextlib.closing(Proxy(ports)) as proxy:
            numbers = itertools.takewhile(lambda _: not is_over.is_set(), itertools.count())
            for number in numbers:
                assert proxy.ask(number, texts[number % 3]) == expected[number % 3]
            return number, proxy.num_repeated

    processes = {port: start(port) for port in ports}
    try:
        with ThreadPoolExecutor(4) as pool:
            workers = [pool.submit(work) for _ in range(4)]
            try:
                for port in ports * 2:
                    processes[port].send_signal(signal.SIGTERM)
                    assert processes[port].wait(60) == 0
                    processes[port] = start(port)
            finally:
                is_over.set()
            results = [worker.result(60) for worker in workers]
    finally:
        for process in processes.values():
            process.kill()
            process.wait()

    num_answers, num_repeated = map(sum, zip(*results, strict=True))
    assert num_answers > 100
    assert num_repeated > 0
