"""Two processes with half of each batch make the same updates as one process with all of it."""

import json
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import torch
from tiny_training import read_scalars, tiny_config, tiny_run
from worker_processes import COMPARABLE, start_python

from seq2seq.runtime.distributed import process_group, read_ranks

OVERRIDES = (
    *COMPARABLE,
    "training.max_epochs=1",
    "training.validation.every_updates=4",
    "training.log_every=3",
    "training.validation.batch_size=2",
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


def weights(path: Path) -> dict[str, torch.Tensor]:
    model: dict[str, torch.Tensor] = torch.load(path / "last.pt", weights_only=True)["model"]
    return model


def test_two_processes_make_the_updates_of_one(folder):
    one, two = weights(folder / "one"), weights(folder / "two")

    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-6, msg=name)


def test_the_curves_are_those_of_one_process(folder):
    one, two = (read_scalars(folder / name / "tensorboard") for name in ("one", "two"))

    for tag in ("train/loss", "train/gradient_norm", "train/learning_rate", "valid/loss"):
        assert two[tag].keys() == one[tag].keys()
        for update, value in one[tag].items():
            assert two[tag][update] == pytest.approx(value, rel=1e-4), (tag, update)


def test_a_signal_to_one_process_stops_both_and_they_resume(folder):
    two, resumed = weights(folder / "two"), weights(folder / "resumed")

    for name, value in two.items():
        assert torch.equal(resumed[name], value), name
    curves = [read_scalars(folder / name / "tensorboard") for name in ("two", "resumed")]
    assert curves[0]["train/loss"] == pytest.approx(curves[1]["train/loss"], rel=1e-6)


@pytest.mark.parametrize("rank", [0, 1])
def test_values_are_summed_and_shared(folder, rank):
    exchanged = torch.load(folder / f"exchange-{rank}.pt", weights_only=True)

    assert exchanged["ranks"] == [rank, rank, 2]
    assert exchanged["total"].tolist() == [3.0]
    assert exchanged["value"] == "from 0"
    assert exchanged["gathered"] == (["from 0", "from 1"] if rank == 0 else [])


def test_a_process_with_other_weights_finds_it_and_gets_those_of_the_first(folder):
    first, second = (torch.load(folder / f"exchange-{r}.pt", weights_only=True) for r in (0, 1))

    assert [first["differs"], second["differs"]] == [False, True]
    assert torch.equal(first["copied"], second["copied"])


def test_two_processes_give_the_scores_of_one_to_the_last_digit(folder):
    """The scores are those of the same weights: one process scores what two have trained."""
    two = json.loads((folder / "two" / "results.json").read_text())
    again = json.loads((folder / "again" / "results.json").read_text())

    for part in ("valid", "test"):
        assert again[part] == two[part]
    for name in ("test.hyp", "test.ref"):
        assert (folder / "again" / name).read_bytes() == (folder / "two" / name).read_bytes()


def test_no_process_passes_a_barrier_before_all_have_reached_it(folder):
    reached, passed = (
        [torch.load(folder / f"exchange-{rank}.pt", weights_only=True)[key] for rank in (0, 1)]
        for key in ("reached", "passed")
    )

    assert max(reached) <= min(passed)


@pytest.mark.parametrize("rank", [0, 1])
def test_gradients_are_summed_if_a_process_has_none(folder, rank):
    gradients = torch.load(folder / f"exchange-{rank}.pt", weights_only=True)["gradients"]

    weight, bias, unused_weight, unused_bias, *frozen = gradients
    assert torch.equal(weight, torch.full((3, 2), 30.0))
    assert torch.equal(bias, torch.arange(3.0))
    assert not unused_weight.any()
    assert not unused_bias.any()
    assert frozen == [None, None]


@pytest.mark.parametrize(("name", "value"), [("WORLD_SIZE", "two"), ("RANK", "")])
def test_a_variable_that_is_no_number_is_named(monkeypatch, name, value):
    for each, number in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", name: value}.items():
        monkeypatch.setenv(each, number)

    with pytest.raises(ValueError, match=f"^the environment variable {name}={value} must be a num"):
        read_ranks()


def test_a_restart_on_several_machines_is_refused(monkeypatch):
    names = ("WORLD_SIZE", "RANK", "TORCHELASTIC_RESTART_COUNT", "GROUP_WORLD_SIZE")
    for name, value in zip(names, "2112", strict=True):
        monkeypatch.setenv(name, value)

    with pytest.raises(ValueError, match="on several machines"), process_group():
        pytest.fail("the processes met")
