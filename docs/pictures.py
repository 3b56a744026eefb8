"""Draw the pictures of the documentation that need no browser.

    python docs/pictures.py [--work my/pictures] [--output docs]

trains the ten attention types, which takes a quarter of an hour on one core, unless the folder
`--work` has them already. The differences in BLEU come from the study that study.json keeps.
"""

import argparse
import io
import itertools
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib import image as mpimg
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq import Translator, load_config, load_run, run_training
from seq2seq.inference.translations import sentences_of

TYPES = (
    *("additive", "dot", "general", "multihead", "gaussian"),
    *("local", "location", "coverage", "uniform", "none"),
)
SETTINGS = ("model=luong", "tokenizer=words", "training.threads=1")
BUNDLED = ("training.threads=1",)
STEPS = ("training.validation.every_updates=100", "training.validation.keep_best=20")
"""Keep the checkpoint of every hundredth update."""
PAIR = ("Sie hat den jungen Bruder schon aufgeweckt.", "She has already woken the young brother.")
"""A pair of the test set whose words change places."""
LEARNED = (1, 100, 200, 300, 700)
"""Numbers of updates after which the map is drawn."""
SHOWN, SAMPLE = (0, 1, 2, 3), 1
"""Validations of the usual training whose maps in TensorBoard are shown, and their sentence."""
STUDY = Path(__file__).with_name("study.json")
WIDTH, DPI = 7.0, 200
"""Inches, and pixels of each: pages show the pictures at half their size, 700 pixels wide."""
TEXT, SMALL = 9, 8
"""Points: 12.5 and 11 pixels on a page."""
COLUMNS = 5
HALF = 0.2
"""Half the height of a box of a diagram."""
BASE, BAR = 1.95, 0.6
"""Place of the bars of the weights, and the height of a weight of 1."""
SHADES = "Blues"
ARROW = {"arrowstyle": "-|>", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
GRID = "#dddddd"
# Okabe and Ito's colors differ for color-blind readers too.
BLUE, RED, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#666666"
COLORS = {"attention": RED, "readout": GRAY}
FILLS = {BLUE: "#dcebf6", RED: "#fbe5d3", GREEN: "#d9f0e6"}


class Part(NamedTuple):
    """A part of a decoder step, in the order of computation."""

    x: float
    name: str
    result: str
    inputs: str = ""
    """What it reads besides the result before it."""


class Difference(NamedTuple):
    """The BLEU of a type minus the BLEU of the baseline, with a confidence interval."""

    name: str
    mean: float
    low: float
    high: float


_TOKEN, _STATES = "$E\\,y_{t-1}$", "$h_1, \\ldots, h_S$"
_ATTENTION = Part(3.1, "attention", "$c_t$", _STATES)
_READOUT = Part(5.65, "readout", "$r_t$", _TOKEN)
FORMS = {
    "bahdanau": (_ATTENTION, Part(4.45, "GRU", "$s_t$", _TOKEN), _READOUT),
    "conditional": (
        Part(1.75, "GRU 1", "$s'_t$", _TOKEN),
        _ATTENTION,
        Part(4.45, "GRU 2", "$s_t$"),
        _READOUT,
    ),
    "luong": (
        Part(1.75, "GRU", "$s_t$", f"{_TOKEN}, $r_{{t-1}}$"),
        _ATTENTION,
        _READOUT,
    ),
}
"""The parts of a step in each form of the decoder; seq2seq/model/recurrence.py computes them."""


def main(arguments: list[str] | None = None) -> None:
    """Train what is missing, and draw all pictures."""
    parser = argparse.ArgumentParser(description="Draw the pictures of the introduction.")
    parser.add_argument("--work", type=Path, default=Path("my/pictures"), help="folder of the runs")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="their folder")
    options = parser.parse_args(arguments)
    train(options.work)
    pictures = {
        "model": draw_model(),
        "decoder-forms": draw_forms(),
        "attention-types": draw_types(options.work),
        "attention-learned": draw_learning(options.work),
        "attention-tensorboard": draw_tensorboard(options.work / "bundled" / "tensorboard"),
        "bleu-differences": draw_differences(read_differences()),
    }
    for name, figure in pictures.items():
        path = options.output / f"{name}.png"
        figure.savefig(path, dpi=DPI)
        if name == "attention-tensorboard":  # whose maps are enlarged, so it is large
            # A tree of colors keeps the darkest blue, which a cut at the median loses.
            colors = Image.open(path).convert("RGB").quantize(64, Image.Quantize.FASTOCTREE)
            colors.save(path, optimize=True)
    for name, figure in program_figures(options.work).items():
        figure.savefig(options.output / f"{name}.png")


def train(work: Path) -> None:
    """Train each type, one for a single update, and as `make train` does, in named folders."""
    runs = {kind: [*SETTINGS, f"attention={kind}"] for kind in TYPES}
    runs["additive"] += STEPS
    runs["start"] = [*SETTINGS, "training.max_updates=1"]
    runs["bundled"] = [*BUNDLED]
    for name, settings in runs.items():
        if not (work / name / "results.json").exists():
            run_training(load_config(*settings), work / name)


def program_figures(work: Path) -> dict[str, Figure]:
    """Return figures as the program draws them: one attention map, and the measures of heads."""
    [sentence] = sentences_of(Translator.load(work / "additive")([PAIR[0]]))
    run = load_run(work / "multihead")
    heads = run.attention("test").head_figure(run.gold("test"))
    return {"attention": sentence.figure(), "attention-heads": heads}


def draw_types(work: Path) -> Figure:
    """Draw the map of a sentence under each attention type."""
    return draw_maps({work / kind: kind for kind in TYPES})


def draw_learning(work: Path) -> Figure:
    """Draw the map of a sentence after more and more updates."""
    titles = {}
    for update in LEARNED:
        run = work / ("start" if update == 1 else "additive")
        validations = json.loads((run / "validations.json").read_text())["validations"]
        bleu = next(each["bleu"] for each in validations if each["update"] == update)
        path = run / ("best.pt" if update == 1 else f"step-{update}.pt")
        titles[path] = f"{update} update{'s' * (update > 1)}\nBLEU {bleu:.0f}"
    return draw_maps(titles)


def draw_tensorboard(folder: Path) -> Figure:
    """Draw the maps of a sentence that TensorBoard shows for some validations of a run."""
    events = EventAccumulator(str(folder), size_guidance={"images": 0, "scalars": 0})
    events.Reload()
    images = events.Images(f"valid_attention/{SAMPLE}")
    bleu = {each.step: each.value for each in events.Scalars("valid/bleu")}
    figure = Figure(figsize=(WIDTH, 6.6))
    figure.set_layout_engine("constrained", w_pad=0.03, h_pad=0.05)
    for axes, index in zip(figure.subplots(2, 2).flat, SHOWN, strict=True):
        image = images[index]
        axes.imshow(mpimg.imread(io.BytesIO(image.encoded_image_string)))
        axes.set_title(f"update {image.step}, BLEU {bleu[image.step]:.0f}", fontsize=TEXT)
        axes.axis("off")
    return figure


def draw_maps(titles: Mapping[Path, str]) -> Figure:
    """Draw the map of a pair by each checkpoint, five in a row, with the labels at the borders."""
    shown = [sentences_of(Translator.load(path).score([PAIR]))[0] for path in titles]
    source, target = shown[0].source_tokens, shown[0].best.tokens
    num_rows = math.ceil(len(shown) / COLUMNS)
    left, right, top, bottom, side, gap = 0.68, 0.55, 0.45, 0.85, 1.08, 0.3
    height = top + bottom + num_rows * side + (num_rows - 1) * gap
    figure = Figure(figsize=(WIDTH, height))
    panels = figure.subplots(num_rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
    figure.subplots_adjust(
        left / WIDTH, bottom / height, 1 - right / WIDTH, 1 - top / height, 0.07, gap / side
    )
    for axes, title, sentence in zip(panels.flat, titles.values(), shown, strict=True):
        axes.set_title(title, fontsize=TEXT)
        draw_map(axes, sentence.best.attention_weights)
    for axes in panels[:, 0]:
        axes.set_yticks(range(len(target)), target, fontsize=SMALL)
    for axes in panels[-1]:
        axes.set_xticks(range(len(source)), source, fontsize=SMALL, rotation=90)
    place = panels[0, -1].inset_axes((1.08, 0, 0.07, 1))
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), SHADES), place, ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=SMALL)
    return figure


def draw_map(axes: Axes, weights: Tensor) -> None:
    """Draw the mean of the heads (N, T, S), or say that there are none."""
    num_heads, num_rows, num_columns = weights.shape
    axes.tick_params(length=0)
    if num_heads:
        axes.imshow(weights.mean(0).tolist(), cmap=SHADES, vmin=0, vmax=1)
        for x in range(1, num_columns):
            axes.axvline(x - 0.5, color=GRID, linewidth=0.5)
        for y in range(1, num_rows):
            axes.axhline(y - 0.5, color=GRID, linewidth=0.5)
    else:
        middle = (num_columns - 1) / 2, (num_rows - 1) / 2
        axes.text(*middle, "no weights", ha="center", va="center", fontsize=TEXT, color=GRAY)
        axes.set_aspect("equal")


def read_differences() -> list[Difference]:
    """Read the differences of the kept study, which its report calls *Results*."""
    results = json.loads(STUDY.read_text(encoding="utf-8"))["tables"]["Results"]
    groups = next(iter(results.values()))
    found = []
    for name, row in zip(groups["index"], groups["data"], strict=True):
        cells = dict(zip(groups["columns"], row, strict=True))
        numbers = re.findall(r"[+-]\d+\.\d+", cells["Difference"] + " " + cells["Interval"])
        if numbers:
            found.append(Difference(name, *map(float, numbers)))
    return found


def draw_differences(differences: Sequence[Difference]) -> Figure:
    """Draw a line for each type, whose circle is filled if the interval excludes 0."""
    figure = Figure(figsize=(WIDTH, 0.95 + 0.28 * len(differences)))
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.06)
    axes = figure.subplots()
    start, end = -9.0, 2.0
    for y, each in enumerate(differences):
        fill = "white" if each.low < 0 < each.high else BLUE
        text = f"{each.mean:+.2f}  ({each.low:+.2f} to {each.high:+.2f})".replace("-", "\u2212")
        axes.text(end + 0.3, y, text, va="center", fontsize=TEXT)
        if each.high < start:
            axes.annotate("", (start, y), (start + 0.8, y), arrowprops=ARROW | {"color": BLUE})
            continue
        axes.plot([each.low, each.high], [y, y], color=BLUE, linewidth=1.6)
        axes.plot(each.mean, y, "o", color=BLUE, markerfacecolor=fill, markersize=6.5)
    axes.axvline(0, color="black", linewidth=1)
    axes.text(0, -0.8, "additive", ha="center", va="bottom", fontsize=TEXT)
    axes.set_xlim(start, end)
    axes.set_ylim(len(differences) - 0.4, -0.7)
    axes.set_yticks(range(len(differences)), [each.name for each in differences], fontsize=TEXT)
    axes.tick_params(axis="x", labelsize=TEXT)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("test BLEU minus the test BLEU of additive attention", fontsize=TEXT)
    return figure


def draw_model() -> Figure:
    """Draw the encoder, one step of attention, and three steps of the decoder."""
    figure, axes = canvas(4.8)
    for name, bottom, height, color in (
        ("encoder", 0.1, 1.4, BLUE),
        ("attention", 1.85, 1.0, RED),
        ("decoder", 3.2, 1.5, GREEN),
    ):
        frame(axes, 0.1, bottom, WIDTH - 0.2, height, color=FILLS[color], edge="none")
        axes.text(0.2, bottom + height - 0.22, name, fontsize=TEXT, fontweight="bold")
    words, weights = ("die", "Katze", "schl\u00e4ft", "</s>"), (0.05, 0.91, 0.03, 0.01)
    places = (2.1, 3.5, 4.9, 6.3)
    for x, word, weight, number in zip(places, words, weights, "1234", strict=True):
        write(axes, x, 0.26, word)
        line(axes, (x, 0.38), (x, 0.73))
        box(axes, x, 0.93, f"$h_{number}$", BLUE)
        line(axes, (x, 1.13), (x, 1.93), color=BLUE)
        axes.bar(x, BAR * weight, width=0.4, bottom=BASE, color=RED)
        axes.text(x + 0.26, 2.06, f"{weight:.0%}", va="center", fontsize=TEXT)
    for x, after in itertools.pairwise(places):
        line(axes, (x + 0.43, 1.0), (after - 0.43, 1.0), color=BLUE)
        line(axes, (after - 0.43, 0.86), (x + 0.43, 0.86), color=BLUE)
    write(axes, 2.8, 1.67, "keys and values")
    write(axes, 1.45, 2.06, "weights")
    write(axes, 5.2, 2.66, "context = 0.05 $h_1$ + 0.91 $h_2$ + 0.03 $h_3$ + 0.01 $h_4$")
    steps = (2.1, 3.9, 5.7)
    read, written = ("<s>", "the", "cat"), ("the", "cat", "sleeps")
    for x, before, predicted, number in zip(steps, read, written, "123", strict=True):
        write(axes, x - 0.8, 3.42, before)
        line(axes, (x - 0.6, 3.5), (x - 0.4, 3.7))
        box(axes, x, 3.92, f"step {number}", GREEN)
        line(axes, (x, 4.12), (x, 4.38))
        write(axes, x, 4.52, predicted)
    line(axes, (1.0, 1.5), (1.0, 3.92), (1.67, 3.92), color=GREEN)
    write(axes, 0.58, 1.67, "first state")
    for x, end in itertools.pairwise((*steps, 7.25)):
        line(axes, (x + 0.43, 3.92), (end - 0.43, 3.92), color=GREEN)
    line(axes, (3.75, 3.72), (3.75, 2.85), color=GREEN)
    write(axes, 3.4, 3.02, "query")
    line(axes, (4.05, 2.85), (4.05, 3.72), color=RED)
    write(axes, 4.45, 3.02, "context")
    return figure


def draw_forms() -> Figure:
    """Draw a step of each decoder form from left to right; lines above the boxes skip one."""
    figure, axes = canvas(4.5)
    for (name, parts), y in zip(FORMS.items(), (3.6, 2.1, 0.6), strict=True):
        axes.text(0.1, y + 0.55, name, fontsize=TEXT, fontweight="bold")
        write(axes, 0.35, y, "$s_{t-1}$")
        end, color = 0.6, GREEN
        for part in parts:
            line(axes, (end, y), (part.x - 0.43, y), color=color)
            box(axes, part.x, y, part.name, COLORS.get(part.name, GREEN))
            if part.inputs:
                color = BLUE if part.inputs == _STATES else GRAY
                write(axes, part.x, y - 0.52, part.inputs)
                line(axes, (part.x, y - 0.4), (part.x, y - 0.2), color=color)
            end, color = part.x + 0.43, COLORS.get(part.name, GREEN)
            write(axes, end + 0.22, y - 0.13, part.result)
        line(axes, (end, y), (6.45, y))
        write(axes, 6.7, y, "$p(y_t)$")
        # The state passes over attention, and the context over a GRU.
        following = parts[[part.name for part in parts].index("attention") + 1]
        skip_over(axes, 2.4, following.x, y, 0.33, GREEN)
        if following is not _READOUT:
            skip_over(axes, 3.75, _READOUT.x, y, 0.45, RED)
    return figure


def canvas(height: float) -> tuple[Figure, Axes]:
    """Return a figure of the usual width, with axes in inches that fill it."""
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def frame(
    axes: Axes, x: float, y: float, width: float, height: float, *, color: str, edge: str
) -> None:
    """Draw a rectangle with round corners."""
    style = "round,pad=0,rounding_size=0.06"
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=color, edgecolor=edge)
    )


def box(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    """Draw a part of the model around a point."""
    frame(axes, x - 0.43, y - HALF, 0.86, 2 * HALF, color="white", edge=color)
    write(axes, x, y, text)


def line(axes: Axes, *points: tuple[float, float], color: str = GRAY) -> None:
    """Draw a line through points, with a head at its last one."""
    *_, start, end = points
    axes.plot(*zip(*points[:-1], strict=True), color=color, linewidth=1.2)
    axes.annotate("", end, start, arrowprops=ARROW | {"color": color})


def skip_over(axes: Axes, x: float, end: float, y: float, rise: float, color: str) -> None:
    """Draw a line that leaves another one at a point and ends on top of a box."""
    line(axes, (x, y), (x, y + rise), (end, y + rise), (end, y + HALF), color=color)


def write(axes: Axes, x: float, y: float, text: str) -> None:
    """Write a text around a point."""
    axes.text(x, y, text, ha="center", va="center", fontsize=TEXT)


if __name__ == "__main__":
    main()
