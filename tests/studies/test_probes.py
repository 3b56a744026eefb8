import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from tiny_study import make_runs, read_finished

from seq2seq.evaluation.significance import SENTENCES_ONLY
from seq2seq.studies import probes
from seq2seq.studies import run as run_module
from seq2seq.studies.attribution import Attribution
from seq2seq.studies.interventions import find_intervention
from seq2seq.studies.probes import LOSSES, TAUS, measure_attributions, measure_losses
from seq2seq.studies.run import load_run
from seq2seq.studies.runs import finished_runs, read_runs
from seq2seq.studies.study import find_differences
from seq2seq.studies.tables import loss_tables, tau_table


@pytest.fixture(scope="module")
def findings(trained):
    """Return what two interventions find."""
    names = ("uniform", "drop_head:1", "uniform", "drop_head:01")  # two of them twice
    interventions = list(map(find_intervention, names))
    return find_differences(read_runs([trained]), None, interventions)


def test_each_group_and_intervention_has_a_row_with_intervals(findings):
    rows = findings.losses.set_index(["group", "intervention"])
    assert rows["runs"].to_dict() == {
        ("none", "uniform"): 0,
        ("none", "drop_head:1"): 0,
        ("multihead", "uniform"): 2,
        ("multihead, seed 1", "drop_head:1"): 1,
        ("multihead, seed 2", "drop_head:1"): 1,
    }
    assert rows.loc[("none", "uniform"), [*LOSSES]].isna().all()
    changed = rows.loc[("multihead", "uniform")]
    assert changed["perplexity_factor"] != pytest.approx(1, abs=1e-6)
    for name in LOSSES:
        assert changed[f"{name}_low"] <= changed[name] <= changed[f"{name}_high"]
    [note] = [note for note in findings.notes if "drop_head:1: the model has no attention" in note]
    assert note.startswith("none is left out")  # both of its runs, for the same reason


def test_interventions_print_no_warnings_of_translating(trained, caplog):
    runs = read_finished(trained)

    measure_losses(runs[runs["group"] == "multihead"], [find_intervention("uniform")], [])

    assert caplog.messages == []


def test_a_run_without_its_statistics_is_left_out(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "sweep")
    (tmp_path / "sweep" / "multihead-1" / "test.npz").unlink()

    found = find_differences(read_runs([tmp_path / "sweep"]), None, [find_intervention("uniform")])

    assert list(found.losses.loc[found.losses["group"] == "multihead", "runs"]) == [1]
    assert any("test.npz" in note for note in found.notes)


def test_a_group_whose_runs_have_different_test_sets_is_left_out(trained):
    finished = read_finished(trained)
    finished.loc[finished.index[0], "test_set"] = "another one"

    found = measure_losses(finished, [find_intervention("uniform")], notes := [])

    [note] = [note for note in notes if "has no interventions" in note]
    assert note.endswith(" has no interventions: its runs have different test sets.")
    assert found["group"].nunique() == 1


def test_losses_are_the_means_over_the_runs(findings):
    losses = findings.losses.set_index("group").loc["multihead"]
    paths = findings.finished.loc[findings.finished["group"] == "multihead", "path"]

    single = [load_run(path, device="cpu").intervene("uniform") for path in paths]

    factors = [math.log(each.perplexity_factor) for each in single]
    assert math.log(losses["perplexity_factor"]) == pytest.approx(sum(factors) / 2, abs=1e-4)
    lost = sum(each.bleu_lost for each in single) / 2
    assert losses["bleu_lost"] == pytest.approx(lost, abs=1e-6)
    shares = [each.changed_words for each in single]
    assert losses["changed_words"] == pytest.approx(sum(shares) / 2)


def test_a_loss_is_in_the_short_table_and_in_that_of_all_figures(findings):
    short, table = loss_tables(findings.losses).values()

    for _, row in findings.losses.iterrows():
        cells = table.loc[(row["group"], row["intervention"])]
        text = short.loc[row["group"], row["intervention"]]
        assert cells["BLEU lost"] == text
        assert text == "-" if row["runs"] == 0 else text.startswith(f"{row['bleu_lost']:.2f} (")
    assert loss_tables(findings.losses[:0]) == {}


NAMES = ("uniform", "permuted", "strongest", "frozen")


def losses_of(monkeypatch, labels, factors, *, num_runs=3):
    """Return the rows of groups whose losses in nats are known, by group and intervention."""
    runs = make_runs(**dict.fromkeys(labels, num_runs))
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
    found = measure_losses(runs, list(map(find_intervention, factors)), [])
    return found.set_index(["group", "intervention"])


def test_a_large_loss_is_significant_beside_many_groups_and_changes_of_nothing(monkeypatch):
    factors = dict.fromkeys(NAMES, 1.0) | {"without_end": 0.0}

    few, many = (losses_of(monkeypatch, labels, factors) for labels in ("a", "abcdefghij"))

    for name in NAMES:
        loss = many.loc[("a", name)]
        assert loss["perplexity_factor_p"] < 0.05 and loss["perplexity_factor_low"] > 1
    pd.testing.assert_frame_equal(many.loc[["a"]], few)
    assert np.isnan(many.loc[("a", "without_end"), "perplexity_factor_p"])
    assert many["bleu_lost_p"].isna().all()


def test_intervals_of_losses_agree_with_their_p_values(monkeypatch):
    factors = dict(zip(NAMES, (1.0, 0.1, 0.02, 0.003), strict=True))

    rows = losses_of(monkeypatch, "abcde", factors)

    significant = rows["perplexity_factor_p"] < 0.05
    assert (significant == (rows["perplexity_factor_low"] > 1)).all()
    assert 0 < significant.sum() < len(rows)


def test_the_interval_of_a_share_lies_within_0_and_1(monkeypatch):
    rows = losses_of(monkeypatch, "a", {"uniform": 0.01, "frozen": 0.97, "strongest": 1.0})

    share, low, high = (rows[f"changed_words{end}"] for end in ("", "_low", "_high"))
    assert ((low >= 0) & (low <= share) & (share <= high) & (high <= 1)).all()


def test_p_values_of_a_single_run_are_said_to_cover_the_sentences_only(monkeypatch):
    single, several = (
        losses_of(monkeypatch, "a", {"uniform": 1.0}, num_runs=number) for number in (1, 2)
    )

    scopes = [each["p_covers"].tolist() for each in (single, several)]
    assert scopes == [[SENTENCES_ONLY], ["seeds and sentences"]]
    _, (caption, table) = loss_tables(single.reset_index()).items()
    assert caption.endswith(f"* one run on a side: {SENTENCES_ONLY}")
    assert "<0.001*" in list(table.iloc[0])


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

    monkeypatch.setattr(run_module, "attribute", attribute)
    return found


def measured(path):
    measure_attributions(runs := read_runs([path]))
    return finished_runs(runs)


def test_the_tau_of_a_group_is_the_mean_over_its_seeds_with_an_interval(trained, known):
    [table] = tau_table(measured(trained)).values()

    taus = [
        np.concatenate([each.tau_erasure for each in known[f"multihead-{seed}"]]).mean()
        for seed in (1, 2)
    ]
    runs, text, *_ = table.loc["multihead"]
    tau, low, high = map(float, re.findall(r"-?\d\.\d+", text))
    assert (runs, f"{tau:.2f}") == ("2", f"{np.mean(taus):.2f}")
    assert low < tau < high
    assert tau > 0.5


def test_without_attention_only_erasure_and_gradient_are_correlated(trained, known):
    finished = measured(trained)

    [table] = tau_table(finished).values()
    assert list(table.loc["none"][1:3]) == ["-"] * 2
    assert table.loc["none"].iloc[3] != "-"
    taus = finished.loc[finished["group"] == "none", TAUS]
    assert list(taus.columns[taus.notna().all()]) == ["tau_methods"]


def test_correlations_are_compared_with_the_baseline(trained, known):
    measure_attributions(runs := read_runs([trained]))

    study = find_differences(runs, "none")

    assert study.groups.loc["multihead", "tau_erasure"] > 0.5
    assert np.isnan(study.groups.loc["none", "tau_erasure"])
    assert ("tau_erasure", "multihead") not in study.differences.index
    assert 0 < study.differences.loc[("tau_methods", "multihead"), "p_holm"] <= 1


def test_a_run_that_cannot_be_measured_is_left_out_with_a_warning(trained, known, caplog):
    runs, measured = read_runs([trained]), run_module.attribute
    runs.loc[0, "failure"] = "out of memory"

    def refuse(path, pairs, **options):
        if path == runs["path"][1]:
            raise ValueError("no such type")
        return measured(path, pairs, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "attribute", refuse)
        measure_attributions(runs)

    assert caplog.messages == [f"{runs['run'][1]} has no attributions: no such type"]
    assert runs[TAUS].isna().all(axis=1).tolist()[:2] == [True, True]
    assert len(known) == 2


def test_runs_without_statistics_have_their_own_correlations(trained, known, tmp_path):
    path = shutil.copytree(trained, tmp_path / "sweep")
    for seed in (1, 2):
        (path / f"multihead-{seed}" / "test.npz").unlink()

    finished = measured(path)

    one, other = finished.loc[finished["group"] == "multihead", "statistics"]
    assert one.keys() == other.keys() == set(TAUS)
    assert (one["tau_erasure"] != other["tau_erasure"]).any()
    assert read_finished(path)["statistics"].map(len).min() == 0
