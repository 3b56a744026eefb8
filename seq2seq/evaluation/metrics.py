"""sacreBLEU's scores of detokenized text, and ranges of lengths.

How BLEU splits text into words depends on the language.
"""

# S sentences, K sentence statistics: translation and reference length, then the matching and all
# n-grams of orders 1 to 4

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.files.paths import reading

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Signature
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

Array = NDArray[np.float64]

AUTO = "auto"
DEFAULT = "13a"
CHOICES = (AUTO, DEFAULT, "intl", "zh", "ja-mecab", "ko-mecab", "char", "flores200", "none")
"""sacreBLEU's tokenizers to choose from; "auto" uses the tokenizer for the language."""


class ScoringRule(NamedTuple):
    """Tokenizer and case sensitivity of sacreBLEU's scores; their signatures name both."""

    bleu_tokenize: str = DEFAULT
    """Tokenizer of BLEU: one of `CHOICES` except "auto"."""
    lowercase: bool = False
    """Whether case is ignored."""

    @classmethod
    def of_signature(cls, signature: str) -> "ScoringRule":
        """Return the rule that a signature of BLEU names.

        Example:
            >>> ScoringRule.of_signature("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0")
            ScoringRule(bleu_tokenize='13a', lowercase=True)
        """
        parts = dict(part.split(":", 1) for part in signature.split("|") if ":" in part)
        name = parts.get("tok", DEFAULT)
        # For Japanese and Korean, the name includes the version of a dictionary.
        tokenize = next((known for known in _EXTRAS if name.startswith(known)), name)
        return cls(tokenize, parts.get("case") == "lc")


DEFAULT_RULE = ScoringRule()

_OF_LANGUAGES = {
    **dict.fromkeys(("zh", "zho", "cmn"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}
_EXTRAS = ("ja-mecab", "ko-mecab")
_SPLIT_AT_SPACES = (DEFAULT, "intl", "none")
_LONGEST_WORDS = 12
"""Maximum mean number of characters between spaces; beyond it, a text is not split into words."""
_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces: Thai, Lao, Tibetan, Burmese, Khmer, kana and ideograms."""
_LONGEST_UNSPACED = 4
"""Maximum mean number of such letters between spaces; beyond it, a text is not split into words."""
_MOST_WORDS = 500
"""Maximum number of words in a line without a warning that TER is slow: sacreBLEU takes 4 s for 500
words and 24 s for 1,200."""
_IDEOGRAM_TER = ("char", "flores200", "ja-mecab", "zh")
"""Tokenizers of BLEU with which TER counts each ideogram as a word; kana and other scripts without
spaces stay whole."""
_FULL_STOPS = (".", "\u3002", "\u0964")
_ORDERS = 4


@functools.cache
def build_metrics(rule: ScoringRule) -> "dict[str, Metric]":
    """Return sacreBLEU's BLEU, chrF and TER by the names `bleu`, `chrf` and `ter`."""
    # Imported here, so that a training starts before it has loaded them.
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    bleu = build_bleu(rule, key="bleu_tokenize")
    # TER splits ideograms only if it normalizes the text.
    splits_ideograms = rule.bleu_tokenize in _IDEOGRAM_TER
    ter = TER(normalized=splits_ideograms, asian_support=splits_ideograms)
    return {"bleu": bleu, "chrf": CHRF(lowercase=rule.lowercase), "ter": ter}


def signature(rule: ScoringRule, name: str = "bleu", *, num_references: int = 1) -> "Signature":
    """Return sacreBLEU's signature of a measure; only scores with equal signatures are comparable.

    For measures that sacreBLEU does not compute, the signature has only the number of references
    and the version.
    """
    from sacrebleu.metrics.base import Signature

    metric = build_metrics(rule).get(name)
    if metric is None:
        return Signature({"num_refs": num_references})
    metric.num_refs = num_references
    return metric.get_signature()


def chrf_of_each_other(texts: Sequence[str]) -> Array:
    """Return chrF of each text as a translation, with each text as the reference.

    `sentence_chrf` of sacreBLEU gives the same scores, but counts n-grams again for each pair.

    Args:
        texts: K texts.

    Returns:
        Scores in percent, (K, K); each row is for one translation.

    Example:
        >>> chrf_of_each_other(["A dog runs.", "A dog"]).round(1).tolist()
        [[100.0, 70.0], [36.8, 100.0]]
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.helpers import extract_all_char_ngrams

    metric = CHRF()
    counts = [extract_all_char_ngrams(text, metric.char_order) for text in texts]
    return np.array([[_chrf(metric, own, other) for other in counts] for own in counts])


def _chrf(metric: "CHRF", hypothesis: list[Counter[str]], reference: list[Counter[str]]) -> float:
    """Return chrF of a pair, given the n-grams of each order."""
    orders = map(metric._get_match_statistics, hypothesis, reference)
    return clip_score("chrf", metric._compute_f_score(list(chain.from_iterable(orders))))


def clip_score(name: str, value: float) -> float:
    """Return a score without the rounding error that can raise BLEU and chrF above 100.

    Args:
        name: A name of `build_metrics`.
        value: The score in percent.
    """
    return value if name == "ter" else min(value, 100.0)


def choose_bleu_tokenize(value: str, *, language: str) -> str:
    """Return the tokenizer of BLEU for a language.

    Args:
        value: One of `CHOICES`.
        language: Language code of the translations, with or without a region or a script.

    Example:
        >>> choose_bleu_tokenize("auto", language="zh-Hant")
        'zh'
        >>> choose_bleu_tokenize("auto", language="de")
        '13a'
        >>> choose_bleu_tokenize("char", language="ja")
        'char'
    """
    if value != AUTO:
        return value
    return _OF_LANGUAGES.get(re.split("[-_]", language.lower())[0], DEFAULT)


def build_bleu(rule: ScoringRule, *, key: str) -> "BLEU":
    """Return sacreBLEU's BLEU.

    Args:
        rule: Tokenizer and case.
        key: Configuration key of the tokenizer, for the message.

    Raises:
        ValueError: The tokenizer needs a package that is not installed, or a file that cannot be
            downloaded.
    """
    # Imported here, so that training starts without waiting for sacreBLEU.
    from sacrebleu.metrics.bleu import BLEU

    with reading(f"{key}={rule.bleu_tokenize}"):
        # Without `force`, sacreBLEU would warn about tokenized text at each validation.
        return BLEU(tokenize=rule.bleu_tokenize, lowercase=rule.lowercase, force=True)


def check_bleu_is_available(tokenize: str, *, key: str) -> None:
    """Raise ValueError, as `build_bleu` does, unless BLEU can be computed with a tokenizer."""
    if tokenize in _EXTRAS or tokenize == "flores200":
        build_bleu(ScoringRule(tokenize), key=key)


def text_warnings(texts: Mapping[str, Sequence[str]], tokenize: str, *, key: str) -> Iterator[str]:
    """Yield warnings about texts that are not as scores expect, at most one of each kind.

    Args:
        texts: Lines of each text, by a description of the text for the message.
        tokenize: The tokenizer of BLEU.
        key: Configuration key of the tokenizer, for the message.
    """
    describe_spacing = functools.partial(_describe_spacing, tokenize=tokenize, key=key)
    for describe in (describe_spacing, _describe_tokens, _describe_long_line):
        found = (describe(name, lines) for name, lines in texts.items())
        yield from islice(filter(None, found), 1)


def _describe_spacing(name: str, lines: Sequence[str], *, tokenize: str, key: str) -> str | None:
    """Return a warning if a text lacks the spaces that the tokenizer of BLEU needs, else None."""
    if tokenize not in _SPLIT_AT_SPACES or has_spaces(lines):
        return None
    return (
        f"{name} has hardly any spaces, so BLEU with {key}={tokenize} takes whole clauses "
        f"as words; set {key}=char, or zh, ja-mecab or ko-mecab if it is the language"
    )


def _describe_tokens(name: str, lines: Sequence[str]) -> str | None:
    """Return a warning if a text looks split into tokens, which no score expects, else None."""
    ends = [line.rstrip()[-2:] for line in lines]
    stops = [end for end in ends if end.endswith(_FULL_STOPS)]
    num_apart = sum(end[:1].isspace() for end in stops)
    if 2 * num_apart <= len(stops):
        return None
    return (
        f"{name} looks tokenized: {num_apart:,} of {len(lines):,} lines end in ' .'; "
        "detokenize it, for example with sacremoses -l en detokenize"
    )


def _describe_long_line(name: str, lines: Sequence[str]) -> str | None:
    """Return a warning if a line is so long that its TER takes seconds or minutes, else None."""
    longest = max(lines, key=lambda line: len(line.split()), default="")
    if (num_words := len(longest.split())) <= _MOST_WORDS:
        return None
    return (
        f"{name} has a line of {num_words:,} words, {longest[:40]!r}...; its TER is slow "
        "to compute, so split the line on both sides or remove it"
    )


def has_spaces(lines: Sequence[str]) -> bool:
    """Return whether spaces separate the words, unlike in most Chinese, Japanese or Thai text."""
    words = " ".join(lines).split()
    unspaced = sum(len(_UNSPACED.findall(word)) for word in words)
    is_split = unspaced <= _LONGEST_UNSPACED * len(words)
    return is_split and sum(map(len, words)) <= _LONGEST_WORDS * len(words)


def text_lengths(lines: Sequence[str]) -> tuple[list[int], str]:
    """Return the length of each line in words, or in characters if the text has no spaces.

    Returns:
        The lengths, and their unit: "words" or "characters".

    Example:
        >>> text_lengths(["a dog runs", "", "it barks"])
        ([3, 0, 2], 'words')
    """
    if has_spaces(lines):
        return [len(line.split()) for line in lines], "words"
    return [len("".join(line.split())) for line in lines], "characters"


def corpus_bleu(statistics: Array) -> Array:
    """Return BLEU in percent, as sacreBLEU computes it with its default smoothing.

    Args:
        statistics: (..., K), summed over the sentences.

    Returns:
        BLEU, (...).
    """
    length, reference_length = statistics[..., 0], statistics[..., 1]
    matches, totals = statistics[..., 2 : 2 + _ORDERS], statistics[..., 2 + _ORDERS :]
    # The first order without matches counts as half a match, the next as a quarter.
    smoothing = 0.5 ** np.cumsum(matches == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, smoothing) / totals
        brevity = np.minimum(1 - reference_length / length, 0)
        scores = 100 * np.exp(brevity + np.log(precisions).mean(axis=-1))
    has_score = (matches[..., 0] > 0) & (totals > 0).all(axis=-1)
    return np.where(has_score, np.minimum(scores, 100), 0.0)


class Bin(NamedTuple):
    """A range of values that includes both ends."""

    low: int
    high: int | None
    """Upper limit; None: no limit."""

    @property
    def label(self) -> str:
        """Return the range as text, such as `5-8`."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    def has(self, value: int) -> bool:
        """Return whether a value is in the range."""
        return self.low <= value and (self.high is None or value <= self.high)


def equal_bins(values: Sequence[int], *, num_bins: int) -> list[Bin]:
    """Return ranges that each contain about the same number of the values.

    Args:
        values: The values, at least one.
        num_bins: Number of ranges; there are fewer if many values are equal.

    Example:
        >>> [found.label for found in equal_bins([3, 4, 4, 5, 7, 9], num_bins=3)]
        ['3', '4-6', '7-9']
    """
    ordered = sorted(values)
    lows = sorted({ordered[len(ordered) * k // num_bins] for k in range(num_bins)})
    highs = [low - 1 for low in lows[1:]] + [ordered[-1]]
    return [Bin(low, high) for low, high in zip(lows, highs, strict=True)]
