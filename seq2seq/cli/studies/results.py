"""The results of a study: a summary in words, and tables of the groups and the runs."""

from collections.abc import Sequence

from seq2seq.cli.studies.comparison import BaselineComparison
from seq2seq.cli.studies.formats import column, in_words, known_measures, number_cell, spread
from seq2seq.cli.studies.run_files import MEASURES
from seq2seq.cli.studies.runs import SEED, Group, Run
from seq2seq.cli.studies.settings import settings_table
from seq2seq.evaluation.study_significance import LEVEL
from seq2seq.visualization.report_page import Cell, Column, Section, Table

_NOTABLE_RATIO = 1.25
"""Ratio of the speeds of a group's runs from which the page warns; they do the same work."""
_COSTS = ("parameters", "minutes", "tokens_per_second", "best_update")
_FIRST = ("valid_bleu", "bleu")
"""Measures to the left of the comparison with the baseline."""
_ATTENTION = ("entropy", "coverage", "sharpness")


def results(
    runs: Sequence[Run], groups: Sequence[Group], comparisons: Sequence[BaselineComparison]
) -> Section:
    """Return the summary in words, the table of the groups and that of the runs."""
    if not groups:
        return Section(title="Results", paragraphs=["No run has results."])
    return Section(
        title="Results",
        paragraphs=_summary(runs, groups, comparisons),
        tables=[_group_table(groups, comparisons), _run_table(runs), *settings_table(runs)],
    )


def _summary(
    runs: Sequence[Run], groups: Sequence[Group], comparisons: Sequence[BaselineComparison]
) -> list[str]:
    num_failed = sum(run.failure is not None for run in runs)
    keys = list(groups[0].swept)
    by = f", which differ in {in_words(keys)}" if keys else ""
    failed = f"; {num_failed} without results" if num_failed else ""
    best = groups[0]
    texts = [
        f"{_count(len(runs), 'run')} in {_count(len(groups), 'group')}{by}{failed}.",
        f"Best on the validation set: {best.label}, with "
        f"{spread(best, 'valid_bleu').text} BLEU there and {spread(best, 'bleu').text} on the "
        "test set.",
    ]
    return [*texts, *_significance(groups, comparisons), *_cost(groups)]


def _significance(groups: Sequence[Group], comparisons: Sequence[BaselineComparison]) -> list[str]:
    """Say which groups differ significantly from each baseline on the test set."""
    texts = []
    for baseline in dict.fromkeys(each.baseline for each in comparisons if each.baseline):
        kinds: dict[str, list[str]] = {"Better": [], "Worse": [], "No significant difference": []}
        for group, compared in zip(groups, comparisons, strict=True):
            if compared.baseline != baseline or compared.result is None:
                continue
            effect = compared.result.effect
            kind = "Better" if effect > 0 else "Worse"
            if compared.holm >= LEVEL:
                kind = "No significant difference"
            kinds[kind].append(f"{group.label} ({effect:+.2f} BLEU)")
        parts = [f"{kind}: {in_words(labels)}" for kind, labels in kinds.items() if labels]
        texts.append(
            f"BLEU on the test set compared with {baseline}; a difference is significant if "
            f"p < {LEVEL} after Holm's correction; the 95% intervals are not corrected. "
            f"{'. '.join(parts)}."
        )
    return texts


def _cost(groups: Sequence[Group]) -> list[str]:
    """Say what the best group costs beside the quickest and the slowest, and how sure that is."""
    if len(groups) < 2:
        return []
    best = groups[0]
    ordered = sorted(groups, key=lambda group: group.mean("minutes") or 0.0)
    times = [f"trained in {spread(best, 'minutes').text} minutes"]
    times += [
        f"the {name} group, {group.label}, in {spread(group, 'minutes').text}"
        for name, group in (("quickest", ordered[0]), ("slowest", ordered[-1]))
        if group is not best
    ]
    parameters = spread(best, "parameters").text
    cost = f"Cost: {best.label} has {parameters} parameters and {'; '.join(times)}."
    return [cost, *_unsteady_speed(groups)]


def _unsteady_speed(groups: Sequence[Group]) -> list[str]:
    """Warn if runs of one group, which differ in the seed only, were not equally fast."""
    ratios = []
    for group in groups:
        speeds = [run.results.measures.get("tokens_per_second", 0.0) for run in group.runs]
        if min(speeds) > 0:
            ratios.append((max(speeds) / min(speeds), group.label))
    ratio, label = max(ratios, default=(1.0, ""))
    if ratio < _NOTABLE_RATIO:
        return []
    return [
        f"Times and speeds are uncertain: one run of {label} was {ratio:.1f} times as fast as "
        "another, though they differ in the seed only. Other work on the machine is a likely "
        "reason."
    ]


def _group_table(groups: Sequence[Group], comparisons: Sequence[BaselineComparison]) -> Table:
    keys = list(groups[0].swept)
    others = [name for name in MEASURES if name not in (*_FIRST, *_ATTENTION, *_COSTS)]
    first, later = known_measures(groups, _FIRST), known_measures(groups, [*others, *_COSTS])
    columns = [Column(key, is_numeric=False) for key in keys] or [Column("group", is_numeric=False)]
    columns.append(Column("Runs"))
    columns += map(column, first)
    is_compared = any(each.result is not None for each in comparisons)
    if is_compared:
        columns += [
            Column("Difference", hint="test BLEU minus that of the baseline"),
            Column(
                "95% interval",
                hint="of the difference, over seeds and sentences; not corrected",
            ),
            Column("p (Holm)", hint="of the difference, corrected for several comparisons"),
        ]
    columns += map(column, later)
    rows = []
    for group, compared in zip(groups, comparisons, strict=True):
        names = [Cell(value or "-") for value in group.swept.values()] or [Cell(group.label)]
        row = [*names, Cell(str(len(group.runs)), len(group.runs))]
        row += [spread(group, name) for name in first]
        row += _comparison(compared) if is_compared else []
        rows.append([*row, *(spread(group, name) for name in later)])
    caption = "Groups: mean \xb1 standard deviation over the runs; click a head to sort"
    return Table(caption=caption, columns=columns, rows=rows)


def _comparison(compared: BaselineComparison) -> list[Cell]:
    if compared.result is None:
        text = "not compared" if compared.reason else "baseline"
        return [Cell(text), Cell("-"), Cell("-")]
    effect, (low, high) = compared.result.effect, compared.result.interval
    return [
        Cell(f"{effect:+.2f}", effect),
        Cell(f"{low:+.2f} to {high:+.2f}", low),
        Cell(f"{compared.holm:.3f}", compared.holm),
    ]


def _run_table(runs: Sequence[Run]) -> Table:
    keys = list(runs[0].swept)
    measures = [name for name in MEASURES if any(name in run.results.measures for run in runs)]
    columns = [Column("Run", is_numeric=False)]
    columns += [Column(key, is_numeric=key == SEED) for key in keys]
    columns += map(column, measures)
    rows = []
    for run in runs:
        row = [Cell(run.name)]
        row += [Cell(value, _number(value)) for value in run.swept.values()]
        row += [
            number_cell(run.results.measures.get(name), MEASURES[name].form) for name in measures
        ]
        rows.append(row)
    caption = f"All {len(runs)} runs"
    return Table(caption=caption, columns=columns, rows=rows, is_folded=True)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
