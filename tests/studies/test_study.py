import errno
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from tiny_study import read_rows, record_failure, write_run, write_study

from seq2seq.studies.runs import RUN_MEASURES, read_runs
from seq2seq.studies.study import find_differences, list_files, write_tables


def tables(path, *, baseline=None):
    """Return the terminal's table and the rows of both files."""
    text = write_tables(read_runs([path]), path, baseline=baseline)
    return text, read_rows(path / "leaderboard.csv"), read_rows(path / "groups.csv")


def sweep(path):
    write_run(path / "0-none", "attention=none", bleu=9.5)
    write_run(path / "1-dot", "attention=dot", bleu=30.25, valid_bleu=29.0, aer=0.125)
    record_failure(path / "2-odd", "attention.num_heads=3 must divide", ["attention=odd"])
    (path / "3-killed").mkdir()
    write_run(path / "4-additive", "attention=additive", bleu=100.0)
    return path


def test_the_leaderboard_has_a_row_for_each_run_and_a_column_for_each_swept_key(tmp_path):
    _, rows, _ = tables(sweep(tmp_path))

    assert [row["run"] for row in rows] == ["4-additive", "1-dot", "0-none", "2-odd", "3-killed"]
    known = {
        "run": "1-dot",
        "attention": "dot",
        "valid_bleu": "29",
        "bleu": "30.25",
        "chrf": "50.5",
        "ter": "30.25",
        "perplexity": "2.5",
        "aer": "0.125",
        "entropy": "0.5",
        "sharpness": "0.75",
        "parameters": "1234",
        "minutes": "1.5",
        "tokens_per_second": "567.8",
        "best_update": "12",
    }
    assert {name: value for name, value in rows[1].items() if value} == known
    assert rows[1].keys() - known.keys() == {*RUN_MEASURES} - known.keys() | {"failure"}
    assert (rows[3]["attention"], rows[3]["bleu"]) == ("odd", "")
    assert rows[3]["failure"].startswith("attention.num_heads=3")
    assert rows[4]["failure"].startswith("stopped before it wrote results.json")


def test_groups_have_means_deviations_and_the_difference_from_the_baseline(tmp_path):
    text, _, rows = tables(write_study(tmp_path))

    assert [row["attention"] for row in rows] == ["dot", "none"]
    none = rows[1]
    assert "*" not in text
    assert "seed" not in none
    assert (none["runs"], none["failed_runs"]) == ("2", "0")
    assert (none["bleu"], none["bleu_deviation"]) == ("10", "0.707106781187")
    assert (none["minutes"], none["minutes_deviation"]) == ("1.5", "0")
    assert (none["aer"], none["aer_deviation"]) == ("", "")
    assert none["baseline"] == "dot"
    assert rows[0]["baseline"] == rows[0]["not_compared"] == ""
    bleu, *_ = read_rows(tmp_path / "differences.csv")
    assert (bleu["measure"], bleu["group"], bleu["covers"]) == (
        "bleu",
        "none",
        "seeds and sentences",
    )
    low, effect, high = (float(bleu[f"difference{end}"]) for end in ("_low", "", "_high"))
    assert low <= effect <= high < 0
    assert 0 < float(bleu["p"]) <= float(bleu["p_holm"]) < 0.05


def test_the_table_shows_groups_with_their_spread_if_seeds_are_swept(tmp_path):
    text, _, _ = tables(write_study(tmp_path), baseline="none")

    header, dot, none, *_ = text.splitlines()
    assert header.split()[:5] == ["attention", "Runs", "Validation", "BLEU", "BLEU"]
    assert "Difference" in header and "p (Holm)" in header
    assert dot.split()[:8] == ["dot", "2", "31.00", "\xb1", "1.41", "31.00", "\xb1", "1.41"]
    assert " +9" in dot
    assert " baseline " in none
    assert len(header) == len(dot) == len(none)


def test_failures_are_named_below_the_table(tmp_path):
    lines = tables(sweep(tmp_path))[0].splitlines()

    assert lines[1].split()[:4] == ["additive", "1", "100.00", "100.00"]
    assert len({len(line) for line in lines[:4]}) == 1
    assert lines[4:7] == [
        "* one run on a side: these sentences only, not other seeds",
        "warning: 2-odd failed: attention.num_heads=3 must divide.",
        "warning: 3-killed stopped before it wrote results.json; resume=true continues it.",
    ]


def test_different_test_sets_and_a_seed_that_a_group_has_twice_are_warned_of(tmp_path):
    for number, (name, seed) in enumerate([("dot", 1), ("dot", 1), ("none", 1), ("none", 2)]):
        write_run(tmp_path / f"{number}", f"attention={name}", f"seed={seed}")
    write_run(tmp_path / "4", "attention=local", "seed=1", references=["A runs ."] * 30)

    text, *_ = tables(tmp_path)

    assert "\nwarning: The runs have 2 different test sets, and scores on different test" in text
    assert "\nwarning: dot has several runs with one seed; they count as different seeds" in text
    assert "none has several" not in text


def test_a_study_whose_runs_all_failed_says_so(tmp_path):
    record_failure(tmp_path / "0-none", "no such file")

    text, rows, groups = tables(tmp_path)

    assert text == "no run has results\nwarning: 0-none failed: no such file."
    assert ([row["run"] for row in rows], groups) == (["0-none"], [])
    page = (tmp_path / "report.html").read_text()
    assert "No run has results." in page
    assert "0-none failed: no such file." in page


def test_a_single_run_is_compared_with_nothing(tmp_path):
    write_run(tmp_path / "0-none", "attention=none", bleu=0.0)

    text, [row], [group] = tables(tmp_path)

    assert "Difference" not in text
    assert (row["run"], row["bleu"]) == ("0-none", "0")
    assert (group["runs"], group["not_compared"]) == ("1", "")


def test_a_report_without_interventions_removes_those_of_an_earlier_one(tmp_path):
    write_study(tmp_path)
    (tmp_path / "interventions.csv").write_text("group,intervention\n")

    text, *_ = tables(tmp_path)

    assert "\nwarning: Removed the old interventions.csv; interventions=... writes a new" in text
    assert "interventions" not in list_files(tmp_path)


def test_a_full_disk_leaves_the_tables_of_before(tmp_path, monkeypatch):
    tables(sweep(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}

    def fail(descriptor):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        tables(tmp_path)
    with pytest.raises(OSError, match="no space left"):
        record_failure(tmp_path / "2-odd", "another reason")

    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before
    assert (tmp_path / "2-odd" / "failed.txt").read_text().startswith("attention.num_heads=3")


def test_a_group_is_compared_in_its_attention_if_it_and_the_baseline_have_some(trained, tmp_path):
    path = shutil.copytree(trained, tmp_path / "study")
    for seed in (1, 2):
        copy = shutil.copytree(path / f"multihead-{seed}", path / f"copy-{seed}")
        (copy / "overrides.txt").write_text(f"attention=multihead\nseed={seed}\ninit_from=copy\n")
        text = (copy / "config.yaml").read_text()
        (copy / "config.yaml").write_text(text.replace("init_from: null", "init_from: copy"))

    found = find_differences(read_runs([path]), "attention=multihead init_from=null")

    names = ["copy" if "copy" in label else label.split()[0] for label in found.groups.index]
    groups = found.groups.set_axis(names)
    assert groups.loc[["attention=none", "attention=multihead"], "agreement_within"].isna().all()
    copy = groups.loc["copy"]
    within = found.divergence[np.triu_indices_from(found.divergence, 1)]
    assert np.isclose(within, copy["agreement_within"]).any()
    # Of the four pairs between the groups, two are a run and its copy.
    assert copy["agreement_between"] == pytest.approx(copy["agreement_within"] / 2)
    assert 0 <= copy["link_aer_within"] <= 1
    assert copy["link_aer_between"] == pytest.approx(copy["link_aer_within"] / 2)
    assert len(found.losses) == 0
    # Of two seeds each, no division is rare enough.
    assert np.isnan(copy["agreement_p"])
    assert copy["agreement_seeds_needed"] == 4
    [note] = [note for note in found.notes if "attention" in note]
    assert "for 1 comparison, p can be below 0.05 only with 4 or more seeds" in note


def test_pandas_is_imported_only_where_runs_are_read():
    starts = ["seq2seq", "seq2seq.cli.train", "seq2seq.cli.translate", "seq2seq.cli.serve"]
    starts += ["seq2seq.cli.score", "seq2seq.cli.export", "seq2seq.visualization.page"]
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    code += "; sys.exit('pandas' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code, *starts]).returncode == 0
