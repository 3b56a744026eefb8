"""Add up the gradients of the batches of one update."""

import logging
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.config.training import TrainingConfig
from seq2seq.data import Batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.device_memory import DeviceMemoryError, OnOutOfMemory
from seq2seq.runtime.numerics import Numerics
from seq2seq.training.loss import repeat_rows, sequence_loss
from seq2seq.training.schedules import draw_forced_mask

logger = logging.getLogger(__name__)

NUM_SUMS = 6
"""Number of sums that the processes exchange beside the gradients: cross-entropy, guided loss,
number of guided tokens, divergence, coverage loss, and 1 if memory was too small."""


class GradientAdder:
    """Runs the forward and backward passes of an update.

    Args:
        config: The training configuration.
        model: The model, whose parameters collect the gradients.
        numerics: Device and precision.
        scaler: Scales fp16 losses; the gradients are those of the scaled loss.
    """

    def __init__(
        self,
        config: TrainingConfig,
        *,
        model: Seq2Seq,
        numerics: Numerics,
        scaler: torch.amp.GradScaler,
    ) -> None:
        self._config = config
        self._model = model
        self._numerics = numerics
        self._scaler = scaler

    def add(self, batches: Sequence[Batch], *, update: int, num_tokens: int) -> Tensor:
        """Add the gradients of the batches of this process.

        Args:
            batches: The batches, on the CPU.
            update: Number of the update, from 1.
            num_tokens: Target tokens that the loss is averaged over.

        Returns:
            The sums of `NUM_SUMS`, on the device. If memory is short and the configuration says
            skip, there are no gradients, and only the last sum is 1.

        Raises:
            DeviceMemoryError: Memory is short, and the configuration says stop.
        """
        try:
            sums = torch.stack([self._add_batch(each, update, num_tokens) for each in batches])
            return functional.pad(sums.sum(0), (0, 1))
        except torch.OutOfMemoryError as error:
            shortage = _describe_shortage(batches, update, self._config)
            if self._config.on_out_of_memory is OnOutOfMemory.stop:
                raise DeviceMemoryError(shortage) from error
            logger.warning("%s; the update is skipped", shortage)
        # Outside of the handler, because the error holds the tensors of its frames.
        self._model.zero_grad()
        torch.cuda.empty_cache()
        return torch.tensor([0.0] * (NUM_SUMS - 1) + [1.0], device=self._numerics.device)

    def _add_batch(self, batch: Batch, update: int, num_tokens: int) -> Tensor:
        """Add the gradients of a batch; return the first five sums.

        R-Drop's loss (Wu et al. 2021, eq. 4) is that of two passes; half of it is the loss here, so
        that its scale is that of one pass.
        """
        batch, config = batch.to(self._numerics.device), self._config
        forced_mask = draw_forced_mask(
            config.teacher_forcing,
            update=update,
            shape=batch.target_ids.shape,
            device=self._numerics.device,
        )
        num_passes = 1
        if config.r_drop > 0:
            num_passes, batch = 2, repeat_rows(batch)
            forced_mask = None if forced_mask is None else forced_mask.repeat(2, 1)
        with self._numerics.autocast():
            loss = sequence_loss(
                self._model,
                batch,
                label_smoothing=config.label_smoothing,
                forced_mask=forced_mask,
                is_repeated=num_passes == 2,
                with_coverage=config.coverage_loss > 0,
            )
        total, others = loss.smoothed, loss.cross_entropy.new_zeros(NUM_SUMS - 2)
        if loss.guided is not None:
            total = total + config.guided_attention.weight * loss.guided.cross_entropy
            others[:2] = torch.stack(loss.guided).detach()
        if loss.divergence is not None:
            total = total + config.r_drop * loss.divergence
            others[2] = num_passes * loss.divergence.detach()
        if loss.coverage is not None:
            total = total + config.coverage_loss * loss.coverage
            others[3] = loss.coverage.detach()
        with self._numerics.float32_products():
            self._scaler.scale(total / (num_passes * num_tokens)).backward()  # type: ignore[no-untyped-call]
        return torch.cat((loss.cross_entropy.unsqueeze(0), others)) / num_passes


def _describe_shortage(batches: Sequence[Batch], update: int, config: TrainingConfig) -> str:
    """Return one line that names the batches of an update, their tokens and the keys to change."""
    sizes = " and ".join(map(_describe, batches))
    size = f"training.batching.size={config.batching.size}"
    ways = (
        f"lower {size}, with a higher training.accumulation={config.accumulation} for updates of "
        "the same size, or data.max_length"
    )
    if config.on_out_of_memory is OnOutOfMemory.stop:
        ways += ", or leave such updates out with training.on_out_of_memory=skip"
    return f"update {update}: the memory of a GPU is too small; this process has {sizes}; {ways}"


def _describe(batch: Batch) -> str:
    sides = []
    for name, ids in (("source", batch.source_ids), ("target", batch.target_ids)):
        rows, length = ids.shape
        sides.append(f"{rows} x {length} {name} tokens")
    first = int(batch.indices[0]) + 1
    return f"a batch of {' and '.join(sides)}, which begins with training pair {first}"
