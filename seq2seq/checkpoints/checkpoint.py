"""Checkpoints: one self-contained file of tensors and plain types, and no code."""

import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import config_from_dict, config_to_dict
from seq2seq.data import TokenizerPair, tokenizers_from_state, tokenizers_state
from seq2seq.files.atomic import whole_file
from seq2seq.files.paths import expand_home
from seq2seq.model.seq2seq import Seq2Seq

FORMAT = 1
_KEYS = {"format", "config", "tokenizers", "model", "training"}


class TrainingState(TypedDict):
    """What resuming needs beside the weights, of tensors and plain types."""

    fingerprint: str
    """of the training corpus"""
    progress: dict[str, object]
    updater: dict[str, dict[str, object]]


@dataclass(kw_only=True, slots=True)
class Checkpoint:
    """What a file holds."""

    config: TrainConfig
    tokenizers: TokenizerPair
    model_state: dict[str, Tensor]
    training_state: TrainingState | None
    """None where the file is only for translating."""

    def build_model(self) -> Seq2Seq:
        """Build the model with the checkpoint's weights, in evaluation mode.

        Raises:
            ValueError: the weights are not those of such a model.
        """
        model = build_model(self.config, self.tokenizers)
        try:
            model.load_state_dict(self.model_state)
        except (RuntimeError, TypeError, AttributeError) as error:
            raise ValueError(
                "the checkpoint's weights are not those of the model that its configuration "
                "describes; it was altered: take another"
            ) from error
        return model.eval()


def build_model(config: TrainConfig, tokenizers: TokenizerPair) -> Seq2Seq:
    """Build the model that the config describes, for these vocabularies."""
    return Seq2Seq(
        config.model,
        attention=config.attention,
        source_vocabulary_size=len(tokenizers.source),
        target_vocabulary_size=len(tokenizers.target),
    )


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the file, which has its name only when it is whole and on disk.

    Raises:
        OSError: it cannot be written, for example because the disk is full.
    """
    content = {
        "format": FORMAT,
        "config": config_to_dict(checkpoint.config),
        "tokenizers": tokenizers_state(checkpoint.tokenizers),
        "model": checkpoint.model_state,
        "training": checkpoint.training_state,
    }
    with whole_file(path) as file:
        torch.save(content, file)


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint onto the CPU; a directory means its best.pt.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no checkpoint, or one that this version cannot read.
    """
    path = expand_home(path, key="checkpoint")
    if path.is_dir():
        path = path / "best.pt"
    if not path.exists():
        raise FileNotFoundError(f"checkpoint={path}: no such file; train one with train.py")
    refusal = f"checkpoint={path} is no checkpoint of train.py, or damaged"
    if not _is_whole_archive(path):
        raise ValueError(refusal)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError) as error:
        raise ValueError(refusal) from error
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError(refusal)
    if content["format"] != FORMAT:
        raise ValueError(
            f"checkpoint={path} has format {content['format']}, this version reads {FORMAT}"
        )
    if content.keys() != _KEYS:
        raise ValueError(refusal)
    try:
        config = config_from_dict(content["config"])
    except ValueError as error:
        raise ValueError(f"checkpoint={path}: {error}") from error
    try:
        tokenizers = tokenizers_from_state(content["tokenizers"])
    except (LookupError, TypeError, RuntimeError, AssertionError) as error:
        raise ValueError(refusal) from error
    return Checkpoint(
        config=config,
        tokenizers=tokenizers,
        model_state=content["model"],
        training_state=content["training"],
    )


def _is_whole_archive(path: Path) -> bool:
    """Check the sums that torch.save writes and torch.load does not look at."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except zipfile.BadZipFile:
        return False
