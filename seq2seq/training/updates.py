"""Make one update: forward and backward passes, clipping and the optimizer's step."""

import logging
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.config.schema import TrainConfig
from seq2seq.config.training import OptimizerConfig, OptimizerName
from seq2seq.data import Batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.device_memory import DeviceMemoryError, OnOutOfMemory
from seq2seq.runtime.distributed import Ranks, sum_gradients, sum_over_processes
from seq2seq.runtime.numerics import Numerics, Precision
from seq2seq.runtime.seeding import derive_seed
from seq2seq.training.loss import sequence_loss
from seq2seq.training.out_of_memory import describe_shortage
from seq2seq.training.r_drop import repeat_rows
from seq2seq.training.schedules import draw_forced_mask
from seq2seq.training.weight_average import WeightAverage

logger = logging.getLogger(__name__)


class NonFiniteError(FloatingPointError):
    """The loss or a gradient is not finite; the weights are those before the update."""


class UpdateResult(NamedTuple):
    """Measurements of an update, over all processes."""

    cross_entropy: float
    """Sum over target tokens, in nats."""
    gradient_norm: float
    """Before clipping."""
    guided_loss: float
    """Sum over target tokens with a guide, in nats."""
    num_guided: int
    """Number of target tokens with a guide."""
    divergence: float = 0.0
    """Between the two passes of R-Drop, summed over target tokens, in nats."""
    coverage_loss: float = 0.0
    """Summed over target tokens."""
    is_skipped: bool = False
    """Whether a process ran out of memory and no process made the update."""


_SKIPPED = UpdateResult(0.0, 0.0, 0.0, 0, is_skipped=True)


class Updater:
    """Updates the weights of a model, one update at a time."""

    def __init__(
        self, config: TrainConfig, *, model: Seq2Seq, numerics: Numerics, ranks: Ranks
    ) -> None:
        self._config = config
        self._model = model
        self._numerics = numerics
        self._ranks = ranks
        self._optimizer = build_optimizer(config.training.optimizer, model)
        # Scaling keeps fp16 gradients from underflowing; it is disabled in other precisions.
        self._scaler = torch.amp.GradScaler(
            numerics.device.type, enabled=numerics.precision is Precision.fp16
        )
        decay = config.training.ema_decay
        self._average = None if decay is None else WeightAverage(model, decay)

    def make(
        self, batches: Sequence[Batch], *, update: int, learning_rate: float, num_tokens: int
    ) -> UpdateResult:
        """Make an update from one batch, or from several with accumulation.

        On a GPU the host waits once, after everything up to clipping was started: it reads the loss
        and the gradient's norm together. Only if both are finite, the optimizer starts; it runs
        while the host prepares the next batch. Otherwise the weights are those before the update.

        Args:
            batches: The batches of this process, on the CPU.
            update: Number of the update, from 1. It seeds dropout, so that a resumed run draws the
                same.
            learning_rate: Learning rate of this update.
            num_tokens: Target tokens of all batches of all processes; the loss is averaged over
                them.

        Raises:
            NonFiniteError: The loss or a gradient is not finite; the weights have not changed.
            DeviceMemoryError: A batch did not fit, and the configuration says stop.
        """
        torch.manual_seed(derive_seed(self._config.seed, "update", update, self._ranks.rank))
        self._model.train()
        sums = self._add_gradients(batches, update, num_tokens)
        if sums is None:
            self._optimizer.zero_grad()
            torch.cuda.empty_cache()
            if self._ranks.world_size == 1:
                return _SKIPPED
            # The other processes wait for the sums, and are told by them to skip the update too.
            sums = torch.tensor([0.0] * 5 + [1.0], device=self._numerics.device)
        sum_over_processes([sums])
        sum_gradients(self._model)
        self._scaler.unscale_(self._optimizer)  # after the sum: every process sees an overflow
        norm = self._clip()
        # The only time that the host waits for a GPU: all results in one read.
        *results, gradient_norm = torch.cat((sums, norm.unsqueeze(0))).tolist()
        cross_entropy, guided_loss, num_guided, divergence, coverage_loss, num_short = results
        if num_short:
            logger.warning("update %d is skipped: %d processes lack memory", update, num_short)
            self._scaler.update()
            self._optimizer.zero_grad()
            return _SKIPPED
        self._check_finite(cross_entropy, gradient_norm, update=update)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._scaler.step(self._optimizer)  # an fp16 overflow skips the step and lowers the scale
        self._scaler.update()
        self._optimizer.zero_grad()
        if self._average is not None:
            self._average.add()
        return UpdateResult(
            cross_entropy, gradient_norm, guided_loss, int(num_guided), divergence, coverage_loss
        )

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last update."""
        rate: float = self._optimizer.param_groups[0]["lr"]
        return rate

    def averaged_weights(self) -> AbstractContextManager[None]:
        """Return a context in which the model has its average, if the configuration asks for one.

        The average is what is validated and kept; training continues from the model's own weights.
        """
        return nullcontext() if self._average is None else self._average.applied()

    def state(self) -> dict[str, dict[str, object]]:
        """Return the state of optimizer, loss scale and average, as tensors and plain types."""
        state = {"optimizer": self._optimizer.state_dict(), "scaler": self._scaler.state_dict()}
        return state if self._average is None else {**state, "average": self._average.state()}

    def load_state(self, state: dict[str, dict[str, object]]) -> None:
        """Restore what `state` returned, with the weight decay of the configuration."""
        decays = [group["weight_decay"] for group in self._optimizer.param_groups]
        self._optimizer.load_state_dict(state["optimizer"])
        for group, decay in zip(self._optimizer.param_groups, decays, strict=True):
            group["weight_decay"] = decay
        self._scaler.load_state_dict(state["scaler"])
        if self._average is not None:
            self._average.load_state(state["average"])

    def _add_gradients(
        self, batches: Sequence[Batch], update: int, num_tokens: int
    ) -> Tensor | None:
        """Add the gradients of all batches; return the sums of `_backward` and 0, (6,).

        None is returned if memory is short and the update is to be skipped.
        """
        try:
            losses = [self._backward(batch, update, num_tokens) for batch in batches]
            return functional.pad(torch.stack(losses).sum(0), (0, 1))
        except torch.OutOfMemoryError as error:
            shortage = describe_shortage(batches, update, self._config.training)
            if self._config.training.on_out_of_memory is OnOutOfMemory.stop:
                raise DeviceMemoryError(shortage) from error
            logger.warning("%s; the update is skipped", shortage)
            return None

    def _backward(self, batch: Batch, update: int, num_tokens: int) -> Tensor:
        """Add the gradients of a batch.

        R-Drop's loss (Wu et al. 2021, eq. 4) is that of two passes; half of it is the loss here, so
        that its scale is that of one pass.

        Returns:
            Cross-entropy, guided loss, number of guided tokens, divergence and coverage loss, (5,).
        """
        batch, training = batch.to(self._numerics.device), self._config.training
        forced_mask = draw_forced_mask(
            training.teacher_forcing,
            update=update,
            shape=batch.target_ids.shape,
            device=self._numerics.device,
        )
        num_passes = 1
        if training.r_drop > 0:
            num_passes, batch = 2, repeat_rows(batch)
            forced_mask = None if forced_mask is None else forced_mask.repeat(2, 1)
        with self._numerics.autocast():
            loss = sequence_loss(
                self._model,
                batch,
                label_smoothing=training.label_smoothing,
                forced_mask=forced_mask,
                is_repeated=num_passes == 2,
                with_coverage=training.coverage_loss > 0,
            )
        total, others = loss.smoothed, loss.cross_entropy.new_zeros(4)
        if loss.guided is not None:
            total = total + training.guided_attention.weight * loss.guided.cross_entropy
            others[:2] = torch.stack(loss.guided).detach()
        if loss.divergence is not None:
            total = total + training.r_drop * loss.divergence
            others[2] = num_passes * loss.divergence.detach()
        if loss.coverage is not None:
            total = total + training.coverage_loss * loss.coverage
            others[3] = loss.coverage.detach()
        with self._numerics.float32_products():
            self._scaler.scale(total / (num_passes * num_tokens)).backward()  # type: ignore[no-untyped-call]
        return torch.cat((loss.cross_entropy.unsqueeze(0), others)) / num_passes

    def _check_finite(self, cross_entropy: float, norm: float, *, update: int) -> None:
        """Raise NonFiniteError if the loss or the gradient is not finite."""
        if not math.isfinite(cross_entropy):
            raise NonFiniteError(f"update {update}: the loss is {cross_entropy}")
        if math.isfinite(norm):
            return
        # fp16 gradients overflow occasionally; below a loss scale of 1, the model is the cause.
        if not self._scaler.is_enabled() or self._scaler.get_scale() < 1:
            raise NonFiniteError(f"update {update}: the gradient's norm is {norm}")

    def _clip(self) -> Tensor:
        limit = self._config.training.optimizer.clip_norm
        return torch.nn.utils.clip_grad_norm_(self._model.parameters(), limit or float("inf"))


def build_optimizer(config: OptimizerConfig, model: Seq2Seq) -> torch.optim.Optimizer:
    """Build the optimizer of the parameters that are trained.

    Biases and the scales of layer norms get no weight decay.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() > 1]
    vectors = [parameter for parameter in trained if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    if config.name is OptimizerName.sgd:
        # On a GPU the fused form skips an fp16 overflow by itself; the host need not ask for it.
        is_fused = any(parameter.is_cuda for parameter in trained) or None
        return torch.optim.SGD(groups, lr=config.learning_rate, fused=is_fused)
    if config.name is OptimizerName.adamw:
        return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
    return torch.optim.Adam(groups, lr=config.learning_rate, fused=True)
