import csv

import numpy as np
import pytest
from tiny_study import write_study

from seq2seq.evaluation.measures import total_scores
from seq2seq.studies.comparison import BaselineComparison
from seq2seq.studies.measures import COMPARED, ENDINGS, compare_measures
from seq2seq.studies.runs import group_runs, read_runs
from seq2seq.studies.study import write_tables


def compare(groups, baselines, notes=None):
    comparisons = [
        BaselineComparison(group=group, baseline=baseline, reason="")
        for group, baseline in zip(groups, baselines, strict=True)
    ]
    compare_measures(comparisons, [] if notes is None else notes)
    return [each.columns for each in comparisons]


def test_differences_are_those_of_the_results(groups):
    group, baseline = sorted(groups, key=lambda group: group.label)

    row, of_baseline = compare([group, baseline], [baseline, None])

    assert of_baseline == {}
    names = ("chrf", "ter", "loss", "perplexity", "character_loss")
    assert row.keys() == {f"{name}_{end}" for name in names for end in ENDINGS}
    for name in names:
        expected = group.mean(name) - baseline.mean(name)
        assert row[f"{name}_difference"] == pytest.approx(expected, rel=1e-3, abs=1e-6)
        assert row[f"{name}_low"] <= row[f"{name}_difference"] <= row[f"{name}_high"]
        assert 0 < row[f"{name}_p"] <= 1


def test_measures_per_token_are_compared_only_with_the_same_tokens(groups):
    notes, [group, baseline] = [], groups
    rows = group.runs[0].statistics["loss"]
    group.runs[0].statistics["loss"] = rows + np.array([0.0, 1.0])

    row, _ = compare([group, baseline], [baseline, None], notes)

    assert not any(name.startswith(("loss", "perplexity")) for name in row)
    assert "character_loss_p" in row and "chrf_p" in row
    assert notes[0].startswith("Loss, Perplexity, Entropy") and "in 1 of 2 groups" in notes[0]
    group.runs[0].statistics["loss"] = rows


def test_statistics_add_up_to_the_measures_of_the_run(groups):
    for run in (run for group in groups for run in group.runs):
        for name, score in total_scores(run.statistics).items():
            assert run.measures[name] == score
    unknown = {*COMPARED, "bleu"} - run.measures.keys()
    assert unknown <= {"aer"} or run.swept["attention"] == "none"


def test_measures_that_need_no_model_are_compared_without_it(tmp_path):
    path = write_study(tmp_path)
    runs = read_runs([path])

    write_tables(runs, path, baseline=None)

    with (path / "groups.csv").open(newline="") as file:
        rows = {row["attention"]: row for row in csv.DictReader(file)}
    none = rows["none"]
    # The runs of write_study state a chrF that is not that of their translations.
    assert float(none["chrf_high"]) < 0 < float(none["ter_low"])
    assert float(none["ter_p"]) < 0.05
    assert none["perplexity_p"] == none["aer_difference"] == ""
    assert rows["dot"]["chrf_p"] == ""


def test_holm_corrects_over_the_groups_of_a_measure(tmp_path):
    groups = group_runs(read_runs([write_study(tmp_path)]))
    dot, none = sorted(groups, key=lambda group: group.label)

    [one, _] = compare([none, dot], [dot, None])
    [first, second, _] = compare([none, none, dot], [dot, dot, None])

    assert first["ter_p"] == second["ter_p"] == pytest.approx(min(1, 2 * one["ter_p"]))
