"""The exponential moving average of a model's weights over its updates."""

import contextlib
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn


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

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._parameters = dict(model.named_parameters())
        self._average = {name: torch.zeros_like(each) for name, each in self._parameters.items()}
        self._decay = decay
        self._num_updates = 0

    @torch.no_grad()
    def add(self) -> None:
        """Add the weights after an update."""
        self._num_updates += 1
        weight = (1 - self._decay) / (1 - self._decay**self._num_updates)
        torch._foreach_lerp_(list(self._average.values()), list(self._parameters.values()), weight)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Give the model the average, and at the end its own weights back, bit by bit.

        The numbers are copied and the parameters stay where they are in memory, because cuDNN
        reads those of a GRU from one block.
        """
        if self._num_updates == 0:
            yield
            return
        own = {name: each.detach().clone() for name, each in self._parameters.items()}
        try:
            self._copy(self._average)
            yield
        finally:
            self._copy(own)

    @torch.no_grad()
    def _copy(self, values: dict[str, Tensor]) -> None:
        """Copy values into the parameters of their names."""
        for name, parameter in self._parameters.items():
            parameter.copy_(values[name])

    def state(self) -> dict[str, object]:
        """Return the average and the number of its updates, as tensors and plain types."""
        return {"num_updates": self._num_updates, "weights": dict(self._average)}

    def load_state(self, state: dict[str, object]) -> None:
        """Restore what `state` returned."""
        weights = cast(dict[str, Tensor], state["weights"])
        for name, average in self._average.items():
            average.copy_(weights[name])
        self._num_updates = cast(int, state["num_updates"])
