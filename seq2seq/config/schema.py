"""The whole configuration: its schema, its way from YAML to dataclasses and into checkpoints."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import cast

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.attention import AttentionConfig, attention_config_types
from seq2seq.cli.config import TranslateConfig
from seq2seq.config.errors import describe_error
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
from seq2seq.files.atomic import whole_file
from seq2seq.model.seq2seq import ModelConfig
from seq2seq.search import DecodingConfig, decoding_config_types

_CONFIGS = Path(__file__).parent.parent / "configs"
ADDED_KEYS: dict[str, dict[str, object]] = {
    "model": {
        "encoder": {"self_attention": False, "self_attention_heads": 4},
        "decoder": {"self_attention": False, "self_attention_heads": 4},
    },
    "training": {"guided_attention": {"weight": 0.0, "alignments": None}},
    "decoding": {
        "min_length": 0,
        "min_length_ratio": 0.0,
        "no_repeat_ngram": 0,
        "length_penalty_form": "gnmt",
        "coverage_penalty": 0.0,
        "early_stopping": "exact",
    },
}
"""Keys that earlier versions did not have, by group, with the values that do what those did."""


@dataclass(kw_only=True, slots=True)
class TrainConfig:
    """What train.py is told."""

    run_name: str
    checkpoint_dir: str
    """Holds one directory per run."""
    resume: bool
    """Continue the run that the directory holds."""
    overwrite: bool
    """Delete the run that the directory holds."""
    seed: int
    data: DataConfig
    tokenizer: TokenizerConfig
    attention: AttentionConfig
    model: ModelConfig
    training: TrainingConfig
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        if self.run_name in ("", ".", "..") or Path(self.run_name).name != self.run_name:
            raise ValueError(
                f"run_name={self.run_name!r} must be the name of a directory, without a path; "
                "choose where it is made with checkpoint_dir"
            )
        for group, types in _groups().items():
            config = getattr(self, group)
            if types.get(config.name) is not type(config):
                raise ValueError(
                    f"{group}.name={config.name} is not the name of this {group}; leave it and "
                    f"choose {group}= one of {', '.join(sorted(types))}"
                )


def register_schemas() -> None:
    """Tell Hydra the dataclasses, so that every key and type is checked as it is composed."""
    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainConfig)
    store.store(name="translate_schema", node=TranslateConfig)
    for group, types in _groups().items():
        for name, config_type in types.items():
            store.store(group=f"schema/{group}", name=name, node=config_type)


def load_config(config: DictConfig) -> TrainConfig:
    """Turn a composed configuration into dataclasses, each of which checks its values.

    Raises:
        ValueError: a value is out of its range, or a key was added that nothing reads.
        OmegaConfBaseException: a value is missing.
    """
    return cast(TrainConfig, to_dataclass(config))


def compose_decoding(name: str, *overrides: str) -> DecodingConfig:
    """Return a search with the values of its YAML but for overrides: `"beam", "beam_size=8"`.

    Raises:
        ValueError: a value is out of its range.
        HydraException: there is no such search or key.
    """
    register_schemas()
    with initialize_config_dir(version_base="1.3", config_dir=str(_CONFIGS)):
        changes = [f"decoding.{override}" for override in overrides]
        composed = compose("translate", [f"decoding={name}", *changes])
    return cast(DecodingConfig, to_dataclass(composed.decoding))


def to_dataclass(config: DictConfig) -> object:
    """Turn a composed configuration into the dataclass of its schema; raises as `load_config`."""
    for key in _added_keys(config):
        raise ValueError(f"unknown key {key!r}; leave it out")
    return OmegaConf.to_object(config)


def config_to_dict(config: TrainConfig) -> dict[str, object]:
    """Turn a configuration into plain types, for YAML and checkpoints."""
    return asdict(config, dict_factory=_plain_dict)


def config_from_dict(content: dict[str, dict[str, str]]) -> TrainConfig:
    """Undo `config_to_dict`; what an earlier version did not know is as it was then.

    Raises:
        ValueError: a part names a type that this version does not have, or has unknown keys.
    """
    schema = OmegaConf.structured(TrainConfig)
    try:
        for group, types in _groups().items():
            name = content[group]["name"]
            if name not in types:
                raise ValueError(f"unknown {group} {name!r}; one of: {', '.join(sorted(types))}")
            schema[group] = OmegaConf.structured(types[name])
        if any("${" in str(value) for value in _flatten(content).values()):
            # Resolving one would read the environment for whoever wrote the file.
            raise ValueError("it holds an interpolation, which no saved configuration does")
        added = {**ADDED_KEYS, "decoding": _of_schema(ADDED_KEYS["decoding"], schema.decoding)}
        return load_config(cast(DictConfig, OmegaConf.merge(schema, added, content)))
    except (OmegaConfBaseException, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"this version cannot read the configuration: {describe_error(error)}"
        ) from error


def flatten_config(config: TrainConfig) -> dict[str, object]:
    """Return every value under its dotted key."""
    return _flatten(config_to_dict(config))


def config_differences(first: TrainConfig, second: TrainConfig) -> list[str]:
    """Name the keys whose values differ, with both values."""
    flat_first, flat_second = flatten_config(first), flatten_config(second)
    keys = sorted(flat_first.keys() | flat_second.keys())
    absent = "absent"
    return [
        f"{key} ({flat_first.get(key, absent)} -> {flat_second.get(key, absent)})"
        for key in keys
        if flat_first.get(key, absent) != flat_second.get(key, absent)
    ]


def save_config(config: TrainConfig, path: Path) -> None:
    """Write a configuration as YAML."""
    text = OmegaConf.to_yaml(OmegaConf.create(config_to_dict(config)))
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def load_saved_config(path: Path) -> TrainConfig:
    """Read what `save_config` wrote.

    Raises:
        ValueError: this version cannot read it.
    """
    content = OmegaConf.to_container(OmegaConf.load(path))
    try:
        return config_from_dict(content)  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def is_saved_config(path: Path) -> bool:
    """Say whether a file is what this or an earlier version's `save_config` wrote."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {*_groups(), "run_name"} <= {line.partition(":")[0] for line in lines}


def _groups() -> dict[str, dict[str, type]]:
    """Return the types that each replaceable part may have, by name."""
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


def _of_schema(keys: dict[str, object], schema: DictConfig) -> dict[str, object]:
    """Return the keys that a schema has."""
    schema_type = OmegaConf.get_type(schema)
    assert schema_type is not None
    known = {field.name for field in fields(schema_type)}
    return {key: value for key, value in keys.items() if key in known}


def _plain_dict(items: list[tuple[str, object]]) -> dict[str, object]:
    return {key: value.name if isinstance(value, Enum) else value for key, value in items}


def _flatten(content: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(content, dict):
        return {prefix.removesuffix("."): content}
    flat: dict[str, object] = {}
    for key, value in content.items():
        flat |= _flatten(value, f"{prefix}{key}.")
    return flat


def _added_keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    """Yield what "+key=value" added and no schema has."""
    known = _of_schema(dict.fromkeys(map(str, config)), config)
    for key in map(str, config):
        if key not in known:
            yield f"{prefix}{key}"
        elif not OmegaConf.is_missing(config, key) and OmegaConf.is_dict(config[key]):
            yield from _added_keys(config[key], f"{prefix}{key}.")
