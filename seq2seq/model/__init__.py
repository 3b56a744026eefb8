"""The encoder-decoder model and its parts."""

from seq2seq.model.config import (
    Bridge,
    DecoderConfig,
    DecoderForm,
    DropoutMode,
    EncoderConfig,
    ModelConfig,
    TiedEmbeddings,
)
from seq2seq.model.decoder import AttnDecoderRNN, DecoderOutput, DecoderStep
from seq2seq.model.encoder import (
    CausalSelfAttentionLayer,
    Encoder,
    NoSelfAttention,
    SelfAttentionLayer,
)
from seq2seq.model.gru import BidirectionalGRU, GRUCell
from seq2seq.model.recurrence import (
    BahdanauRecurrence,
    ConditionalRecurrence,
    DecoderState,
    DropoutFactors,
    InputFeedingRecurrence,
    LuongRecurrence,
    Readout,
    Recurrence,
    RecurrenceStep,
    build_recurrence,
)
from seq2seq.model.seq2seq import (
    MeanBridge,
    ProjectionBridge,
    Seq2Seq,
    ZeroBridge,
    build_bridge,
    count_parameters,
)

__all__ = [
    "AttnDecoderRNN",
    "BahdanauRecurrence",
    "BidirectionalGRU",
    "Bridge",
    "CausalSelfAttentionLayer",
    "ConditionalRecurrence",
    "DecoderConfig",
    "DecoderForm",
    "DecoderOutput",
    "DecoderState",
    "DecoderStep",
    "DropoutFactors",
    "DropoutMode",
    "Encoder",
    "EncoderConfig",
    "GRUCell",
    "InputFeedingRecurrence",
    "LuongRecurrence",
    "MeanBridge",
    "ModelConfig",
    "NoSelfAttention",
    "ProjectionBridge",
    "Readout",
    "Recurrence",
    "RecurrenceStep",
    "SelfAttentionLayer",
    "Seq2Seq",
    "TiedEmbeddings",
    "ZeroBridge",
    "build_bridge",
    "build_recurrence",
    "count_parameters",
]
