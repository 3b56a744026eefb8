"""Compare every measure of a study with the baseline, over seeds and sentences."""

# S sentences, T target length

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.config.serialization import load_saved_config
from seq2seq.data.corpus import load_corpora
from seq2seq.evaluation.alignment import STATISTICS, Agreement, sentence_sums
from seq2seq.evaluation.metrics import Array, ScoringRule, SplitWords, build_bleu, build_metrics
from seq2seq.evaluation.significance import Score, compare_groups, correct
from seq2seq.files.links import GoldLinks, read_links
from seq2seq.inference.results import Translation
from seq2seq.inference.translator import Translator
from seq2seq.studies.runs import Group, StudyRun

logger = logging.getLogger(__name__)

COMPARED = ("chrf", "ter", "perplexity", "aer", *STATISTICS, "rare_words")
ENDINGS = ("difference", "low", "high", "p")
RARE = 10
"""A word with fewer occurrences in the training data is rare."""
_FEWEST = 50
"""Number of rare words in the translations and references below which F1 is not tested."""
_NUM_MAPS = 200
"""Sentences whose attention is compared between runs."""


class Reading(NamedTuple):
    """The test set as a run reads and translates it."""

    statistics: dict[str, Array]
    """The statistics (S, K) of each measure."""
    maps: list[Tensor]
    """The weights (T, S) of the first references, the mean of the heads; none without attention."""


def compare_measures(
    groups: Sequence[Group],
    baselines: Sequence[Group | None],
    readings: Mapping[StudyRun, Reading],
    notes: list[str],
) -> list[dict[str, float]]:
    """Test the difference of each measure from the baseline by `compare_groups`.

    Args:
        groups: The groups.
        baselines: The baseline of each group, one of the groups; None: it is not compared.
        readings: What `read_run` returned for each run of the groups.
        notes: Groups with too few rare words for a test add a line.

    Returns:
        For each group MEASURE_difference, MEASURE_low, MEASURE_high and MEASURE_p, interval and
        p-value after Holm's correction, of the measures that it and its baseline have.
    """
    rows: list[dict[str, float]] = [{} for _ in groups]
    for name in COMPARED:
        found, few = {}, []
        for index, (group, baseline) in enumerate(zip(groups, baselines, strict=True)):
            sides = [
                [readings[run].statistics.get(name) for run in side.runs]
                for side in (group, baseline)
                if side is not None
            ]
            if baseline is None or any(each is None for side in sides for each in side):
                continue
            arrays = [np.stack([each for each in side if each is not None]) for side in sides]
            if name == "rare_words":
                number = int(min(each[..., 1].sum(axis=1).min() for each in arrays))
                if number < _FEWEST:
                    few.append((number, group.label))
                    continue
            found[index] = compare_groups(*arrays, score=score_of(name, group.runs[0]))
        if few:
            notes.append(
                f"F1 of rare words is not tested in {len(few)} of {len(groups)} groups: a run's "
                f"translations and the references have {min(few)[0]} rare words in all, and a test "
                f"needs {_FEWEST}."
            )
        for index, each in zip(found, correct(list(found.values())), strict=True):
            values = each.effect, *each.interval, each.p_corrected
            rows[index] |= {f"{name}_{end}": v for end, v in zip(ENDINGS, values, strict=True)}
    return rows


def read_run(run: StudyRun, rare_words: "RareWords") -> Reading:
    """Return the statistics of the test set, which the best checkpoint reads again.

    Measures that results.json lacks are added to those of the run.
    """
    found = {}
    for name, metric in build_metrics(ScoringRule.of_signature(run.signature)).items():
        if name != "bleu":
            rows = metric._extract_corpus_statistics(run.translations, [run.references])
            found[name] = np.array(rows, dtype=np.float64)
    maps: list[Tensor] = []
    if run.directory.best.is_file() and run.directory.text("test", "src").is_file():
        for read in (_read_by_model, rare_words.count):
            try:
                part = read(run)
            except USER_ERRORS as error:
                logger.warning(
                    "%s: not all measures are known: %s", run.name, describe_error(error)
                )
            else:
                found |= part.statistics
                maps += part.maps
    for name in found.keys() - run.measures.keys():
        run.measures[name] = float(score_of(name, run)(found[name].sum(axis=0)))
    return Reading(found, maps)


def _read_by_model(run: StudyRun) -> Reading:
    """Let the model read the references; the statistics are numerators and denominators, (S, 2)."""
    directory = run.directory
    sources, references = directory.read_texts("test", ("src", "ref"))
    translator = Translator.load(directory.path)
    scored = list(translator.score(zip(sources, references, strict=True)))
    found = {"perplexity": losses(scored)}
    if not translator.num_heads:
        return Reading(found, [])
    weights = [each.best.attention_weights for each in scored]
    sums, counts = zip(*map(sentence_sums, weights), strict=True)
    rows = np.array([[each.mean(dim=1).numpy() for each in sums], [c.numpy() for c in counts]])
    found |= {name: rows[..., k].T for k, name in enumerate(STATISTICS)}
    gold = directory.text("test", "gold")
    if gold.is_file():
        links = zip(scored, read_links(str(gold)), strict=True)
        found["aer"] = np.array([_agreement(translator, *each) for each in links])
    return Reading(found, [each.mean(dim=0) for each in weights[:_NUM_MAPS]])


def losses(scored: Sequence[Translation]) -> Array:
    """Return the loss and the number of tokens of each known translation, (S, 2)."""
    found = [(-each.best.log_probability, len(each.best.tokens)) for each in scored]
    return np.array(found, dtype=np.float64)


def _agreement(translator: Translator, scored: Translation, gold: GoldLinks) -> tuple[float, float]:
    counts = Agreement()
    counts.add(translator.links(scored, scored.best), gold)
    right = counts.num_found_sure + counts.num_right
    total = counts.num_links + counts.num_sure
    return float(total - right), float(total)


class RareWords:
    """Counts the rare words of translations; the training data of a study are read once."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def count(self, run: StudyRun) -> Reading:
        """Return twice the right rare words of each sentence, and those of both texts, (S, 2)."""
        split = word_splitter(run)
        if run.training_data not in self._counts:
            self._counts[run.training_data] = training_counts(run, split)
        frequencies = self._counts[run.training_data]
        rows, num_wanted = [], 0
        for texts in zip(run.translations, run.references, strict=True):
            words = [Counter(w for w in split(text) if frequencies[w] < RARE) for text in texts]
            rows.append((2 * (words[0] & words[1]).total(), sum(map(Counter.total, words))))
            num_wanted += words[1].total()
        return Reading({"rare_words": np.array(rows, dtype=np.float64)} if num_wanted else {}, [])


def word_splitter(run: StudyRun) -> SplitWords:
    """Return the function that splits a line into words as BLEU of the run does."""
    rule = ScoringRule.of_signature(run.signature)
    metric = build_bleu(rule, key="training.validation.bleu_tokenize")

    def split(line: str) -> list[str]:
        words: list[str] = metric.tokenizer(line).split()
        return words

    return split


def training_counts(run: StudyRun, split: SplitWords) -> Counter[str]:
    """Count the words of the target side of a run's training data.

    Raises:
        ValueError: The data are not those that the run was trained with, or cannot be read.
        OSError: They cannot be read.
    """
    corpus = load_corpora(load_saved_config(run.directory.config).data).train
    if not run.training_data.startswith(corpus.fingerprint):
        raise ValueError(f"the training data are not those that {run.name} was trained with")
    return Counter(word for pair in corpus for word in split(pair.target))


def score_of(name: str, run: StudyRun) -> Score:
    """Return the function that turns summed statistics into the measure."""
    if name == "perplexity":
        return _perplexity
    if name not in ("chrf", "ter"):
        return ratio
    metric = build_metrics(ScoringRule.of_signature(run.signature))[name]

    def score(row: Array) -> float:
        return float(metric._compute_score_from_stats(row.tolist()).score)

    return partial(np.apply_along_axis, score, -1)


def ratio(statistics: Array) -> Array:
    """Return the first statistic divided by the second."""
    return np.asarray(statistics[..., 0] / np.maximum(statistics[..., 1], math.ulp(0.0)))


def _perplexity(statistics: Array) -> Array:
    return np.asarray(np.exp(np.minimum(ratio(statistics), 700)))
