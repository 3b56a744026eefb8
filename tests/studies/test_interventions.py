import csv
import math

import pytest

from seq2seq.analysis import load_run
from seq2seq.inference.interventions import find_intervention
from seq2seq.studies.findings import find
from seq2seq.studies.interventions import interventions_section
from seq2seq.studies.report import study_page
from seq2seq.studies.runs import group_runs, read_runs
from seq2seq.studies.tables import compare_with_baseline, write_tables


@pytest.fixture(scope="module")
def findings(trained):
    """Return what two interventions find, and the groups."""
    groups = group_runs(read_runs([trained]))
    interventions = [find_intervention("uniform"), find_intervention("drop_head:1")]
    return find(groups, compare_with_baseline(groups, None), interventions), groups


def test_each_group_and_intervention_has_a_row_with_intervals(findings):
    found, _ = findings

    rows = {(row["group"], row["intervention"]): row for row in found.losses}
    assert {key: row["runs"] for key, row in rows.items()} == {
        ("none", "uniform"): 2,
        ("none", "drop_head:1"): 0,
        ("multihead", "uniform"): 2,
        ("multihead, seed 1", "drop_head:1"): 1,
        ("multihead, seed 2", "drop_head:1"): 1,
    }
    unchanged = rows["none", "uniform"]
    assert (unchanged["bleu_lost"], unchanged["changed_words"]) == (0, 0)
    assert unchanged["bleu_lost_p"] == unchanged["perplexity_factor_p"] == 1
    assert unchanged["perplexity_factor"] == pytest.approx(1)
    changed = rows["multihead", "uniform"]
    assert changed["perplexity_factor"] != pytest.approx(1, abs=1e-6)
    for name in ("bleu_lost", "perplexity_factor", "changed_words"):
        assert changed[f"{name}_low"] <= changed[name] <= changed[f"{name}_high"]
    assert (
        len([note for note in found.notes if "drop_head:1: the model has no such head" in note])
        == 2
    )


def test_losses_are_the_means_over_the_runs(findings):
    found, groups = findings
    [group] = [group for group in groups if group.label == "multihead"]
    [row] = [row for row in found.losses if row["group"] == "multihead"][:1]

    single = [load_run(run.directory.path, device="cpu").intervene("uniform") for run in group.runs]

    factors = [math.log(each.perplexity_factor) for each in single]
    assert math.log(row["perplexity_factor"]) == pytest.approx(sum(factors) / 2, abs=1e-4)
    assert row["bleu_lost"] == pytest.approx(sum(each.bleu_lost for each in single) / 2, abs=1e-6)
    shares = [each.changed_words for each in single]
    assert row["changed_words"] == pytest.approx(sum(shares) / 2)


def test_page_has_the_section_only_if_it_is_asked_for(findings):
    found, groups = findings
    comparisons = compare_with_baseline(groups, None)
    runs = [run for group in groups for run in group.runs]

    def titles(*found):
        return [
            each.title for each in study_page(runs, groups, comparisons, *found, name="x").sections
        ]

    assert "Interventions" not in titles()
    assert "Interventions" in titles(found)
    section = interventions_section(found.losses)
    labels = [column.label for column in section.tables[0].columns]
    assert labels.count("95% interval") == 3
    assert all(len(row) == len(labels) for row in section.tables[0].rows)
    dropped = section.tables[0].rows[[row["runs"] for row in found.losses].index(0)]
    assert {cell.text for cell in dropped[3:]} == {"-"}


def test_another_run_is_the_next_seed_or_that_of_another_group(trained, tmp_path):
    others = [find_intervention(f"other:{name}") for name in ("seed", "multihead", "none")]

    write_tables(read_runs([trained]), tmp_path, baseline=None, interventions=others)

    with (tmp_path / "interventions.csv").open(newline="") as file:
        rows = {(row["group"], row["intervention"]): row for row in csv.DictReader(file)}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    of_seed, of_own = rows["multihead", "other:seed"], rows["multihead", "other:multihead"]
    assert of_seed["runs"] == of_own["runs"] == "2"
    assert of_seed["perplexity_factor"] == of_own["perplexity_factor"]
    assert rows["multihead", "other:none"]["runs"] == "0"
    assert "that run has no attention" in page
    assert of_seed["bleu_lost"] == of_seed["changed_words"] == ""  # it translates nothing
    assert rows["none", "other:seed"]["bleu_lost"] == "0"
