"""Scores of translations against references, by sacreBLEU on detokenised text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seq2seq.evaluation.bleu_tokenize import DEFAULT_RULE, ScoringRule, build_bleu

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

_IDEOGRAM_TER = ("char", "flores200", "ja-mecab", "zh")
"""Tokenizers of BLEU with which TER takes each ideogram as a word; kana and other scripts without
spaces stay whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """Scores of a corpus of translations, in percent."""

    bleu: float
    """BLEU from 0 to 100 (Papineni et al. 2002); higher is better."""
    chrf: float
    """chrF2 from 0 to 100 (Popovic 2015); higher is better."""
    ter: float | None
    """Translation edit rate (Snover et al. 2006), which may exceed 100; lower is better. None: not
    computed."""
    signature: str
    """sacreBLEU's signature of BLEU; only scores with equal signatures are comparable."""


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    ter: bool = True,
    rule: ScoringRule = DEFAULT_RULE,
) -> Scores:
    """Score translations with BLEU, chrF2 and TER.

    Args:
        hypotheses: Detokenised translations.
        references: One detokenised reference for each translation.
        ter: Whether to compute TER, which takes longer than the other two together.
        rule: Tokenizer of BLEU, and whether BLEU and chrF2 ignore the case of letters, which TER
            always does.

    Raises:
        ValueError: There is nothing to score, the numbers of lines differ, or the tokenizer needs
            a package that is not installed.

    Example:
        >>> scores = score(["A dog runs fast."], ["A dog runs very fast."])
        >>> round(scores.bleu, 1), round(scores.ter, 1)
        (40.9, 20.0)
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} translations but {len(references)} references; "
            "scoring needs one reference for each translation"
        )
    if not hypotheses:
        raise ValueError("there are no translations to score; give at least one sentence")
    metrics = build_metrics(rule)
    values = {
        name: clip_score(name, metric.corpus_score(hypotheses, [references]).score)
        for name, metric in metrics.items()
        if ter or name != "ter"
    }
    return Scores(
        bleu=values["bleu"],
        chrf=values["chrf"],
        ter=values.get("ter"),
        signature=str(metrics["bleu"].get_signature()),
    )


def build_metrics(rule: ScoringRule) -> "dict[str, Metric]":
    """Return sacreBLEU's BLEU, chrF2 and TER by the names `bleu`, `chrf` and `ter`."""
    # Training does not score until after its first updates, so its start does not wait for these.
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    bleu = build_bleu(rule, key="bleu_tokenize")
    # TER splits ideograms only if it normalises the text.
    splits_ideograms = rule.bleu_tokenize in _IDEOGRAM_TER
    ter = TER(normalized=splits_ideograms, asian_support=splits_ideograms)
    return {"bleu": bleu, "chrf": CHRF(lowercase=rule.lowercase), "ter": ter}


def clip_score(name: str, value: float) -> float:
    """Return a score without the rounding error that takes BLEU and chrF2 above 100.

    Args:
        name: A name of `build_metrics`.
        value: The score in percent.
    """
    return value if name == "ter" else min(value, 100.0)
