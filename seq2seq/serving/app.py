"""The service as an ASGI application: its routes, answers and errors."""

import asyncio
import contextlib
import hmac
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from fastapi import Depends, FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from seq2seq.checks import counted
from seq2seq.inference.translations import Translation, as_json
from seq2seq.search.config import BeamConfig, DecodingConfig, GreedyConfig, convert_search
from seq2seq.serving.batcher import RefusedError, overdue
from seq2seq.serving.interface import (
    DetailAnswer,
    DetailFields,
    Error,
    Fields,
    Language,
    TranslateAnswer,
    TranslateFields,
    body,
    check_limit,
    described,
)
from seq2seq.serving.metrics import Metrics, Observed
from seq2seq.serving.models import Load, Models, Pair, ServeConfig
from seq2seq.serving.texts import SplitText, split_text
from seq2seq.visualization.page import render_page

_MOST_WEIGHTS = 250_000
"""Maximum number of attention weights in an answer; more would delay the other requests."""
_SHOWN = 40
"""Number of characters of a sentence that a message shows."""
_SHARES = 4
"""Number of requests of maximum size that fit into the queue; one request cannot fill the queue."""
logger = logging.getLogger(__name__)

_PAGE_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself sets the other rules
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class Translated(NamedTuple):
    """The texts of a request with the translations of their sentences."""

    pair: Pair
    texts: Sequence[SplitText]
    translations: list[list[Translation]]
    """Translations of the sentences of each text."""

    def joined(self, rank: int) -> list[str]:
        """Return each text with its sentences' translations of a rank (0: best), or their last
        ones."""
        return [
            text.join(each.hypotheses[: rank + 1][-1].text for each in found)
            for text, found in zip(self.texts, self.translations, strict=True)
        ]


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
        self._metrics = Metrics()
        self._page = render_page(Path(__file__).with_name("page.html"), {})
        self.models = Models(config, load=load, metrics=self._metrics)

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

    def application(self) -> FastAPI:
        """Return the ASGI application, which closes the models when it ends."""
        app = FastAPI(
            title="Translation service",
            version="1",
            docs_url=None,  # these pages would load files from other hosts
            redoc_url=None,
            redirect_slashes=False,  # behind a proxy, the address would have the wrong scheme
            responses={"default": {"description": "An error", "model": Error}},
            exception_handlers=dict.fromkeys(
                (HTTPException, RefusedError, ClientDisconnect, Exception), _answer_error
            ),
            lifespan=self._lifespan,
        )
        app.state.config = self._config
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
                openapi_extra=described(fields),
                response_model=answer_fields,
                response_model_exclude_none=True,
            )(answer)
        if self._config.cors:
            app.add_middleware(
                CORSMiddleware,
                allow_origins=self._config.cors,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
            )
        app.add_middleware(Observed, self._metrics)
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[dict[str, object]]:
        yield {"count_refused": self._metrics.count_refused}
        await asyncio.to_thread(self.models.close)

    async def page(self) -> Response:
        """Return the translation page."""
        return Response(self._page, media_type="text/html", headers=_PAGE_HEADERS)

    async def health(self) -> dict[str, str]:
        """Answer as long as the process works."""
        return {"status": "ok"}

    async def ready(self) -> dict[str, str]:
        """Answer whether requests are accepted now for at least one language pair."""
        if not self.models.are_ready:
            raise RefusedError(503, "the service is busy")
        return {"status": "ready"}

    async def metrics(self) -> Response:
        """Return the metrics for Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def languages(self) -> list[Language]:
        """Return the source languages, each with its target languages."""
        pairs = self.models.pairs
        codes = sorted({code for pair in pairs for code in pair})
        targets = {code: [target for source, target in pairs if source == code] for code in codes}
        return [Language(**_language(code), targets=targets[code]) for code in codes]

    async def settings(self) -> dict[str, object]:
        """Return the settings of LibreTranslate's page."""
        source, target = map(_language, self.models.pairs[0])
        return {
            "apiKeys": bool(self._api_keys),
            "charLimit": self._config.max_characters,
            "maxBeam": self._config.max_beam,  # of this service's own page
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": bool(self._api_keys),
            "language": {"source": source, "target": target},
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    async def translate(
        self,
        request: Request,
        fields: Annotated[TranslateFields, Depends(body(TranslateFields))],
    ) -> dict[str, object]:
        """Translate as LibreTranslate does."""
        if fields.format not in ("text", ""):
            raise HTTPException(
                400,
                f"format={fields.format!r}: this service translates plain text; send format=text",
            )
        decoding = self._decoding(fields.alternatives + 1)
        done = await self._translated(request, fields, decoding)
        ranks = [done.joined(rank) for rank in range(fields.alternatives + 1)]
        distinct = [list(dict.fromkeys(texts)) for texts in zip(*ranks, strict=True)]
        answer: dict[str, list[object]] = {"translatedText": [texts[0] for texts in distinct]}
        if fields.alternatives:
            answer["alternatives"] = [texts[1:] for texts in distinct]
        if fields.source == "auto":
            known = {"confidence": 0.0, "language": done.pair[0]}  # nothing was detected
            answer["detectedLanguage"] = [known for _ in distinct]
        if isinstance(fields.texts, list):
            return dict(answer)
        return {key: values[0] for key, values in answer.items()}

    async def translate_in_detail(
        self,
        request: Request,
        fields: Annotated[DetailFields, Depends(body(DetailFields))],
    ) -> dict[str, object]:
        """Translate with tokens, scores, several translations of each sentence and attention."""
        decoding = self._decoding(fields.n_best, beam=fields.beam)
        done = await self._translated(request, fields, decoding)
        if fields.attention:
            found = (h for texts in done.translations for each in texts for h in each.hypotheses)
            if sum(math.prod(h.attention_weights.shape) for h in found) > _MOST_WEIGHTS:
                raise HTTPException(
                    413,
                    f"the attention has more than {_MOST_WEIGHTS:,} weights; send a shorter "
                    "text, or ask for a lower n_best or attention=false",
                )
        source, target = done.pair
        translations = [
            {
                "text": text,
                "sentences": [as_json(each, has_attention=fields.attention) for each in sentences],
            }
            for text, sentences in zip(done.joined(0), done.translations, strict=True)
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
        config, most = self._config.decoding, self._config.max_beam
        beam = beam or max(getattr(config, "beam_size", 1), n_best)
        if n_best > beam:
            raise HTTPException(400, "n_best must be at most beam")
        if beam > most:
            raise HTTPException(400, f"beam and n_best must be at most {most}, alternatives less")
        if beam == 1:
            return convert_search(config, GreedyConfig)
        return replace(convert_search(config, BeamConfig), beam_size=beam, n_best=n_best)

    async def _translated(
        self, request: Request, fields: Fields, decoding: DecodingConfig
    ) -> Translated:
        """Translate the texts of a request; a text already in the target language is kept."""
        self._check_key(request, fields)
        config, source = self._config, fields.source
        given = [fields.texts] if isinstance(fields.texts, str) else fields.texts
        if source == fields.target and any(source in pair for pair in self.models.pairs):
            echoed = [SplitText([()], [text]) for text in given]
            return Translated((source, source), echoed, [[] for _ in given])
        pair = self._pair(fields)
        model = self.models[pair]
        texts = [split_text(text, model.split) for text in given]
        sentences = [sentence for text in texts for sentence in text.sentences]
        most = max(1, config.max_waiting // _SHARES)
        for sentence in sentences:
            if len(sentence) > config.max_sentence:
                raise HTTPException(
                    413,
                    f"the sentence {sentence[:_SHOWN]!r}... has {len(sentence):,} characters, more "
                    f"than {config.max_sentence:,}; split it",
                )
        check_limit(len(sentences), most, "sentences")
        left = request.state.end - time.monotonic()
        future = self.models.submit(model, sentences, decoding, timeout=left)
        found = iter(await _unless_gone(request, future, timeout=left))
        return Translated(pair, texts, [[next(found) for _ in text.sentences] for text in texts])

    def _pair(self, fields: Fields) -> Pair:
        """Return the language pair of a request."""
        pairs = self.models.pairs
        source, target = (
            _known(code, {pair[side] for pair in pairs})
            for side, code in enumerate((fields.source, fields.target))
        )
        # "auto" does not detect the language; it stands for the only source language of the target.
        found = [pair for pair in pairs if pair[1] == target and source in (pair[0], "auto")]
        if len(found) != 1:
            known = ", ".join(map("-".join, found or pairs))
            raise HTTPException(
                400,
                f"source={source!r} and target={fields.target!r} must name one language pair of "
                f"this service; choose from {known}",
            )
        return found[0]


def _known(code: str, known: Collection[str]) -> str:
    """Return a known code for a language; the code may differ in case, script or region.

    The language without script or region is preferred, then the only known code that adds them.

    Example:
        >>> _known("zh-Hans", {"zh", "en"}), _known("pt_br", {"pt-BR"}), _known("pt", {"pt-BR"})
        ('zh', 'pt-BR', 'pt-BR')
        >>> _known("fr", {"en"}), _known("pt", {"pt-BR", "pt-PT"}), _known("pt-PT", {"pt-BR"})
        ('fr', 'pt', 'pt-PT')
    """
    if code in known:
        return code
    parts = code.lower().replace("_", "-").split("-")
    forms = {each.lower().replace("_", "-"): each for each in known}
    for length in range(len(parts), 0, -1):
        if found := forms.get("-".join(parts[:length])):
            return found
    longer = [forms[form] for form in forms if form.startswith(f"{'-'.join(parts)}-")]
    return longer[0] if len(longer) == 1 else code


async def _unless_gone(
    request: Request, future: Future[list[Translation]], *, timeout: float
) -> list[Translation]:
    """Wait for a request's translations; drop the request if its client leaves or it is overdue."""
    found = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((found, gone), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if found.done():
            return found.result()
        if gone.done():
            raise ClientDisconnect
        raise overdue()
    finally:
        future.cancel()
        gone.cancel()


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer after an error; the server logs an internal one."""
    match error:
        case HTTPException():
            return JSONResponse({"error": error.detail}, error.status_code, error.headers)
        case RefusedError():
            return JSONResponse({"error": str(error)}, error.status, {"Retry-After": "1"})
        case ClientDisconnect():
            return JSONResponse({"error": "the client has gone"}, 499)
    return JSONResponse({"error": "the service failed"}, 500)


_NAMES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi",
    "hu": "Hungarian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def _language(code: str) -> dict[str, str]:
    """Return the code of a language and its English name, or the code again if it has no name."""
    return {"code": code, "name": _NAMES.get(code, code)}
