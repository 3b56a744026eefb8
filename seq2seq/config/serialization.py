"""A training configuration as plain types and as YAML, for checkpoints and run directories."""

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import NamedTuple, cast

from omegaconf import DictConfig, OmegaConf
from yaml import AliasToken, scan  # type: ignore[import-untyped]

from seq2seq.checks import Config, as_yaml
from seq2seq.config.composition import escape_interpolations, to_dataclass
from seq2seq.config.plugins import how_to_load
from seq2seq.config.schema import TrainConfig, config_groups
from seq2seq.files.atomic import write_text
from seq2seq.files.paths import reading


def config_to_dict(config: Config) -> dict[str, object]:
    """Convert a configuration to plain types."""
    return asdict(config, dict_factory=_plain_dict)


def config_from_dict(content: dict[str, dict[str, str]]) -> TrainConfig:
    """Return the configuration that `config_to_dict` converted.

    Raises:
        ValueError: A part names an unknown type.
        KeyError: A part is missing.
        OmegaConfBaseException: A key is missing or unknown.
    """
    schema = OmegaConf.structured(TrainConfig)
    for group, types in config_groups().items():
        name = content[group]["name"]
        if name not in types:
            hint = how_to_load(content.get("plugins")) or f"; one of: {', '.join(sorted(types))}"
            raise ValueError(f"unknown {group} {name!r}{hint}")
        schema[group] = OmegaConf.structured(types[name])
    literal = cast(DictConfig, OmegaConf.merge(schema, _literal(content)))
    return to_dataclass(literal, TrainConfig)


def flatten_config(config: TrainConfig) -> dict[str, object]:
    """Return every value under its dotted key."""
    return flatten(config_to_dict(config))


class Difference(NamedTuple):
    """A key whose values differ."""

    key: str
    first: object
    second: object

    def __str__(self) -> str:
        return f"{self.key} ({as_yaml(self.first)} -> {as_yaml(self.second)})"


def config_differences(first: TrainConfig, second: TrainConfig) -> list[Difference]:
    """Return the keys whose values differ; the value of a missing key is "absent"."""
    flat = flatten_config(first), flatten_config(second)
    differences = []
    for key in sorted(flat[0].keys() | flat[1].keys()):
        before, after = (part.get(key, "absent") for part in flat)
        if before != after:
            differences.append(Difference(key, before, after))
    return differences


def describes_weights(key: str) -> bool:
    """Return whether the meaning of a model's weights depends on a key.

    Dropout affects only training, and word vectors only the initial weights.
    """
    is_of_model = key.startswith(("attention.", "model.")) or key == "tokenizer.name"
    return is_of_model and not key.endswith(("dropout", ".vectors"))


def save_config(config: TrainConfig, path: Path) -> None:
    """Write a configuration as YAML."""
    write_text(path, OmegaConf.to_yaml(OmegaConf.create(config_to_dict(config))))


def load_saved_config(path: Path) -> TrainConfig:
    """Read a file that `save_config` wrote.

    Raises:
        ReadingError: This version cannot read the file.
    """
    with reading(path):
        return config_from_dict(read_yaml(path))  # type: ignore[arg-type]


def read_yaml(path: Path) -> object:
    """Read a YAML file of a run as plain types.

    Raises:
        ValueError: The file has an alias. No run writes aliases, and a few nested aliases could
            stand for millions of values.
    """
    text = path.read_text(encoding="utf-8")
    if "*" in text and any(isinstance(token, AliasToken) for token in scan(text)):
        raise ValueError("it has a YAML alias, which no run writes")
    return OmegaConf.to_container(OmegaConf.create(text))


def is_saved_config(path: Path) -> bool:
    """Return whether a file looks like one that `save_config` of any version wrote."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {*config_groups(), "run_name"} <= {line.partition(":")[0] for line in lines}


def _literal(content: object) -> object:
    """Escape interpolations in texts, because an interpolation could read the environment.

    Values are saved as they were after interpolation, so a "${" that is left belongs to the text.
    """
    if isinstance(content, dict):
        return {key: _literal(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_literal(value) for value in content]
    return escape_interpolations(content) if isinstance(content, str) else content


def _plain_dict(items: list[tuple[str, object]]) -> dict[str, object]:
    return {key: value.name if isinstance(value, Enum) else value for key, value in items}


def flatten(content: object, prefix: str = "") -> dict[str, object]:
    """Return the values of nested dictionaries under dotted keys."""
    if not isinstance(content, dict):
        return {prefix.removesuffix("."): content}
    flat: dict[str, object] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.")
    return flat
