"""Tags of languages and corpora, which a source begins with, as symbols of the tokenizers."""

import logging
from dataclasses import replace

from seq2seq.data.config import DataConfig, FilesConfig, FileSet, TokenizerConfig
from seq2seq.data.tokenizers.interface import TokenizerPair

logger = logging.getLogger(__name__)


def with_tags(config: TokenizerConfig, data: DataConfig) -> TokenizerConfig:
    """Return the configuration of the tokenizers with the tags of the training corpora.

    By default, only the user's own text is protected.
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
