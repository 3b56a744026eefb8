"""Measure what CUDA graphs would gain for both passes of an update and for a step of a search.

This is a prototype. It replays one batch, whose shapes do not change, and compares the gradients
with those of the eager passes. The second step of a GRU is the fused kernel of torch.nn.GRUCell.
"""

import gc
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

import seq2seq.model.recurrence
from benchmarks.gpu.machine import fused_gru_step
from benchmarks.gpu.part import Part, run_part
from benchmarks.gpu.speed import initialize_quickly
from benchmarks.train_speed import make_batches
from seq2seq.config.schema import build_model
from seq2seq.runtime.kernels.gru import gru_step
from seq2seq.runtime.kernels.operations import stable_max
from seq2seq.special_tokens import BOS
from seq2seq.training.losses import training_loss
from seq2seq.training.updates import build_optimizer


def main(part: Part) -> None:
    initialize_quickly()
    first, last, lowest = part.sizes[0], part.sizes[-1], part.precisions[-1]

    def measure(size: int, precision: str, form: str = "luong", *, fused: bool = False) -> None:
        name = f"graph: {'fused cell, ' if fused else ''}{form}, {size}, {precision}"
        part.attempt(
            name, partial(measure_update, part, name, size, precision, form, fused=fused), seconds=8
        )

    for size in part.sizes:
        for precision in part.precisions:
            measure(size, precision)
    if part.on_gpu:  # a CPU does not have the fused kernel
        for size, precision in ((first, "fp32"), (first, lowest), (last, lowest)):
            measure(size, precision, fused=True)
    for rows, width in ((64, 1), (512, 1), (320, 5), (2560, 5)) if part.on_gpu else ((10, 5),):
        step = partial(measure_search_step, part, rows, width)
        part.attempt(f"search step, {rows} rows", step, seconds=6)
    for form in ("luong, no input feeding", "bahdanau", "conditional"):
        measure(first, "fp32", form)


class Update:
    """An update with one batch of the median target length, whose tensors stay where they are."""

    def __init__(self, part: Part, size: int, precision: str, form: str = "luong") -> None:
        self._config = part.yardstick(f"training.batching.size={size}", form=form)
        self.numerics = part.numerics(precision)
        torch.manual_seed(1)
        self.model = build_model(
            self._config,
            source_vocabulary_size=len(part.data.tokenizers.source),
            target_vocabulary_size=len(part.data.tokenizers.target),
        ).to(part.device)
        self.model.train()
        batches = make_batches(self._config, part.data, 8)
        batches.sort(key=lambda batch: batch.target_ids.shape[1])
        self._on_host = batches[len(batches) // 2]
        self.batch = self._on_host.to(part.device)
        self.num_tokens = self._on_host.num_target_tokens
        self._optimizer = build_optimizer(self._config.training.optimizer, self.model)
        self._parameters = list(self.model.parameters())
        for parameter in self._parameters:
            parameter.grad = torch.zeros_like(parameter)
        self.gradients = [each.grad for each in self._parameters if each.grad is not None]
        self._terms = torch.zeros(1, 2, device=part.device)

    def passes(self) -> None:
        """Compute the loss, and its gradients into the same tensors at every call."""
        torch._foreach_zero_(self.gradients)
        with self.numerics.autocast():
            loss = training_loss(self.model, self.batch, self._config.training)
        with self.numerics.float32_products():
            torch.autograd.backward(loss.objective / self.num_tokens)
        self._terms.copy_(loss.terms)

    def finish(self) -> None:
        """Clip, read the results, and change the weights."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        torch.cat((self._terms.flatten(), norm.unsqueeze(0))).tolist()
        self._optimizer.step()

    def copy_batch(self) -> None:
        """Copy what a real update copies to the device, into the same memory."""
        copies = zip(self.batch, self._on_host.to(self.numerics.device), strict=True)
        for place, content in copies:
            if place is not None and content is not None:
                place.copy_(content)


def measure_update(
    part: Part, name: str, size: int, precision: str, form: str, *, fused: bool
) -> None:
    gc.collect()
    if part.on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    step = fused_gru_step if fused else gru_step
    with mock.patch.object(seq2seq.model.recurrence, "gru_step", step):
        update = Update(part, size, precision, form)
        numbers = count(1)

        def run(passes: Callable[[], object]) -> None:
            torch.manual_seed(next(numbers))
            update.copy_batch()
            passes()
            update.finish()

        eager = part.seconds_per_call(partial(run, update.passes), most=1.5, calls=30)
        torch.manual_seed(99)
        update.passes()
        expected = [each.clone() for each in update.gradients]
        replays = []
        capturing = part.time(lambda: replays.append(part.graph(update.passes)))
        [replay] = replays
        torch.manual_seed(99)
        replay()
        pairs = list(zip(update.gradients, expected, strict=True))
        is_equal = all(torch.equal(a, b) for a, b in pairs)
        distance = max(float((a - b).norm() / (b.norm() + 1e-12)) for a, b in pairs)
        graphed = part.seconds_per_call(partial(run, replay), most=1.5, calls=30)
        alone = part.seconds_per_call(replay, most=0.5)
    memory = torch.cuda.max_memory_reserved() / 2**20 if part.on_gpu else 0.0
    part.row(
        name,
        f"{update.num_tokens / eager:.0f} -> {update.num_tokens / graphed:.0f} tokens/s "
        f"({1e3 * eager:.2f} -> {1e3 * graphed:.2f} ms, passes alone {1e3 * alone:.2f}), gradients "
        f"{'equal' if is_equal else f'differ by {distance:.0e}'}, captured in "
        f"{1e3 * capturing:.0f} ms, {memory:.0f} MB",
    )


def measure_search_step(part: Part, rows: int, width: int) -> None:
    """Measure a step of a search with `rows` hypotheses, `width` of each sentence."""
    update = Update(part, rows // width, "fp32")
    model = update.model.eval()
    batch = update.batch
    with torch.no_grad(), update.numerics.autocast():
        memory, state = model.encode(batch.source_ids, batch.source_mask)
        sentences = torch.arange(len(batch.source_ids), device=part.device)
        state = state.select(sentences.repeat_interleave(width))
        tokens = torch.full((len(sentences) * width,), BOS, device=part.device)

        def step() -> None:
            found = model.decoder.step(state, tokens, memory)
            _, ids = stable_max(torch.log_softmax(found.logits.float(), dim=-1))
            tokens.copy_(ids)
            for old, new in zip(state.hidden, found.state.hidden, strict=True):
                old.copy_(new)
            state.feedback.copy_(found.state.feedback)

        eager = part.seconds_per_call(step)
        graphed = part.seconds_per_call(part.graph(step))
    part.row(
        f"search step, {len(tokens)} rows", f"{1e3 * eager:.2f} ms, as a graph {1e3 * graphed:.3f}"
    )


if __name__ == "__main__":
    run_part(main)
