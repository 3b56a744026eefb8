"""The whole configuration: its schema, its way from YAML to dataclasses and into checkpoints."""

import difflib
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from seq2seq.attention import AttentionConfig, attention_config_types
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
from seq2seq.model import ModelConfig
from seq2seq.search import DecodingConfig, decoding_config_types
from seq2seq.training.config import TrainingConfig
from seq2seq.translate_config import TranslateConfig

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

# FloatingPointError: a training whose gradients are no numbers any more.
USER_ERRORS = (
    HydraException,
    OmegaConfBaseException,
    ValueError,
    OSError,
    FloatingPointError,
)
"""what the user can do something about; anything else is a fault of the program"""

_NOISE = ("full_key:", "reference_type=", "object_type=", "Set the environment")
_SHOWS_TRACEBACKS = os.environ.get("HYDRA_FULL_ERROR") == "1"


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


def to_dataclass(config: DictConfig) -> object:
    """Turn a composed configuration into the dataclass of its schema; raises as `load_config`."""
    for key in _added_keys(config):
        raise ValueError(f"unknown key {key!r}; leave it out")
    return OmegaConf.to_object(config)


def config_to_dict(config: TrainConfig) -> dict[str, object]:
    """Turn a configuration into plain types, for YAML and checkpoints."""
    return asdict(config, dict_factory=_plain_dict)


def config_from_dict(content: dict[str, dict[str, str]]) -> TrainConfig:
    """Undo `config_to_dict`.

    Raises:
        ValueError: a part names a type that this version does not have, or has unknown keys.
    """
    schema = OmegaConf.structured(TrainConfig)
    for group, types in _groups().items():
        name = content.get(group, {}).get("name")
        if name not in types:
            raise ValueError(f"unknown {group} {name!r}; one of: {', '.join(sorted(types))}")
        schema[group] = OmegaConf.structured(types[name])
    try:
        return load_config(cast(DictConfig, OmegaConf.merge(schema, content)))
    except OmegaConfBaseException as error:
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
    path.write_text(OmegaConf.to_yaml(OmegaConf.create(config_to_dict(config))), encoding="utf-8")


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


def run_script(main: Callable[[], None]) -> None:
    """Run a Hydra script so that errors while its configuration is composed are one line too."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands on its errors instead of printing them
    one_line_errors(main)()


def one_line_errors(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Make a user's error one line on stderr and exit code 2.

    Under `hydra.main` it keeps Hydra from announcing the error in a line of its own. With
    HYDRA_FULL_ERROR=1 in the environment the traceback comes instead.
    """

    @functools.wraps(function)
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt:
            print("stopped by Ctrl-C", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        except USER_ERRORS as error:
            if _SHOWS_TRACEBACKS:
                raise
            print(f"error: {describe_error(error)}", file=sys.stderr)
            sys.exit(2)

    return wrapped


def describe_error(error: Exception) -> str:
    """Say what an error says in one line; Hydra's and OmegaConf's name types of their own."""
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        error = cause
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and error.full_key:
        return f"unknown key {error.full_key!r}{_nearest_keys(error)}"
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} has no value; give it, {error.full_key}=..."
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        return f"unknown {group} {name!r}; one of: {', '.join(error.options)}"
    lines = [line.strip() for line in str(error).splitlines()]
    key = getattr(error, "full_key", None)
    kept = [line for line in lines if line and not line.startswith(_NOISE)]
    text = " ".join(kept) or type(error).__name__
    if text.startswith("Config group override must be"):
        return "a part was set to null; choose one by its name, for example attention=none"
    return f"{key}: {text}" if key else text


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
    schema = OmegaConf.get_type(config)
    assert schema is not None
    known = {field.name for field in fields(schema)}
    for key in map(str, config):
        if key not in known:
            yield f"{prefix}{key}"
        elif isinstance(value := config._get_node(key), DictConfig):
            yield from _added_keys(value, f"{prefix}{key}.")


def _nearest_keys(error: OmegaConfBaseException) -> str:
    """Suggest keys that stand where an unknown one was looked for."""
    parent = error.parent_node
    if not isinstance(parent, DictConfig):
        return ""
    keys = [str(key) for key in parent]
    near = difflib.get_close_matches(str(error.key), keys, n=3, cutoff=0.5) or sorted(keys)
    return f"; one of: {', '.join(near)}"
