"""The learning curves of a study: the mean and the spread of the runs of each group."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from seq2seq.cli.studies.runs import Group
from seq2seq.training.monitoring.tensorboard import (
    MINUTES,
    TARGET_TOKENS,
    TRAIN_LOSS,
    VALID_BLEU,
    VALID_LOSS,
)
from seq2seq.visualization.report_page import Chart, Section, Series

AXES = {"updates": "Updates", "minutes": "Minutes", "tokens": "Target tokens"}
_TITLES = {
    VALID_BLEU: ("Validation BLEU", "BLEU"),
    VALID_LOSS: ("Validation loss", "nats per token"),
    TRAIN_LOSS: ("Training loss", "nats per token"),
}
_MAX_POINTS = 400
"""Points of a line, which bounds the size of the page."""
Points = Mapping[int, float]
"""The value of a curve at each update."""
Curves = Mapping[str, Points]
"""The points of each curve, by its tag."""


def learning_curves(groups: Sequence[Group]) -> tuple[Section, list[str]]:
    """Return the charts of the learning curves, and what they leave out."""
    notes = []
    of_groups = []
    for group in groups:
        curves = []
        for run in group.runs:
            found = read_curves(run.path / "tensorboard")
            if {f"valid/{MINUTES}", f"valid/{TARGET_TOKENS}"} <= found.keys():
                curves.append(found)
            else:
                notes.append(f"{run.name} has no learning curves with minutes and target tokens.")
        of_groups.append(curves)
    charts = []
    for tag, (title, unit) in _TITLES.items():
        means = [mean_curve(curves, tag, group=i) for i, curves in enumerate(of_groups)]
        series = [each for each in means if each is not None]
        if series:
            charts.append(Chart(title=title, x_label="", y_label=unit, kind="lines", series=series))
    text = (
        "Lines are means over the runs of a group, bands reach from the lowest to the highest run. "
        f"A line ends where the first of its runs ended. Of more than {_MAX_POINTS} points, "
        f"{_MAX_POINTS} at equal distances are drawn."
    )
    section = Section(
        title="Learning curves",
        paragraphs=[text] if charts else [],
        charts=charts,
        axes=AXES if charts else {},
    )
    return section, notes


def read_curves(path: Path) -> dict[str, dict[int, float]]:
    """Read the curves of a run as TensorBoard shows them, without replaced points."""
    if not path.is_dir():
        return {}
    # Imported here because TensorBoard takes long to load.
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # 0 keeps all points; of the figures and texts, one each is enough.
    kinds = {"scalars": 0, "images": 1, "tensors": 1, "histograms": 1, "audio": 1}
    events = EventAccumulator(str(path), size_guidance=kinds)
    events.Reload()
    axes = [f"{part}/{name}" for part in ("train", "valid") for name in (MINUTES, TARGET_TOKENS)]
    known = set(events.Tags()["scalars"])
    return {
        tag: {event.step: event.value for event in events.Scalars(tag)}
        for tag in (*_TITLES, *axes)
        if tag in known
    }


def mean_curve(runs: Sequence[Curves], tag: str, *, group: int) -> Series | None:
    """Return the mean of the runs at the updates that all of them have; None if there are none."""
    part = tag.split("/")[0]
    tags = (tag, f"{part}/{MINUTES}", f"{part}/{TARGET_TOKENS}")
    if not runs or any(name not in curves for curves in runs for name in tags):
        return None
    shared = set.intersection(*[set(curves[name]) for curves in runs for name in tags])
    updates = _thinned(sorted(shared))
    if not updates:
        return None
    values = [[curves[tag][update] for curves in runs] for update in updates]
    several = len(runs) > 1
    return Series(
        group=group,
        x={
            "updates": [float(update) for update in updates],
            "minutes": [fmean([curves[tags[1]][u] for curves in runs]) for u in updates],
            "tokens": [fmean([curves[tags[2]][u] for curves in runs]) for u in updates],
        },
        y=[fmean(each) for each in values],
        low=[min(each) for each in values] if several else (),
        high=[max(each) for each in values] if several else (),
        hints=[f"{min(each):.4g} to {max(each):.4g}" for each in values] if several else (),
    )


def _thinned(updates: Sequence[int]) -> list[int]:
    """Return at most `_MAX_POINTS` of the updates, the first and the last among them."""
    if len(updates) <= _MAX_POINTS:
        return list(updates)
    return [updates[k * (len(updates) - 1) // (_MAX_POINTS - 1)] for k in range(_MAX_POINTS)]
