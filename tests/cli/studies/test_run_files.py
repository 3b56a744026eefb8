import json
import os
import re

import pytest
from tiny_study import SIGNATURE, write_run

from seq2seq.cli.studies.comparison import compare_with_baseline
from seq2seq.cli.studies.run_files import (
    RESULTS,
    Results,
    read_config,
    read_overrides,
    read_results,
)
from seq2seq.cli.studies.runs import group_runs, read_runs

HEAD = {"entropy": 0.5, "coverage": 1, "sharpness": 0.75, "alignment_error_rate": None}


def results_without(path, *keys):
    """Write a run whose results lack a value; return the file."""
    file = write_run(path) / RESULTS
    results = json.loads(file.read_text())
    place = results
    for key in keys[:-1]:
        place = place[key]
    del place[keys[-1]]
    file.write_text(json.dumps(results))
    return file


def test_measures_are_those_that_the_run_has(tmp_path):
    file = write_run(tmp_path / "run", bleu=31.5, aer=0.25) / RESULTS

    results = read_results(file)

    assert results.measures["bleu"] == results.measures["valid_bleu"] == 31.5
    assert (results.measures["minutes"], results.measures["aer"]) == (1.5, 0.25)
    assert "coverage" not in results.measures
    assert results.signature == SIGNATURE


def test_a_run_without_a_test_set_has_its_validation_score(tmp_path):
    file = write_run(tmp_path / "run", bleu=31.5) / RESULTS
    file.write_text(json.dumps(json.loads(file.read_text()) | {"test": None}))

    results = read_results(file)

    assert results.measures["valid_bleu"] == 31.5
    assert not {"bleu", "chrf", "perplexity"} & results.measures.keys()
    assert results.signature == ""


@pytest.mark.parametrize("name", ["test", "valid.bleu", "parameters", "seconds"])
def test_a_missing_value_is_named_with_its_file(tmp_path, name):
    file = results_without(tmp_path / "run", *name.split("."))

    with pytest.raises(ValueError, match=f"^{re.escape(str(file))} has no {name}"):
        read_results(file)


def test_a_cut_file_is_named(tmp_path):
    file = write_run(tmp_path / "run") / RESULTS
    file.write_text(file.read_text()[:20])

    with pytest.raises(ValueError, match=f"^{re.escape(str(file))} is damaged"):
        read_results(file)


def test_a_damaged_run_is_listed_as_failed_beside_the_others(tmp_path):
    write_run(tmp_path / "0-good", "seed=1")
    file = results_without(tmp_path / "1-bad", "seconds")

    good, bad = read_runs([tmp_path])

    assert (good.name, good.failure) == ("0-good", None)
    assert bad.failure is not None
    assert bad.failure.startswith(f"{file} has no seconds")


def test_equal_values_are_equal_texts_however_they_were_typed(tmp_path):
    overrides = ("rate=1e-3", "a.b=null", "c=TRUE", "data.train=['x.de', y.en]", "+model=luong")
    found = read_overrides(write_run(tmp_path / "run", *overrides))

    assert found == {
        "rate": "0.001",
        "a.b": "null",
        "c": "true",
        "data.train": "[x.de,y.en]",
        "model": "luong",
    }
    (tmp_path / "run" / "config.yaml").write_text(
        "rate: 0.001\na: {b: null}\nc: true\ndata: {train: [x.de, y.en]}\n"
    )
    assert read_config(tmp_path / "run").items() <= found.items()


@pytest.mark.parametrize("text", ["a: [", "- a", "\x00", "x: ${y", "a: &a [*a]", "[" * 3000])
def test_a_damaged_configuration_is_named(tmp_path, text):
    file = write_run(tmp_path / "run") / "config.yaml"
    file.write_text(text)

    with pytest.raises(ValueError, match=f"^{re.escape(str(file))} is "):
        read_config(file.parent)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"valid": {"bleu": "high"}}, "valid_bleu='high' is not a number"),
        ({"seconds": "long"}, "minutes='long' is not a number"),
        ({"seconds": True}, "minutes=True is not a number"),
        ({"test": [1]}, r"test=\[1\] is not a set of scores"),
        ({"test": "high"}, "test='high' is not a set of scores"),
    ],
)
def test_a_measure_that_is_not_a_number_is_named(tmp_path, content, reason):
    file = write_run(tmp_path / "run") / RESULTS
    file.write_text(json.dumps(json.loads(file.read_text()) | content))

    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: {reason}"):
        read_results(file)


@pytest.mark.parametrize(
    ("heads", "reason"),
    [
        (2, ": heads=2 is not a list; train the run again"),
        ([1.5], " has no entropy; train the run again"),
        ([{**HEAD, "sharpness": "high"}], ": sharpness='high' is not a number"),
        ([{"entropy": 0.5, "coverage": 0.5, "sharpness": 0.5}], " has no alignment_error_rate"),
    ],
)
def test_damaged_statistics_of_heads_make_the_run_a_failed_one(tmp_path, heads, reason):
    file = write_run(tmp_path / "run") / RESULTS
    content = json.loads(file.read_text())
    content["test"]["heads"] = heads
    file.write_text(json.dumps(content))

    [run] = read_runs([tmp_path])

    assert run.results == Results()
    assert run.failure.startswith(f"{file}{reason}")


def test_heads_are_read_with_the_keys_of_the_tables(tmp_path):
    file = write_run(tmp_path / "run") / RESULTS
    content = json.loads(file.read_text())
    content["test"]["heads"] = [HEAD]
    file.write_text(json.dumps(content | {"device": "cpu", "training_data": "ab"}))

    results = read_results(file)

    assert results.heads == [{"entropy": 0.5, "coverage": 1.0, "sharpness": 0.75, "aer": None}]
    assert (results.device, results.training_data) == ("cpu", "ab")


@pytest.mark.parametrize("name", ["config.yaml", "overrides.txt", "failed.txt", "test.hyp"])
def test_a_named_pipe_is_not_awaited(tmp_path, name):
    path = write_run(tmp_path / "run", "seed=1")
    (path / name).unlink(missing_ok=True)
    os.mkfifo(path / name)

    [run] = read_runs([path])

    assert run.failure is None
    assert compare_with_baseline(group_runs([run]), None)[0].result is None


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("config.yaml", b"a: [", "config.yaml is damaged"),
        ("results.json", b"[" * 100_000, "results.json is damaged"),
        ("overrides.txt", b"\xff\xfe", "overrides.txt is damaged"),
        ("failed.txt", b"", "its failed.txt is empty"),
        ("failed.txt", b"\xff", "failed.txt is damaged"),
        ("test.hyp", b"one line\n", "test.hyp has 1 lines and test.ref has 30"),
        ("test.ref", b"\xff\n" * 30, "test.ref is damaged"),
    ],
)
def test_a_damaged_file_fails_its_run_alone(tmp_path, name, content, reason):
    write_run(tmp_path / "0-good", "seed=1")
    (write_run(tmp_path / "1-bad", "seed=2") / name).write_bytes(content)

    good, bad = read_runs([tmp_path])

    assert (good.name, good.failure) == ("0-good", None)
    assert (bad.name, bad.results.measures) == ("1-bad", {})
    assert bad.failure is not None
    assert reason in bad.failure
