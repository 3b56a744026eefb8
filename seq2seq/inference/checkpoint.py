"""Checkpoints: self-contained files of tensors and plain types; reading, writing and averaging."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, cast

import torch
from torch import Tensor

from seq2seq.checks import check_format
from seq2seq.config.schema import TrainConfig, build_model
from seq2seq.config.serialization import (
    config_differences,
    config_from_dict,
    config_to_dict,
    describes_weights,
)
from seq2seq.data.cache import digest
from seq2seq.data.tokenizers.interface import TokenizerPair, TokenizerState
from seq2seq.data.tokenizers.ruled import tokenizers_from_state, tokenizers_state
from seq2seq.evaluation.confidence import Confidence
from seq2seq.files.atomic import load_archive, whole_file
from seq2seq.files.paths import check_is_free, expand_home, reading
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.version import __version__

logger = logging.getLogger(__name__)

FORMAT = 4
"""Number of the format; a file of another format is refused."""


class TrainingState(TypedDict):
    """State for resuming a run besides the weights, as tensors and plain types."""

    fingerprint: str
    """Hash of the training corpus."""
    valid_fingerprint: str
    """Hash of the validation corpus."""
    progress: dict[str, object]
    updater: dict[str, dict[str, object]]


class _Content(TypedDict):
    """The content of a checkpoint file."""

    format: int
    version: str
    """Version of the program that wrote the file."""
    config: dict[str, dict[str, str]]
    tokenizers: dict[str, TokenizerState]
    model: dict[str, Tensor]
    training: TrainingState | None
    habits: dict[str, float]
    """Shares of the training pairs with a habit; see `seq2seq.text`."""
    confidence: dict[str, float] | None
    """Fields of `Confidence`."""


@dataclass(kw_only=True, slots=True)
class Checkpoint:
    """The configuration, tokenizers and weights of a model, and the state of its training."""

    config: TrainConfig
    tokenizers: TokenizerPair
    model_state: dict[str, Tensor]
    """Weights from `Seq2Seq.state_dict`."""
    training_state: TrainingState | None
    """State to resume the training from; None in a file that is only for translating."""
    habits: Mapping[str, float] = field(default_factory=dict)
    """Shares of the training pairs with a habit; see `seq2seq.text`."""
    confidence: Confidence | None = None
    """How good the model's translations are likely to be; None before the end of the training."""
    origin: str = "the checkpoint"
    """File that the checkpoint was read from, for messages."""

    def build_model(self) -> Seq2Seq:
        """Build the model with the checkpoint's weights, in evaluation mode.

        Raises:
            ReadingError: The weights do not fit the model of the configuration.
        """
        with reading(self.origin):
            model = build_model(  # a forged size may not fit into memory
                self.config,
                source_vocabulary_size=len(self.tokenizers.source),
                target_vocabulary_size=len(self.tokenizers.target),
            )
        self.load_into(model)
        return model.eval()

    def load_into(self, model: Seq2Seq) -> None:
        """Give a model the checkpoint's weights.

        Raises:
            ReadingError: The weights do not fit the model, or are no finite numbers of its types.
        """
        with reading(self.origin):
            model.load_state_dict(self.model_state)
            for name, own in model.state_dict().items():
                weights = self.model_state[name]  # torch casts other types without a word
                is_cast = own.is_floating_point() != weights.is_floating_point()
                if is_cast or not weights.isfinite().all():
                    raise ValueError(f"the values of {name} are no finite {own.dtype} numbers")


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the file gets its name when it is complete and on disk.

    Raises:
        OSError: The file cannot be written, for example because the disk is full.
    """
    content = {
        "format": FORMAT,
        "version": __version__,
        "config": config_to_dict(checkpoint.config),
        "tokenizers": tokenizers_state(checkpoint.tokenizers),
        "model": checkpoint.model_state,
        "training": checkpoint.training_state,
        "habits": dict(checkpoint.habits),
        "confidence": checkpoint.confidence and checkpoint.confidence._asdict(),
    }
    with whole_file(path) as file:
        torch.save(content, file)


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint onto the CPU.

    Args:
        path: A checkpoint file, or a run directory or an exported folder, which means its best.pt.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is not a checkpoint, or this version cannot read it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from seq2seq.config.schema import load_config
        >>> from seq2seq.data.tokenizers.words import CharacterTokenizer
        >>> config, tokenizers = load_config(), TokenizerPair(*[CharacterTokenizer("abc")] * 2)
        >>> model = build_model(config, source_vocabulary_size=7, target_vocabulary_size=7)
        >>> checkpoint = Checkpoint(
        ...     config=config,
        ...     tokenizers=tokenizers,
        ...     model_state=model.state_dict(),
        ...     training_state=None,
        ... )
        >>> with TemporaryDirectory() as directory:
        ...     save_checkpoint(Path(directory) / "best.pt", checkpoint)
        ...     loaded = load_checkpoint(directory)
        >>> loaded.config == config
        True
    """
    path = expand_home(path, key="checkpoint")
    if path.is_dir():
        path = path / "best.pt"
    origin = f"checkpoint={path}"
    content = cast(_Content, load_archive(path))
    with reading(origin):
        check_format(content["format"], FORMAT)
        fields = content["confidence"]
        return Checkpoint(
            config=config_from_dict(content["config"]),
            tokenizers=tokenizers_from_state(content["tokenizers"]),
            model_state=content["model"],
            training_state=content["training"],
            habits={name: float(share) for name, share in content["habits"].items()},
            confidence=Confidence(**{name: float(each) for name, each in fields.items()})
            if fields
            else None,
            origin=origin,
        )


def load_checkpoints(paths: Sequence[str | Path]) -> list[Checkpoint]:
    """Read the checkpoints of an ensemble or an average, without their training states.

    Args:
        paths: Checkpoint files or run directories; a directory means its best.pt.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file is not a checkpoint, or its tokenizers differ from the tokenizers of the
            first checkpoint.
    """
    # The optimizer's state takes twice the memory of the weights.
    checkpoints = [replace(load_checkpoint(path), training_state=None) for path in paths]
    for origin, number in Counter(each.origin for each in checkpoints).items():
        if number > 1:
            logger.warning("%s is given %d times, and each counts; give it once", origin, number)
    states = [digest([each.state() for each in every.tokenizers]) for every in checkpoints]
    for path, state in zip(paths, states, strict=True):
        if state != states[0]:
            raise ValueError(
                f"checkpoint={path} has different tokenizers from checkpoint={paths[0]}; only "
                "models with the same tokenizers can be combined: train them on the same text "
                "with the same tokenizer settings"
            )
    return checkpoints


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
    # The file may be a checkpoint that was named as the output by mistake.
    check_is_free(target, key="output")
    checkpoints = load_checkpoints(paths)
    for path, checkpoint in zip(paths, checkpoints, strict=True):
        differences = [
            str(each)
            for each in config_differences(checkpoints[0].config, checkpoint.config)
            if describes_weights(each.key) or each.key in ("seed", "init_from")
        ]
        if differences:
            raise ValueError(
                f"checkpoint={path} has a different model from checkpoint={paths[0]}: "
                f"{', '.join(differences)}; average checkpoints of one run, or "
                "translate with several as an ensemble"
            )
    save_checkpoint(target, average_checkpoints(checkpoints))


def average_checkpoints(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """Return the first checkpoint with the mean of all weights and without training state.

    Example:
        >>> from seq2seq.config.schema import build_model
        >>> from seq2seq.config.schema import load_config
        >>> from seq2seq.data.tokenizers.interface import TokenizerPair
        >>> from seq2seq.data.tokenizers.words import CharacterTokenizer
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
    states = [checkpoint.build_model().state_dict() for checkpoint in checkpoints]
    # A model ties equal weights again, so that its state stores them only once.
    model = first.build_model()
    model.load_state_dict({name: _mean([state[name] for state in states]) for name in states[0]})
    return replace(first, model_state=model.state_dict(), training_state=None, confidence=None)


def _mean(values: Sequence[Tensor]) -> Tensor:
    """Return the mean, summed in float64, in the type of the first value."""
    total = torch.zeros_like(values[0], dtype=torch.float64)
    for value in values:
        total += value
    return (total / len(values)).to(values[0].dtype)
