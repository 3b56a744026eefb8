import math
import shutil

import numpy as np
import pytest
from tiny_study import cells_of, make_group, read_rows

from seq2seq.analysis import run as analysis_run
from seq2seq.analysis.attribution import Attribution
from seq2seq.analysis.interventions import find_intervention
from seq2seq.analysis.run import load_run
from seq2seq.evaluation.significance import SENTENCES_ONLY
from seq2seq.studies import probes
from seq2seq.studies.probes import (
    LOSSES,
    TAUS,
    attribution_section,
    interventions_section,
    measure_attributions,
    measure_losses,
)
from seq2seq.studies.runs import group_runs, read_runs
from seq2seq.studies.study import find_differences, write_tables


@pytest.fixture(scope="module")
def findings(trained):
    """Return what two interventions find."""
    names = ("uniform", "drop_head:1", "uniform", "drop_head:01")  # two of them twice
    interventions = list(map(find_intervention, names))
    return find_differences(read_runs([trained]), None, interventions)


def test_each_group_and_intervention_has_a_row_with_intervals(findings):
    rows = {(row.label, row.intervention): row for row in findings.losses}
    assert len(rows) == len(findings.losses)
    assert {key: row.num_runs for key, row in rows.items()} == {
        ("none", "uniform"): 0,
        ("none", "drop_head:1"): 0,
        ("multihead", "uniform"): 2,
        ("multihead, seed 1", "drop_head:1"): 1,
        ("multihead, seed 2", "drop_head:1"): 1,
    }
    assert rows["none", "uniform"].losses == {}
    changed = rows["multihead", "uniform"].losses
    assert changed.keys() == LOSSES.keys()
    assert changed["perplexity_factor"].effect != pytest.approx(1, abs=1e-6)
    for loss in changed.values():
        assert loss.low <= loss.effect <= loss.high
    [note] = [note for note in findings.notes if "drop_head:1: the model has no attention" in note]
    assert note.startswith("none is left out")  # both of its runs, for the same reason


def test_a_run_without_its_statistics_is_left_out(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "sweep")
    (tmp_path / "sweep" / "multihead-1" / "test.npz").unlink()

    found = find_differences(read_runs([tmp_path / "sweep"]), None, [find_intervention("uniform")])

    assert [row.num_runs for row in found.losses if row.label == "multihead"] == [1]
    assert any("test.npz" in note for note in found.notes)


def test_a_group_whose_runs_have_different_test_sets_is_left_out(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "sweep")
    runs = read_runs([tmp_path / "sweep"])
    runs[0].references = [*runs[0].references[:-1], "another one"]

    found = find_differences(runs, None, [find_intervention("uniform")])

    [note] = [note for note in found.notes if "has no interventions" in note]
    assert note.endswith(" has no interventions: its runs have different test sets.")
    assert len({row.label for row in found.losses}) == len(found.groups) - 1


def test_losses_are_the_means_over_the_runs(findings):
    [group] = [group for group in findings.groups if group.label == "multihead"]
    [losses] = [row.losses for row in findings.losses if row.label == "multihead"][:1]

    single = [load_run(run.directory.path, device="cpu").intervene("uniform") for run in group.runs]

    factors = [math.log(each.perplexity_factor) for each in single]
    assert math.log(losses["perplexity_factor"].effect) == pytest.approx(sum(factors) / 2, abs=1e-4)
    lost = sum(each.bleu_lost for each in single) / 2
    assert losses["bleu_lost"].effect == pytest.approx(lost, abs=1e-6)
    shares = [each.changed_words for each in single]
    assert losses["changed_words"].effect == pytest.approx(sum(shares) / 2)


def test_a_loss_is_in_the_short_table_and_in_that_of_all_figures(findings):
    short, table = interventions_section(findings.losses).tables

    labels = [column.label for column in table.columns]
    assert labels.count("Interval") == labels.count("p (Holm)") == 2
    assert {len(row) for row in table.rows} == {len(labels)}
    shown = cells_of(short)
    for row, cells in zip(findings.losses, table.rows, strict=True):
        effect = row.losses["bleu_lost"].effect if row.losses else None
        assert shown[row.label][row.intervention].value == cells[3].value == effect
        assert row.losses or {cell.text for cell in cells[3:]} == {"-"}
    assert not interventions_section([]).tables


NAMES = ("uniform", "permuted", "strongest", "frozen")


def losses_of(monkeypatch, labels, factors, *, num_runs=3):
    """Return the rows of groups whose losses in nats are known, by group and intervention."""
    groups = [make_group(label, map(str, range(num_runs))) for label in labels]
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

    monkeypatch.setattr(probes, "_intervene", measure)
    found = measure_losses(groups, list(map(find_intervention, factors)), [])
    return {(row.label, row.intervention): row for row in found}


def test_a_large_loss_is_significant_beside_many_groups_and_changes_of_nothing(monkeypatch):
    factors = dict.fromkeys(NAMES, 1.0) | {"without_end": 0.0}

    few, many = (losses_of(monkeypatch, labels, factors) for labels in ("a", "abcdefghij"))

    for name in NAMES:
        loss = many["a", name].losses["perplexity_factor"]
        assert loss.p_value < 0.05 and loss.low > 1
        assert many["a", name] == few["a", name]
    assert many["a", "without_end"].losses["perplexity_factor"].p_value is None
    assert {row.losses["bleu_lost"].p_value for row in many.values()} == {None}


def test_intervals_of_losses_agree_with_their_p_values(monkeypatch):
    factors = dict(zip(NAMES, (1.0, 0.1, 0.02, 0.003), strict=True))

    rows = losses_of(monkeypatch, "abcde", factors).values()

    losses = [row.losses["perplexity_factor"] for row in rows]
    significant = [loss.p_value < 0.05 for loss in losses]
    assert significant == [loss.low > 1 for loss in losses]
    assert 0 < sum(significant) < len(significant)


def test_the_interval_of_a_share_lies_within_0_and_1(monkeypatch):
    rows = losses_of(monkeypatch, "a", {"uniform": 0.01, "frozen": 0.97, "strongest": 1.0})

    for row in rows.values():
        share = row.losses["changed_words"]
        assert 0 <= share.low <= share.effect <= share.high <= 1


def test_p_values_of_a_single_run_are_said_to_cover_the_sentences_only(monkeypatch):
    single, several = (
        losses_of(monkeypatch, "a", {"uniform": 1.0}, num_runs=number)["a", "uniform"]
        for number in (1, 2)
    )

    scopes = [each.losses["bleu_lost"].covers for each in (single, several)]
    assert scopes == [SENTENCES_ONLY, "seeds and sentences"]
    table = interventions_section([single]).tables[1]
    assert table.caption.endswith(f"* one run on a side: {SENTENCES_ONLY}")
    assert "<0.001*" in [cell.text for cell in table.rows[0]]


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


def measured(path):
    measure_attributions(runs := read_runs([path]))
    return group_runs(runs)


def texts_of(groups):
    [table] = attribution_section(groups).tables
    assert all(len(row) == len(table.columns) for row in table.rows)
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_the_tau_of_a_group_is_the_mean_over_its_seeds_with_an_interval(trained, known):
    groups = measured(trained)

    taus = [
        np.concatenate([each.tau_erasure for each in known[f"multihead-{seed}"]]).mean()
        for seed in (1, 2)
    ]
    runs, tau, interval, *_ = texts_of(groups)["multihead"]
    low, high = map(float, interval.split(" to "))
    assert (runs, tau) == ("2", f"{np.mean(taus):.2f}")
    assert low < float(tau) < high
    assert float(tau) > 0.5


def test_without_attention_only_erasure_and_gradient_are_correlated(trained, known):
    groups = measured(trained)

    cells = texts_of(groups)["none"]
    assert cells[1:5] == ["-"] * 4
    assert "-" not in cells[5:]
    [group] = [group for group in groups if group.label == "none"]
    assert {*TAUS} & {*group.runs[0].measures} == {"tau_methods"}


def test_the_files_have_each_tau_and_its_difference_from_the_baseline(trained, known, tmp_path):
    runs = read_runs([trained])

    measure_attributions(runs)
    write_tables(runs, tmp_path, baseline="none")

    rows = {row["attention"]: row for row in read_rows(tmp_path / "groups.csv")}
    assert float(rows["multihead"]["tau_erasure"]) > 0.5
    assert rows["none"]["tau_erasure"] == rows["multihead"]["tau_erasure_p"] == ""
    assert 0 < float(rows["multihead"]["tau_methods_p"]) <= 1
    assert "Is attention an explanation?" in (tmp_path / "report.html").read_text(encoding="utf-8")


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
