"""Scores of translations, their significance, word alignments and statistics of attention."""

from importlib import import_module
from typing import TYPE_CHECKING

from seq2seq.files.links import (
    GoldLinks,
    Links,
    check_links,
    format_links,
    parse_links,
    read_links,
)

if TYPE_CHECKING:
    from seq2seq.evaluation.alignment import (
        Agreement,
        AttentionStatistics,
        HeadStatistics,
        alignment_error_rate,
        argmax_links,
        diagonal_links,
        mean_over_heads,
        word_links,
        word_weights,
    )
    from seq2seq.evaluation.metrics import (
        Scores,
        ScoringRule,
        corpus_bleu,
        score,
        sentence_statistics,
    )
    from seq2seq.evaluation.significance import (
        GroupComparison,
        MetricScore,
        Significance,
        SystemScores,
        compare_groups,
        compare_systems,
        holm,
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


def __getattr__(name: str) -> object:
    """Load a module on first use: scoring files needs no torch, which `alignment` loads."""
    for module in ("metrics", "significance", "alignment") if name in __all__ else ():
        found = import_module(f"{__name__}.{module}")
        if name in vars(found):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
