"""Scores of translations, their significance, word alignments and statistics of attention."""

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
    from seq2seq.evaluation.metrics import Scores, ScoringRule, score
    from seq2seq.evaluation.significance import (
        GroupComparison,
        MetricScore,
        Significance,
        SystemScores,
        compare_groups,
        compare_systems,
        corpus_bleu,
        holm,
        sentence_statistics,
    )

__all__ = [
    "Agreement",
    "AttentionStatistics",
    "GoldLinks",
    "GroupComparison",
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
    "compare_groups",
    "compare_systems",
    "corpus_bleu",
    "diagonal_links",
    "format_links",
    "holm",
    "mean_over_heads",
    "parse_links",
    "read_links",
    "score",
    "sentence_statistics",
    "word_links",
    "word_weights",
]


_MODULES = {
    "attention_statistics": ("AttentionStatistics", "HeadStatistics", "mean_over_heads"),
    "metrics": ("Scores", "ScoringRule", "score"),
    "significance": (
        "GroupComparison",
        "MetricScore",
        "Significance",
        "SystemScores",
        "compare_groups",
        "compare_systems",
        "corpus_bleu",
        "holm",
        "sentence_statistics",
    ),
}
"""The names that `alignment` does not have."""


def __getattr__(name: str) -> object:
    """Load a module on first use: scoring files needs no torch, and training no significance."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module in _MODULES if name in _MODULES[module]), "alignment")
    return getattr(import_module(f"{__name__}.{module}"), name)
