"""The configuration of the model: encoder, decoder, and what both share."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from seq2seq.checks import Config, FilePath, Layers, Probability, Size

_MOST_HEADS = 4


@dataclass(kw_only=True, slots=True, repr=False)
class SideConfig(Config):
    """The settings that encoder and decoder have each: a GRU over embeddings."""

    hidden_size: Size
    """Size of the hidden state."""
    num_layers: Layers = 1
    """Number of GRU layers."""
    self_attention: bool = False
    """Refine the GRU's states by attention to all states of the sentence."""
    vectors: FilePath | None = None
    """Path of the pretrained word vectors that initialize the embedding."""
    directions: ClassVar[int] = 1
    """Number of directions; the hidden states of all directions form one state."""

    @property
    def state_size(self) -> int:
        """Return the size of a state."""
        return self.directions * self.hidden_size

    @property
    def self_attention_heads(self) -> int:
        """Return the number of heads of the self-attention: 4, or 2 or 1 if 4 do not divide the
        state."""
        return math.gcd(_MOST_HEADS, self.state_size)


@dataclass(kw_only=True, slots=True, repr=False)
class EncoderConfig(SideConfig, section="model.encoder"):
    """The encoder's size and layers."""

    hidden_size: Size
    """Size of the hidden state of one direction; a source state has twice this size."""
    directions: ClassVar[int] = 2


@dataclass(kw_only=True, slots=True, repr=False)
class DecoderConfig(SideConfig, section="model.decoder"):
    """The decoder's size and layers."""

    self_attention: bool = False
    """Refine the state by attention to the decoder's own past states before the readout."""


class TiedEmbeddings(Enum):
    """Embeddings that share one matrix: none, target and output (decoder), or also source (all)."""

    none = "none"
    decoder = "decoder"
    all = "all"


@dataclass(kw_only=True, slots=True, repr=False)
class ModelConfig(Config, section="model"):
    """Encoder and decoder, and what both share.

    In Python, only the sizes are required; `load_config` also sets the dropout that suits the data.

    Example:
        >>> encoder, decoder = EncoderConfig(hidden_size=16), DecoderConfig(hidden_size=48)
        >>> config = ModelConfig(form="luong", embedding_size=32, encoder=encoder, decoder=decoder)
        >>> config.tied_embeddings.name
        'decoder'
    """

    form: str = "bahdanau"
    """Order of the state update and attention in a step: "bahdanau", "conditional" or "luong"."""
    input_feeding: bool = False
    """Feed the previous readout to the decoder's GRU together with the embedding; form `luong`
    only."""
    embedding_size: Size
    """Size of a token embedding."""
    tied_embeddings: TiedEmbeddings = TiedEmbeddings.decoder
    """Embeddings that share one matrix: none, target and output (decoder), or also source (all)."""
    layer_norm: bool = False
    """Normalize the encoder's states, the projections inside the decoder's GRU cells, and the
    readout."""
    residual: bool = False
    """Add the input of each layer above the first to its output (Wu et al. 2016)."""
    dropout: Probability = 0.0
    """Dropout probability of embeddings, between layers, of states and of the readout."""
    word_dropout: Probability = 0.0
    """Probability of dropping the whole embedding of a token."""
    encoder: EncoderConfig
    decoder: DecoderConfig

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        if self.input_feeding and self.form != "luong":
            raise ValueError(
                f"model.input_feeding=true needs model.form=luong, not {self.form}; set it to false"
            )

    @property
    def readout_size(self) -> int:
        """Return the input size of the output layer: that of the embedding whose matrix it shares,
        otherwise that of the decoder's state."""
        if self.tied_embeddings is TiedEmbeddings.none:
            return self.decoder.hidden_size
        return self.embedding_size
