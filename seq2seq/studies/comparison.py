"""Compare the groups of a study with a baseline in test BLEU."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from seq2seq.evaluation.significance import (
    SENTENCES_ONLY,
    GroupComparison,
    compare_groups,
    correct,
)
from seq2seq.studies.runs import Group, is_same

STAR = f"* one run on a side: {SENTENCES_ONLY}"


@dataclass(kw_only=True, slots=True)
class BaselineComparison:
    """A group's difference from the baseline, in test BLEU first."""

    group: Group
    baseline: Group | None = None
    """Group to compare with; None for the baseline itself and for a group that cannot be
    compared."""
    result: GroupComparison | None = None
    """Result of the comparison; None without a baseline."""
    reason: str
    """Reason why there is no comparison; empty for the baseline itself."""
    columns: dict[str, float] = field(default_factory=dict)
    """Further columns of groups.csv: the differences in other measures and in attention."""


def explain_stars(comparisons: Sequence[BaselineComparison]) -> list[str]:
    """Return a line about the p-values with a star; none without one."""
    covers = [each.result.covers for each in comparisons if each.result]
    return [STAR] if SENTENCES_ONLY in covers else []


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
    comparisons = [BaselineComparison(group=each, reason=_reason(each)) for each in groups]
    for members in _by_test_set(groups):
        fitting = [groups[i] for i in members if baseline is None or _fits(groups[i], baseline)]
        if baseline is not None and len(fitting) > 1:
            labels = "; ".join(group.label for group in fitting)
            raise ValueError(
                f"baseline={baseline} fits several groups: {labels}; give more key=value"
            )
        for i in members:
            if not fitting:
                comparisons[i].reason = "the baseline has another test set"
            elif groups[i] is not fitting[0]:
                sides = [group.statistics("bleu") for group in (groups[i], fitting[0])]
                comparisons[i].baseline = fitting[0]
                comparisons[i].result = compare_groups(*sides)
    results = {i: each.result for i, each in enumerate(comparisons) if each.result}
    for i, result in zip(results, correct(list(results.values())), strict=True):
        comparisons[i].result = result
    return comparisons


def _fits(group: Group, baseline: str) -> bool:
    if baseline == group.label or any(is_same(baseline, each) for each in group.swept.values()):
        return True
    pairs = [pair.partition("=") for pair in baseline.split()]
    return all(equals and is_same(value, group.swept.get(key, "")) for key, equals, value in pairs)


def groups_with_first_test_set(groups: Sequence[Group]) -> list[int]:
    """Return the indices of the groups with the test set of the first group, if it has one."""
    return next((members for members in _by_test_set(groups) if members[0] == 0), [])


def _by_test_set(groups: Sequence[Group]) -> list[list[int]]:
    """Return the indices of the groups whose runs have one test set, a list for each test set."""
    found: dict[object, list[int]] = {}
    for i, group in enumerate(groups):
        if not _reason(group):
            found.setdefault(group.runs[0].test_set, []).append(i)
    return list(found.values())


def _reason(group: Group) -> str:
    """Say why a group has no test set of its own; empty if it has one."""
    found = {run.test_set for run in group.runs}
    if None in found:
        return "a run has no test.npz, test.hyp or test.ref"
    return "" if len(found) == 1 else "its runs have different test sets"
