"""The page at /, which sends no request to other hosts."""

from pathlib import Path

from seq2seq.visualization.page import render_page

PAGE_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself sets the other rules
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def make_page() -> str:
    """Return the translation page."""
    return render_page(Path(__file__).with_name("page.html"), {})
