"""The Prometheus metrics of the service."""

import time
from collections.abc import Sequence
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.inference.translations import Translation
from seq2seq.search.config import DecodingConfig
from seq2seq.serving.batcher import Translate
from seq2seq.version import __version__

_SECONDS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counts requests, batches, reloads, and signs of problems in the input or the model."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        ProcessCollector(registry=registry)
        self.requests = counter("seq2seq_requests", "Requests", ["path", "status"])
        self.seconds = histogram(
            "seq2seq_request_seconds",
            "Time from the headers of a request to the end of its answer",
            ["path"],
            buckets=_SECONDS,
        )
        self.in_progress = gauge("seq2seq_requests_in_progress", "Requests in progress")
        self._batches = histogram(
            "seq2seq_batch_sentences", "Sentences translated together", ["pair"], buckets=_SIZES
        )
        self._batch_seconds = histogram(
            "seq2seq_batch_seconds", "Time of a batch", ["pair"], buckets=_SECONDS
        )
        self.reloads = counter("seq2seq_reloads", "Reloads of the models", ["result"])
        self.waiting = gauge("seq2seq_waiting_sentences", "Waiting sentences")

        self._models = Info("seq2seq_model", "Models in use", ["pair"], registry=registry)
        self._unknown = counter(
            "seq2seq_unknown_tokens", "Source tokens that the model does not know", ["pair"]
        )
        self._lost = counter(
            "seq2seq_lost_spans",
            "Numbers, codes, addresses, tags and emoji that a translation lacks",
            ["pair"],
        )
        self._unfinished = counter(
            "seq2seq_length_limits",
            "Sentences whose translation was cut at the length limit",
            ["pair"],
        )

    def set_model(self, pair: str, name: str, sha256: str) -> None:
        """Show the model of a language pair, in place of the pair's earlier model."""
        values = {"name": name, "sha256": sha256, "version": __version__}
        self._models.labels(pair).info(values)
        for each in (self._unknown, self._lost, self._unfinished):
            each.labels(pair)  # creates the counter with 0

    def counting(self, pair: str, translate: Translate[Translation]) -> Translate[Translation]:
        """Return a function that translates and counts what the translations lack."""

        def counted(lines: list[str], decoding: DecodingConfig) -> Sequence[Translation]:
            found = translate(lines, decoding)
            self._unknown.labels(pair).inc(sum(each.num_unknown_tokens for each in found))
            self._lost.labels(pair).inc(sum(len(each.lost_spans) for each in found))
            self._unfinished.labels(pair).inc(sum(not each.best.finished for each in found))
            return found

        return counted

    def count_refused(self) -> None:
        """Count a connection that sent something other than HTTP."""
        self.requests.labels("not HTTP", "400").inc()

    def count_batch(self, pair: str, num_sentences: int, seconds: float) -> None:
        """Count a batch."""
        self._batches.labels(pair).observe(num_sentences)
        self._batch_seconds.labels(pair).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class Observed:
    """Wraps an application to count its requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        begin = time.perf_counter()

        async def watch(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        metrics = self._metrics
        # FastAPI does not route HEAD; the server drops the body of the answer.
        routed = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        with metrics.in_progress.track_inprogress():
            try:
                await self._app(routed, receive, watch)
            finally:
                route = routed.get("route")
                known = route.path if route else "other"
                metrics.requests.labels(known, str(status)).inc()
                metrics.seconds.labels(known).observe(time.perf_counter() - begin)
