"""Self-attention on top of recurrent states: residual and normalised, or left out."""

# B batch, R rows, T length, D state size, t steps so far

from torch import Tensor, nn

from seq2seq.attention import CausalSelfAttention, MultiHeadConfig, Past, SelfAttention
from seq2seq.dropout import Dropout


class SelfAttentionLayer(nn.Module):
    """LayerNorm(x + Dropout(SelfAttention(x))) (Vaswani et al. 2017, 3.1)."""

    def __init__(self, size: int, *, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(_config(size, num_heads))
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(size)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Refine states (B, T, D), of which those in the mask (B, T) are real."""
        refined: Tensor = self.norm(states + self.dropout(self.attention(states, mask).context))
        return refined


class NoSelfAttention(nn.Module):
    """Leave the states as they are."""

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return states


class CausalSelfAttentionLayer(nn.Module):
    """`SelfAttentionLayer` in which a state sees itself and those before it.

    `step` over each state in turn equals `forward` over all of them.
    """

    def __init__(self, size: int, *, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = CausalSelfAttention(_config(size, num_heads))
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(size)

    def forward(self, states: Tensor) -> Tensor:
        """Refine states (B, T, D)."""
        return self._join(states, self.attention(states).context)

    def start(self, state: Tensor) -> Past:
        """Return the empty past of rows (R, D)."""
        return self.attention.start(state)

    def step(self, state: Tensor, past: Past) -> tuple[Tensor, Past]:
        """Refine the next state of each row, (R, D); return it and the past with it."""
        context, past = self.attention.step(state, past)
        return self._join(state, context), past

    def _join(self, states: Tensor, context: Tensor) -> Tensor:
        refined: Tensor = self.norm(states + self.dropout(context))
        return refined


class NoCausalSelfAttention(nn.Module):
    """Leave the states as they are and remember none."""

    def forward(self, states: Tensor) -> Tensor:
        return states

    def start(self, state: Tensor) -> Past:
        nothing = state.new_empty(state.shape[0], 0, 0)
        return Past(nothing, nothing)

    def step(self, state: Tensor, past: Past) -> tuple[Tensor, Past]:
        return state, past


def _config(size: int, num_heads: int) -> MultiHeadConfig:
    return MultiHeadConfig(name="multihead", dropout=0.0, size=size, num_heads=num_heads)
