"""A GPU whose memory is too small for some updates."""

import pytest
import torch

from seq2seq.training.updates import Updater


def run_short(patch: pytest.MonkeyPatch, updates: list[int]) -> None:
    """Let memory be too small in some updates, after their gradients were computed."""
    original = Updater._add_batch

    def add_batch(self, batch, update, num_tokens):
        found = original(self, batch, update, num_tokens)
        if update in updates:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return found

    patch.setattr(Updater, "_add_batch", add_batch)
