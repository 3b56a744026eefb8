import json
import re

import pytest
from documents import load_script
from tiny_study import read_study, write_study

from seq2seq.studies.report import render_report, study_page


@pytest.fixture(scope="module")
def study():
    return load_script("study")


def test_a_kept_report_is_the_report(study, tmp_path):
    page = study_page(read_study(write_study(tmp_path)), name="tiny")

    kept = study.from_json(study.to_json(page))

    assert render_report(kept) == render_report(page)


def test_the_example_report_is_complete(study, tmp_path):
    study.write(tmp_path / "study.html")

    page = (tmp_path / "study.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert all("has no attention" in note for note in study.read()["notes"])
    assert (page.count('<div class="chart">'), len(data["sentences"])) == (13, 23)
    assert page.count('class="mark"') == 10
    assert study.KEPT.stat().st_size < 1_000_000
