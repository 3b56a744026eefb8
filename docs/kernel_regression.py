"""Estimate a noisy curve with three attention modules of the translator.

    python docs/kernel_regression.py [--output docs/kernel-regression.png]

docs/tutorials/kernel-regression.md explains the picture.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq.attention.base import Attention
from seq2seq.attention.baselines import UniformAttention, UniformConfig
from seq2seq.attention.gaussian import GaussianAttention, GaussianConfig

# S training points (keys and values), T queries; a point is a vector of length 1, the batch is 1.

NUM_POINTS, NUM_QUERIES, END, NOISE, SEED = 50, 201, 5.0, 0.5, 0
NUM_STEPS, LEARNING_RATE = 200, 0.1
TRUTH, POINTS, ESTIMATE = "#000000", "#999999", "#0072b2"


class Estimate(NamedTuple):
    """An estimate and its attention weights."""

    y: Tensor  # (T,)
    weights: Tensor  # (T, S)


def main(arguments: list[str] | None = None) -> None:
    """Estimate the curve three times, print the errors and draw the picture."""
    parser = argparse.ArgumentParser(description="Draw attention as kernel regression.")
    picture = Path(__file__).with_name("kernel-regression.png")
    parser.add_argument("--output", type=Path, default=picture, help="the file to write")
    output = parser.parse_args(arguments).output

    x, y = make_points()
    queries = torch.linspace(0, END, NUM_QUERIES, dtype=torch.float64)
    average, fixed, learned = make_average(), make_gaussian(), make_gaussian()
    before, after = fit_width(learned, x, y)
    print(f"leave-one-out error {before:.3f} at the start, {after:.3f} after {NUM_STEPS} steps")

    width = learned.inverse_width.item()
    names = "average pooling", "Gaussian, w = 1", f"Gaussian, learned w = {width:.2f}"
    estimates: dict[str, Estimate] = {}
    for name, attention in zip(names, (average, fixed, learned), strict=True):
        with torch.inference_mode():
            estimate = regress(attention, queries, x, y)
        error = (estimate.y - curve(queries)).square().mean()
        print(f"{name}: error {error:.3f}")
        estimates[f"{name}\nerror {error:.3f}"] = estimate
    figure = draw(estimates, queries, x, y)
    try:
        figure.savefig(output, format=output.suffix.lstrip(".") or "png")
    except (OSError, ValueError) as problem:  # no such folder, no such format
        parser.error(f"--output={output}: {problem}")


def make_points() -> tuple[Tensor, Tensor]:
    """Draw noisy points of the curve: ascending x, and y, each (S,)."""
    generator = torch.Generator().manual_seed(SEED)
    x = END * torch.rand(NUM_POINTS, generator=generator, dtype=torch.float64).sort().values
    noise = NOISE * torch.randn(NUM_POINTS, generator=generator, dtype=torch.float64)
    return x, curve(x) + noise


def curve(x: Tensor) -> Tensor:
    """Return the true curve."""
    return 2 * x.sin() + x**0.8


def make_average() -> UniformAttention:
    """Build average pooling."""
    return UniformAttention(UniformConfig(), query_size=1, key_size=1, value_size=1).double()


def make_gaussian() -> GaussianAttention:
    """Build a Gaussian kernel over unprojected numbers; its width starts at 1."""
    config = GaussianConfig(size=None)
    return GaussianAttention(config, query_size=1, key_size=1, value_size=1).double()


def regress(
    attention: Attention, queries: Tensor, x: Tensor, y: Tensor, valid: Tensor | None = None
) -> Estimate:
    """Estimate y at the queries (T,) from points (S,); `valid` (1, T, S) masks the points."""
    memory = attention.prepare(x.view(1, -1, 1), valid, values=y.view(1, -1, 1))
    context, weights = attention(queries.view(1, -1, 1), memory)  # (1, T, 1), (1, 1, T, S)
    return Estimate(context.flatten(), weights[0, 0])


def fit_width(attention: GaussianAttention, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Learn the width; return the leave-one-out error before and after."""
    optimizer = torch.optim.Adam(attention.parameters(), lr=LEARNING_RATE)
    start = leave_one_out_error(attention, x, y).item()
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        leave_one_out_error(attention, x, y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return start, leave_one_out_error(attention, x, y).item()


def leave_one_out_error(attention: Attention, x: Tensor, y: Tensor) -> Tensor:
    """Estimate each point from all other points and return the mean squared error."""
    # Without the mask a point would attend to itself only.
    others = ~torch.eye(len(x), dtype=torch.bool).unsqueeze(0)  # (1, S, S)
    return (regress(attention, x, x, y, others).y - y).square().mean()


def draw(estimates: dict[str, Estimate], queries: Tensor, x: Tensor, y: Tensor) -> Figure:
    """Draw each estimate under its title, with its weights below, all on the same scales."""
    figure = Figure(figsize=(11, 7), dpi=100, layout="constrained")
    curves, maps = figure.subplots(
        2, len(estimates), sharex=True, sharey="row", height_ratios=(4, 5)
    )
    largest = max(estimate.weights.max().item() for estimate in estimates.values())
    # On a linear scale, weights shared by fifty points would be invisible.
    shades = PowerNorm(0.5, vmin=0, vmax=largest)
    for (title, estimate), above, below in zip(estimates.items(), curves, maps, strict=True):
        above.set_title(title)
        above.plot(x, y, "o", color=POINTS, markersize=4, clip_on=False, label="points")
        above.plot(queries, curve(queries), "--", color=TRUTH, linewidth=1.2, label="truth")
        above.plot(queries, estimate.y, color=ESTIMATE, linewidth=2.5, label="estimate")
        cells = borders(x).numpy(), borders(queries).numpy(), estimate.weights.numpy()
        image = below.pcolormesh(*cells, cmap="Blues", norm=shades)
        below.set_xlabel("key: x of a point")
    curves[0].set_ylabel("value: y of a point")
    curves[0].legend(loc="upper right", fontsize="small")
    maps[0].set_ylabel("query: a new x")
    ticks = [0, 1 / NUM_POINTS, 0.05, 0.1, 0.2, 0.4]
    figure.colorbar(
        image, ax=maps, ticks=ticks, format="%.2f", label="weight", fraction=0.04, pad=0.02
    )
    return figure


def borders(places: Tensor) -> Tensor:
    """Return the borders between the cells of a map, half-way between two places."""
    return torch.cat([torch.zeros(1), (places[1:] + places[:-1]) / 2, torch.full((1,), END)])


if __name__ == "__main__":
    main()
