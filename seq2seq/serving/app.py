"""The service as an ASGI application: its routes, answers and errors."""

import asyncio
import contextlib
import dataclasses
import functools
import hmac
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from seq2seq.config.composition import describe_error
from seq2seq.inference.batcher import Batcher, ClosedError, DeadlineError, QueueFullError, Translate
from seq2seq.inference.results import Translation
from seq2seq.search.config import BeamConfig, DecodingConfig
from seq2seq.serving.config import ServeConfig
from seq2seq.serving.metrics import Metrics, Observed
from seq2seq.serving.models import Load, Models, Pair
from seq2seq.serving.page import page_routes
from seq2seq.serving.requests import Fields, read_fields
from seq2seq.serving.texts import Split, SplitHtml, SplitText, split_text

logger = logging.getLogger(__name__)

_MOST_WEIGHTS = 250_000
"""Attention weights of an answer; more would hold up the other requests."""
_SHARES = 4
"""Requests that may fill the queue together, so that one request cannot."""
_RETRY = {"Retry-After": "1"}
"""Header of an answer after which the same request may succeed."""
Read = Callable[[str, Split], SplitText | SplitHtml]
"""Splits a text into sentences."""
_READERS: dict[str, Read] = {"text": split_text, "html": SplitHtml}
"""By the format of a text."""
_FIELDS = ("text", "source", "target", "beam", "n_best", "attention", "api_key")


class Translated(NamedTuple):
    """The texts of a request with the translations of their sentences."""

    pair: Pair
    texts: Sequence[SplitText | SplitHtml]
    translations: list[list[Translation]]
    """For each text, the translations of its sentences."""
    is_list: bool
    """Whether the request has a list of texts."""

    def joined(self, rank: int) -> list[str]:
        """Return each text with the translations of a rank, 0 the best, or the last before it."""
        return [
            text.join([each.hypotheses[: rank + 1][-1].text for each in found])
            for text, found in zip(self.texts, self.translations, strict=True)
        ]


class Service:
    """Answers requests with the models of a configuration.

    Args:
        config: Its limits and its search; the paths of its models.
        load: Reads a model.
        api_keys: Keys of which a request must have one; none: no key is needed.

    Raises:
        OSError: A model cannot be read.
        ValueError: A file is not a model, or two models translate the same languages.
    """

    def __init__(self, config: ServeConfig, *, load: Load, api_keys: Sequence[str] = ()) -> None:
        self._config = config
        self._api_keys = [key.encode() for key in api_keys]
        self._metrics = Metrics(lambda: self.models.num_waiting)
        self.models = Models(
            config.checkpoint, load=load, new_batcher=self._new_batcher, decoding=config.decoding
        )
        self._reloading = asyncio.Lock()
        self._has_changed = False

    def application(self) -> Starlette:
        """Return the ASGI application, whose end closes the models."""
        routes = [
            *page_routes(),
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/metrics", self._show_metrics),
            Route("/languages", self._languages),
            Route("/frontend/settings", self._settings),
            Route("/translate", self._translate, methods=["POST"]),
            Route("/v1/translate", self._translate_in_detail, methods=["POST"]),
        ]
        paths = {route.path for route in routes}
        middleware = [Middleware(Observed, self._metrics, paths, self._config.access_log)]
        if self._config.cors:
            cors = Middleware(
                CORSMiddleware,
                allow_origins=self._config.cors,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
            )
            middleware.append(cors)
        return Starlette(
            routes=routes,
            middleware=middleware,
            exception_handlers={
                HTTPException: _error,
                ClientDisconnect: _gone,
                Exception: _failure,
            },
            lifespan=self._lifespan,
        )

    async def reload(self) -> None:
        """Read the models as they are now; after an error the old ones stay, and the log names it.

        Calls during a reload wait for it and share the next one, since files that the first has
        read may have changed after that.
        """
        self._has_changed = True
        async with self._reloading:
            if not self._has_changed:
                return
            self._has_changed = False
            await asyncio.to_thread(self._reload_models)

    def _reload_models(self) -> None:
        """Reload the models in a thread; a StopIteration would never leave it, so nothing may."""
        try:
            self.models.reload()
        except BaseException as error:  # libraries raise classes of their own
            reason = describe_error(error)
            logger.error("the models were not reloaded, the old ones answer: %s", reason)
            self._metrics.count_reload(succeeded=False)
        else:
            logger.info("reloaded the models")
            self._metrics.count_reload(succeeded=True)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[dict[str, object]]:
        yield {"count_refused": self._metrics.count_refused}
        await asyncio.to_thread(self.models.close)

    def _new_batcher(self, translate: Translate[Translation], pair: Pair) -> Batcher[Translation]:
        return Batcher(
            translate,
            batch_size=self._config.batch_size,
            max_waiting=self._config.max_waiting,
            on_batch=functools.partial(self._metrics.count_batch, "-".join(pair)),
        )

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        """Answer whether requests are accepted now, for one of the language pairs at least."""
        if not self.models.are_ready:
            raise HTTPException(503, "the service is busy", _RETRY)
        return JSONResponse({"status": "ready"})

    async def _show_metrics(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _languages(self, request: Request) -> Response:
        pairs = self.models.pairs
        codes = sorted({code for pair in pairs for code in pair})
        targets = {code: [target for source, target in pairs if source == code] for code in codes}
        return JSONResponse([_language(code) | {"targets": targets[code]} for code in codes])

    async def _settings(self, request: Request) -> Response:
        source, target = map(_language, self.models.pairs[0])
        return JSONResponse(
            {
                "apiKeys": bool(self._api_keys),
                "charLimit": self._config.max_characters,
                "filesTranslation": False,
                "frontendTimeout": 500,
                "keyRequired": bool(self._api_keys),
                "language": {"source": source, "target": target},
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    async def _translate(self, request: Request) -> Response:
        """Answer as LibreTranslate does."""
        end, fields = await self._fields(request)
        read = _READERS.get(fields.text("format", "text"))
        if read is None:
            raise HTTPException(400, f"format must be {' or '.join(_READERS)}")
        most = self._config.max_beam - 1
        num_alternatives = fields.number("alternatives", 0, least=0, most=most)
        decoding = self._decoding(num_alternatives + 1)
        done = await self._translated(request, fields, "q", decoding, end=end, read=read)
        ranks = [done.joined(rank) for rank in range(num_alternatives + 1)]
        distinct = [list(dict.fromkeys(texts)) for texts in zip(*ranks, strict=True)]
        answer: dict[str, list[object]] = {"translatedText": [texts[0] for texts in distinct]}
        if num_alternatives:
            answer["alternatives"] = [texts[1:] for texts in distinct]
        if fields.text("source") == "auto":
            known = {"confidence": 100.0, "language": done.pair[0]}
            answer["detectedLanguage"] = [known for _ in distinct]
        if done.is_list:
            return JSONResponse(answer)
        return JSONResponse({key: values[0] for key, values in answer.items()})

    async def _translate_in_detail(self, request: Request) -> Response:
        """Answer with tokens, scores, several translations of each sentence and attention."""
        end, fields = await self._fields(request)
        fields.check_names(_FIELDS)
        most = self._config.max_beam
        usual = getattr(self._config.decoding, "beam_size", 1)
        n_best = fields.number("n_best", 1, least=1, most=most)
        beam = fields.number("beam", max(usual, n_best), least=1, most=most)
        if n_best > beam:
            raise HTTPException(400, "n_best must be at most beam")
        has_attention = fields.flag("attention")
        decoding = self._decoding(n_best, beam=beam)
        done = await self._translated(request, fields, "text", decoding, end=end)
        found = [each for translations in done.translations for each in translations]
        if has_attention:
            shapes = (h.attention_weights.shape for each in found for h in each.hypotheses)
            if sum(map(math.prod, shapes)) > _MOST_WEIGHTS:
                raise HTTPException(
                    413,
                    f"the attention has more than {_MOST_WEIGHTS:,} weights; ask for a shorter "
                    "text, a lower n_best or attention=false",
                )
        source, target = done.pair
        translations = [
            {
                "text": text,
                "sentences": [_sentence(each, has_attention=has_attention) for each in sentences],
            }
            for text, sentences in zip(done.joined(0), done.translations, strict=True)
        ]
        return JSONResponse({"source": source, "target": target, "translations": translations})

    async def _fields(self, request: Request) -> tuple[float, Fields]:
        """Return the time when the answer is due, and the fields of a request with a key."""
        timeout = self._config.timeout
        end = time.monotonic() + timeout
        fields = await read_fields(request, most_bytes=self._config.max_body, timeout=timeout)
        if self._api_keys:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            given = token if scheme.lower() == "bearer" else fields.text("api_key", "")
            key = given.encode("utf-8", "surrogatepass")
            # All keys are compared, so that the time does not tell how many were.
            if not sum(hmac.compare_digest(key, known) for known in self._api_keys):
                raise HTTPException(403, "the API key is missing or wrong")
        return end, fields

    def _decoding(self, n_best: int, *, beam: int | None = None) -> DecodingConfig:
        """Return the configured search for a number of translations and a beam."""
        config = self._config.decoding
        beam = beam or max(getattr(config, "beam_size", 1), n_best)
        if beam == 1:
            return config.as_greedy()
        beam_values = {"name": "beam", "beam_size": beam, "n_best": n_best}
        return BeamConfig(**dataclasses.asdict(config) | beam_values)

    async def _translated(
        self,
        request: Request,
        fields: Fields,
        name: str,
        decoding: DecodingConfig,
        *,
        end: float,
        read: Read = split_text,
    ) -> Translated:
        """Translate the texts of a field; a text in the language of the target stays."""
        config = self._config
        given, is_list = fields.texts(
            name, most=config.max_texts, most_characters=config.max_characters
        )
        source = fields.text("source", "")
        if source == fields.text("target", "") and any(source in p for p in self.models.pairs):
            echoed = [SplitText([()], [text]) for text in given]
            return Translated((source, source), echoed, [[] for _ in given], is_list)
        pair = self._pair(fields)
        model = self.models[pair]
        try:
            texts = [read(text, model.split) for text in given]
        except ValueError:
            raise HTTPException(400, f"{name} is not HTML") from None
        sentences = [sentence for text in texts for sentence in text.sentences]
        if (longest := max(map(len, sentences), default=0)) > config.max_sentence:
            raise HTTPException(
                413,
                f"a sentence has {longest:,} characters; the limit is {config.max_sentence:,}",
            )
        most = max(1, config.max_waiting // _SHARES)
        if len(sentences) > most:
            raise HTTPException(
                413, f"{name} has {len(sentences):,} sentences; the limit is {most:,}"
            )
        left = end - time.monotonic()
        try:
            future = self.models.submit(model, sentences, decoding, timeout=left)
            found = iter(await _unless_gone(request, future, timeout=left))
        except (QueueFullError, ClosedError):
            raise HTTPException(503, "too many requests wait", _RETRY) from None
        except DeadlineError:
            raise HTTPException(504, "the translation took too long", _RETRY) from None
        translations = [[next(found) for _ in text.sentences] for text in texts]
        return Translated(pair, texts, translations, is_list)

    def _pair(self, fields: Fields) -> Pair:
        """Return the language pair of a request."""
        pairs = self.models.pairs
        source, target = fields.text("source"), fields.text("target")
        # auto is not detected: it stands for the only source of a target.
        found = [pair for pair in pairs if pair[1] == target and source in (pair[0], "auto")]
        if len(found) != 1:
            problem = "name the source" if found else "source and target are not supported"
            known = ", ".join(map("-".join, pairs))
            raise HTTPException(400, f"{problem}; the service translates {known}")
        return found[0]


async def _unless_gone(
    request: Request, future: Future[list[Translation]], *, timeout: float
) -> list[Translation]:
    """Wait for the translations of a request; drop them if its client leaves or it is overdue."""
    found = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((found, gone), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if found.done():
            return found.result()
        if gone.done():
            raise ClientDisconnect
        raise DeadlineError
    finally:
        future.cancel()
        gone.cancel()


def _sentence(translation: Translation, *, has_attention: bool) -> dict[str, object]:
    return {
        "source": translation.source,
        "source_tokens": translation.source_tokens,
        "unknown_tokens": translation.num_unknown_tokens,
        "hypotheses": [
            {
                "text": found.text,
                "score": found.score,
                "log_probability": found.log_probability,
                "finished": found.finished,
                "tokens": found.tokens,
                "token_log_probabilities": list(found.token_log_probabilities),
            }
            | ({"attention": _four_digits(found.attention_weights)} if has_attention else {})
            for found in translation.hypotheses
        ],
    }


def _four_digits(weights: ArrayLike) -> object:
    return np.asarray(weights, dtype=np.float64).round(4).tolist()


async def _error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the client has gone"}, 499)


async def _failure(request: Request, error: Exception) -> Response:
    """Answer a bug; the server logs it."""
    return JSONResponse({"error": "the service failed"}, 500)


_NAMES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi",
    "hu": "Hungarian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def _language(code: str) -> dict[str, object]:
    """Return the code of a language and its English name; one without a name has its code."""
    return {"code": code, "name": _NAMES.get(code, code)}
