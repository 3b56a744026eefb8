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

from seq2seq.text.rules import PATTERNS, in_capitals

RULES: dict[str, str | list[str]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
"""Marks, words in lower case, and patterns; Python and JavaScript make regular expressions from
them."""

_CONTEXT = 60
"""Number of characters before and after a gap that are inspected."""
_WORDS = {name: frozenset(words) for name, words in RULES.items()}
_MARKS = {name: re.escape("".join(marks)) for name, marks in RULES.items()}
_WIDE_STOPS = tuple(RULES["stops_without_space"])
_STOPS = (*RULES["stops"], *_WIDE_STOPS)
_OPENERS = frozenset(pair[0] for pair in RULES["quotations"])
_INTRODUCING = tuple(RULES["before_quotation"])
_SYMBOLS = ("So", "Sm", "Sk")

_STOP = f"[{_MARKS['stops']}{_MARKS['stops_without_space']}]"
_CLOSER = f"[{_MARKS['closing']}]"
_QUOTATION = "|".join(f"{pair[0]}[^{pair} ]*{pair[1]}" for pair in RULES["quotations"])
# No position is tried twice, which keeps the time linear in the length of the text.
_GAP = re.compile(
    rf"(?P<mark>{_QUOTATION}|[{_MARKS['stops_without_space']}]+{_CLOSER}*)\s*|\s+"
    r"|(?<=[.!?])(?=[^\W\d_])"
)
_MAY_END = re.compile(rf"{_STOP}[^{_MARKS['stops']}\d]|[{_MARKS['stops_without_space']}]")
_CLOSING = re.compile(rf"{_CLOSER}(?:\s|\Z)|{_STOP}")
_QUOTED_END = re.compile(rf"{_STOP}{_CLOSER}+\Z")
_CLOSED = re.compile(rf"(?:(?<!\s)(?:{RULES['footnote']})|{_CLOSER}|\s)*\Z")
_GLUED = re.compile(rf"(?<!\S){RULES['before_glued']}\Z")
_AFTER_GLUED = re.compile(str(RULES["after_glued"]))
_TOKEN = re.compile(rf"(?<!\S)[{_MARKS['opening']}]*(?P<word>\S*)\.\Z")
_INITIALS = re.compile(r"(?:(?<![\w.'\u2019/])[^\W\d_]\.\s?)+\Z")
_INITIAL = re.compile(r"[^\W\d_]\.")
_DOTTED = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")
_NUMBER = re.compile(str(RULES["number"]))
_FIRST_WORD = re.compile(r"(?P<start>\w+)(?:['\u2019]\w+)?")
_LAST_WORD = re.compile(r"[^\W_]*\s*\Z")
_PRONOUN = re.compile(r"(?<!\w)[a-z]+\s+I\.\Z")
_I_AM = re.compile(r"(?<!\w)I\s+am\s*\Z")
_SECOND_NUMBER = re.compile(rf"(?<!\w)(?:{RULES['number']})\.\s+\S+\s+\Z")
WITHOUT_WORDS: Mapping[str, str] = {
    "measures": rf"(?<![\w.,/-])[\d]+(?:[.,][\d]+)*[\s]?(?:{RULES['units']})(?![\w])",
    **PATTERNS,
    "addresses": r"(?<![\w])[a-z]{2,20}://[!-~]*",
    # `IV.` is a sentence of its own in "IV. Der Mieter zahlt."
    "list_marker": rf"\A(?:{RULES['list_marker']}|(?!I\.)[IVX]{{1,5}}\.)\Z",
}
"""Patterns of spans whose letters are not words."""
_WITHOUT_WORDS = re.compile("|".join(WITHOUT_WORDS.values()))
_TAG = re.compile(PATTERNS["tags"])
_SPACE = re.compile(r"\s+")
_SPEECH = re.compile(str(RULES["speech"]))
_LIST_MARKER = re.compile(str(RULES["list_marker"]))
_WITHOUT_SPACES = re.compile(f"[{RULES['without_spaces']}]")


def split_sentences(text: str) -> list[str]:
    """Split a text at the ends of its sentences and drop the spaces between them.

    A sentence does not end after an initial (J. Bach), an ordinal (am 3. Mai) or an abbreviation
    (Dr.), nor before a lower-case letter, unless the text has no capitals. Nor does it end in a
    Japanese quotation or in a tag of markup.

    Example:
        >>> split_sentences("Am 3. Mai kam Dr. Bach. Es regnete!")
        ['Am 3. Mai kam Dr. Bach.', 'Es regnete!']
    """
    if not _MAY_END.search(text):
        return [text]
    sentences: list[str] = []
    start = 0
    is_lower = text.islower()
    in_tags = {place for tag in _TAG.finditer(text) for place in range(tag.start() + 1, tag.end())}
    for gap in _GAP.finditer(text):
        last, end = gap.end("mark"), gap.end()
        last = gap.start() if last < 0 else last
        if last <= start or end == len(text) or last in in_tags:
            continue
        before, after = text[max(start, last - _CONTEXT) : last], text[end : end + _CONTEXT]
        if last < end:
            is_end = _is_end(before, after, is_lower=is_lower)
        elif not gap["mark"]:
            is_end = _is_glued_end(before, after)
        elif gap["mark"][0] in _OPENERS:
            introduced = text[: gap.start()].endswith(_INTRODUCING)
            is_end = _QUOTED_END.search(before) is not None and (introduced or after[0] in _OPENERS)
        else:
            is_end = _CLOSING.match(after) is None
        if is_end:
            sentences.append(text[start:end].strip())
            start = end
    return [*sentences, text[start:]]


def _is_end(before: str, after: str, *, is_lower: bool) -> bool:
    """Return whether a sentence ends at a space.

    Args:
        before: The sentence up to the space, or its last characters.
        after: The first characters after the space.
        is_lower: Whether the text has no capitals.
    """
    before = before[: _CLOSED.search(before).start()]  # type: ignore[union-attr]
    if not before.endswith(_STOPS) or _CLOSING.match(after):
        return False
    first = _FIRST_WORD.search(after)
    if before.endswith(_WIDE_STOPS) or first is None:
        return True
    if first[0][0].islower() and not is_lower:
        return False
    token = _TOKEN.search(before)
    return token is None or _word_ends(token["word"], before, first)


def _is_glued_end(before: str, after: str) -> bool:
    """Return whether a sentence ends at a stop without a space after it.

    After a period, the next word must be one that often begins a sentence: `heute.Es` is the end of
    a sentence, `config.Name` is not.
    """
    first = _AFTER_GLUED.match(after)
    if first is None or not _GLUED.search(before):
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
    if found := _INITIALS.search(before):
        word = "".join(found[0].split()).removesuffix(".")
        if _INITIAL.match(first.string, first.start()):
            return False
    lower = word.lower()
    rest = before[: -len(word) - 1]
    after_word = first.string[first.end() : first.end() + 1]
    is_number = following[0].isdecimal()
    if lower in _WORDS["never_end"] or (lower in _WORDS["degrees"] and rest.strip()[-1:] == "."):
        return False
    if is_number and (lower in _WORDS["before_number"] or lower.endswith(("str", "nr"))):
        return False
    if lower in _WORDS["times"]:
        return following not in _WORDS["days"] and following not in _WORDS["months"]
    if _PRONOUN.search(before):
        return True
    if _NUMBER.fullmatch(word) and not is_number:
        last = _LAST_WORD.search(rest)[0].strip().lower()  # type: ignore[index]
        is_ordinal = (
            not rest.strip()
            or not _WORDS["months"].isdisjoint((following, f"{following}{after_word}"))
            or (last in _WORDS["before_ordinal"] and not _I_AM.search(rest))
            or _SECOND_NUMBER.search(rest) is not None
        )
        return starts or not is_ordinal
    return starts or not (
        lower in _WORDS["may_end"] or _DOTTED.fullmatch(word) or _NUMBER.fullmatch(word)
    )


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
    return any(map(str.isalpha, _WITHOUT_WORDS.sub(" ", text.strip())))


def split_marker(text: str) -> tuple[str, str]:
    """Return the marker at the start of a sentence, such as a bullet or `a)`, and the rest.

    The dash before a speaker in subtitles is a marker even without a space.

    Example:
        >>> split_marker("- Es regnet."), split_marker("Es regnet.")
        (('-', 'Es regnet.'), ('', 'Es regnet.'))
    """
    marker, _, rest = _SPACE.sub("\n", text.strip(), count=1).partition("\n")
    is_marker = all(map(_is_symbol, marker)) or _LIST_MARKER.fullmatch(marker)
    if rest and is_marker:
        return marker, rest
    speech = text.strip()
    return (speech[0], speech[1:]) if _SPEECH.match(speech) else ("", text)


def _is_symbol(character: str) -> bool:
    return character in _WORDS["markers"] or unicodedata.category(character) in _SYMBOLS


def join_sentences(texts: Iterable[str]) -> str:
    """Join translated sentences with spaces, except beside Chinese and Japanese characters.

    A marker keeps the space after it.

    Example:
        >>> join_sentences(["Ja.", "Nein."]), join_sentences(["\u662f\u3002", "\u4e0d\u3002"])
        ('Ja. Nein.', '\u662f\u3002\u4e0d\u3002')
    """
    joined: list[str] = []
    for text in filter(None, texts):
        if joined and not _WITHOUT_SPACES.fullmatch(joined[-1][-1]):
            is_wide = _WITHOUT_SPACES.match(text) and has_words(joined[-1])
            joined += ["" if is_wide else " "]
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


UNKNOWN_HABITS = TextHabits()


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
    return dict(zip(TextHabits._fields, (several, others, capitals), strict=True))
