"""The example report of the documentation, kept as data.

    python docs/study.py SWEEP BASELINE INTERVENTIONS

A report has 5 MB, of which plotly.js takes nearly all. The build of the documentation writes it
from study.json, with the template, scripts and style of today.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from seq2seq.inference.interventions import find_intervention
from seq2seq.studies.comparison import compare_with_baseline
from seq2seq.studies.findings import find
from seq2seq.studies.report import study_page
from seq2seq.studies.runs import group_runs, read_runs
from seq2seq.visualization.page import (
    Cell,
    Chart,
    Column,
    MapsOverTime,
    RunMaps,
    Section,
    Series,
    ShownSentence,
    ShownTranslation,
    StudyPage,
    Table,
)

KEPT = Path(__file__).parent / "study.json"


def to_json(page: StudyPage) -> str:
    """Return the content of a page, a section a line."""
    content = asdict(page)
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in content.items()]
    return "{" + ",\n".join(parts) + "}\n"


def from_json(text: str) -> StudyPage:
    """Return the page of `to_json`."""
    content = json.loads(text)
    for section in content["sections"]:
        for chart in section["charts"]:
            chart["series"] = [Series(**series) for series in chart["series"]]
        for table in section["tables"]:
            table["columns"] = [Column(*column) for column in table["columns"]]
            table["rows"] = [[Cell(*cell) for cell in row] for row in table["rows"]]
        section["charts"] = [Chart(**chart) for chart in section["charts"]]
        section["tables"] = [Table(**table) for table in section["tables"]]
    sentences = [
        ShownSentence(source, reference, [ShownTranslation(*each) for each in found], numbers)
        for source, reference, found, numbers in content["sentences"]
    ]
    pairs, kept = content["maps"] or ([], [])
    return StudyPage(
        title=content["title"],
        groups=content["groups"],
        sections=[Section(**section) for section in content["sections"]],
        sentences=sentences,
        maps=MapsOverTime(pairs, [RunMaps(*each) for each in kept]) if kept else None,
    )


def write(path: Path) -> None:
    """Write the kept report as a page."""
    with path.open("wb") as file:
        from_json(KEPT.read_text(encoding="utf-8")).write(file)


def _lines(value: object) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    return "[" + ",\n".join(json.dumps(each) for each in value) + "]"


if __name__ == "__main__":
    _, sweep, baseline, interventions = sys.argv
    runs = read_runs([Path(sweep)])
    groups = group_runs(runs)
    comparisons = compare_with_baseline(groups, baseline)
    found = find(groups, comparisons, list(map(find_intervention, interventions.split(","))))
    page = study_page(runs, groups, comparisons, found, name=Path(sweep).name)
    KEPT.write_text(to_json(page), encoding="utf-8")
