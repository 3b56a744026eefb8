"""Greedy search, beam search and sampling, for any model that encodes and steps.

The configurations load without torch, the other names with it, on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from seq2seq.search.config import (
    BeamConfig,
    DecodingConfig,
    EarlyStopping,
    GreedyConfig,
    Hypothesis,
    LengthPenaltyForm,
    MbrConfig,
    SamplingConfig,
)

if TYPE_CHECKING:
    from seq2seq.search.beam import beam_search
    from seq2seq.search.interface import decoding_config_types, register_search, search
    from seq2seq.search.stepwise import greedy_search, sampling_search

__all__ = [
    "BeamConfig",
    "DecodingConfig",
    "EarlyStopping",
    "GreedyConfig",
    "Hypothesis",
    "LengthPenaltyForm",
    "MbrConfig",
    "SamplingConfig",
    "beam_search",
    "decoding_config_types",
    "greedy_search",
    "register_search",
    "sampling_search",
    "search",
]

_MODULES = ("beam", "stepwise", "interface")
"""The modules of the other names; the first two register the searches."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = [import_module(f"{__name__}.{module}") for module in _MODULES]
    return next(getattr(module, name) for module in modules if hasattr(module, name))
