import numpy as np
import pytest
from tiny_study import REFERENCES, read_groups, read_rows, write_run, write_study

from seq2seq.studies.comparison import (
    BaselineComparison,
    compare_measures,
    compare_with_baseline,
    known_measures,
    spread,
)
from seq2seq.studies.runs import read_runs
from seq2seq.studies.study import write_tables

BAD = ["A runs ."] * len(REFERENCES)


def compare(path, baseline=None):
    groups = read_groups(path)
    found = compare_with_baseline(groups, baseline)
    return {group.label: each for group, each in zip(groups, found, strict=True)}


def test_groups_with_another_test_set_have_a_baseline_of_their_own(tmp_path):
    other = [line.upper() for line in REFERENCES]
    for number, (name, source, references) in enumerate(
        [(n, s, r) for s, r in (("de", REFERENCES), ("en", other)) for n in ("none", "dot")]
    ):
        translations = references if name == "dot" else BAD
        write_run(
            tmp_path / str(number),
            f"attention={name}",
            f"data.source={source}",
            bleu=40.0 - number,
            references=references,
            translations=translations,
        )

    found = compare(tmp_path, "none")

    assert found["attention=dot data.source=en"].baseline.label == "attention=none data.source=en"
    assert found["attention=dot data.source=de"].baseline.label == "attention=none data.source=de"
    chosen = compare(tmp_path, "attention=none data.source=de")
    reason = chosen["attention=dot data.source=en"].reason
    assert reason == "the baseline has another test set"


def test_runs_with_different_test_sets_or_signatures_are_not_compared(tmp_path):
    write_run(tmp_path / "0", "attention=dot", "seed=1")
    write_run(tmp_path / "1", "attention=dot", "seed=2", references=BAD)
    write_run(tmp_path / "2", "attention=none", "seed=1")
    (write_run(tmp_path / "3", "attention=uniform", "seed=1") / "test.hyp").unlink()
    file = write_run(tmp_path / "4", "attention=local") / "results.json"
    file.write_text(file.read_text().replace("tok:13a", "tok:char"))

    found = compare(tmp_path, "none")

    assert found["local"].reason == "the baseline has another test set"

    assert found["dot"].reason == "its runs have different test sets"
    assert found["uniform"].reason == "a run lacks test.npz, test.hyp or test.ref"


def test_an_empty_baseline_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the baseline is empty; name a group"):
        compare(write_study(tmp_path), "  ")


def test_a_baseline_that_fits_several_groups_is_refused(tmp_path):
    write_run(tmp_path / "0", "attention=dot", "model=luong")
    write_run(tmp_path / "1", "attention=dot", "model=bahdanau")
    write_run(tmp_path / "2", "attention=none", "model=bahdanau")

    with pytest.raises(ValueError, match=r"baseline=dot fits several groups: .*; give more key="):
        compare(tmp_path, "dot")


def test_a_baseline_may_be_typed_as_another_number(tmp_path):
    for name, smoothing, bleu in (("0", "0.0", 20.0), ("1", "0.001", 30.0)):
        write_run(tmp_path / name, f"training.label_smoothing={smoothing}", bleu=bleu)

    assert compare(tmp_path, "0")["0.001"].baseline.label == "0.0"
    assert compare(tmp_path, "training.label_smoothing=1e-3")["0.0"].baseline.label == "0.001"


def compare_all(groups, baselines, notes=None):
    comparisons = [
        BaselineComparison(group=group, baseline=baseline, reason="")
        for group, baseline in zip(groups, baselines, strict=True)
    ]
    compare_measures(comparisons, [] if notes is None else notes)
    return [each.measures for each in comparisons]


def test_differences_are_those_of_the_results(groups):
    group, baseline = sorted(groups, key=lambda group: group.label)

    row, of_baseline = compare_all([group, baseline], [baseline, None])

    assert of_baseline == {}
    names = ("chrf", "ter", "loss", "perplexity", "character_loss")
    assert row.keys() == {*names}
    for name, found in row.items():
        expected = group.spread(name).mean - baseline.spread(name).mean
        assert found.effect == pytest.approx(expected, rel=1e-3, abs=1e-6)
        assert found.low <= found.effect <= found.high
        assert 0 < found.p_value <= 1


@pytest.mark.parametrize("more", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], ids=["tokens", "unknown"])
def test_measures_per_token_are_compared_only_with_the_same_tokens(groups, more):
    notes, [group, baseline] = [], groups
    rows = group.runs[0].statistics["loss"]
    group.runs[0].statistics["loss"] = rows + np.array(more)

    row, _ = compare_all([group, baseline], [baseline, None], notes)

    assert not {"loss", "perplexity"} & row.keys()
    assert {"character_loss", "chrf"} <= row.keys()
    assert notes[0].startswith("Loss, Perplexity, Entropy") and "in 1 of 2 groups" in notes[0]
    group.runs[0].statistics["loss"] = rows


def test_measures_that_need_no_model_are_compared_without_it(tmp_path):
    path = write_study(tmp_path)
    runs = read_runs([path])

    write_tables(runs, path, baseline=None)

    rows = {row["attention"]: row for row in read_rows(path / "groups.csv")}
    none = rows["none"]
    # The runs of write_study state a chrF that is not that of their translations.
    assert float(none["chrf_high"]) < 0 < float(none["ter_low"])
    assert float(none["ter_p"]) < 0.05
    assert none["perplexity_p"] == none["aer_difference"] == ""
    assert rows["dot"]["chrf_p"] == ""


def test_holm_corrects_over_the_groups_of_a_measure(tmp_path):
    groups = read_groups(write_study(tmp_path))
    dot, none = sorted(groups, key=lambda group: group.label)

    [one, _] = compare_all([none, dot], [dot, None])
    [first, second, _] = compare_all([none, none, dot], [dot, dot, None])

    assert first["ter"].p_value == second["ter"].p_value
    assert first["ter"].p_value == pytest.approx(min(1, 2 * one["ter"].p_value))


def test_parameters_have_no_deviation_and_unknown_measures_are_left_out(tmp_path):
    groups = read_groups(write_study(tmp_path))

    assert spread(groups[0], "parameters").text == "1,234"
    assert known_measures(groups, ["aer", "bleu"]) == ["bleu"]
