"""The service as an ASGI application: its routes, answers and errors."""

import asyncio
import contextlib
import hmac
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import Counter, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.checks import counted
from seq2seq.inference.translations import (
    TranslatedSentence,
    Translation,
    sentence_json,
    sentences_of,
)
from seq2seq.search.config import BeamConfig, DecodingConfig, GreedyConfig, convert_search
from seq2seq.serving.batcher import Batcher, FullError
from seq2seq.serving.interface import (
    DetailAnswer,
    DetailFields,
    Error,
    Fields,
    Language,
    TranslateAnswer,
    TranslateFields,
    check_limit,
    described_body,
    read_fields,
)
from seq2seq.serving.languages import described, find_code
from seq2seq.serving.models import Load, Models, Pair, ServeConfig, listed
from seq2seq.visualization.page import render_page

logger = logging.getLogger(__name__)

_MOST_WEIGHTS = 250_000
"""Maximum number of attention weights in an answer; more would delay the other requests."""
_MOST_HYPOTHESES = 10
"""Maximum beam size that a request may ask for, unless the configured one is larger."""
_SHARES = 4
"""Number of requests of maximum size that fit into the queue; one request cannot fill the queue."""
_LINE_END = re.compile(r"(\r\n|\n|\r)")
_REQUESTS = Counter("seq2seq_requests", "Requests", ["path", "status"])
_RETRY = {"Retry-After": "1"}
_refuse = JSONResponse(
    {"error": "send either Content-Length or Transfer-Encoding"}, 400, {"Connection": "close"}
)
_PAGE_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself sets the other rules
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class Text(NamedTuple):
    """A text of a request with the translations of its lines."""

    pieces: Sequence[str | Translation]
    """Translations of the lines; blank lines and line breaks stay."""

    def translated(self, rank: int = 0) -> str:
        """Return the text with translations of a rank (0: best), or the last ones of a line."""
        return "".join(
            piece if isinstance(piece, str) else piece.hypotheses[: rank + 1][-1].text
            for piece in self.pieces
        )

    @property
    def sentences(self) -> list[TranslatedSentence]:
        """Return all sentences."""
        return sentences_of(piece for piece in self.pieces if isinstance(piece, Translation))


class Service:
    """Answers requests with the models of a configuration.

    Args:
        config: Its limits and its search; the paths of its models.
        load: Reads a model.
        read_keys: Reads the API keys, one of which a request must send; none: no key is needed.

    Raises:
        OSError: A model cannot be read.
        ValueError: A file is not a model, or two models translate the same languages.
    """

    def __init__(
        self, config: ServeConfig, *, load: Load, read_keys: Callable[[], Sequence[str]] = list
    ) -> None:
        self._config = config
        self._read_keys = read_keys
        self._api_keys = read_keys()
        self._page = render_page(Path(__file__).with_name("page.html"), {})
        self.models = Models(config, load)
        self._batcher = Batcher[Translation](
            batch_size=config.batch_size,
            batch_characters=config.max_characters,
            max_waiting=config.max_waiting,
        )

    def reload(self) -> None:
        """Read the API keys and the models again; the old ones stay in use if that fails."""
        try:
            self._api_keys = self._read_keys()
        except (OSError, ValueError) as error:
            logger.error("the API keys were not read again; the old ones stay in use: %s", error)
        else:
            if self._api_keys:
                logger.info("read %s again", counted(len(self._api_keys), "API key"))
        self.models.reload()

    def application(self) -> ASGIApp:
        """Return the ASGI application."""
        app = FastAPI(
            title="Translation service",
            version="1",
            docs_url=None,  # these pages would load files from other hosts
            redoc_url=None,
            redirect_slashes=False,  # behind a proxy, the address would have the wrong scheme
            responses={"default": {"description": "An error", "model": Error}},
            exception_handlers=dict.fromkeys(
                (HTTPException, FullError, ClientDisconnect, Exception), _answer_error
            ),
            lifespan=self._lifespan,
        )
        app.get("/", include_in_schema=False)(self.page)
        app.get("/health")(self.health)
        app.get("/ready")(self.ready)
        app.get("/metrics")(self.metrics)
        app.get("/languages")(self.languages)
        app.get("/frontend/settings")(self.settings)
        for path, answer, fields, answer_fields in (
            ("/translate", self.translate, TranslateFields, TranslateAnswer),
            ("/v1/translate", self.translate_in_detail, DetailFields, DetailAnswer),
        ):
            app.post(
                path,
                openapi_extra=described_body(fields),
                response_model=answer_fields,
                response_model_exclude_none=True,
            )(answer)
        app.add_middleware(_Requests)
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(self._batcher.close)

    async def page(self) -> Response:
        """Return the translation page."""
        return Response(self._page, media_type="text/html", headers=_PAGE_HEADERS)

    async def health(self) -> dict[str, str]:
        """Answer as long as the process works."""
        return {"status": "ok"}

    async def ready(self) -> dict[str, str]:
        """Answer whether requests are accepted now."""
        self._batcher.check_room()
        return {"status": "ready"}

    async def metrics(self) -> Response:
        """Return the metrics for Prometheus."""
        content_type = "text/plain; version=0.0.4; charset=utf-8"
        return Response(generate_latest(), media_type=content_type)

    async def languages(self) -> list[Language]:
        """Return the source languages, each with its target languages."""
        pairs = self.models.pairs
        codes = sorted({code for pair in pairs for code in pair})
        targets = {code: [target for source, target in pairs if source == code] for code in codes}
        return [Language(**described(code), targets=targets[code]) for code in codes]

    async def settings(self) -> dict[str, object]:
        """Return the settings of LibreTranslate's page."""
        source, target = map(described, self.models.pairs[0])
        return {
            "apiKeys": bool(self._api_keys),
            "charLimit": self._config.max_characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": bool(self._api_keys),
            "language": {"source": source, "target": target},
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    async def translate(self, request: Request) -> dict[str, object]:
        """Translate as LibreTranslate does."""
        fields = await read_fields(request, TranslateFields, self._config)
        decoding = self._decoding(fields.alternatives + 1)
        pair, texts = await self._translated(request, fields, decoding)
        ranks = range(fields.alternatives + 1)
        distinct = [list(dict.fromkeys(map(text.translated, ranks))) for text in texts]
        answer: dict[str, list[object]] = {"translatedText": [best for best, *_ in distinct]}
        if fields.alternatives:
            answer["alternatives"] = [others for _, *others in distinct]
        if fields.source == "auto":
            known = {"confidence": 0.0, "language": pair[0]}  # nothing was detected
            answer["detectedLanguage"] = [known for _ in texts]
        if isinstance(fields.texts, list):
            return dict(answer)
        return {key: values[0] for key, values in answer.items()}

    async def translate_in_detail(self, request: Request) -> dict[str, object]:
        """Translate with tokens, scores, several translations of each sentence and attention."""
        fields = await read_fields(request, DetailFields, self._config)
        decoding = self._decoding(fields.n_best, beam=fields.beam)
        (source, target), texts = await self._translated(request, fields, decoding)
        if fields.attention:
            found = (h for text in texts for each in text.sentences for h in each.hypotheses)
            number = sum(math.prod(h.attention_weights.shape) for h in found)
            things = "attention weights; lower n_best, or set attention=false"
            check_limit(number, _MOST_WEIGHTS, things)
        translations = [
            {
                "text": text.translated(),
                "sentences": [
                    sentence_json(each, has_attention=fields.attention) for each in text.sentences
                ],
            }
            for text in texts
        ]
        return {"source": source, "target": target, "translations": translations}

    def _check_key(self, request: Request, fields: Fields) -> None:
        """Refuse a request without a valid key, if the service has keys."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        key = (token if scheme.lower() == "bearer" else fields.api_key).encode()
        known = [each.encode() for each in self._api_keys]
        # All keys are compared, so that the time does not reveal which key matched.
        if known and not sum(hmac.compare_digest(key, each) for each in known):
            raise HTTPException(403, "the API key is missing or wrong")

    def _decoding(self, n_best: int, *, beam: int | None = None) -> DecodingConfig:
        """Return the configured search for a number of translations and a beam."""
        config = self._config.decoding
        usual = getattr(config, "beam_size", 1)
        beam = beam or max(usual, n_best)
        if not n_best <= beam <= max(usual, _MOST_HYPOTHESES):
            raise HTTPException(
                400,
                "n_best must be at most beam, and beam and n_best at most "
                f"{_MOST_HYPOTHESES}, alternatives less",
            )
        if beam == 1:
            return convert_search(config, GreedyConfig)
        return replace(convert_search(config, BeamConfig), beam_size=beam, n_best=n_best)

    async def _translated(
        self, request: Request, fields: Fields, decoding: DecodingConfig
    ) -> tuple[Pair, list[Text]]:
        """Translate the texts of a request; a text already in the target language is kept."""
        self._check_key(request, fields)
        given, source = fields.list_of_texts, fields.source
        if source == fields.target and any(source in pair for pair in self.models.pairs):
            return (source, source), [Text([text]) for text in given]
        pair = self._pair(fields)
        pieces = [_LINE_END.split(text) for text in given]
        lines = [piece for text in pieces for piece in text if piece.strip()]
        check_limit(len(lines), max(1, self._config.max_waiting // _SHARES), "lines")
        futures = self._batcher.submit(self.models[pair].translate, lines, decoding)
        found = iter(await _results(futures, request))
        return pair, [Text([next(found) if p.strip() else p for p in text]) for text in pieces]

    def _pair(self, fields: Fields) -> Pair:
        """Return the language pair of a request."""
        pairs = self.models.pairs
        source = find_code(fields.source, {source for source, _ in pairs})
        target = find_code(fields.target, {target for _, target in pairs})
        # "auto" does not detect the language; it stands for the only source language of the target.
        found = [pair for pair in pairs if pair[1] == target and source in (pair[0], "auto")]
        if len(found) != 1:
            raise HTTPException(
                400,
                f"source={fields.source!r} and target={fields.target!r} must name one language "
                f"pair of this service; choose from {listed(found or pairs)}",
            )
        return found[0]


async def _results(futures: Sequence[Future[Translation]], request: Request) -> list[Translation]:
    """Wait for the translations of a request, until its client leaves or it is overdue."""
    found = asyncio.gather(*map(asyncio.wrap_future, futures))
    gone = asyncio.ensure_future(request.receive())
    left = request.state.end - time.monotonic()
    try:
        await asyncio.wait((found, gone), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if found.done():
            return found.result()
        if gone.done():
            raise ClientDisconnect
        raise HTTPException(504, "the translation took too long", _RETRY)
    finally:
        gone.cancel()
        for future in futures:  # lines that still wait are not translated
            future.cancel()


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer after an error; the server logs an internal one."""
    match error:
        case HTTPException():
            return JSONResponse({"error": error.detail}, error.status_code, error.headers)
        case FullError():
            return JSONResponse({"error": "too many requests wait"}, 503, _RETRY)
        case ClientDisconnect():
            return JSONResponse({"error": "the client has gone"}, 499)
    return JSONResponse({"error": "the service failed"}, 500)


class _Requests:
    """Wraps an application to count its requests, and to refuse those that may hide another one.

    A proxy may find another end of a body than this server if its length is given twice.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def watch(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        # FastAPI does not route HEAD; the server drops the body of the answer.
        routed = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        names = {name for name, _ in scope["headers"]}
        app = _refuse if {b"content-length", b"transfer-encoding"} <= names else self._app
        try:
            await app(routed, receive, watch)
        finally:
            route = routed.get("route")
            _REQUESTS.labels(route.path if route else "other", str(status)).inc()
