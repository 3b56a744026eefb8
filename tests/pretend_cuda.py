"""A test double for CUDA: tensors in the memory of the CPU that say they are on `cuda:0`.

    with pretend_cuda() as cuda:
        model = cuda.move(model)
        ...
    assert cuda.syncs == {}

Python and autograd see CUDA tensors, so the branches for CUDA run, with autocast and the fused
optimizers; the numbers are computed on the CPU. An operation on a CPU tensor beside CUDA tensors
raises `DeviceMismatchError`, as on a GPU. Every operation that makes the host wait for the device
is counted in `syncs`, under the line of this package that called it. `operations` lists what was
started on the device, with shapes, in order.

The double doesn't compute as a GPU does: rounding, the order of sums, TF32, cuDNN's choice of
kernels, streams and memory are the CPU's. tests/cuda needs a GPU and checks those.
"""

import contextlib
import linecache
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

PACKAGE = str(Path(__file__).parent.parent / "seq2seq") + "/"
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
PACKING = {"_pack_padded_sequence", "_pad_packed_sequence", "_pack_padded_sequence_backward"}
"""Operations that take lengths on the CPU, and start kernels that depend on them."""


class DeviceMismatchError(RuntimeError):
    """A CPU tensor stands beside CUDA tensors."""


class PretendTensor(torch.Tensor):
    """A CPU tensor that says it is on CUDA."""

    held: torch.Tensor
    """The numbers, on the CPU."""

    @staticmethod
    def __new__(cls, real: torch.Tensor) -> "PretendTensor":
        # A meta tensor with the dispatch keys of CUDA, by which autograd and autocast go.
        shell = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device="meta")
        made = torch.Tensor._make_subclass(cls, shell, False, device_for_backend_keys=CUDA)
        made.held = real
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)
    is_cpu = property(lambda self: False)

    def _refuse_data(self, value: torch.Tensor) -> None:
        # Python would replace the shell and leave `held` as it was.
        raise NotImplementedError("a pretended tensor can't get other data; copy into it")

    data = property(torch.Tensor.data.__get__, _refuse_data)

    def __repr__(self, *, tensor_contents=None) -> str:
        return f"PretendTensor({self.held})"

    def tolist(self):
        PretendCuda.current.count_sync("tolist")
        return self.held.tolist()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        assert PretendCuda.current is not None, f"{func} on CUDA outside of pretend_cuda()"
        return PretendCuda.current.run(func, args, kwargs or {})


class PretendCuda(TorchDispatchMode):
    """The mode in which pretended tensors compute; see the module."""

    current: "PretendCuda | None" = None

    def __init__(self) -> None:
        super().__init__()
        self.syncs: Counter[str] = Counter()
        """Waits of the host for the device, by `file: source line [reason]`."""
        self.lines: Counter[str] = Counter()
        """The same by `file:line number`, to find them."""
        self.operations: list[tuple[str, tuple[tuple[int, ...], ...]]] = []
        """Name and argument shapes of every operation on the device."""

    def __enter__(self):
        PretendCuda.current = self
        return super().__enter__()

    def __exit__(self, *details):
        super().__exit__(*details)
        PretendCuda.current = None

    def clear(self) -> None:
        """Forget what was recorded."""
        for each in (self.syncs, self.lines, self.operations):
            each.clear()

    def move(self, module: nn.Module) -> nn.Module:
        """Move a module to the device in place; a shared parameter stays shared.

        `nn.Module.to` keeps parameters the same objects on a real device, which it can't here.
        """
        moved: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}
        for part in module.modules():
            for name, parameter in list(part._parameters.items()):
                if parameter is None or isinstance(parameter, PretendTensor):
                    continue
                if id(parameter) not in moved:
                    copy = nn.Parameter(parameter.detach().to(CUDA), parameter.requires_grad)
                    copy.grad = None if parameter.grad is None else parameter.grad.to(CUDA)
                    moved[id(parameter)] = (parameter, copy)
                setattr(part, name, moved[id(parameter)][1])
            for name, buffer in part._buffers.items():
                part._buffers[name] = None if buffer is None else buffer.to(CUDA)
        return module

    def count_sync(self, reason: str) -> None:
        path, number = _caller()
        self.syncs[f"{path}: {linecache.getline(PACKAGE + path, number).strip()} [{reason}]"] += 1
        self.lines[f"{path}:{number}"] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, func, args, kwargs):
        """Run an operation on the CPU, and record it if it belongs to the device."""
        tensors = list(_tensors((args, kwargs)))
        pretended = [each for each in tensors if isinstance(each, PretendTensor)]
        device = kwargs.get("device")
        target = None if device is None else torch.device(device).type
        if not pretended and target not in ("cuda", "meta"):
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        self._check_devices(func, name, tensors, has_pretended=bool(pretended))
        self._count_waits(func, name, args, kwargs, has_pretended=bool(pretended))
        self.operations.append((str(func), tuple(tuple(each.shape) for each in tensors)))
        if device is not None:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        real_args, real_kwargs = _map(_held, (args, kwargs))
        result = func(*real_args, **real_kwargs)
        if target == "cpu":
            return result.clone() if result is pretended[0].held else result
        if name in ("_pack_padded_sequence", "_pad_packed_sequence"):
            return PretendTensor(result[0]), result[1]
        written = _written_arguments(func, args, kwargs)
        if written:  # an operation in place returns its own argument
            return written[0] if len(func._schema.returns) == 1 else tuple(written)
        return _map(PretendTensor, result)

    def _check_devices(self, func, name, tensors, *, has_pretended: bool) -> None:
        """Raise unless all tensors are on the device; CPU scalars may stand beside them."""
        if not has_pretended or func in ACROSS_DEVICES or name in PACKING:
            return
        for each in tensors:
            if not isinstance(each, PretendTensor) and each.dim() > 0:
                path, number = _caller()
                raise DeviceMismatchError(
                    f"{func}: a CPU tensor of shape {tuple(each.shape)} beside CUDA tensors, at "
                    f"{path}:{number}"
                )

    def _count_waits(self, func, name, args, kwargs, *, has_pretended: bool) -> None:
        if func in READS or name in PACKING:
            self.count_sync(name)
        elif func in INDEXING:
            for index in args[1]:
                if index is not None and index.dtype in (torch.bool, torch.uint8):
                    self.count_sync("boolean index")
                if index is not None and not isinstance(index, PretendTensor):
                    self.count_sync("index from the CPU")
        elif func is aten.where.self:
            if any(not isinstance(each, PretendTensor) for each in args):
                self.count_sync("number from the CPU")
        elif func is aten._to_copy.default:
            is_fast = kwargs.get("non_blocking") and getattr(args[0], "is_pretend_pinned", False)
            if has_pretended and torch.device(kwargs.get("device") or CUDA).type == "cpu":
                self.count_sync("copy to the CPU")
            elif not has_pretended and not is_fast:
                self.count_sync("pageable copy")
        elif func is aten.copy_.default and len({type(each) for each in args[:2]}) == 2:
            self.count_sync("copy between devices")


def _tensors(tree: object) -> Iterator[torch.Tensor]:
    """Yield the tensors of nested lists, tuples and dictionaries; torch's own is slower."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from _tensors(each)
    elif isinstance(tree, dict):
        yield from _tensors(list(tree.values()))


def _map(function: Callable[[torch.Tensor], torch.Tensor], tree):
    """Apply a function to the tensors of nested lists, tuples and dictionaries."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if type(tree) in (list, tuple):
        return type(tree)([_map(function, each) for each in tree])
    if isinstance(tree, dict):
        return type(tree)((key, _map(function, each)) for key, each in tree.items())
    return tree


def _held(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.held if isinstance(tensor, PretendTensor) else tensor


def _caller() -> tuple[str, int]:
    """Return file and line of the innermost code of the package that runs now."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_lineno
        frame = frame.f_back
    return "outside of seq2seq", 0


def _written_arguments(func, args, kwargs) -> list[torch.Tensor]:
    """Return the arguments that an operation writes and returns."""
    returns = func._schema.returns
    if not returns or returns[0].alias_info is None or not returns[0].alias_info.is_write:
        return []
    found = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            if argument.kwarg_only and argument.name in kwargs:
                found.append(kwargs[argument.name])
            elif not argument.kwarg_only and place < len(args):
                found.append(args[place])
    return found


LOW = {
    *("linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "addmv"),
    *("mv", "addbmm", "einsum", "linalg_vecdot", "prelu", "scaled_dot_product_attention"),
}
EXACT = {
    *("exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "pow", "__pow__"),
    *("square", "softplus", "layer_norm", "native_layer_norm", "nll_loss", "cross_entropy"),
    *("cross_entropy_loss", "cdist", "dist", "logsumexp", "norm", "kl_div"),
}
EXACT_BY_DEFAULT = {"prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum"}
WIDEST = {
    *("addcmul", "addcdiv", "atan2", "bilinear", "cross", "dot", "scatter_add", "index_put"),
    "tensordot",
}
"""The functions that CUDA's autocast converts, of ATen/autocast_mode.h, as far as used here."""


class CudaAutocast(TorchFunctionMode):
    """Convert arguments as CUDA's autocast does, which skips tensors that are not really CUDA's."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not torch.is_autocast_enabled("cuda") or "out" in kwargs:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        dtype = None
        if name in LOW:
            dtype = torch.get_autocast_dtype("cuda")
        elif name == "gru":  # whatever the type of autocast is
            dtype = torch.float16
        elif name in EXACT or (name in EXACT_BY_DEFAULT and kwargs.get("dtype") is None):
            dtype = torch.float32
        elif name in WIDEST:
            floats = (each for each in _tensors((args, kwargs)) if _is_float(each))
            dtype = torch.float32 if any(each.dtype == torch.float32 for each in floats) else None
        if dtype is not None:
            convert = _converter(dtype)
            args, kwargs = _map(convert, (args, kwargs))
        return func(*args, **kwargs)


def _is_float(each: object) -> bool:
    return isinstance(each, PretendTensor) and each.is_floating_point()


def _converter(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda each: (
        each.to(dtype) if _is_float(each) and each.dtype not in (torch.float64, dtype) else each
    )


def _pin(self: torch.Tensor) -> torch.Tensor:
    pinned = self.clone()
    pinned.is_pretend_pinned = True
    return pinned


def _module_to(original):
    def to(module, *args, **kwargs):
        if args and isinstance(args[0], torch.device | str) and torch.device(args[0]) == CUDA:
            return PretendCuda.current.move(module)
        return original(module, *args, **kwargs)

    return to


def _saver(original):
    def save(content, *args, **kwargs):
        original(_map(_held, content), *args, **kwargs)

    return save


@contextlib.contextmanager
def pretend_cuda() -> Iterator[PretendCuda]:
    """Return a context with one pretended CUDA device."""
    grad_modes: list[torch.no_grad] = []

    def enter(_: torch.inference_mode) -> None:  # a wrapper can't be an inference tensor
        grad_modes.append(torch.no_grad())
        grad_modes[-1].__enter__()

    def leave(_: torch.inference_mode, *details: object) -> None:
        grad_modes.pop().__exit__(*details)

    cuda = PretendCuda()
    replaced = [
        (torch.cuda, "is_available", lambda: True),
        (torch.cuda, "is_bf16_supported", lambda *_, **__: True),
        (torch.cuda, "_lazy_init", lambda: None),
        (torch.cuda, "device_count", lambda: 1),
        (torch.cuda, "set_device", lambda _: None),
        (torch.cuda, "get_device_name", lambda *_: "pretended GPU"),
        (torch.cuda, "empty_cache", lambda: None),
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
        (torch, "save", _saver(torch.save)),
        (torch.inference_mode, "__enter__", enter),
        (torch.inference_mode, "__exit__", leave),
        (torch.Tensor, "pin_memory", _pin),
        (nn.Module, "to", _module_to(nn.Module.to)),
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
        stack.enter_context(cuda)
        stack.enter_context(CudaAutocast())
        yield cuda
