"""Average the weights of several checkpoints of a run into one file."""

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from seq2seq.checkpoints.checkpoint import Checkpoint, save_checkpoint
from seq2seq.checkpoints.checkpoint_group import load_checkpoints
from seq2seq.cli.errors import one_line_errors
from seq2seq.config.serialization import config_differences

logger = logging.getLogger(__name__)

_OF_THE_WEIGHTS = ("seed", "attention.", "model.")
"""keys that say which weights there are and where their training begins"""


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Write the average of the checkpoints that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m seq2seq.cli.average",
        description="Average the weights of several checkpoints of one run into one file, which "
        "translate.py takes like any other.",
    )
    parser.add_argument("output", help="the file to write; it must not exist yet")
    parser.add_argument(
        "checkpoints", nargs="+", metavar="checkpoint", help="a file, or a directory: its best.pt"
    )
    options = parser.parse_args(arguments)
    average_files(options.checkpoints, output=options.output)


def average_files(paths: Sequence[str | Path], *, output: str | Path) -> None:
    """Write the average of checkpoints as a checkpoint for translating.

    Its configuration is that of the first.

    Raises:
        OSError: a file cannot be read, or the output cannot be written or is there already.
        ValueError: one is no checkpoint, or they are not of the same model.
    """
    target = Path(output)
    if target.exists():
        # Whoever forgets the output's name would lose the first checkpoint.
        raise FileExistsError(f"output {output} exists already; delete it or give another name")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"output {output}: there is no directory {target.parent}; make it")
    checkpoints = load_checkpoints(paths)
    for path, checkpoint in zip(paths, checkpoints, strict=True):
        differences = [
            difference
            for difference in config_differences(checkpoints[0].config, checkpoint.config)
            if difference.startswith(_OF_THE_WEIGHTS)
        ]
        if differences:
            raise ValueError(
                f"checkpoint={path} is of another model than checkpoint={paths[0]}: "
                f"{', '.join(differences)}; average checkpoints of one run, or translate with "
                "several as an ensemble"
            )
    save_checkpoint(target, average(checkpoints))
    logger.info("wrote %s, the average of %d checkpoints", output, len(checkpoints))


def average(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """Return the first checkpoint with the mean of all weights, and nothing to resume from."""
    first = checkpoints[0]
    states = [checkpoint.model_state for checkpoint in checkpoints]
    # A model stores tied weights once, as its file then does.
    model = first.build_model()
    model.load_state_dict({name: _mean([state[name] for state in states]) for name in states[0]})
    return replace(first, model_state=model.state_dict(), training_state=None)


def _mean(values: Sequence[Tensor]) -> Tensor:
    """Return the mean, summed in float64, as the type of the first."""
    total = torch.zeros_like(values[0], dtype=torch.float64)
    for value in values:
        total += value
    return (total / len(values)).to(values[0].dtype)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s: %(message)s")
    main()
