"""Several checkpoints that belong together: those of an ensemble, or of an average."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from seq2seq.checkpoints.checkpoint import Checkpoint, load_checkpoint
from seq2seq.data import TokenizerPair


def load_checkpoints(paths: Sequence[str | Path]) -> list[Checkpoint]:
    """Read checkpoints that share their tokenizers; a directory means its best.pt.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: one is no checkpoint, or has other tokenizers than the first; or there is none.
    """
    if not paths:
        raise ValueError("no checkpoint is given; give the path of one or more")
    # The optimizer's state is twice as large as the model, and of no use here.
    checkpoints = [replace(load_checkpoint(path), training_state=None) for path in paths]
    for path, checkpoint in zip(paths, checkpoints, strict=True):
        if not _same_tokenizers(checkpoint.tokenizers, checkpoints[0].tokenizers):
            raise ValueError(
                f"checkpoint={path} has other tokenizers than checkpoint={paths[0]}; only models "
                "of the same tokenizers can be joined: train them on the same text with the same "
                "settings of tokenizer"
            )
    return checkpoints


def _same_tokenizers(first: TokenizerPair, second: TokenizerPair) -> bool:
    """Say whether two pairs are the same to the bit."""
    states = [(one.state(), other.state()) for one, other in zip(first, second, strict=True)]
    return all(
        one.keys() == other.keys() and all(_same_value(one[key], other[key]) for key in one)
        for one, other in states
    )


def _same_value(first: object, second: object) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.equal(first, second)
    return type(first) is type(second) and first == second
