"""Corpus scores of translations, by sacreBLEU on detokenised text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """How near translations come to their references, 0 to 100 each (TER may exceed 100)."""

    bleu: float
    chrf: float
    ter: float | None
    """an error rate: lower is better; None: not asked for"""
    signature: str
    """how BLEU was computed: only figures of one signature compare"""


def score(hypotheses: Sequence[str], references: Sequence[str], *, ter: bool = True) -> Scores:
    """Score translations with BLEU (13a, cased), chrF2 and TER.

    Args:
        hypotheses: detokenised translations.
        references: one for each, detokenised.
        ter: compute TER too, which takes longer than the others together.

    Raises:
        ValueError: there is nothing to score, or the counts differ.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} translations but {len(references)} references; "
            "scoring needs one reference for each translation"
        )
    if not hypotheses:
        raise ValueError("there are no translations to score; give at least one sentence")
    metrics = build_metrics()
    values = {
        name: metric.corpus_score(hypotheses, [references]).score
        for name, metric in metrics.items()
        if ter or name != "ter"
    }
    return Scores(
        bleu=values["bleu"],
        chrf=values["chrf"],
        ter=values.get("ter"),
        signature=str(metrics["bleu"].get_signature()),
    )


def build_metrics() -> "dict[str, Metric]":
    """Return sacreBLEU's metrics as this project sets them: BLEU (13a, cased), chrF2 and TER."""
    # A training's first update comes before its first score, and does not wait for these.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return {"bleu": BLEU(tokenize="13a"), "chrf": CHRF(), "ter": TER()}
