"""Choose how sacreBLEU splits text into words for BLEU, by the language of the text."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

AUTO = "auto"
DEFAULT = "13a"
CHOICES = (AUTO, DEFAULT, "intl", "zh", "ja-mecab", "ko-mecab", "char", "flores200", "none")
"""The tokenizers of sacreBLEU that can be chosen; "auto" means the one of the language."""


class ScoringRule(NamedTuple):
    """Tokenizer and case of sacreBLEU's scores; their signatures name both."""

    bleu_tokenize: str = DEFAULT
    """Tokenizer of BLEU: one of `CHOICES` but "auto"."""
    lowercase: bool = False
    """Whether the case of letters is ignored."""

    @classmethod
    def of_signature(cls, signature: str) -> "ScoringRule":
        """Return the rule that a signature of BLEU names.

        Example:
            >>> ScoringRule.of_signature("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0")
            ScoringRule(bleu_tokenize='13a', lowercase=True)
        """
        parts = dict(part.split(":", 1) for part in signature.split("|") if ":" in part)
        name = parts.get("tok", DEFAULT)
        # Those of Japanese and Korean add the version of a dictionary to the name.
        tokenize = next((known for known in _EXTRAS if name.startswith(known)), name)
        return cls(tokenize, parts.get("case") == "lc")


DEFAULT_RULE = ScoringRule()

_OF_LANGUAGES = {
    "zh": "zh",
    "zho": "zh",
    "cmn": "zh",
    "ja": "ja-mecab",
    "jpn": "ja-mecab",
    "ko": "ko-mecab",
    "kor": "ko-mecab",
}
_EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}
_SPLIT_AT_SPACES = (DEFAULT, "intl", "none")
# Thai to Tibetan, Myanmar, Khmer, kana, Chinese characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_UNSPACED_WORD, _ANY_WORD = 5, 20
"""Mean number of characters between spaces above which a text is not split into words."""


def check_bleu_tokenize(value: str, *, key: str) -> None:
    """Raise ValueError unless the value of a configuration key is one of `CHOICES`."""
    if value not in CHOICES:
        raise ValueError(f"{key}={value} is not a tokenizer of BLEU; one of: {', '.join(CHOICES)}")


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


def build_bleu(rule: ScoringRule, *, key: str, force: bool = False) -> "BLEU":
    """Return sacreBLEU's BLEU.

    Args:
        rule: Tokenizer and case.
        key: Configuration key of the tokenizer, for the message.
        force: Do not warn of lines that look tokenized.

    Raises:
        ValueError: The tokenizer needs a package that is not installed, or a file that cannot be
            downloaded.
    """
    # Training does not score until after its first updates, so its start does not wait for this.
    from sacrebleu.metrics.bleu import BLEU

    tokenize = rule.bleu_tokenize
    try:
        return BLEU(tokenize=tokenize, lowercase=rule.lowercase, force=force)
    except (RuntimeError, ImportError, OSError) as error:
        reason = f"{' '.join(str(error).split())}; "
        if extra := _EXTRAS.get(tokenize):
            reason = f"packages are missing; pip install 'attention-seq2seq[{extra}]', or "
        raise ValueError(f"BLEU cannot use {key}={tokenize}: {reason}set {key}=char") from error


def check_bleu_is_available(tokenize: str, *, key: str) -> None:
    """Raise ValueError, as `build_bleu` does, unless BLEU can be computed with a tokenizer."""
    if tokenize in _EXTRAS or tokenize == "flores200":
        build_bleu(ScoringRule(tokenize), key=key)


def describe_missing_spaces(references: Sequence[str], tokenize: str, *, key: str) -> str | None:
    """Return a warning if BLEU splits at spaces a text that has hardly any, otherwise None.

    Args:
        references: Text of the language of the translations.
        tokenize: The tokenizer of BLEU.
        key: Its configuration key, for the message.
    """
    if tokenize not in _SPLIT_AT_SPACES:
        return None
    words = [word for line in references for word in line.split()]
    num_characters = sum(map(len, words))
    num_unspaced = sum(len(_UNSPACED.findall(word)) for word in words)
    limit = _UNSPACED_WORD if 2 * num_unspaced > num_characters else _ANY_WORD
    if num_characters <= limit * len(words):
        return None
    return (
        f"the references have hardly any spaces, so BLEU with {key}={tokenize} takes whole clauses "
        f"as words; set {key}=char, or zh, ja-mecab or ko-mecab if it is the language"
    )
