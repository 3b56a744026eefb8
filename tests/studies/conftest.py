import json
import re

import pytest
from tiny_study import read_finished, read_study
from tiny_training import tiny_config

from seq2seq.studies.report import render_report, study_page
from seq2seq.training.run import run_training
from seq2seq.training.run_directory import RunDirectory


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return the directory of a study of two types and two seeds, trained on a small corpus."""
    folder = tmp_path_factory.mktemp("study")
    for attention, overrides in (("none", []), ("multihead", ["attention.num_heads=2"])):
        for seed in (1, 2):
            swept = [f"attention={attention}", f"seed={seed}"]
            path = folder / "sweep" / f"{attention}-{seed}"
            samples = "training.validation.num_samples=2"
            run_training(tiny_config(folder, *swept, *overrides, samples), path)
            RunDirectory(path).record_overrides(swept)
    return folder / "sweep"


@pytest.fixture
def finished(trained):
    return read_finished(trained)


@pytest.fixture
def report():
    """Return a function that writes the report of a study and returns its page and data."""

    def write(path):
        page = render_report(study_page(read_study(path), name="tiny"))
        return page, json.loads(re.search(r'id="data">(.*?)</script>', page)[1])

    return write
