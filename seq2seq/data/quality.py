"""Find text that harms training: clean it, name faulty pairs, and warn before training."""

import hashlib
import html
import html.entities
import logging
import re
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from seq2seq.data.batching import EncodedCorpus, Integers
from seq2seq.files.atomic import naming
from seq2seq.text.rules import digits, normalize

logger = logging.getLogger(__name__)

_MAX_CHARACTERS = 1000
"""Maximum number of characters on a side."""
_MAX_RATIO = 3
"""Maximum ratio of the lengths of both sides, compared with the typical ratio of the pairs."""

FAULTS: Mapping[str, str] = {
    "damaged": "damaged, or too large to read",
    "encoding": "bytes that are not UTF-8; iconv -f CP1252 -t UTF-8 converts Western text",
    "columns": "another number of columns",
    "unfinished": "no finished translation",
    "locked": 'a mark that it must not be translated (translate="no")',
    "header": "names of columns",
    "empty": "an empty side",
    "long": f"a side of more than {_MAX_CHARACTERS:,} characters",
    "ratio": f"a side more than {_MAX_RATIO} times as long as expected",
    "equal": "the same sentence on both sides",
    "swapped": "source and target in each other's language",
    "language": "a side in another language or script",
    "numbers": "numbers on both sides, but none in common",
    "duplicate": "a repeated pair, ignoring case, spaces and punctuation",
}
"""Kinds of pairs that teach a model little or nothing; the first kind that applies counts."""
MARKUP: Mapping[str, str] = {"tags": "HTML tags", "entities": "HTML entities"}
"""Markup that a model learns to write."""

_TAG = re.compile(
    r"</?(?:(?P<block>br|p|div|h[1-6]|hr|li|ol|ul|t[dhr]|table|blockquote)|a|abbr|b|big|center|cite"
    r"|code|em|font|i|img|pre|q|s|small|span|strong|sub|sup|tt|u)"
    r"(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))*\s*/?>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:[A-Za-z]\w*|#\d{1,7}|#x[\dA-Fa-f]{1,6});")
_CONVERTED = re.compile(
    r"\d\s?(?:[\u5343\u4e07\u842c\u5104\u4ebf\u5146\ucc9c\ub9cc\uc5b5\uc870]|lakh|crore|\u0932\u093e\u0916"
    r"|\u0915\u0930\u094b\u0921|\u09b2\u09be\u0996|\u0995\u09cb\u099f\u09bf|\u0e41\u0e2a\u0e19|\u0e25\u0e49\u0e32\u0e19)"
    r"|(?:\u5e73\u6210|\u662d\u548c|\u4ee4\u548c|\u5927\u6b63|\u660e\u6cbb|\u6c11[\u56fd\u570b]|\u0e1e\.?\u0e28\.?)\s?\d",
    re.IGNORECASE,
)
"""A number before a unit that English lacks, such as ten thousand or lakh, or a year of another
calendar; a translation has another number."""
_NUMBER = re.compile(r"\d+(?:[.,:'\u2019]\d+)*")
_PERCENTAGE = re.compile(r"(\d[\d.,]*)\s?[%\u066a]")
_COLUMN_NAMES = {"source", "src", "target", "tgt", "trg", "text", "translation", "sentence"}
_FEW_WORDS = re.compile(
    r"(?=.{1,40}\Z)(?=.*[^\W\d_])(?![\"\u00ab\u201c\u201e])"
    r"(?!.*[.!?\u2026\u3002\uff01\uff1f\u061f\u0964]\W*\Z)"
    r"\S+(?: \S+){0,2}"
)
"""Up to three words, neither quoted nor ending as a sentence does, such as the name of a column."""
_CERTAIN = 20
"""A text counts as foreign if another language is more than this many times as probable."""
_FEWEST_BYTES = 20
"""Minimum number of bytes for guessing a language."""
_SMALL_WORD = re.compile(r"[^\W\d_]+")
_FEWEST_SMALL = 25
"""Minimum number of letters in words without capitals of a text that is neither a list of names nor
a command, which may be foreign."""
_MOST, _RARE = 0.5, 0.05
"""Share that counts as most of the letters or texts, and minimum share of a script that belongs to
a side."""
_FEWEST_PAIRS = 5
"""Minimum number of pairs for comparing the first pair with the others."""
_HOURS = 12
"""Hours of a clock, which begin again at noon."""
_SLACK = 15
"""Number of characters that are added to both lengths, because the ratios of short texts vary."""
_JAPANESE = dict.fromkeys(("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"), "CJK")

_SHARED = 0.01  # up to this share, held-out pairs give no warning
_FEW = 20  # up to this many faulty pairs give no warning
_SHARE = 0.005  # up to this share of faulty pairs, there is no warning either
_MOST_SHIFT = 3  # largest number of missing lines that is detected
_FEWEST, _MOST_BLOCKS = 200, 20  # minimum pairs in a block (chance correlation: 0.07)
_BETTER_FIT = 0.4  # a shift that improves the correlation by more is reported
_LEAST_FIT = 0.2  # Multi30k and Tatoeba have a correlation of 0.85
_LOW_BITS = 0xFFFFF
_BLOCK = 1_000_000  # pairs of a large text that are in memory at once


def clean(text: str, *, keeps_markup: bool = False) -> tuple[str, list[str]]:
    """Return a text normalized and without markup, and the kinds of `MARKUP` that it had.

    Entities become their characters. Only tags of HTML are removed, and other text in angle
    brackets stays.

    Args:
        text: Text of the user.
        keeps_markup: Only normalize the text.

    Example:
        >>> clean("&quot;Tom <b>&amp;</b> <num>&quot;")
        ('"Tom & <num>"', ['entities', 'tags'])
    """
    found = []
    if not keeps_markup and "&" in text:
        plain = _ENTITY.sub(_character, text)
        found += ["entities"] * (plain != text)
        text = plain
    if not keeps_markup and "<" in text:
        plain = _TAG.sub(lambda match: " " if match["block"] else "", text)
        found += ["tags"] * (plain != text)
        text = plain
    return normalize(text), found


def _character(entity: re.Match[str]) -> str:
    """Return the character of an entity; `html.unescape` would take &notice; for &not and ice."""
    is_known = entity[0][1] == "#" or entity[0][1:] in html.entities.html5
    return html.unescape(entity[0]) if is_known else entity[0]


class _Ignored(dict[int, int | None]):
    """A table for `str.translate` that removes punctuation, the marks of keys to press, and
    spaces; filled as needed."""

    def __missing__(self, code: int) -> int | None:
        is_removed = unicodedata.category(chr(code))[0] in "PZ" or chr(code) in "^~`"
        self[code] = None if is_removed else code
        return self[code]


_IGNORED = _Ignored()


_IN_NUMBER = re.compile(r"(?<=\d)[.,:/'\u2019^~-](?=\d)|(?<!\w)[-~](?=\d)|(?<=\d)\s?%")
_DASHES = {0x2013: "-", 0x2212: "-"}
_MARK = re.compile(r"[_&^~`@#%*/\\\u2022\u2026]|([.!?])\1|\A[-\u2013\u2014]|:\Z|\b\w\s\w\s\w\b")
"""Signs of text that is no ordinary sentence, among them spaces between all letters."""


def text_key(text: str) -> str:
    """Return what near duplicates share: a text without case, spaces and punctuation, except in
    numbers.

    Example:
        >>> text_key("Ja, Tom!") == text_key("ja  tom")
        True
        >>> text_key("1,50 Euro") == text_key("150 Euro")
        False
    """
    # A symbol, which is no punctuation, stands for the marks of numbers.
    plain = text.casefold().translate(_DASHES)
    kept = _IN_NUMBER.sub(lambda mark: f"={ord(mark[0][-1])}=", plain)
    return kept.translate(_IGNORED) or text


def oddness(text: str) -> int:
    """Return how far the spelling of a text is from ordinary, to choose among near duplicates.

    Capitals within words, a small letter at the beginning, and marks such as those of a key to
    press or of a list count.

    Example:
        >>> [oddness(text) for text in ("Delete", "delete", "_Delete", "DELETE")]
        [0, 1, 2, 5]
    """
    is_small = next(filter(str.isalpha, text), "").islower()
    inside = sum(map(str.isupper, text)) - sum(word[0].isupper() for word in text.split())
    return is_small + inside + len(_MARK.findall(text))


def hash_text(text: str) -> int:
    """Return a signed 64-bit number that only near duplicates share."""
    return hash_exactly(text_key(text))


def hash_exactly(text: str) -> int:
    """Return a signed 64-bit number that only equal texts share."""
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big", signed=True)


@lru_cache
def _identifier() -> LanguageIdentifier:
    with naming(Path(tempfile.gettempdir())):  # py3langid unpacks its model there
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=4)  # several rules ask for the same pair
def _probabilities(text: str) -> dict[str, float]:
    return dict(_identifier().rank(text))


@lru_cache(maxsize=4)
def _most_probable(text: str) -> str:
    return str(_identifier().classify(text)[0])


@lru_cache
def _known_code(language: str) -> str | None:
    """Return the code of a language that can be recognized, or None."""
    code = re.split("[-_]", language)[0].lower()
    return code if code in _identifier().labels else None


def guess_language(texts: Iterable[str]) -> str | None:
    """Return the code of the language that most texts seem to be in; None if all are short."""
    long = (text for text in texts if len(text.encode()) >= _FEWEST_BYTES)
    found = Counter[str](_identifier().classify(text)[0] for text in long)
    return found.most_common(1)[0][0] if found else None


@lru_cache(maxsize=100_000)
def _script(character: str) -> str:
    name = unicodedata.name(character, "").split(" ")[0]
    return _JAPANESE.get(name, name)


def _usual_scripts(texts: Sequence[str]) -> set[str]:
    """Return the scripts of a side; each text counts equally, whatever its length."""
    shares = dict[str, float]()
    for text in texts:
        counts = _scripts(text)
        for script in +counts:
            shares[script] = shares.get(script, 0) + counts[script] / counts.total()
    return {script for script, share in shares.items() if share >= _RARE * sum(shares.values())}


def _scripts(text: str) -> Counter[str]:
    if text.isascii():
        return Counter({"LATIN": sum(map(str.isalpha, text))})
    return Counter(_script(character) for character in text if character.isalpha())


def _numbers(text: str) -> set[str]:
    """Return the digits of each number in a text, and of each part of these numbers.

    A number from 100 on also counts without zeros at its end, because the other language may have
    5 thousand for 5,000; a year also as its last two digits, an hour also as one of the clock, and
    a percentage as a fraction.
    """
    found = _NUMBER.findall(text)
    parts = [part for number in found for part in re.findall(r"\d+", number)]
    numbers = {digits(each).lstrip("0") for each in (*found, *parts)}
    short = {
        each[:end]
        for each in numbers
        if len(each) > 2
        for end in range(len(each.rstrip("0")), len(each))
    }
    years = {each[2:].lstrip("0") for each in numbers if len(each) == 4}
    hours = {int(each) for each in numbers if len(each) == 2}
    on_clock = {hour % _HOURS for hour in hours if _HOURS <= hour <= 2 * _HOURS}
    fractions = {digits(each).strip("0") for each in _PERCENTAGE.findall(text)}
    return numbers | short | years | fractions | {str(hour or "") for hour in on_clock}


@dataclass
class PairRules:
    """Rules that name the fault of a pair, after `fit` has seen typical pairs."""

    source: str = "source"
    """Language code of the sources; with any other name, the language is not checked."""
    target: str = "target"
    ignored: frozenset[str] = frozenset()
    """Keys of `FAULTS` that do not count as faults."""
    _scale: float = field(default=1.0, init=False)
    _own_scripts: list[set[str]] = field(default_factory=list, init=False)
    _has_few_words: bool = field(default=False, init=False)
    """Whether a pair of a few words each is typical."""

    def fit(self, pairs: Sequence[tuple[str, str]]) -> "PairRules":
        """Learn the ratio of lengths and the scripts of each side, and return the rules.

        Each pair counts equally, so that no single one changes what is typical. If most texts of a
        side are in another language, a warning says so, and languages are not checked.

        Args:
            pairs: Sources and targets; most of the pairs must be sound.
        """
        pairs = [pair for pair in pairs if all(pair) and max(map(len, pair)) <= _MAX_CHARACTERS]
        self._scale = median(len(target) / len(source) for source, target in pairs or [("-", "-")])
        few_words = sum(all(map(_FEW_WORDS.fullmatch, pair)) for pair in pairs)
        self._has_few_words = few_words > max(1, _RARE * len(pairs)) or len(pairs) < _FEWEST_PAIRS
        sides = list(zip(*pairs, strict=True)) or [(), ()]
        self._own_scripts = [_usual_scripts(texts) for texts in sides]
        for texts, name in zip(sides, ("source", "target"), strict=True):
            long = [text for text in texts if len(text.encode()) >= _FEWEST_BYTES]
            code = getattr(self, name)
            others = [text for text in long if self._doubt(text, code) > _CERTAIN]
            if len(others) > _MOST * len(long):
                logger.warning(
                    "most texts of the %s look like %s, not %s, so languages are not checked; "
                    "check the order of the sides, or correct the language code",
                    name,
                    guess_language(others),
                    code,
                )
                self.ignored |= {"swapped", "language"}
        return self

    def fault(self, source: str, target: str, *, is_first: bool = False) -> str | None:
        """Return the key of the first of `FAULTS` that a pair has; later faults are not checked.

        Args:
            source: Text of the source, as `clean` returns it.
            target: Text of the target.
            is_first: Whether this is the first pair of a table, which may name its columns.
        """
        tests: dict[str, Callable[[], bool]] = {
            "header": lambda: is_first and self._names_columns(source, target),
            "empty": lambda: not (source and target),
            "long": lambda: max(len(source), len(target)) > _MAX_CHARACTERS,
            "ratio": lambda: self._differs_in_length(source, target),
            "equal": lambda: (
                source == target
                and self.source != self.target
                and len(source.encode()) >= _FEWEST_BYTES
            ),
            "swapped": lambda: self._is_swapped(source, target),
            "language": lambda: self._is_foreign(source, 0) or self._is_foreign(target, 1),
            "numbers": lambda: self._has_other_numbers(source, target),
        }
        return next(
            (name for name, test in tests.items() if name not in self.ignored and test()), None
        )

    def _names_columns(self, *texts: str) -> bool:
        """Return whether the first pair of a table names its columns.

        It does if its texts are usual names or the languages, or if they are a few words each and
        the pairs of the table are sentences.
        """
        if texts[0] == texts[1] or not all(map(_FEW_WORDS.fullmatch, texts)):
            return False
        names = _COLUMN_NAMES | {self.source.lower(), self.target.lower()}
        bases = {re.split("[-_]", text.lower())[0] for text in texts}
        return bases <= names or not self._has_few_words

    def may_name_columns(self, source: str, target: str) -> bool:
        """Return whether a first pair is like names of columns, and other pairs are so too."""
        return self._has_few_words and all(map(_FEW_WORDS.fullmatch, (source, target)))

    def _differs_in_length(self, source: str, target: str) -> bool:
        expected = _SLACK + self._scale * len(source)
        ratio = (_SLACK + len(target)) / expected
        return max(ratio, 1 / ratio) > _MAX_RATIO

    def _doubt(self, text: str, code: str, instead: str | None = None) -> float:
        """Return how many times as probable another language is; 0 if it is not, or unknown."""
        own = _known_code(code)
        if own is None or len(text.encode()) < _FEWEST_BYTES or _most_probable(text) == own:
            return 0
        found = _probabilities(text)
        other = max(found.values()) if instead is None else found.get(instead, 0)
        return other / max(found[own], sys.float_info.min)  # very long texts have exactly 0

    def _is_swapped(self, source: str, target: str) -> bool:
        doubt = self._doubt(source, self.source, self.target)
        if doubt <= 1:
            return False
        other_doubt = self._doubt(target, self.target, self.source)
        return other_doubt > 1 and doubt * other_doubt > _CERTAIN

    def _is_foreign(self, text: str, side: int) -> bool:
        words = _SMALL_WORD.findall(text)
        may_be_name = sum(len(word) for word in words if word == word.lower()) < _FEWEST_SMALL
        if not may_be_name and self._doubt(text, (self.source, self.target)[side]) > _CERTAIN:
            return True
        counts = _scripts(text)
        own = sum(counts[script] for script in self._own_scripts[side])
        if may_be_name:
            own += counts["LATIN"]
        return len(text.encode()) >= _FEWEST_BYTES and own < _MOST * counts.total()

    @staticmethod
    def _has_other_numbers(source: str, target: str) -> bool:
        if _CONVERTED.search(source) or _CONVERTED.search(target):
            return False
        sides = _numbers(source), _numbers(target)
        return all(sides) and sides[0].isdisjoint(sides[1])


def count_faults(
    pairs: Iterable[tuple[str, str]], rules: PairRules, *, begins: bool
) -> Counter[str]:
    """Count the pairs with each fault and with each kind of markup.

    Args:
        pairs: Text as the model reads it, in which protected markup is a symbol.
        rules: Rules that were fitted to the text.
        begins: Whether the first pair is the first of the corpus.
    """
    found = Counter[str]()
    for place, pair in enumerate(pairs):
        cleaned = [clean(text) for text in pair]
        found.update({kind for _, kinds in cleaned for kind in kinds})
        fault = rules.fault(*(text for text, _ in cleaned), is_first=begins and place == 0)
        found.update(["checked", *([fault] if fault else [])])
    return found


def warn_of_text(name: str, counts: Mapping[str, int]) -> None:
    """Warn about faulty pairs, and about a side with many unknown tokens.

    Args:
        name: Name of the corpus.
        counts: Numbers of tokens, and of faulty pairs as `count_faults` returns them.
    """
    for side in ("source", "target"):
        unknown, tokens = counts[f"unknown_{side}_ids"], counts[f"{side}_ids"]
        if unknown > 0.1 * tokens:
            logger.warning(
                "%s: %d of %d %s tokens are unknown; use subwords (tokenizer=unigram), a larger "
                "vocabulary, a lower tokenizer.min_frequency of words or characters, or with "
                "init_from, text in the languages of its checkpoint",
                name,
                unknown,
                tokens,
                side,
            )
    kinds = [*MARKUP.items(), *FAULTS.items()]
    found = [
        f"{counts.get(kind, 0)} with {text}"
        for kind, text in kinds
        if counts.get(kind, 0) > (kind != "header") * max(_FEW, _SHARE * counts["checked"])
    ]
    if found:
        logger.warning(
            "%s: faulty pairs among %d that were checked: %s; seq2seq-prepare removes them",
            name,
            counts["checked"],
            ", ".join(found),
        )


def warn_of_shift(name: str, encoded: EncodedCorpus) -> None:
    """Warn if source lengths fit the target lengths badly, or better after a shift of lines."""
    size = min(max(_FEWEST, len(encoded) // _MOST_BLOCKS), _BLOCK)
    last = len(encoded) - size - 2 * _MOST_SHIFT
    if last < 0:
        return
    for first in np.linspace(0, last, _MOST_BLOCKS).astype(int):
        pairs = slice(first, first + size + 2 * _MOST_SHIFT)
        sources, targets = (
            np.log1p(rows.lengths(pairs)) for rows in (encoded.source_rows, encoded.target_rows)
        )
        block = sources[_MOST_SHIFT:][:size]
        with np.errstate(invalid="ignore"):  # all lengths may be equal
            fits = [
                np.corrcoef(block, targets[place:][:size])[0, 1]
                for place in range(2 * _MOST_SHIFT + 1)
            ]
        best = int(np.argmax(np.nan_to_num(fits)))
        if fits[best] > fits[_MOST_SHIFT] + _BETTER_FIT:
            pair = int(encoded.indices[first + _MOST_SHIFT + size // 2]) + 1
            logger.warning(
                "%s: by their lengths, the sources around pair %d fit the targets around pair %d "
                "better than their own; look for a line that is missing on one side",
                name,
                pair,
                pair + best - _MOST_SHIFT,
            )
            return
    some = slice(None, None, len(encoded) // _BLOCK + 1)  # the text may be sorted
    source_lengths = encoded.source_rows.lengths(some)
    target_lengths = encoded.target_rows.lengths(some)
    with np.errstate(invalid="ignore"):
        fit = np.corrcoef(source_lengths, target_lengths)[0, 1]
    if fit < _LEAST_FIT:
        logger.warning(
            "%s: the lengths of sources and targets hardly correlate (%.2f); check that each line "
            "of one side translates the same line of the other",
            name,
            fit,
        )


def warn_of_shared(name: str, encoded: EncodedCorpus, train: EncodedCorpus) -> None:
    """Warn if more than 1% of the pairs to score have a side that is in the training text too."""
    shared = [
        _find_shared(own, others) for own, others in zip(encoded.hashes, train.hashes, strict=True)
    ]
    number = int(np.logical_or(*shared).sum())
    if number > _SHARED * len(encoded):
        logger.warning(
            "%s: %d of %d pairs have a source (%d) or a target (%d) that is also in the training "
            "text; scores on them say nothing about new text",
            name,
            number,
            len(encoded),
            *(each.sum() for each in shared),
        )


def _find_shared(own: Integers, others: Integers) -> npt.NDArray[np.bool_]:
    """Return which of `own` occur among the hashes of another text, which may be large."""
    # Comparing the low bits first leaves only a few hashes of a large text to compare.
    low, is_shared = own & _LOW_BITS, np.zeros(len(own), dtype=np.bool_)
    for start in range(0, len(others), _BLOCK):
        known = others[start : start + _BLOCK]
        candidates = known[np.isin(known & _LOW_BITS, low, kind="table")]
        is_shared |= np.isin(own, candidates)
    return is_shared
