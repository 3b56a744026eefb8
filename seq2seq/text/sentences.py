"""Split a text into sentences, join their translations, and count the habits of training text.

The page that translates in a browser does the same in export/web/sentences.js, with the same marks
and words from sentences.json. Both must pass the cases of tests/text/sentences.json.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from seq2seq.text.patterns import PATTERNS, UNIT
from seq2seq.text.rules import in_capitals

RULES: dict[str, str | list[str]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
"""Marks, words in lower case, and patterns; Python and JavaScript make regular expressions from
them."""

_CONTEXT = 60
"""Number of characters before and after a gap that are inspected."""
_WORDS = {name: frozenset(words) for name, words in RULES.items()}
_MARKS = {name: re.escape("".join(marks)) for name, marks in RULES.items()}
_OPENERS = frozenset(pair[0] for pair in RULES["quotations"])
_INTRODUCING = tuple(RULES["before_quotation"])
_SYMBOLS = ("So", "Sm", "Sk")

_LETTER = r"[^\W\d_]"
_STOP = f"(?:[{_MARKS['stops']}{_MARKS['stops_without_space']}]|(?<=[\u0370-\u03ff\u1f00-\u1fff]);)"
_WIDE, _CLOSER = f"[{_MARKS['stops_without_space']}]", f"[{_MARKS['closing']}]"
_QUOTATION = "|".join(f"{pair[0]}[^{pair} ]*{pair[1]}" for pair in RULES["quotations"])
_BREAK = r"(?:<[Bb][Rr]\s*/?>|\\[Nn])"
"""A mark at which a line breaks: HTML's, and those of subtitles and messages."""
PATTERNS_OF_SENTENCES: Mapping[str, str] = {
    # No position is tried twice, which keeps the time linear in the length of the text.
    "gap": (
        rf"(?P<break>\s*{_BREAK}(?:\s*{_BREAK})*\s*)|(?P<mark>{_QUOTATION}|{_WIDE}+{_CLOSER}*)\s*"
        rf"|\s+|(?<=[.!?])(?={_LETTER}|<)|(?<=>)(?={_LETTER}|<)"
    ),
    "may_end": rf"{_STOP}[^{_MARKS['stops']}\d]|{_WIDE}",
    # A French quotation begins with \u00ab and a space.
    "closing": rf"\A(?:(?![\u00ab\u2039]\s){_CLOSER}(?:\s|\Z)|{_STOP}|</)",
    "quoted_end": rf"{_STOP}{_CLOSER}+\Z",
    "closed": rf"(?:(?<!\s)(?:{RULES['footnote']})|{_CLOSER}|\s)*\Z",
    "stopped": rf"{_STOP}\Z",
    "wide_stopped": rf"{_WIDE}\Z",
    "decimal": r"\uff0e\Z",
    "tags": PATTERNS["tags"],
    "glued": rf"(?<!\S){RULES['before_glued']}\Z",
    "after_glued": rf"\A{RULES['after_glued']}",
    "token": rf"(?<!\S)[{_MARKS['opening']}]*(?P<word>\S*)\.\Z",
    "initials": (rf"(?:(?:(?<!\S)|(?<=[{_MARKS['opening']}])|(?<=\.-)){_LETTER}\.\s?)+\Z"),
    "initial": rf"\A{_LETTER}\.",
    "dotted": rf"\A{_LETTER}(?:\.{_LETTER})*\Z",
    "number": rf"\A(?:{RULES['number']})\Z",
    "first_word": r"(?P<start>\w+)(?:['\u2019]\w+)?",
    "last_word": r"[^\W_]*\s*\Z",
    "pronoun": r"(?<!\w)[a-z]+\s+I\.\Z",
    "i_am": r"(?<!\w)I\s+am\s*\Z",
    "second_number": rf"(?<!\w)(?:{RULES['number']})\.\s+\S+\s+\Z",
    "not_words": "|".join(
        (
            rf"(?<![\w.,/-])[\d]+(?:[.,][\d]+)*[\s]?{UNIT}(?![\w])",
            *PATTERNS.values(),
            r"(?<![\w])[a-z]{2,20}://[!-~]*",
            # `IV.` is a sentence of its own in "IV. Der Mieter zahlt."
            rf"\A(?:{RULES['list_marker']}|(?!I\.)[IVX]{{1,5}}\.|{_BREAK}(?:[\s]*{_BREAK})*)\Z",
        )
    ),
    "break": rf"\A\s*(?:{_BREAK}\s*)+\Z",
    "speech": rf"\A{RULES['speech']}",
    "list_marker": rf"\A(?:{RULES['list_marker']})\Z",
    "starts_wide": rf"\A[{RULES['without_spaces']}]",
    "ends_wide": rf"[{RULES['without_spaces']}]\Z",
}
"""Regular expressions of Python; the page gets them in the syntax of JavaScript."""
_FIND = {name: re.compile(pattern) for name, pattern in PATTERNS_OF_SENTENCES.items()}
_SPACE = re.compile(r"\s+")
_PASSED_STOP = re.compile(rf"{_STOP}{_CLOSER}{{,3}}(?:\s+|(?<={_WIDE}))\S{{,9}}{_LETTER}")


def split_sentences(text: str) -> list[str]:
    """Split a text at the ends of its sentences and drop the spaces between them.

    A sentence does not end after an initial (J. Bach), an ordinal (am 3. Mai) or an abbreviation
    (Dr.), nor before a lower-case letter, unless the text has no capitals. Nor does it end in a
    Japanese quotation or in a tag of markup. A line break between two sentences is a piece of its
    own.

    Example:
        >>> split_sentences("Am 3. Mai kam Dr. Bach. Es regnete!")
        ['Am 3. Mai kam Dr. Bach.', 'Es regnete!']
        >>> split_sentences("<i>Ja.</i><br>Nein.")
        ['<i>Ja.</i>', '<br>', 'Nein.']
    """
    if not _FIND["may_end"].search(text):
        return [text]
    sentences: list[str] = []
    start = 0
    is_lower = text.islower()
    tags = _FIND["tags"].finditer(text)
    in_tags = {place for tag in tags for place in range(tag.start() + 1, tag.end())}
    for gap in _FIND["gap"].finditer(text):
        last, end = gap.end("mark"), gap.end()
        last = gap.start() if last < 0 else last
        if last <= start or end == len(text) or last in in_tags:
            continue
        before, after = text[max(start, last - _CONTEXT) : last], text[end : end + _CONTEXT]
        if last < end or before[-1] == ">" or after[0] == "<":
            is_end = _is_end(before, after, is_lower=is_lower)
        elif not gap["mark"]:
            is_end = _is_glued_end(before, after)
        elif gap["mark"][0] in _OPENERS:
            introduced = text[: gap.start()].endswith(_INTRODUCING)
            is_quoted = _FIND["quoted_end"].search(before) is not None
            is_end = is_quoted and (introduced or after[0] in _OPENERS)
        else:
            is_number = after[0].isdecimal() and _FIND["decimal"].search(before)
            is_end = not is_number and not _FIND["closing"].match(after)
        if is_end:
            sentences += [text[start:last].strip(), *[gap["break"]][: gap["break"] is not None]]
            start = end
    return [*sentences, text[start:]]


def _is_end(before: str, after: str, *, is_lower: bool) -> bool:
    """Return whether a sentence ends at a space, a line break or a tag.

    Args:
        before: The sentence up to the gap, or its last characters.
        after: The first characters after the gap.
        is_lower: Whether the text has no capitals.
    """
    if _FIND["closing"].match(after):
        return False
    before, after = (_FIND["tags"].sub("", each) for each in (before, after))
    before = before[: _FIND["closed"].search(before).start()]  # type: ignore[union-attr]
    if not _FIND["stopped"].search(before) or _FIND["closing"].match(after):
        return False
    first = _FIND["first_word"].search(after)
    if _FIND["wide_stopped"].search(before) or first is None:
        return True
    if first[0][0].islower() and not is_lower:
        return False
    token = _FIND["token"].search(before)
    return token is None or _word_ends(token["word"], before, first)


def _is_glued_end(before: str, after: str) -> bool:
    """Return whether a sentence ends at a stop without a space after it.

    After a period, the next word must be one that often begins a sentence: `heute.Es` is the end of
    a sentence, `config.Name` is not.
    """
    first = _FIND["after_glued"].match(after)
    if first is None or not _FIND["glued"].search(before):
        return False
    return not before.endswith(".") or first[0].lower() in _WORDS["starters"]


def _word_ends(word: str, before: str, first: re.Match[str]) -> bool:
    """Return whether a sentence ends after a word with a period.

    Args:
        word: The word without the period.
        before: The sentence up to the period, or its last characters.
        first: The first word after it.
    """
    following = first[0].lower().replace("\u2019", "'")
    starts = following in _WORDS["starters"] or first["start"].lower() in _WORDS["starters"]
    if found := _FIND["initials"].search(before):
        word = "".join(found[0].split()).removesuffix(".")
        if _FIND["initial"].match(first.string[first.start() :]):
            return False
    lower = word.lower()
    rest = before[: -len(word) - 1]
    after_word = first.string[first.end() : first.end() + 1]
    is_number = following[0].isdecimal()
    if not _WORDS["never_end"].isdisjoint((lower, word)):
        return False
    if lower in _WORDS["degrees"] and rest.strip()[-1:] == ".":
        return False
    if is_number and (lower in _WORDS["before_number"] or lower.endswith(("str", "nr"))):
        return False
    if lower in _WORDS["times"]:
        return following not in _WORDS["days"] and following not in _WORDS["months"]
    if _FIND["pronoun"].search(before):
        return True
    is_ordinal = _FIND["number"].match(word) is not None
    if is_ordinal and not is_number:
        last = _FIND["last_word"].search(rest)[0].strip().lower()  # type: ignore[index]
        is_ordinal = (
            not rest.strip()
            or not _WORDS["months"].isdisjoint((following, f"{following}{after_word}"))
            or (last in _WORDS["before_ordinal"] and not _FIND["i_am"].search(rest))
            or _FIND["second_number"].search(rest) is not None
        )
        return starts or not is_ordinal
    may_end = lower in _WORDS["may_end"] or _FIND["dotted"].match(word)
    return starts or not (may_end or is_ordinal)


def has_words(text: str) -> bool:
    """Return whether a text has a letter outside addresses, tags, placeholders and codes.

    Example:
        >>> has_words("12:30"), has_words("https://example.com/a"), has_words("12 Uhr")
        (False, False, True)
        >>> has_words("KR-7 {name}<br/>")
        False
    """
    # Nearly every sentence has such a word; only tags and braces have some in them.
    if not {"<", "{"} & {*text} and any(len(each) > 3 and each.isalpha() for each in text.split()):
        return True
    return any(map(str.isalpha, _FIND["not_words"].sub(" ", text.strip())))


def goes_on_after_stop(text: str) -> bool:
    """Return whether a text has words after a stop, at which a sentence may end.

    Example:
        >>> goes_on_after_stop("Am 3. Mai."), goes_on_after_stop("Heute.")
        (True, False)
    """
    return _PASSED_STOP.search(text) is not None


def is_break(text: str) -> bool:
    """Return whether a text is a line break, such as `<br />`, which `split_sentences` sets apart.

    Example:
        >>> is_break(" <br />"), is_break("<i>")
        (True, False)
    """
    return _FIND["break"].match(text) is not None


def split_marker(text: str) -> tuple[str, str]:
    """Return the marker at the start of a sentence, such as a bullet or `a)`, and the rest.

    The dash before a speaker in subtitles is a marker even without a space.

    Example:
        >>> split_marker("- Es regnet."), split_marker("Es regnet.")
        (('-', 'Es regnet.'), ('', 'Es regnet.'))
    """
    marker, _, rest = _SPACE.sub("\n", text.strip(), count=1).partition("\n")
    is_marker = all(map(_is_symbol, marker)) or _FIND["list_marker"].match(marker)
    if rest and is_marker:
        return marker, rest
    speech = text.strip()
    return (speech[0], speech[1:]) if _FIND["speech"].match(speech) else ("", text)


def _is_symbol(character: str) -> bool:
    return character in _WORDS["markers"] or unicodedata.category(character) in _SYMBOLS


def join_sentences(texts: Iterable[str]) -> str:
    """Join translated sentences with spaces, except beside Chinese and Japanese characters.

    A marker keeps the space after it; a line break gets none.

    Example:
        >>> join_sentences(["Ja.", "Nein."]), join_sentences(["\u662f\u3002", "\u4e0d\u3002"])
        ('Ja. Nein.', '\u662f\u3002\u4e0d\u3002')
    """
    joined: list[str] = []
    for text in filter(None, texts):
        if joined and not is_break(joined[-1]) and not is_break(text):
            is_wide = _FIND["ends_wide"].search(joined[-1]) or (
                _FIND["starts_wide"].match(text) and has_words(joined[-1])
            )
            joined += [] if is_wide else [" "]
        joined.append(text)
    return "".join(joined)


_MANY, _SOME = 0.5, 0.01
"""Minimum shares of the training text from which a model learns to translate lines with several
sentences, and lines without words or in capitals."""


class Split(Enum):
    """The treatment of lines with several sentences."""

    auto = "auto"
    """Split the line if most lines of the training text have one sentence, or if it has more than
    1,000 tokens."""
    always = "always"
    """Split every line into its sentences."""
    never = "never"
    """Translate each line as it is: never split it, never skip text without words, and keep
    capitals."""


class TextHabits(NamedTuple):
    """Shares of the training pairs; 0 if they are not known."""

    several_sentences: float = 0.0
    """Share of the sources with several sentences."""
    without_words: float = 0.0
    """Share of the sources that have no words and a different text as target."""
    capitals: float = 0.0
    """Share of the sources in capitals."""

    @property
    def has_sentences(self) -> bool:
        """Return whether most lines are single sentences."""
        return self.several_sentences < _MANY

    @property
    def keeps_other_text(self) -> bool:
        """Return whether text without words is not translated."""
        return self.without_words < _SOME

    @property
    def reads_capitals(self) -> bool:
        """Return whether the model has learned to translate text in capitals."""
        return self.capitals >= _SOME


HABITS = TextHabits._fields


def count_habits(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Count the pairs with each of the habits in `TextHabits`.

    Example:
        >>> count_habits([("Ja. Nein.", "Yes. No."), ("12:30", "half past twelve"), ("5", "5")])
        {'several_sentences': 1, 'without_words': 1, 'capitals': 0}
    """
    several = others = capitals = 0
    for source, target in pairs:
        several += len(split_sentences(source)) > 1
        others += source != target and not has_words(source)
        capitals += in_capitals(source)
    return dict(zip(HABITS, (several, others, capitals), strict=True))
