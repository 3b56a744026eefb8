"""One update: forward, backward, clip, step."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.config.schema import TrainConfig
from seq2seq.config.training import OptimizerConfig, OptimizerName
from seq2seq.data import Batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks, sum_gradients, sum_over_processes
from seq2seq.runtime.numerics import Numerics, Precision
from seq2seq.runtime.seeding import derive_seed
from seq2seq.training.loss import sequence_loss
from seq2seq.training.schedules import draw_forced_mask


class NonFiniteError(FloatingPointError):
    """A loss or gradient is no number; the weights are those before the update."""


class UpdateResult(NamedTuple):
    """What an update measured."""

    cross_entropy: float  # of all processes, summed over target tokens
    gradient_norm: float
    guided_loss: float  # of all processes, summed over target tokens that have a guide
    num_guided: int  # such tokens


class Updater:
    """Changes the weights by one update at a time."""

    def __init__(
        self, config: TrainConfig, *, model: Seq2Seq, numerics: Numerics, ranks: Ranks
    ) -> None:
        self._config = config
        self._model = model
        self._numerics = numerics
        self._ranks = ranks
        self._optimizer = build_optimizer(config.training.optimizer, model)
        # fp16 gradients underflow without it; in other precisions it does nothing.
        self._scaler = torch.amp.GradScaler(
            numerics.device.type, enabled=numerics.precision is Precision.fp16
        )

    def make(
        self, batches: Sequence[Batch], *, update: int, learning_rate: float, num_tokens: int
    ) -> UpdateResult:
        """Make an update of one or, with accumulation, several batches.

        Args:
            batches: this process' part.
            update: its number, from 1; dropout is drawn from it alone, whenever a run resumes.
            learning_rate: of this update.
            num_tokens: target tokens of all batches of all processes, which the loss is
                averaged over.

        Raises:
            NonFiniteError: a gradient is no number; the weights have not changed.
        """
        torch.manual_seed(derive_seed(self._config.seed, "update", update, self._ranks.rank))
        self._model.train()
        losses = [self._backward(batch, update, num_tokens) for batch in batches]
        sums = torch.stack(losses).sum(0)
        sum_over_processes([sums])
        cross_entropy, guided, num_guided = sums.unbind()
        sum_gradients(self._model)
        self._scaler.unscale_(self._optimizer)  # after the sum, so that all see an overflow
        norm = self._clip()
        self._check_finite(cross_entropy, norm, update=update)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._scaler.step(self._optimizer)  # an fp16 overflow skips the step and lowers the scale
        self._scaler.update()
        self._optimizer.zero_grad()
        return UpdateResult(
            cross_entropy.item(), norm.item(), guided.item(), int(num_guided.item())
        )

    @property
    def learning_rate(self) -> float:
        """Return that of the last update."""
        rate: float = self._optimizer.param_groups[0]["lr"]
        return rate

    def state(self) -> dict[str, dict[str, object]]:
        """Return what a resumed run needs, of tensors and plain types."""
        return {"optimizer": self._optimizer.state_dict(), "scaler": self._scaler.state_dict()}

    def load_state(self, state: dict[str, dict[str, object]]) -> None:
        """Undo `state`."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._scaler.load_state_dict(state["scaler"])

    def _backward(self, batch: Batch, update: int, num_tokens: int) -> Tensor:
        """Add a batch's part to the gradients; return cross-entropy, guided one and its tokens."""
        training = self._config.training
        forced_mask = draw_forced_mask(
            training.teacher_forcing,
            update=update,
            shape=batch.target_ids.shape,
            device=self._numerics.device,
        )
        with self._numerics.autocast():
            loss = sequence_loss(
                self._model,
                batch,
                label_smoothing=training.label_smoothing,
                forced_mask=forced_mask,
            )
        total, guided = loss.smoothed, loss.cross_entropy.new_zeros(2)
        if loss.guided is not None:
            total = total + training.guided_attention.weight * loss.guided.cross_entropy
            guided = torch.stack(loss.guided).detach()
        self._scaler.scale(total / num_tokens).backward()  # type: ignore[no-untyped-call]
        return torch.cat((loss.cross_entropy.unsqueeze(0), guided))

    def _check_finite(self, cross_entropy: Tensor, norm: Tensor, *, update: int) -> None:
        """Let only what is a number reach the weights."""
        if not torch.isfinite(cross_entropy):
            raise NonFiniteError(f"update {update}: the loss is {cross_entropy.item()}")
        if torch.isfinite(norm):
            return
        # An fp16 gradient may overflow now and then; below a scale of 1 it is the model's fault.
        if not self._scaler.is_enabled() or self._scaler.get_scale() < 1:
            raise NonFiniteError(f"update {update}: the gradient's norm is {norm.item()}")

    def _clip(self) -> Tensor:
        limit = self._config.training.optimizer.clip_norm
        return torch.nn.utils.clip_grad_norm_(self._model.parameters(), limit or float("inf"))


def build_optimizer(config: OptimizerConfig, model: Seq2Seq) -> torch.optim.Optimizer:
    """Build the optimizer; weight decay spares biases and norms."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    if config.name is OptimizerName.sgd:
        return torch.optim.SGD(groups, lr=config.learning_rate)
    if config.name is OptimizerName.adamw:
        return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
    return torch.optim.Adam(groups, lr=config.learning_rate, fused=True)
