"""When attention takes shape: its maps of the same pairs at each validation of a study."""

import contextlib
from collections.abc import Mapping, Sequence

import numpy as np

from seq2seq.config.composition import USER_ERRORS
from seq2seq.evaluation.measures import in_words
from seq2seq.studies.measures import sentence_numbers
from seq2seq.studies.runs import Group, StudyRun
from seq2seq.studies.tables import column, known_measures, number_cell, spread
from seq2seq.visualization.page import Cell, Column, MapsOverTime, RunMaps, Section, Table

MOMENTS = ("aligned_at", "half_bleu_at")
_MAX_WEIGHTS = 600_000
"""Maximum number of weights on the page, which bounds its size; each weight takes two to three
bytes."""
TITLE = "When it learns to look"


def learning_section(
    groups: Sequence[Group], notes: list[str]
) -> tuple[Section, MapsOverTime | None]:
    """Return the section with the moments at which attention and BLEU rise, and the maps.

    A run without maps is left out of the maps. So is a run with other pairs than the first run, and
    `notes` says so.
    """
    names = known_measures(groups, MOMENTS)
    maps = maps_over_time(groups, notes)
    if maps is None and "aligned_at" not in names:
        return Section(title=TITLE), None
    section = Section(title=TITLE, has_maps=maps is not None)
    texts = []
    if "aligned_at" in names:
        texts.append(
            "On the validation set, attention is aligned at the first validation with a lower AER "
            "than the diagonal, which links the words in their order. Half BLEU is reached at the "
            "first validation with half of the best validation BLEU of all runs. Both updates are "
            "as exact as the distance between validations. The AERs in the table are measured on "
            "the test set, and validation BLEU at the best checkpoint."
        )
        beside = known_measures(groups, ("aer", "valid_bleu"))
        section.tables = [
            Table(
                caption="Updates: from the earliest to the latest run, and scores at the end",
                columns=[Column("Group", is_numeric=False), *map(column, [*names, *beside])],
                rows=[
                    [Cell(group.label), *(moment(group, name) for name in names)]
                    + [spread(group, name) for name in beside]
                    for group in groups
                ],
            )
        ]
    if maps is not None:
        texts.append(
            "The maps show the attention over validation pairs while the reference is read, as the "
            "mean of the heads in percent. The first choice orders the pairs. Move the slider "
            "through the training, and choose two runs: the third map is the first minus the "
            "second."
        )
    section.paragraphs = texts
    return section, maps


def moment(group: Group, name: str) -> Cell:
    """Return the first and last update of the runs; 0 is shown as "before the first validation"."""
    values = sorted(run.measures[name] for run in group.runs if name in run.measures)
    texts = [
        number_cell(value, ".0f").text if value else "before the first validation"
        for value in dict.fromkeys(values[:1] + values[-1:])
    ]
    return Cell(" to ".join(texts) or "-", number_cell(group.spread(name), ".0f").value)


def maps_over_time(groups: Sequence[Group], notes: list[str]) -> MapsOverTime | None:
    """Return the kept maps of the runs; None if no run has any."""
    pairs: list[dict[str, object]] | None = None
    shown: list[RunMaps] = []
    for index, group in enumerate(groups):
        for run in group.runs:
            if not run.directory.validations.is_file():
                continue
            try:
                content = run.directory.read_validations()
            except ValueError as error:
                notes.append(f"{run.name} has no maps of its validations: {error}.")
                continue
            kept = [each for each in content["validations"] if each.get("maps")]
            if not kept:
                continue
            pairs = pairs or content["pairs"]
            if content["pairs"] != pairs:
                notes.append(
                    f"{run.name} has no maps of its validations here: its pairs differ from those "
                    f"of {shown[0]['name']}."
                )
                continue
            shown.append(
                {
                    "group": index,
                    "name": group.name_of(run),
                    "validations": [
                        {"update": each["update"], "scores": in_words(each), "maps": each["maps"]}  # type: ignore[typeddict-item]  # of what a run wrote
                        for each in kept
                    ],
                }
            )
    if pairs is None:
        return None
    num_weights = sum(
        len(row) for run in shown for each in run["validations"] for m in each["maps"] for row in m
    )
    step = -(-num_weights // _MAX_WEIGHTS)
    if step > 1:
        notes.append(f"Of the maps, one of {step} validations is shown, to keep the page small.")
        for each in shown:  # keeps the last validation
            each["validations"] = each["validations"][(len(each["validations"]) - 1) % step :: step]
    best = [groups[index].best for index in dict.fromkeys(run["group"] for run in shown)]
    last = [run["validations"][-1]["maps"] for run in shown]
    numbers = _pair_numbers(pairs, best, last)
    for i, pair in enumerate(pairs):
        pair["numbers"] = {name: round(values[i], 3) for name, values in numbers.items()}
    return {"pairs": pairs, "runs": shown}


def _pair_numbers(
    pairs: Sequence[Mapping[str, object]],
    runs: Sequence[StudyRun],
    last: Sequence[Sequence[Sequence[Sequence[int]]]],
) -> dict[str, list[float]]:
    """Return what a reader may order the pairs by.

    Args:
        pairs: The first pairs of the validation set.
        runs: The best run of each group.
        last: The last maps of all shown runs.
    """
    found = {
        "Source tokens": [float(len(each["source"])) for each in pairs],  # type: ignore[arg-type]
        "Different attention": list(map(_spread_of_maps, zip(*last, strict=True))),
    }
    with contextlib.suppress(*USER_ERRORS):  # a run has not kept its validation set
        texts = [run.directory.read_texts("valid", ("hyp", "ref")) for run in runs]
        statistics = [run.directory.read_statistics("valid") for run in runs]
        found |= sentence_numbers(texts[0][1], [each[0] for each in texts], statistics)
    return found


def _spread_of_maps(maps: Sequence[Sequence[Sequence[int]]]) -> float:
    """Return the share of attention that differs from the mean of the runs."""
    weights = np.array(maps) / 100  # (runs, T, S)
    shares = abs(weights - weights.mean(axis=0)).sum(axis=-1) / 2
    return float(shares.mean()) if shares.size else 0.0
