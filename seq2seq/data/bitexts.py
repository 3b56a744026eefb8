"""Read pairs of sentences from text files, tables and translation memories."""

import codecs
import csv
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from seq2seq.checks import counted
from seq2seq.data.files import languages_of_files
from seq2seq.files.paths import check_readable
from seq2seq.files.text import check_is_text, decode_line, open_text, parallel

logger = logging.getLogger(__name__)

MEMORIES = (".tmx", ".xlf", ".xliff", ".po")
"""File extensions of translation memories."""
_TABLES = (".tsv", ".csv")
_FORMS = (
    "give a source and a target file by themselves, [a.de,a.en], or files that end in "
    f"{', '.join((*_TABLES, *MEMORIES))}"
)
_UNFINISHED = ("new", "initial", "needs-")
"""Beginnings of the states of XLIFF targets that are not translated yet."""
_QUOTATION_MARK = re.compile("[\"'\u00ab\u00bb\u2018-\u201f\u2039\u203a\u300c-\u300f]")
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Row(NamedTuple):
    """A pair as it is in a file, or a row that cannot be a pair."""

    place: str
    """File, and number of the line or the entry."""
    source: str
    """Bytes that are not UTF-8 are surrogates, as with `errors="surrogateescape"`."""
    target: str
    fault: str | None = None
    """Fault that was found while reading, one of `quality.FAULTS`."""


_Found = tuple[str | None, str | None, Sequence[tuple[int, str, str, str | None]]]
"""Languages that a file names, and the entry, source, target and fault of each pair."""


class Bitext(NamedTuple):
    """The rows of some files, and the languages that the files name, or None."""

    source: str | None
    target: str | None
    rows: list[Row]


def read_bitext(
    paths: Sequence[Path],
    *,
    columns: Sequence[str] = (),
    source: str | None = None,
    target: str | None = None,
) -> Bitext:
    """Read a source and a target file, or any number of tables and translation memories.

    Text files and tables are UTF-8, plain or gzipped. A .csv table is separated by commas or
    semicolons, whichever gives more rows the same number of cells. A .tsv table, or a single file
    with any other ending, is separated by tabs, without quotes.

    Args:
        paths: The files.
        columns: Source and target column of a table, by number from 1 or by name in the first row;
            by default, the only two columns, or the two that are named after the languages.
        source: Language of the sources, to choose among columns or the languages of a TMX file;
            by default, the languages that two text files are named after.
        target: Language of the targets.

    Raises:
        OSError: A file cannot be read.
        ValueError: Files do not fit together, or columns or languages cannot be chosen.
        ModuleNotFoundError: A PO file needs Babel, which is not installed.
    """
    for path in paths:
        check_readable(path, name=f"input={path}")
    is_single = len(paths) == 1 and _kind(paths[0]) not in MEMORIES
    if columns and not is_single and not any(_kind(path) in _TABLES for path in paths):
        raise ValueError("columns chooses columns of a table, but no file is one; remove the key")
    has_sides = not any(_kind(path) in (*_TABLES, *MEMORIES) for path in paths)
    if has_sides and len(paths) == 2:
        if source is target is None:
            named = languages_of_files([str(path) for path in paths])
            source, target = (None if name == side else name for side, name in named.items())
        return Bitext(source, target, list(map(_checked, _read_sides(*paths))))
    rows: list[Row] = []
    for path in paths:
        if _kind(path) in MEMORIES:
            source, target, found = _read_memory(path, source, target)
        elif _kind(path) in _TABLES or len(paths) == 1:
            found = _read_table(path, list(columns), source, target)
        else:
            raise ValueError(f"input={path}: {_FORMS}")
        rows += map(_checked, found)
    return Bitext(source, target, rows)


def _checked(row: Row) -> Row:
    """Return the row, marked as faulty if it has bytes that are not UTF-8."""
    has_bytes = any("\udc80" <= each <= "\udcff" for text in row[1:3] for each in text)
    return row._replace(fault="encoding") if has_bytes else row


def _kind(path: Path) -> str:
    """Return the ending of a name, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _lines(path: Path) -> Iterator[str]:
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                check_is_text(str(path), line)
            yield decode_line(line, number=number, errors="surrogateescape")


def _read_sides(source: Path, target: Path) -> Iterator[Row]:
    rule = "line n of one file must be the translation of line n of the other"
    names = str(source), str(target)
    pairs = parallel(_lines(source), _lines(target), names=names, rule=rule)
    return (Row(f"{source}:{number}", *pair) for number, pair in enumerate(pairs, start=1))


def _read_table(
    path: Path, columns: list[str], source: str | None, target: str | None
) -> list[Row]:
    if _kind(path) != ".csv":
        cells = (line.split("\t") for line in _lines(path))
        rows = list(enumerate(cells, start=1))
        quoted = [number for number, row in rows if _has_quotes(row)]
        if quoted:
            logger.warning(
                "%s: %s with quotes as in .csv, the first in line %d; a .tsv is read without "
                "quotes, so save the table as .csv",
                *(path, counted(len(quoted), "line"), quoted[0]),
            )
    else:
        rows = _read_csv(path)
        if rows and rows[0][1] == ["sep=", ""]:  # tells Excel the separator
            del rows[0]
    if not rows:
        raise ValueError(f"{path}: the file is empty")
    header = rows[0][1]
    names = columns or [name for name in (source, target) if name in header]
    numbers = [str(number) for number in range(1, len(header) + 1)]
    if len(columns) == 2 and {*columns} <= {*numbers}:
        chosen, has_header = list(map(numbers.index, columns)), False
    elif len(names) == 2 and {*names} <= {*header}:
        chosen, has_header = [header.index(name) for name in names], True
    elif len(header) == 2 and not columns:
        chosen, has_header = [0, 1], False
    elif len(header) == 1:
        raise ValueError(f"{path} has one column in its first row; {_FORMS}")
    else:
        shown = ", ".join(f"{number} {cell[:30]!r}" for number, cell in enumerate(header, start=1))
        raise ValueError(
            f"{path}: choose the source and the target among its columns, as columns=[1,2] or by "
            f"their names in the first row: {shown}"
        )
    found: list[Row] = []
    for number, row in rows:
        place, fault = f"{path}:{number}", "header" if has_header and not found else None
        if len(row) <= max(chosen) or any(row[len(header) :]):
            found.append(Row(place, "\t".join(row), "", "columns" if any(row) else "empty"))
        else:
            found.append(Row(place, row[chosen[0]], row[chosen[1]], fault))
    return found


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


def _read_csv(path: Path) -> list[tuple[int, list[str]]]:
    """Return the cells of each row, with the number of its first line."""
    csv.field_size_limit(2**31 - 1)  # rules of the text drop long cells
    tables, errors = [], []
    for delimiter in ",;\t":
        reader = csv.reader(
            (f"{line}\n" for line in _lines(path)), delimiter=delimiter, strict=True
        )
        rows, first = [], 1
        try:
            for cells in reader:
                rows.append((first, cells))
                first = reader.line_num + 1
        except csv.Error as error:
            errors.append(f"{path}:{first}: {error}; double each quote inside a quoted cell, or ")
            continue
        widths = Counter(len(cells) for _, cells in rows if cells).most_common(1)
        width, number = widths[0] if widths else (0, 0)
        tables.append((number if width > 1 else 0, rows))
    if not tables:
        raise ValueError(f"{errors[0]}save the table as .tsv, without quotes")
    tables.sort(key=lambda table: table[0], reverse=True)
    if len(tables) > 1 and tables[0][0] == tables[1][0] > 0:
        raise ValueError(
            f"{path}: commas, semicolons or tabs give equally many rows the same number of cells; "
            "save the table as .tsv"
        )
    return tables[0][1]


def _read_memory(
    path: Path, source: str | None, target: str | None
) -> tuple[str | None, str | None, list[Row]]:
    kind = _kind(path)
    try:
        if kind == ".tmx":
            own_source, own_target, pairs = _read_tmx(path, source, target)
        else:
            own_source, own_target, pairs = (_read_po if kind == ".po" else _read_xliff)(path)
    except (ElementTree.ParseError, LookupError) as error:  # LookupError: an unknown encoding
        raise ValueError(f"{path}: damaged XML: {error}") from error
    for chosen, own in ((source, own_source), (target, own_target)):
        codes = [_code(each or "").split("-")[0] for each in (chosen, own)]
        if codes[0] != codes[1] and all(re.fullmatch("[a-z]{2,3}", code) for code in codes):
            raise ValueError(
                f"{path} has texts in {own}, not in {chosen}; correct source and target, and read "
                "files of other languages by a command of their own"
            )
    rows = [Row(f"{path}, entry {each[0]}", *each[1:]) for each in pairs]
    return source or own_source, target or own_target, rows


def _elements(path: Path, *names: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of these names, in any namespace, without keeping all in memory."""
    with open_text(path) as file:
        for _, element in ElementTree.iterparse(file):
            element.tag = element.tag.rpartition("}")[2]
            if element.tag in names:
                yield element
                element.clear()


def _text(element: ElementTree.Element | None) -> str:
    """Return the text of an element; a placeholder becomes the text that it shows, or `{ID}`."""
    if element is None:
        return ""
    text = (element.text or "") + "".join(_text(child) + (child.tail or "") for child in element)
    if element.tag == "g":  # which surrounds text
        return text
    shown = element.get("equiv-text") or element.get("disp") or element.get("equiv")
    if shown or text or element.tag not in ("x", "ph"):
        return shown or text
    return f"{{{element.get('id')}}}" if element.get("id") else " "


def _read_tmx(path: Path, source: str | None, target: str | None) -> _Found:
    entries = [
        [
            (_code(each.get(_XML_LANGUAGE) or each.get("lang") or ""), _text(each.find("seg")))
            for each in unit.iter("tuv")
        ]
        for unit in _elements(path, "tu")
    ]
    codes = list(dict.fromkeys(code.split("-")[0] for texts in entries for code, _ in texts))
    chosen = codes if source is target is None else [each for each in (source, target) if each]
    if len(chosen) != 2 or not {_code(code).split("-")[0] for code in chosen} <= {*codes}:
        raise ValueError(
            f"{path} has texts in {', '.join(codes) or 'no language'}; choose two of "
            "them, for example source=de target=en"
        )
    source, target = chosen
    pairs = [
        (number, *pair, None)
        for number, texts in enumerate(entries, start=1)
        for pair in product(_texts_in(texts, source), _texts_in(texts, target))
    ]
    return source, target, pairs


def _code(language: str) -> str:
    return language.lower().replace("_", "-")


def _texts_in(texts: Sequence[tuple[str, str]], language: str) -> list[str]:
    """Return the texts in a variety of a language or, if there are none, in the language."""
    language = _code(language)
    exact = [text for code, text in texts if code == language]
    others = [text for code, text in texts if code.split("-")[0] == language.split("-")[0]]
    return exact if exact and "-" in language else others or [""]


def _read_xliff(path: Path) -> _Found:
    """Read the units of XLIFF 1.2 or the segments of XLIFF 2."""
    pairs: list[tuple[int, str, str, str | None]] = []
    sources, targets = set[str](), set[str]()
    for unit in _elements(path, "trans-unit", "segment", "file", "xliff"):
        if unit.tag in ("file", "xliff"):
            sources |= {unit.get("source-language", ""), unit.get("srcLang", "")} - {""}
            targets |= {unit.get("target-language", ""), unit.get("trgLang", "")} - {""}
            continue
        target = unit.find("target")
        state = unit.get("state") or (target is not None and target.get("state")) or ""
        fault = "unfinished" if target is None or state.startswith(_UNFINISHED) else None
        pairs.append((len(pairs) + 1, _text(unit.find("source")), _text(target), fault))
    if len(sources) > 1 or len(targets) > 1:
        raise ValueError(f"{path} has several pairs of languages; split it into a file for each")
    return next(iter(sources), None), next(iter(targets), None), pairs


def _read_po(path: Path) -> _Found:
    """Read messages; the singular and the plural of a message are two pairs."""
    try:
        from babel.messages.pofile import PoFileError, read_po
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"reading {path} needs Babel; run: pip install 'attention-seq2seq[prepare]'"
        ) from error
    try:
        with open_text(path) as file:
            # Babel refuses some comments of obsolete messages.
            lines = [b"\n" if line.startswith(b"#~") else line for line in file]
        lines[:1] = [line.removeprefix(codecs.BOM_UTF8) for line in lines[:1]]
        catalog = read_po(lines, abort_invalid=True)
    except (PoFileError, ValueError, LookupError) as error:  # LookupError: an unknown charset
        raise ValueError(f"{path}: damaged PO file: {error}") from error
    if sum(line.startswith(b"msgid ") for line in lines) > len(catalog) + 1:  # and the header
        raise ValueError(f"{path}: a msgid occurs twice; merge them: msguniq {path} > FILE.po")
    pairs = []
    for number, message in enumerate(filter(lambda each: each.id, catalog), start=1):
        sources, targets = (
            [each] if isinstance(each, str) else list(each or ())
            for each in (message.id, message.string or "")
        )
        fault = None if all(targets) and not message.fuzzy else "unfinished"
        pairs.append((number, sources[0], targets[0], fault))
        if len(sources) > 1 < len(targets):
            pairs.append((number, sources[-1], targets[-1], fault))
    return None, catalog.locale_identifier, pairs
