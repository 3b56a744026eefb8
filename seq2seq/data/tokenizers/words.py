"""Words as tokens."""

import logging
import re
from collections import Counter
from collections.abc import Sequence

from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.base import (
    UNKNOWN_SURFACE,
    TokenizerPair,
    TokenizerState,
    word_indices,
)
from seq2seq.data.tokenizers.config import WordsConfig
from seq2seq.data.tokenizers.registry import register_tokenizer
from seq2seq.special_tokens import SPECIAL_TOKENS, UNK

logger = logging.getLogger(__name__)

KIND = "words"

_ENDINGS = "s|t|re|ve|ll|d|m"
_SPACING = (
    (re.compile(rf"(?<=\w) ' (?=(?:{_ENDINGS})\b)"), "'"),
    (re.compile(rf" (?=(?:[.,;:!?%)\]}}]|n't|'(?:{_ENDINGS}))(?: |$))"), ""),
    (re.compile(r"(?<=[(\[{]) "), ""),
)
"""Patterns in words joined by spaces, and their replacements."""


class WordTokenizer:
    """Tokenizer of words; words outside its vocabulary are unknown.

    Example:
        >>> tokenizer = WordTokenizer(
        ...     ["a", "dog", "."], tokenizer="moses", language="en", lowercase=False
        ... )
        >>> tokenizer.encode(["a big dog."])
        [[4, 1, 5, 6]]
        >>> tokenizer.decode([4, 5, 6])
        'a dog.'
    """

    def __init__(
        self, words: Sequence[str], *, tokenizer: str, language: str, lowercase: bool
    ) -> None:
        """Create a tokenizer with a known vocabulary.

        Args:
            words: Vocabulary without special tokens.
            tokenizer: Name of the rules that split a line, as `splitter` takes it.
            language: Language code.
            lowercase: Convert lines to lower case first.

        Raises:
            ValueError: The rules do not exist or do not support the language.
        """
        # Imported here because torchtext takes long to load.
        from seq2seq.data.tokenizers.torchtext_words import moses_joiner, splitter

        self._words = list(words)
        self._tokenizer = tokenizer
        self._language = language
        self._lowercase = lowercase
        self._split = splitter(tokenizer, language=language, lowercase=lowercase)
        self._labels = [*SPECIAL_TOKENS, *self._words]
        self._surfaces = ["", UNKNOWN_SURFACE, "", "", *self._words]
        self._ids = {word: i for i, word in enumerate(self._words, start=len(SPECIAL_TOKENS))}
        self._join = moses_joiner(language) if tokenizer == "moses" else _join

    @property
    def folds_case(self) -> bool:
        return self._split("A") == ["a"]

    def __len__(self) -> int:
        return len(self._labels)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        find = self._ids.get
        return [[find(word, UNK) for word in self._split(line)] for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        words = [surface for surface in (self._surfaces[i] for i in ids) if surface]
        return self._join(words)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._labels[i] for i in ids]

    def words(self, text: str, ids: Sequence[int]) -> list[int]:
        surfaces = self._split(text)
        if [self._ids.get(surface, UNK) for surface in surfaces] != list(ids):
            surfaces = [self._surfaces[i] for i in ids]
        # Some tokenizers change the case. casefold() works letter by letter, unlike lower().
        return word_indices(text.casefold(), [surface.casefold() for surface in surfaces])

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.state(),)  # the functions of torchtext cannot be pickled

    def state(self) -> TokenizerState:
        return {
            "kind": KIND,
            "words": list(self._words),
            "tokenizer": self._tokenizer,
            "language": self._language,
            "lowercase": self._lowercase,
        }


def _restore(state: TokenizerState) -> WordTokenizer:
    words, tokenizer, language = state["words"], state["tokenizer"], state["language"]
    assert isinstance(words, list)
    assert isinstance(tokenizer, str)
    assert isinstance(language, str)
    return WordTokenizer(
        words, tokenizer=tokenizer, language=language, lowercase=bool(state["lowercase"])
    )


@register_tokenizer(WordsConfig, kind=KIND, restore=_restore)
def _train(config: WordsConfig, corpus: Corpus) -> TokenizerPair:
    from seq2seq.data.tokenizers.torchtext_words import splitter  # see WordTokenizer

    source_language, target_language = _rule_languages(config)
    sides = (
        ("source", config.source_tokenizer, source_language),
        ("target", config.target_tokenizer, target_language),
    )
    splits = [
        splitter(tokenizer, language=language, lowercase=config.lowercase)
        for _, tokenizer, language in sides
    ]
    counts: list[Counter[str]] = [Counter(), Counter()]
    for pair in corpus:
        counts[0].update(splits[0](pair.source))
        counts[1].update(splits[1](pair.target))
    source, target = (
        WordTokenizer(
            _choose(config, count, label=f"{corpus.name} ({side})"),
            tokenizer=tokenizer,
            language=language,
            lowercase=config.lowercase,
        )
        for count, (side, tokenizer, language) in zip(counts, sides, strict=True)
    )
    return TokenizerPair(source, target)


def _rule_languages(config: WordsConfig) -> tuple[str, str]:
    """Return the languages whose rules apply: English for moses where it has no rules."""
    from seq2seq.data.tokenizers.torchtext_words import has_moses_rules  # see WordTokenizer

    unknown = []
    languages = [config.source_language, config.target_language]
    for side, tokenizer in enumerate((config.source_tokenizer, config.target_tokenizer)):
        if tokenizer == "moses" and not has_moses_rules(languages[side]):
            unknown.append(languages[side])
            languages[side] = "en"
    if unknown:
        logger.warning(
            "tokenizer=words: moses has no rules for %s and splits words by its English rules; for "
            "other rules set data.source and data.target to language codes such as de and fr, and "
            "for text without spaces choose tokenizer=unigram",
            " and ".join(map(repr, dict.fromkeys(unknown))),
        )
    return languages[0], languages[1]


def _choose(config: WordsConfig, counts: Counter[str], *, label: str) -> list[str]:
    from seq2seq.data.tokenizers.torchtext_words import frequent_words  # see WordTokenizer

    if not counts:
        raise ValueError(f"{label}: no text to train a tokenizer on; give a corpus with pairs")
    words = frequent_words(
        counts,
        limit=config.vocabulary_size - len(SPECIAL_TOKENS),
        min_frequency=config.min_frequency,
    )
    num_unknown = counts.total() - sum(counts[word] for word in words)
    logger.info(
        "%s: %d of %d different words are in the vocabulary; %d of %d in the text are unknown",
        label,
        len(words),
        len(counts),
        num_unknown,
        counts.total(),
    )
    return words


def _join(words: list[str]) -> str:
    """Join words for tokenizers that have no rules for it."""
    text = " ".join(words)
    for pattern, replacement in _SPACING:
        text = pattern.sub(replacement, text)
    return text
