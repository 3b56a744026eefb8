"""Translate with trained models, alone or as an ensemble, and score known translations.

The names below are loaded on first use: a service with exported models needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq.inference.ensemble import Ensemble, join_models
    from seq2seq.inference.interventions import Intervened, Intervention, register_intervention
    from seq2seq.inference.lexical_constraints import BannedPhrases, PrefixError
    from seq2seq.inference.results import TranslatedHypothesis, Translation
    from seq2seq.inference.sentence_splitting import SentenceSplitter, split_sentences
    from seq2seq.inference.translator import Translator
    from seq2seq.inference.unknown_words import UnknownWords, read_dictionary

__all__ = [
    "BannedPhrases",
    "Ensemble",
    "Intervened",
    "Intervention",
    "PrefixError",
    "SentenceSplitter",
    "TranslatedHypothesis",
    "Translation",
    "Translator",
    "UnknownWords",
    "join_models",
    "read_dictionary",
    "register_intervention",
    "split_sentences",
]

_MODULES = (
    "results",
    "sentence_splitting",
    "ensemble",
    "interventions",
    "lexical_constraints",
    "translator",
    "unknown_words",
)
"""The modules of these names, those without torch first."""


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _MODULES:
            loaded = import_module(f"{__name__}.{module}")
            if hasattr(loaded, name):
                return getattr(loaded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
