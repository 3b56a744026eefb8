"""HTML page of attention weights: point at a token to see what it attends to."""

# N heads, T target length, S source length

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

ATTENTION_VIEW = Path(__file__).with_name("attention")
"""The view of attention that several pages share: `.html`, `.css` and `.js`."""
FULL = 1000
"""A weight of 1 on the page; weights are rounded to thousandths."""
_SENTENCES = "\0"
"""Marks the place of the sentences in the page."""
_TEXT = '<p id="{side}-text" dir="auto" lang=""></p>'


class AttentionPage:
    """A single HTML file that needs no server, written sentence by sentence.

    Any text is safe: it is stored in blocks of JSON without `<`, and the page's content security
    policy allows its own script only and no requests. Browsers show a lone surrogate as U+FFFD.

    Example:
        >>> import io, torch
        >>> output = io.BytesIO()
        >>> page = AttentionPage(output)
        >>> page.add(
        ...     source="Hund",
        ...     target="dog",
        ...     source_tokens=["\u2581Hund", "</s>"],
        ...     target_tokens=["\u2581dog", "</s>"],
        ...     attention_weights=torch.eye(2).unsqueeze(0),
        ...     note="",
        ... )
        >>> page.close()
        >>> output.getvalue().startswith(b"<!DOCTYPE html>")
        True
    """

    def __init__(self, output: BinaryIO) -> None:
        """Write the beginning of the page to `output`, which stays open after `close`."""
        self._output = output
        texts = {f"{side}_text": _TEXT.format(side=side) for side in ("source", "target")}
        slots = {**texts, "sentences": _SENTENCES}
        page = fill_template(Path(__file__), slots, parts=[ATTENTION_VIEW])
        head, self._tail = page.encode().split(f"{_SENTENCES}\n".encode())
        self._output.write(head)

    def add(
        self,
        *,
        source: str,
        target: str,
        source_tokens: Sequence[str],
        target_tokens: Sequence[str],
        attention_weights: Tensor,
        note: str,
    ) -> None:
        """Write a sentence and its translation.

        Args:
            source: Text of the sentence.
            target: Text of the translation.
            source_tokens: A label for each column; the first token of a word begins with U+2581.
            target_tokens: A label for each row, likewise.
            attention_weights: (N, T, S), from 0 to 1.
            note: Text beside the sentence; may be empty.

        Raises:
            ValueError: There are no heads.
        """
        num_heads, num_rows, num_columns = attention_weights.shape
        if num_heads == 0:
            raise ValueError("attention without heads has no weights to show on a page")
        assert (num_rows, num_columns) == (len(target_tokens), len(source_tokens))
        self._write("text", {"source": source, "target": target, "note": note})
        attention = {
            "source_tokens": list(source_tokens),
            "target_tokens": list(target_tokens),
            "weights": (FULL * attention_weights.double()).round().int().tolist(),
        }
        self._write("attention", attention)

    def close(self) -> None:
        """Write the end of the page, without which it shows nothing."""
        self._output.write(self._tail)

    def _write(self, name: str, content: Mapping[str, object]) -> None:
        """Write a block of data."""
        data = json_block(content)
        block = f'<script type="application/json" class="{name}">{data}</script>\n'
        self._output.write(block.encode("ascii"))


def fill_template(module: Path, slots: Mapping[str, str], *, parts: Sequence[Path] = ()) -> str:
    """Return the HTML beside a module, with its style, its script and the contents of its slots.

    Args:
        module: The file of the module.
        slots: The content of each `{{slot}}`; a content that contains `{{` stays as it is.
        parts: Files without suffix. The HTML of a part stands at the slot of its name, and its
            style and script come before those of the page.
    """
    pieces = (*parts, module)
    style, script = (
        "".join(_read(piece.with_suffix(suffix)) for piece in pieces) for suffix in (".css", ".js")
    )
    page = _read(module.with_suffix(".html"))
    for part in parts:
        page = page.replace(f"{{{{{part.name}}}}}", _read(part.with_suffix(".html")))
    hashes = {"style_hash": content_hash(style), "script_hash": content_hash(script)}
    content = {**slots, **hashes, "style": style, "script": script}
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: content[slot[1]], page)


def _read(path: Path) -> str:
    """Return the text of a file; a part of a page may lack one of its three."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def json_block(content: Mapping[str, object]) -> str:
    """Return data as ASCII JSON without `<`, so no text can end its block in a page."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def content_hash(text: str) -> str:
    """Return the hash of a script or style for the content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
