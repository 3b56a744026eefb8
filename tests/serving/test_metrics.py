import asyncio
import contextlib
import logging
import re
from urllib.parse import unquote

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from seq2seq.serving.metrics import Metrics, Observed


def values(metrics):
    """Return the value of each measure."""
    lines = [line for line in metrics.text().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_batches_reloads_and_what_waits_are_measured():
    metrics = Metrics()
    metrics.waiting.set_function(lambda: 4)
    metrics.count_batch("de-en", 5, 0.03)
    metrics.count_batch("de-en", 1, 0.01)
    metrics.reloads.labels("success").inc()
    metrics.reloads.labels("failure").inc()

    found = values(metrics)

    assert found["seq2seq_waiting_sentences"] == 4
    assert found['seq2seq_batch_sentences_sum{pair="de-en"}'] == 6
    assert found['seq2seq_batch_sentences_bucket{le="4.0",pair="de-en"}'] == 1
    assert found['seq2seq_batch_seconds_count{pair="de-en"}'] == 2
    assert found['seq2seq_reloads_total{result="success"}'] == 1
    assert found['seq2seq_reloads_total{result="failure"}'] == 1


async def answer(request: Request):
    if "fail" in request.url.path:
        raise ZeroDivisionError
    return PlainTextResponse("hello")


def ask(metrics, *targets, method="GET", is_logged=True):
    """Send requests to an application that is observed, and return the last status."""
    app = FastAPI()
    app.get("/a")(answer)
    app.get("/fail")(answer)
    observed = Observed(app, metrics, is_logged)
    statuses = []

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        statuses.append(message.get("status"))

    for target in targets:
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "query_string": query.encode(),
            "headers": [],
            "client": ("10.0.0.1", 1234),
        }
        with contextlib.suppress(ZeroDivisionError):
            asyncio.run(observed(scope, receive, send))
    return [status for status in statuses if status][-1]


def test_each_request_is_counted_by_path_and_status():
    metrics = Metrics()
    ask(metrics, "/a", "/a?q=secret", "/fail", "/x1", "/x2")

    found = values(metrics)

    assert found['seq2seq_requests_total{path="/a",status="200"}'] == 2
    assert found['seq2seq_requests_total{path="/fail",status="500"}'] == 1
    assert found['seq2seq_requests_total{path="other",status="404"}'] == 2
    assert found['seq2seq_request_seconds_count{path="/a"}'] == 2
    assert found["seq2seq_requests_in_progress"] == 0


def test_each_request_is_one_line_of_the_log_without_its_query(caplog):
    with caplog.at_level(logging.INFO, "seq2seq.serving.metrics"):
        ask(Metrics(), "/a?q=secret", "/%0aforged%20line/\u00e4" + 200 * "x")

    first, second = caplog.messages
    assert re.fullmatch(r"10\.0\.0\.1 GET /a 200 5 bytes \d+\.\d ms", first)
    assert second.startswith(r"10.0.0.1 GET /\nforged line/\xe4xxx")
    assert len(second) < 160


def test_the_log_can_be_off(caplog):
    with caplog.at_level(logging.INFO, "seq2seq.serving.metrics"):
        ask(Metrics(), "/a", is_logged=False)

    assert caplog.messages == []


def test_the_headers_of_an_answer_may_be_asked_for_alone():
    assert ask(Metrics(), "/a", method="HEAD") == 200
