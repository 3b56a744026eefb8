"""Read the bodies of requests, and refuse what is no request with a status and a sentence."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn
from urllib.parse import parse_qs

from starlette.requests import Request

_MOST_FIELDS = 1000
"""Fields of a form."""
_DRAINED = 4
"""Times the limit that is read of a body that is too large, so that its sender reads the answer."""
_SHOWN = 40
"""Characters of a wrong value in a message."""


class RefusedError(Exception):
    """A request that is answered by an error.

    Args:
        status: Status code of the answer.
        message: A sentence for the user of the service.
        retry_after: Seconds after which the same request may succeed.
        close: Whether the connection is closed, because the body was not read to its end.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: int | None = None, close: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers: dict[str, str] = {}
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)
        if close:
            self.headers["Connection"] = "close"


class Fields:
    """The fields of a request, each of which is checked when it is read.

    Args:
        values: The fields of a JSON object, or the texts of a form.
        is_form: Whether numbers and truth values are texts.
    """

    def __init__(self, values: Mapping[str, object], *, is_form: bool) -> None:
        self._values = values
        self._is_form = is_form

    def check_names(self, known: Sequence[str]) -> None:
        """Refuse fields with other names."""
        for name in self._values:
            if name not in known:
                raise RefusedError(400, f"unknown field {_shown(name)}; one of: {', '.join(known)}")

    def texts(self, name: str, *, most: int, most_characters: int) -> tuple[list[str], bool]:
        """Return the texts of a field, and whether it is a list."""
        value = self._values.get(name)
        if value is None:
            raise RefusedError(400, f"the field {name} is missing; give a text or a list of texts")
        items: list[object] = value if isinstance(value, list) else [value]
        if len(items) > most:
            raise RefusedError(413, f"{name} has {len(items):,} texts; the limit is {most:,}")
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) < len(items):
            self._refuse(name, "a text or a list of texts")
        number = sum(map(len, texts))
        if number > most_characters:
            raise RefusedError(
                413, f"{name} has {number:,} characters; the limit is {most_characters:,}"
            )
        if any(map(_LONE_SURROGATE.search, texts)):
            raise RefusedError(400, f"{name} contains half of a surrogate pair, which is no text")
        return texts, isinstance(value, list)

    def text(self, name: str, default: str | None = None) -> str:
        """Return the text of a field; without a default it must be given."""
        value = self._values.get(name, default)
        if value is None:
            raise RefusedError(400, f"the field {name} is missing")
        if not isinstance(value, str):
            self._refuse(name, "a text")
        return value

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        """Return the integer of a field."""
        value = self._values.get(name, default)
        if self._is_form and isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self._refuse(name, "an integer")
        if not least <= value <= most:
            # Not echoed: Python refuses to write an integer of thousands of digits.
            raise RefusedError(400, f"{name} must be from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        """Return the truth value of a field; false is the default."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            self._refuse(name, "true or false")
        return value

    def _refuse(self, name: str, meaning: str) -> NoReturn:
        raise RefusedError(400, f"{name} must be {meaning}")


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


async def read_fields(request: Request, *, most_bytes: int, timeout: float) -> Fields:
    """Read a body of JSON, or a form, in UTF-8.

    Raises:
        RefusedError: The body is too large, too slow, or neither of them.
        ClientDisconnect: The client has gone.
    """
    kind, charset = _content_type(request)
    if kind not in ("application/json", "application/x-www-form-urlencoded"):
        raise RefusedError(
            415,
            "send application/json or application/x-www-form-urlencoded",
            close=True,
        )
    if charset not in ("", "utf-8", "utf8") or "content-encoding" in request.headers:
        raise RefusedError(415, "send the body in UTF-8 and not compressed", close=True)
    try:
        content = await asyncio.wait_for(_read(request, most_bytes), timeout)
    except asyncio.TimeoutError:
        raise RefusedError(408, "the body did not arrive in time", close=True) from None
    try:
        text = content.decode("utf-8")
        if kind == "application/json":
            return Fields(_json_object(text), is_form=False)
        form = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise RefusedError(400, "the body is not UTF-8") from None
    except (ValueError, RecursionError):
        form_name = "JSON" if kind == "application/json" else "a form"
        raise RefusedError(400, f"the body is not {form_name}") from None
    # Starlette would read a form as Latin-1, and curl does not escape what it sends.
    single = {name: values[0] if len(values) == 1 else values for name, values in form.items()}
    return Fields(single, is_form=True)


def _content_type(request: Request) -> tuple[str, str]:
    """Return the media type and the charset of a body, in lower case."""
    kind, *parameters = request.headers.get("content-type", "").lower().split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return kind.strip(), value.strip().strip('"')
    return kind.strip(), ""


async def _read(request: Request, most_bytes: int) -> bytes:
    announced = request.headers.get("content-length", "")
    chunks, size = [], int(announced) if announced.isdecimal() else 0
    if size <= _DRAINED * most_bytes:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= most_bytes:
                chunks.append(chunk)
            elif size > _DRAINED * most_bytes:
                break
    if size > most_bytes:
        raise RefusedError(413, f"the body has more than {most_bytes:,} bytes", close=True)
    return b"".join(chunks)


def _json_object(text: str) -> dict[str, object]:
    value = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise RefusedError(400, "the body must be a JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _shown(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
