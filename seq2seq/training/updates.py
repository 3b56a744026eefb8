"""Make one update: forward and backward passes, clipping, the optimizer, averaged weights."""

import copy
import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from seq2seq.config.schema import OptimizerConfig, OptimizerName, TrainConfig
from seq2seq.data.batching import Batch
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.devices import Precision
from seq2seq.runtime.distributed import SINGLE_PROCESS, Ranks, sum_gradients, sum_over_processes
from seq2seq.runtime.numerics import Numerics, derive_seed, memory_errors_named
from seq2seq.training.losses import TrainingLoss, loss_names, training_loss
from seq2seq.training.progress import UpdateResult
from seq2seq.training.schedules import draw_forced_mask


class NonFiniteError(FloatingPointError):
    """The loss or a gradient is not finite; the weights are unchanged."""


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
        self._dropouts = [
            (module, module.p)
            for module in model.modules()
            if isinstance(module, (nn.Dropout, nn.Dropout1d))
        ]
        self._names = loss_names(config.training)
        decay = config.training.ema_decay
        self._average = None if decay is None else WeightAverage(model, decay)

    def update_weights(
        self,
        batches: Sequence[Batch],
        *,
        update: int,
        learning_rate: float,
        num_tokens: int,
        dropout_factor: float = 1.0,
    ) -> UpdateResult:
        """Make an update from one batch, or from several with accumulation.

        On a GPU the host waits once, after everything up to clipping was started: it reads the loss
        and the gradient's norm together. The optimizer starts only if both are finite, and runs
        while the host prepares the next batch. Otherwise the weights stay unchanged.

        Args:
            batches: The batches of this process, on the CPU.
            update: Number of the update, from 1. It seeds dropout, so that a resumed run draws the
                same numbers.
            learning_rate: Learning rate of this update.
            num_tokens: Target tokens of all batches of all processes; the loss is averaged over
                them.
            dropout_factor: Factor of the probabilities of dropout.

        Raises:
            NonFiniteError: The loss or a gradient is not finite; the weights have not changed.
            DeviceMemoryError: A batch did not fit into the memory of a GPU.
        """
        torch.manual_seed(derive_seed(self._config.seed, "update", update, self._ranks.rank))
        self._model.train()
        for module, probability in self._dropouts:
            module.p = dropout_factor * probability
        training = self._config.training
        way_out = (
            f"lower training.batching.size={training.batching.size} and raise training."
            f"accumulation={training.accumulation}, or lower data.max_length"
        )
        with memory_errors_named(f"update {update}", way_out):
            terms = [
                self.add_gradients(each, update=update, num_tokens=num_tokens).terms
                for each in batches
            ]
            sums = torch.stack(terms).sum(0).flatten()  # of each loss: total and number of tokens
        sum_over_processes(sums)
        sum_gradients(self._model)
        norm = self._clip()
        # The host waits for a GPU only here, where it reads all results at once.
        *values, gradient_norm = torch.cat((sums, norm.unsqueeze(0))).tolist()
        pairs = zip(values[::2], values[1::2], strict=True)
        losses = dict(zip(self._names, pairs, strict=True))
        self._check_finite(losses["loss"][0], gradient_norm, update=update)
        self._step(learning_rate)
        if self._average is not None and math.isfinite(gradient_norm):  # else no step was made
            self._average.add()
        return UpdateResult(losses, gradient_norm, num_tokens)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last update."""
        rate: float = self._optimizer.param_groups[0]["lr"]
        return rate

    @property
    def model_to_keep(self) -> Seq2Seq:
        """The model to validate and keep: the average, if the configuration asks for one."""
        return self._model if self._average is None else self._average.model

    def state(self) -> dict[str, dict[str, object]]:
        """Return the state of optimizer, loss scale and average, as tensors and plain types."""
        state = {"optimizer": self._optimizer.state_dict(), "scaler": self._scaler.state_dict()}
        return state if self._average is None else {**state, "average": self._average.state()}

    def load_state(self, state: dict[str, dict[str, object]]) -> None:
        """Restore what `state` returned; the optimizer keeps the settings of the configuration.

        Raises:
            RuntimeError: A tensor does not have the shape of its parameter.
            LookupError, TypeError, AttributeError: The state is not what `state` returned.
        """
        optimizer = self._optimizer.state_dict()
        parameters = [each for group in self._optimizer.param_groups for each in group["params"]]
        groups = cast(list[dict[str, float]], state["optimizer"]["param_groups"])
        for group, saved_group in zip(optimizer["param_groups"], groups, strict=True):
            group["lr"] = float(saved_group["lr"])  # of the last update
        saved = cast(dict[int, dict[str, Tensor]], state["optimizer"]["state"])
        optimizer["state"] = {
            number: _checked_moments(values, parameters[number]) for number, values in saved.items()
        }
        self._optimizer.load_state_dict(optimizer)
        if state["scaler"]:  # empty if the saved run did not use fp16
            self._scaler.load_state_dict(state["scaler"])
        if self._average is not None:
            self._average.load_state(state["average"])

    def add_gradients(self, batch: Batch, *, update: int, num_tokens: int) -> TrainingLoss:
        """Compute the losses of a batch on the CPU, and add its part to the gradients.

        Args:
            batch: The batch.
            update: Number of the update, from 1.
            num_tokens: Target tokens of all batches of the update.
        """
        config, device = self._config.training, self._numerics.device
        batch = batch.to(device)
        forced_mask = draw_forced_mask(
            config.teacher_forcing, update=update, shape=batch.target_ids.shape, device=device
        )
        with self._numerics.autocast():
            loss = training_loss(self._model, batch, config, forced_mask=forced_mask)
        with self._numerics.float32_products():
            self._scaler.scale(loss.objective / num_tokens).backward()  # type: ignore[no-untyped-call]
        return loss

    def _check_finite(self, loss: float, norm: float, *, update: int) -> None:
        """Raise NonFiniteError if the loss or the gradient is not finite."""
        # fp16 gradients overflow occasionally; below a loss scale of 1, the model is the cause.
        is_sound = math.isfinite(norm) or (
            self._scaler.is_enabled() and self._scaler.get_scale() >= 1
        )
        if not (math.isfinite(loss) and is_sound):
            raise NonFiniteError(f"update {update}: loss {loss}, norm of the gradient {norm}")

    def _clip(self) -> Tensor:
        """Scale the gradients down to the limit; return their norm before scaling."""
        self._scaler.unscale_(self._optimizer)  # after the sum: every process sees an overflow
        limit = self._config.training.optimizer.clip_norm
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), limit or float("inf"))
        return norm.to(self._numerics.device)  # without any gradient, it is on the CPU

    def _step(self, learning_rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._scaler.step(self._optimizer)  # an fp16 overflow skips the step and lowers the scale
        self._scaler.update()
        self._optimizer.zero_grad()


def batch_gradients(
    config: TrainConfig, *, model: Seq2Seq, batch: Batch, update: int = 1
) -> tuple[float, dict[str, Tensor]]:
    """Compute loss and gradients of a batch as a training update does, before clipping.

    Torch's generator is seeded as for the update, so that dropout is the same after its warm-up.
    The gradients are also stored in the parameters (`parameter.grad`), in place of earlier ones.

    Args:
        config: The configuration of the training.
        model: The model; it computes in single precision on its own device.
        batch: For example the result of `make_batch`.
        update: Number of the update, from 1.

    Returns:
        The mean loss over target tokens, in nats, which includes label smoothing and auxiliary
        losses, if any; and the gradient of each parameter that has one, by name.

    Example:
        >>> from seq2seq import build_model, load_config
        >>> from seq2seq.data.batching import make_batch
        >>> config = load_config()
        >>> model = build_model(config, source_vocabulary_size=9, target_vocabulary_size=9)
        >>> loss, gradients = batch_gradients(
        ...     config, model=model, batch=make_batch([[5, 6]], [[7]])
        ... )
        >>> gradients["decoder.output.bias"].shape
        torch.Size([9])
    """
    numerics = Numerics(next(model.parameters()).device, Precision.fp32)
    updater = Updater(config, model=model, numerics=numerics, ranks=SINGLE_PROCESS)
    torch.manual_seed(derive_seed(config.seed, "update", update, 0))
    was_training = model.training
    model.train().zero_grad()
    loss = updater.add_gradients(batch, update=update, num_tokens=batch.num_target_tokens)
    model.train(was_training)
    gradients = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return (loss.objective / batch.num_target_tokens).item(), gradients


def build_optimizer(config: OptimizerConfig, model: Seq2Seq) -> torch.optim.Optimizer:
    """Build the optimizer of the parameters that are trained.

    The model is on its device already. Biases and the scales of layer norms get no weight decay.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() > 1]
    vectors = [parameter for parameter in trained if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    if config.name is OptimizerName.sgd:
        # On a GPU the fused optimizer skips an fp16 overflow by itself, so the host need not check
        # for it.
        is_fused = any(parameter.is_cuda for parameter in trained) or None
        return torch.optim.SGD(groups, lr=config.learning_rate, fused=is_fused)
    if config.name is OptimizerName.adamw:
        return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
    return torch.optim.Adam(groups, lr=config.learning_rate, fused=True)


class WeightAverage:
    """An exponential moving average of the parameters of a model.

    After update n, with the decay d and the parameters w_i after update i, the average is

        sum_i d^(n - i) w_i / sum_i d^(n - i),   i = 1 ... n

    The division is the bias correction of Adam (Kingma and Ba 2015, section 3): the average of the
    first updates is the mean of their weights, and the initial weights have no share in it.
    Buffers are not averaged. The average is kept in the type of the parameters, fp32.

    Args:
        model: The model; a shared matrix is averaged once.
        decay: d, in [0, 1).
    """

    def __init__(self, model: Seq2Seq, decay: float) -> None:
        self._source = model
        # cuDNN reads a GRU's parameters from one block, which .to() makes again after the copy.
        self._average = copy.deepcopy(model).to(next(model.parameters()).device)
        self._decay = decay
        self._num_updates = 0

    @property
    def model(self) -> Seq2Seq:
        """The model with averaged weights, or the model itself before the first update."""
        return self._average if self._num_updates else self._source

    @torch.no_grad()
    def add(self) -> None:
        """Add the weights that an update has produced."""
        self._num_updates += 1
        weight = (1 - self._decay) / (1 - self._decay**self._num_updates)
        torch._foreach_lerp_(
            list(self._average.parameters()), list(self._source.parameters()), weight
        )

    def state(self) -> dict[str, object]:
        """Return the average and the number of its updates, as tensors and plain types."""
        return {"num_updates": self._num_updates, "weights": self._average.state_dict()}

    def load_state(self, state: dict[str, object]) -> None:
        """Restore what `state` returned."""
        self._average.load_state_dict(cast(dict[str, Tensor], state["weights"]))
        self._num_updates = cast(int, state["num_updates"])


def _checked_moments(saved: dict[str, Tensor], parameter: Tensor) -> dict[str, Tensor]:
    """Return a copy of Adam's state of a parameter; the fused Adam does not check its shapes."""
    likes = {"step": torch.zeros(()), "exp_avg": parameter, "exp_avg_sq": parameter}
    for name, like in likes.items():
        if saved[name].shape != like.shape:
            raise RuntimeError(f"{name} of shape {[*saved[name].shape]}, not {[*like.shape]}")
    return {
        name: torch.empty_like(like, requires_grad=False).copy_(saved[name])
        for name, like in likes.items()
    }
