"""Corpus scores of translations, by sacreBLEU on detokenised text."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER


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
    bleu = BLEU(tokenize="13a")
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=CHRF().corpus_score(hypotheses, [references]).score,
        ter=TER().corpus_score(hypotheses, [references]).score if ter else None,
        signature=str(bleu.get_signature()),
    )
