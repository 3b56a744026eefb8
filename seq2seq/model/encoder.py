"""The encoder, a bidirectional GRU over the source, and self-attention over recurrent states."""

# B batch, R rows, S source length, H hidden of one direction, T length, D state size

from torch import Tensor, nn

from seq2seq.attention.multihead import CausalSelfAttention, MultiHeadConfig, Past, SelfAttention
from seq2seq.kernels.elementwise import Dropout
from seq2seq.model.config import ModelConfig
from seq2seq.model.gru import BidirectionalGRU


class Encoder(nn.Module):
    """Encodes the source in both directions; the states of padding are exactly 0."""

    def __init__(self, config: ModelConfig, *, embedding: nn.Embedding) -> None:
        super().__init__()
        side = config.encoder
        self.states_size = side.state_size
        self.embedding = embedding
        self.word_dropout = nn.Dropout1d(config.word_dropout)
        self.embedding_dropout = Dropout(config.dropout)
        self.gru = BidirectionalGRU(
            config.embedding_size,
            side.hidden_size,
            num_layers=side.num_layers,
            dropout=config.dropout,
            residual=config.residual,
        )
        self.norm = nn.LayerNorm(self.states_size) if config.layer_norm else nn.Identity()
        self.self_attention = (
            SelfAttentionLayer(
                self.states_size,
                num_heads=side.self_attention_heads,
                dropout=config.dropout,
            )
            if side.self_attention
            else NoSelfAttention()
        )
        self.hidden_dropout = Dropout(config.dropout)

    def forward(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encode a batch of sources.

        Args:
            source_ids: Source token ids, (B, S).
            source_mask: (B, S) bool; True marks a real token. Padding comes last.

        Returns:
            States (B, S, 2H) and the last state of each direction in the top layer, (B, 2H).
        """
        embedded = self.embedding_dropout(self.word_dropout(self.embedding(source_ids)))
        states, last = self.gru(embedded, source_mask)
        states = self.self_attention(self.norm(states), source_mask)
        states = self.hidden_dropout(states) * source_mask.unsqueeze(-1)
        return states, last


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
        """Refine states (B, T, D); the mask (B, T) marks the real states, None means all."""
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
