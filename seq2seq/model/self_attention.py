"""Self-attention over recurrent states, with a residual connection and layer normalisation."""

# B batch, R rows, T length, D state size, t steps so far

from torch import Tensor, nn

from seq2seq.attention import CausalSelfAttention, MultiHeadConfig, Past, SelfAttention
from seq2seq.kernels.dropout import Dropout


class SelfAttentionLayer(nn.Module):
    """LayerNorm(x + Dropout(SelfAttention(x))) (Vaswani et al. 2017, 3.1)."""

    attention: SelfAttention
    _attention_type = SelfAttention

    def __init__(self, size: int, *, num_heads: int, dropout: float) -> None:
        super().__init__()
        config = MultiHeadConfig(size=size, num_heads=num_heads)
        self.attention = self._attention_type(config)
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(size)

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Refine states (B, T, D); the mask (B, T) marks the real ones, None means all."""
        return self._join(states, self.attention(states, mask).context)

    def _join(self, states: Tensor, context: Tensor) -> Tensor:
        refined: Tensor = self.norm(states + self.dropout(context))
        return refined


class CausalSelfAttentionLayer(SelfAttentionLayer):
    """`SelfAttentionLayer` in which a state attends to itself and to earlier states.

    A loop of `step` over the states computes the same as one call of `forward`.
    """

    attention: CausalSelfAttention
    _attention_type = CausalSelfAttention

    def start(self, state: Tensor) -> Past:
        """Return the empty past for states of shape (R, D)."""
        return self.attention.start(state)

    def step(self, state: Tensor, past: Past) -> tuple[Tensor, Past]:
        """Refine the next state of each row, (R, D); return it and the past including it."""
        context, past = self.attention.step(state, past)
        return self._join(state, context), past


class NoSelfAttention(nn.Module):
    """Returns the states unchanged and keeps no past."""

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        return states

    def start(self, state: Tensor) -> Past:
        empty = state.new_empty(state.shape[0], 0, 0)
        return Past(empty, empty)

    def step(self, state: Tensor, past: Past) -> tuple[Tensor, Past]:
        return state, past
