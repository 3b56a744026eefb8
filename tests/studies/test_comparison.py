import numpy as np
import pandas as pd
import pytest
from tiny_study import REFERENCES, read_finished, read_study, write_run, write_study

from seq2seq.studies.comparison import compare, find_baselines
from seq2seq.studies.tables import group_table, texts

BAD = ["A runs ."] * len(REFERENCES)


def baselines(path, baseline=None):
    return find_baselines(read_finished(path), baseline)


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

    found = baselines(tmp_path, "none")

    for source in ("en", "de"):
        baseline = found.loc[f"attention=dot data.source={source}", "baseline"]
        assert baseline == f"attention=none data.source={source}"
    chosen = baselines(tmp_path, "attention=none data.source=de")
    reason = chosen.loc["attention=dot data.source=en", "reason"]
    assert reason == "the baseline has another test set"


def test_runs_with_different_test_sets_or_signatures_are_not_compared(tmp_path):
    write_run(tmp_path / "0", "attention=dot", "seed=1")
    write_run(tmp_path / "1", "attention=dot", "seed=2", references=BAD)
    write_run(tmp_path / "2", "attention=none", "seed=1")
    (write_run(tmp_path / "3", "attention=uniform", "seed=1") / "test.hyp").unlink()
    file = write_run(tmp_path / "4", "attention=local") / "results.json"
    file.write_text(file.read_text().replace("tok:13a", "tok:char"))

    found = baselines(tmp_path, "none")

    assert found.loc["local", "reason"] == "the baseline has another test set"

    assert found.loc["dot", "reason"] == "its runs have different test sets"
    assert found.loc["uniform", "reason"] == "a run lacks test.npz, test.hyp or test.ref"


def test_a_baseline_that_fits_several_groups_is_refused(tmp_path):
    write_run(tmp_path / "0", "attention=dot", "model=luong")
    write_run(tmp_path / "1", "attention=dot", "model=bahdanau")
    write_run(tmp_path / "2", "attention=none", "model=bahdanau")

    with pytest.raises(ValueError, match=r"baseline=dot fits several groups: .*; give more key="):
        baselines(tmp_path, "dot")


def test_a_baseline_may_be_typed_as_another_number(tmp_path):
    for name, smoothing, bleu in (("0", "0.0", 20.0), ("1", "0.001", 30.0)):
        write_run(tmp_path / name, f"training.label_smoothing={smoothing}", bleu=bleu)

    assert baselines(tmp_path, "0").loc["0.001", "baseline"] == "0.0"
    typed = baselines(tmp_path, "training.label_smoothing=1e-3")
    assert typed.loc["0.0", "baseline"] == "0.001"


def test_differences_are_those_of_the_results(finished):
    found = compare(finished, pd.Series({"multihead": "none", "none": ""}), [])

    assert set(found.index.get_level_values("group")) == {"multihead"}
    names = ("bleu", "chrf", "ter", "certainty", "certainty_correlation")
    names += ("loss", "perplexity", "character_loss")
    assert list(found.index.unique("measure")) == [*names]
    means = finished.groupby("group")[[*names]].mean()
    for (name, _), row in found.iterrows():
        expected = means.loc["multihead", name] - means.loc["none", name]
        assert row["difference"] == pytest.approx(expected, rel=1e-3, abs=1e-6)
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
        assert 0 < row["p"] <= row["p_holm"] <= 1


@pytest.mark.parametrize("more", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], ids=["tokens", "unknown"])
def test_measures_per_token_are_compared_only_with_the_same_tokens(finished, more):
    statistics = finished["statistics"].iloc[0]
    statistics["loss"] = statistics["loss"] + np.array(more)

    found = compare(finished, pd.Series({"multihead": "none", "none": ""}), notes := [])

    names = set(found.index.get_level_values("measure"))
    assert not {"loss", "perplexity"} & names
    assert {"character_loss", "chrf"} <= names
    assert (
        notes[0].startswith("Certainty, Loss, Perplexity, Entropy")
        and "in 1 of 2 groups" in notes[0]
    )


def test_measures_that_need_no_model_are_compared_without_it(tmp_path):
    found = read_study(write_study(tmp_path)).differences

    assert set(found.index.get_level_values("group")) == {"none"}
    # The runs of write_study state a chrF that is not that of their translations.
    assert found.loc[("chrf", "none"), "difference_high"] < 0
    ter = found.loc[("ter", "none")]
    assert ter["difference_low"] > 0 and ter["p_holm"] < 0.05
    assert not {"perplexity", "aer"} & set(found.index.get_level_values("measure"))


def test_holm_corrects_over_the_groups_of_a_measure(tmp_path):
    for seed in (1, 2, 3):
        for name, translations in (
            ("dot", REFERENCES),
            ("none", BAD),
            ("local", BAD[1:] + REFERENCES[:1]),
        ):
            write_run(
                tmp_path / f"{name}-{seed}",
                f"attention={name}",
                f"seed={seed}",
                translations=translations[seed:] + translations[:seed],
            )

    found = compare(read_finished(tmp_path), pd.Series({"none": "dot", "local": "dot"}), [])

    for _, rows in found.groupby("measure"):
        p_values = rows["p"].sort_values()
        corrected = rows.loc[p_values.index, "p_holm"].tolist()
        first, second = min(1, 2 * p_values.iloc[0]), p_values.iloc[1]
        assert corrected == pytest.approx([first, max(first, second)])


def test_a_row_has_means_and_deviations_and_the_comparison_in_bleu(tmp_path):
    study = read_study(write_study(tmp_path))

    table = group_table(study, ("valid_bleu", "bleu", "aer", "parameters"))

    bleu = study.differences.loc[("bleu", "none")]
    assert list(table.index) == ["dot", "none"] and table.index.name == "attention"
    assert "AER" not in table
    assert dict(table.loc["dot"]) == {
        "Runs": "2",
        "Validation BLEU": "31.00 \xb1 1.41",
        "BLEU": "31.00 \xb1 1.41",
        "Difference": "baseline",
        "Interval": "-",
        "p (Holm)": "-",
        "Parameters": "1,234",  # without a deviation
    }
    assert table.loc["none", "Difference"] == f"{bleu['difference']:+.2f}"


def test_the_aer_of_the_diagonal_stands_beside_the_aer(tmp_path):
    file = write_run(tmp_path / "run", "attention=dot", aer=0.25) / "results.json"
    file.write_text(file.read_text().replace('"aer"', '"aer_of_diagonal": 0.5, "aer"'))

    table = texts(read_study(tmp_path).groups, ("bleu", "aer"))

    assert list(table) == ["BLEU", "AER", "AER of diagonal"]
    assert table["AER of diagonal"].tolist() == ["0.500"]
