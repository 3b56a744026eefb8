"""The functions that turn scores into weights, chosen by `attention.normalizer`."""

from collections.abc import Callable
from enum import Enum

from torch import Tensor

from seq2seq.attention.softmax import masked_softmax
from seq2seq.attention.sparse import masked_entmax15, masked_sparsemax


class Normalizer(Enum):
    """The function that turns scores into weights."""

    softmax = "softmax"
    sparsemax = "sparsemax"
    entmax15 = "entmax15"


NORMALIZERS: dict[Normalizer, Callable[[Tensor, Tensor], Tensor]] = {
    Normalizer.softmax: masked_softmax,
    Normalizer.sparsemax: masked_sparsemax,
    Normalizer.entmax15: masked_entmax15,
}
"""A function of scores and of lengths or a mask, with the arguments of `masked_softmax`."""
