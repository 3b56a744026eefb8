"""Compose the YAML files into checked dataclasses, and describe what is wrong in one line."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TypeVar

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)
from yaml import MarkedYAMLError, YAMLError  # type: ignore[import-untyped]

from seq2seq.files.paths import ReadingError, resource
from seq2seq.runtime.process import DeviceMemoryError

_Config = TypeVar("_Config")

# FloatingPointError: a loss, a gradient or a probability is not finite.
USER_ERRORS = (
    HydraException,
    OmegaConfBaseException,
    YAMLError,
    ValueError,
    OSError,
    ModuleNotFoundError,
    FloatingPointError,
    DeviceMemoryError,
)
"""Errors that the user can correct; any other error is a bug."""

_PLUGGED = ("attention", "data", "decoding", "tokenizer")
_NOISE = ("full_key:", "reference_type=", "object_type=", "Set the environment")


def config_directory() -> Path:
    """Return the directory of the YAML files."""
    return resource("configs")


def register_parts(group: str, types: Mapping[str, type]) -> None:
    """Offer the parts of a group as choices, with the keys and the values of their config types."""
    store = ConfigStore.instance()
    for name, config_type in types.items():
        store.store(group=f"schema/{group}", name=name, node=config_type)
        if not (config_directory() / group / f"{name}.yaml").exists():
            store.store(group=group, name=name, node=config_type)


def load_as(schema: type[_Config], name: str, overrides: Sequence[str]) -> _Config:
    """Compose one of the YAML files and convert it into the dataclass of its schema.

    Raises:
        ValueError: A key or a choice is unknown, or a value is missing, has the wrong type or is
            out of its range.
    """
    # Hydra's state is global; restore it for programs that use Hydra themselves.
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(config_directory())):
            return to_dataclass(compose(name, overrides=list(overrides)), schema)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
        raise ValueError(describe_error(error)) from None  # hides Hydra's internals
    finally:
        GlobalHydra.instance().hydra = outer


def to_dataclass(composed: DictConfig, schema: type[_Config]) -> _Config:
    """Convert a composed configuration into the dataclass of its schema, which checks the values.

    Raises:
        ValueError: A value is out of its range, or a key was added that no schema has.
        OmegaConfBaseException: A value is missing.
    """
    if OmegaConf.get_type(composed) is not schema:
        raise ValueError(
            "the file of --config-name has no schema; begin its defaults list with train_schema, "
            "as configs/train.yaml does; the config.yaml of a run works only without -m"
        )
    for key in _added_keys(composed):
        raise ValueError(f"unknown key {key!r}; remove it")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, schema)
    return config


def _added_keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    """Yield the keys that "+key=value" added and no schema has."""
    schema_type = OmegaConf.get_type(config)
    if not is_dataclass(schema_type):  # data.train may be a dictionary, which has no schema
        return
    known = {field.name for field in fields(schema_type)}
    for key in map(str, config):
        if key not in known:
            yield f"{prefix}{key}"
        elif not OmegaConf.is_missing(config, key) and OmegaConf.is_dict(config[key]):
            yield from _added_keys(config[key], f"{prefix}{key}.")


def describe_error(error: BaseException) -> str:
    """Describe an error in one line, without the internal types that Hydra and OmegaConf name."""
    if isinstance(error, ReadingError) and error.__cause__ is not None:
        return f"{error.what}: {describe_error(error.__cause__)}"
    # Hydra names the cause if the key is an argument, but not if it is in a file.
    is_composed = isinstance(error, ConfigCompositionException)
    cause = error.__context__ if is_composed else error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        error = cause
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and error.full_key:
        hint = _choices_with(error.full_key) or _nearest_keys(error)
        return f"unknown key {error.full_key!r}{hint}"
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} needs a value; give {error.full_key}=..."
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        hint = "; one of your own needs plugins=[FILE.py]" if group in _PLUGGED else ""
        return f"unknown {group} {name!r}; one of: {', '.join(error.options)}{hint}"
    if isinstance(error, OverrideParseException):
        if "=" not in error.override or error.override.startswith("-"):
            return f"{error.override!r} is not key=value; --help shows the keys"
        return (
            f"cannot read {error.override!r}; put single quotes around a text with special "
            "characters: \"KEY='TEXT'\" or \"KEY=['TEXT','TEXT']\""
        )
    if isinstance(error, ModuleNotFoundError) and error.name:
        folder = "; without it, only a folder that seq2seq-export wrote translates"
        hint = folder if error.name == "torch" else "; install it with pip"
        return f"this needs the package {error.name}{hint}"
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark):
        file = "" if mark.name.startswith("<") else f"{mark.name}: "  # YAML in a string
        return f"{file}line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        return f"{file}{error.strerror.lower()}"
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if line and not line.startswith(_NOISE)]
    text = " ".join(kept) or type(error).__name__
    if isinstance(error, KeyError):  # its text is only the key
        text = f"{text} is missing"
    key = getattr(error, "full_key", None)
    return f"{key}: {text}" if key else text


def _choices_with(full_key: str) -> str:
    """Return a hint that names the other choices of the group that have the key, or ""."""
    group, _, key = full_key.partition(".")
    schemas = ConfigStore.instance().repo.get("schema", {}).get(group, {})
    # `key in node` would be False, because no key of a schema has a value yet.
    names = sorted(file.removesuffix(".yaml") for file in schemas if key in set(schemas[file].node))
    return f"; it belongs to {group}={' or '.join(names)}" if names else ""


def _nearest_keys(error: OmegaConfBaseException) -> str:
    """Return a hint that names the keys most similar to an unknown key, or else all keys."""
    parent = error.parent_node
    if not isinstance(parent, DictConfig):
        return ""
    content = OmegaConf.to_container(parent)
    assert isinstance(content, dict)
    keys = list(map(str, content))
    # The key may exist one level deeper: training.kernels instead of kernels.
    near = [
        f"{key!s}.{error.key!s}"
        for key, value in content.items()
        if isinstance(value, dict) and error.key in value
    ]
    near += difflib.get_close_matches(str(error.key), keys)
    if near:
        section, dot, _ = str(error.full_key).rpartition(".")
        return f"; did you mean {' or '.join(f'{section}{dot}{each}' for each in near)}?"
    if OmegaConf.get_type(parent) is dict:  # without a schema, such as data.train
        return f"; write +{error.full_key}=... to add it to {', '.join(keys)}"
    return f"; one of: {', '.join(sorted(keys))}"


def quote_value(value: str) -> str:
    """Put quotes around a text, so that Hydra takes it literally.

    Example:
        >>> print(quote_value("it's, 1"))
        'it\\'s, 1'
    """
    # Hydra unescapes backslashes before a quote.
    value = re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + "\\'" * bool(match[2]), value)
    return f"'{escape_interpolations(value)}'"


def escape_interpolations(value: str) -> str:
    """Escape each "${", so that OmegaConf takes the text literally.

    Example:
        >>> print(escape_interpolations("${NAME}"))
        \\${NAME}
    """
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
