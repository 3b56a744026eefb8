"""Search for the best translations: greedy and beam, over any model that encodes and steps."""

from seq2seq.search.base import (
    Hypothesis,
    decoding_config_types,
    register_search,
    search,
)
from seq2seq.search.beam import beam_search
from seq2seq.search.config import BeamConfig, DecodingConfig, GreedyConfig
from seq2seq.search.greedy import greedy_search

__all__ = [
    "BeamConfig",
    "DecodingConfig",
    "GreedyConfig",
    "Hypothesis",
    "beam_search",
    "decoding_config_types",
    "greedy_search",
    "register_search",
    "search",
]
