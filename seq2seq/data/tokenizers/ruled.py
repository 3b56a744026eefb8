"""Tokenizers with text rules: learned from a corpus, saved and restored."""

import logging
import re
from collections import Counter
from collections.abc import Sequence

from seq2seq.data.config import Normalization, TokenizerConfig
from seq2seq.data.corpus import Corpus, Pair, converted
from seq2seq.data.tokenizers.interface import (
    TOKENIZERS,
    SamplingTokenizer,
    Tokenizer,
    TokenizerPair,
    TokenizerState,
)
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
)

logger = logging.getLogger(__name__)

_NORMALIZES, _PATTERNS, _TAGS = "normalizes", "patterns", "tags"
"""Keys of the text rules in the state of a tokenizer."""


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
