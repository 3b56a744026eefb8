"""Check the files of a parallel corpus before their pairs are read."""

import logging
from collections.abc import Sequence
from pathlib import Path

from seq2seq.files.paths import check_readable
from seq2seq.files.text import MAX_LINE, UTF16_MARKS, open_text, too_long

logger = logging.getLogger(__name__)

_CHUNK_SIZE = MAX_LINE
"""Bytes; at most the limit of a line, so that only a line across two chunks can exceed it."""
_UTF16_SHARE = 0.4
"""Smallest share of zero bytes that shows UTF-16 without a byte order mark."""


def check_files(name: str, paths: Sequence[Path]) -> int:
    """Return the number of lines of each file of a corpus.

    Args:
        name: Name of the corpus, as in `Corpus.name`.
        paths: A source and a target file, or one file of two columns.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is empty, damaged or UTF-16, or the numbers of lines differ.
    """
    for path in paths:
        check_readable(path, name=f"data.{name}={path}")
        if not path.is_file():
            raise ValueError(
                f"data.{name}={path} is not a regular file; give a file that can be read again"
            )
        _check_encoding(name, path)
    counts = [_count_lines(path) for path in paths]
    if 0 in counts:
        raise ValueError(f"data.{name}={paths[counts.index(0)]}: the file is empty")
    if len(set(counts)) > 1:
        raise ValueError(
            f"data.{name}={paths[0]}: {counts[0]} lines but {paths[1]} has {counts[1]}; "
            "a parallel corpus needs one line per sentence in both files"
        )
    return counts[0]


def _count_lines(path: Path) -> int:
    """Return the number of lines; splitting the text into lines would take ten times as long."""
    num_ends, begun = 0, 0  # bytes of the line that goes on in the next chunk
    with open_text(path) as file:
        while chunk := file.read(_CHUNK_SIZE):
            first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
            if begun + (len(chunk) if first < 0 else first) > MAX_LINE:
                raise too_long(str(path), num_ends + 1)
            num_ends += chunk.count(b"\n")
            begun = begun + len(chunk) if last < 0 else len(chunk) - last - 1
    return num_ends + (begun > 0)


def warn_if_swapped(name: str, paths: Sequence[Path], *, source: str, target: str) -> None:
    """Warn if the names of source and target file contain each other's language code.

    Args:
        name: Name of the corpus, as in `Corpus.name`.
        paths: A source and a target file, or one file of two columns, which is not checked.
        source: Language code of the source.
        target: Language code of the target.
    """
    if len(paths) != 2 or source == target:
        return
    found = [{source, target} & set(path.name.split(".")[1:]) for path in paths]
    if found == [{target}, {source}]:
        first, second = paths
        logger.warning(
            "data.%s=[%s,%s]: the names say that %s is translated to %s, but data.source=%s and "
            "data.target=%s; give the source first, or swap the two keys",
            name,
            first,
            second,
            target,
            source,
            source,
            target,
        )


def _check_encoding(name: str, path: Path) -> None:
    """Raise ValueError if the file is UTF-16."""
    with open_text(path) as file:
        start = file.read(_CHUNK_SIZE)
    if start.startswith(UTF16_MARKS) or start.count(0) > _UTF16_SHARE * len(start):
        raise ValueError(
            f"data.{name}={path}: the file is UTF-16, not UTF-8; convert it: "
            f"iconv -f UTF-16 -t UTF-8 {path} > {path}.utf8"
        )
