"""The example report of the documentation, kept as data.

    python docs/study.py SWEEP BASELINE INTERVENTIONS

A report has 5 MB, of which plotly.js takes nearly all. The build of the documentation writes it
from study.json, with the template, scripts and style of today.
"""

import json
import sys
from pathlib import Path
from typing import cast

import pandas as pd
from plotly.graph_objects import Figure

from seq2seq.studies.interventions import find_intervention
from seq2seq.studies.probes import measure_attributions
from seq2seq.studies.report import Page, render_report, study_page
from seq2seq.studies.runs import read_runs
from seq2seq.studies.study import find_differences

KEPT = Path(__file__).parent / "study.json"


def to_json(page: Page) -> str:
    """Return the content of a page, with one line for each part."""
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in page.items()]
    return "{" + ",\n".join(parts) + "}\n"


def read() -> Page:
    """Return the kept report."""
    return from_json(KEPT.read_text(encoding="utf-8"))


def from_json(text: str) -> Page:
    """Return the page of `to_json`."""
    page = json.loads(text)
    for kind, read in (("tables", _table), ("charts", Figure)):
        page[kind] = {
            section: {title: read(each) for title, each in found.items()}
            for section, found in page[kind].items()
        }
    return cast(Page, page)


def write(path: Path) -> None:
    """Write the kept report as a page."""
    path.write_text(render_report(read()), encoding="utf-8")


def _table(content: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(content, orient="tight")


def _lines(value: object) -> str:
    if isinstance(value, list):
        return "[" + ",\n".join(map(_compact, value)) + "]"
    if isinstance(value, dict):
        lines = (f"{json.dumps(key)}: {_compact(each)}" for key, each in value.items())
        return "{" + ",\n".join(lines) + "}"
    return _compact(value)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    """Return a table or a chart as JSON has it."""
    if isinstance(value, pd.DataFrame):
        return value.to_dict("tight")
    assert isinstance(value, Figure)
    return json.loads(value.to_json())


if __name__ == "__main__":
    _, sweep, baseline, interventions = sys.argv
    changes = list(map(find_intervention, interventions.split(",")))
    runs = read_runs([Path(sweep)])
    measure_attributions(runs)
    study = find_differences(runs, baseline, changes)
    KEPT.write_text(to_json(study_page(study, name=Path(sweep).name)), encoding="utf-8")
