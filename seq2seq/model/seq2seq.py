"""The whole model: encoder, bridge, attention and decoder, built from a config."""

# B batch, S source length, T target length

from dataclasses import dataclass
from enum import Enum

from torch import Tensor, nn

from seq2seq.attention import AttentionConfig, Memory, build_attention
from seq2seq.model.bridge import Bridge, build_bridge
from seq2seq.model.decoder import AttnDecoderRNN, DecoderOutput
from seq2seq.model.decoder_config import DecoderConfig
from seq2seq.model.decoder_state import DecoderState
from seq2seq.model.encoder import Encoder, EncoderConfig
from seq2seq.model.gru import GRUCell
from seq2seq.special_tokens import PAD


class TiedEmbeddings(Enum):
    """Which embeddings share one matrix: none, target and output, or source as well."""

    none = "none"
    decoder = "decoder"
    all = "all"


@dataclass(kw_only=True, slots=True)
class ModelConfig:
    """Encoder, decoder and how they are joined."""

    name: str
    encoder: EncoderConfig
    decoder: DecoderConfig
    bridge: Bridge
    tied_embeddings: TiedEmbeddings

    def __post_init__(self) -> None:
        encoder, decoder = self.encoder, self.decoder
        if (
            self.tied_embeddings is not TiedEmbeddings.none
            and decoder.readout_size != decoder.embedding_size
        ):
            raise ValueError(
                f"model.decoder.readout_size={decoder.readout_size} must equal "
                f"model.decoder.embedding_size={decoder.embedding_size} where "
                f"model.tied_embeddings={self.tied_embeddings.value}"
            )
        if (
            self.tied_embeddings is TiedEmbeddings.all
            and encoder.embedding_size != decoder.embedding_size
        ):
            raise ValueError(
                f"model.encoder.embedding_size={encoder.embedding_size} must equal "
                f"model.decoder.embedding_size={decoder.embedding_size} where "
                "model.tied_embeddings=all"
            )


class Seq2Seq(nn.Module):
    """An attention encoder-decoder over token ids."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        attention: AttentionConfig,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
    ) -> None:
        super().__init__()
        encoder, decoder = config.encoder, config.decoder
        if (
            config.tied_embeddings is TiedEmbeddings.all
            and source_vocabulary_size != target_vocabulary_size
        ):
            raise ValueError(
                "model.tied_embeddings=all needs one vocabulary for both languages; set "
                "tokenizer.joint=true or model.tied_embeddings=decoder"
            )
        target_embedding = nn.Embedding(
            target_vocabulary_size, decoder.embedding_size, padding_idx=PAD
        )
        source_embedding = target_embedding
        if config.tied_embeddings is not TiedEmbeddings.all:
            source_embedding = nn.Embedding(
                source_vocabulary_size, encoder.embedding_size, padding_idx=PAD
            )
        output = nn.Linear(decoder.readout_size, target_vocabulary_size)
        if config.tied_embeddings is not TiedEmbeddings.none:
            output.weight = target_embedding.weight
        self.encoder = Encoder(encoder, embedding=source_embedding)
        self.attention = build_attention(
            attention,
            query_size=decoder.hidden_size,
            key_size=self.encoder.states_size,
            value_size=self.encoder.states_size,
        )
        self.decoder = AttnDecoderRNN(
            decoder, attention=self.attention, embedding=target_embedding, output=output
        )
        if config.bridge is Bridge.zero and self.attention.context_size == 0:
            raise ValueError(
                f"model.bridge=zero with attention={attention.name} would hide the source from the "
                "decoder; choose another bridge or attention"
            )
        self.bridge = build_bridge(
            config.bridge,
            states_size=self.encoder.states_size,
            hidden_size=decoder.hidden_size,
            num_layers=decoder.num_layers,
        )
        self._initialize()

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Memory, DecoderState]:
        """Read the sources.

        Args:
            source_ids: (B, S).
            source_mask: (B, S) bool, True = real token.

        Returns:
            What attention looks at, and the state from which the decoder starts.
        """
        states, last = self.encoder(source_ids, source_mask)
        memory = self.attention.prepare(states, source_mask)
        hidden = self.bridge(states, source_mask, last)
        return memory, self.decoder.initial_state(tuple(hidden.unbind(1)))

    def forward(
        self,
        source_ids: Tensor,
        source_mask: Tensor,
        previous_ids: Tensor,
        forced_mask: Tensor | None = None,
    ) -> DecoderOutput:
        """Read sources and known targets.

        Args:
            source_ids: (B, S).
            source_mask: (B, S) bool, True = real token.
            previous_ids: BOS and the target without its last token, (B, T).
            forced_mask: (B, T) bool, True = feed the true token; None feeds every true token.
        """
        memory, state = self.encode(source_ids, source_mask)
        if forced_mask is None:
            output: DecoderOutput = self.decoder(previous_ids, state, memory)
            return output
        return self.decoder.sample_forward(previous_ids, state, memory, forced_mask=forced_mask)

    def _initialize(self) -> None:
        """Draw matrices from Xavier's uniform, recurrent ones orthogonal; biases are 0."""
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


def _initialize_parameter(parameter: Tensor, *, recurrent: bool) -> None:
    """Fill a bias with zeros; draw a matrix, or each of a recurrent one's three gates."""
    if parameter.dim() < 2:
        nn.init.zeros_(parameter)
    elif recurrent:
        for gate in parameter.data.chunk(3):
            nn.init.orthogonal_(gate)
    elif parameter.numel() > 0:  # without attention nothing is projected from a context
        nn.init.xavier_uniform_(parameter)


def count_parameters(model: nn.Module) -> int:
    """Count the trained numbers; shared matrices count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_fixed_parameters(model: Seq2Seq) -> int:
    """Count the parameters that no attention type or decoder form changes.

    These are the encoder, the embeddings and the output layer.
    """
    decoder = model.decoder
    return count_parameters(nn.ModuleList((model.encoder, decoder.embedding, decoder.output)))
