"""A whole run on a pretended GPU: train, validate, score, resume; and what pads a batch."""

import json

import pytest
import torch
from pretend_cuda import pretend_cuda
from tiny_attention import attention_config
from tiny_models import FORMS, tiny_batch, tiny_model
from tiny_training import read_scalars, tiny_run

from seq2seq.attention import attention_config_types
from seq2seq.checkpoints.checkpoint import load_checkpoint
from seq2seq.data import Batch
from seq2seq.training.loss import sequence_loss
from seq2seq.training.updates import Updater

OPTIONS = (
    "training.max_epochs=1",
    "training.validation.every_updates=3",
    "training.ema_decay=0.9",
)


class Killed(BaseException):
    """The process is gone: nothing catches this."""


def last(folder):
    return load_checkpoint(folder / "runs" / "tiny" / "last.pt")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_run_on_cuda_gives_the_files_of_one_on_the_cpu(tmp_path, precision):
    on_cuda = ("training.device=cuda", f"training.precision={precision}")
    tiny_run(tmp_path / "cpu", *OPTIONS)
    with pretend_cuda():
        tiny_run(tmp_path / "cuda", *OPTIONS, *on_cuda)

    cpu, cuda = (tmp_path / name / "runs" / "tiny" for name in ("cpu", "cuda"))
    assert {each.name for each in cuda.iterdir()} == {each.name for each in cpu.iterdir()}
    results = json.loads((cuda / "results.json").read_text())
    assert (results["updates"], results["device"]) == (6, "pretended GPU")
    expected = json.loads((cpu / "results.json").read_text())
    # Close, not equal: a GPU draws other numbers for dropout.
    assert results["test"]["loss"] == pytest.approx(expected["test"]["loss"], rel=0.05)
    norms = read_scalars(cuda / "tensorboard")["train/gradient_norm"].values()
    assert all(torch.tensor(list(norms)).isfinite())


def test_a_killed_run_on_cuda_resumes_with_the_same_weights(tmp_path, monkeypatch):
    options = (*OPTIONS, "training.device=cuda", "training.precision=bf16")
    original = Updater.make

    def killed(self, batches, *, update, **keywords):
        if update == 5:
            raise Killed
        return original(self, batches, update=update, **keywords)

    with pretend_cuda():
        tiny_run(tmp_path / "whole", *options)
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(Updater, "make", killed)
            tiny_run(tmp_path / "killed", *options)
        tiny_run(tmp_path / "killed", *options, "resume=true")

    whole, resumed = last(tmp_path / "whole"), last(tmp_path / "killed")
    for name, value in whole.model_state.items():
        torch.testing.assert_close(resumed.model_state[name], value, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("attention", sorted(attention_config_types()))
def test_padding_to_the_shape_of_a_bucket_changes_no_loss(attention, form, dtype):
    model = tiny_model(attention_config(attention), form, dtype=dtype)
    losses, gradients = [], []
    for extra in (0, 3):
        batch = Batch(*tiny_batch(extra=extra), torch.arange(3))
        found = sequence_loss(model, batch, label_smoothing=0.1)
        losses.append(found.smoothed)
        gradients.append(
            torch.autograd.grad(found.smoothed, list(model.parameters()), allow_unused=True)
        )

    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(losses[1], losses[0], rtol=tolerance, atol=0)
    for padded, narrow in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(padded, narrow, rtol=10 * tolerance, atol=10 * tolerance)
