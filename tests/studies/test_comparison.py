import pytest
from tiny_study import REFERENCES, write_run, write_study

from seq2seq.studies.comparison import compare_with_baseline
from seq2seq.studies.runs import group_runs, read_runs

BAD = ["A runs ."] * len(REFERENCES)


def compare(path, baseline=None):
    groups = group_runs(read_runs([path]))
    found = compare_with_baseline(groups, baseline)
    return {group.label: each for group, each in zip(groups, found, strict=True)}


def test_each_group_is_compared_with_the_best_by_validation(tmp_path):
    found = compare(write_study(tmp_path))

    assert (found["dot"].baseline, found["dot"].result, found["dot"].reason) == (None, None, "")
    assert found["none"].baseline.label == "dot"
    assert found["none"].result.effect < -90
    assert found["none"].result.p_corrected < 0.05


@pytest.mark.parametrize("baseline", ["none", "attention=none"])
def test_the_baseline_can_be_chosen(tmp_path, baseline):
    found = compare(write_study(tmp_path), baseline)

    assert found["none"].result is None
    assert found["dot"].result.effect > 90


def test_the_p_values_are_corrected_for_the_number_of_comparisons(tmp_path):
    for name in ("a", "b", "c"):
        write_run(
            tmp_path / name, f"attention={name}", translations=BAD if name != "a" else REFERENCES
        )

    found = compare(tmp_path, "a")

    for name in ("b", "c"):
        assert found[name].result.p_corrected == pytest.approx(2 * found[name].result.p_value)


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
    assert found["uniform"].reason == "a run has no test.npz, test.hyp or test.ref"


@pytest.mark.parametrize(
    ("baseline", "reason"),
    [
        ("odd", "baseline=odd is not a group of the study; one of: dot, none"),
        ("  ", "the baseline is empty; name a group"),
    ],
)
def test_an_unknown_baseline_is_refused(tmp_path, baseline, reason):
    with pytest.raises(ValueError, match=reason):
        compare(write_study(tmp_path), baseline)


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
