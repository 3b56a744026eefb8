import csv

import numpy as np
import pytest

from seq2seq.analysis import run as analysis_run
from seq2seq.evaluation.attribution import Attribution
from seq2seq.studies.attribution import TAUS, attribution_section, measure_attributions
from seq2seq.studies.report import study_page
from seq2seq.studies.runs import group_runs, read_runs
from seq2seq.studies.study import find_differences, write_tables


@pytest.fixture
def known(monkeypatch):
    """Let the attention of multihead follow erasure, and return the attributions of each run."""
    found = {}

    def attribute(path, pairs, *, device):
        random = np.random.default_rng(len(found))
        found[path.name] = []
        for _ in pairs:
            erasure, gradient, noise = random.normal(size=(3, 2, 6))
            attention = np.abs(erasure) + np.abs(noise) / 9
            if path.name.startswith("none"):
                attention = np.full_like(attention, np.nan)
            words = list("abcdef"), list("xy")
            found[path.name].append(Attribution(*words, attention, erasure, gradient))
        return found[path.name]

    monkeypatch.setattr(analysis_run, "attribute", attribute)
    return found


def cells_of(groups):
    [table] = attribution_section(groups).tables
    assert all(len(row) == len(table.columns) for row in table.rows)
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_the_tau_of_a_group_is_the_mean_over_its_seeds_with_an_interval(trained, known):
    measure_attributions(runs := read_runs([trained]))
    groups = group_runs(runs)

    taus = [
        np.concatenate([each.tau_erasure for each in known[f"multihead-{seed}"]]).mean()
        for seed in (1, 2)
    ]
    runs, tau, interval, *_ = cells_of(groups)["multihead"]
    low, high = map(float, interval.split(" to "))
    assert (runs, tau) == ("2", f"{np.mean(taus):.2f}")
    assert low < float(tau) < high
    assert float(tau) > 0.5


def test_without_attention_only_erasure_and_gradient_are_correlated(trained, known):
    measure_attributions(runs := read_runs([trained]))
    groups = group_runs(runs)

    cells = cells_of(groups)["none"]
    assert cells[1:5] == ["-"] * 4
    assert "-" not in cells[5:]
    [group] = [group for group in groups if group.label == "none"]
    assert {*TAUS} & {*group.runs[0].measures} == {"tau_methods"}


def test_the_files_have_each_tau_and_its_difference_from_the_baseline(trained, known, tmp_path):
    runs = read_runs([trained])

    measure_attributions(runs)
    write_tables(runs, tmp_path, baseline="none")

    with (tmp_path / "groups.csv").open(newline="") as file:
        rows = {row["attention"]: row for row in csv.DictReader(file)}
    assert float(rows["multihead"]["tau_erasure"]) > 0.5
    assert rows["none"]["tau_erasure"] == rows["multihead"]["tau_erasure_p"] == ""
    assert 0 < float(rows["multihead"]["tau_methods_p"]) <= 1
    assert "Is attention an explanation?" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_report_has_no_section_of_runs_that_were_not_measured(trained):
    study = find_differences(read_runs([trained]), None)

    titles = [each.title for each in study_page(study, name="x")["sections"]]
    assert "Is attention an explanation?" not in titles


def test_a_run_that_cannot_be_measured_is_left_out_with_a_warning(trained, known, caplog):
    first, second, *_ = runs = read_runs([trained])
    first.failure, measured = "out of memory", analysis_run.attribute

    def refuse(path, pairs, **options):
        if path == second.directory.path:
            raise ValueError("no such type")
        return measured(path, pairs, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis_run, "attribute", refuse)
        measure_attributions(runs)

    assert caplog.messages == [f"{second.name} has no attributions: no such type"]
    assert [{*TAUS} <= {*run.measures} for run in (first, second)] == [False, False]
    assert len(known) == 2
