"""The readout: state, context and embedding of a step, joined for the output layer."""

# B batch, R rows, T target length, H hidden, C context, E embedding, F readout, t steps so far

import torch
from torch import Tensor, nn

from seq2seq.attention import Past
from seq2seq.kernels.dropout import Dropout
from seq2seq.model.decoder_config import DecoderConfig
from seq2seq.model.self_attention import CausalSelfAttentionLayer, NoSelfAttention
from seq2seq.model.sequence_dropout import over_steps


class Readout(nn.Module):
    """Computes r = tanh(W [s; c; E y] + b) from state, context and embedding.

    This is the attentional vector of Luong et al. 2015, eq. 5, extended by the embedding. With
    self-attention, the decoder's own past states refine the state first.
    """

    def __init__(self, config: DecoderConfig, *, context_size: int) -> None:
        super().__init__()
        self.self_attention = (
            CausalSelfAttentionLayer(
                config.hidden_size,
                num_heads=config.self_attention_heads,
                dropout=config.hidden_dropout,
            )
            if config.self_attention
            else NoSelfAttention()
        )
        self.hidden_dropout = Dropout(config.hidden_dropout)
        joined_size = config.hidden_size + context_size + config.embedding_size
        self.projection = nn.Linear(joined_size, config.readout_size)
        self.norm = nn.LayerNorm(config.readout_size) if config.layer_norm else nn.Identity()

    def start(self, hidden: Tensor) -> Past:
        """Return the empty past for top states of shape (R, H)."""
        return self.self_attention.start(hidden)

    def step(
        self,
        hidden: Tensor,
        context: Tensor,
        embedded: Tensor,
        past: Past,
        factors: Tensor | None = None,
    ) -> tuple[Tensor, Past]:
        """Compute the readout of one step.

        Args:
            hidden: New outputs of the layers, (R, H).
            context: Contexts, (R, C).
            embedded: Embedded previous tokens, (R, E).
            past: Past of the rows, from `start` or the previous step.
            factors: Factors that drop elements of the state, (R, H); None draws new ones.

        Returns:
            Readouts (R, F) and the past including this step.
        """
        refined, past = self.self_attention.step(hidden, past)
        return self._join(refined, context, embedded, factors), past

    def forward(
        self, hidden: Tensor, context: Tensor, embedded: Tensor, factors: Tensor | None = None
    ) -> Tensor:
        """Compute the readouts of all steps: (B, T, H), (B, T, C), (B, T, E) -> (B, T, F)."""
        return self._join(self.self_attention(hidden), context, embedded, over_steps(factors))

    def _join(
        self, hidden: Tensor, context: Tensor, embedded: Tensor, factors: Tensor | None
    ) -> Tensor:
        joined = torch.cat((self.hidden_dropout(hidden, factors), context, embedded), dim=-1)
        projected = self.projection(joined).to(hidden.dtype)
        readout: Tensor = self.norm(projected).tanh_()
        return readout
