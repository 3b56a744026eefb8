"""Whether a run repeats to the bit: started again, and stopped and resumed."""

import shutil
import sys
import tempfile
import warnings
from functools import partial
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.gpu.gradients import FORMS, SIZES, TYPES, draw_batch, gradient
from benchmarks.gpu.part import Part, run_part
from seq2seq.config.schema import load_config
from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.training.run import run_training


def main(part: Part) -> None:
    precisions = ("fp32", "bf16", "fp16") if part.on_gpu else ("fp32",)
    for precision in precisions:
        with tempfile.TemporaryDirectory() as folder:
            compare = partial(compare_runs, part, precision, Path(folder))
            part.attempt(f"resuming {precision}", compare, seconds=25)
    part.attempt("nondeterministic operations", partial(name_operations, part))


def compare_runs(part: Part, precision: str, folder: Path) -> None:
    half, whole = (20, 40) if part.on_gpu else (2, 4)
    one = train_to(part, folder / "one", whole, precision)
    again = train_to(part, folder / "again", whole, precision)
    train_to(part, folder / "half", half, precision)
    shutil.copytree(folder / "half", folder / "resumed")
    resumed = train_to(part, folder / "resumed", whole, precision, "resume=true")
    texts = []
    for name, other in (("again", again), ("resumed", resumed)):
        pairs = list(zip(one, other, strict=True))
        farthest = max(float((a.double() - b.double()).abs().max()) for a, b in pairs if a.numel())
        is_equal = all(torch.equal(a, b) for a, b in pairs)
        texts.append(f"{name}: {'equal to the bit' if is_equal else f'differs by {farthest:.1e}'}")
    part.row(f"{whole} updates, {precision}", ", ".join(texts))


def train_to(
    part: Part, folder: Path, num_updates: int, precision: str, *overrides: str
) -> list[Tensor]:
    """Train until an update; return the model and the state of the optimizer and the average."""
    config = part.bundled(
        f"training.precision={precision}",
        "training.max_epochs=null",
        f"training.max_updates={num_updates}",
        "training.schedule.name=constant",
        "training.validation.every_updates=20",
        "training.validation.num_samples=0",
        "training.ema_decay=0.9",
        *overrides,
    )
    run_training(config, folder)
    checkpoint = load_checkpoint(folder / "last.pt")
    assert checkpoint.training_state is not None
    leaves = tree_leaves([checkpoint.model_state, checkpoint.training_state["updater"]])
    return [each for each in leaves if isinstance(each, Tensor)]


def name_operations(part: Part) -> None:
    """Name the operations of an update that torch calls nondeterministic on this device."""
    messages = []
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        for name, form in zip(TYPES, cycle(FORMS.values())):
            config = load_config(*SIZES, f"attention={name}", *form)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                gradient(config, draw_batch(), device=part.device)
            messages += [str(each.message) for each in caught]
    finally:
        torch.use_deterministic_algorithms(False)
    names = {each.split()[0] for each in messages if "determin" in each}
    part.row("operations without a deterministic version", ", ".join(sorted(names)) or "none")


if __name__ == "__main__":
    run_part(main)
