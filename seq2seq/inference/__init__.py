"""Translate with trained models, alone or as an ensemble, and score known translations."""

from seq2seq.inference.ensemble import Ensemble, join_models
from seq2seq.inference.interventions import Intervened, Intervention, register_intervention
from seq2seq.inference.lexical_constraints import BannedPhrases, PrefixError
from seq2seq.inference.sentence_splitting import SentenceSplitter, split_sentences
from seq2seq.inference.translation import TranslatedHypothesis, Translation
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
