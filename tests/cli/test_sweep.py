import json

import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from seq2seq.cli.leaderboard import FAILURE
from seq2seq.cli.sweep import SweepSummary, run_job
from seq2seq.runtime.interrupts import Interrupted


@pytest.fixture(autouse=True)
def hydra_config(monkeypatch):
    config = OmegaConf.create({"overrides": {"task": ["attention=dot", "seed=2"]}})
    monkeypatch.setattr(HydraConfig, "get", lambda: config)


def fail_with(error):
    def train():
        raise error

    return train


def test_a_job_returns_its_result_and_prints_its_overrides(tmp_path, capsys):
    assert run_job(tmp_path / "0-dot", lambda: 31.5) == 31.5

    assert capsys.readouterr().err == "\n0-dot: attention=dot seed=2\n"


def test_a_users_error_is_recorded_in_one_line(tmp_path, capsys):
    assert run_job(tmp_path / "0-dot", fail_with(ValueError("a\n b"))) is None

    assert (tmp_path / "0-dot" / FAILURE).read_text() == "a b\n"
    assert capsys.readouterr().err.endswith("\n0-dot failed: a b\n")


def test_a_bug_of_the_program_is_recorded_and_shows_its_traceback(tmp_path, capsys):
    assert run_job(tmp_path / "0-dot", fail_with(ZeroDivisionError("ours"))) is None

    assert (tmp_path / "0-dot" / FAILURE).read_text() == "ours\n"
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_ends_the_sweep(tmp_path):
    with pytest.raises(Interrupted):
        run_job(tmp_path / "0-dot", fail_with(Interrupted(2)))

    assert not (tmp_path / "0-dot" / FAILURE).exists()


@pytest.mark.parametrize("failure", [None, "a b\n"])
def test_the_summary_writes_the_leaderboard_and_fails_if_a_run_failed(tmp_path, capsys, failure):
    scores = {"bleu": 20.0, "chrf": 40.0, "ter": 60.0}
    results = {"test": scores, "parameters": 9, "seconds": 60.0, "target_tokens_per_second": 5.0}
    for name in ("0-dot", "1-none"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps(results))
    if failure is not None:
        (tmp_path / "1-none" / FAILURE).write_text(failure)
    config = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}}})

    if failure is None:
        SweepSummary().on_multirun_end(config)
    else:
        with pytest.raises(SystemExit, match="1"):
            SweepSummary().on_multirun_end(config)

    err = capsys.readouterr().err
    assert ("1-none failed: a b" in err) == (failure is not None)
    assert err.endswith(f"{tmp_path}/leaderboard.csv\n")
    assert (tmp_path / "leaderboard.csv").exists()
