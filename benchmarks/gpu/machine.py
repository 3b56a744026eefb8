"""The card, and the costs that everything else is made of: copies, products, launches and waits."""

import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.gpu.part import Part, run_part
from seq2seq.runtime.kernels.gru import gru_step
from seq2seq.runtime.numerics import allow_tf32

TYPES = {
    "fp32": (torch.float32, False),
    "tf32": (torch.float32, True),
    "bf16": (torch.bfloat16, False),
    "fp16": (torch.float16, False),
}
"""Type of the factors, and whether products may use TF32."""


def main(part: Part) -> None:
    for measure in (versions, ceilings, launches, step_products, gru_cells, attention_plans):
        part.attempt(measure.__name__, partial(measure, part))


def versions(part: Part) -> None:
    print(torch.__config__.show())
    part.row("python, torch", f"{platform.python_version()}, {torch.__version__}")
    if part.on_gpu:
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        card = torch.cuda.get_device_properties(0)
        part.row(
            "card",
            f"{card.name}, {card.total_memory / 2**30:.0f} GiB, {card.multi_processor_count} SMs, "
            f"CUDA {torch.version.cuda}, cuDNN {cudnn}",
        )


def ceilings(part: Part) -> None:
    size = 8192 if part.on_gpu else 256
    source = torch.empty(size, size, dtype=torch.float64, device=part.device)
    target = torch.empty_like(source)
    seconds = part.seconds_per_call(lambda: target.copy_(source))
    part.row("copy", f"{2 * source.nbytes / seconds / 1e12:.2f} TB/s")
    rates = []
    for name, (dtype, tf32) in TYPES.items():
        factor = torch.randn(size, size, device=part.device, dtype=dtype)
        with allow_tf32(tf32):
            seconds = part.seconds_per_call(partial(torch.mm, factor, factor))
        rates.append(f"{name} {2 * size**3 / seconds / 1e12:.0f}")
    part.row("products, TFLOP/s", ", ".join(rates))


def launches(part: Part) -> None:
    """Measure the host's time for a small operation, and a graph's for a small kernel."""
    numbers = torch.zeros(1024, device=part.device)

    def add(times: int) -> None:
        for _ in range(times):
            numbers.add_(1)

    add(100)
    part.synchronize()
    started = time.perf_counter()
    add(2000)
    host = (time.perf_counter() - started) / 2000
    part.synchronize()
    both = (time.perf_counter() - started) / 2000
    node = part.seconds_per_call(part.graph(lambda: add(1000))) / 1000
    read = part.seconds_per_call(lambda: numbers[0].item())
    factor = torch.randn(1024, device=part.device, requires_grad=True)

    def with_gradient() -> None:
        product = factor
        for _ in range(200):
            product = product * 1.0001
        torch.autograd.backward(product.sum())

    graded = part.seconds_per_call(with_gradient) / 200
    part.row(
        "one small operation, us",
        f"host {host * 1e6:.1f}, with its kernel {both * 1e6:.1f}, forward and backward "
        f"{graded * 1e6:.1f}, in a graph {node * 1e6:.2f}, read by the host {read * 1e6:.0f}",
    )


def step_products(part: Part) -> None:
    """Measure a chain of the decoder's recurrent product, (R, 512) x (512, 1536), in a graph."""
    for rows in part.sizes:
        times = []
        for name in part.precisions:
            dtype, tf32 = TYPES[name]
            weight = torch.randn(1536, 512, device=part.device, dtype=dtype).t() / 30
            first = torch.randn(rows, 512, device=part.device, dtype=dtype)
            outputs = torch.empty(2, rows, 1536, device=part.device, dtype=dtype)

            def chain(
                first: Tensor = first, weight: Tensor = weight, out: Tensor = outputs
            ) -> None:
                state = first
                for number in range(50):
                    state = torch.mm(state, weight, out=out[number % 2])[:, :512]

            with allow_tf32(tf32):
                seconds = part.seconds_per_call(part.graph(chain), most=0.1) / 50
            times.append(f"{name} {seconds * 1e6:.1f}")
        part.row(f"step product of {rows} rows, us", ", ".join(times))


def gru_cells(part: Part) -> None:
    """Compare the package's step of a GRU with the kernels of torch.nn.GRUCell, both passes."""
    torch.manual_seed(1)
    values = [torch.randn(128, n * 512, device=part.device, requires_grad=True) for n in (3, 3, 1)]
    times, found = [], []
    for cell in (gru_step, fused_gru_step) if part.on_gpu else (gru_step, gru_step):

        def passes(cell: Callable[[Tensor, Tensor, Tensor], Tensor] = cell) -> tuple[Tensor, ...]:
            states = cell(*values)
            return (states, *torch.autograd.grad(states.sum(), values))

        found.append(passes())
        times.append(part.seconds_per_call(passes) * 1e6)
    errors = [float(((a - b).norm() / a.norm()).detach()) for a, b in zip(*found, strict=True)]
    part.row(
        "GRU cell, us",
        f"{times[0]:.0f}, fused {times[1]:.0f}, relative distance {max(errors):.1e}",
    )


def fused_gru_step(projected: Tensor, hidden_projection: Tensor, hidden: Tensor) -> Tensor:
    """Return what `gru_step` does, by one kernel in each direction."""
    x, u = projected.to(hidden.dtype), hidden_projection.to(hidden.dtype)
    with torch.autocast("cuda", enabled=False):
        following: Tensor = torch.ops.aten._thnn_fused_gru_cell.default(x, u, hidden)[0]
    return following


def attention_plans(part: Part) -> None:
    """Compare the first call of scaled dot-product attention for a length with the next call."""
    rows, heads, size = (64, 4, 64) if part.on_gpu else (4, 2, 8)
    for is_enabled, lengths in ((True, range(3, 9)), (False, range(11, 17))):
        firsts, nexts = [], []
        with cudnn_attention(is_enabled):
            for length in lengths:
                shape = (rows, heads, length, size)
                keys = torch.randn(shape, device=part.device, dtype=torch.bfloat16)
                mask = torch.ones(rows, 1, 1, length, dtype=torch.bool, device=part.device)
                attend = partial(
                    functional.scaled_dot_product_attention, keys[:, :, :1], keys, keys, mask
                )
                firsts.append(part.time(attend))
                nexts.append(part.time(attend))
        part.row(
            f"bf16 SDPA of a new length, {'with' if is_enabled else 'without'} cuDNN",
            f"first {1e3 * median(firsts):.2f} ms, next {1e3 * median(nexts):.2f} ms",
        )


@contextmanager
def cudnn_attention(is_enabled: bool) -> Iterator[None]:
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(is_enabled)
    yield
    torch.backends.cuda.enable_cudnn_sdp(before)


if __name__ == "__main__":
    run_part(main)
