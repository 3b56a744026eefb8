"""Compare every measure of a study with the baseline, over seeds and sentences."""

import logging
import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.alignment import (
    Agreement,
    AttentionStatistics,
    GoldLinks,
    mean_over_heads,
    read_links,
)
from seq2seq.evaluation.metrics import Array, ScoringRule, build_metrics
from seq2seq.evaluation.significance import Score, compare_groups, holm
from seq2seq.inference.results import Translation
from seq2seq.inference.translator import Translator
from seq2seq.studies.runs import Group, StudyRun

logger = logging.getLogger(__name__)

COMPARED = ("chrf", "ter", "perplexity", "aer", "entropy", "coverage", "sharpness")
ENDINGS = ("difference", "low", "high", "p")


def compare_measures(
    groups: Sequence[Group], baselines: Sequence[Group | None]
) -> list[dict[str, float]]:
    """Test the difference of each measure from the baseline by `compare_groups`.

    What the runs did not keep is computed again from their best checkpoints.

    Args:
        groups: The groups.
        baselines: The baseline of each group, one of the groups; None: it is not compared.

    Returns:
        For each group MEASURE_difference, MEASURE_low, MEASURE_high and MEASURE_p, the p-value
        after Holm's correction, of the measures that it and its baseline have.
    """
    rows: list[dict[str, float]] = [{} for _ in groups]
    used = [each for pair in zip(groups, baselines, strict=True) if pair[1] for each in pair]
    statistics = {
        id(run): sentence_measures(run) for group in used if group is not None for run in group.runs
    }
    for name in COMPARED:
        found = {}
        for index, (group, baseline) in enumerate(zip(groups, baselines, strict=True)):
            if baseline is None:
                continue
            sides = [[statistics[id(run)].get(name) for run in x.runs] for x in (group, baseline)]
            if any(each is None for side in sides for each in side):
                continue
            arrays = [np.stack([each for each in side if each is not None]) for side in sides]
            score = _score(name, group.runs[0])
            found[index] = compare_groups(arrays[0], arrays[1], score=score)
        corrected = holm([each.p_value for each in found.values()])
        for (index, each), p_value in zip(found.items(), corrected, strict=True):
            values = each.effect, *each.interval, p_value
            rows[index] |= {f"{name}_{end}": v for end, v in zip(ENDINGS, values, strict=True)}
    return rows


def sentence_measures(run: StudyRun) -> dict[str, Array]:
    """Return the statistics (S, K) of each measure that the run has on its test set."""
    found = {}
    for name, metric in build_metrics(ScoringRule.of_signature(run.signature)).items():
        if name != "bleu":
            rows = metric._extract_corpus_statistics(run.translations, [run.references])
            found[name] = np.array(rows, dtype=np.float64)
    if not (run.directory.best.is_file() and run.directory.text("test", "src").is_file()):
        return found
    try:
        return found | _read_by_model(run)
    except USER_ERRORS as error:
        logger.warning(
            "%s: perplexity and attention are not compared: %s", run.name, describe_error(error)
        )
        return found


def _read_by_model(run: StudyRun) -> dict[str, Array]:
    """Let the model read the references; return numerators and denominators, (S, 2)."""
    directory = run.directory
    sources, references = directory.read_texts("test", ("src", "ref"))
    translator = Translator.load(directory.path)
    scored = list(translator.score(zip(sources, references, strict=True)))
    losses = [(-each.best.log_probability, len(each.best.tokens)) for each in scored]
    found = {"perplexity": np.array(losses, dtype=np.float64)}
    if not translator.num_heads:
        return found
    rows = np.array([_attention(each, translator.num_heads) for each in scored])
    found |= {"entropy": rows[:, [0, 3]], "sharpness": rows[:, [1, 3]], "coverage": rows[:, [2, 4]]}
    gold = directory.text("test", "gold")
    if gold.is_file():
        links = zip(scored, read_links(str(gold)), strict=True)
        found["aer"] = np.array([_agreement(translator, *each) for each in links])
    return found


def _attention(scored: Translation, num_heads: int) -> tuple[float, ...]:
    """Return entropy, sharpness and coverage, each times its number of tokens, and both numbers."""
    weights = scored.best.attention_weights
    statistics = AttentionStatistics(num_heads)
    statistics.add(weights)
    means = mean_over_heads(statistics.heads(error_rates=None))
    num_target, num_source = weights.shape[1], weights.shape[2] - 1
    coverage = means["coverage"] * num_source if num_source else 0.0
    sums = means["entropy"] * num_target, means["sharpness"] * num_target, coverage
    return *sums, float(num_target), float(num_source)


def _agreement(translator: Translator, scored: Translation, gold: GoldLinks) -> tuple[float, float]:
    counts = Agreement()
    counts.add(translator.links(scored, scored.best), gold)
    right = counts.num_found_sure + counts.num_right
    total = counts.num_links + counts.num_sure
    return float(total - right), float(total)


def _score(name: str, run: StudyRun) -> Score:
    """Return the function that turns summed statistics into the measure."""
    if name == "perplexity":
        return _perplexity
    if name not in ("chrf", "ter"):
        return _ratio
    metric = build_metrics(ScoringRule.of_signature(run.signature))[name]

    def score(row: Array) -> float:
        return float(metric._compute_score_from_stats(row.tolist()).score)

    return partial(np.apply_along_axis, score, -1)


def _ratio(statistics: Array) -> Array:
    return np.asarray(statistics[..., 0] / np.maximum(statistics[..., 1], math.ulp(0.0)))


def _perplexity(statistics: Array) -> Array:
    return np.asarray(np.exp(np.minimum(_ratio(statistics), 700)))
