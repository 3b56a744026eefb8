"""Refuse a dictionary on the command line that has a key twice, of which Hydra keeps the last."""

import re
from collections.abc import Iterable

from omegaconf import OmegaConf
from yaml import YAMLError  # type: ignore[import-untyped]


def check_repeated_keys(overrides: Iterable[str]) -> None:
    """Raise ValueError if a dictionary in an override has a key twice.

    Example:
        >>> check_repeated_keys(["data.train={a: [1.tsv], b: [2.tsv]}"])
        >>> check_repeated_keys(["data.train={a: [1.tsv], a: [2.tsv]}"])
        Traceback (most recent call last):
        ValueError: data.train has the key a twice; give each a name of its own
    """
    for override in overrides:
        key, _, value = override.partition("=")
        if "{" not in value:
            continue
        try:
            OmegaConf.create(re.sub(r":(?=\S)", ": ", value))  # YAML needs the space, Hydra not
        except YAMLError as error:  # any other mistake is Hydra's to report
            found = re.match("found duplicate key (.*)", getattr(error, "problem", None) or "")
            if found:
                raise ValueError(
                    f"{key} has the key {found[1]} twice; give each a name of its own"
                ) from error
