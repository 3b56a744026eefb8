"""A test double for CUDA: tensors in the memory of the CPU that say they are on `cuda:0`.

    with pretend_cuda() as cuda:
        model = cuda.move(model)
        ...
    assert cuda.waits == {}

The branches for CUDA run, and the numbers are computed on the CPU. A CPU tensor beside CUDA tensors
is an error, as on a GPU. Every operation that makes the host wait for the device is counted in
`waits`, under the line of the package that called it. Autocast, rounding, streams and memory are
not those of a GPU; tests/cuda checks them on one.
"""

import contextlib
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

PACKAGE = str(Path(__file__).parent.parent / "seq2seq")
CUDA = torch.device("cuda", 0)
aten = torch.ops.aten

READS = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.equal.default,
    aten._unique2.default,
    aten.repeat_interleave.Tensor,
}
"""Operations whose result, or the size of whose result, the host waits for."""
INDEXING = {
    aten.index.Tensor,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten.index_put.default,
    aten._unsafe_index.Tensor,
}
ACROSS_DEVICES = {aten.copy_.default, aten._to_copy.default} | INDEXING
"""Operations that accept CPU tensors beside CUDA tensors."""


class PretendTensor(torch.Tensor):
    """A CPU tensor that says it is on CUDA."""

    held: torch.Tensor
    """The numbers, on the CPU."""

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "PretendTensor":
        # A meta tensor with the dispatch keys of CUDA, by which autograd goes.
        shell = torch.empty_strided(held.shape, held.stride(), dtype=held.dtype, device="meta")
        made = torch.Tensor._make_subclass(cls, shell, False, device_for_backend_keys=CUDA)
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_meta = is_cpu = property(lambda self: False)

    def tolist(self):
        PretendCuda.current.count_wait()
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return PretendCuda.current.run(func, args, kwargs or {})


class PretendCuda(TorchDispatchMode):
    """The mode in which pretended tensors compute; see the module."""

    current: "PretendCuda"

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        """Waits of the host for the device, by `file: source line`."""
        PretendCuda.current = self

    def move(self, module: nn.Module) -> nn.Module:
        """Move a module to the device in place, which its own `to` cannot; what is shared stays."""
        moved: dict[int, nn.Parameter] = {}
        for part in module.modules():
            for name, each in part._parameters.items():
                if each is not None and id(each) not in moved:
                    moved[id(each)] = nn.Parameter(each.detach().to(CUDA), each.requires_grad)
                part._parameters[name] = moved.get(id(each))
            for name, buffer in part._buffers.items():
                part._buffers[name] = None if buffer is None else buffer.to(CUDA)
        self.waits.clear()
        return module

    def count_wait(self) -> None:
        frames = [f for f in traceback.extract_stack() if f.filename.startswith(PACKAGE)]
        self.waits[f"{Path(frames[-1].filename).name}: {frames[-1].line}" if frames else ""] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, func, args, kwargs):
        """Run an operation on the CPU, and count what would wait if it belongs to the device."""
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        pretended = [each for each in tensors if isinstance(each, PretendTensor)]
        target = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else None
        if not pretended and target not in ("cuda", "meta"):  # which the shells are for torch
            return func(*args, **kwargs)
        strangers = [each for each in tensors if not isinstance(each, PretendTensor) and each.dim()]
        assert func in ACROSS_DEVICES or not strangers or not pretended, (
            f"{func}: a CPU tensor of shape {tuple(strangers[0].shape)} beside CUDA tensors"
        )
        if self._waits(func, args, kwargs):
            self.count_wait()
        if target is not None:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        on_cpu = tree_map_only(PretendTensor, lambda each: each.held, (args, kwargs))
        result = func(*on_cpu[0], **on_cpu[1])
        if target == "cpu":
            return result.clone() if result is pretended[0].held else result
        written = _written(func, args, kwargs)
        if written:  # an operation in place returns its own argument
            return written[0] if len(func._schema.returns) == 1 else tuple(written)
        return tree_map_only(torch.Tensor, PretendTensor, result)

    def _waits(self, func, args, kwargs) -> bool:
        """Return whether the host waits for an operation, or copies from memory that can move."""
        if func in INDEXING:
            indices = [each for each in args[1] if each is not None]
            return any(
                each.dtype == torch.bool or not isinstance(each, PretendTensor) for each in indices
            )
        if func is aten.where.self:
            return not all(isinstance(each, PretendTensor) for each in args)
        if func is aten.copy_.default:
            return len({isinstance(each, PretendTensor) for each in args[:2]}) == 2
        if func is aten._to_copy.default:
            is_pinned = kwargs.get("non_blocking") and getattr(args[0], "is_pretend_pinned", False)
            if isinstance(args[0], PretendTensor):
                return torch.device(kwargs.get("device") or CUDA).type == "cpu"
            return not is_pinned
        return func in READS


def _written(func, args, kwargs) -> list[torch.Tensor]:
    """Return the arguments that an operation writes and returns."""
    returns = func._schema.returns
    if not returns or returns[0].alias_info is None or not returns[0].alias_info.is_write:
        return []
    named = dict(zip((each.name for each in func._schema.arguments), args, strict=False)) | kwargs
    return [
        named[each.name]
        for each in func._schema.arguments
        if each.alias_info is not None and each.alias_info.is_write and each.name in named
    ]


def _pin(self: torch.Tensor) -> torch.Tensor:
    pinned = self.clone()
    pinned.is_pretend_pinned = True
    return pinned


@contextlib.contextmanager
def pretend_cuda() -> Iterator[PretendCuda]:
    """Return a context with one pretended CUDA device."""
    grad_modes: list[torch.no_grad] = []

    def enter(_: torch.inference_mode) -> None:  # a wrapper can't be an inference tensor
        grad_modes.append(torch.no_grad())
        grad_modes[-1].__enter__()

    def leave(_: torch.inference_mode, *details: object) -> None:
        grad_modes.pop().__exit__(*details)

    replaced = [
        (torch.cuda, "is_available", lambda: True),
        (torch.cuda, "is_bf16_supported", lambda *_, **__: True),
        (torch.cuda, "_lazy_init", lambda: None),
        (torch.cuda, "device_count", lambda: 1),
        (torch.cuda, "empty_cache", lambda: None),
        (torch.backends.cudnn, "is_acceptable", lambda _: False),
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
        (torch.inference_mode, "__enter__", enter),
        (torch.inference_mode, "__exit__", leave),
        (torch.Tensor, "pin_memory", _pin),
    ]
    # An optimizer of torch 2.15 asks the accelerator of a CUDA build whether it records a graph.
    replaced += [
        (torch.optim.Optimizer, name, lambda _: None)
        for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check")
        if hasattr(torch.optim.Optimizer, name)
    ]
    before = torch._C._only_lift_cpu_tensors()
    with contextlib.ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(mock.patch.object(owner, name, value))
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") is a copy
        stack.callback(torch._C._set_only_lift_cpu_tensors, before)
        yield stack.enter_context(PretendCuda())
