"""Registry of the kinds of tokenizers: train them, and restore them from their state."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.base import Tokenizer, TokenizerPair, TokenizerState
from seq2seq.data.tokenizers.config import TokenizerConfig
from seq2seq.data.tokenizers.symbols import SYMBOLS, SymbolTokenizer, WithoutSymbols

_ConfigType = TypeVar("_ConfigType", bound=TokenizerConfig)
_Train = Callable[[_ConfigType, Corpus], TokenizerPair]
_Restore = Callable[[TokenizerState], Tokenizer]

_trainers: dict[type[TokenizerConfig], Callable[..., TokenizerPair]] = {}
_restorers: dict[str, _Restore] = {}


def register_tokenizer(
    config_type: type[_ConfigType], *, kind: str, restore: _Restore
) -> Callable[[_Train[_ConfigType]], _Train[_ConfigType]]:
    """Register the decorated function, which trains the tokenizers of a config type.

    Args:
        config_type: Type of the configuration.
        kind: Value of "kind" in the state of these tokenizers.
        restore: Function that turns such a state into a tokenizer again.

    Raises:
        ValueError: The config type or the kind is registered already.
    """
    if config_type in _trainers or kind in _restorers:
        raise ValueError(f"tokenizer kind {kind!r} or its {config_type.__name__} is taken")

    def register(train: _Train[_ConfigType]) -> _Train[_ConfigType]:
        _trainers[config_type] = train
        _restorers[kind] = restore
        return train

    return register


def train_tokenizers(config: TokenizerConfig, corpus: Corpus) -> TokenizerPair:
    """Learn the vocabularies of both languages from a corpus.

    Raises:
        ValueError: The corpus has no text, or the values of the configuration do not suit it.

    Example:
        >>> from seq2seq.config.schema import load_config
        >>> from seq2seq.data import load_corpora
        >>> config = load_config("tokenizer=characters", "data.num_train=100")
        >>> source, target = train_tokenizers(config.tokenizer, load_corpora(config.data).train)
        >>> target.tokens(target.encode(["dog"])[0])
        ['d', 'o', 'g']
    """
    if type(config) not in _trainers:
        raise TypeError(f"no tokenizer is registered for {type(config).__name__}")
    train, symbols = _trainers[type(config)], config.user_symbols
    if not symbols:
        return train(config, corpus)
    smaller = replace(
        config, user_symbols=[], vocabulary_size=config.vocabulary_size - len(symbols)
    )
    tokenizers = train(smaller, WithoutSymbols(corpus, symbols))
    source = SymbolTokenizer(tokenizers.source, symbols)
    if tokenizers.target is tokenizers.source:
        return TokenizerPair(source, source)
    return TokenizerPair(source, SymbolTokenizer(tokenizers.target, symbols))


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
    if not isinstance(kind, str) or kind not in _restorers:
        known = ", ".join(sorted(_restorers))
        raise ValueError(f"unknown tokenizer kind {kind!r}; one of: {known}")
    tokenizer = _restorers[kind](state)
    symbols = state.get(SYMBOLS)
    return SymbolTokenizer(tokenizer, symbols) if isinstance(symbols, list) else tokenizer
