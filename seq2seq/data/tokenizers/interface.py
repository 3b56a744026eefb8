"""Contract of all tokenizers, the registry of their kinds, and symbols that they keep whole."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from seq2seq.data.config import DataConfig, FilesConfig, FileSet, Normalization, TokenizerConfig
from seq2seq.data.corpus import Corpus, Pair, converted
from seq2seq.registry import Registry
from seq2seq.text.copying import with_lesson
from seq2seq.text.patterns import DECIMALS, PATTERNS
from seq2seq.text.rules import (
    IDENTITY,
    KEPT,
    NO_TEXT,
    SYMBOLS,
    ModelText,
    TextRules,
    any_of,
    lowered,
    split_words,
)

logger = logging.getLogger(__name__)

_NORMALIZES, _PATTERNS, _TAGS = "normalizes", "patterns", "tags"
"""Keys of the text rules in the state of a tokenizer."""

TokenizerState = dict[str, str | bool | list[str] | dict[str, str] | Tensor]


class Tokenizer(Protocol):
    """Conversion between text of one language and token ids.

    Every vocabulary begins with PAD, UNK, BOS and EOS.
    """

    @property
    def rules(self) -> TextRules:
        """The changes to a text before and after the model."""

    @property
    def folds_case(self) -> bool:
        """Whether text becomes lower case, so that translations have no capitals."""

    def __len__(self) -> int:
        """Return the size of the vocabulary."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line, without BOS and EOS.

        The rules normalize the lines, but only `rules.prepare` and `rules.mask` protect spans.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Return detokenized text, without PAD, BOS and EOS."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable label for each id."""

    def words(self, text: str, ids: Sequence[int], source: ModelText = NO_TEXT) -> list[int]:
        """Return the index in `split_words(text)` of the word that each id belongs to.

        Args:
            text: Text of the user: the text that was encoded, or the text that `ids` decode to.
            ids: Token ids without BOS and EOS.
            source: The source of the text, or the text itself, as the model reads it; its spans
                are symbols in `ids`.
        """

    def state(self) -> TokenizerState:
        """Return tensors and plain values that restore the tokenizer; "kind" names its kind."""


@runtime_checkable
class SamplingTokenizer(Tokenizer, Protocol):
    """A tokenizer that can draw one of several segmentations of a text."""

    def sample(self, lines: Sequence[str], *, seed: int, alpha: float) -> list[list[int]]:
        """Return the ids of a random segmentation of each line, without BOS and EOS.

        Args:
            lines: Text.
            seed: Seed in [0, 2**32); equal arguments give equal results.
            alpha: As `SentencePieceConfig.sampling_alpha`.
        """


class TokenizerPair(NamedTuple):
    """Tokenizers of both languages; a joint vocabulary makes them the same object."""

    source: Tokenizer
    target: Tokenizer


def word_indices(text: str, surfaces: Sequence[str | None]) -> list[int]:
    """Return for each token the index in `split_words(text)` of the word in which it begins.

    A text in capitals may have tokens in ordinary case.

    Args:
        text: Text of the tokens, with any whitespace.
        surfaces: Characters of each token; None if they are unknown. A token without visible
            characters, or with characters that the text lacks, belongs to the next word.

    Example:
        >>> word_indices("ein Hund.", ["ein", " Hu", "nd", "."])
        [0, 1, 1, 1]
        >>> word_indices("EIN HUND.", ["Ein", " hu", "nd", "."])
        [0, 1, 1, 1]
    """
    words = ["".join(word.split()) for word in split_words(text)]
    characters = lowered("".join(words))
    owners = [index for index, word in enumerate(words) for _ in word] or [0]
    indices = []
    position = 0
    for surface in surfaces:
        visible = None if surface is None else lowered("".join(surface.split()))
        found = characters.find(visible, position) if visible else -1
        start = position if found < 0 else found
        indices.append(owners[min(start, len(owners) - 1)])
        if visible is None:
            # An unknown token covers at least one character; the next known token finds the
            # position again.
            position += 1
        elif found >= 0:
            position = found + len(visible)
    return indices


class TokenizerType(Protocol):
    """A class of tokenizers that can be trained, and restored from a state."""

    kind: str
    """The "kind" in the state of its tokenizers."""

    def train(self, config: Any, corpus: Corpus, symbols: Sequence[str]) -> TokenizerPair:
        """Train tokenizers on text to which the rules were applied.

        Each of `symbols`, which stand for spans and tags, must become a token of its own, however
        rare it is.
        """

    def restore(self, state: TokenizerState) -> Tokenizer:
        """Return the tokenizer of a state."""


TOKENIZERS = Registry[TokenizerType]("tokenizer")
"""The classes of tokenizers, by name and by the type of their config."""
register_tokenizer = TOKENIZERS.register


class RuledTokenizer:
    """A tokenizer with text rules: it reads normalized text, with symbols for protected spans.

    Example:
        >>> from seq2seq.data.tokenizers.words import CharacterTokenizer
        >>> tokenizer = RuledTokenizer(CharacterTokenizer(" ab"), TextRules(normalizes=True))
        >>> tokenizer.encode(["a\\u00a0 b "])
        [[5, 4, 6]]
    """

    def __init__(self, inner: Tokenizer, rules: TextRules) -> None:
        """Add rules to a tokenizer, whose vocabulary must have the symbols of spans and tags."""
        self.inner = inner
        self.rules = rules

    @property
    def folds_case(self) -> bool:
        return self.inner.folds_case

    def __len__(self) -> int:
        return len(self.inner)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.inner.encode(list(map(self.rules.encoded, lines)))

    def sample(self, lines: Sequence[str], *, seed: int, alpha: float) -> list[list[int]]:
        assert isinstance(self.inner, SamplingTokenizer)
        return self.inner.sample(list(map(self.rules.encoded, lines)), seed=seed, alpha=alpha)

    def decode(self, ids: Sequence[int]) -> str:
        return self.rules.decoded(self.inner.decode(ids))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return list(map(self.rules.decoded, self.inner.tokens(ids)))

    def words(self, text: str, ids: Sequence[int], source: ModelText = NO_TEXT) -> list[int]:
        owners = self.rules.owners(text, source) or [0]
        last = len(owners) - 1
        words = self.inner.words(self.rules.encoded(self.rules.mask(text, source)), ids)
        return [owners[min(word, last)] for word in words]

    def state(self) -> TokenizerState:
        rules: TokenizerState = {
            _NORMALIZES: self.rules.normalizes,
            _PATTERNS: dict(self.rules.patterns),
            _TAGS: list(self.rules.tags),
        }
        return {**self.inner.state(), **rules}


def plain_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer behind the rules for its text."""
    return tokenizer.inner if isinstance(tokenizer, RuledTokenizer) else tokenizer


def symbol_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of the symbols for protected spans; none if nothing is protected."""
    if not tokenizer.rules.has_symbols:
        return []
    labels = tokenizer.tokens(range(len(tokenizer)))
    return [labels.index(symbol) for symbol in SYMBOLS]


def train_tokenizers(config: TokenizerConfig, corpus: Corpus | Sequence[Pair]) -> TokenizerPair:
    """Learn the vocabularies of both languages from a corpus, or from pairs in memory.

    Raises:
        ValueError: The corpus has no text, or the values of the configuration do not suit it.

    Example:
        >>> from seq2seq.config.schema import load_config
        >>> from seq2seq.data.corpus import Pair
        >>> config = load_config("tokenizer=characters")
        >>> source, target = train_tokenizers(config.tokenizer, [Pair("ein Hund", "a dog")])
        >>> target.tokens(target.encode(["dog"])[0])
        ['d', 'o', 'g']
    """
    if isinstance(corpus, Sequence):
        corpus = Corpus.of(corpus)
    if next(iter(corpus), None) is None:
        raise ValueError(f"{corpus.path or corpus.name}: no line has a source and a target")
    rules = choose_rules(config, corpus)
    encoded = converted(
        model_corpus(corpus, rules),
        lambda pair: pair._replace(
            source=rules.encoded(pair.source), target=rules.encoded(pair.target)
        ),
    )
    symbols = [*(SYMBOLS if rules.has_symbols else ()), *rules.tag_symbols]
    source, target = TOKENIZERS.find(config).train(config, encoded, symbols)
    if rules == IDENTITY:
        return TokenizerPair(source, target)
    ruled = RuledTokenizer(source, rules)
    return TokenizerPair(ruled, ruled if target is source else RuledTokenizer(target, rules))


_ENOUGH_SPANS, _SMALLEST_SHARE = 20, 0.4
"""A kind that has at least this many spans is protected only if targets copy at least this share of
the spans."""
_DECIMAL = "decimals"
_FREQUENT = 0.01
"""Number of decimals for each pair from which a model learns to rewrite them."""


def choose_rules(config: TokenizerConfig, corpus: Corpus) -> TextRules:
    """Return the rules of a configuration; `protect=null` means all kinds but those that a corpus
    rewrites.

    Decimal numbers are a kind of their own if they are frequent: with 277,70 for 277.70, they are
    rewritten in text that copies all other numbers. Rare ones could not be learned.
    """
    normalizes = config.normalization is not Normalization.identity
    names = list(PATTERNS) if config.protect is None else config.protect
    own = (name[1:-1] for name in names if name not in PATTERNS)
    patterns = {f"own{number}": pattern for number, pattern in enumerate(own, start=1)}
    patterns |= {name: PATTERNS[name] for name in PATTERNS if name in names}
    tags = tuple(dict.fromkeys(config.user_symbols))
    if not patterns:
        return TextRules(normalizes, tags=tags)
    kept = any_of(tags)
    patterns = ({KEPT: kept} if kept else {}) | patterns
    rules = TextRules(normalizes, patterns, tags)
    if config.protect is not None:
        return rules
    found, copied = Counter[str](), Counter[str]()
    num_pairs = 0
    for pair in corpus:
        num_pairs += 1
        source, target = map(rules.normalize, (pair.source, pair.target))
        available = Counter(match[0] for match in rules.matches(target))
        for match in rules.matches(source):
            is_decimal = match.lastgroup == "numbers" and re.fullmatch(DECIMALS, match[0])
            kind = _DECIMAL if is_decimal else str(match.lastgroup)
            found[kind] += 1
            copied[kind] += available[match[0]] > 0
            available[match[0]] -= 1
    kinds = [*PATTERNS, _DECIMAL]
    rare = {kind for kind in kinds if found[kind] < _ENOUGH_SPANS}
    if found[_DECIMAL] < _FREQUENT * num_pairs:
        rare.add(_DECIMAL)
    chosen = rare | {kind for kind in found if copied[kind] >= _SMALLEST_SHARE * found[kind]}
    logger.info(
        "%s: spans of the source that are also in the target: %s",
        corpus.name,
        ", ".join(
            f"{kind} {copied[kind]} of {found[kind]}{'' if kind in chosen else ' (not protected)'}"
            for kind in kinds
        ),
    )
    kept = "|".join(filter(None, (kept, "" if _DECIMAL in chosen else DECIMALS)))
    patterns = {KEPT: kept} if kept else {}
    patterns |= {kind: PATTERNS[kind] for kind in PATTERNS if kind in chosen}
    return TextRules(normalizes, patterns, tags)


def model_pair(pair: Pair, rules: TextRules, *, is_training: bool = True) -> Pair:
    """Return a pair as the model reads it.

    Args:
        pair: Text of the user.
        rules: Rules of the tokenizers.
        is_training: In training, only spans on both sides get symbols, and some pairs without links
            get a lesson in copying. To score a model, all spans of the source get symbols, as in
            translating.
    """
    if rules == IDENTITY:
        return pair
    if is_training:
        source, target = rules.prepare_pair(pair.source, pair.target)
        if rules.has_symbols and pair.links is None:
            start = len(rules.leading_tags(source.text))
            text, target = with_lesson(source.text, target, start)
            return pair._replace(source=text, target=target)
    else:
        source = rules.prepare(pair.source)
        target = rules.mask(pair.target, source)
    return pair._replace(source=source.text, target=target)


def model_corpus(corpus: Corpus, rules: TextRules) -> Corpus:
    """Return a training corpus as the model reads it; see `model_pair`."""
    return converted(corpus, lambda pair: model_pair(pair, rules))


def share_ids(tokenizers: TokenizerPair) -> bool:
    """Return whether every target token has the same id in the source vocabulary."""
    source, target = tokenizers
    if source is target:
        return True
    ids = range(len(target))
    return len(source) >= len(target) and source.tokens(ids) == target.tokens(ids)


def tokenizers_state(tokenizers: TokenizerPair) -> dict[str, TokenizerState]:
    """Return tensors and plain values that `torch.load(weights_only=True)` accepts."""
    if tokenizers.source is tokenizers.target:
        return {"joint": tokenizers.source.state()}
    return {"source": tokenizers.source.state(), "target": tokenizers.target.state()}


def tokenizers_from_state(state: dict[str, TokenizerState]) -> TokenizerPair:
    """Restore tokenizers from the result of `tokenizers_state`."""
    if "joint" in state:
        tokenizer = _restore(state["joint"])
        return TokenizerPair(tokenizer, tokenizer)
    return TokenizerPair(_restore(state["source"]), _restore(state["target"]))


def _restore(state: TokenizerState) -> Tokenizer:
    kind = state["kind"]
    kinds = {each.kind: each for each in TOKENIZERS.values()}
    tokenizer = kinds[str(kind)].restore(state)
    patterns, tags = state.get(_PATTERNS), state.get(_TAGS)
    if not (isinstance(patterns, dict) and isinstance(tags, list)):
        return tokenizer  # made without rules
    return RuledTokenizer(tokenizer, TextRules(bool(state[_NORMALIZES]), patterns, tuple(tags)))


def with_tags(config: TokenizerConfig, data: DataConfig) -> TokenizerConfig:
    """Return the configuration of the tokenizers with the tags of the training corpora.

    Only the spans of the user's own text are protected by default.
    """
    if not data.is_own_text:
        return replace(config, protect=config.protect or [])
    symbols = dict.fromkeys((*config.user_symbols, *filter(None, _tags(data))))
    return replace(config, user_symbols=list(symbols))


def required_tags(data: DataConfig) -> list[str]:
    """Return the tags of the training corpora if every corpus has one, else an empty list."""
    tags = _tags(data)
    return list(dict.fromkeys(filter(None, tags))) if all(tags) else []


def _tags(data: DataConfig) -> list[str | None]:
    """Return the tag of each training corpus, or None for a corpus without a tag."""
    return [each.tag for each in data.train_sets()] if isinstance(data, FilesConfig) else [None]


def check_tags(config: TokenizerConfig, data: DataConfig, tokenizers: TokenizerPair) -> None:
    """Check that the source tokenizer keeps every tag whole; warn about sets to score without one.

    Raises:
        ValueError: A tag or a symbol of the configuration is not a symbol of the tokenizer.
    """
    named = [("tokenizer.user_symbols", symbol) for symbol in config.user_symbols]
    to_score: list[FileSet] = []
    if isinstance(data, FilesConfig):
        to_score = [*data.valid_sets(), *data.test_sets()]
        sets = (*data.train_sets(), *to_score)
        named += [(f"{each.key}.tag", each.tag) for each in sets if each.tag is not None]
    for key, symbol in named:
        if symbol not in tokenizers.source.rules.tags:
            raise ValueError(
                f"{key}={symbol} is not a symbol of the tokenizer; use a tag of the training "
                "corpora, or train a tokenizer with it in tokenizer.user_symbols; the tokenizers "
                "of init_from keep the symbols that they were trained with"
            )
    tags = required_tags(data)
    untagged = [each.key for each in to_score if each.tag is None]
    if untagged and tags:
        logger.warning(
            "%s: no tag, although every training corpus has one (%s); add the tag, unless the "
            "lines already contain it",
            ", ".join(untagged),
            ", ".join(tags),
        )
