"""The example report of the documentation, kept as data.

    python docs/study.py SWEEP BASELINE INTERVENTIONS

A report has 5 MB, of which plotly.js takes nearly all. The build of the documentation writes it
from study.json, with the template, scripts and style of today.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from seq2seq.analysis.interventions import find_intervention
from seq2seq.studies.probes import measure_attributions
from seq2seq.studies.report import study_page
from seq2seq.studies.runs import read_runs
from seq2seq.studies.study import find_differences
from seq2seq.visualization.page import StudyPage, render_report

KEPT = Path(__file__).parent / "study.json"


def to_json(page: StudyPage) -> str:
    """Return the content of a page, with one section or sentence per line."""
    content = page | {"sections": [asdict(each) for each in page["sections"]]}
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in content.items()]
    return "{" + ",\n".join(parts) + "}\n"


def write(path: Path) -> None:
    """Write the kept report as a page; the template reads the names of fields in JSON too."""
    path.write_bytes(render_report(json.loads(KEPT.read_text(encoding="utf-8"))))


def _lines(value: object) -> str:
    if isinstance(value, list):
        return "[" + ",\n".join(map(_compact, value)) + "]"
    return _compact(value)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    _, sweep, baseline, interventions = sys.argv
    changes = list(map(find_intervention, interventions.split(",")))
    runs = read_runs([Path(sweep)])
    measure_attributions(runs)
    study = find_differences(runs, baseline, changes)
    KEPT.write_text(to_json(study_page(study, name=Path(sweep).name)), encoding="utf-8")
