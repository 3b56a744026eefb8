"""Read translation memories (TMX, XLIFF) and PO files unit by unit, past what is damaged."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOBase
from itertools import chain, islice, pairwise, product
from typing import Any, cast
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from seq2seq.files.text import CHUNK, MAX_LINE

_UNITS = ("tu", "trans-unit", "segment")
_UNIT_START = re.compile(rf"<(?:\w+:)?(?:{'|'.join(_UNITS)})[\s>]".encode())
_UNFINISHED = ("new", "initial", "needs-")
"""Beginnings of the states of XLIFF targets that are not translated yet."""
_DEEPEST = 100
"""Maximum number of elements within each other."""
_MOST_PAIRS = 100
"""Maximum number of pairs that the variants of a unit make."""
_MOST_SEEN = 200
"""Number of units at the beginning of a TMX file that tell its languages."""
_TOO_LARGE = "too large"
"""Line in place of the rest of a message, which is damaged by it."""
_PO_LINE = re.compile(
    r'\s*(msgctxt|msgid|msgid_plural|msgstr(?:\[\d{1,3}\])?|)\s*"((?:[^"\\]|\\.)*)"\s*'
)
_PO_START = re.compile(r'\s*(?:msg|["#]|\Z)')
"""Beginning of a line that belongs to PO files."""
_PO_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{2}|.)")

Record = tuple[int, str, str, str | None]
"""Number of a unit or line, source, target and fault."""


@dataclass
class Languages:
    """The languages of the sources and of the targets; None until a file names them."""

    source: str | None
    target: str | None

    def add(self, source: str | None, target: str | None) -> None:
        """Take over the languages that a file names, unless they are chosen.

        Raises:
            ValueError: The file has other languages than the chosen ones.
        """
        named = _base(source), _base(target)
        if named[0] == named[1]:  # two varieties of a language
            named = source, target
        for chosen, own in zip((self.source, self.target), named, strict=True):
            codes = [_base(each) or "" for each in (chosen, own)]
            if codes[0] != codes[1] and all(re.fullmatch("[a-z]{2,3}", code) for code in codes):
                raise ValueError(
                    f"the texts are in {own}, not in {chosen}; correct source and target, and "
                    "read files of other languages by a command of their own"
                )
        self.source, self.target = self.source or named[0], self.target or named[1]


def _code(language: str) -> str:
    return language.lower().replace("_", "-")


def _base(language: str | None) -> str | None:
    """Return a language without its variety, such as de for de-AT."""
    return _code(language).split("-")[0] if language else None


class _UnitParser:
    """Parser of the units of a TMX or XLIFF file; after damage, it goes on with the next unit."""

    def __init__(self) -> None:
        self.sources, self.targets = set[str](), set[str]()
        """Languages that the file names; not those of each text."""
        self.units: list[Element | str] = []
        """Complete units; a text says what is wrong with a damaged one."""
        self.line = 1
        """Number of the line where the next piece begins."""
        self.is_lost = False
        """Whether the rest of a unit cannot be parsed."""
        self._unit: TreeBuilder | None = None
        self._unit_size = 0
        self._open: list[tuple[str, bool]] = []
        """Tags of the elements that are open, and whether their text may be translated."""
        self._above: list[tuple[str, bool]] = []
        """The elements around the last unit."""
        self._skipped: list[bytes] = []
        """Pieces that are in a comment, instruction or CDATA section whose end has not come."""
        self._has_ended = False
        """Whether such a part has ended in this piece."""
        self._start()

    def _start(self) -> None:
        """Start within the elements around the last unit, as if that unit had been sound."""
        self.is_lost, self._unit, self._open = False, None, self._above.copy()
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        start = "".join(f"<{tag}>" for tag, _ in self._open).encode()
        self._parser.Parse(start, False)
        self._num_parsed, self._start_line = len(start), self.line
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        # Otherwise the text would lack what the entity stands for.
        self._parser.SkippedEntityHandler = self._refuse_entity
        self._parser.ExternalEntityRefHandler = lambda *_: 0  # an error
        self._parser.CommentHandler = self._parser.ProcessingInstructionHandler = self._end_skipped
        self._parser.EndCdataSectionHandler = self._end_skipped

    def parse(self, piece: bytes, *, is_last: bool = False) -> None:
        """Parse the next piece of the file; a unit begins only where a piece does."""
        self._has_ended = False
        self._parse(piece, is_last=is_last)
        if self._skipped and self.is_lost and not self._has_ended:  # so nothing was to be skipped
            again, self._skipped = self._skipped, []
            self.line -= sum(each.count(b"\n") for each in (*again, piece))
            for each in again:
                self._parse(each)
            self._parse(piece, is_last=is_last)
        elif self.units or self._unit is not None or self._has_ended:
            self._skipped.clear()
        elif self._skipped or _UNIT_START.match(piece):
            self._skipped.append(piece)

    def _parse(self, piece: bytes, *, is_last: bool = False) -> None:
        if _UNIT_START.match(piece):
            if self._unit is not None:
                self.units.append(f"a unit that does not end before line {self.line:,}")
                self.is_lost = True
            if self.is_lost:
                self._start()
        if not self.is_lost:
            self._num_parsed += len(piece)
            try:
                self._parser.Parse(piece, is_last)
                if self._num_parsed - self._parser.CurrentByteIndex > MAX_LINE:
                    raise ValueError("a part that does not end")
            except (expat.ExpatError, ValueError) as error:
                line = self._start_line + self._parser.CurrentLineNumber - 1
                self.units.append(f"{str(error).partition(':')[0]} in line {line:,}")
                if self._unit is None and self._open:
                    self._above = self._open
                self._unit, self.is_lost = None, True
        self.line += piece.count(b"\n")

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _DEEPEST:
            raise ValueError("too many elements within each other")
        mark = attributes.get("translate", attributes.get("its:translate"))
        may_translate = mark != "no" if mark else not self._open or self._open[-1][1]
        name = tag.rpartition(":")[2]
        if name in ("file", "xliff"):
            for key in ("source-language", "srcLang"):
                self.sources |= {attributes.get(key, "")} - {""}
            for key in ("target-language", "trgLang"):
                self.targets |= {attributes.get(key, "")} - {""}
        elif name in _UNITS:
            self._unit, self._unit_size, self._above = TreeBuilder(), 0, self._open.copy()
            attributes["translate"] = "yes" if may_translate else "no"
        if self._unit is not None:
            self._unit_size += sum(map(len, attributes.values()))
            self._unit.start(name, cast(dict[Any, Any], attributes))
        self._open.append((tag, may_translate))

    def _end(self, tag: str) -> None:
        del self._open[-1]
        if self._unit is not None:
            self._unit.end(tag.rpartition(":")[2])
            if len(self._open) == len(self._above):
                self.units.append(self._unit.close())
                self._unit = None

    def _add_text(self, text: str) -> None:
        if self._unit is not None:
            self._unit_size += len(text)
            if self._unit_size > MAX_LINE:
                raise ValueError("a unit that is too large")
            self._unit.data(text)

    def _end_skipped(self, *_: str) -> None:
        self._has_ended = True

    def _refuse_entity(self, name: str, is_of_doctype: bool) -> None:
        if not is_of_doctype:
            raise ValueError(f"an entity {name} that the file does not define")


def _pieces(file: TextIOBase) -> Iterator[bytes]:
    """Yield a file in pieces that begin where a unit does, and more than one of a large unit."""
    data = b""
    while text := file.read(CHUNK):
        data += text.encode()
        starts = [0, *(start.start() for start in _UNIT_START.finditer(data))]
        yield from (data[start:end] for start, end in pairwise(starts))
        data = data[starts[-1] :]
        if len(data) > MAX_LINE:
            yield data
            data = b""
    yield data


def _units(file: TextIOBase, parser: _UnitParser) -> Iterator[tuple[int, Element | str]]:
    """Yield the numbers and units of a file; a text says what is wrong with a damaged unit.

    Raises:
        ValueError: No unit is sound, or there is none for long.
    """
    number, num_lost, damage, has_sound = 0, 0, "", False
    for piece in chain(_pieces(file), [None]):
        parser.parse(piece or b"", is_last=piece is None)
        num_lost = num_lost + len(piece or b"") if parser.is_lost and not parser.units else 0
        for unit in parser.units:
            damage = damage or (unit if isinstance(unit, str) else "")
            has_sound = has_sound or not isinstance(unit, str)
            number += 1
            yield number, unit
        parser.units.clear()
        if damage and (num_lost > MAX_LINE or (piece is None and not has_sound)):
            raise ValueError(f"damaged XML: {damage}")


def _text(element: Element | None) -> str:
    """Return the text of an element; a placeholder becomes the text that it shows, or `{ID}`."""
    if element is None:
        return ""
    text = (element.text or "") + "".join(_text(child) + (child.tail or "") for child in element)
    if element.tag == "pc":
        start, end = (
            element.get(f"disp{place}") or element.get(f"equiv{place}") or ""
            for place in ("Start", "End")
        )
        return f"{start}{text}{end}"
    if element.tag == "g":  # which surrounds text
        return text
    shown = element.get("equiv-text") or element.get("disp") or element.get("equiv")
    if shown or text or element.tag not in ("x", "ph"):
        return shown or text
    return f"{{{element.get('id')}}}" if element.get("id") else " "


def read_tmx(file: TextIOBase, languages: Languages) -> Iterator[Record]:
    """Yield the pairs of a TMX file; languages that are not chosen become the two of the file.

    Raises:
        ValueError: The languages cannot be chosen, or much of the file is damaged.
    """
    units = (
        (number, unit if isinstance(unit, str) else _variants(unit))
        for number, unit in _units(file, _UnitParser())
    )
    seen = list(islice(units, _MOST_SEEN))
    codes = dict.fromkeys(
        code for _, texts in seen if not isinstance(texts, str) for code, _ in texts if code
    )
    names = list(dict.fromkeys(map(_base, codes)))
    if len(names) == 1:  # varieties of a language
        names = [*codes]
    if not (languages.source and languages.target) and len(names) == 2:
        first, last = names
        if languages.source == last or languages.target == first:
            first, last = last, first
        languages.source, languages.target = languages.source or first, languages.target or last
    missing = {_base(languages.source), _base(languages.target)}
    for number, texts in chain(seen, units) if None not in missing else ():
        if isinstance(texts, str):
            yield number, texts, "", "damaged"
        else:
            missing -= {_base(code) for code, _ in texts}
            yield from _pairs_of(number, texts, languages)
    if missing:
        shown = ", ".join(map(str, names[:10])) or "no language"
        raise ValueError(
            f"the file has texts in {shown}; choose two of them, for example source=de target=en"
        )


def _variants(unit: Element) -> list[tuple[str, str]]:
    """Return the languages and texts of a unit of TMX."""
    return [
        (_code(each.get("xml:lang") or each.get("lang") or ""), _text(each.find("seg")))
        for each in unit.iter("tuv")
    ]


def _pairs_of(
    number: int, texts: Sequence[tuple[str, str]], languages: Languages
) -> Iterator[Record]:
    sides = [_texts_in(texts, each or "") for each in (languages.source, languages.target)]
    if len(sides[0]) * len(sides[1]) > _MOST_PAIRS:
        yield number, f"{len(texts):,} texts", "", "damaged"
        return
    for source, target in product(*sides):
        yield number, source, target, None


def _texts_in(texts: Sequence[tuple[str, str]], language: str) -> list[str]:
    """Return the texts in a variety of a language or, if there are none, in the language."""
    language = _code(language)
    exact = [text for code, text in texts if code == language]
    others = [text for code, text in texts if _base(code) == _base(language)]
    return exact if exact and "-" in language else others or [""]


def read_xliff(file: TextIOBase, languages: Languages) -> Iterator[Record]:
    """Yield the units of XLIFF 1.2 or the segments of XLIFF 2.

    Raises:
        ValueError: Much of the file is damaged, or it has other languages than the chosen ones.
    """
    parser = _UnitParser()
    for number, unit in _units(file, parser):
        if max(len({*map(_base, each)}) for each in (parser.sources, parser.targets)) > 1:
            raise ValueError("it has several pairs of languages; split it into a file for each")
        if isinstance(unit, str):
            yield number, unit, "", "damaged"
            continue
        target = unit.find("target")
        state = unit.get("state") or (target is not None and target.get("state")) or ""
        fault = "unfinished" if target is None or state.startswith(_UNFINISHED) else None
        fault = "locked" if unit.get("translate") == "no" else fault
        yield number, _text(unit.find("source")), _text(target), fault
    languages.add(next(iter(parser.sources), None), next(iter(parser.targets), None))


def read_po(lines: Iterable[str], languages: Languages) -> Iterator[Record]:
    """Yield messages; the singular and the plural of a message are two pairs.

    Raises:
        ValueError: The file has another target language than the chosen one.
    """
    for number, block in _blocks(lines):
        texts = _po_texts(block)
        sources = [texts[key] for key in ("msgid", "msgid_plural") if key in texts]
        targets = [text for key, text in texts.items() if key.startswith("msgstr")]
        if not sources or not targets:
            yield number, "\n".join(block), "", "damaged"
        elif not sources[0]:
            named = re.search(r"^Language:\s*([\w-]+)", targets[0], re.MULTILINE)
            languages.add(None, named and named[1])
        else:
            is_fuzzy = any(re.match(r"#,.*\bfuzzy\b", line) for line in block)
            forms = [targets[0], *filter(None, targets[1:])]
            for source, target in zip(sources, (forms[0], forms[-1])[: len(forms)], strict=False):
                yield number, source, target, "unfinished" if is_fuzzy or not target else None


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of each message, with the number of the first one that is no comment."""
    first, block, size = 0, list[str](), 0
    has_id = has_text = False
    for number, line in enumerate(chain(lines, [""]), start=1):
        begins = re.match(r"\s*msg(?:ctxt|id)\b", line) is not None
        is_foreign = _PO_START.match(line) is None
        if (has_text and (begins or line[:1] in "#" or is_foreign)) or (has_id and begins):
            yield first, block
            first, block, size, has_id, has_text = 0, [], 0, False, False
        if line.startswith("#~"):  # an obsolete message
            continue
        if is_foreign and not first:  # such as a conflict marker of git
            yield number, [line]
            continue
        if not first and line.strip() and not line.startswith("#"):
            first = number
        size += len(line) + 1
        if size <= MAX_LINE:
            block.append(line)
        elif block[-1:] != [_TOO_LARGE]:
            block.append(_TOO_LARGE)
        has_id = has_id or re.match(r"\s*msgid\b", line) is not None
        has_text = has_text or line.lstrip().startswith("msgstr")
    if first:
        yield first, block


def _po_texts(block: Sequence[str]) -> dict[str, str]:
    """Return the texts of a message by their keywords; none if a line is damaged."""
    texts, keyword = dict[str, list[str]](), ""
    for line in block:
        if line[:1] in "#" or line.isspace():
            continue
        found = _PO_LINE.fullmatch(line)
        if found is None or found[1] in texts or not (found[1] or keyword):
            return {}
        keyword = found[1] or keyword
        texts.setdefault(keyword, []).append(found[2])
    return {key: _PO_ESCAPE.sub(_unescaped, "".join(parts)) for key, parts in texts.items()}


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character of an escape as in C."""
    code = escape[0][1:]
    if code[0] in "01234567x":
        return chr(int(code.removeprefix("x"), 16 if code[0] == "x" else 8))
    return {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}.get(
        code, code
    )
