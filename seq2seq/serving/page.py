"""The page at / and the description of the interface, which ask nothing of other hosts."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from seq2seq.visualization.page import (
    ATTENTION_VIEW,
    HYPOTHESES,
    TRANSLATIONS,
    fill_template,
)

_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself says the rest
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[Route]:
    """Return the routes of the page and of openapi.json."""
    page = fill_template(
        Path(__file__),
        {"source_text": "", "target_text": HYPOTHESES},
        parts=(ATTENTION_VIEW, TRANSLATIONS),
    )
    description = Path(__file__).with_name("openapi.json").read_text(encoding="utf-8")
    return [
        _route("/", page, "text/html"),
        _route("/openapi.json", description, "application/json"),
    ]


def _route(path: str, content: str, media_type: str) -> Route:
    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return Route(path, answer)
