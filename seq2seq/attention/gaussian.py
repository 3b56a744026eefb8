"""Gaussian attention: Nadaraya-Watson kernel regression over the source."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, Memory, register_attention


@dataclass(kw_only=True, slots=True)
class GaussianConfig(AttentionConfig):
    """Gaussian attention."""

    size: int
    """Length to which query and keys are projected, so that a distance is defined."""
    learned_width: bool
    """Learn the kernel's inverse width w; else w = 1."""

    def __post_init__(self) -> None:
        AttentionConfig.__post_init__(self)
        if self.size < 1:
            raise ValueError(f"attention.size={self.size} must be at least 1")


@register_attention("gaussian", GaussianConfig)
class GaussianAttention(Attention):
    """Score -(w |q - k|)^2 / 2 (Nadaraya 1964, Watson 1964) with projected q and k."""

    width: Tensor

    def __init__(self, config: GaussianConfig, *, query_size: int, memory_size: int) -> None:
        super().__init__(config, query_size=query_size, memory_size=memory_size)
        self.query_projection = nn.Linear(query_size, config.size, bias=False)
        self.key_projection = nn.Linear(memory_size, config.size, bias=False)
        if config.learned_width:
            self.width = nn.Parameter(torch.ones(()))
        else:
            self.register_buffer("width", torch.ones(()), persistent=False)

    def prepare(self, states: Tensor, source_mask: Tensor) -> Memory:
        return Memory(self.key_projection(states), states, source_mask)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        # -|q - k|^2 / 2 = q.k - |k|^2 / 2 - |q|^2 / 2; softmax over k does not see the last term.
        products: Tensor = self.query_projection(query) @ keys.mT  # (B, T, S)
        return self.width.square() * (products - keys.square().sum(-1).unsqueeze(1) / 2)
