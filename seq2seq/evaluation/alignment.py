"""Word alignments: from attention weights, as Pharaoh text, and how well they match gold ones."""

# N heads, T target tokens (then target words), S source tokens (then source words)

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.files.text import open_text

Links = frozenset[tuple[int, int]]
"""pairs of a source word and a target word, both counted from 0"""


class GoldLinks(NamedTuple):
    """What annotators linked."""

    sure: Links
    possible: Links
    """sure ones included"""


def word_weights(
    weights: Tensor,
    source_words: Sequence[int],
    target_words: Sequence[int],
    *,
    target_tokens: Sequence[str],
) -> Tensor:
    """Turn attention between tokens into attention between words.

    Heads are averaged, the tokens of a source word summed and those of a target word averaged.
    The row and the column of EOS are dropped, so rows sum to 1 less what went to EOS. A token
    of punctuation does not speak for a target word that has other tokens: the full stop of
    "dog." looks elsewhere.

    Args:
        weights: (N, T, S); tokens, then EOS on the source side and, if it was produced, on the
            target side.
        source_words: for each source token the index of its word, EOS left out.
        target_words: likewise.
        target_tokens: the labels of the target tokens, EOS left out.

    Returns:
        Weights (target words, source words); a word without tokens has zeros.
    """
    num_heads, num_rows, num_columns = weights.shape
    if num_heads == 0:
        raise ValueError("attention without heads has no weights to align words by")
    assert num_rows - len(target_words) in (0, 1), "one row a target token, and EOS"
    assert num_columns == len(source_words) + 1, "one column a source token, and EOS"
    tokens = weights.mean(dim=0)[: len(target_words), : len(source_words)]
    voices = _one_hot(target_words) * _voices(target_words, target_tokens)  # (target words, T)
    voices = voices / voices.sum(dim=1, keepdim=True).clamp(min=1)
    return voices @ tokens.float() @ _one_hot(source_words).T


def argmax_links(weights: Tensor) -> Links:
    """Link each target word to the source word of its highest weight, the first of equal ones.

    Args:
        weights: (target words, source words); a row of zeros gets no link.
    """
    if weights.numel() == 0:
        return frozenset()
    highest, sources = weights.max(dim=1)
    rows = zip(highest.tolist(), sources.tolist(), strict=True)
    return frozenset((source, target) for target, (high, source) in enumerate(rows) if high > 0)


def diagonal_links(num_source: int, num_target: int) -> Links:
    """Link the words in their order, stretched to both lengths: what attention must beat."""
    if num_source == 0:
        return frozenset()
    slope = (num_source - 1) / max(1, num_target - 1)
    return frozenset((round(target * slope), target) for target in range(num_target))


@dataclass(kw_only=True, slots=True)
class Agreement:
    """How far links agree with gold ones, counted over a corpus (Och and Ney 2003, eq. 37)."""

    num_links: int = 0
    """found ones"""
    num_sure: int = 0
    num_found_sure: int = 0
    """sure links that were found"""
    num_right: int = 0
    """found links that are possible"""

    def add(self, links: Links, gold: GoldLinks) -> None:
        """Count the links of a sentence; sure ones are possible whether or not gold says so."""
        self.num_links += len(links)
        self.num_sure += len(gold.sure)
        self.num_found_sure += len(links & gold.sure)
        self.num_right += len(links & (gold.possible | gold.sure))

    @property
    def precision(self) -> float:
        return _ratio(self.num_right, self.num_links)

    @property
    def recall(self) -> float:
        return _ratio(self.num_found_sure, self.num_sure)

    @property
    def error_rate(self) -> float:
        """Return the alignment error rate: 0 is perfect."""
        num_matches = self.num_found_sure + self.num_right
        return 1 - _ratio(num_matches, self.num_links + self.num_sure)


def alignment_error_rate(predicted: Iterable[Links], gold: Iterable[GoldLinks]) -> float:
    """Compare links with gold ones over a corpus (Och and Ney 2003, eq. 37): 0 is perfect.

    Args:
        predicted: links of each sentence.
        gold: sure and possible links of each sentence.

    Raises:
        ValueError: there is no link to compare.
    """
    agreement = Agreement()
    for links, gold_links in zip(predicted, gold, strict=True):
        agreement.add(links, gold_links)
    if agreement.num_links + agreement.num_sure == 0:
        raise ValueError("no links on either side; an alignment error rate needs some")
    return agreement.error_rate


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Return links as Pharaoh text, `0-0 1-2`, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def parse_links(text: str, *, where: str, base: int = 0) -> GoldLinks:
    """Read Pharaoh text: `1-2` is a sure link, `1p2` a possible one.

    Args:
        text: links of one sentence.
        where: file and line, for messages.
        base: the number of the first word, on both sides.
    """
    sure, possible = set(), set()
    for item in text.split():
        match = re.fullmatch(r"([0-9]+)([-p])([0-9]+)", item)
        if match is None:
            raise ValueError(
                f"{where}: {item!r} is not a link; write source-target, both counted from {base}, "
                "as 1-2, or 1p2 for a possible link"
            )
        link = (int(match[1]) - base, int(match[3]) - base)
        if min(link) < 0:
            raise ValueError(
                f"{where}: {item!r} does not count from {base}; count the words of both sides "
                f"from {base}, or choose gold_base=0"
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


def read_links(path: str) -> Iterator[GoldLinks]:
    """Read a file of Pharaoh text, plain or .gz, one sentence a line."""
    with open_text(Path(path)) as file:
        for number, line in enumerate(file, start=1):
            # Bytes that are no UTF-8 are no link either, and get the message that names their line.
            yield parse_links(line.decode("utf-8", errors="replace"), where=f"{path}:{number}")


def _ratio(part: int, whole: int) -> float:
    """Return a share, which of nothing is no number."""
    return part / whole if whole else math.nan


def _one_hot(words: Sequence[int]) -> Tensor:
    """Return which tokens each word has: (words, tokens)."""
    owners = torch.tensor(words, dtype=torch.long)
    num_words = max(words, default=-1) + 1
    return (torch.arange(num_words).unsqueeze(1) == owners).float()


def _voices(words: Sequence[int], tokens: Sequence[str]) -> Tensor:
    """Return 1 for each token that speaks for its word, else 0: (tokens,)."""
    has_letters = [not _is_punctuation(token) for token in tokens]
    with_letters = {word for word, letters in zip(words, has_letters, strict=True) if letters}
    return torch.tensor(
        [
            float(letters or word not in with_letters)
            for word, letters in zip(words, has_letters, strict=True)
        ]
    )


def _is_punctuation(token: str) -> bool:
    """Say whether a token has neither letter nor digit; U+2581, a space, is a symbol too."""
    return all(unicodedata.category(character)[0] in "PSZC" for character in token)
