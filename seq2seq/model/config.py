"""The configuration of the model: encoder, decoder, and what connects them."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from seq2seq.checks import Config, FilePath, Layers, Probability, Size


@dataclass(kw_only=True, slots=True, repr=False)
class SideConfig(Config):
    """The settings that encoder and decoder share: a GRU over embeddings, and its dropout."""

    embedding_size: Size
    """Size of a token embedding."""
    hidden_size: Size
    """Size of the hidden state."""
    num_layers: Layers = 1
    """Number of GRU layers."""
    residual: bool = False
    """Add the input of each layer above the first to its output (Wu et al. 2016)."""
    layer_norm: bool = False
    """Normalize the states of the GRU."""
    self_attention: bool = False
    """Refine the GRU's states by attention to all states of the sentence."""
    self_attention_heads: Size = 4
    """Number of heads of the self-attention; must divide the size of a state."""
    word_dropout: Probability = 0.0
    """Probability of dropping the whole embedding of a token."""
    embedding_dropout: Probability = 0.0
    """Dropout probability of the embeddings."""
    hidden_dropout: Probability = 0.0
    """Dropout probability between layers, and of the states that attention or the readout reads."""
    vectors: FilePath | None = None
    """Path of the pretrained word vectors that initialize the embedding."""
    directions: ClassVar[int] = 1
    """Number of directions; the hidden states of all directions form one state."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        if self.self_attention and self.directions * self.hidden_size % self.self_attention_heads:
            factor = "2 * " if self.directions == 2 else ""
            raise ValueError(
                f"{self.section}.self_attention_heads={self.self_attention_heads} must divide "
                f"{factor}{self.section}.hidden_size={self.directions * self.hidden_size}"
            )
        if self.residual and self.num_layers == 1:
            raise ValueError(
                f"{self.section}.residual=true connects layers, but {self.section}.num_layers=1; "
                "set num_layers to 2 or more, or residual=false"
            )


@dataclass(kw_only=True, slots=True, repr=False)
class EncoderConfig(SideConfig, section="model.encoder"):
    """The encoder's sizes and dropout."""

    hidden_size: Size
    """Size of the hidden state of one direction; a source state has twice this size."""
    directions: ClassVar[int] = 2


@dataclass(kw_only=True, slots=True, repr=False)
class DecoderConfig(SideConfig, section="model.decoder"):
    """The decoder's form, sizes and dropout."""

    form: str = "bahdanau"
    """Order of the state update and attention in a step: "bahdanau", "conditional" or "luong"."""
    input_feeding: bool = False
    """Feed the previous readout to the GRU together with the embedding; form `luong` only."""
    readout_size: Size
    """Input size of the output layer; equals the embedding size if embeddings are tied."""
    layer_norm: bool = False
    """Normalize the projections inside the GRU cells and the readout."""
    self_attention: bool = False
    """Refine the state by attention to the decoder's own past states before the readout."""
    readout_dropout: Probability = 0.0
    """Dropout probability of the readout."""

    def __post_init__(self) -> None:
        SideConfig.__post_init__(self)
        if self.input_feeding and self.form != "luong":
            raise ValueError(
                f"model.decoder.input_feeding=true needs model.decoder.form=luong, not "
                f"{self.form}; set it to false"
            )


class Bridge(Enum):
    """Source of the decoder's first hidden states."""

    projection = "projection"
    mean = "mean"
    zero = "zero"


class TiedEmbeddings(Enum):
    """Embeddings that share one matrix: none, target and output (decoder), or also source (all)."""

    none = "none"
    decoder = "decoder"
    all = "all"


@dataclass(kw_only=True, slots=True, repr=False)
class ModelConfig(Config, section="model"):
    """Encoder, decoder and the connections between them.

    In Python, only the sizes are required; `load_config` also sets the dropout that suits the data.

    Example:
        >>> encoder = EncoderConfig(embedding_size=32, hidden_size=16)
        >>> decoder = DecoderConfig(
        ...     form="luong", embedding_size=32, hidden_size=48, readout_size=32
        ... )
        >>> ModelConfig(encoder=encoder, decoder=decoder).tied_embeddings.name
        'decoder'
    """

    name: str = "bahdanau"
    """Name of the decoder form with its options."""
    encoder: EncoderConfig
    decoder: DecoderConfig
    bridge: Bridge = Bridge.projection
    """Source of the decoder's first hidden states."""
    tied_embeddings: TiedEmbeddings = TiedEmbeddings.decoder
    """Embeddings that share one matrix: none, target and output (decoder), or also source (all)."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        size = self.decoder.embedding_size
        tied = {}
        if self.tied_embeddings is not TiedEmbeddings.none:
            tied["decoder.readout_size"] = self.decoder.readout_size
        if self.tied_embeddings is TiedEmbeddings.all:
            tied["encoder.embedding_size"] = self.encoder.embedding_size
        for key, other in tied.items():
            if other != size:
                raise ValueError(
                    f"model.{key}={other} must equal model.decoder.embedding_size={size} where "
                    f"model.tied_embeddings={self.tied_embeddings.value}"
                )
