"""Average the weights of several checkpoints of one run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from seq2seq.checkpoints.checkpoint import Checkpoint, load_checkpoints, save_checkpoint
from seq2seq.config.serialization import config_differences
from seq2seq.files.paths import expand_home

_WEIGHT_KEYS = ("seed", "attention.", "model.")
"""Keys that determine the shapes and the initial values of the weights."""


def average_files(paths: Sequence[str | Path], *, output: str | Path) -> None:
    """Average checkpoint files into a checkpoint for translating.

    The average has the configuration of the first checkpoint.

    Args:
        paths: Checkpoint files or run directories; a directory means its best.pt.
        output: The file to write.

    Raises:
        OSError: A file cannot be read, or the output cannot be written or exists already.
        ValueError: A file is not a checkpoint, or the checkpoints are of different models.
    """
    target = expand_home(output, key="output")
    if target.exists():
        # If the output is forgotten on the command line, the first checkpoint stands there.
        raise FileExistsError(f"output {output} exists already; delete it or give another name")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"output {output}: there is no directory {target.parent}; make it")
    checkpoints = load_checkpoints(paths)
    for path, checkpoint in zip(paths, checkpoints, strict=True):
        differences = [
            difference
            for difference in config_differences(checkpoints[0].config, checkpoint.config)
            if difference.startswith(_WEIGHT_KEYS)
        ]
        if differences:
            raise ValueError(
                f"checkpoint={path} has another model than checkpoint={paths[0]}: "
                f"{', '.join(differences)}; average checkpoints of one run, or translate with "
                "several as an ensemble"
            )
    save_checkpoint(target, average_checkpoints(checkpoints))


def average_checkpoints(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """Return the first checkpoint with the mean of all weights and without training state.

    Example:
        >>> from seq2seq.config.models import build_model
        >>> from seq2seq.config.schema import load_config
        >>> from seq2seq.data import CharacterTokenizer, TokenizerPair
        >>> config, tokenizers = load_config(), TokenizerPair(*[CharacterTokenizer("abc")] * 2)
        >>> model = build_model(config, source_vocabulary_size=7, target_vocabulary_size=7)
        >>> zeros = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
        >>> first, second = (
        ...     Checkpoint(
        ...         config=config, tokenizers=tokenizers, model_state=state, training_state=None
        ...     )
        ...     for state in (model.state_dict(), zeros)
        ... )
        >>> mean = average_checkpoints([first, second]).model_state["decoder.output.weight"]
        >>> torch.equal(mean, model.decoder.output.weight / 2)
        True
    """
    first = checkpoints[0]
    states = [checkpoint.model_state for checkpoint in checkpoints]
    # The model's own state stores tied weights once.
    model = first.build_model()
    model.load_state_dict({name: _mean([state[name] for state in states]) for name in states[0]})
    return replace(first, model_state=model.state_dict(), training_state=None)


def _mean(values: Sequence[Tensor]) -> Tensor:
    """Return the mean, summed in float64, in the type of the first value."""
    total = torch.zeros_like(values[0], dtype=torch.float64)
    for value in values:
        total += value
    return (total / len(values)).to(values[0].dtype)
