"""The configuration of the decoder, which its parts share."""

from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_layers, check_probabilities, check_sizes
from seq2seq.model.sequence_dropout import DropoutMode


class DecoderForm(Enum):
    """The order of state update and attention in a step."""

    bahdanau = "bahdanau"
    conditional = "conditional"
    luong = "luong"


@dataclass(kw_only=True, slots=True)
class DecoderConfig:
    """The decoder's form, sizes and dropout."""

    form: DecoderForm
    input_feeding: bool
    """Feed the previous readout to the GRU together with the embedding; form `luong` only."""
    embedding_size: int
    hidden_size: int
    num_layers: int
    readout_size: int
    """Input size of the output layer; equals the embedding size if embeddings are tied."""
    layer_norm: bool
    """Normalise the projections inside the GRU cells and the readout."""
    self_attention: bool
    """Refine the state by attention to the decoder's own past states before the readout."""
    self_attention_heads: int
    word_dropout: float
    """Probability of dropping the whole embedding of a token."""
    embedding_dropout: float
    hidden_dropout: float
    """Dropout between layers and on the state that enters the readout."""
    readout_dropout: float
    vectors: str | None
    """Path of the pretrained word vectors that initialise the embedding."""
    # Defaults are also the values of checkpoints that were written before their keys existed.
    residual: bool = False
    """Add the input of each layer above the first to its output."""
    dropout_mode: DropoutMode = DropoutMode.step
    """Whether dropout draws anew at each step or once for all steps of a target."""

    def __post_init__(self) -> None:
        sizes = ("embedding_size", "hidden_size", "readout_size", "self_attention_heads")
        check_sizes("model.decoder", self, *sizes)
        check_layers("model.decoder", self)
        if self.self_attention and self.hidden_size % self.self_attention_heads:
            raise ValueError(
                f"model.decoder.self_attention_heads={self.self_attention_heads} must divide "
                f"model.decoder.hidden_size={self.hidden_size}"
            )
        dropouts = ("word_dropout", "embedding_dropout", "hidden_dropout", "readout_dropout")
        check_probabilities("model.decoder", self, *dropouts)
        if self.input_feeding and self.form is not DecoderForm.luong:
            raise ValueError(
                f"model.decoder.input_feeding=true needs model.decoder.form=luong, not "
                f"{self.form.value}; set it to false"
            )
