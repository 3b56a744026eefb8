import math
import re
import shutil

import numpy as np
import pytest

from seq2seq.analysis.interventions import find_intervention
from seq2seq.analysis.run import load_run
from seq2seq.evaluation.significance import SENTENCES_ONLY
from seq2seq.studies import interventions
from seq2seq.studies.interventions import interventions_section, measure_losses
from seq2seq.studies.report import study_page
from seq2seq.studies.runs import Group, StudyRun, read_runs
from seq2seq.studies.study import find_differences


@pytest.fixture(scope="module")
def findings(trained):
    """Return what two interventions find."""
    names = ("uniform", "drop_head:1", "uniform", "drop_head:01")  # two of them twice
    interventions = list(map(find_intervention, names))
    return find_differences(read_runs([trained]), None, interventions)


def test_each_group_and_intervention_has_a_row_with_intervals(findings):
    rows = {(row["group"], row["intervention"]): row for row in findings.losses}
    assert len(rows) == len(findings.losses)
    assert {key: row["runs"] for key, row in rows.items()} == {
        ("none", "uniform"): 0,
        ("none", "drop_head:1"): 0,
        ("multihead", "uniform"): 2,
        ("multihead, seed 1", "drop_head:1"): 1,
        ("multihead, seed 2", "drop_head:1"): 1,
    }
    assert rows["none", "uniform"].keys() == {"group", "intervention", "runs"}
    changed = rows["multihead", "uniform"]
    assert changed["perplexity_factor"] != pytest.approx(1, abs=1e-6)
    for name in ("bleu_lost", "perplexity_factor", "changed_words"):
        assert changed[f"{name}_low"] <= changed[name] <= changed[f"{name}_high"]
    [note] = [note for note in findings.notes if "drop_head:1: the model has no attention" in note]
    assert note.startswith("none is left out")  # both of its runs, for the same reason


def test_an_intervention_that_no_run_can_do_is_warned_of(groups, caplog):
    measure_losses(groups, list(map(find_intervention, ("uniform", "drop_head:9"))), [])

    [message] = [each for each in caplog.messages if "changes no run" in each]
    assert re.fullmatch(
        "drop_head:9 changes no run; for example, .* is left out: intervention drop_head:9: the "
        r"model has no such head; number of heads: \d",
        message,
    )


def test_a_run_without_its_statistics_is_left_out(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "sweep")
    (tmp_path / "sweep" / "multihead-1" / "test.npz").unlink()

    found = find_differences(read_runs([tmp_path / "sweep"]), None, [find_intervention("uniform")])

    assert [row["runs"] for row in found.losses if row["group"] == "multihead"] == [1]
    assert any("test.npz" in note for note in found.notes)


def test_a_group_whose_runs_have_different_test_sets_is_left_out(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "sweep")
    runs = read_runs([tmp_path / "sweep"])
    runs[0].references = [*runs[0].references[:-1], "another one"]

    found = find_differences(runs, None, [find_intervention("uniform")])

    [note] = [note for note in found.notes if "has no interventions" in note]
    assert note.endswith(" has no interventions: its runs have different test sets.")
    assert len({row["group"] for row in found.losses}) == len(found.groups) - 1


def test_losses_are_the_means_over_the_runs(findings):
    [group] = [group for group in findings.groups if group.label == "multihead"]
    [row] = [row for row in findings.losses if row["group"] == "multihead"][:1]

    single = [load_run(run.directory.path, device="cpu").intervene("uniform") for run in group.runs]

    factors = [math.log(each.perplexity_factor) for each in single]
    assert math.log(row["perplexity_factor"]) == pytest.approx(sum(factors) / 2, abs=1e-4)
    assert row["bleu_lost"] == pytest.approx(sum(each.bleu_lost for each in single) / 2, abs=1e-6)
    shares = [each.changed_words for each in single]
    assert row["changed_words"] == pytest.approx(sum(shares) / 2)


def test_page_has_the_section_only_if_it_is_asked_for(findings):
    def titles(study):
        return [each.title for each in study_page(study, name="x")["sections"]]

    assert "Interventions" not in titles(findings._replace(losses=[]))
    assert "Interventions" in titles(findings)
    section = interventions_section(findings.losses)
    short, table = section.tables
    labels = [column.label for column in table.columns]
    assert labels.count("Interval") == labels.count("p (Holm)") == 2
    assert all(len(row) == len(labels) for row in table.rows)
    assert all(len(row) == len(short.columns) for row in short.rows)
    by_group = {row[0].text: row[1:] for row in short.rows}
    for row in findings.losses:
        position = [column.label for column in short.columns[1:]].index(row["intervention"])
        shown = by_group[row["group"]][position]
        assert shown.value == row.get("bleu_lost")
    dropped = table.rows[[row["runs"] for row in findings.losses].index(0)]
    assert {cell.text for cell in dropped[3:]} == {"-"}


NAMES = ("uniform", "permuted", "strongest", "frozen")


def losses_of(monkeypatch, labels, factors, *, num_runs=3):
    """Return the rows of groups whose losses in nats are known, by group and intervention."""
    groups = [
        Group(
            swept={"attention": label},
            runs=[StudyRun(name=str(n), directory=None) for n in range(num_runs)],
            num_failed=0,
        )
        for label in labels
    ]
    random = np.random.default_rng(1)

    def measure(run, intervention):
        before = np.ones((40, 2))
        lost = factors[intervention.name] + 0.01 * random.normal() * bool(
            factors[intervention.name]
        )
        after = before + lost * np.stack([random.uniform(0.9, 1.1, 40), np.zeros(40)], axis=1)
        changed = np.stack([random.binomial(9, min(lost, 1), 40), np.full(40, 9)], axis=1)
        same = np.ones((40, 10))
        return {
            "bleu_lost": (same, same),
            "perplexity_factor": (after, before),
            "changed_words": (changed, np.stack([np.zeros(40)] * 2, axis=1)),
        }

    monkeypatch.setattr(interventions, "_intervene", measure)
    found = measure_losses(groups, list(map(find_intervention, factors)), [])
    return {(row["group"], row["intervention"]): row for row in found}


def test_a_large_loss_is_significant_beside_many_groups_and_changes_of_nothing(monkeypatch):
    factors = dict.fromkeys(NAMES, 1.0) | {"without_end": 0.0}

    few, many = (losses_of(monkeypatch, labels, factors) for labels in ("a", "abcdefghij"))

    for name in NAMES:
        assert many["a", name]["perplexity_factor_p"] < 0.05
        assert many["a", name]["perplexity_factor_low"] > 1
        assert many["a", name] == few["a", name]
    assert "perplexity_factor_p" not in many["a", "without_end"]
    assert not any("bleu_lost_p" in row for row in many.values())


def test_intervals_of_losses_agree_with_their_p_values(monkeypatch):
    factors = dict(zip(NAMES, (1.0, 0.1, 0.02, 0.003), strict=True))

    rows = losses_of(monkeypatch, "abcde", factors).values()

    significant = [row["perplexity_factor_p"] < 0.05 for row in rows]
    assert significant == [row["perplexity_factor_low"] > 1 for row in rows]
    assert 0 < sum(significant) < len(significant)


def test_the_interval_of_a_share_lies_within_0_and_1(monkeypatch):
    rows = losses_of(monkeypatch, "a", {"uniform": 0.01, "frozen": 0.97, "strongest": 1.0})

    for row in rows.values():
        share, low, high = (row[f"changed_words{end}"] for end in ("", "_low", "_high"))
        assert 0 <= low <= share <= high <= 1


def test_p_values_of_a_single_run_are_said_to_cover_the_sentences_only(monkeypatch):
    single, several = (
        losses_of(monkeypatch, "a", {"uniform": 1.0}, num_runs=number)["a", "uniform"]
        for number in (1, 2)
    )

    assert (single["p_covers"], several["p_covers"]) == (SENTENCES_ONLY, "seeds and sentences")
    table = interventions_section([single]).tables[1]
    assert table.caption.endswith(f"* one run on a side: {SENTENCES_ONLY}")
    assert "<0.001*" in [cell.text for cell in table.rows[0]]
