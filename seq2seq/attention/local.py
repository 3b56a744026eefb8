"""Local attention, which looks at a window around a predicted position."""

# B batch, S source length, T target length, Q query size

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Memory, register_attention
from seq2seq.attention.dot import GeneralAttention, GeneralConfig
from seq2seq.attention.normalizers import fit_mask
from seq2seq.checks import Range


@dataclass(kw_only=True, slots=True, repr=False)
class LocalConfig(GeneralConfig):
    """Options of `LocalAttention`."""

    name: str = "local"
    window: Annotated[int, Range(1, 1_000_000)] = 10
    """Number of tokens on each side of the predicted position, omega."""


@register_attention(LocalConfig)
class LocalAttention(GeneralAttention):
    """Scores q^T W k_i - (i - p)^2 / (2 (omega / 2)^2) for |i - p| <= omega (Luong et al. 2015).

    This is local-p, section 3.2 of the paper. The position p = S sigmoid(w^T tanh(W_p q)) lies
    between 0 and the number of real tokens S, which are counted from 1 (eq. 9). Positions outside
    the window have weight 0. In eq. 10 a Gaussian multiplies the normalized weights, which then do
    not sum to 1; here its logarithm is added to the scores, so they do.

    Example:
        >>> import torch
        >>> from seq2seq.attention.local import LocalAttention, LocalConfig
        >>> config = LocalConfig(window=1)
        >>> attention = LocalAttention(config, query_size=4, key_size=6, value_size=6)
        >>> _ = torch.nn.init.zeros_(attention.position_score.weight)  # the middle: p = 5 / 2
        >>> memory = attention.prepare(torch.randn(1, 5, 6))
        >>> context, weights = attention(torch.randn(1, 1, 4), memory)
        >>> weights > 0
        tensor([[[[False,  True,  True, False, False]]]])
    """

    def __init__(
        self, config: LocalConfig, *, query_size: int, key_size: int, value_size: int
    ) -> None:
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.window = config.window
        self.position_projection = nn.Linear(query_size, query_size, bias=False)
        self.position_score = nn.Linear(query_size, 1, bias=False)

    def forward(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        scores = self.score(query, memory.keys)  # without the Gaussian
        # Low precision would move positions by whole tokens.
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        mask = fit_mask(memory.source_mask, scores.shape)
        positions = mask.cumsum(-1)  # (B, 1 or T, S), the first real token is 1
        distances = positions - self._relative_position(query).to(scores) * positions[..., -1:]
        in_window = mask & (distances.abs() <= self.window)
        scores = scores - 2 * (distances / self.window).square()
        return self.average(self.normalize(scores, in_window), memory)

    def _relative_position(self, query: Tensor) -> Tensor:
        """Return the predicted positions from 0 to 1, (B, T, Q) -> (B, T, 1)."""
        relative: Tensor = self.position_score(self.position_projection(query).tanh())
        return relative.to(torch.promote_types(relative.dtype, torch.float32)).sigmoid()
