import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scipy.special import stdtrit
from tiny_study import BAD, GOOD, REFERENCE

from seq2seq.evaluation.measures import ratio
from seq2seq.evaluation.metrics import corpus_bleu
from seq2seq.evaluation.significance import (
    GroupComparison,
    compare_groups,
    compare_systems,
    correct,
    holm,
    p_text,
)

METRICS = ("bleu", "chrf", "ter")


def compare(*texts, references=(REFERENCE,), num_samples=40):
    systems = [(f"{number}.en", text) for number, text in enumerate(texts)]
    return compare_systems(systems, references, num_samples=num_samples)


def test_all_numbers_and_signatures_are_those_of_the_sacrebleu_command(tmp_path, monkeypatch):
    """No permutation has exactly the real difference, which sacreBLEU would not count."""
    monkeypatch.chdir(tmp_path)
    generator = random.Random(1)
    reference = [" ".join(generator.choices(REFERENCE[0].split(), k=9)) for _ in range(60)]
    one, other = (
        [" ".join(generator.choices(line.split(), k=9)) for line in reference] for _ in range(2)
    )
    for name, lines in {"ref.en": reference, "0.en": one, "1.en": other}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu.sacrebleu", "ref.en", "-i", "0.en", "1.en"]
    command += ["-m", *METRICS, "--paired-ar", "--paired-ar-n", "40"]
    command += ["--format", "latex", "-w", "4"]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, check=True, timeout=100, env=environment)
    table = done.stdout.decode().splitlines()

    found = compare(one, other, references=[reference])

    for number, name in enumerate(found.names):
        scores = (found.scores[metric][number] for metric in METRICS)
        values = (value for each in scores for value in (each.score, each.p_value))
        [row] = [line for line in table if f"{name} &" in line]
        written = [f"{value:.4f}" for value in values if value is not None]
        assert written == re.findall(r"\d+\.\d+", row)
    signatures = [line.split()[-1] for line in table if "|seed:12345|" in line]
    without_resamples = (each.replace("bs:1000|", "") for each in found.signatures.values())
    assert sorted(without_resamples) == sorted(signatures)
    bootstrap = BLEU().corpus_score(one, [reference], n_bootstrap=1000)
    first = found.scores["bleu"][0]
    assert f"{first.score:.2f} (μ = {first.mean:.2f} ± {first.interval:.2f})" in str(bootstrap)


def test_equal_systems_do_not_differ():
    found = compare(GOOD, GOOD)

    for first, second in found.scores.values():
        assert (first.p_value, second.p_value) == (None, 1.0)
        assert second.score == first.score


def test_permutations_with_an_equal_difference_count():
    one, two = ([*REFERENCE[: 5 - number], *BAD[1 : 1 + number]] for number in (1, 2))

    found = compare(REFERENCE, one, two, num_samples=400)

    for _, first, second in found.scores.values():
        assert first.p_value == 1  # exchanging a single sentence changes only the sign
        assert second.p_value == pytest.approx(0.5, abs=0.1)  # both exchanged, or none


def test_without_a_number_of_samples_that_of_sacrebleu_is_taken():
    found = compare(GOOD, BAD, num_samples=None)

    assert "ar:10000" in found.signatures["bleu"].split("|")


def simulate(random=None, *, num_sentences, spread, quality=(0.8, 0.8), num_seeds=3, wider=1):
    """Return the sentence statistics of two groups of runs.

    A run translates about half of the sentences as most runs of its group do. `spread` moves whole
    runs; 0.03 moves them as far (0.5 BLEU) as chance in 1,000 sentences does. Those of the first
    group move `wider` times as far.
    """
    random = np.random.default_rng(1) if random is None else random
    numbers = (num_seeds, num_seeds) if isinstance(num_seeds, int) else num_seeds
    lengths = random.integers(6, 20, num_sentences)
    ease = random.normal(0, 0.8, num_sentences)

    def translate(logits):
        """Draw matching n-grams: `lengths` words of which some are right, in runs of right ones."""
        right = 1 / (1 + np.exp(-logits))
        matches, totals = [random.binomial(lengths, right)], [lengths]
        for order in range(1, 4):
            totals.append(np.maximum(lengths - order, 0))
            more = random.binomial(matches[-1], 0.4 + 0.6 * right)
            matches.append(np.minimum(more, totals[-1]))
        return np.stack([lengths, lengths, *matches, *totals], axis=1).astype(float)

    typical = translate(np.log(4) + ease)

    def group(share, number, spread):
        logits = np.log(share / (1 - share)) + ease
        runs = np.stack([translate(logits + spread * random.normal()) for _ in range(number)])
        is_typical = random.random((number, num_sentences, 1)) < 0.5
        return np.where(is_typical, typical, runs)

    return list(map(group, quality, numbers, (wider * spread, spread)))


def error_rate(statistics):
    """Return the share of wrong words, a ratio as AER is."""
    return 1 - statistics[..., 2] / statistics[..., 0]


def rate_of_differences(number=1000, *, score=error_rate, **options):
    """Return the share of simulated studies that find a difference."""
    random = np.random.default_rng(3)
    studies = (simulate(random, num_sentences=100, **options) for _ in range(number))
    found = [compare_groups(*each, score=score) for each in studies]
    assert all(
        (each.p_value > 0.05) == (each.interval[0] <= 0 <= each.interval[1]) for each in found
    )
    return np.mean([each.p_value < 0.05 for each in found])


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.03])
@pytest.mark.parametrize("wider", [1, 4, 15])
def test_groups_of_one_system_differ_in_at_most_six_of_a_hundred_studies(spread, wider):
    rate = rate_of_differences(spread=spread, wider=wider, score=corpus_bleu)

    assert 0.01 <= rate <= 0.06


@pytest.mark.parametrize("num_seeds", [(2, 2), (3, 3), (2, 5), (5, 2), (3, 5), (5, 5)])
@pytest.mark.parametrize("wider", [4, 15])
def test_no_unequal_spread_takes_the_error_rate_above_six_of_a_hundred(num_seeds, wider):
    assert rate_of_differences(spread=0.03, num_seeds=num_seeds, wider=wider) <= 0.06


@pytest.mark.parametrize(("seeds", "paired"), [(2, False), (3, False), (3, True)])
@pytest.mark.parametrize("spread", [1, 3])
def test_few_seeds_that_agree_by_chance_do_not_pass_the_first_level_of_holm(seeds, paired, spread):
    """Each system is better at sentences of its own; `spread` is that of seeds, in errors."""
    random = np.random.default_rng(4)

    def group():
        values = random.normal(0, 1, 200) + random.normal(0, spread / 10, (seeds, 1))
        values = values + random.normal(0, 1, (seeds, 200))
        return np.stack([values, np.ones_like(values)], axis=-1)

    studies = [compare_groups(group(), group(), score=ratio, paired=paired) for _ in range(2000)]

    assert np.mean([each.p_value < 0.05 for each in studies]) <= 0.06
    assert np.mean([each.p_value < 0.05 / 9 for each in studies]) <= 0.006


@pytest.mark.parametrize("spread", [0.0, 0.01])
def test_a_difference_of_one_bleu_is_found_in_most_studies(spread):
    random = np.random.default_rng(5)
    quality = (0.8144, 0.8)
    studies = [
        simulate(random, num_sentences=1000, spread=spread, quality=quality) for _ in range(24)
    ]

    found = [compare_groups(*each) for each in studies]

    assert np.mean([each.effect for each in found]) == pytest.approx(1.0, abs=0.15)
    assert np.mean([each.p_value < 0.05 for each in found]) > 0.5


def test_sentences_that_all_seeds_share_widen_the_interval():
    """Three copies of one run tell no more about other sentences than the run does."""
    first, second = simulate(num_sentences=300, spread=0)
    single = compare_groups(first[:1], second[:1])

    copied = compare_groups(np.repeat(first[:1], 3, axis=0), np.repeat(second[:1], 3, axis=0))

    width, of_copies = (found.interval[1] - found.interval[0] for found in (single, copied))
    assert of_copies >= 0.9 * width


def test_equal_groups_do_not_differ_and_those_of_other_test_sets_are_refused():
    [group, _] = simulate(num_sentences=30, spread=0)

    found = compare_groups(group, group)

    assert (found.effect, found.p_value) == (0, 1)
    with pytest.raises(ValueError, match="30 and 29 sentences cannot be compared; use"):
        compare_groups(group, group[:, :29])


@pytest.mark.parametrize("runs", [(1, 1), (1, 3), (2, 3)])
def test_groups_of_any_number_of_runs_are_compared(runs):
    groups = simulate(num_sentences=200, spread=0, quality=(0.95, 0.6))
    group, baseline = (each[:number] for each, number in zip(groups, runs, strict=True))

    found = compare_groups(group, baseline)

    assert 0 < found.interval[0] < found.effect < found.interval[1]
    assert found.p_value < 0.05
    assert found.covers.startswith("seeds" if min(runs) > 1 else "these sentences only")


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("score", [corpus_bleu, ratio])
@pytest.mark.parametrize("paired", [False, True])
def test_a_single_sentence_shows_no_difference(runs, score, paired):
    size = 2 if score is ratio else 10
    group, baseline = np.full((runs, 1, size), 4.0), np.full((runs, 1, size), 4.0)
    group[..., 0] = 1.0

    found = compare_groups(group, baseline, score=score, paired=paired)

    assert found.effect != 0
    assert (found.p_value, found.interval) == (1.0, (-np.inf, np.inf))
    assert correct([found])[0].interval == (-np.inf, np.inf)


@pytest.mark.parametrize("runs", [(2, 2), (3, 3), (3, 5)])
def test_with_seeds_that_spread_widely_effect_and_interval_are_those_of_welchs_t_test(runs):
    groups = simulate(num_sentences=300, spread=0.5, quality=(0.9, 0.7), num_seeds=runs)

    found = compare_groups(*groups)

    scores = [corpus_bleu(each.sum(axis=1)) for each in groups]
    assert found.effect == pytest.approx(scores[0].mean() - scores[1].mean())
    variances = [each.var(ddof=1) / len(each) for each in scores]
    squares = sum(each**2 / (n - 1) for each, n in zip(variances, runs, strict=True))
    degrees = sum(variances) ** 2 // squares
    half_width = found.interval[1] - found.effect
    quantile = stdtrit(degrees, 0.975)
    assert half_width == pytest.approx(quantile * np.sqrt(sum(variances)), rel=0.03)


def test_the_interval_of_single_runs_is_that_of_the_bootstrap_over_sentences():
    groups = simulate(num_sentences=300, spread=0, quality=(0.9, 0.8))
    group, baseline = (each[:1] for each in groups)

    found = compare_groups(group, baseline)

    random = np.random.default_rng(2)
    counts = random.multinomial(300, np.full(300, 1 / 300), size=4000).astype(float)
    effects = corpus_bleu(counts @ group[0]) - corpus_bleu(counts @ baseline[0])
    half_width = found.interval[1] - found.effect
    assert half_width == pytest.approx(1.96 * effects.std(), rel=0.05)


def words_in_common(random, *, gain, seeds, spread=0.1):
    """Return counts (R, S, 2) of two versions of each run, which share their seed's luck."""
    luck = 0.3 + spread * random.random((seeds, 1))
    rights = [random.binomial(10, luck + extra, (seeds, 50)) for extra in (gain, 0)]
    return [np.stack([right, np.full_like(right, 10)], axis=-1).astype(float) for right in rights]


def test_paired_runs_of_wide_spread_have_the_interval_of_a_paired_t_test():
    random = np.random.default_rng(1)
    group, baseline = words_in_common(random, gain=0.2, seeds=3, spread=0.4)
    group[1] *= [[0.9, 1]]  # so that the seeds gain differently

    found = compare_groups(group, baseline, score=ratio, paired=True)

    gains = ratio(group.sum(axis=1)) - ratio(baseline.sum(axis=1))
    assert found.effect == pytest.approx(gains.mean())
    half = found.interval[1] - found.effect
    assert found.error**2 == pytest.approx(gains.var(ddof=1) / 3, rel=0.2)
    assert half == pytest.approx(4.303 * found.error, rel=0.001)
    assert found.error < compare_groups(group, baseline, score=ratio).error / 1.4


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_a_change_that_gains_nothing_is_found_in_five_of_a_hundred_studies(seeds):
    random = np.random.default_rng(3)
    studies = [words_in_common(random, gain=0, seeds=seeds) for _ in range(1000)]

    found = [compare_groups(*each, score=ratio, paired=True) for each in studies]

    assert 0.02 <= np.mean([each.p_value < 0.05 for each in found]) <= 0.07


def test_holm_multiplies_by_the_comparisons_left_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def comparison(p_value):
    """Return a comparison with a p-value, of twenty degrees of freedom."""
    quantile = -stdtrit(20, p_value / 2)
    return GroupComparison(quantile, 1.0, 20, 3, p_value, p_value)


def test_corrected_intervals_exclude_0_where_the_corrected_p_value_is_significant():
    random = np.random.default_rng(1)
    families = [np.exp(random.uniform(-9, 0, random.integers(1, 9))) for _ in range(200)]

    found = [each for family in families for each in correct(list(map(comparison, family)))]

    agree = [(each.interval[0] > 0) == (each.p_corrected < 0.05) for each in found]
    assert all(agree)
    assert {each.p_corrected < 0.05 for each in found} == {False, True}


def test_corrected_intervals_have_the_level_at_which_holm_tests_their_comparison():
    found = correct([comparison(p_value) for p_value in (0.04, 0.001, 0.02, 0.9)])

    halves = [each.effect - each.interval[0] for each in found]
    # 0.001 is tested at 0.05 / 4, and 0.02 at 0.05 / 3, where the procedure stops.
    levels = [0.05 / 3, 0.05 / 4, 0.05 / 3, 0.05 / 3]
    assert halves == pytest.approx([stdtrit(20, 1 - level / 2) for level in levels])
    assert [each.p_corrected for each in found] == pytest.approx([0.08, 0.004, 0.06, 0.9])


@pytest.mark.parametrize(
    ("p_value", "text"),
    [
        *((0.0004, "<0.001"), (0.0494, "0.049"), (0.04996, "<0.05"), (0.05, "0.050")),
        *((1.0, "1.000"), (float("nan"), "-")),
    ],
)
def test_the_text_of_a_p_value_says_whether_it_is_significant(p_value, text):
    assert p_text(p_value) == text
