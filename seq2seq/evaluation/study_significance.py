"""Significance of differences in BLEU between groups of runs that differ only in their seeds.

Clark et al. (2011) compare systems over several training runs and all sentences of the test set.
They exchange the translations of single sentences, as if two runs of one system differed by chance
in single sentences only. A seed also shifts the score of its whole run, and that test takes such a
shift for a difference between systems. Here the statistic is divided by its standard error, which
contains the spread of the runs.

In simulated studies the error rate is then 5% to 6% if the seeds of both systems spread alike. If
those of one spread four times as far, it is 6% to 9% with 2 or 3 runs each, and up to 14% if that
system has fewer runs than the other. Welch's degrees of freedom (1947) are no better with so few.
"""

# R runs of a group, S sentences, K sentence statistics: translation and reference length, then the
# matching and all n-grams of orders 1 to 4

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.evaluation.bleu_tokenize import DEFAULT_RULE, ScoringRule, build_bleu

Array = NDArray[np.float64]

LEVEL = 0.05
"""A difference with a p-value below this level is significant."""
NUM_SAMPLES = 1000
_SEED = 12345
_CHUNK = 50
"""Samples that are computed at a time, which bounds the memory."""
_ORDERS = 4


class GroupComparison(NamedTuple):
    """A group of runs compared with a baseline group on one test set."""

    effect: float
    """Mean BLEU of the group minus that of the baseline."""
    interval: tuple[float, float]
    """95% confidence interval of the effect, over seeds and sentences."""
    p_value: float
    """Two-sided p-value of the effect, over seeds and sentences. If a group has a single run, it
    covers the sentences alone."""
    p_stratified: float | None
    """p-value of approximate randomisation stratified by seed (Clark et al. 2011), which says
    whether these runs differ and nothing about other seeds. None: the groups share no seed."""


def sentence_statistics(
    hypotheses: Sequence[str], references: Sequence[str], *, rule: ScoringRule = DEFAULT_RULE
) -> Array:
    """Return sacreBLEU's statistics of each sentence, whose sum gives the BLEU of the corpus.

    Args:
        hypotheses: Detokenised translations.
        references: One detokenised reference for each translation.
        rule: Tokenizer of BLEU, and whether it ignores the case of letters.

    Returns:
        (S, K)

    Raises:
        ValueError: The tokenizer needs a package that is not installed.

    Example:
        >>> statistics = sentence_statistics(["A dog runs fast."], ["A dog runs very fast."])
        >>> round(float(corpus_bleu(statistics.sum(axis=0))), 1)
        40.9
    """
    metric = build_bleu(rule, key="bleu_tokenize", force=True)
    rows = metric._extract_corpus_statistics(hypotheses, [references])
    return np.array(rows, dtype=np.float64).reshape(len(hypotheses), 2 + 2 * _ORDERS)


def corpus_bleu(statistics: Array) -> Array:
    """Return BLEU in percent, as sacreBLEU computes it with its default smoothing.

    Args:
        statistics: (..., K), summed over the sentences.

    Returns:
        (...)
    """
    length, reference_length = statistics[..., 0], statistics[..., 1]
    matches, totals = statistics[..., 2 : 2 + _ORDERS], statistics[..., 2 + _ORDERS :]
    # An order without matches counts as half a match, the next such order as a quarter.
    smoothing = 0.5 ** np.cumsum(matches == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, smoothing) / totals
        brevity = np.minimum(1 - reference_length / length, 0)
        scores = 100 * np.exp(brevity + np.log(precisions).mean(axis=-1))
    has_score = (matches[..., 0] > 0) & (totals > 0).all(axis=-1)
    return np.where(has_score, np.minimum(scores, 100), 0.0)


def compare_groups(
    group: Array,
    baseline: Array,
    *,
    same_seeds: Sequence[tuple[int, int]] = (),
    num_samples: int = NUM_SAMPLES,
    seed: int = _SEED,
) -> GroupComparison:
    """Test whether the mean BLEU of a group of runs differs from that of a baseline.

    The p-value is that of approximate randomisation (Riezler and Maxwell 2005): each sentence's
    translations are shuffled among all runs of both groups. The statistic is the difference of the
    means divided by its standard error. The squared error is the variance between runs, divided by
    their number, plus the variance between sentences that all seeds share, which the bootstrap over
    sentences (Koehn 2004) gives. The interval contains the effects that the test does not reject.

    Args:
        group: (R, S, K), the `sentence_statistics` of each run.
        baseline: Likewise, of the same sentences; the number of runs may differ.
        same_seeds: Indices of a run of the group and a run of the baseline with the same seed.
        num_samples: Number of randomisations and of bootstrap resamples.
        seed: Seed of both.

    Raises:
        ValueError: The groups were not scored on equally many sentences.
    """
    if group.shape[1] != baseline.shape[1]:
        sizes = f"{group.shape[1]} and {baseline.shape[1]}"
        raise ValueError(f"groups of {sizes} sentences cannot be compared; use one test set")
    runs, random = len(group), np.random.default_rng(seed)
    scores, of_baseline = (corpus_bleu(each.sum(axis=1)) for each in (group, baseline))
    effect = float(scores.mean() - of_baseline.mean())
    shuffled = np.concatenate(list(_shuffled(group, baseline, num_samples, random)))
    first, second = shuffled[:, :runs], shuffled[:, runs:]
    effects = first.mean(axis=1) - second.mean(axis=1)
    sentences = _bootstrap_variance(group, baseline, num_samples, random)
    if min(runs, len(baseline)) > 1:
        between_runs = _variance_of_mean(scores) + _variance_of_mean(of_baseline)
        error = float(np.sqrt(between_runs + sentences))
        errors = np.sqrt(_variance_of_mean(first) + _variance_of_mean(second))
    else:
        error, errors = float(np.sqrt(sentences)), effects.std()
    statistics = np.abs(_ratio(effects, errors))
    margin = float(np.quantile(statistics, 1 - LEVEL)) * error
    return GroupComparison(
        effect,
        (effect - margin, effect + margin),
        _p_value(float(_ratio(np.array(effect), np.array(error))), statistics),
        _stratified(group, baseline, same_seeds, num_samples, random) if same_seeds else None,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values of several comparisons (Holm 1979).

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def _shuffled(
    group: Array, baseline: Array, num_samples: int, random: np.random.Generator
) -> Iterator[Array]:
    """Yield (samples, runs): BLEU after shuffling each sentence among all runs of both groups."""
    both = np.concatenate([group, baseline]).swapaxes(0, 1)  # (S, runs, K)
    sentences = np.arange(both.shape[0])[:, None]
    for size in _chunks(num_samples):
        order = random.random((size, *both.shape[:2])).argsort(axis=2)
        yield corpus_bleu(np.stack([both[sentences, each].sum(axis=0) for each in order]))


def _bootstrap_variance(
    group: Array, baseline: Array, num_samples: int, random: np.random.Generator
) -> float:
    """Return the variance of the effect over sentences.

    With several runs in both groups, the part that runs of one group show as well is left out: the
    variance between runs contains it.
    """
    sentences = group.shape[1]
    resampled = []
    for size in _chunks(num_samples):
        counts = random.multinomial(sentences, np.full(sentences, 1 / sentences), size=size)
        weights = counts.astype(np.float64)
        resampled.append(
            np.stack([corpus_bleu(weights @ run) for each in (group, baseline) for run in each], 1)
        )
    scores = np.concatenate(resampled)
    parts = scores[:, : len(group)], scores[:, len(group) :]
    effects = parts[0].mean(axis=1) - parts[1].mean(axis=1)
    if min(part.shape[1] for part in parts) == 1:
        return float(effects.var())
    noise = 0.0
    for part in parts:
        runs = part.shape[1]
        deviations = part - part.mean(axis=1, keepdims=True)
        noise += float(deviations.var(axis=0).sum()) / (runs * (runs - 1))
    return max(0.0, float(effects.var()) - noise)


def _stratified(
    group: Array,
    baseline: Array,
    same_seeds: Sequence[tuple[int, int]],
    num_samples: int,
    random: np.random.Generator,
) -> float:
    """Return the p-value of exchanging single sentences between runs of the same seed."""
    first = group[[one for one, _ in same_seeds]]
    second = baseline[[other for _, other in same_seeds]]
    difference = second - first  # (R, S, K)
    observed = corpus_bleu(first.sum(axis=1)).mean() - corpus_bleu(second.sum(axis=1)).mean()
    effects = []
    for size in _chunks(num_samples):
        is_exchanged = random.integers(2, size=(len(first), size, first.shape[1]))
        change = is_exchanged.astype(np.float64) @ difference  # (R, samples, K)
        one = corpus_bleu(first.sum(axis=1)[:, None] + change).mean(axis=0)
        other = corpus_bleu(second.sum(axis=1)[:, None] - change).mean(axis=0)
        effects.append(np.abs(one - other))
    return _p_value(float(observed), np.concatenate(effects))


def _chunks(num_samples: int) -> list[int]:
    """Divide the samples into chunks; return their sizes."""
    return [min(_CHUNK, num_samples - start) for start in range(0, num_samples, _CHUNK)]


def _variance_of_mean(scores: Array) -> Array:
    """Return the variance of the mean of the last axis."""
    return np.asarray(scores.var(axis=-1, ddof=1) / scores.shape[-1])


def _ratio(effects: Array, errors: Array) -> Array:
    """Divide; no effect without an error gives 0, any other infinity."""
    without_error = np.where(np.abs(effects) < 1e-9, 0.0, np.inf)
    return np.where(errors > 1e-9, effects / np.maximum(errors, 1e-9), without_error)


def _p_value(observed: float, random_effects: Array) -> float:
    """Return the share of effects as large as the observed one, which is counted too."""
    as_large = int((random_effects >= abs(observed) - 1e-9).sum())
    return (as_large + 1) / (len(random_effects) + 1)
