"""A whole run on a pretended GPU: train, validate, score, resume."""

import json

import pytest
import torch
from pretend_cuda import pretend_cuda
from same_run import Killed, kill_in
from tiny_training import read_scalars, tiny_run

from seq2seq.checkpoints.checkpoint import load_checkpoint
from seq2seq.training.updates import Updater

NO_DROPOUT = "data.dropout=0"  # for which a GPU draws other numbers
OPTIONS = ("training.max_epochs=1", "training.validation.every_updates=3", "training.ema_decay=0.9")


def last(folder):
    return load_checkpoint(folder / "runs" / "tiny" / "last.pt")


@pytest.fixture(scope="module")
def cpu_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cpu")
    tiny_run(folder, *OPTIONS, NO_DROPOUT)
    return folder / "runs" / "tiny"


def scores_and_curves(run):
    results = json.loads((run / "results.json").read_text())
    curves = read_scalars(run / "tensorboard")
    names = ("train/loss", "train/gradient_norm", "valid/loss")
    points = [value for name in names for _, value in sorted(curves[name].items())]
    return results, [results["test"]["loss"], *points]


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-6), ("fp16", 1e-2)])
def test_a_run_on_cuda_gives_the_files_and_numbers_of_one_on_the_cpu(
    tmp_path, cpu_run, precision, tolerance
):
    options = ("training.device=cuda", f"training.precision={precision}", NO_DROPOUT)
    with pretend_cuda():
        tiny_run(tmp_path, *OPTIONS, *options)

    cuda_run = tmp_path / "runs" / "tiny"
    assert {each.name for each in cuda_run.iterdir()} == {each.name for each in cpu_run.iterdir()}
    _, expected = scores_and_curves(cpu_run)
    results, found = scores_and_curves(cuda_run)
    assert (results["updates"], results["device"]) == (6, "pretended GPU")
    assert len(found) == 1 + 3 + 3 + 2
    assert found == pytest.approx(expected, rel=tolerance)


def test_a_killed_run_on_cuda_resumes_with_the_same_weights(tmp_path, monkeypatch):
    options = (*OPTIONS, "training.device=cuda", "training.precision=bf16")

    with pretend_cuda():
        tiny_run(tmp_path / "whole", *options)
        with monkeypatch.context() as patched, pytest.raises(Killed):
            kill_in(patched, Updater, "make", call=5)
            tiny_run(tmp_path / "killed", *options)
        tiny_run(tmp_path / "killed", *options, "resume=true")

    whole, resumed = last(tmp_path / "whole"), last(tmp_path / "killed")
    for name, value in whole.model_state.items():
        torch.testing.assert_close(resumed.model_state[name], value, rtol=0, atol=0)
