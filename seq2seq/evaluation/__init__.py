"""Evaluation: scores of translations, word alignments and statistics of attention.

The names below are loaded on first use: scores need no torch, and a training needs no sacreBLEU
before its first score.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq.evaluation.alignment import (
        Agreement,
        GoldLinks,
        Links,
        alignment_error_rate,
        argmax_links,
        check_links,
        diagonal_links,
        format_links,
        parse_links,
        read_links,
        word_links,
        word_weights,
    )
    from seq2seq.evaluation.attention_statistics import (
        AttentionStatistics,
        HeadStatistics,
        mean_over_heads,
    )
    from seq2seq.evaluation.bleu_tokenize import ScoringRule, choose_bleu_tokenize
    from seq2seq.evaluation.metrics import Scores, score
    from seq2seq.evaluation.significance import (
        MetricScore,
        Significance,
        SystemScores,
        compare_systems,
    )

__all__ = [
    "Agreement",
    "AttentionStatistics",
    "GoldLinks",
    "HeadStatistics",
    "Links",
    "MetricScore",
    "Scores",
    "ScoringRule",
    "Significance",
    "SystemScores",
    "alignment_error_rate",
    "argmax_links",
    "check_links",
    "choose_bleu_tokenize",
    "compare_systems",
    "diagonal_links",
    "format_links",
    "mean_over_heads",
    "parse_links",
    "read_links",
    "score",
    "word_links",
    "word_weights",
]

_MODULES = {
    "alignment": (
        "Agreement",
        "GoldLinks",
        "Links",
        "alignment_error_rate",
        "argmax_links",
        "check_links",
        "diagonal_links",
        "format_links",
        "parse_links",
        "read_links",
        "word_links",
        "word_weights",
    ),
    "attention_statistics": ("AttentionStatistics", "HeadStatistics", "mean_over_heads"),
    "bleu_tokenize": ("ScoringRule", "choose_bleu_tokenize"),
    "metrics": ("Scores", "score"),
    "significance": ("MetricScore", "Significance", "SystemScores", "compare_systems"),
}
"""The names that each module defines."""


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
