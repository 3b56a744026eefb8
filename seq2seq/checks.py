"""Range checks for configurations; their errors name the key, the value and the rule.

A field that is None passes. The section of a top-level key is "".
"""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Protocol

_MAX_LAYERS = 100
_MAX_SIZE = 20_000
"""Limits of the layers and sizes of a model, so that a forged file cannot ask for more."""


class _Layers(Protocol):
    num_layers: int
    residual: bool


def as_yaml(value: object) -> str:
    """Write a value for a message as it stands in a command: null, true and false.

    Example:
        >>> as_yaml(None), as_yaml(True), as_yaml(0.5)
        ('null', 'true', '0.5')
    """
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def check_positive(section: str, config: object, *fields: str) -> None:
    """Raise ValueError unless each field is at least 1."""
    for key, value in _values(section, config, fields):
        if value < 1:
            raise ValueError(f"{key}={value} must be at least 1")


def check_not_negative(section: str, config: object, *fields: str) -> None:
    """Raise ValueError unless each field is a finite number of at least 0."""
    for key, value in _values(section, config, fields):
        if not 0 <= value < math.inf:
            raise ValueError(f"{key}={value} must be a number of at least 0")


def check_at_most(section: str, config: object, most: int, *fields: str) -> None:
    """Raise ValueError if a field is more than the limit, far above all useful values."""
    for key, value in _values(section, config, fields):
        if value > most:
            raise ValueError(f"{key}={value} must be at most {most:,}")


def check_probabilities(section: str, config: object, *fields: str) -> None:
    """Raise ValueError unless each field lies in [0, 1)."""
    for key, value in _values(section, config, fields):
        if not 0 <= value < 1:
            raise ValueError(f"{key}={value} must lie in [0, 1)")


def check_sizes(section: str, config: object, *fields: str) -> None:
    """Raise ValueError unless each field is at least 1 and at most the limit of a model's sizes."""
    check_positive(section, config, *fields)
    check_at_most(section, config, _MAX_SIZE, *fields)


def check_layers(section: str, config: _Layers) -> None:
    """Raise ValueError if there are no or too many layers, or none that residuals connect."""
    check_positive(section, config, "num_layers")
    check_at_most(section, config, _MAX_LAYERS, "num_layers")
    if config.residual and config.num_layers == 1:
        raise ValueError(
            f"{section}.residual=true connects layers, but {section}.num_layers=1; set num_layers "
            "to 2 or more, or residual=false"
        )


def _values(section: str, config: object, fields: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yield the key and the value of each field that is not None."""
    for field in fields:
        value: float | None = getattr(config, field)
        if value is not None:
            yield f"{section}.{field}" if section else field, value
