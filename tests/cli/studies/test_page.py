import json
import shutil

from tiny_study import SIGNATURE, write_run, write_study

from seq2seq.cli.studies.run_files import record_failure
from seq2seq.visualization.report_page import plotly_script


def test_a_trained_study_is_reported_in_full(trained, report):
    page, data = report(trained)

    for title in ("Results", "Learning curves", "Attention", "Length and rare words"):
        assert f">{title}</h2>" in page
    assert "All runs ended, and all of them are compared." in page
    assert sorted(data["groups"]) == ["multihead", "none"]
    assert len(data["charts"]) == 6
    assert len(data["sentences"]) == 3
    assert len(page) - len(plotly_script()) < 200_000


def test_failures_missing_seeds_and_other_signatures_are_named(tmp_path, report):
    write_run(tmp_path / "0", "attention=dot", "seed=1")
    write_run(tmp_path / "1", "attention=dot", "seed=2")
    write_run(tmp_path / "2", "attention=none", "seed=1")
    results = tmp_path / "2" / "results.json"
    results.write_text(results.read_text().replace("tok:13a", "tok:char"))
    record_failure(tmp_path / "3", "the loss is not finite", ["attention=none", "seed=2"])

    page, _ = report(tmp_path)

    assert "<li>3 failed: the loss is not finite.</li>" in page
    assert "<li>none has no results with seed 2.</li>" in page
    assert "different signatures" in page
    assert SIGNATURE in page
    assert SIGNATURE.replace("13a", "char") in page
    assert "All runs ended" not in page


def test_different_devices_are_named(tmp_path, report):
    for number, device in enumerate(("cpu, 1 threads", "NVIDIA H100")):
        write_run(tmp_path / f"{number}", f"attention={number}")
        results = tmp_path / f"{number}" / "results.json"
        results.write_text(json.dumps({**json.loads(results.read_text()), "device": device}))

    page, _ = report(tmp_path)

    assert "times cannot be compared: cpu, 1 threads; NVIDIA H100.</li>" in page


def test_runs_of_one_seed_in_a_group_are_named(tmp_path, report):
    for number, (name, seed) in enumerate([("dot", 1), ("dot", 1), ("none", 1), ("none", 2)]):
        write_run(tmp_path / f"{number}", f"attention={name}", f"seed={seed}")

    page, _ = report(tmp_path)

    assert "<li>dot has several runs with one seed; they count as different seeds" in page
    assert "none has several" not in page


def test_what_a_run_has_not_kept_is_named(tmp_path, report):
    page, data = report(write_study(tmp_path))

    assert "0-grammar-none-seed-1 has no learning curves" in page
    assert "BLEU by source length needs" in page
    assert "Words are not scored by training frequency" in page
    assert "No sentences are shown" in page
    assert data["sentences"] == []


def test_a_damaged_checkpoint_leaves_out_its_translations_only(trained, tmp_path, report):
    shutil.copytree(trained, tmp_path / "copy")
    for path in (tmp_path / "copy").glob("none-*/best.pt"):
        path.write_bytes(b"damaged")

    page, data = report(tmp_path / "copy")

    assert "translates no sentences here" in page
    translations = [one for each in data["sentences"] for one in each["translations"]]
    assert {data["groups"][one["group"]] for one in translations} == {"multihead"}


def test_a_study_without_results_has_a_report(tmp_path, report):
    record_failure(tmp_path / "0", "no memory", ["attention=none"])

    page, _ = report(tmp_path)

    assert "No run has results." in page
    assert "0 failed: no memory." in page
