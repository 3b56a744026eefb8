"""Location-based attention, which reads the previous weights through a convolution."""

# B batch, K rows of a sentence, S source length

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from seq2seq.attention.additive import AdditiveConfig, RememberingAttention
from seq2seq.attention.base import register_attention
from seq2seq.checks import Size


@dataclass(kw_only=True, slots=True, repr=False)
class LocationConfig(AdditiveConfig):
    """Options of `LocationAttention`."""

    name: str = "location"
    num_filters: Size = 8
    """Number of filters of the convolution."""
    filter_width: Size = 5
    """Number of source positions that a filter covers; odd."""

    def __post_init__(self) -> None:
        AdditiveConfig.__post_init__(self)
        if self.filter_width % 2 == 0:
            raise ValueError(f"attention.filter_width={self.filter_width} must be odd")


@register_attention(LocationConfig)
class LocationAttention(RememberingAttention):
    """Scores w^T tanh(W_q q + W_k k_i + U f_i), f = F * previous weights (Chorowski et al. 2015).

    Equations 8 and 9 of the paper. The filters F slide over the weights of the previous step, which
    are 0 before the first step and outside the source.

    Example:
        >>> import torch
        >>> from seq2seq.attention.location import LocationAttention, LocationConfig
        >>> attention = LocationAttention(LocationConfig(), query_size=4, key_size=6, value_size=6)
        >>> memory = attention.prepare(torch.randn(2, 5, 6))
        >>> context, weights, state = attention.step(
        ...     torch.randn(2, 4), memory, attention.start(memory)
        ... )
        >>> torch.equal(state[0], weights.squeeze(1))
        True
    """

    def __init__(
        self, config: LocationConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(
            config,
            query_size=query_size,
            key_size=key_size,
            value_size=value_size,
            num_features=config.num_filters,
        )
        # Each output of a linear layer over the window around a position is one filter.
        self.filters = nn.Linear(config.filter_width, config.num_filters, bias=False)

    def features(self, state: Tensor) -> Tensor:
        width = self.filters.in_features
        # One extra position, because `unfold` needs a whole window even for an empty source.
        padded = functional.pad(state, (width // 2, width // 2 + 1))
        windows = padded.unfold(-1, width, 1)[..., : state.shape[-1], :]  # (B, K, S, width)
        found: Tensor = self.filters(windows)
        return found

    def update(self, state: Tensor, weights: Tensor) -> Tensor:
        return weights
