"""Train one model in several processes: ranks, sums, broadcasts and barriers."""

import contextlib
import gc
import itertools
import os
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from typing import Annotated, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from seq2seq.checks import Range, check_value
from seq2seq.files.paths import reading
from seq2seq.runtime.process import lost_processes_named

_Value = TypeVar("_Value")
_NotNegative = Annotated[int, Range(0)]

_PATIENCE = timedelta(days=7)
"""Time to wait for rank 0, which prepares the data alone. If a process dies, the wait ends at once.
"""
_groups = itertools.count()
_patient_groups: list[distributed.ProcessGroup] = []


class Ranks(NamedTuple):
    """The position of this process among the processes of the run, and their communication."""

    rank: int
    local_rank: int
    world_size: int

    @property
    def is_first(self) -> bool:
        """Return whether this is the process that writes files."""
        return self.rank == 0

    def share_from_first(self, value: _Value) -> _Value:
        """Return the value of the first process in every process, however long it takes."""
        if self.world_size == 1:
            return value
        values = [value]
        with lost_processes_named():
            distributed.broadcast_object_list(values, group=_patient_groups[-1])
        return values[0]

    def compute_in_first(self, function: Callable[[], _Value]) -> _Value:
        """Return in every process the value that rank 0 computes, however long it takes."""
        value = function() if self.is_first else None
        return cast(_Value, self.share_from_first(value))

    def gather_in_first(self, value: _Value) -> list[_Value]:
        """Return the values of all processes, by rank, in rank 0; an empty list elsewhere."""
        if self.world_size == 1:
            return [value]
        values: list[_Value | None] | None = [None] * self.world_size if self.is_first else None
        with lost_processes_named():
            distributed.gather_object(value, values, group=_patient_groups[-1])
        return cast("list[_Value]", values or [])

    def barrier(self) -> None:
        """Wait until every process has reached this call, however long it takes."""
        if self.world_size > 1:
            with lost_processes_named():
                distributed.barrier(group=_patient_groups[-1])

    def copy_from_first(self, model: nn.Module) -> None:
        """Give the model of every process the parameters and buffers of rank 0."""
        if self.world_size == 1:
            return
        with lost_processes_named():
            for tensor in model.state_dict().values():
                distributed.broadcast(tensor, src=0)

    def check_equal_weights(self, model: nn.Module) -> None:
        """Check that the weights of this process equal the weights of rank 0.

        Raises:
            ValueError: The weights of this process differ from the weights of rank 0.
        """
        if self.world_size == 1:
            return
        checksum = 0
        for tensor in model.state_dict().values():
            values = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
            checksum = zlib.crc32(values.numpy(), checksum)
        if self.share_from_first(checksum) != checksum:
            raise ValueError(
                "the weights differ from the weights of rank 0; use the same hardware and the "
                "same versions of torch in all processes, and continue with resume=true"
            )


SINGLE_PROCESS = Ranks(0, 0, 1)


def read_ranks() -> Ranks:
    """Return the position of this process; without torchrun there is a single process.

    Raises:
        ValueError: An environment variable of torchrun is missing or not a number.
    """
    if distributed.is_initialized():
        local_rank = _read_number("LOCAL_RANK", default=0)
        return Ranks(distributed.get_rank(), local_rank, distributed.get_world_size())
    world_size = _read_number("WORLD_SIZE", default=1)
    if world_size == 1:
        return SINGLE_PROCESS
    return Ranks(_read_number("RANK"), _read_number("LOCAL_RANK", default=0), world_size)


def _read_number(name: str, *, default: int | None = None) -> int:
    key = f"environment variable {name}"
    with reading(key):
        number = int(os.environ.get(name, "" if default is None else default))
    check_value(key, number, _NotNegative)
    return number


@contextlib.contextmanager
def process_group(*, on_gpus: bool = False) -> Iterator[Ranks]:
    """Join the processes that torchrun started, and leave them at the end.

    A process group that the caller has created is used and left open.

    Args:
        on_gpus: Whether the processes also exchange GPU tensors.

    Raises:
        LostProcessError: The processes cannot meet, or one has ended.
        ValueError: torchrun has restarted processes of a run on several machines.
    """
    ranks = read_ranks()
    if ranks.world_size == 1:
        yield ranks
        return
    is_own = not distributed.is_initialized()
    with lost_processes_named():
        if is_own:
            _join(ranks, "cpu:gloo,cuda:nccl" if on_gpus else "gloo")
        patient_group = distributed.new_group(backend="gloo", timeout=_PATIENCE)
    _patient_groups.append(patient_group)
    try:
        yield ranks
    finally:
        _patient_groups.remove(patient_group)
        distributed.destroy_process_group(None if is_own else patient_group)
        del patient_group
        # The remaining objects of the group hold threads, which must end before the interpreter
        # ends.
        gc.collect()


def _join(ranks: Ranks, backend: str) -> None:
    # A group must not read what earlier groups, even from before a restart, left in the store.
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restart != "0" and os.environ.get("GROUP_WORLD_SIZE", "1") != "1":
        raise ValueError(
            "torchrun cannot restart a run on several machines, because each machine "
            "counts its own restarts; start the run again with resume=true and --max-restarts=0"
        )
    store = PrefixStore(f"restart-{restart}/group-{next(_groups)}", _store())
    distributed.init_process_group(
        backend, store=store, rank=ranks.rank, world_size=ranks.world_size
    )


@cache
def _store() -> Store:
    """Return the store of the processes; a second store would need another port."""
    store, _, _ = next(rendezvous("env://"))
    return cast(Store, store)


def sum_over_processes(tensor: Tensor) -> None:
    """Replace a tensor with its sum over all processes, in place."""
    # A process group that the caller created for one process may have no backend for the CPU.
    if distributed.is_initialized() and distributed.get_world_size() > 1:
        with lost_processes_named():
            distributed.all_reduce(tensor)


def sum_gradients(model: nn.Module) -> None:
    """Replace the gradients of the trained parameters with their sums over all processes."""
    if not distributed.is_initialized():
        return
    gradients = []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradients.append(parameter.grad)
    joined = torch.cat([gradient.flatten() for gradient in gradients])
    sum_over_processes(joined)
    sums = torch.split(joined, [gradient.numel() for gradient in gradients])
    for gradient, total in zip(gradients, sums, strict=True):
        gradient.copy_(total.view_as(gradient))
