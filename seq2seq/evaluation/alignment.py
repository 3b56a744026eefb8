"""Alignments of attention: weights and links between words."""

# N heads, T target tokens, S source tokens

import unicodedata
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.files.links import Links


def word_weights(
    attention_weights: Tensor,
    source_words: Sequence[int],
    target_words: Sequence[int],
    *,
    target_tokens: Sequence[str],
) -> Tensor:
    """Convert attention weights between tokens to weights between words.

    Weights are averaged over heads, summed over the tokens of a source word and averaged over the
    tokens of a target word. Punctuation is left out of a target word that has other tokens: the
    full stop of "dog." attends elsewhere. The row and the column of EOS are dropped, so the
    weights of a target word sum to 1 minus the weight of EOS.

    Args:
        attention_weights: (N, T, S) of the tokens and EOS; a target that was cut at the length
            limit has no row of EOS.
        source_words: The index of the word of each source token, without EOS.
        target_words: The index of the word of each target token, without EOS.
        target_tokens: The label of each target token, without EOS.

    Returns:
        Weights (target words, source words); a word without tokens has weights of 0.

    Raises:
        ValueError: There are no heads.

    Example:
        >>> attention_weights = torch.tensor([[[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]])
        >>> word_weights(attention_weights, [0, 0], [0], target_tokens=["dog"])
        tensor([[0.7500]])
    """
    num_heads, num_rows, num_columns = attention_weights.shape
    if num_heads == 0:
        raise ValueError("attention without heads has no weights to align words by")
    assert num_rows - len(target_words) in (0, 1), "one row for each target token, and EOS"
    assert num_columns == len(source_words) + 1, "one column for each source token, and EOS"
    tokens = attention_weights.mean(dim=0)[: len(target_words), : len(source_words)]
    shares = _one_hot(target_words) * _counts(target_words, target_tokens)  # (target words, T)
    shares = shares / shares.sum(dim=1, keepdim=True).clamp(min=1)
    return shares @ tokens.float() @ _one_hot(source_words).T


def argmax_links(weights: Tensor) -> Links:
    """Link each target word to the source word with its highest weight, the first if several are
    equal.

    Args:
        weights: (target words, source words); a row of zeros gets no link.
    """
    if weights.numel() == 0:
        return frozenset()
    highest, sources = weights.max(dim=1)
    rows = zip(highest.tolist(), sources.tolist(), strict=True)
    return frozenset((source, target) for target, (high, source) in enumerate(rows) if high > 0)


def diagonal_links(num_source: int, num_target: int) -> Links:
    """Link words at the same relative position, first to first and last to last: a baseline."""
    if num_source == 0:
        return frozenset()
    slope = (num_source - 1) / max(1, num_target - 1)
    return frozenset((round(target * slope), target) for target in range(num_target))


def _one_hot(words: Sequence[int]) -> Tensor:
    """Return 1 where a token belongs to a word, else 0: (words, tokens)."""
    owners = torch.tensor(words, dtype=torch.long)
    num_words = max(words, default=-1) + 1
    return (torch.arange(num_words).unsqueeze(1) == owners).float()


def _counts(words: Sequence[int], tokens: Sequence[str]) -> Tensor:
    """Return 1 for each token that counts for its word, 0 for other punctuation: (tokens,)."""
    has_letters = [not _is_punctuation(token) for token in tokens]
    with_letters = {word for word, letters in zip(words, has_letters, strict=True) if letters}
    counts = zip(words, has_letters, strict=True)
    return torch.tensor([float(letters or word not in with_letters) for word, letters in counts])


def _is_punctuation(token: str) -> bool:
    """Return whether a token has neither letters nor digits, such as SentencePiece's U+2581."""
    return all(unicodedata.category(character)[0] in "PSZC" for character in token)
