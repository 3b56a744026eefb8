"""Losses and gradients on this device, in each precision, against those of the CPU in fp64.

Every attention type is combined with every decoder form; further cases have the other options of
models and training. The largest distance of each precision becomes a row of the table.
"""

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast
from unittest import mock

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.gpu.part import Part, run_part
from seq2seq.attention.base import attention_config_types
from seq2seq.config.schema import TrainConfig, build_model, load_config
from seq2seq.data.batching import Batch, make_batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.distributed import SINGLE_PROCESS
from seq2seq.runtime.kernels.operations import kernels_in_use
from seq2seq.runtime.numerics import choose_numerics
from seq2seq.training import updates
from seq2seq.training.schedules import draw_forced_mask

TYPES = sorted(attention_config_types())
FORMS = {
    "bahdanau": ("model=bahdanau",),
    "conditional": ("model=conditional",),
    "luong": ("model=luong", "model.input_feeding=false"),
    "feeding": ("model=luong",),
}
SIZES = (
    "model.embedding_size=64",
    "model.encoder.hidden_size=64",
    "model.decoder.hidden_size=128",
)
YARDSTICK = (
    "model=luong",
    "model.embedding_size=256",
    "model.encoder.hidden_size=512",
    "model.decoder.hidden_size=512",
    "model.tied_embeddings=none",
)
LAYERS = (
    "model.residual=true",
    "model.layer_norm=true",
    *(
        f"model.{part}.{key}"
        for part in ("encoder", "decoder")
        for key in ("num_layers=2", "self_attention=true")
    ),
)
TEACHER_FORCING = ("training.teacher_forcing.end=0.9", "training.teacher_forcing.updates=1")
OPTIONS = {
    "sparsemax": ("attention=dot", "attention.normalizer=sparsemax"),
    "entmax15": ("attention=multihead", "attention.normalizer=entmax15"),
    "additive entmax15": ("attention=additive", "attention.normalizer=entmax15"),
    "layers": LAYERS,
    "layers, feeding": ("model=luong", *LAYERS),
    "tied": ("model.tied_embeddings=all",),
    "coverage loss": ("attention=coverage", "training.coverage_loss=1"),
    "guided": ("training.guided_attention=0.5",),
    "scheduled sampling": TEACHER_FORCING,
    "plain kernels": ("training.kernels=plain",),
}
CASES = {
    f"{name} {form}": (f"attention={name}", *FORMS[form])
    for name, form in itertools.product(TYPES, FORMS)
} | OPTIONS
LIMITS = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 3e-2, "fp16": 5e-3}
"""Largest relative distance of the gradient that is expected."""
SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE = 480, 400


class Gradient(NamedTuple):
    """The loss of a batch per target token, and its gradient."""

    loss: float
    vector: Tensor
    """All parameters in one vector, fp64 on the CPU."""


def main(part: Part) -> None:
    precisions = [*part.precisions, "fp16"] if part.on_gpu else list(part.precisions)
    part.attempt("gradients", partial(compare_cases, part, precisions))
    part.attempt("real sizes", partial(compare_real_sizes, part, precisions))
    part.attempt("embedding", partial(count_wrong_embeddings, part))


def gradient(
    config: TrainConfig,
    batch: Batch,
    *,
    device: torch.device,
    precision: str = "fp32",
    dtype: torch.dtype = torch.float32,
) -> Gradient:
    """Return what an update computes before clipping, of a model that has always the same weights.

    Args:
        config: The configuration, without dropout.
        batch: The batch, on the CPU.
        device: Device of the model.
        precision: Precision of products.
        dtype: Type of the parameters.
    """
    model = draw_model(config).to(dtype).to(device)
    numerics = choose_numerics(Device(device.type), Precision(precision))
    updater = updates.Updater(config, model=model, numerics=numerics, ranks=SINGLE_PROCESS)
    torch.manual_seed(5)
    model.train()
    num_tokens = batch.num_target_tokens
    with kernels_in_use(config.training.kernels), forced_on_the_cpu():
        loss = updater.add_gradients(batch, update=1, num_tokens=num_tokens)
    scale = cast(float, updater.state()["scaler"].get("scale", 1.0))  # of fp16
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    vector = torch.cat([each.cpu().double().flatten() for each in parts]) / scale
    return Gradient(loss.objective.item() / num_tokens, vector)


def draw_model(config: TrainConfig) -> Seq2Seq:
    torch.manual_seed(1)
    model = build_model(
        config,
        source_vocabulary_size=SOURCE_VOCABULARY_SIZE,
        target_vocabulary_size=TARGET_VOCABULARY_SIZE,
    )
    for parameter in model.parameters():
        if parameter.dim() < 2:  # biases begin at 0, where some errors do not show
            parameter.data.add_(0.1 * torch.randn_like(parameter))
    return model


def draw_batch(num_sentences: int = 16, *, guided: bool = False) -> Batch:
    draw = torch.Generator().manual_seed(3)

    def rows(longest: int, vocabulary_size: int) -> list[list[int]]:
        lengths = torch.randint(1, longest, (num_sentences,), generator=draw).tolist()
        return [
            torch.randint(4, vocabulary_size, (each,), generator=draw).tolist() for each in lengths
        ]

    batch = make_batch(rows(12, SOURCE_VOCABULARY_SIZE), rows(10, TARGET_VOCABULARY_SIZE))
    if not guided:
        return batch
    shape = (*batch.target_ids.shape, batch.source_ids.shape[1])
    guide = torch.rand(shape, generator=draw) * batch.source_mask.unsqueeze(1)
    guide = guide / guide.sum(-1, keepdim=True) * batch.target_mask.unsqueeze(-1)
    return batch._replace(guide=guide)


@contextmanager
def forced_on_the_cpu() -> Iterator[None]:
    """Let scheduled sampling draw the same numbers on every device."""

    def draw(*arguments: object, device: torch.device, **keywords: object) -> Tensor | None:
        mask = draw_forced_mask(*arguments, device=torch.device("cpu"), **keywords)  # type: ignore[arg-type]
        return None if mask is None else mask.to(device)

    with mock.patch.object(updates, "draw_forced_mask", draw):
        yield


def compare_cases(part: Part, precisions: list[str]) -> None:
    worst: dict[str, tuple[float, float, str]] = {}
    above: dict[str, list[str]] = {each: [] for each in precisions}
    for name, overrides in CASES.items():
        config = load_config(*SIZES, "model.dropout=0", *overrides)
        batch = draw_batch(guided=name == "guided")
        compare = partial(distances, part, config, batch, precisions)
        found = part.attempt(f"gradients: {name}", compare) or {}
        for precision, (loss, distance) in found.items():
            print(f"{name:24} {precision} loss {loss:.0e} gradient {distance:.0e}")
            if not distance <= worst.get(precision, (0.0, 0.0, ""))[1]:  # NaN is the worst
                worst[precision] = loss, distance, name
            if not distance <= LIMITS[precision]:
                above[precision].append(name)
    for precision, (loss, distance, name) in worst.items():
        names = above[precision]
        part.row(
            f"gradients of {len(CASES)} cases: {precision}",
            f"worst {distance:.1e} (loss {loss:.1e}) in {name}; above {LIMITS[precision]:.0e}: "
            f"{len(names)} {', '.join(names[:4])}",
        )


def distances(
    part: Part, config: TrainConfig, batch: Batch, precisions: list[str]
) -> dict[str, tuple[float, float]]:
    """Return the relative distances of loss and gradient from those of the CPU in fp64."""
    loss, exact = gradient(config, batch, device=torch.device("cpu"), dtype=torch.float64)
    found = {}
    for precision in precisions:
        other = gradient(config, batch, device=part.device, precision=precision)
        distance = float((other.vector - exact).norm() / exact.norm())
        found[precision] = abs(other.loss - loss) / abs(loss), distance
    return found


def compare_real_sizes(part: Part, precisions: list[str]) -> None:
    """Compare the gradients of real sizes, where other kernels run.

    For 129 to 192 units, torch may choose another algorithm of cuDNN for the backward pass of the
    GRU than for the forward pass.
    """
    for size in (128, 160, 256, 512):
        compare_size(part, precisions, size)


def compare_size(part: Part, precisions: list[str], size: int) -> None:
    config = load_config(*YARDSTICK, f"model.encoder.hidden_size={size}", "model.dropout=0")
    batch = draw_batch(128 if part.on_gpu else 4)
    of_encoder = torch.cat(
        [
            torch.full((parameter.numel(),), "encoder.gru" in name)
            for name, parameter in draw_model(config).named_parameters()
        ]
    )
    exact = gradient(config, batch, device=torch.device("cpu"), dtype=torch.float64).vector
    texts = []
    for precision in precisions:
        found = gradient(config, batch, device=part.device, precision=precision).vector
        shares = [
            float((found - exact)[mask].norm() / exact[mask].norm())
            for mask in (of_encoder, ~of_encoder)
        ]
        texts.append(f"{precision} {shares[0]:.0e} {shares[1]:.0e}")
    part.row(f"encoder of {size}: its GRU, rest", ", ".join(texts))


def count_wrong_embeddings(part: Part) -> None:
    """Count wrong gradients of embeddings; for 1,025 to 3,072 ids, torch's kernel has a race.

    See pytorch#187687 and #199569: a barrier is missing.
    """
    draw = torch.Generator().manual_seed(1)
    texts = []
    for number, size in ((900, 256), (1500, 256), (2800, 256), (2800, 512), (4000, 256)):
        ids = 1 + (torch.rand(number, generator=draw) ** 4 * 3000).long()
        rows = torch.randn(number, size, generator=draw)
        exact = torch.zeros(4000, size, dtype=torch.float64).index_add_(0, ids, rows.double())
        ids, rows, exact = (each.to(part.device) for each in (ids, rows, exact))
        errors = torch.stack(
            [
                (torch.ops.aten.embedding_dense_backward(rows, ids, 4000, 0, False) - exact)
                .abs()
                .max()
                for _ in range(400 if part.on_gpu else 3)
            ]
        )
        num_wrong = int((errors > 1e-3).sum())
        texts.append(f"{number} ids {num_wrong}/{len(errors)} wrong, {errors.max():.0e}")
    part.row("embedding's gradient", "; ".join(texts))


if __name__ == "__main__":
    run_part(main)
