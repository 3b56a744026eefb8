"""Read the bodies of requests, and refuse what is no request with a status and a sentence."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TypeVar, cast
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

_Value = TypeVar("_Value", str, bool)
_JSON, _MULTIPART = "application/json", "multipart/form-data"
_NAMES = {
    _JSON: "JSON",
    "application/x-www-form-urlencoded": "a form",
    _MULTIPART: "a whole multipart form without files",
}
"""The types of a body."""
_MOST_FIELDS = 1000
"""Fields of a form."""
_DRAINED = 4
"""Times the limit that is read of a body that is too large, so that its sender reads the answer."""
_SHOWN = 40
"""Characters of a wrong name in a message."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CLOSE = {"Connection": "close"}
"""Header of an answer to a body that was not read to its end."""


class Fields:
    """The fields of a JSON object or of a form, each of which is checked when it is read."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def check_names(self, known: Sequence[str]) -> None:
        """Refuse fields with other names."""
        for name in self._values.keys() - known:
            raise HTTPException(400, f"unknown field {name[:_SHOWN]!a}; one of: {', '.join(known)}")

    def texts(self, name: str, *, most: int, most_characters: int) -> tuple[list[str], bool]:
        """Return the texts of a field, and whether it is a list."""
        value = self._values.get(name)
        if value is None:
            raise HTTPException(400, f"the field {name} is missing; give a text or a list of texts")
        items: list[object] = value if isinstance(value, list) else [value]
        if len(items) > most:
            raise HTTPException(413, f"{name} has {len(items):,} texts; the limit is {most:,}")
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) < len(items):
            raise HTTPException(400, f"{name} must be a text or a list of texts")
        if (number := sum(map(len, texts))) > most_characters:
            raise HTTPException(
                413, f"{name} has {number:,} characters; the limit is {most_characters:,}"
            )
        if any(map(_LONE_SURROGATE.search, texts)):
            raise HTTPException(400, f"{name} contains half of a surrogate pair, which is no text")
        return texts, isinstance(value, list)

    def text(self, name: str, default: str | None = None) -> str:
        """Return the text of a field; without a default it must be given."""
        return self._value(name, str, "a text", default)

    def flag(self, name: str) -> bool:
        """Return the truth value of a field; false is the default."""
        return self._value(name, bool, "true or false", False)

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        """Return the integer of a field, which is a text in a form."""
        value = self._given(name, default)
        if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise HTTPException(400, f"{name} must be an integer")
        if not least <= value <= most:
            # Not echoed: Python refuses to write an integer of thousands of digits.
            raise HTTPException(400, f"{name} must be from {least} to {most}")
        return value

    def _given(self, name: str, default: object) -> object:
        """Return the value of a field; null stands for a missing one."""
        value = self._values.get(name)
        return default if value is None else value

    def _value(self, name: str, kind: type[_Value], meaning: str, default: _Value | None) -> _Value:
        value = self._given(name, default)
        if value is None:
            raise HTTPException(400, f"the field {name} is missing")
        if not isinstance(value, kind):
            raise HTTPException(400, f"{name} must be {meaning}")
        return value


async def read_fields(request: Request, *, most_bytes: int, timeout: float) -> Fields:
    """Read a body of JSON, or a form of either kind, in UTF-8.

    Raises:
        HTTPException: The body is too large, too slow, or neither of them.
        ClientDisconnect: The client has gone.
    """
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    kind = kind.strip()
    if kind not in _NAMES:
        raise HTTPException(415, f"send {' or '.join(_NAMES)}", _CLOSE)
    charset = re.search(r'charset="?([^";]*)', parameters)
    is_utf_8 = charset is None or charset[1].strip() in ("", "utf-8", "utf8")
    if not is_utf_8 or "content-encoding" in request.headers:
        raise HTTPException(415, "send the body in UTF-8 and not compressed", _CLOSE)
    try:
        content = await asyncio.wait_for(_read(request, most_bytes), timeout)
    except asyncio.TimeoutError:
        raise HTTPException(408, "the body did not arrive in time", _CLOSE) from None
    try:
        values = await _parsed(content, kind, request.headers)
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not UTF-8") from None
    except (ValueError, RecursionError, MultiPartException):
        raise HTTPException(400, f"the body is not {_NAMES[kind]}") from None
    if not isinstance(values, dict):
        raise HTTPException(400, "the body must be a JSON object")
    return Fields(values)


async def _read(request: Request, most_bytes: int) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= most_bytes:
            chunks.append(chunk)
        elif size > _DRAINED * most_bytes:
            break
    if size > most_bytes:
        raise HTTPException(413, f"the body has more than {most_bytes:,} bytes", _CLOSE)
    return b"".join(chunks)


async def _parsed(content: bytes, kind: str, headers: Headers) -> object:
    if kind == _MULTIPART:
        fields = await _multipart(content, headers)
    text = content.decode("utf-8")
    if kind == _JSON:
        return cast(object, json.loads(text))
    if kind != _MULTIPART:
        # Starlette would read a form as Latin-1, and curl does not escape what it sends.
        fields = parse_qs(text, True, errors="strict", max_num_fields=_MOST_FIELDS)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


async def _multipart(content: bytes, headers: Headers) -> Mapping[str, Sequence[object]]:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield content

    limits = {"max_files": 0, "max_fields": _MOST_FIELDS, "max_part_size": len(content)}
    form = await MultiPartParser(headers, chunks(), **limits).parse()
    begin, _, _ = content.partition(b"\r\n")
    if not content.rstrip().endswith(begin + b"--"):  # the parser would ignore half a field
        raise ValueError("cut off")
    return {name: form.getlist(name) for name in form}
