"""The streams of translate.py: lines of any bytes in, lines of UTF-8 out."""

import contextlib
import json
import logging
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from seq2seq.translate_config import OutputFormat
from seq2seq.translation import Translation

logger = logging.getLogger(__name__)

CHUNK = 1 << 16
"""bytes read at once"""
PATIENCE = 0.02
"""seconds; a pipe that gives nothing for so long is taken to pause"""


class LineReader:
    r"""Lines of a file or pipe, ended by `\n` and nothing else.

    A byte order mark at the start is dropped, as is one `\r` before `\n`. Bytes that are not
    UTF-8 are replaced by U+FFFD; when the lines are at their end, a warning counts those lines.
    """

    def __init__(self, file: BinaryIO, *, name: str) -> None:
        """Read from a file without a buffer of its own; `name` says in messages which it is."""
        self._file = file
        self._name = name
        self._lines: deque[bytes] = deque()
        self._partial: list[bytes] = []
        self._ended = False
        self._num_invalid = 0

    def __iter__(self) -> Iterator[str]:
        is_first = True
        while self._lines or self._fill():
            text = self._decode(self._lines.popleft())
            yield text.removeprefix("\ufeff") if is_first else text
            is_first = False
        if self._num_invalid:
            logger.warning(
                "%s: %d lines held bytes that are not UTF-8; they were replaced by U+FFFD",
                self._name,
                self._num_invalid,
            )

    def has_more(self) -> bool:
        """Say whether reading on, be it to the end, takes no waiting."""
        # On Windows only sockets can be watched; there a window is always filled.
        if self._lines or self._ended or os.name == "nt":
            return True
        readable, _, _ = select.select([self._file], [], [], PATIENCE)
        return bool(readable)

    def _fill(self) -> bool:
        """Read until there is a line; say whether there is."""
        while not self._lines and not self._ended:
            chunk = self._file.read(CHUNK)
            head, *tails = (chunk or b"").split(b"\n")
            self._partial.append(head)
            for tail in tails:
                self._lines.append(b"".join(self._partial).removesuffix(b"\r"))
                self._partial = [tail]
            if not chunk:
                self._ended = True
                if last := b"".join(self._partial):
                    self._lines.append(last)
        return bool(self._lines)

    def _decode(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            self._num_invalid += 1
            return line.decode("utf-8", errors="replace")


def parallel(
    sources: Iterable[str], references: Iterable[str], *, names: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Join lines with those of another stream.

    Args:
        sources: lines of the one.
        references: lines of the other.
        names: of both, for messages.

    Raises:
        ValueError: at the end, one of them has more lines.
    """
    num_sources = num_references = 0
    for source, reference in zip_longest(sources, references):
        num_sources += source is not None
        num_references += reference is not None
        if num_sources == num_references:
            yield source, reference
    if num_sources != num_references:
        raise ValueError(
            f"{names[0]} has {num_sources:,} lines but {names[1]} has {num_references:,}; line for "
            "line they must be a sentence and its translation"
        )


@contextlib.contextmanager
def open_output(path: str | None, *, key: str) -> Iterator[BinaryIO]:
    """Open standard output, or a file that gets its name only when all is written.

    Args:
        path: None means standard output.
        key: of the configuration, for messages.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    final = Path(path).expanduser().resolve()
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{key}={path}: there is no directory {final.parent}; make it")
    if final.is_dir():
        raise IsADirectoryError(f"{key}={path} is a directory; give the name of a file")
    if final.exists() and not final.is_file():
        with final.open("wb") as file:  # a device or a named pipe
            yield file
        return
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(final)
    finally:
        partial.unlink(missing_ok=True)


def format_translation(
    output_format: OutputFormat, translation: Translation, *, index: int
) -> bytes:
    """Return the lines, ended by line feeds, that are written for the input line `index`."""
    lines = _FORMATS[output_format](translation, index)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", errors="replace")


def format_forced(output_format: OutputFormat, translation: Translation, *, index: int) -> bytes:
    """Return the same for a reference; a line of text is its log-probability, the text is known."""
    if output_format is OutputFormat.text:
        return f"{translation.hypotheses[0].log_probability:.4f}\n".encode()
    return format_translation(output_format, translation, index=index)


def _text(translation: Translation, index: int) -> list[str]:
    return [translation.hypotheses[0].text]


def _nbest(translation: Translation, index: int) -> list[str]:
    return [f"{index} ||| {found.text} ||| {found.score:.6f}" for found in translation.hypotheses]


def _json(translation: Translation, index: int) -> list[str]:
    hypotheses = [
        {
            "text": found.text,
            "score": found.score,
            "log_probability": found.log_probability,
            "finished": found.finished,
            "pieces": found.pieces,
            # Heads, then rows of target pieces, then columns of source pieces.
            "attention": [
                [[round(weight, 6) for weight in row] for row in head]
                for head in found.weights.tolist()
            ],
        }
        for found in translation.hypotheses
    ]
    content = {
        "source": translation.source,
        "source_pieces": translation.source_pieces,
        "hypotheses": hypotheses,
    }
    return [json.dumps(content, ensure_ascii=False)]


_FORMATS: dict[OutputFormat, Callable[[Translation, int], list[str]]] = {
    OutputFormat.text: _text,
    OutputFormat.nbest: _nbest,
    OutputFormat.json: _json,
}
