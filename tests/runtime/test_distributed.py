"""Two processes with half of each batch make the same updates as one process with all of it."""

import json
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import torch
from same_run import is_equal
from tiny_training import read_scalars, saved_weights, tiny_config, tiny_run
from worker_processes import COMPARABLE, start_python

from seq2seq.runtime.distributed import process_group, read_ranks

OVERRIDES = (
    *COMPARABLE,
    "training.max_epochs=1",
    "training.validation.every_updates=4",
    "training.log_every=3",
)


def start(folder: Path, rank: int, port: int) -> subprocess.Popen[str]:
    environment = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    script = Path(__file__).with_name("distributed_worker.py")
    return start_python([script, folder, *OVERRIDES], cwd=folder, environment=environment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Train with two processes into `two`, again with an interruption, and with one process."""
    folder = tmp_path_factory.mktemp("distributed")
    tiny_config(folder)  # writes the corpus
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [start(folder, rank, port) for rank in range(2)]
    for process in processes:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        assert output == ""
    (folder / "runs" / "tiny").rename(folder / "resumed")
    shutil.copytree(folder / "two", folder / "runs" / "tiny")
    tiny_run(folder, *OVERRIDES, "resume=true")
    (folder / "runs" / "tiny").rename(folder / "again")
    tiny_run(folder, *OVERRIDES)
    (folder / "runs" / "tiny").rename(folder / "one")
    return folder


def test_two_processes_make_the_updates_of_one(folder):
    one, two = (saved_weights(folder / name / "last.pt") for name in ("one", "two"))

    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-6, msg=name)


def test_the_curves_are_those_of_one_process(folder):
    one, two = (read_scalars(folder / name / "tensorboard") for name in ("one", "two"))

    for tag in ("train/loss", "train/gradient_norm", "train/learning_rate", "valid/loss"):
        assert two[tag].keys() == one[tag].keys()
        for update, value in one[tag].items():
            assert two[tag][update] == pytest.approx(value, rel=1e-4), (tag, update)


def test_a_signal_to_one_process_stops_both_and_they_resume(folder):
    weights = (saved_weights(folder / name / "last.pt") for name in ("two", "resumed"))

    assert is_equal(*weights)
    curves = [read_scalars(folder / name / "tensorboard") for name in ("two", "resumed")]
    assert curves[0]["train/loss"] == pytest.approx(curves[1]["train/loss"], rel=1e-6)


@pytest.fixture(scope="module")
def exchanged(folder):
    """Return what each process got from the exchange, by rank."""
    return [torch.load(folder / f"exchange-{rank}.pt", weights_only=True) for rank in (0, 1)]


def test_values_are_summed_and_shared(exchanged):
    assert [each["ranks"] for each in exchanged] == [[0, 0, 2], [1, 1, 2]]
    assert [each["total"].tolist() for each in exchanged] == [[3.0], [3.0]]
    assert [each["value"] for each in exchanged] == ["from 0", "from 0"]
    assert [each["gathered"] for each in exchanged] == [["from 0", "from 1"], []]


def test_a_process_with_other_weights_finds_it_and_gets_those_of_the_first(exchanged):
    assert [each["differs"] for each in exchanged] == [False, True]
    assert torch.equal(exchanged[0]["copied"], exchanged[1]["copied"])


def test_two_processes_give_the_scores_of_one_to_the_last_digit(folder):
    """The scores are those of the same weights: one process scores what two have trained."""
    two = json.loads((folder / "two" / "results.json").read_text())
    again = json.loads((folder / "again" / "results.json").read_text())

    for part in ("valid", "test"):
        assert again[part] == two[part]
    for name in ("test.hyp", "test.ref"):
        assert (folder / "again" / name).read_bytes() == (folder / "two" / name).read_bytes()


def test_no_process_passes_a_barrier_before_all_have_reached_it(exchanged):
    assert max(each["reached"] for each in exchanged) <= min(each["passed"] for each in exchanged)


def test_gradients_are_summed_if_a_process_has_none(exchanged):
    for each in exchanged:
        weight, bias, unused_weight, unused_bias, *frozen = each["gradients"]
        assert torch.equal(weight, torch.full((3, 2), 30.0))
        assert torch.equal(bias, torch.arange(3.0))
        assert not unused_weight.any()
        assert not unused_bias.any()
        assert frozen == [None, None]


@pytest.mark.parametrize(("name", "value"), [("WORLD_SIZE", "two"), ("RANK", ""), ("RANK", "-1")])
def test_a_variable_that_is_no_number_is_named(monkeypatch, name, value):
    for each, number in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", name: value}.items():
        monkeypatch.setenv(each, number)

    with pytest.raises(
        ValueError, match=rf"^environment variable {name}(: .*{value!r}|={value} must be)"
    ):
        read_ranks()


def test_a_restart_on_several_machines_is_refused(monkeypatch):
    names = ("WORLD_SIZE", "RANK", "TORCHELASTIC_RESTART_COUNT", "GROUP_WORLD_SIZE")
    for name, value in zip(names, "2112", strict=True):
        monkeypatch.setenv(name, value)

    with pytest.raises(ValueError, match="on several machines"), process_group():
        pytest.fail("the processes met")
