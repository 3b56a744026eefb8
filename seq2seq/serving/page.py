"""The page at /, which asks nothing of other hosts."""

from pathlib import Path

from seq2seq.visualization.page import (
    ATTENTION_VIEW,
    HYPOTHESES,
    TRANSLATIONS,
    fill_template,
)

PAGE_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself says the rest
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def make_page() -> str:
    """Return the page to translate with."""
    return fill_template(
        Path(__file__),
        {"source_text": "", "target_text": HYPOTHESES},
        parts=(ATTENTION_VIEW, TRANSLATIONS),
    )
