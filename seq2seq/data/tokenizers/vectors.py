"""Pretrained vectors for the tokens of a vocabulary."""

# V vocabulary, E embedding size

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data.tokenizers.base import Tokenizer
from seq2seq.files.paths import expand_home


class PretrainedVectors(NamedTuple):
    """Vectors of a vocabulary."""

    matrix: Tensor
    """(V, E); rows of words without a vector are 0."""
    num_found: int
    """Number of words with a vector."""


def load_vectors(path: str, tokenizer: Tokenizer, size: int) -> PretrainedVectors:
    """Read the vectors of a vocabulary from a GloVe or FastText text file.

    Args:
        path: Text file, plain or .gz, with a word and its numbers on each line; FastText's header
            line is skipped.
        tokenizer: Tokenizer whose tokens are looked up, first unchanged, then in lower case.
        size: Size E of the embedding.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file does not contain word vectors, or vectors of another size.
    """
    # Imported here because torchtext takes long to load.
    from seq2seq.data.tokenizers.torchtext_words import read_vectors

    vectors = read_vectors(str(expand_home(path, key="vectors")))
    if vectors.dim != size:
        raise ValueError(
            f"{path} has vectors of size {vectors.dim}, the embedding has {size}; "
            f"set the embedding size to {vectors.dim} or give another file"
        )
    _check_finite(vectors.vectors, vectors.itos, path)
    matrix = torch.zeros(len(tokenizer), size)  # (V, E)
    num_found = 0
    for i, token in enumerate(tokenizer.tokens(range(len(tokenizer)))):
        row = vectors.stoi.get(token, vectors.stoi.get(token.lower()))
        if row is not None:
            matrix[i] = vectors.vectors[row]
            num_found += 1
    return PretrainedVectors(matrix, num_found)


def _check_finite(matrix: Tensor, words: Sequence[str], path: str) -> None:
    """Raise ValueError if a number is infinite or NaN, which would end the first update."""
    rows = (~matrix.isfinite().all(dim=1)).nonzero().flatten().tolist()
    if rows:
        raise ValueError(
            f"{path}: {len(rows)} vectors have a number that is not finite, the first that of "
            f"{words[rows[0]]!r}; correct or delete these lines"
        )
