"""Warn about text that is bad for training, and about scores that mean nothing."""

import hashlib
import logging
from collections.abc import Mapping

import numpy as np

from seq2seq.data.batching import EncodedCorpus
from seq2seq.data.corpus import Pair

logger = logging.getLogger(__name__)

_FEW = 20  # up to this many pairs with equal sides give no warning
_FEW_TO_SCORE = 2000  # up to this many pairs, a validation is short
_MOST_SHIFT = 3  # largest number of missing lines that is detected
_FEWEST, _MOST_BLOCKS = 200, 20  # pairs per block; lengths correlate 0.07 by chance
_BETTER_FIT = 0.4  # a shift that improves the correlation by more is reported
_LEAST_FIT = 0.2  # the lengths of Multi30k and Tatoeba correlate by 0.85
_LOW_BITS = 0xFFFFF
_BLOCK = 1_000_000  # pairs of a large text that are in memory at once


def warn_of_text(name: str, counts: Mapping[str, int], *, is_copying: bool) -> None:
    """Warn about a side of unknown tokens and, unless the task is copying, many equal sides."""
    for side in ("source", "target"):
        unknown, tokens = counts[f"unknown_{side}_ids"], counts[f"{side}_ids"]
        if unknown > 0.1 * tokens:
            logger.warning(
                "%s: %d of %d %s tokens are unknown; use sub-words (tokenizer=unigram), a larger "
                "vocabulary, a lower tokenizer.min_frequency of words or characters, or with "
                "init_from, text in the languages of its checkpoint",
                name,
                unknown,
                tokens,
                side,
            )
    equal = counts["equal_pairs"]
    if equal > max(_FEW, 0.05 * counts["pairs"]) and not is_copying:
        advice = "pairs have the same text on both sides, which a model learns to copy; remove them"
        logger.warning("%s: %d of %d %s", name, equal, counts["pairs"], advice)


def warn_of_shift(name: str, encoded: EncodedCorpus) -> None:
    """Warn about lengths that fit the targets of other pairs better, or no targets."""
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
    some = slice(None, None, len(encoded) // _BLOCK + 1)  # of all parts, if sorted by length
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


def warn_of_long_validation(name: str, num_pairs: int, *, num_train: int) -> None:
    """Warn about a validation set whose translation may take longer than the training."""
    if name.startswith("valid") and num_pairs > max(_FEW_TO_SCORE, 0.1 * num_train):
        advice = "pairs are translated at each validation; 1,000 to 2,000 are enough"
        logger.warning("%s: %d %s", name, num_pairs, advice)


def hash_pair(pair: Pair) -> int:
    """Return a number that only pairs of the same text share."""
    text = f"{pair.source}\n{pair.target}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)


def warn_of_shared(name: str, encoded: EncodedCorpus, train: EncodedCorpus) -> None:
    """Warn if more than 1% of the pairs to score are also in the training text."""
    # Comparing the low bits first leaves only a few hashes of a large text to compare.
    low, is_shared = encoded.hashes & _LOW_BITS, np.zeros(len(encoded), dtype=np.bool_)
    for start in range(0, len(train), _BLOCK):
        known = train.hashes[start : start + _BLOCK]
        candidates = known[np.isin(known & _LOW_BITS, low, kind="table")]
        is_shared |= np.isin(encoded.hashes, candidates)
    shared = int(is_shared.sum())
    if shared > 0.01 * len(encoded):
        advice = "pairs are also in the training text; scores on them say nothing about new text"
        logger.warning("%s: %d of %d %s", name, shared, len(encoded), advice)
