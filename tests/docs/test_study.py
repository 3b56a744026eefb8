import json
import re

import pytest
from documents import load_script
from tiny_study import read_study, write_study

from seq2seq.studies.report import study_page
from seq2seq.visualization.page import render_report


@pytest.fixture(scope="module")
def study():
    return load_script("study")


def test_a_kept_report_is_the_report(study, tmp_path):
    page = study_page(read_study(write_study(tmp_path)), name="tiny")

    kept = json.loads(study.to_json(page))

    assert render_report(kept) == render_report(page)


def test_the_example_report_is_complete(study, tmp_path):
    study.write(tmp_path / "study.html")

    page = (tmp_path / "study.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    sections = {each["title"]: each for each in json.loads(study.KEPT.read_text())["sections"]}
    assert all("has no attention" in each for each in sections["Not compared"]["items"])
    assert (page.count('<div class="chart">'), len(data["sentences"])) == (14, 23)
    assert page.count('class="mark"') == 10
    assert study.KEPT.stat().st_size < 1_000_000
