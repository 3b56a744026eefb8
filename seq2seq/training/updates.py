"""Make one update: forward and backward passes, clipping and the optimizer's step."""

import logging
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.config.schema import TrainConfig
from seq2seq.data import Batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks, sum_gradients, sum_over_processes
from seq2seq.runtime.numerics import Numerics, Precision
from seq2seq.runtime.seeding import derive_seed
from seq2seq.training.gradients import GradientAdder
from seq2seq.training.optimizer import build_optimizer
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
        # Makes the scale, which the first update needs even if memory is too short to make it.
        self._scaler.scale(torch.zeros((), device=numerics.device))
        self._gradients = GradientAdder(
            config.training, model=model, numerics=numerics, scaler=self._scaler
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
        sums = self._gradients.add(batches, update=update, num_tokens=num_tokens)
        sum_over_processes([sums])
        sum_gradients(self._model)
        norm = self._clip()
        # The only time that the host waits for a GPU: all results in one read.
        *results, num_short, gradient_norm = torch.cat((sums, norm.unsqueeze(0))).tolist()
        cross_entropy, guided_loss, num_guided, divergence, coverage_loss = results
        if num_short:
            self._leave_out(update, int(num_short))
            return _SKIPPED
        self._check_finite(cross_entropy, gradient_norm, update=update)
        self._step(learning_rate)
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
        if state["scaler"]:  # empty unless the run computed in fp16
            self._scaler.load_state_dict(state["scaler"])
        if self._average is not None:
            self._average.load_state(state["average"])

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
        """Scale the gradients down to the limit; return their norm before."""
        self._scaler.unscale_(self._optimizer)  # after the sum: every process sees an overflow
        limit = self._config.training.optimizer.clip_norm
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), limit or float("inf"))
        return norm.to(self._numerics.device)  # it is on the CPU if there are no gradients

    def _step(self, learning_rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._scaler.step(self._optimizer)  # an fp16 overflow skips the step and lowers the scale
        self._scaler.update()
        self._optimizer.zero_grad()
        if self._average is not None:
            self._average.add()

    def _leave_out(self, update: int, num_short: int) -> None:
        """Forget the gradients of an update for which processes lacked memory."""
        if self._ranks.world_size > 1:
            logger.warning(
                "update %d is skipped: memory was too small in %d of %d processes; "
                "lower training.batching.size=%d",
                update,
                num_short,
                self._ranks.world_size,
                self._config.training.batching.size,
            )
        self._scaler.update(self._scaler.get_scale())  # it is neither a success nor an overflow
        self._optimizer.zero_grad()
