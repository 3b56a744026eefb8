"""Read the configurations that other versions of the program saved in checkpoints."""

from collections.abc import Mapping
from typing import cast

from omegaconf import OmegaConf

from seq2seq.config.composition import compose_yaml
from seq2seq.config.schema import TrainConfig, config_groups, register_schemas
from seq2seq.config.serialization import config_from_dict

_READ_BY_TRANSLATION = ("model", "attention", "decoding")
"""Parts that must be complete; the others only describe how the model was trained."""


def config_from_checkpoint(content: dict[str, dict[str, str]]) -> TrainConfig:
    """Convert the configuration of a checkpoint, which another version may have written.

    Translating reads the model, the attention and the search. Of the other parts, a key that the
    content lacks gets the default of the YAML files, and a key that is not in the schema is
    dropped.

    Raises:
        ValueError: As `config_from_dict`, for the parts that translating reads.
    """
    try:
        return config_from_dict(content)
    except ValueError as error:
        try:
            adapted = _adapt(content)
        except (KeyError, TypeError, AttributeError):
            raise error from None
        return config_from_dict(adapted)


def _adapt(content: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Add the keys of this version to the parts that only describe the training."""
    groups = config_groups()
    saved: dict[str, object] = {**content}
    overrides = []
    for group in ("data", "tokenizer"):
        name = content.get(group, {}).get("name")
        # A name goes into an override, whose syntax could refer to the environment.
        if name in groups[group]:
            overrides.append(f"{group}={name}")
        else:
            saved.pop(group, None)
    register_schemas()
    composed = compose_yaml("train", overrides)
    defaults = cast(dict[str, object], OmegaConf.to_container(composed, resolve=True))
    read = {part: content[part] for part in _READ_BY_TRANSLATION}
    return cast(dict[str, dict[str, str]], {**_fit(saved, defaults), **read})


def _fit(saved: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    """Return the values of `saved` for the keys of `defaults`, and the defaults of the others."""
    fitted = {}
    for key, default in defaults.items():
        value = saved.get(key, default)
        both_nested = isinstance(value, dict) and isinstance(default, dict)
        fitted[key] = _fit(value, default) if both_nested else value  # type: ignore[arg-type]
    return fitted
