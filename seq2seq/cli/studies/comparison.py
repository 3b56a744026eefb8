"""Compare the groups of a study with a baseline group of the same test set."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq.cli.studies.run_files import REFERENCES, TRANSLATIONS, read_scored_lines
from seq2seq.cli.studies.runs import Group, Run
from seq2seq.evaluation.bleu_tokenize import ScoringRule
from seq2seq.evaluation.study_significance import (
    Array,
    GroupComparison,
    compare_groups,
    holm,
    sentence_statistics,
)

TestSet = tuple[bytes, str]
"""Hash of the references, and the signature of the score."""


@dataclass(kw_only=True, slots=True)
class BaselineComparison:
    """A group's difference from the baseline in test BLEU."""

    baseline: str = ""
    """Label of the baseline; empty for the baseline itself and a group without one."""
    result: GroupComparison | None = None
    """None for the baseline itself and for a group that cannot be compared."""
    holm: float = 1.0
    """The p-value of the result, corrected for the number of comparisons in the study."""
    reason: str
    """Why there is no comparison; empty for the baseline itself."""


def compare_with_baseline(
    groups: Sequence[Group], baseline: str | None
) -> list[BaselineComparison]:
    """Compare each group with the baseline of its test set.

    Args:
        groups: The groups, best validation score first.
        baseline: A swept value, such as `additive`, or `key=value` pairs separated by spaces. None:
            the best group by validation of each test set.

    Returns:
        A comparison for each group.

    Raises:
        ValueError: No group fits the baseline, or several of one test set do.
    """
    if baseline is not None and not baseline.strip():
        raise ValueError("the baseline is empty; name a group, or compare with the best without it")
    if baseline is not None and not any(_fits(group, baseline) for group in groups):
        labels = ", ".join(group.label for group in groups)
        raise ValueError(f"baseline={baseline} is not a group of the study; one of: {labels}")
    test_sets = [common_test_set(group) for group in groups]
    comparisons = [BaselineComparison(reason=_reason(group)) for group in groups]
    for test_set in dict.fromkeys(each for each in test_sets if each is not None):
        members = [i for i, each in enumerate(test_sets) if each == test_set]
        first = _find_baseline(groups, members, baseline)
        statistics = {i: _statistics(groups[i]) for i in members} if len(members) > 1 else {}
        for i in members:
            if first is None:
                comparisons[i].reason = "the baseline has another test set"
            elif i != first:
                comparisons[i].baseline = groups[first].label
                comparisons[i].result = compare_groups(
                    statistics[i],
                    statistics[first],
                    same_seeds=_same_seeds(groups[i], groups[first]),
                )
    p_values = {i: each.result.p_value for i, each in enumerate(comparisons) if each.result}
    for i, value in zip(p_values, holm(list(p_values.values())), strict=True):
        comparisons[i].holm = value
    return comparisons


def _find_baseline(
    groups: Sequence[Group], members: Sequence[int], baseline: str | None
) -> int | None:
    """Return the index of the baseline among the members of one test set, the best first."""
    if baseline is None:
        return members[0]
    fitting = [i for i in members if _fits(groups[i], baseline)]
    if len(fitting) > 1:
        labels = "; ".join(groups[i].label for i in fitting)
        raise ValueError(f"baseline={baseline} fits several groups: {labels}; give more key=value")
    return fitting[0] if fitting else None


def _fits(group: Group, baseline: str) -> bool:
    if baseline == group.label or any(_is_same(baseline, each) for each in group.swept.values()):
        return True
    pairs = [pair.partition("=") for pair in baseline.split()]
    return all(equals and _is_same(value, group.swept.get(key, "")) for key, equals, value in pairs)


def _is_same(typed: str, value: str) -> bool:
    """Return whether a typed value is a swept one: 0 is 0.0, and 1e-3 is 0.001."""
    try:
        return typed == value or float(typed) == float(value)
    except ValueError:
        return False


def common_test_set(group: Group) -> TestSet | None:
    """Return the test set of the runs and its score; None if the runs do not agree in them."""
    found = {_test_set_of_run(run) for run in group.runs}
    return found.pop() if len(found) == 1 else None


def groups_with_first_test_set(groups: Sequence[Group]) -> list[int]:
    """Return the indices of the groups with the test set of the first; none if it has none."""
    sets = [common_test_set(group) for group in groups]
    return [i for i, each in enumerate(sets) if each is not None and each == sets[0]]


def _test_set_of_run(run: Run) -> TestSet | None:
    if not all((run.path / name).is_file() for name in (TRANSLATIONS, REFERENCES)):
        return None
    return hashlib.sha256((run.path / REFERENCES).read_bytes()).digest(), run.results.signature


def _reason(group: Group) -> str:
    """Say why a group has no test set of its own; an empty text if it has one."""
    found = {_test_set_of_run(run) for run in group.runs}
    if None in found:
        return f"a run has no {TRANSLATIONS} or {REFERENCES}"
    return "" if len(found) == 1 else "its runs have different test sets"


def _statistics(group: Group) -> Array:
    """Return the sentence statistics of the runs, (R, S, K)."""
    return np.stack([run_statistics(run) for run in group.runs])


def run_statistics(run: Run) -> Array:
    """Return the sentence statistics of a run's test set, (S, K)."""
    translations, references = read_scored_lines(run.path)
    return sentence_statistics(
        translations, references, rule=ScoringRule.of_signature(run.results.signature)
    )


def _same_seeds(group: Group, baseline: Group) -> list[tuple[int, int]]:
    """Return the indices of the runs with equal seeds in both groups."""
    seeds = {run.seed: index for index, run in enumerate(baseline.runs)}
    return [(i, seeds[run.seed]) for i, run in enumerate(group.runs) if run.seed in seeds]
