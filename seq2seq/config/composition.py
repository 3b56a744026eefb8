"""Find and compose the YAML files, and convert what was composed into a checked dataclass."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TypeVar

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from seq2seq.config.repeated_keys import check_repeated_keys
from seq2seq.files.resources import resource

_Config = TypeVar("_Config")


def config_directory() -> Path:
    """Return the directory of the YAML files."""
    return resource("configs")


def compose_yaml(name: str, overrides: Sequence[str]) -> DictConfig:
    """Compose one of the YAML files, whose schema is registered, with Hydra's overrides."""
    check_repeated_keys(overrides)
    # Hydra has one global state; a program that uses Hydra itself gets its own back.
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(config_directory())):
            return compose(name, overrides=list(overrides))
    finally:
        GlobalHydra.instance().hydra = outer


def to_dataclass(composed: DictConfig, schema: type[_Config]) -> _Config:
    """Convert a composed configuration into the dataclass of its schema, which checks the values.

    Raises:
        ValueError: A value is out of its range, or a key was added that no schema has.
        OmegaConfBaseException: A value is missing.
    """
    for key in _added_keys(composed):
        raise ValueError(f"unknown key {key!r}; remove it")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, schema)
    return config


def _added_keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    """Yield the keys that "+key=value" added and no schema has."""
    schema_type = OmegaConf.get_type(config)
    if not is_dataclass(schema_type):  # data.train may be a dictionary without a schema
        return
    known = {field.name for field in fields(schema_type)}
    for key in map(str, config):
        if key not in known:
            yield f"{prefix}{key}"
        elif not OmegaConf.is_missing(config, key) and OmegaConf.is_dict(config[key]):
            yield from _added_keys(config[key], f"{prefix}{key}.")
