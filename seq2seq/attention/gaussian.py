"""Gaussian attention: Nadaraya-Watson kernel regression over the source."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, register_attention


@dataclass(kw_only=True, slots=True)
class GaussianConfig(AttentionConfig):
    """Gaussian attention."""

    name: str = "gaussian"
    size: int | None = 256
    """Length to which query and keys are projected, so that a distance is defined; None compares
    them as they are."""
    learned_width: bool = True
    """Learn the kernel's inverse width w; else w = 1."""

    def __post_init__(self) -> None:
        AttentionConfig.__post_init__(self)
        if self.size is not None and self.size < 1:
            raise ValueError(f"attention.size={self.size} must be at least 1")


@register_attention(GaussianConfig)
class GaussianAttention(Attention):
    """Score -(w |q - k|)^2 / 2 (Nadaraya 1964, Watson 1964), q and k projected or not."""

    width: Tensor
    query_projection: nn.Linear | nn.Identity
    key_projection: nn.Linear | nn.Identity

    def __init__(
        self, config: GaussianConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        if config.size is not None:
            self.query_projection = nn.Linear(query_size, config.size, bias=False)
            self.key_projection = nn.Linear(key_size, config.size, bias=False)
        elif query_size == key_size:
            self.query_projection, self.key_projection = nn.Identity(), nn.Identity()
        else:
            raise ValueError(
                f"attention=gaussian with size=null: query size {query_size} "
                f"(model.decoder.hidden_size) and key size {key_size} "
                "(2 * model.encoder.hidden_size) must be equal; make them so or give a size"
            )
        if config.learned_width:
            self.width = nn.Parameter(torch.ones(()))
        else:
            self.register_buffer("width", torch.ones(()), persistent=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.key_projection(keys)
        return projected

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        queries: Tensor = self.query_projection(query)
        # |q|^2 - 2 q.k + |k|^2 would cost less and lose what is left where q and k lie far from 0.
        # Distances exist in single and double precision alone; in less, scores far from 0 would
        # lose what tells them apart.
        exact = torch.promote_types(queries.dtype, torch.float32)
        distances = torch.cdist(
            queries.to(exact), keys.to(exact), compute_mode="donot_use_mm_for_euclid_dist"
        )  # (B, T, S)
        return -(self.width * distances).square() / 2
