"""Choose the hypothesis of a beam with the lowest Bayes risk."""

from collections.abc import Sequence

import numpy as np

from seq2seq.data.tokenizers.interface import Tokenizer
from seq2seq.evaluation.metrics import chrf_of_each_other
from seq2seq.search.config import Hypothesis, MbrConfig


def rank_by_utility(
    hypotheses: Sequence[Hypothesis], config: MbrConfig, tokenizer: Tokenizer
) -> list[Hypothesis]:
    """Return the hypotheses of a sentence by expected utility, which is their score.

    The expected utility of y is sum_h Q(h) chrF(y, h) over all hypotheses h, where Q(h) is
    proportional to P(h) ** sharpness and h takes the place of the reference (Kumar and Byrne 2004;
    Eikema and Aziz 2020 take samples for h). Finished hypotheses come first, ties keep the order of
    the beam.
    """
    logarithms = config.sharpness * np.array([each.log_probability for each in hypotheses])
    weights = np.exp(logarithms - logarithms.max())
    texts = [tokenizer.decode(each.ids) for each in hypotheses]
    scores = chrf_of_each_other(texts) @ (weights / weights.sum())
    ranked = [each._replace(score=s) for each, s in zip(hypotheses, scores.tolist(), strict=True)]
    return sorted(ranked, key=lambda each: (not each.finished, -each.score))
