"""The encoder, a bidirectional GRU over the source."""

# B batch, S source length, E embedding, H hidden of one direction, L layers

from dataclasses import dataclass

from torch import Tensor, nn

from seq2seq.checks import check_layers, check_probabilities, check_sizes
from seq2seq.kernels.dropout import Dropout
from seq2seq.model.gru import BidirectionalGRU
from seq2seq.model.self_attention import NoSelfAttention, SelfAttentionLayer
from seq2seq.model.sequence_dropout import DropoutMode


@dataclass(kw_only=True, slots=True)
class EncoderConfig:
    """The encoder's sizes and dropout."""

    embedding_size: int
    hidden_size: int
    """Size of one direction; a source state has twice this size."""
    num_layers: int
    layer_norm: bool
    """Normalise the GRU's states."""
    self_attention: bool
    """Refine the GRU's states by attention to all states of the sentence."""
    self_attention_heads: int
    word_dropout: float
    """Probability of dropping the whole embedding of a token."""
    embedding_dropout: float
    hidden_dropout: float
    """Dropout between layers and on the states that attention reads."""
    vectors: str | None
    """Path of the pretrained word vectors that initialise the embedding."""
    # Defaults are also the values of checkpoints that were written before their keys existed.
    residual: bool = False
    """Add the input of each layer above the first to its output (Wu et al. 2016)."""
    dropout_mode: DropoutMode = DropoutMode.step
    """Whether dropout draws anew at each step or once for all steps of a source."""

    def __post_init__(self) -> None:
        check_sizes("model.encoder", self, "embedding_size", "hidden_size", "self_attention_heads")
        check_layers("model.encoder", self)
        if self.self_attention and 2 * self.hidden_size % self.self_attention_heads:
            raise ValueError(
                f"model.encoder.self_attention_heads={self.self_attention_heads} must divide "
                f"2 * model.encoder.hidden_size={2 * self.hidden_size}"
            )
        check_probabilities(
            "model.encoder", self, "word_dropout", "embedding_dropout", "hidden_dropout"
        )


class Encoder(nn.Module):
    """Encodes the source in both directions; the states of padding are exactly 0."""

    def __init__(self, config: EncoderConfig, *, embedding: nn.Embedding) -> None:
        super().__init__()
        self.states_size = 2 * config.hidden_size
        self.embedding = embedding
        self.word_dropout = nn.Dropout1d(config.word_dropout)
        shared_dim = 1 if config.dropout_mode is DropoutMode.sequence else None
        self.embedding_dropout = Dropout(config.embedding_dropout, shared_dim=shared_dim)
        self.gru = BidirectionalGRU(
            config.embedding_size,
            config.hidden_size,
            num_layers=config.num_layers,
            dropout=config.hidden_dropout,
            dropout_mode=config.dropout_mode,
            residual=config.residual,
        )
        self.norm = nn.LayerNorm(self.states_size) if config.layer_norm else nn.Identity()
        self.self_attention = (
            SelfAttentionLayer(
                self.states_size,
                num_heads=config.self_attention_heads,
                dropout=config.hidden_dropout,
            )
            if config.self_attention
            else NoSelfAttention()
        )
        self.hidden_dropout = Dropout(config.hidden_dropout, shared_dim=shared_dim)

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
