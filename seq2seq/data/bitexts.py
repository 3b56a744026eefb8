"""Read pairs of sentences from text files, tables and translation memories, as a stream of rows."""

import csv
import json
import logging
import re
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import TextIOBase
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from seq2seq.checks import counted
from seq2seq.data.files import languages_of_files
from seq2seq.data.memories import Languages, Record, read_po, read_tmx, read_xliff
from seq2seq.files.paths import reading
from seq2seq.files.text import (
    MAX_LINE,
    check_is_plain,
    check_length,
    open_characters,
    parallel,
    unpacked_name,
)

logger = logging.getLogger(__name__)

_FORMS = (
    "give a source and a target file by themselves, [a.de,a.en], or files that end in .tsv, .csv, "
    ".jsonl, .xlsx, .ods, .tmx, .xlf, .xliff or .po"
)
_SEEN = 200
"""Number of rows at the beginning of a table from which its form is recognized."""
_SEEN_SIZE = 4 * MAX_LINE
"""Number of characters of these rows after which no further row is looked at."""
_MOST_LINES = 1000
"""Maximum number of lines of a cell."""
_MOST_SKIPPED = 64 * MAX_LINE
"""Number of characters of a line beyond the limit after which the file counts as no text."""
_QUOTATION_MARK = re.compile("[\"'\u00ab\u00bb\u2018-\u201f\u2039\u203a\u300c-\u300f]")
_NO_TEXT = re.compile("[\ud800-\udfff\ufffd]")
"""Bytes that could not be decoded, here or when the text was made."""
_XML_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*encoding\s*=\s*["']([\w.:-]+)""")
_PO_ENCODING = re.compile(rb"charset=(?!CHARSET)([\w.:-]+)")


class Row(NamedTuple):
    """A pair as it is in a file, or a row that cannot be a pair."""

    place: str
    """File, and number of the line or the entry."""
    source: str
    """Bytes that are not UTF-8 are surrogates, as with `errors="surrogateescape"`."""
    target: str
    fault: str | None = None
    """Fault that was found while reading, one of `quality.FAULTS`."""
    is_first: bool = False
    """Whether the row is the first of its table, and may name the columns."""


_AnyRow = TypeVar("_AnyRow")
_Cells = Iterator[tuple[int, list[str] | str]]
"""Number of the first line of each row, and its cells, or the text of a damaged row."""


def read_bitext(
    paths: Sequence[Path], languages: Languages, *, columns: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield the pairs of a source and a target file, or of tables and translation memories.

    Text files and tables are UTF-8, or UTF-16 with a byte order mark, and may be compressed. A .csv
    table is separated by commas, semicolons, tabs or |, whichever gives more rows the same number
    of cells. A .tsv table, or a single file with any other ending, is separated by tabs, without
    quotes.

    Args:
        paths: The files; `-` is standard input.
        languages: Languages, to choose among columns or the languages of a TMX file. Those that are
            None become, while the rows are read, the languages that the files name.
        columns: Source and target column of a table, by number from 1 or by name in the first row;
            by default, the only two columns, or the two that are named after the languages.

    Raises:
        OSError: A file cannot be read.
        ValueError: Files do not fit together, columns or languages cannot be chosen, or a file is
            damaged as a whole.
        ModuleNotFoundError: A file needs a package that is not installed.
    """
    kinds = [Path(unpacked_name(path).lower()).suffix for path in paths]
    is_known = [kind in _TABLES or kind in _MEMORIES for kind in kinds]
    for path, known in zip(paths, is_known, strict=True):
        if not known:
            check_is_plain(path, name=f"input={path}")
    is_table = [kind in _TABLES or (len(paths) == 1 and kind not in _MEMORIES) for kind in kinds]
    if columns and not any(is_table):
        raise ValueError("columns chooses columns of a table, but no file is one; remove the key")
    if len(paths) == 2 and not any(is_known):
        yield from _read_sides(paths[0], paths[1], languages)
        return
    for path, kind, known in zip(paths, kinds, is_known, strict=True):
        if not known and len(paths) > 1:
            raise ValueError(f"input={path}: {_FORMS}")
        with reading(path):
            if kind in _MEMORIES:
                place = f"{path}:" if kind == ".po" else f"{path}, entry "
                for number, source, target, fault in _MEMORIES[kind](path, languages):
                    yield _checked(Row(f"{place}{number}", source, target, fault))
            else:
                cells = _TABLES.get(kind, _split_at_tabs)(path)
                yield from map(_checked, _read_table(path, cells, columns, languages))


def _checked(row: Row) -> Row:
    """Return the row, marked as faulty if it has bytes that are no text."""
    is_text = row.fault is not None or not _NO_TEXT.search(row.source + row.target)
    return row if is_text else row._replace(fault="encoding")


def _lines(path: Path, declaration: re.Pattern[bytes] | None = None) -> Iterator[str]:
    """Yield the lines of a file without their ends, and only the first `MAX_LINE` characters of
    longer lines, which are longer than any sentence."""
    with open_characters(path, declaration=declaration) as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            num_skipped, rest = 0, line
            while rest and not rest.endswith("\n"):
                rest = file.readline(MAX_LINE)
                num_skipped += len(rest)
                check_length(num_skipped, most=_MOST_SKIPPED, name=path, number=number)
            yield line.removesuffix("\n").removesuffix("\r")


def _read_sides(source: Path, target: Path, languages: Languages) -> Iterator[Row]:
    named = languages_of_files([str(source), str(target)])
    if languages == Languages(None, None):
        own = (None if name == side else name for side, name in named.items())
        languages.source, languages.target = own
    rule = "line n of one file must be the translation of line n of the other"
    names = str(source), str(target)
    pairs = parallel(_lines(source), _lines(target), names=names, rule=rule)
    for number, pair in enumerate(pairs, start=1):
        yield _checked(Row(f"{source}:{number}", *pair))


def _read_table(
    path: Path, cells: _Cells, columns: Sequence[str], languages: Languages
) -> Iterator[Row]:
    seen = _first_rows(cells)
    filled = [row for _, row in seen if isinstance(row, list) and any(row)]
    if not filled:
        raise ValueError("no row can be read" if seen else "the file is empty")
    widths = Counter(map(len, filled))
    width = max(widths, key=lambda each: (widths[each], each == len(filled[0])))
    chosen, has_header = _choose_columns(filled[0], width, columns, languages)
    is_first = seen[0][0] > 0  # the keys of JSON have no line
    for number, row in chain(seen, cells):
        place = f"{path}:{number}"
        if isinstance(row, str):
            yield Row(place, row, "", "damaged")
        elif len(row) <= max(chosen) or any(row[width:]):
            yield Row(place, "\t".join(row), "", "columns" if any(row) else "empty")
        elif number:
            source, target = (row[index] for index in chosen)
            fault = "header" if has_header and is_first else None
            yield Row(place, source, target, fault, is_first)
            is_first = is_first and not (source and target)


def _first_rows(rows: Iterator[_AnyRow]) -> list[_AnyRow]:
    """Return the first `_SEEN` rows or, to bound the memory, fewer if they are long."""
    seen, size = list[_AnyRow](), 0
    while len(seen) < _SEEN and size < _SEEN_SIZE and (row := next(rows, None)) is not None:
        seen.append(row)
        size += len(str(row))
    return seen


def _choose_columns(
    first: Sequence[str], width: int, columns: Sequence[str], languages: Languages
) -> tuple[list[int], bool]:
    """Return the indices of source and target, and whether the first row is known to name them."""
    codes = [languages.source, languages.target]
    names = columns or [code for code in codes if code and code in first]
    numbers = [str(number) for number in range(1, width + 1)]
    if len(columns) == 2 and {*columns} <= {*numbers}:
        return [int(each) - 1 for each in columns], False
    if len(names) == 2 and {*names} <= {*first}:
        return [first.index(name) for name in names], True
    if width == 2 and not columns:
        return [0, 1], False
    shown = ", ".join(f"{number} {cell[:30]!r}" for number, cell in enumerate(first[:20], start=1))
    raise ValueError(
        f"choose the source and the target among its columns ({shown}), as columns=[1,2] or by "
        f"their names in the first row; or {_FORMS}"
    )


def _split_at_tabs(path: Path) -> _Cells:
    quoted = []
    for number, line in enumerate(_lines(path), start=1):
        cells = line.split("\t")
        quoted += [number] * _has_quotes(cells)
        yield number, line if len(line) == MAX_LINE else cells
    if quoted:
        logger.warning(
            "%s: %s with quotes as in .csv, the first in line %d; a .tsv is read without quotes, "
            "so save the table as .csv",
            *(path, counted(len(quoted), "line"), quoted[0]),
        )


def _has_quotes(row: Sequence[str]) -> bool:
    """Return whether a row has the quotes of .csv: around a cell with doubled quotes inside, or
    around one with a comma, beside another cell that has no quotation mark."""
    for cell in row:
        inner = cell[1:-1]
        if cell[:1] == cell[-1:] == '"' and len(cell) > 1 and '"' not in inner.replace('""', ""):
            has_others = any(_QUOTATION_MARK.search(other) for other in row if other is not cell)
            if '""' in inner or ("," in inner and not has_others):
                return True
    return False


def _split_csv(path: Path) -> _Cells:
    """Split a table at the separator that gives most of the first rows the same number of cells."""
    lines = _lines(path)
    seen = _first_rows(lines)
    first = 1
    if seen and seen[0] in {f"sep={separator}" for separator in ",;\t|"}:
        scores = {seen.pop(0)[-1]: 1}  # tells Excel the separator
        first = 2
    else:
        scores = {}
        for separator in ",;\t|":
            rows = [row for _, row in _parse_csv(iter(seen), separator) if isinstance(row, list)]
            widths = Counter(len(row) for row in rows if len(row) > 1)
            scores[separator] = max(widths.values(), default=0)
    best = max(scores, key=lambda separator: scores[separator])
    if sum(score == scores[best] > 0 for score in scores.values()) > 1:
        raise ValueError(
            "two separators give equally many rows the same number of cells; save the table as .tsv"
        )
    return _parse_csv(chain(seen, lines), best, first=first)


def _parse_csv(lines: Iterator[str], separator: str, *, first: int = 1) -> _Cells:
    """Yield the rows of a table with quotes; only the line of a wrong quote is damaged."""
    waiting = deque[str]()
    taken: list[str] = []

    def row_lines() -> Iterator[str]:
        while len(taken) < _MOST_LINES and (waiting or (line := next(lines, None)) is not None):
            taken.append(waiting.popleft() if waiting else str(line))
            yield f"{taken[-1]}\n"

    csv.field_size_limit(MAX_LINE)
    while True:
        taken.clear()
        rows = csv.reader(row_lines(), delimiter=separator, strict=True, skipinitialspace=True)
        try:
            row = next(rows)
            yield first, taken[0] if len(taken[0]) == MAX_LINE else row
            first += len(taken)
        except StopIteration:
            return
        except csv.Error:
            waiting.extendleft(reversed(taken[1:]))
            yield first, taken[0]
            first += 1


def _parse_json(lines: Iterator[str]) -> _Cells:
    """Yield the values of each line, an object or a list; objects come after a row of their keys.

    An object with a nested one, as in {"translation": {"de": "Hund", "en": "dog"}}, has the keys
    of both; with several nested ones, their keys are as in "source.text".
    """
    seen = _first_rows((number, line, _parsed(line)) for number, line in enumerate(lines, 1))
    keys = list(
        dict.fromkeys(key for _, _, value in seen if isinstance(value, dict) for key in value)
    )
    if keys:
        yield 0, keys
    rest = ((number, line, _parsed(line)) for number, line in enumerate(lines, len(seen) + 1))
    for number, line, value in chain(seen, rest):
        if isinstance(value, dict) and keys:
            yield number, [value.get(key, "") for key in keys]
        else:
            yield number, value if isinstance(value, list) else line


def _parsed(line: str) -> dict[str, str] | list[str] | None:
    """Return the texts of a line of JSON; None if it is damaged or neither object nor list."""
    try:
        # Numbers stay as they are written.
        text = line.strip().removesuffix(",")  # as in a list of objects
        value = json.loads(text or "[]", parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return list(map(_as_text, value))
    if not isinstance(value, dict):
        return None
    inner = {key: each for key, each in value.items() if isinstance(each, dict)}
    parts = [("", value), *((f"{key}." * (len(inner) > 1), each) for key, each in inner.items())]
    merged = {f"{start}{key}": each for start, part in parts for key, each in part.items()}
    return {key: _as_text(each) for key, each in merged.items() if not isinstance(each, dict)}


def _as_text(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return _NO_TEXT.sub("\ufffd", text)


def _read_sheet(path: Path) -> _Cells:
    """Read a spreadsheet in a process of its own, which bounds the memory."""
    import python_calamine  # noqa: F401  # the process needs it

    script = Path(__file__).with_name("spreadsheet.py")
    with subprocess.Popen(
        [sys.executable, str(script), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            yield from _parse_json(process.stdout)
            messages = process.stderr.read().splitlines()
        finally:
            process.kill()
    if process.returncode != 0:
        reason = messages[-1] if process.returncode == 1 else "it needs too much memory"
        raise ValueError(f"the spreadsheet cannot be read: {reason}; save it as .csv")
    for message in messages:
        logger.warning("%s: %s", path, message)


_TABLES: dict[str, Callable[[Path], _Cells]] = {
    ".tsv": _split_at_tabs,
    ".csv": _split_csv,
    ".jsonl": lambda path: _parse_json(_lines(path)),
    ".xlsx": _read_sheet,
    ".ods": _read_sheet,
}


def _read_xml(
    read: Callable[[TextIOBase, Languages], Iterator[Record]], path: Path, languages: Languages
) -> Iterator[Record]:
    with open_characters(path, declaration=_XML_ENCODING) as file:
        yield from read(file, languages)


_MEMORIES: dict[str, Callable[[Path, Languages], Iterator[Record]]] = {
    ".tmx": partial(_read_xml, read_tmx),
    ".xlf": partial(_read_xml, read_xliff),
    ".xliff": partial(_read_xml, read_xliff),
    ".po": lambda path, languages: read_po(_lines(path, _PO_ENCODING), languages),
}
