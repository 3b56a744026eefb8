"""A service with models that take no time, for tests."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
import uvicorn

from seq2seq.cli.command_line import load_command
from seq2seq.inference.translations import TranslatedHypothesis, TranslatedSentence, Translation
from seq2seq.search.config import BeamConfig, DecodingConfig
from seq2seq.serving.app import Service
from seq2seq.serving.batcher import Translate
from seq2seq.serving.models import Load, Model, Pair, ServeConfig
from seq2seq.serving.server import bind, make_server
from seq2seq.text.sentences import split_sentences

KEYS = ("a-key-of-16-bytes", "another-key-of-16-bytes")
_BASE = replace(
    load_command("serve", ServeConfig, ["checkpoint=de-en", "device=cpu", "port=0"]),
    batch_size=8,
    max_waiting=50,
    timeout=20.0,
    max_characters=300,
    decoding=BeamConfig(beam_size=2),
)


def make_serve_config(**changes: object) -> ServeConfig:
    return replace(_BASE, **changes)


class Shouter:
    """A model that writes capital letters; its hypotheses differ by exclamation marks.

    `before` is called with the lines of each batch.
    """

    def __init__(self, mark: str = "", before: Callable[[Sequence[str]], object] = len) -> None:
        self._mark = mark
        self._before = before

    def __call__(self, lines: list[str], decoding: DecodingConfig) -> list[Translation]:
        self._before(lines)
        n_best = getattr(decoding, "n_best", 1)
        return [
            Translation(line, [self._sentence(part, n_best) for part in split_sentences(line)])
            for line in lines
        ]

    def _sentence(self, text: str, n_best: int) -> TranslatedSentence:
        found = [self._found(text, rank) for rank in range(n_best)]
        return TranslatedSentence(text, [4], ["\u2581a", "</s>"], found)

    def _found(self, line: str, rank: int) -> TranslatedHypothesis:
        return TranslatedHypothesis(
            text=line.upper() + self._mark + "!" * rank,
            score=-0.5 - rank,
            log_probability=-1.0 - rank,
            finished=True,
            ids=[5],
            tokens=["\u2581A", "</s>"],
            attention_weights=torch.tensor([[[0.75, 0.25], [0.12344, 0.87656]]]),
            token_log_probabilities=[-0.25, -0.75],
        )


_SHOUTER = Shouter()


def load_shouter(
    path: str, translate: Translate[Translation] = _SHOUTER, sha256: str = 64 * "a"
) -> dict[Pair, Model]:
    """Return a model whose path is its language pair."""
    source, target = path.split("-")
    return {(source, target): Model(translate, path, sha256)}


class PanicError(BaseException):
    """An error of a library that is no Exception, as a panic of Rust."""


class ShutShouter(Shouter):
    """Waits in each batch until it is opened, but for the first one of a model."""

    def __init__(self) -> None:
        super().__init__(before=self._wait)
        self.begun: list[str] = []
        self._is_open = threading.Event()

    def open(self) -> None:
        self._is_open.set()

    def _wait(self, lines: Sequence[str]) -> None:
        if lines != ["a"]:
            self.begun.extend(lines)
            assert self._is_open.wait(20)


def wait_until(condition: Callable[[], object]) -> None:
    """Return when a condition holds; fail after a time that no machine needs."""
    for _ in range(20_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("the condition never held")


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: object


class Running(NamedTuple):
    """A service that answers on a port of this machine."""

    service: Service
    port: int
    server: uvicorn.Server

    def ask(self, path: str, content: object = None, **headers: str) -> Answer:
        """Send JSON, or bytes as they are, and return the answer; without content by GET."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            if content is None:
                connection.request("GET", path, headers=headers)
            else:
                connection.request(
                    "POST", path, body, {"Content-Type": "application/json"} | headers
                )
            answer = connection.getresponse()
            text = answer.read()
            is_json = answer.headers.get_content_type() == "application/json"
            return Answer(answer.status, answer.headers, json.loads(text) if is_json else text)

    def translate(self, q: object, **fields: object) -> Answer:
        return self.ask("/translate", {"q": q, "source": "de", "target": "en"} | fields)

    @property
    def num_waiting(self) -> int:
        """Return the number of lines that wait."""
        return len(self.service._batcher._waiting)

    def metric(self, name: str) -> float:
        """Return a value of /metrics."""
        lines = self.ask("/metrics").content.decode().splitlines()
        [value] = [line.rsplit(" ", 1)[1] for line in lines if line.rsplit(" ", 1)[0] == name]
        return float(value)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)


@contextlib.contextmanager
def running(
    config: ServeConfig | None = None,
    *,
    translate: Translate[Translation] = _SHOUTER,
    load: Load | None = None,
    read_keys: Callable[[], Sequence[str]] = list,
) -> Iterator[Running]:
    """Run a service in a thread of this process."""
    config = config or make_serve_config()
    load = load or partial(load_shouter, translate=translate)
    service = Service(config, load=load, read_keys=read_keys)
    bound = bind("127.0.0.1", 0)
    server = make_server(service, config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        yield Running(service, bound.getsockname()[1], server)
    finally:
        server.should_exit = True
        thread.join(20)
