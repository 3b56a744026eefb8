"""Attention types with one interface and one registry, and attention between whole sequences.

`build_attention` builds the module of a config. `Attention.prepare` processes a batch of sources
once; a call with queries then returns contexts and weights. `Attention.start` and `Attention.step`
do the same step by step, also for types that read the weights of earlier steps.
"""

from seq2seq.attention.additive import AdditiveAttention, AdditiveConfig, RememberingAttention
from seq2seq.attention.base import (
    Attention,
    AttentionConfig,
    AttentionState,
    Memory,
    attention_config_types,
    build_attention,
    register_attention,
)
from seq2seq.attention.contract import check_attention
from seq2seq.attention.coverage import CoverageAttention, CoverageConfig
from seq2seq.attention.dot import DotAttention, DotConfig
from seq2seq.attention.gaussian import GaussianAttention, GaussianConfig
from seq2seq.attention.general import GeneralAttention, GeneralConfig
from seq2seq.attention.local import LocalAttention, LocalConfig
from seq2seq.attention.location import LocationAttention, LocationConfig
from seq2seq.attention.multihead import (
    Attended,
    CausalSelfAttention,
    CrossAttention,
    MultiHeadAttention,
    MultiHeadConfig,
    Past,
    SelfAttention,
)
from seq2seq.attention.none import NoAttention, NoAttentionConfig
from seq2seq.attention.normalizers import (
    Normalizer,
    masked_entmax15,
    masked_softmax,
    masked_sparsemax,
)
from seq2seq.attention.uniform import UniformAttention, UniformConfig

__all__ = [
    "AdditiveAttention",
    "AdditiveConfig",
    "Attended",
    "Attention",
    "AttentionConfig",
    "AttentionState",
    "CausalSelfAttention",
    "CoverageAttention",
    "CoverageConfig",
    "CrossAttention",
    "DotAttention",
    "DotConfig",
    "GaussianAttention",
    "GaussianConfig",
    "GeneralAttention",
    "GeneralConfig",
    "LocalAttention",
    "LocalConfig",
    "LocationAttention",
    "LocationConfig",
    "Memory",
    "MultiHeadAttention",
    "MultiHeadConfig",
    "NoAttention",
    "NoAttentionConfig",
    "Normalizer",
    "Past",
    "RememberingAttention",
    "SelfAttention",
    "UniformAttention",
    "UniformConfig",
    "attention_config_types",
    "build_attention",
    "check_attention",
    "masked_entmax15",
    "masked_softmax",
    "masked_sparsemax",
    "register_attention",
]
