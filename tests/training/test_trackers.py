import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
from tiny_training import read_scalars, tiny_config, tiny_run

from seq2seq.training import curves as trackers
from seq2seq.training.curves import Service, Tracker, open_tracker


class Account:
    """A replacement of a service, which records its calls."""

    def __init__(self):
        self.runs, self.points, self.configs, self.ended = [], [], [], 0

    def begin(self, known, name, config=None):
        self.runs.append((known, name))
        self.configs += [config] if config else []
        return known or "k3y"

    def send(self, values, step):
        self.points += [(tag, step, value) for tag, value in values.items()]

    def end(self):
        self.ended += 1


def add_module(monkeypatch, name, **members):
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, origin="stand-in")
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def account(monkeypatch):
    account = Account()

    def init(*, id, resume, name, config):
        assert resume == "allow"
        found = account.begin(id, name, config)
        return SimpleNamespace(id=found, log=account.send, finish=account.end)

    def start_run(*, run_id, run_name):
        return SimpleNamespace(info=SimpleNamespace(run_id=account.begin(run_id, run_name)))

    add_module(monkeypatch, "wandb", init=init)
    add_module(
        monkeypatch,
        "mlflow",
        start_run=start_run,
        log_params=account.configs.append,
        log_metrics=account.send,
        end_run=account.end,
    )
    return account


@pytest.mark.parametrize("monitor", ["wandb", "mlflow"])
def test_a_service_gets_every_point_once_also_when_the_run_is_resumed(tmp_path, account, monitor):
    key = f"training.monitor={monitor}"
    tiny_run(tmp_path, key, "training.max_epochs=1")
    tiny_run(tmp_path, key, "training.max_epochs=2", "resume=true")

    curves = read_scalars(tmp_path / "runs" / "tiny" / "tensorboard")
    expected = {
        (tag, update)
        for tag, points in curves.items()
        for update in points
        if tag.startswith(("train/", "valid/"))
    }
    assert len(account.points) == len(expected) > 50
    assert {(tag, update) for tag, update, _ in account.points} == expected
    for tag, update, value in account.points:
        assert value == pytest.approx(curves[tag][update])
    assert account.runs == [(None, "tiny"), ("k3y", "tiny")]
    assert account.configs[0]["attention.name"] == "additive"
    assert account.ended == 2


def test_a_new_run_in_the_same_place_has_another_id(tmp_path, account):
    for options in ([], ["overwrite=true"]):
        tiny_run(tmp_path, "training.monitor=mlflow", "training.max_updates=2", *options)

    assert account.runs == [(None, "tiny")] * 2


def test_points_after_the_last_checkpoint_are_left_to_the_resumed_run():
    account = Account()
    tracker = Tracker(Service("k3y", account.send, account.end))

    tracker.add({"train/loss": 2.0}, 1)
    tracker.send()
    tracker.add({"train/loss": 1.0}, 2)
    tracker.close()

    assert account.points == [("train/loss", 1, 2.0)]
    assert account.ended == 1


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_an_error_of_the_service_ends_the_sending_with_one_warning(caplog, error):
    calls = []

    def fail(*point):
        calls.append(point)
        raise error("no route to the server\nmore")

    tracker = Tracker(Service("k3y", fail, fail))
    tracker.add({"train/loss": 2.0}, 1)
    tracker.add({"train/loss": 1.0}, 2)
    tracker.send()
    tracker.close()

    assert len(calls) == 1
    [record] = caplog.records
    message = "training.monitor: no more points are sent: no route to the server"
    assert record.getMessage() == message


def test_a_service_that_refuses_the_run_is_one_line(tmp_path, monkeypatch):
    def refuse(**_):
        raise RuntimeError("no API key\nmore")

    add_module(monkeypatch, "wandb", init=refuse)

    with pytest.raises(ValueError, match=r"^training\.monitor=wandb: no API key; correct this and"):
        open_tracker(tiny_config(tmp_path, "training.monitor=wandb"), tmp_path)


@pytest.mark.parametrize("monitor", ["wandb", "mlflow"])
def test_a_missing_package_is_reported_before_data_are_read(tmp_path, monkeypatch, monitor):
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ValueError, match=rf"pip install {monitor}"):
        tiny_run(tmp_path, f"training.monitor={monitor}", "data.train=[missing.a,missing.b]")


def test_the_real_mlflow_keeps_every_point_once(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())

    tiny_run(tmp_path, "training.monitor=mlflow", "training.max_epochs=1")
    tiny_run(tmp_path, "training.monitor=mlflow", "training.max_epochs=2", "resume=true")

    [run] = mlflow.search_runs(output_format="list")
    found = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train/loss")
    assert [point.step for point in found] == [2, 4, 6, 8, 10, 12]
