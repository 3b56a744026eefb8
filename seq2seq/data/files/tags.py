"""Apply the tags of the corpora of data=files, and check that tokenizers keep them whole."""

import logging
from dataclasses import replace

from seq2seq.data.config import DataConfig, FilesConfig
from seq2seq.data.tokenizers.base import Tokenizer, TokenizerPair
from seq2seq.data.tokenizers.config import TokenizerConfig
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)


def with_tags(config: TokenizerConfig, data: DataConfig) -> TokenizerConfig:
    """Return the configuration of the tokenizers with the tags of the training corpora."""
    if not isinstance(data, FilesConfig):
        return config
    tags = [each.tag for each in data.train_sets() if each.tag is not None]
    new = [tag for tag in dict.fromkeys(tags) if tag not in config.user_symbols]
    return replace(config, user_symbols=[*config.user_symbols, *new]) if new else config


def required_tags(data: DataConfig) -> list[str]:
    """Return the tags of the training corpora if every corpus has one, else none."""
    if not isinstance(data, FilesConfig):
        return []
    tags = list(dict.fromkeys(each.tag for each in data.train_sets()))
    return [tag for tag in tags if tag is not None] if None not in tags else []


def check_user_symbols(config: TokenizerConfig, tokenizers: TokenizerPair) -> None:
    """Check that tokenizers that were not trained for a configuration keep its symbols whole.

    Raises:
        ValueError: A symbol is none of the tokenizers.
    """
    for symbol in config.user_symbols:
        for tokenizer in (tokenizers.source, tokenizers.target):
            if not _is_whole(symbol, tokenizer):
                raise ValueError(
                    f"tokenizer.user_symbols: {symbol} is no symbol of the tokenizers of the "
                    "checkpoint; remove it, or train a model with it from the start"
                )


def check_tags(data: DataConfig, tokenizers: TokenizerPair) -> None:
    """Check that the tokenizer of the source keeps every tag whole, and that no set lacks its tag.

    A validation or test set without a tag is warned of if every training corpus has one.

    Raises:
        ValueError: A tag is no symbol of the tokenizer.
    """
    if not isinstance(data, FilesConfig):
        return
    to_score = (*data.valid_sets(), *data.test_sets())
    for each in (*data.train_sets(), *to_score):
        if each.tag is not None and not _is_whole(each.tag, tokenizers.source):
            raise ValueError(
                f"{each.key}.tag={each.tag} is no symbol of the tokenizer; use a tag of the "
                "training corpora, or train a tokenizer with it in tokenizer.user_symbols; the "
                "tokenizers of init_from keep the symbols that they were trained with"
            )
    tags = required_tags(data)
    untagged = [each.key for each in to_score if each.tag is None]
    if untagged and tags:
        logger.warning(
            "%s: no tag, although every training corpus has one (%s); give the tag, unless it "
            "stands in the lines",
            ", ".join(untagged),
            ", ".join(tags),
        )


def _is_whole(symbol: str, tokenizer: Tokenizer) -> bool:
    [ids] = tokenizer.encode([symbol])
    return len(ids) == 1 and ids[0] != UNK
