"""Checks that only a real GPU can make; skipped without one. `make gpu` runs them."""

import contextlib
import copy

import pytest
import torch
from same_run import Killed, kill_in
from tiny_attention import attention_config
from tiny_models import FORMS, tiny_batch, tiny_model
from tiny_training import tiny_run
from torch import distributed

from seq2seq.attention.base import attention_config_types
from seq2seq.config.schema import load_config
from seq2seq.data.batching import Batch
from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.runtime.devices import Precision
from seq2seq.runtime.distributed import Ranks, sum_gradients
from seq2seq.runtime.numerics import Numerics
from seq2seq.runtime.process import DeviceMemoryError
from seq2seq.search.config import BeamConfig, GreedyConfig, SamplingConfig
from seq2seq.search.searches import search
from seq2seq.studies.attribution import attribute
from seq2seq.training.updates import Updater

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
TOLERANCES = {
    Precision.fp32: 1e-5,
    Precision.tf32: 1e-2,
    Precision.bf16: 5e-2,
    Precision.fp16: 1e-2,
}
"""Largest relative distance of loss and gradient norm from those of the CPU in fp32."""
every_form = pytest.mark.parametrize("form", FORMS)
every_type = pytest.mark.parametrize("attention", sorted(attention_config_types()))


def model_of(attention="additive", form="luong"):
    return tiny_model(attention_config(attention), form, dtype=torch.float32)


def host_batch() -> Batch:
    return Batch(*tiny_batch(), torch.arange(3))


def updater_of(model, device, precision, *overrides: str) -> Updater:
    numerics = Numerics(torch.device(device), precision)
    config = load_config(*overrides)
    return Updater(config, model=model, numerics=numerics, ranks=Ranks(0, 0, 1))


def update(updater: Updater, number: int = 1):
    batch = host_batch()
    return updater.update_weights(
        [batch], update=number, learning_rate=0.01, num_tokens=batch.num_target_tokens
    )


@every_form
@every_type
@pytest.mark.parametrize("precision", TOLERANCES, ids=lambda each: each.value)
def test_losses_and_gradients_are_those_of_the_cpu(attention, form, precision):
    model = model_of(attention, form)
    expected = update(updater_of(copy.deepcopy(model), "cpu", Precision.fp32))

    found = update(updater_of(model.to(CUDA), CUDA, precision))

    tolerance = TOLERANCES[precision]
    assert found.losses["loss"] == pytest.approx(expected.losses["loss"], rel=tolerance)
    assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=10 * tolerance)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # is a prototype
@pytest.mark.parametrize("precision", TOLERANCES, ids=lambda each: each.value)
def test_an_update_waits_nowhere_but_at_its_one_read(precision, monkeypatch):
    updater = updater_of(model_of().to(CUDA), CUDA, precision)
    update(updater)
    original, reads = torch.Tensor.tolist, []

    def read(tensor):
        reads.append(tensor)
        torch.cuda.set_sync_debug_mode("default")
        try:
            return original(tensor)
        finally:
            torch.cuda.set_sync_debug_mode("error")

    monkeypatch.setattr(torch.Tensor, "tolist", read)
    try:
        torch.cuda.set_sync_debug_mode("error")
        update(updater, 2)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len([each for each in reads if each.is_cuda]) == 1


def found_ids(model, device, config, **constraints):
    batch = tiny_batch()
    places = [each.to(device) for each in (batch.source_ids, batch.source_mask)]
    with Numerics(device, Precision.fp32).autocast():
        found = search(model.to(device), *places, config, **constraints)
    return [[each.ids for each in hypotheses] for hypotheses in found]


@every_form
@every_type
@pytest.mark.parametrize(
    "config",
    [GreedyConfig(), BeamConfig(beam_size=3), SamplingConfig(num_samples=2, seed=5)],
    ids=["greedy", "beam", "sampling"],
)
def test_searches_find_what_they_find_on_the_cpu(attention, form, config):
    model = model_of(attention, form).eval()
    expected = found_ids(model, CPU, config)

    assert found_ids(model, CUDA, config) == expected


RULES = {"min_length": 4, "no_repeat_ngram": 2}


@pytest.mark.parametrize("config", [GreedyConfig(**RULES), BeamConfig(beam_size=3, **RULES)])
def test_constraints_hold_as_on_the_cpu(config):
    model = model_of().eval()
    symbols = {"symbols": [9, 10], "num_symbols": [2, 0, 1]}
    expected = found_ids(model, CPU, config, **symbols)

    found = found_ids(model, CUDA, config, **symbols)

    assert found == expected


def test_attributions_are_those_of_the_cpu(checkpoint_path):
    pairs = [("ein hund rennt", "a dog runs"), ("zwei kinder", "two children play")]
    expected = attribute(checkpoint_path, pairs, device="cpu")

    found = attribute(checkpoint_path, pairs, device="cuda")

    for one, other in zip(found, expected, strict=True):
        for method in ("attention", "erasure", "gradient"):
            ours, theirs = getattr(one, method), getattr(other, method)
            assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-9)


def test_a_resumed_run_ends_with_the_weights_of_the_other(tmp_path, monkeypatch):
    options = (
        "training.device=cuda",
        "training.precision=fp32",
        "training.max_epochs=1",
        "training.validation.every_updates=3",
        "training.ema_decay=0.9",
    )

    tiny_run(tmp_path / "whole", *options)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        kill_in(patched, Updater, "update_weights", call=5)
        tiny_run(tmp_path / "killed", *options)
    tiny_run(tmp_path / "killed", *options, "resume=true")

    whole, resumed = (
        load_checkpoint(tmp_path / name / "runs" / "tiny" / "last.pt").model_state
        for name in ("whole", "killed")
    )
    for name, value in whole.items():
        # Sums over several blocks of threads have no fixed order on a GPU.
        torch.testing.assert_close(resumed[name], value, rtol=1e-4, atol=1e-6)


def test_cudnn_reads_the_averaged_weights_from_one_block():
    """Otherwise it would copy them at every call, and warn; a warning fails a test."""
    model = model_of().to(CUDA)
    updater = updater_of(model, CUDA, Precision.fp32, "training.ema_decay=0.9")
    update(updater)
    batch = tiny_batch()

    with torch.no_grad():
        updater.model_to_keep.encode(batch.source_ids.to(CUDA), batch.source_mask.to(CUDA))


def test_autocast_leaves_the_states_of_the_encoder_in_fp32():
    """They accumulate over the steps, and autocast runs cuDNN in fp16 even for bf16."""
    gru, batch = model_of().to(CUDA).encoder.gru, tiny_batch()
    inputs = torch.randn(*batch.source_ids.shape, gru.input_size, device=CUDA)

    with torch.autocast("cuda", dtype=torch.bfloat16):
        states, last = gru(inputs, batch.source_mask.to(CUDA))

    assert states.dtype == last.dtype == torch.float32


def test_nccl_sums_the_gradients_of_one_process(tmp_path, monkeypatch):
    """The sum over one process is what it was; a spy holds that the sum was made."""
    model = model_of().to(CUDA)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    before = [parameter.grad.clone() for parameter in model.parameters()]
    original, summed = distributed.all_reduce, []

    def all_reduce(tensor, *arguments, **keywords):
        summed.append((distributed.get_backend(), tensor.device.type, tensor.numel()))
        return original(tensor, *arguments, **keywords)

    monkeypatch.setattr(distributed, "all_reduce", all_reduce)
    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    monkeypatch.setattr(distributed, "get_world_size", lambda *_: 2)  # one process sums nothing
    with contextlib.ExitStack() as stack:
        stack.callback(distributed.destroy_process_group)
        sum_gradients(model)

    assert summed == [("nccl", "cuda", sum(each.numel() for each in before))]
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=0)


def test_too_little_memory_stops_in_one_line_and_changes_no_weight():
    model = model_of().to(CUDA)
    before = copy.deepcopy(model.state_dict())
    updater = updater_of(model, CUDA, Precision.fp32)
    held = torch.empty(2 << 20, dtype=torch.uint8, device=CUDA)
    torch.cuda.set_per_process_memory_fraction(1e-9)
    try:
        with pytest.raises(
            DeviceMemoryError, match=r"^the memory of a GPU is too small for update 1"
        ):
            batch = tiny_batch((4000,) * 64, (4000,) * 64)
            big = Batch(*batch, torch.arange(64))
            updater.update_weights(
                [big], update=1, learning_rate=0.1, num_tokens=big.num_target_tokens
            )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert held.is_cuda
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
