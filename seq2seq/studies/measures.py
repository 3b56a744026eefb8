"""Compare every measure of a study with the baseline, and find numbers to sort sentences by."""

from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from seq2seq.analysis.interventions import changed_words
from seq2seq.evaluation.measures import MEASURES, Statistics
from seq2seq.evaluation.significance import compare_groups, correct
from seq2seq.studies.comparison import BaselineComparison
from seq2seq.studies.runs import Group

COMPARED = [name for name in MEASURES if name != "bleu"]
"""Measures that are compared besides BLEU."""
ENDINGS = ("difference", "low", "high", "p")


def compare_measures(comparisons: Sequence[BaselineComparison], notes: list[str]) -> None:
    """Test the difference of each measure from the baseline by `compare_groups`.

    Each group gets the columns MEASURE_difference, MEASURE_low, MEASURE_high and MEASURE_p,
    interval and p-value after Holm's correction, of the measures that it and its baseline have.

    Args:
        comparisons: The groups and their baselines.
        notes: Groups that split the test set into other tokens add a line.
    """
    others = [
        each
        for each in comparisons
        if each.baseline and not have_same_tokens((each.group, each.baseline))
    ]
    if others:
        titles = ", ".join(each.title for each in MEASURES.values() if each.is_per_token)
        notes.append(
            f"{titles} are not compared in {len(others)} of {len(comparisons)} groups, which split "
            "the test set into other tokens than the baseline; compare the loss per character."
        )
    for name in COMPARED:
        compared, found = [], []
        for each in comparisons:
            if MEASURES[name].is_per_token and each in others:
                continue
            sides = [] if each.baseline is None else [each.group, each.baseline]
            if not sides or any(name not in run.statistics for side in sides for run in side.runs):
                continue
            arrays = [side.statistics(name) for side in sides]
            compared.append(each)
            found.append(compare_groups(*arrays, score=MEASURES[name].score))
        for each, result in zip(compared, correct(found), strict=True):
            values = result.effect, *result.interval, result.p_corrected
            each.columns |= {f"{name}_{end}": v for end, v in zip(ENDINGS, values, strict=True)}


def have_same_tokens(groups: Iterable[Group]) -> bool:
    """Return whether groups split each sentence of the test set into equally many tokens."""
    runs = [run for group in groups for run in group.runs]
    for name in ("loss", "coverage"):  # they count the target tokens and the source tokens
        counts = [run.statistics[name][:, 0, 1] for run in runs if name in run.statistics]
        if any(not np.array_equal(each, counts[0]) for each in counts):
            return False
    return True


def sentence_numbers(
    references: Sequence[str],
    translations: Sequence[Sequence[str]],
    statistics: Sequence[Statistics],
) -> dict[str, list[float]]:
    """Return what a reader may order the sentences by, for each sentence.

    The number of different translations, the mean share of words that differ from the reference,
    and, with gold links, the mean AER.

    Args:
        references: The references.
        translations: The translations of each run.
        statistics: The statistics of each run.
    """
    texts = list(zip(*translations, strict=True))
    found = {
        "Different translations": [float(len(set(each))) for each in texts],
        "Words unlike the reference": [
            fmean(changed_words([text], [reference]) for text in each)
            for each, reference in zip(texts, references, strict=True)
        ],
    }
    # The first row is the mean of the heads, whose number depends on the type.
    if links := [each["aer"][:, 0] for each in statistics if "aer" in each]:
        rates = MEASURES["aer"].score(np.stack(links))
        found["AER"] = rates.mean(axis=0).tolist()
    return found
