"""A training configuration as plain types and as YAML, for checkpoints and run directories."""

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from seq2seq.checks import as_yaml
from seq2seq.config.composition import to_dataclass
from seq2seq.config.errors import describe_error
from seq2seq.config.plugins import how_to_load
from seq2seq.config.quoting import escape_interpolations
from seq2seq.config.schema import TrainConfig, config_groups
from seq2seq.files.atomic import whole_file


def config_to_dict(config: TrainConfig) -> dict[str, object]:
    """Convert a configuration to plain types."""
    return asdict(config, dict_factory=_plain_dict)


def config_from_dict(content: dict[str, dict[str, str]]) -> TrainConfig:
    """Convert the result of `config_to_dict` back.

    Raises:
        ValueError: A part names an unknown type, or a key is missing or unknown.
    """
    schema = OmegaConf.structured(TrainConfig)
    try:
        for group, types in config_groups().items():
            name = content[group]["name"]
            if name not in types:
                hint = how_to_load(content.get("plugins"))
                known = ", ".join(sorted(types))
                raise ValueError(f"unknown {group} {name!r}{hint or f'; one of: {known}'}")
            schema[group] = OmegaConf.structured(types[name])
        literal = cast(DictConfig, OmegaConf.merge(schema, _literal(content)))
        return to_dataclass(literal, TrainConfig)
    except MissingMandatoryValue as error:
        raise ValueError(
            f"the configuration lacks {error.full_key}, which this version needs; use the version "
            "that wrote it"
        ) from error
    except (
        OmegaConfBaseException,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,  # of a dictionary that contains itself
    ) as error:
        raise ValueError(
            f"this version cannot read the configuration: {describe_error(error)}"
        ) from error


def flatten_config(config: TrainConfig) -> dict[str, object]:
    """Return every value under its dotted key."""
    return flatten(config_to_dict(config))


def config_differences(first: TrainConfig, second: TrainConfig) -> list[str]:
    """Name the keys whose values differ, with both values."""
    flat_first, flat_second = flatten_config(first), flatten_config(second)
    keys = sorted(flat_first.keys() | flat_second.keys())
    absent = "absent"
    return [
        f"{key} ({as_yaml(flat_first.get(key, absent))} -> {as_yaml(flat_second.get(key, absent))})"
        for key in keys
        if flat_first.get(key, absent) != flat_second.get(key, absent)
    ]


def save_config(config: TrainConfig, path: Path) -> None:
    """Write a configuration as YAML."""
    text = OmegaConf.to_yaml(OmegaConf.create(config_to_dict(config)))
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def load_saved_config(path: Path) -> TrainConfig:
    """Read a file that `save_config` wrote.

    Raises:
        ValueError: This version cannot read it.
    """
    try:
        content = OmegaConf.to_container(OmegaConf.create(path.read_text(encoding="utf-8")))
        return config_from_dict(content)  # type: ignore[arg-type]
    except (ValueError, YAMLError, OmegaConfBaseException, RecursionError) as error:
        raise ValueError(
            f"{path}: {describe_error(error)}; restore the file or delete its directory"
        ) from error


def is_saved_config(path: Path) -> bool:
    """Return whether a file looks like one that `save_config` of any version wrote."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {*config_groups(), "run_name"} <= {line.partition(":")[0] for line in lines}


def _literal(content: object) -> object:
    """Escape the texts of plain types: an interpolation could read the environment.

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
