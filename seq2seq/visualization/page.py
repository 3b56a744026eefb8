"""HTML pages that need no server, from Jinja2 templates, and the page of attention."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_environment
from markupsafe import Markup
from numpy.typing import NDArray

if TYPE_CHECKING:  # a service with exported models needs no torch
    from torch import Tensor

Floats = NDArray[np.float32]
FULL = 1000
"""The integer that stands for a weight of 1 in the page, which stores weights in thousandths."""
_HERE = Path(__file__).parent
_SENTENCES = "\0"
"""Placeholder of the sentences in the page."""


def render_page(template: Path, values: Mapping[str, object]) -> str:
    """Return a page; its content security policy allows its own scripts and no requests.

    Any text is safe: it is escaped, or stored in JSON without `<`.

    Args:
        template: A Jinja2 template, commonly one that extends base.html. It finds other templates,
            styles and scripts in its own folder and in the folder of this module.
        values: Values that the template shows; a `Markup` is not escaped.
    """
    environment = Environment(
        loader=FileSystemLoader([template.parent, _HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "contents": _contents,
        "json": lambda content: Markup(json_block(content)),
        "policy_hash": _policy_hash,
    }
    return environment.get_template(template.name).render(values)


@pass_environment
def _contents(environment: Environment, names: Sequence[str]) -> Markup:
    """Return the contents of files, joined."""
    assert environment.loader is not None
    return Markup("".join(environment.loader.get_source(environment, name)[0] for name in names))


def json_block(content: object) -> str:
    """Return data as ASCII JSON without `<`, so that no text can close its block in a page."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _policy_hash(text: str) -> str:
    """Return the hash of a script or style for the content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


class ShownAttention(TypedDict):
    """The data that the view of attention shows."""

    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    weights: Sequence[Sequence[Sequence[int]]]
    """Weights as fractions of `FULL`: [head][target token][source token]; empty without
    attention."""


def shown_attention(
    source_tokens: Sequence[str], target_tokens: Sequence[str], attention_weights: "Tensor | Floats"
) -> ShownAttention:
    """Return the data that the view of attention shows for weights (N, T, S)."""
    # `tolist` works for tensors and for the arrays of an exported model.
    weights = np.rint(FULL * np.array(attention_weights.tolist())).astype(int).tolist()
    return {
        "source_tokens": list(source_tokens),
        "target_tokens": list(target_tokens),
        "weights": weights,
    }


class AttentionPage:
    """A single HTML file that needs no server, written sentence by sentence.

    Browsers show a lone surrogate as U+FFFD.

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
        page = render_page(_HERE / "page.html", {"sentences": _SENTENCES})
        head, self._tail = page.encode().split(f"{_SENTENCES}\n".encode())
        self._output.write(head)

    def add(
        self,
        *,
        source: str,
        target: str,
        source_tokens: Sequence[str],
        target_tokens: Sequence[str],
        attention_weights: "Tensor | Floats",
        note: str,
    ) -> None:
        """Write a sentence and its translation.

        Args:
            source: Text of the sentence.
            target: Text of the translation.
            source_tokens: A label for each column; the first token of a word begins with U+2581.
            target_tokens: A label for each row; words begin as in `source_tokens`.
            attention_weights: (N, T, S), from 0 to 1.
            note: Text beside the sentence; may be empty.
        """
        _, num_rows, num_columns = attention_weights.shape
        assert (num_rows, num_columns) == (len(target_tokens), len(source_tokens))
        self._write("text", {"source": source, "target": target, "note": note})
        attention = shown_attention(source_tokens, target_tokens, attention_weights)
        self._write("attention", attention)

    def close(self) -> None:
        """Write the end of the page; an unfinished page shows nothing."""
        self._output.write(self._tail)

    def _write(self, name: str, content: Mapping[str, object]) -> None:
        """Write a block of data."""
        data = json_block(content)
        block = f'<script type="application/json" class="{name}">{data}</script>\n'
        self._output.write(block.encode("ascii"))
