"""The fields of requests and answers, and how a request is read."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi import Request
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from seq2seq.serving.models import ServeConfig

_JSON, _MULTIPART = "application/json", "multipart/form-data"
_KINDS = (_JSON, "application/x-www-form-urlencoded", _MULTIPART)
_MOST_FIELDS = 1000
"""Maximum number of fields in a form."""
_BYTES_PER_CHARACTER = 12
"""Maximum number of bytes of a character, which may be sent as \\uXXXX\\uXXXX or %XX%XX%XX%XX."""
_BYTES_OF_FIELDS = 4096
"""Number of further bytes that a body may have."""
_SHOWN = 60
"""Maximum number of characters of a field's name in a message."""

Texts = str | Annotated[list[str], Field(fail_fast=True)]
_LIST = TypeAdapter(list[str])


class Fields(BaseModel):
    """The fields of each request; null counts as missing."""

    texts: Texts
    source: Annotated[str, Field(description="code; auto: the only language translated to target")]
    target: Annotated[str, Field(description="language code; texts in this language stay as is")]
    api_key: str = ""

    @property
    def list_of_texts(self) -> list[str]:
        """Return the texts, or the only text, as a list."""
        return [self.texts] if isinstance(self.texts, str) else self.texts

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if value is not None}


class TranslateFields(Fields):
    """The fields of LibreTranslate's interface; other fields are ignored.

    A form may have a JSON list of texts in one field.
    """

    texts: Annotated[Texts, Field(alias="q")]
    alternatives: Annotated[int, Field(ge=0)] = 0
    format: Literal["text", ""] = "text"

    @field_validator("texts", mode="before")
    @classmethod
    def _as_list(cls, value: object, info: ValidationInfo) -> object:
        if info.mode == "json" or not isinstance(value, str) or not value.lstrip().startswith("["):
            return value
        try:
            return _LIST.validate_json(value, strict=True) or value
        except ValidationError:
            return value  # a text that begins with a bracket


class DetailFields(Fields):
    """The fields of the service's own interface."""

    model_config = ConfigDict(extra="forbid")

    texts: Annotated[Texts, Field(alias="text")]
    beam: Annotated[int | None, Field(ge=1)] = None
    n_best: Annotated[int, Field(ge=1)] = 1
    attention: bool = False


class Error(BaseModel):
    """The error in a request or in the service."""

    error: str


class Language(BaseModel):
    """A source language and its target languages."""

    code: str
    name: str
    targets: list[str]


class Detected(BaseModel):
    """The source language that source=auto selected."""

    confidence: float
    language: str


class TranslateAnswer(BaseModel):
    """A text if the request has a text, a list if it has a list."""

    translatedText: Texts  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815


class Hypothesis(BaseModel):
    """A translation of a sentence; translations are ranked by score."""

    text: str
    score: Annotated[float, Field(description="a beam divides log_probability by a length penalty")]
    log_probability: Annotated[float, Field(description="natural logarithm, without a penalty")]
    finished: Annotated[bool, Field(description="false if the length limit cut the translation")]
    tokens: list[str]
    token_log_probabilities: list[float]
    attention: list[list[list[float]]] | None = None


class Sentence(BaseModel):
    """A sentence of a text and its translations, best first."""

    source: str
    expected_chrf: Annotated[
        float | None, Field(description="expected quality of the best translation, 0 to 100")
    ]
    source_tokens: list[str]
    unknown_tokens: int
    hypotheses: list[Hypothesis]


class TranslatedText(BaseModel):
    """A text and its sentences."""

    text: str
    sentences: list[Sentence]


class DetailAnswer(BaseModel):
    """A translation for each text."""

    source: str
    target: str
    translations: list[TranslatedText]


_Fields = TypeVar("_Fields", bound=Fields)


def described_body(fields: type[Fields]) -> dict[str, object]:
    """Return OpenAPI's description of a body that `read_fields` reads."""
    content = {kind: {"schema": fields.model_json_schema()} for kind in _KINDS}
    return {"requestBody": {"required": True, "content": content}}


def most_bytes(config: ServeConfig) -> int:
    """Return the maximum size of a body, in which each character may be escaped."""
    return _BYTES_PER_CHARACTER * config.max_characters + _BYTES_OF_FIELDS


async def read_fields(request: Request, fields: type[_Fields], config: ServeConfig) -> _Fields:
    """Read a body in UTF-8: JSON, or a form of either content type.

    Fields of a form may also be in the query string, with or without a body.

    Sets `request.state.end`, the time by which the request must be answered.

    Raises:
        HTTPException: The body is too large, too slow or wrong.
        ClientDisconnect: The client has gone.
    """
    request.state.end = time.monotonic() + config.timeout
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_only_query = not kind and request.url.query
    if (kind not in _KINDS and not has_only_query) or "content-encoding" in request.headers:
        raise HTTPException(415, f"send one of {', '.join(_KINDS)}, in UTF-8 and uncompressed")
    limited = Request(request.scope, _limited(request, most_bytes(config)))
    try:
        if kind == _JSON:
            content = await asyncio.wait_for(limited.body(), config.timeout)
            read = fields.model_validate_json(content, strict=True)
        else:
            form = await asyncio.wait_for(_form(limited, kind, most_bytes(config)), config.timeout)
            both = {**form, **_pairs(request.scope["query_string"])}
            values = {name: each[0] if len(each) == 1 else each for name, each in both.items()}
            read = fields.model_validate(values)
    except asyncio.TimeoutError:
        raise HTTPException(408, "the body did not arrive in time") from None
    except ValueError as error:
        raise HTTPException(400, _describe(error)) from None
    check_limit(sum(map(len, read.list_of_texts)), config.max_characters, "characters")
    return read


def check_limit(number: int, most: int, things: str) -> None:
    """Refuse a request with more than `most` things."""
    if number > most:
        raise HTTPException(413, f"the request has more than {most:,} {things}")


def _limited(request: Request, max_size: int) -> Receive:
    """Return a function that receives the body of a request, up to a size."""
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        check_limit(received, max_size, "bytes")  # the server discards the rest
        return message

    return receive


async def _form(request: Request, kind: str, max_size: int) -> Mapping[str, Sequence[object]]:
    """Return the values of each field of a form."""
    if kind == _MULTIPART:
        form = await request.form(max_files=0, max_fields=_MOST_FIELDS, max_part_size=max_size)
        return {name: form.getlist(name) for name in form}
    return _pairs(await request.body())


def _pairs(raw: bytes) -> dict[str, list[str]]:
    """Return the values of each field of a form or a query string."""
    # Starlette would read UTF-8 that is not escaped, as curl sends it, as Latin-1.
    return parse_qs(raw.decode(), True, errors="strict", max_num_fields=_MOST_FIELDS)


def _describe(error: ValueError) -> str:
    """Describe the first two errors of a request body in one line."""
    if not isinstance(error, ValidationError):
        return f"the body is not a form in UTF-8: {error}"
    mistakes = []
    for mistake in error.errors()[:2]:
        place = ascii(".".join(map(str, mistake["loc"])))[1:-1][:_SHOWN]
        mistakes.append(f"{place}: {mistake['msg']}".removeprefix(": "))
    return "; ".join(mistakes)
