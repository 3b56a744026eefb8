"""Updates on a pretended GPU: every attention type, the one wait, and the scale of fp16."""

import copy
import math
from types import SimpleNamespace

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from same_run import is_equal
from tiny_attention import attention_config
from tiny_models import FORMS, tiny_batch, tiny_model

from seq2seq.attention.base import attention_config_types
from seq2seq.config.schema import load_config
from seq2seq.data.batching import Batch
from seq2seq.runtime.devices import Precision
from seq2seq.runtime.distributed import Ranks
from seq2seq.runtime.numerics import Numerics
from seq2seq.training.updates import NonFiniteError, Updater

READ = "updates.py: *values, gradient_norm = torch.cat((sums, norm.unsqueeze(0))).tolist()"
"""The one line of an update at which the host waits."""


@pytest.fixture
def cuda():
    with pretend_cuda() as cuda:
        yield cuda


def host_batch(*, guided: bool = False) -> Batch:
    batch = tiny_batch()
    shape = (*batch.target_ids.shape, batch.source_ids.shape[1])
    guide = torch.rand(shape, generator=torch.Generator().manual_seed(4)).softmax(-1)
    return Batch(*batch, torch.arange(3), guide if guided else None)


def make_updater(model, device, precision, *overrides: str) -> Updater:
    numerics = Numerics(torch.device(device), precision)
    return Updater(load_config(*overrides), model=model, numerics=numerics, ranks=Ranks(0, 0, 1))


def update(updater: Updater, batch: Batch, number: int = 1):
    return updater.update_weights(
        [batch], update=number, learning_rate=0.01, num_tokens=batch.num_target_tokens
    )


def model_of(attention: str, form: str, **options):
    return tiny_model(attention_config(attention), form, dtype=torch.float32, **options)


@pytest.mark.parametrize(
    ("attention", "form"),
    [(name, FORMS[i % len(FORMS)]) for i, name in enumerate(sorted(attention_config_types()))],
)
def test_every_type_is_updated_as_on_the_cpu_with_one_wait(cuda, attention, form):
    on_cpu, batch = model_of(attention, form), host_batch()
    model = cuda.move(copy.deepcopy(on_cpu))
    expected = update(make_updater(on_cpu, "cpu", Precision.fp32), batch)
    updater = make_updater(model, CUDA, Precision.fp32)
    cuda.waits.clear()

    result = update(updater, batch)

    assert cuda.waits == {READ: 1}
    assert result.losses["loss"] == pytest.approx(expected.losses["loss"], rel=1e-5)
    assert result.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)


OPTIONS = {
    "defaults": (),
    "sgd": ("training.optimizer.name=sgd",),
    "adamw and average": ("training.optimizer.name=adamw", "training.ema_decay=0.9"),
    "guided": ("training.guided_attention=0.5",),
    "scheduled sampling": (
        "training.teacher_forcing.end=0.5",
        "training.teacher_forcing.updates=1",
    ),
    "plain kernels": ("training.kernels=plain",),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_host_waits_once_in_an_update(cuda, options):
    model = cuda.move(model_of("multihead", "input_feeding", num_layers=2, self_attention=True))
    updater = make_updater(model, CUDA, Precision.fp16, *options)  # which scales the loss too
    batch = host_batch(guided=True)
    update(updater, batch)  # makes the optimizer's state
    cuda.waits.clear()

    result = update(updater, batch, 2)

    assert math.isfinite(result.gradient_norm)
    assert cuda.waits == {READ: 1}


def test_dropout_of_a_gpu_is_that_of_torch(cuda, monkeypatch):
    monkeypatch.setattr("seq2seq.runtime.kernels.operations._LEVELS", None)
    model = cuda.move(model_of("additive", "conditional", dropout=0.3))

    update(make_updater(model, CUDA, Precision.fp32), host_batch())


@pytest.fixture
def fp16(cuda):
    """Return a model, its updater in fp16, and a function that sets the loss scale."""
    model = cuda.move(model_of("additive", "luong"))
    updater = make_updater(model, CUDA, Precision.fp16)

    def set_scale(scale: float) -> None:
        state = updater.state()
        updater.load_state({**state, "scaler": {**state["scaler"], "scale": scale}})

    return model, updater, set_scale


def weights_of(model):
    return {name: value.cpu().clone() for name, value in model.state_dict().items()}


def overflow(gradient):
    return gradient * math.inf


@pytest.mark.parametrize("scale", [65536.0, 1.0])
def test_an_fp16_overflow_skips_the_step_and_halves_the_scale(fp16, scale):
    model, updater, set_scale = fp16
    update(updater, host_batch())
    set_scale(scale)
    before = weights_of(model)
    hook = model.decoder.output.bias.register_hook(overflow)
    added = []
    updater._average = SimpleNamespace(add=lambda: added.append(1), state=dict)

    result = update(updater, host_batch(), 2)

    assert not math.isfinite(result.gradient_norm)
    assert updater.state()["scaler"]["scale"] == scale / 2
    assert is_equal(weights_of(model), before)
    assert added == []
    hook.remove()
    assert math.isfinite(update(updater, host_batch(), 3).gradient_norm)
    assert added == [1]
    assert not is_equal(weights_of(model), before)


def test_a_gradient_that_overflows_below_a_scale_of_1_stops_training(fp16):
    model, updater, set_scale = fp16
    set_scale(0.5)
    before = weights_of(model)
    model.decoder.output.bias.register_hook(overflow)

    with pytest.raises(NonFiniteError, match=r"^update 1: .* norm of the gradient (nan|inf)"):
        update(updater, host_batch())

    assert is_equal(weights_of(model), before)


def test_a_run_continues_in_fp16_after_another_precision(fp16, cuda):
    _, updater, _ = fp16
    before = updater.state()["scaler"]
    other = make_updater(cuda.move(model_of("additive", "luong")), CUDA, Precision.bf16)

    updater.load_state(other.state())

    assert updater.state()["scaler"] == before


@pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch has older flags"
)
@pytest.mark.parametrize(
    ("precision", "products"),
    [(Precision.fp32, "ieee"), (Precision.tf32, "tf32"), (Precision.bf16, "tf32")],
)
def test_both_passes_multiply_in_the_chosen_precision(cuda, precision, products):
    model, seen = cuda.move(model_of("additive", "luong")), {}

    def note(name: str) -> None:
        backends = torch.backends.cuda.matmul, torch.backends.cudnn.rnn
        seen[name] = {backend.fp32_precision for backend in backends}

    model.register_forward_hook(lambda *_: note("forward"))
    model.decoder.output.bias.register_hook(lambda _: note("backward"))

    update(make_updater(model, CUDA, precision), host_batch())

    assert seen == {"forward": {products}, "backward": {products}}
