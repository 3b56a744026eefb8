"""The schema of a training configuration, and its composition from the YAML files."""

import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated

from hydra.core.config_store import ConfigStore

from seq2seq.attention import AttentionConfig, attention_config_types
from seq2seq.checks import Config, FilePath, Mark, OneOf
from seq2seq.config.composition import config_directory, load_as
from seq2seq.config.plugins import load_plugins_of
from seq2seq.config.training import TrainingConfig
from seq2seq.data import (
    CharactersConfig,
    DataConfig,
    FilesConfig,
    GrammarConfig,
    Multi30kConfig,
    SentencePieceConfig,
    TokenizerConfig,
    WordsConfig,
)
from seq2seq.model.config import ModelConfig
from seq2seq.search import DecodingConfig, decoding_config_types


@dataclass(kw_only=True, slots=True, repr=False)
class TrainConfig(Config):
    """The configuration of a training run."""

    run_name: Annotated[str, Mark.free, Mark.start]
    """Name of the run directory."""
    checkpoint_dir: Annotated[FilePath, Mark.free, Mark.start, Mark.machine]
    """Contains one directory per run."""
    resume: Annotated[bool | str, OneOf((True, False, "auto")), Mark.free, Mark.start]
    """Continue the run in the run directory; "auto": continue it if there is one, else begin."""
    overwrite: Annotated[bool, Mark.free, Mark.start]
    """Delete the run in the run directory and start again."""
    seed: Annotated[int, Mark.named, Mark.initial]
    """Seed of all random numbers."""
    data: DataConfig
    tokenizer: TokenizerConfig
    attention: AttentionConfig
    model: ModelConfig
    training: TrainingConfig
    decoding: DecodingConfig
    # Off, or the usual value, unless they are given.
    init_from: Annotated[FilePath | None, Mark.fixed, Mark.initial] = None
    """Checkpoint, or run directory, whose weights and tokenizers the training begins with."""
    resume_changes: Annotated[list[str], Mark.free] = field(default_factory=list)
    """Keys, or groups of keys, that may change when the run is resumed."""
    # A plug-in is found by the name of its type, wherever its file is now.
    plugins: Annotated[list[str], Mark.free, Mark.start] = field(default_factory=list)
    """Python files or modules that register attention types and searches; see `load_plugins`."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        name = self.run_name
        if name in ("", ".", "..") or Path(name).name != name or not name.isprintable():
            raise ValueError(
                f"run_name={name!r} must be the name of a directory, without a path or control "
                "characters; choose its parent directory with checkpoint_dir"
            )
        for group, types in config_groups().items():
            config = getattr(self, group)
            if types.get(config.name) is not type(config):
                raise ValueError(
                    f"{group}.name={config.name} does not name this {group}; remove it and "
                    f"choose {group}= one of {', '.join(sorted(types))}"
                )
        if isinstance(self.tokenizer, SentencePieceConfig):
            model = self.tokenizer.model_type.name
            if model != self.tokenizer.name:
                raise ValueError(
                    f"tokenizer.model_type={model} does not belong to "
                    f"tokenizer={self.tokenizer.name}; remove it and choose tokenizer={model}"
                )


def config_groups() -> dict[str, dict[str, type]]:
    """Return the config types of each replaceable part, by group and name."""
    return {
        "attention": dict(attention_config_types()),
        "data": {"files": FilesConfig, "grammar": GrammarConfig, "multi30k": Multi30kConfig},
        "tokenizer": {
            "bpe": SentencePieceConfig,
            "characters": CharactersConfig,
            "unigram": SentencePieceConfig,
            "words": WordsConfig,
        },
        "decoding": dict(decoding_config_types()),
    }


def register_schemas() -> None:
    """Register the dataclasses with Hydra, which checks every key and type as it composes."""
    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainConfig)
    for group, types in config_groups().items():
        for name, config_type in types.items():
            store.store(group=f"schema/{group}", name=name, node=config_type)
            if not (config_directory() / group / f"{name}.yaml").exists():  # of a plug-in
                store.store(group=group, name=name, node=config_type)


def load_config(*overrides: str) -> TrainConfig:
    """Compose the configuration that `train.py` would train with.

    Args:
        overrides: Arguments of `train.py`, such as `"attention=dot"` or `"training.max_epochs=2"`.

    Raises:
        ValueError: There is no such key or choice, or a value is missing, has the wrong type or is
            out of its range.

    Example:
        >>> config = load_config("attention=dot", "model=luong")
        >>> config.attention.name, config.model.decoder.input_feeding
        ('dot', True)
    """
    load_plugins_of(overrides)
    registered = (*attention_config_types().values(), *decoding_config_types().values())
    return copy.deepcopy(_load_config(overrides, registered))


@cache
def _load_config(overrides: tuple[str, ...], registered: tuple[type, ...]) -> TrainConfig:
    register_schemas()
    return load_as(TrainConfig, "train", overrides)
