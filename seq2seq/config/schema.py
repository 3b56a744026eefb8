"""The schema of a training configuration, and its composition from the YAML files."""

import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hydra.core.config_store import ConfigStore

from seq2seq.attention import AttentionConfig, attention_config_types
from seq2seq.config.composition import compose_yaml, config_directory, to_dataclass
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
from seq2seq.model.seq2seq import ModelConfig
from seq2seq.search import DecodingConfig, decoding_config_types


@dataclass(kw_only=True, slots=True)
class TrainConfig:
    """The configuration of a training run."""

    run_name: str
    checkpoint_dir: str
    """Contains one directory per run."""
    resume: bool | str
    """Continue the run in the run directory; "auto": continue it if there is one, else begin."""
    overwrite: bool
    """Delete the run in the run directory and start again."""
    seed: int
    data: DataConfig
    tokenizer: TokenizerConfig
    attention: AttentionConfig
    model: ModelConfig
    training: TrainingConfig
    decoding: DecodingConfig
    # Defaults are also the values of checkpoints that were written before the keys existed.
    init_from: str | None = None
    """Checkpoint, or run directory, whose weights and tokenizers the training begins with."""
    resume_changes: list[str] = field(default_factory=list)
    """Keys, or groups of keys, that may change when the run is resumed."""
    plugins: list[str] = field(default_factory=list)
    """Python files or modules that register attention types and searches; see `load_plugins`."""

    def __post_init__(self) -> None:
        if self.run_name in ("", ".", "..") or Path(self.run_name).name != self.run_name:
            raise ValueError(
                f"run_name={self.run_name!r} must be the name of a directory, without a path; "
                "choose its parent directory with checkpoint_dir"
            )
        if not self.run_name.isprintable():
            raise ValueError(
                f"run_name={self.run_name!r} must not contain a line feed or another control "
                "character"
            )
        if self.init_from is not None and not self.init_from.strip():
            raise ValueError("init_from= is empty; give a checkpoint or a run directory, or null")
        if not isinstance(self.resume, bool) and self.resume != "auto":
            raise ValueError(f"resume={self.resume} must be true, false or auto")
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
        HydraException: There is no such key or choice.
        OmegaConfBaseException: A value is missing or has the wrong type.
        ValueError: A value is out of its range.

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
    return to_dataclass(compose_yaml("train", overrides), TrainConfig)
