"""Gaussian attention, which is Nadaraya-Watson kernel regression over the source."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, check_equal_sizes, register_attention
from seq2seq.checks import Size


@dataclass(kw_only=True, slots=True, repr=False)
class GaussianConfig(AttentionConfig):
    """Options of `GaussianAttention`."""

    name: str = "gaussian"
    size: Size | None = 256
    """Size of the projected queries and keys, D. None: no projections, so query and key sizes must
    be equal."""


@register_attention(GaussianConfig)
class GaussianAttention(Attention):
    """Scores -(w |q - k|)^2 / 2 for projected q and k (Nadaraya 1964, Watson 1964).

    Raises:
        ValueError: Without projections, query size and key size differ.

    Example:
        Kernel regression of y = x^2 at x = 1:

        >>> import torch
        >>> from seq2seq.attention.gaussian import GaussianAttention, GaussianConfig
        >>> config = GaussianConfig(size=None)
        >>> attention = GaussianAttention(config, query_size=1, key_size=1, value_size=1)
        >>> x = torch.tensor([[[0.0], [1.0], [2.0]]])
        >>> context, weights = attention(torch.ones(1, 1, 1), attention.prepare(x, values=x**2))
        >>> context.detach()
        tensor([[[1.5481]]])
    """

    query_projection: nn.Linear | nn.Identity
    key_projection: nn.Linear | nn.Identity

    def __init__(
        self, config: GaussianConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        if config.size is not None:
            self.query_projection = nn.Linear(query_size, config.size, bias=False)
            self.key_projection = nn.Linear(key_size, config.size, bias=False)
        else:
            check_equal_sizes(
                "attention=gaussian attention.size=null", query_size, key_size, "give a size"
            )
            self.query_projection, self.key_projection = nn.Identity(), nn.Identity()
        self.inverse_width = nn.Parameter(torch.ones(()))

    def project_keys(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.key_projection(keys)
        return projected

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        queries: Tensor = self.query_projection(query)
        # |q|^2 - 2 q.k + |k|^2 is cheaper but inexact for q and k far from 0. torch computes
        # distances in single and double precision only; lower precision rounds large scores too
        # much.
        exact = torch.promote_types(queries.dtype, torch.float32)
        distances = torch.cdist(
            queries.to(exact), keys.to(exact), compute_mode="donot_use_mm_for_euclid_dist"
        )  # (B, T, S)
        return -(self.inverse_width * distances).square() / 2
