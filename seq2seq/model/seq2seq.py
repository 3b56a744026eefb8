"""The encoder-decoder model, built from its configuration."""

# B batch, S source length, T target length, D encoder state size, H hidden of the decoder,
# L layers of the decoder

import torch
from torch import Tensor, nn

from seq2seq.attention.base import Attention, AttentionConfig, Memory, build_attention
from seq2seq.model.config import ModelConfig, TiedEmbeddings
from seq2seq.model.decoder import AttnDecoderRNN, TiedOutput
from seq2seq.model.encoder import Encoder
from seq2seq.model.recurrence import DecoderOutput, DecoderState, GRUCell
from seq2seq.special_tokens import PAD


class Seq2Seq(nn.Module):
    """Encoder-decoder with attention over token ids (Bahdanau et al. 2015).

    Args:
        config: Config of encoder and decoder.
        attention: Config of the attention type.
        source_vocabulary_size: Number of source tokens.
        target_vocabulary_size: Number of target tokens; with `tied_embeddings=all`, the target
            tokens are the first source tokens.

    Raises:
        ValueError: Sizes or options do not fit each other.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        attention: AttentionConfig,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
    ) -> None:
        super().__init__()
        decoder = config.decoder
        source_embedding, target_embedding = _build_embeddings(
            config, source_vocabulary_size, target_vocabulary_size
        )
        output = nn.Linear(config.readout_size, target_vocabulary_size)
        if target_embedding.num_embeddings > target_vocabulary_size:
            output = TiedOutput(target_embedding, target_vocabulary_size)
        elif config.tied_embeddings is not TiedEmbeddings.none:
            output.weight = target_embedding.weight
        self.encoder = Encoder(config, embedding=source_embedding)
        self.attention = build_attention(
            attention,
            query_size=decoder.hidden_size,
            key_size=self.encoder.states_size,
            value_size=self.encoder.states_size,
        )
        self.decoder = AttnDecoderRNN(
            config, attention=self.attention, embedding=target_embedding, output=output
        )
        self.bridge = StateBridge(
            states_size=self.encoder.states_size,
            hidden_size=decoder.hidden_size,
            num_layers=decoder.num_layers,
        )
        self._initialize()

    def replace_attention(self, attention: Attention) -> None:
        """Use another attention module of the same sizes."""
        self.attention = self.decoder.recurrence.attention = attention

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Memory, DecoderState]:
        """Encode the sources.

        Args:
            source_ids: Source token ids, (B, S).
            source_mask: (B, S) bool; True marks a real token.

        Returns:
            The memory for attention and the decoder's initial state.
        """
        states, last = self.encoder(source_ids, source_mask)
        memory = self.attention.prepare(states, source_mask)
        hidden = self.bridge(last)
        return memory, self.decoder.initial_state(tuple(hidden.unbind(1)), memory)

    def forward(
        self,
        source_ids: Tensor,
        source_mask: Tensor,
        previous_ids: Tensor,
        forced_mask: Tensor | None = None,
    ) -> DecoderOutput:
        """Read known targets.

        Args:
            source_ids: Source token ids, (B, S).
            source_mask: (B, S) bool; True marks a real token.
            previous_ids: BOS, then the target without EOS, (B, T).
            forced_mask: (B, T) bool; True feeds the true token, False the predicted one
                (scheduled sampling). None feeds all true tokens (teacher forcing).
        """
        memory, state = self.encode(source_ids, source_mask)
        if forced_mask is None:
            output: DecoderOutput = self.decoder(previous_ids, state, memory)
            return output
        return self.decoder.sample_forward(previous_ids, state, memory, forced_mask=forced_mask)

    def _initialize(self) -> None:
        """Initialize biases with 0, recurrent matrices orthogonal, others with Xavier's uniform."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.GRU):
                for name, parameter in module.named_parameters():
                    _initialize_parameter(parameter, recurrent="weight_hh" in name)
        for module in self.modules():
            if isinstance(module, GRUCell):
                _initialize_parameter(module.hidden_projection.weight, recurrent=True)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
                module.weight.data[module.padding_idx].zero_()


def _build_embeddings(
    config: ModelConfig, source_vocabulary_size: int, target_vocabulary_size: int
) -> tuple[nn.Embedding, nn.Embedding]:
    """Return the source and the target embedding: the same module if all embeddings are tied."""
    size = config.embedding_size
    if config.tied_embeddings is TiedEmbeddings.all:
        embedding = nn.Embedding(source_vocabulary_size, size, padding_idx=PAD)
        return embedding, embedding
    target_embedding = nn.Embedding(target_vocabulary_size, size, padding_idx=PAD)
    source_embedding = nn.Embedding(source_vocabulary_size, size, padding_idx=PAD)
    return source_embedding, target_embedding


def _initialize_parameter(parameter: Tensor, *, recurrent: bool) -> None:
    """Initialize a bias or a matrix; the three gates of a recurrent matrix one by one."""
    if parameter.dim() < 2:
        nn.init.zeros_(parameter)
    elif recurrent:
        for gate in parameter.data.chunk(3):
            nn.init.orthogonal_(gate)
    elif parameter.numel() > 0:  # empty if the context has size 0
        nn.init.xavier_uniform_(parameter)


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters; a shared matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_shared_parameters(model: Seq2Seq) -> int:
    """Return the number of parameters that are the same for all attention types and decoder forms.

    They belong to the encoder, the embeddings and the output layer.
    """
    decoder = model.decoder
    return count_parameters(nn.ModuleList((model.encoder, decoder.embedding, decoder.output)))


class StateBridge(nn.Module):
    """Computes the decoder's first hidden states from the last state of each direction.

    Each layer of the decoder has its own projection.
    """

    def __init__(self, *, states_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.shape = (num_layers, hidden_size)
        self.projection = nn.Linear(states_size, num_layers * hidden_size)

    def forward(self, last: Tensor) -> Tensor:
        """Turn the last states (B, D) into hidden states (B, L, H)."""
        # The product may use low precision; the state, which accumulates over the steps, does not.
        hidden = torch.tanh(self.projection(last).to(last.dtype))
        return hidden.view(last.shape[0], *self.shape)
