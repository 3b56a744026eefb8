import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from tiny_attention import attention_config
from tiny_models import gradients_of, tiny_batch, tiny_model

import seq2seq.training.gradients
from seq2seq.config.schema import load_config
from seq2seq.data import Batch
from seq2seq.runtime.device_memory import DeviceMemoryError
from seq2seq.runtime.numerics import Numerics, Precision
from seq2seq.training.gradients import NUM_SUMS, GradientAdder
from seq2seq.training.loss import sequence_loss

BATCHES = (((5, 2, 3), (3, 4, 1)), ((2, 4), (2, 5)))


def host_batch(*lengths) -> Batch:
    batch = tiny_batch(*lengths)
    return Batch(*batch, torch.arange(len(batch.source_ids)))


def make_adder(model, *overrides, device="cpu", precision=Precision.fp32) -> GradientAdder:
    return GradientAdder(
        load_config("training.label_smoothing=0", *overrides).training,
        model=model,
        numerics=Numerics(torch.device(device), precision),
        scaler=torch.amp.GradScaler(device, enabled=precision is Precision.fp16),
    )


def model_of():
    return tiny_model(attention_config("additive"), dtype=torch.float32)


def test_the_gradients_are_those_of_the_loss_over_all_tokens():
    model, batches = model_of(), [host_batch(*lengths) for lengths in BATCHES]
    losses = [sequence_loss(model, each, label_smoothing=0.0).smoothed for each in batches]
    expected = gradients_of(sum(losses) / 100, model)

    sums = make_adder(model).add(batches, update=1, num_tokens=100)

    for name, parameter in model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-7)
    total = sum(loss.item() for loss in losses)
    assert sums.tolist() == pytest.approx([total, *[0.0] * (NUM_SUMS - 1)], rel=1e-6)


def fail_after(monkeypatch, number: int) -> None:
    """Make the passes after the first ones run out of memory."""
    calls = []

    def loss(*arguments, **keywords):
        calls.append(1)
        if len(calls) > number:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return sequence_loss(*arguments, **keywords)

    monkeypatch.setattr(seq2seq.training.gradients, "sequence_loss", loss)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("num_before", [0, 1])
def test_a_skipped_update_leaves_no_gradient_and_says_so(monkeypatch, device, num_before):
    model, batches = model_of(), [host_batch(*lengths) for lengths in BATCHES]
    fail_after(monkeypatch, num_before)
    with pretend_cuda() as cuda:
        adder = make_adder(
            cuda.move(model) if device == "cuda" else model,
            "training.on_out_of_memory=skip",
            device=CUDA if device == "cuda" else device,
        )

        sums = adder.add(batches, update=1, num_tokens=100)

        assert sums.tolist() == [0.0] * (NUM_SUMS - 1) + [1.0]
        assert sums.device.type == device
        assert all(parameter.grad is None for parameter in model.parameters())


def test_stop_names_every_batch(monkeypatch):
    fail_after(monkeypatch, 1)

    with pytest.raises(DeviceMemoryError) as caught:
        make_adder(model_of()).add(
            [host_batch(*lengths) for lengths in BATCHES], update=7, num_tokens=100
        )

    text = str(caught.value)
    assert text.startswith("update 7: ") and "\n" not in text
    for shape in ("3 x 5 source", "3 x 4 target", "2 x 4 source", "2 x 5 target"):
        assert shape in text
