"""A page that shows attention in a browser: point at a token, see what it looked at."""

# N heads, T target length, S source length

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

FULL = 1000
"""what a weight of 1 is written as: weights are rounded to thousandths"""


class AttentionPage:
    """One HTML file that needs no server and no other file, written sentence by sentence.

    A text is kept as it is, a lone surrogate too, which browsers draw as U+FFFD. It can never
    act as markup: all of it stands in blocks of JSON without `<`, and the page forbids its
    browser every script but its own and every request.
    """

    def __init__(self, output: BinaryIO) -> None:
        """Write the head of the page to a file, which stays open in the end."""
        self._output = output
        head, self._tail = _template()
        self._output.write(head)

    def add(
        self,
        *,
        source: str,
        target: str,
        source_tokens: Sequence[str],
        target_tokens: Sequence[str],
        weights: Tensor,
        note: str,
    ) -> None:
        """Write a sentence and its translation; nothing of them is held.

        Args:
            source: the text.
            target: its translation.
            source_tokens: a label for each column; one that begins a word begins with U+2581.
            target_tokens: a label for each row.
            weights: (N, T, S).
            note: stands beside the sentence; may be empty.

        Raises:
            ValueError: there is no head to show.
        """
        num_heads, num_rows, num_columns = weights.shape
        if num_heads == 0:
            raise ValueError("attention without heads has no weights to show on a page")
        assert (num_rows, num_columns) == (len(target_tokens), len(source_tokens)), "a label a line"
        self._write("text", {"source": source, "target": target, "note": note})
        attention = {
            "source_tokens": list(source_tokens),
            "target_tokens": list(target_tokens),
            "weights": (FULL * weights.double()).round().int().tolist(),
        }
        self._write("attention", attention)

    def close(self) -> None:
        """Write the end of the page, without which it shows nothing."""
        self._output.write(self._tail)

    def _write(self, name: str, content: Mapping[str, object]) -> None:
        """Write a block of data, which is ASCII and cannot end before its end."""
        data = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
        block = f'<script type="application/json" class="{name}">{data}</script>\n'
        self._output.write(block.encode("ascii"))


def _template() -> tuple[bytes, bytes]:
    """Return what stands before the sentences and after them."""
    page, style, script = (
        Path(__file__).with_suffix(suffix).read_text(encoding="utf-8")
        for suffix in (".html", ".css", ".js")
    )
    slots = {
        "{style_hash}": _hash(style),
        "{script_hash}": _hash(script),
        "{style}": style,
        "{script}": script,
    }
    for slot, content in slots.items():
        page = page.replace(slot, content)
    head, tail = page.split("{sentences}\n")
    return head.encode(), tail.encode()


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls a script or a style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
