"""Greedy search, beam search and sampling, for any model that encodes and steps."""

from seq2seq.search.beam import beam_search
from seq2seq.search.config import (
    BeamConfig,
    DecodingConfig,
    EarlyStopping,
    GreedyConfig,
    LengthPenaltyForm,
    SamplingConfig,
)
from seq2seq.search.interface import Hypothesis, decoding_config_types, register_search, search
from seq2seq.search.stepwise import greedy_search, sampling_search

__all__ = [
    "BeamConfig",
    "DecodingConfig",
    "EarlyStopping",
    "GreedyConfig",
    "Hypothesis",
    "LengthPenaltyForm",
    "SamplingConfig",
    "beam_search",
    "decoding_config_types",
    "greedy_search",
    "register_search",
    "sampling_search",
    "search",
]
