"""Train one model in several processes: ranks, sums, broadcasts and barriers."""

import gc
import itertools
import os
from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

_Value = TypeVar("_Value")

_PATIENCE = timedelta(days=7)
"""Time to wait for the first process, which prepares data and validates alone.

The death of a process ends the wait at once.
"""
_joins = itertools.count()
_patient_groups: list[distributed.ProcessGroup] = []


class Ranks(NamedTuple):
    """The position of this process among all processes of the run."""

    rank: int
    local_rank: int
    world_size: int

    @property
    def is_first(self) -> bool:
        """Return whether this is the process that writes files."""
        return self.rank == 0


def join_processes() -> Ranks:
    """Join the processes that torchrun started; without torchrun there is a single process."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        return Ranks(0, 0, 1)
    if not distributed.is_initialized():
        # With CUDA both backends are needed: Python objects and training.device=cpu use gloo.
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        store, rank, world_size = next(rendezvous("env://"))
        # A restart by torchrun and the next run of a sweep meet in the same store. In a part of
        # it of its own, a group does not read the keys of an earlier one.
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = PrefixStore(f"restart-{restarts}/join-{next(_joins)}", store)
        distributed.init_process_group(backend, store=store, rank=rank, world_size=world_size)
        _patient_groups.append(distributed.new_group(backend="gloo", timeout=_PATIENCE))
    return Ranks(distributed.get_rank(), int(os.environ.get("LOCAL_RANK", "0")), world_size)


def leave_processes() -> None:
    """Leave the processes that `join_processes` joined."""
    if distributed.is_initialized():
        _patient_groups.clear()
        distributed.destroy_process_group()
        # The group's remaining objects hold threads, which must end before the interpreter does.
        gc.collect()


def sum_over_processes(tensors: Iterable[Tensor]) -> None:
    """Replace each tensor by its sum over all processes, in place."""
    if distributed.is_initialized():
        for tensor in tensors:
            distributed.all_reduce(tensor)


def sum_gradients(model: nn.Module) -> None:
    """Replace the gradients by their sums over all processes, in one exchange."""
    if not distributed.is_initialized():
        return
    gradients = []
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradients.append(parameter.grad)
    joined = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(joined)
    start = 0
    for gradient in gradients:
        gradient.copy_(joined[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()


def share_from_first(value: _Value, ranks: Ranks) -> _Value:
    """Return the value of the first process in every process, however long it takes."""
    if ranks.world_size == 1:
        return value
    values = [value]
    distributed.broadcast_object_list(values, group=_patient_groups[0])
    return values[0]


def barrier(ranks: Ranks) -> None:
    """Wait until every process has reached this call, however long it takes."""
    if ranks.world_size > 1:
        distributed.barrier(group=_patient_groups[0])
