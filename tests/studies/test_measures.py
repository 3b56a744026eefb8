import csv
import shutil

import pytest
from tiny_study import write_study

from seq2seq.analysis.run import load_run
from seq2seq.evaluation.alignment import STATISTICS
from seq2seq.evaluation.metrics import Bin, word_scores_by_frequency
from seq2seq.studies import measures
from seq2seq.studies.measures import (
    COMPARED,
    ENDINGS,
    RARE,
    RareWords,
    compare_measures,
    read_run,
    training_counts,
    word_splitter,
)
from seq2seq.studies.runs import group_runs, read_runs
from seq2seq.studies.study import write_tables


def compare(groups, baselines, notes=None):
    readings = {run: read_run(run, RareWords()) for group in groups for run in group.runs}
    return compare_measures(groups, baselines, readings, [] if notes is None else notes)


def test_differences_are_those_of_the_results(groups, monkeypatch):
    monkeypatch.setattr(measures, "_FEWEST", 1)
    group, baseline = sorted(groups, key=lambda group: group.label)

    row, of_baseline = compare([group, baseline], [baseline, None])

    assert of_baseline == {}
    names = (*COMPARED[:3], "rare_words")
    assert row.keys() == {f"{name}_{end}" for name in names for end in ENDINGS}
    for name in names:
        expected = group.mean(name) - baseline.mean(name)
        assert row[f"{name}_difference"] == pytest.approx(expected, rel=1e-3, abs=1e-6)
        assert row[f"{name}_low"] <= row[f"{name}_difference"] <= row[f"{name}_high"]
        assert 0 < row[f"{name}_p"] <= 1


def test_a_handful_of_rare_words_is_counted_and_not_tested(groups):
    notes = []

    row, _ = compare(groups, groups[::-1], notes)

    assert not any(name.startswith("rare_words") for name in row)
    assert "chrf_p" in row
    [note] = notes
    assert note.startswith("F1 of rare words is not tested in 2 of 2 groups: a run's")
    number = min(
        int(read_run(run, RareWords()).statistics["rare_words"][:, 1].sum())
        for group in groups
        for run in group.runs
    )
    assert f"have {number} rare words in all, and a test needs 50" in note


def test_statistics_add_up_to_the_measures_of_the_run(groups):
    [group] = [group for group in groups if group.label == "multihead"]
    run = group.runs[0]

    found = read_run(run, RareWords()).statistics

    for name in STATISTICS:
        numerator, denominator = found[name].sum(axis=0)
        assert numerator / denominator == pytest.approx(run.measures[name], abs=1e-5)
        assert len(found[name]) == len(run.references)


def test_statistics_of_links_add_up_to_the_alignment_error_rate(groups, tmp_path):
    [group] = [group for group in groups if group.label == "multihead"]
    path = shutil.copytree(group.runs[0].directory.path, tmp_path / "run")
    (path / "test.gold").write_text("0-0\n" * len(group.runs[0].references))
    run = load_run(path, device="cpu")
    expected = run.attention().alignment_error_rate(run.gold())

    wrong, links = read_run(read_runs([path])[0], RareWords()).statistics["aer"].sum(axis=0)

    assert wrong / links == pytest.approx(expected)


def test_run_without_checkpoint_has_chrf_and_ter(tmp_path):
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


def test_rare_words_are_those_with_few_occurrences_in_the_training_data(groups):
    run = groups[0].runs[0]
    split = word_splitter(run)

    found = read_run(run, RareWords())

    [score] = word_scores_by_frequency(
        run.translations,
        run.references,
        training_counts(run, split),
        split=split,
        bins=[Bin(0, RARE - 1)],
    )
    assert score.num_words > 0
    assert run.measures["rare_words"] == pytest.approx(score.f1)
    assert len(found.statistics["rare_words"]) == len(run.references)


def test_measures_that_the_results_lack_are_read_by_the_model(trained):
    run = next(run for run in read_runs([trained]) if run.swept["attention"] == "multihead")
    known = run.measures.pop("backward")

    read_run(run, RareWords())

    assert run.measures["backward"] == pytest.approx(known)
