"""A GPU whose memory is too small for some updates."""

import pytest
import torch

from seq2seq.training.updates import Updater


def run_short(patch: pytest.MonkeyPatch, updates: list[int]) -> None:
    """Let memory be too small in some updates, after their gradients were computed."""
    original = Updater.add_gradients

    def add_gradients(self, batch, *, update, num_tokens):
        loss = original(self, batch, update=update, num_tokens=num_tokens)
        if update in updates:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss

    patch.setattr(Updater, "add_gradients", add_gradients)
