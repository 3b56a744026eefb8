import io
import os

import numpy as np
import pytest
from tiny_study import (
    SIGNATURE,
    change_results,
    read_finished,
    record_failure,
    write_run,
    write_study,
)

from seq2seq.config.schema import load_config
from seq2seq.config.serialization import save_config
from seq2seq.evaluation.measures import Sentences, measure
from seq2seq.files.lock import LOCK_NAME
from seq2seq.studies.comparison import find_baselines
from seq2seq.studies.probes import name_in_group
from seq2seq.studies.runs import RUN_MEASURES, finished_runs, groups_of, outcome, read_runs
from seq2seq.training.run_directory import RunDirectory


def write_configured(path, *overrides):
    """Write a run of a sweep with its configuration."""
    save_config(load_config(*overrides), write_run(path, *overrides) / "config.yaml")


def swept(path):
    runs = read_runs([path])
    return dict(zip(runs["run"], runs["swept"], strict=True))


def test_runs_are_sorted_by_validation_and_failed_ones_come_last(tmp_path):
    write_run(tmp_path / "0-none", bleu=40.0, valid_bleu=9.5)
    write_run(tmp_path / "1-dot", bleu=30.0, valid_bleu=31.0)
    write_run(tmp_path / "2-zero", bleu=50.0, valid_bleu=0.0)
    record_failure(tmp_path / "3-odd", "attention.num_heads=3 must divide attention.size=256")

    runs = read_runs([tmp_path])

    assert list(runs["run"]) == ["1-dot", "0-none", "2-zero", "3-odd"]
    assert list(runs["failure"])[2:] == [
        "",
        "attention.num_heads=3 must divide attention.size=256",
    ]


def test_keys_that_say_how_a_run_starts_are_not_swept(tmp_path):
    write_run(tmp_path / "0", "seed=1", "overwrite=true", "run_name=a")
    write_run(tmp_path / "1", "seed=2", "resume=true", "run_name=b")

    assert swept(tmp_path) == {"0": {"seed": "1"}, "1": {"seed": "2"}}


def test_a_value_that_one_sweep_leaves_to_its_default_comes_from_the_configuration(tmp_path):
    write_configured(tmp_path / "0", "seed=1")
    write_configured(tmp_path / "1", "seed=1", "attention=dot")

    assert swept(tmp_path) == {"0": {"attention": "additive"}, "1": {"attention": "dot"}}


def test_a_value_is_one_group_however_it_was_typed(tmp_path):
    smoothing = "training.label_smoothing"
    null = "training.validation.patience=null"
    write_configured(tmp_path / "0", "seed=1", f"{smoothing}=0", null)
    defaults = "model_size=small", "attention=additive"
    write_configured(tmp_path / "1", "seed=2", f"{smoothing}=0.0", *defaults)

    [runs] = groups_of(read_finished(tmp_path)).values()

    assert list(runs["seed"]) == ["1", "2"]


def test_a_fixed_value_of_a_job_that_failed_before_its_configuration_is_not_swept(tmp_path):
    for attention in ("dot", "none"):
        write_configured(
            tmp_path / attention, f"attention={attention}", "training.label_smoothing=0"
        )
    record_failure(tmp_path / "odd", "no", ["attention=multihead", "training.label_smoothing=0"])

    assert [each.keys() for each in swept(tmp_path).values()] == [{"attention"}] * 3


def test_runs_of_no_sweep_are_compared_by_their_configurations(tmp_path):
    for name, overrides in {
        "a": ["attention=multihead", "seed=1"],
        "b": ["attention=none", "seed=2", "model.encoder.hidden_size=8"],
        "c": ["attention=none", "seed=3"],
    }.items():
        config = load_config(*overrides, f"run_name={name}")
        save_config(config, write_run(tmp_path / name) / "config.yaml")
    record_failure(tmp_path / "d", "no such package", ["seed=1"])

    keys = {"attention", "seed", "model.encoder.hidden_size"}
    assert swept(tmp_path)["a"].keys() == keys  # none of attention.size and so on
    assert swept(tmp_path)["b"]["attention"] == "none"
    assert len(groups_of(read_finished(tmp_path))) == 3


def test_what_is_not_a_run_is_not_listed(tmp_path):
    write_run(tmp_path / "0-none")
    (tmp_path / ".submitit" / "123").mkdir(parents=True)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "1.png").write_bytes(b"")
    (tmp_path / "multirun.yaml").write_text("x: 1\n")

    assert list(read_runs([tmp_path])["run"]) == ["0-none"]


@pytest.mark.parametrize("left", [None, "config.yaml", LOCK_NAME])
def test_a_killed_job_was_stopped(tmp_path, left):
    (tmp_path / "0-none").mkdir()
    if left is not None:
        (tmp_path / "0-none" / left).write_text("seed: 1\n")

    assert [outcome(run) for _, run in read_runs([tmp_path]).iterrows()] == [
        "0-none stopped before it wrote results.json; resume=true continues it"
    ]


@pytest.mark.parametrize("again", ["", "0-grammar-none-seed-1"])
def test_a_run_that_is_named_or_linked_to_twice_counts_once(tmp_path, again):
    sweep = write_study(tmp_path / "sweep")
    elsewhere = write_run(tmp_path / "elsewhere", "attention=dot", "seed=9")
    names = {f"sweep/{path.name}" for path in sweep.iterdir()}
    (sweep / "again").symlink_to(elsewhere)
    (sweep / "latest").symlink_to(min(path.name for path in sweep.iterdir()))
    (sweep / "once-more").symlink_to(elsewhere)

    found = list(read_runs([sweep, sweep / again])["run"])

    assert len(found) == 5
    assert set(found) == {*names, "sweep/again"}


def test_several_sweeps_and_single_runs_are_read_together(tmp_path):
    write_run(tmp_path / "a" / "0-dot", "attention=dot", bleu=30.0)
    write_run(tmp_path / "b" / "0-dot", "attention=none", bleu=20.0)

    runs = read_runs([tmp_path / "a", tmp_path / "b" / "0-dot"])

    assert list(runs["run"]) == ["a/0-dot", "0-dot"]
    assert list(runs["swept"]) == [{"attention": "dot"}, {"attention": "none"}]


def test_a_directory_without_runs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no runs; name a sweep"):
        read_runs([tmp_path])


def test_measures_are_those_that_the_run_has(tmp_path):
    path = write_run(tmp_path / "run", bleu=31.5, aer=0.25)
    change_results(path, device="cpu")
    weights = np.full((2, 3, 4), 0.25)
    found = measure(Sentences(attention=[weights] * 30))
    RunDirectory(path).write_statistics("test", {**found, "map_0": weights[0]})

    run = read_runs([path]).iloc[0]

    assert run["bleu"] == run["valid_bleu"] == 31.5
    assert (run["minutes"], run["aer"]) == (1.5, 0.25)
    assert np.isnan(run["coverage"])
    assert (run["signature"], run["device"]) == (SIGNATURE, "cpu")
    assert run["statistics"].keys() == found.keys()
    assert [each.tolist() for each in run["maps"]] == [weights[0].tolist()]


def test_equal_values_are_equal_texts_however_they_were_typed(tmp_path):
    overrides = ("rate=1e-3", "a.b=null", "c=TRUE", "data.train=['x.de', y.en]", "+model=luong")
    path = write_run(tmp_path / "run", *overrides)
    (path / "config.yaml").write_text(
        "rate: 0.001\na: {b: null}\nc: true\ndata: {train: [x.de, y.en]}\nmodel: {name: luong}\n"
    )

    run = read_runs([path]).iloc[0]

    assert run["overrides"].items() <= run["config"].items()
    assert run["config"]["data.train"] == "[x.de,y.en]"


@pytest.mark.parametrize(
    "name", ["config.yaml", "overrides.txt", "failed.txt", "test.hyp", "test.npz"]
)
def test_a_named_pipe_is_not_awaited(tmp_path, name):
    path = write_run(tmp_path / "run", "seed=1")
    (path / name).unlink(missing_ok=True)
    os.mkfifo(path / name)

    runs = read_runs([path])

    assert list(runs["failure"]) == [""]
    assert find_baselines(finished_runs(runs), None)["baseline"].tolist() == [""]


RESULTS = (
    b'{"valid":{"bleu":%b},"test":null,"parameters":1,"seconds":%b,'
    b'"target_tokens_per_second":1,"best_update":1}'
)


OTHER_STATISTICS = io.BytesIO()
np.savez(OTHER_STATISTICS, bleu=np.ones((3, 1, 10)))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        *(
            ("config.yaml", text, "config.yaml: ")
            for text in (b"a: [", b"- a", b"\0", b"x: ${y", b"a: &a [*a]", b"[" * 3000)
        ),
        ("results.json", b"{}", "results.json: "),
        (
            "results.json",
            b'{"valid":{"bleu":1},"test":1,"parameters":1,"seconds":1,'
            b'"target_tokens_per_second":1}',
            "results.json: 'best_update' is missing",
        ),
        *(
            ("results.json", RESULTS % values, reason)
            for values, reason in (
                ((b'"high"', b"9"), "could not convert string to float: 'high'"),
                ((b"1.5", b'"long"'), "could not convert string to float: 'long'"),
                ((b"[1.5]", b"9"), "not 'list'"),
                ((b"null", b"9"), "not 'NoneType'"),
            )
        ),
        ("results.json", b"[1]", "results.json: "),
        ("results.json", b'{"valid": ', "results.json: "),
        ("results.json", b"[" * 100_000, "results.json: "),
        ("overrides.txt", b"\xff\xfe", "overrides.txt: "),
        ("failed.txt", b"", "its failed.txt is empty"),
        ("failed.txt", b"\xff", "failed.txt: "),
        ("test.hyp", b"one line\n", "test.{hyp,ref} have different numbers of lines"),
        ("test.ref", b"\xff\n" * 30, "test.ref: "),
        ("test.npz", b"PK", "test.npz: "),
        ("test.npz", OTHER_STATISTICS.getvalue(), "its sentences are not those of test.ref"),
    ],
)
def test_a_damaged_file_fails_its_run_alone(tmp_path, name, content, reason):
    write_run(tmp_path / "0-good", "seed=1")
    (write_run(tmp_path / "1-bad", "seed=2") / name).write_bytes(content)

    runs = read_runs([tmp_path])

    (_, good), (_, bad) = runs.iterrows()
    assert (good["run"], good["failure"]) == ("0-good", "")
    assert bad["run"] == "1-bad" and runs[[*RUN_MEASURES]].iloc[1].isna().all()
    assert reason in bad["failure"]


def test_runs_of_a_group_with_one_seed_have_their_own_names(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_run(tmp_path / name, "attention=dot", f"seed={seed}")
    write_run(tmp_path / "d", "attention=none", "seed=1")
    runs = groups_of(read_finished(tmp_path))["dot"]

    names = [name_in_group(run, runs) for _, run in runs.iterrows()]
    assert sorted(names) == ["a", "b", "dot, seed 2"]
