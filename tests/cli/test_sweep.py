import pickle
import re

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from tiny_study import read_rows, record_failure, write_run, write_study

from seq2seq.cli.sweep import SWEEP, StudySummary, run_job, unnamed_keys
from seq2seq.files.lock import LOCK_NAME, DirectoryLock


@pytest.fixture(autouse=True)
def hydra_config(monkeypatch):
    config = OmegaConf.create({"overrides": {"task": ["attention=dot", "seed=2"]}})
    monkeypatch.setattr(HydraConfig, "get", lambda: config)


def fail_with(error):
    def fail(*arguments):
        raise error

    return fail


def test_a_job_returns_its_result_and_keeps_and_prints_its_overrides(tmp_path, capsys):
    (tmp_path / "0-dot").mkdir()

    assert run_job(tmp_path / "0-dot", lambda: 31.5) == 31.5

    assert (tmp_path / "0-dot" / "overrides.txt").read_text() == "attention=dot\nseed=2\n"
    assert capsys.readouterr().err == "\n0-dot: attention=dot seed=2\n"


@pytest.mark.parametrize(
    ("error", "line", "is_ours"),
    [(ValueError("a\n b"), "a b", False), (ZeroDivisionError("ours"), "ours", True)],
)
def test_an_error_is_recorded_in_one_line_and_a_bug_shows_its_traceback(
    tmp_path, capsys, error, line, is_ours
):
    assert run_job(tmp_path / "0-dot", fail_with(error)) is None

    assert (tmp_path / "0-dot" / "failed.txt").read_text() == f"{line}\nattention=dot\nseed=2\n"
    shown = capsys.readouterr().err
    assert shown.endswith(f"\n0-dot failed: {line}\n")
    assert ("Traceback" in shown) == is_ours


def test_a_job_leaves_no_trace_in_the_directory_of_a_live_run(tmp_path, capsys):
    (tmp_path / "0-dot").mkdir()
    advice = "wait"
    with DirectoryLock(tmp_path / "0-dot", advice=advice):
        second = DirectoryLock(tmp_path / "0-dot", advice=advice)

        assert run_job(tmp_path / "0-dot", second.acquire) is None

        assert [path.name for path in (tmp_path / "0-dot").iterdir()] == [LOCK_NAME]
    assert "0-dot failed: " in capsys.readouterr().err


def sweep_config(path, *, resume=False, overwrite=False):
    hydra = {
        "sweep": {"dir": str(path)},
        "overrides": {"task": [], "hydra": []},
        "runtime": {"choices": {"hydra/launcher": "basic"}},
    }
    return OmegaConf.create(
        {"run_name": "x", "resume": resume, "overwrite": overwrite, "hydra": hydra}
    )


def summarise(path, **options):
    StudySummary(**options).on_multirun_end(sweep_config(path))


def refusal(capsys, config, **options):
    """Return what a sweep writes that may not start."""
    with pytest.raises(SystemExit) as end:
        StudySummary(**options).on_multirun_start(config)

    assert end.value.code == 2
    return capsys.readouterr().err


def test_two_sweeps_in_one_directory_are_refused(tmp_path, capsys):
    config = sweep_config(write_study(tmp_path), resume=True)
    first = StudySummary()
    first.on_multirun_start(config)

    error = refusal(capsys, config)

    assert error.startswith(f"error: {config.hydra.sweep.dir} is in use by process ")
    assert error.endswith("stop it or choose another hydra.sweep.dir\n")
    first.on_multirun_end(config)
    StudySummary().on_multirun_start(config)
    SWEEP.end()


def test_a_new_sweep_is_refused_in_the_directory_of_another(tmp_path, capsys):
    sweep = write_study(tmp_path)

    error = refusal(capsys, sweep_config(sweep))

    assert error.startswith(f"error: {sweep} has runs of an earlier sweep, such as ")
    assert error.endswith(
        "; continue it with resume=auto, replace it with overwrite=true or choose another "
        "hydra.sweep.dir\n"
    )
    assert not (sweep / "leaderboard.csv").exists()


@pytest.mark.parametrize("change", [{"resume": "auto"}, {"resume": True}, {"overwrite": True}])
def test_a_sweep_may_continue_or_replace_another(tmp_path, change):
    config = sweep_config(write_study(tmp_path), **change)

    StudySummary().on_multirun_start(config)

    StudySummary().on_multirun_end(config)


def test_a_job_that_is_refused_beside_earlier_results_fails_the_sweep(tmp_path, capsys):
    sweep = write_study(tmp_path)
    run = next(sweep.glob("*/results.json")).parent
    run_job(run, fail_with(ValueError("seed=2 differs")))

    with pytest.raises(SystemExit, match="1"):
        summarise(sweep)

    assert f"{run.name} failed: seed=2 differs" in capsys.readouterr().err
    assert (run / "results.json").is_file()


def test_a_sweep_starts_again_where_every_run_was_refused(tmp_path):
    config = sweep_config(tmp_path)
    record_failure(tmp_path / "0-dot", "the data are missing")
    study = StudySummary()

    study.on_multirun_start(config)

    assert (tmp_path / LOCK_NAME).exists()
    SWEEP.end()


@pytest.mark.parametrize("resume", [True, "auto"])
def test_a_sweep_is_not_resumed_in_a_new_directory(tmp_path, capsys, resume):
    config = sweep_config(tmp_path / "sweep-${now:%Y}", resume=resume)

    line = f"error: resume={str(resume).lower()}: a sweep is resumed in its directory; add "
    assert refusal(capsys, config).startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_can_send_the_summary_to_its_jobs(tmp_path):
    study = StudySummary("dot")
    config = sweep_config(tmp_path)
    study.on_multirun_start(config)

    copy = pickle.loads(pickle.dumps(study))

    assert copy.baseline == "dot"
    SWEEP.end()


def test_the_other_processes_of_a_sweep_do_not_lock_it(tmp_path, monkeypatch):
    config = sweep_config(write_study(tmp_path), resume=True)
    first = StudySummary()
    first.on_multirun_start(config)

    with monkeypatch.context() as second_process:
        second_process.setenv("RANK", "1")
        StudySummary().on_multirun_start(config)

    first.on_multirun_end(config)


def test_the_summary_writes_the_tables(tmp_path, capsys, caplog):
    summarise(write_study(tmp_path), baseline="none")

    err = capsys.readouterr().err
    assert err.startswith("\nattention ")
    names = ("leaderboard.csv", "groups.csv", "differences.csv", "lengths.csv", "report.html")
    assert err.endswith("\n" + "".join(f"\n{tmp_path}/{name}" for name in names) + "\n")
    assert (tmp_path / "leaderboard.csv").exists()
    baselines = [row["baseline"] for row in read_rows(tmp_path / "groups.csv")]
    assert baselines == ["none", ""]
    assert "attributions" not in caplog.text


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"interventions": ["unifrom"]}, "unknown intervention 'unifrom'; one of: .*"),
        ({"interventions": "unifrom"}, "unknown intervention 'unifrom'; one of: .*"),
        (
            {"attributions": "maybe"},
            r"hydra\.callbacks\.study\.attributions='maybe' must be true or false",
        ),
    ],
)
def test_a_wrong_option_of_the_study_is_refused_before_the_first_run(
    tmp_path, capsys, options, line
):
    error = refusal(capsys, sweep_config(tmp_path), **options)

    assert re.fullmatch(f"error: {line}\n", error)


def test_the_summary_tells_what_interventions_cost_and_asks_for_attributions(
    tmp_path, capsys, caplog
):
    options = {"interventions": ["uniform", "frozen"], "attributions": True}
    summarise(write_study(tmp_path), baseline="none", **options)

    error = capsys.readouterr().err
    assert f"{tmp_path}/interventions.csv\n" in error
    rows = (tmp_path / "interventions.csv").read_text().splitlines()
    assert rows[0].startswith("group,intervention,runs,bleu_lost,bleu_lost_low")
    # These runs have no checkpoints, so none is translated again.
    assert rows[1].startswith("dot,uniform,0,,")
    assert "is left out: " in error
    assert caplog.text.count("no attributions: ") == 4


def test_the_summary_fails_if_a_run_failed(tmp_path, capsys):
    write_study(tmp_path)
    (tmp_path / "0-grammar-none-seed-1" / "failed.txt").write_text("a b\nattention=none\nseed=1\n")

    with pytest.raises(SystemExit, match="1"):
        summarise(tmp_path)

    assert "0-grammar-none-seed-1 failed: a b.\n" in capsys.readouterr().err


def test_an_unknown_baseline_does_not_cost_the_tables(tmp_path, capsys):
    summarise(write_study(tmp_path), baseline="odd")

    assert capsys.readouterr().err.startswith("warning: baseline=odd is not a group with results")
    assert (tmp_path / "groups.csv").exists()


@pytest.mark.parametrize(("baseline", "values"), [(0.1, ("0.1", "0.2")), (True, ("true", "false"))])
def test_a_baseline_may_be_a_number_or_a_truth_value(tmp_path, baseline, values):
    for value in values:
        write_run(tmp_path / f"0-{value}", f"model.dropout={value}", bleu=30.0 - len(value))

    summarise(tmp_path, baseline=baseline)

    assert f",{values[0]}," in (tmp_path / "groups.csv").read_text()


def test_tables_that_cannot_be_written_fail_the_sweep(tmp_path, capsys):
    write_study(tmp_path)
    (tmp_path / "groups.csv").mkdir()

    with pytest.raises(SystemExit, match="2"):
        summarise(tmp_path)

    assert capsys.readouterr().err == f"error: {tmp_path}/groups.csv: is a directory\n"


NAME = "${data.name}-${attention.name}"


@pytest.mark.parametrize(
    ("overrides", "name", "keys"),
    [
        (["attention=none,dot"], NAME, ["data", "attention"]),
        (["attention=none,dot", "seed=1,2", "+x.y=3"], NAME, ["x.y", "data", "attention"]),
        (["seed=range(1,4)", "~training.a"], NAME, ["training.a", "data", "attention"]),
        (
            ["data.train=[a,b]", "model=choice(luong,bahdanau)"],
            NAME,
            ["data.train", "data", "attention"],
        ),
        (["attention=none,dot"], "mine", []),
    ],
)
def test_the_name_of_a_run_leaves_out_what_is_fixed_or_in_it_already(overrides, name, keys):
    assert unnamed_keys(overrides, name) == keys
