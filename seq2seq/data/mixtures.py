"""Several corpora in one training: their tags, and how often an epoch takes their pairs."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seq2seq.data.config import DataConfig, FilesConfig
from seq2seq.data.encoded import EncodedCorpus, Numbers
from seq2seq.data.tokenizers.config import TokenizerConfig
from seq2seq.data.tokenizers.interface import Tokenizer, TokenizerPair
from seq2seq.runtime.numerics import derive_seed
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    """Corpora joined one after the other, and the number of pairs an epoch draws from each."""

    sizes: tuple[int, ...]
    """Pairs of each corpus."""
    counts: tuple[int, ...]
    """Pairs drawn from each corpus per epoch; they add up to the size of all corpora."""

    def rows(self, seed: int, epoch: int) -> Numbers:
        """Return the rows of an epoch.

        A corpus is repeated as a whole as often as its count allows; the rest is drawn from it
        without repetition.

        Args:
            seed: Seed of the run.
            epoch: Number of the epoch, from 0.
        """
        generator = np.random.default_rng(derive_seed(seed, "mixture", epoch))
        parts = []
        start = 0
        for size, count in zip(self.sizes, self.counts, strict=True):
            repeats, rest = divmod(count, size)
            parts += [np.arange(start, start + size)] * repeats
            parts.append(start + generator.permutation(size)[:rest])
            start += size
        return np.concatenate(parts)


def mix(sizes: Sequence[int], weights: Sequence[float], *, temperature: float) -> Mixture:
    """Choose the pairs of each corpus in an epoch that is as long as all corpora together.

    The share of a corpus of n pairs and weight w is proportional to w * n ** (1 / temperature).
    Temperature and weights of 1 take each pair once; a higher temperature takes more of small
    corpora (Arivazhagan et al. 2019, "Massively Multilingual Neural Machine Translation in the
    Wild"). Counts are rounded by largest remainder, and every corpus has at least one pair.

    Args:
        sizes: Pairs of each corpus, at least 1.
        weights: Weight of each corpus, above 0.
        temperature: At least 1.

    Example:
        >>> mix([900, 100], [1, 1], temperature=1).counts
        (900, 100)
        >>> mix([900, 100], [1, 1], temperature=2).counts
        (750, 250)
        >>> mix([900, 100], [1, 3], temperature=1).counts
        (750, 250)
    """
    total = sum(sizes)
    # Logarithms of shares cannot overflow.
    logarithms = np.log(weights) + np.log(sizes) / temperature
    shares = np.exp(logarithms - logarithms.max())
    exact = shares / shares.sum() * total
    # Rounding first keeps 900.0000000001 from counting as more than 900.
    counts = np.floor(np.round(exact, 6)).astype(np.int64)
    order = np.argsort(counts - exact, kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    for empty in np.flatnonzero(counts == 0):
        counts[empty] += 1
        counts[counts.argmax()] -= 1
    return Mixture(sizes=tuple(map(int, sizes)), counts=tuple(map(int, counts)))


def training_mixture(data: DataConfig, encoded: EncodedCorpus) -> Mixture | None:
    """Return and log the mixture of joined corpora; None if an epoch takes each pair once.

    Raises:
        ValueError: All pairs of a corpus were left out.
    """
    if not isinstance(data, FilesConfig) or len(data.train_sets()) == 1:
        return None
    sets = data.train_sets()
    sizes = [*encoded.part_sizes, *[0] * (len(sets) - len(encoded.part_sizes))]
    for each, size in zip(sets, sizes, strict=True):
        if size == 0:
            raise ValueError(
                f"{each.key}: all pairs are longer than data.max_length={data.max_length} tokens; "
                "raise it or leave the corpus out"
            )
    mixture = mix(sizes, [each.weight for each in sets], temperature=data.temperature)
    for each, size, count in zip(sets, mixture.sizes, mixture.counts, strict=True):
        logger.info(
            "train: corpus %s, %s: %d pairs, each taken %.2f times an epoch",
            each.name,
            ",".join(each.paths),
            size,
            count / size,
        )
    logger.info("train: an epoch has %d pairs", sum(mixture.counts))
    return None if mixture.counts == mixture.sizes else mixture


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
    """Check that tokenizers trained elsewhere keep the symbols of a configuration whole.

    Raises:
        ValueError: A symbol is not in the tokenizers.
    """
    for symbol in config.user_symbols:
        for tokenizer in (tokenizers.source, tokenizers.target):
            if not _is_whole(symbol, tokenizer):
                raise ValueError(
                    f"tokenizer.user_symbols: {symbol} is not a symbol of the checkpoint's "
                    "tokenizers; remove it, or train a model with it from the start"
                )


def check_tags(data: DataConfig, tokenizers: TokenizerPair) -> None:
    """Check that the tokenizer of the source keeps every tag whole, and that no set lacks its tag.

    Warn of validation and test sets without a tag if every training corpus has one.

    Raises:
        ValueError: A tag is not a symbol of the tokenizer.
    """
    if not isinstance(data, FilesConfig):
        return
    to_score = (*data.valid_sets(), *data.test_sets())
    for each in (*data.train_sets(), *to_score):
        if each.tag is not None and not _is_whole(each.tag, tokenizers.source):
            raise ValueError(
                f"{each.key}.tag={each.tag} is not a symbol of the tokenizer; use a tag of the "
                "training corpora, or train a tokenizer with it in tokenizer.user_symbols; the "
                "tokenizers of init_from keep the symbols that they were trained with"
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


def _is_whole(symbol: str, tokenizer: Tokenizer) -> bool:
    [ids] = tokenizer.encode([symbol])
    return len(ids) == 1 and ids[0] != UNK
