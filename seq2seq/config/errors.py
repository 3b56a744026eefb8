"""Describe errors of this package, Hydra and OmegaConf to the user in one line."""

import difflib
import errno
import re

from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)
from yaml import MarkedYAMLError, YAMLError  # type: ignore[import-untyped]

from seq2seq.runtime.device_memory import DeviceMemoryError

# Training raises FloatingPointError when the loss or a gradient is not finite.
USER_ERRORS = (
    HydraException,
    OmegaConfBaseException,
    YAMLError,
    ValueError,
    OSError,
    FloatingPointError,
    DeviceMemoryError,
)
"""Errors that the user can correct; any other error is a bug."""

_PLUGGED = ("attention", "decoding")
_OF_EXTRA_SWEEP = ("hydra/launcher", "hydra/sweeper")
_NOISE = ("full_key:", "reference_type=", "object_type=", "Set the environment")


def describe_error(error: Exception) -> str:
    """Describe an error in one line, without the internal types that Hydra and OmegaConf name."""
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        error = cause
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and error.full_key:
        hint = _choices_with(error.full_key) or _nearest_keys(error)
        return f"unknown key {error.full_key!r}{hint}"
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} has no value; give it, {error.full_key}=..."
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        hint = "; one of your own needs plugins=[FILE.py]" if group in _PLUGGED else ""
        if group in _OF_EXTRA_SWEEP and error.options == ["basic"]:
            hint = "; others come with the extra sweep"
        return f"unknown {group} {name!r}; one of: {', '.join(error.options)}{hint}"
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override)
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark):
        file = "" if mark.name.startswith("<") else f"{mark.name}: "  # a text has no file
        return f"{file}line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}{_way_out(error.errno)}"
    lines = [line.strip() for line in str(error).splitlines()]
    key = getattr(error, "full_key", None)
    kept = [line for line in lines if line and not line.startswith(_NOISE)]
    text = " ".join(kept) or type(error).__name__
    if text.startswith("Config group override must be"):
        return "a part is chosen by its name, for example attention=none; this is not a name"
    if key and text.endswith("is not Optional"):
        return f"{key}=null: this key needs a value"
    if found := re.match(r"Could not override '([^']+)'\. No match in the defaults list", text):
        return f"unknown key {found[1]!r}; --cfg job lists the keys"
    if text.endswith("is not a ListConfig, list or tuple."):
        return f"{key} must be a list; write it in brackets, '{key}=[...]'"
    if re.fullmatch(r"Cannot merge (Dict|List)Config with (Dict|List)Config", text):
        return f"{key} is given as a list and as a dictionary, also in a file; give it in one form"
    return f"{key}: {text}" if key else text


def _way_out(number: int | None) -> str:
    """Return what to do after an error of the operating system, or ""."""
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "; make room there and repeat the command, a run with resume=true"
    if number in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "; change its permissions or choose another path"
    if number == errno.EFBIG:
        return "; raise the limit of file sizes (ulimit -f) and repeat the command"
    return ""


def _unreadable(override: str) -> str:
    """Describe the mistake in an argument that Hydra cannot parse."""
    if "=" not in override:
        return (
            f"{override!r} is not key=value; --cfg job lists the keys, and a file to translate is "
            f"given as input={override}"
        )
    return (
        f"cannot read {override!r}; put quotes around a value with special characters: "
        "\"data.train=['gr\u00fc\u00dfe.de','greetings.en']\""
    )


def _choices_with(full_key: str) -> str:
    """Return a hint that names the other choices of the group that have the key, or ""."""
    group, _, key = full_key.partition(".")
    schemas = ConfigStore.instance().repo.get("schema", {}).get(group, {})
    # `key in node` would be False, because no key of a schema has a value yet.
    names = sorted(file.removesuffix(".yaml") for file in schemas if key in set(schemas[file].node))
    return f"; it belongs to {group}={' or '.join(names)}" if names else ""


def _nearest_keys(error: OmegaConfBaseException) -> str:
    """Return a hint that names similar keys, or all keys, beside the unknown one."""
    parent = error.parent_node
    if not isinstance(parent, DictConfig):
        return ""
    keys = [str(key) for key in parent]
    # The key itself may stand one level down: kernels is training.kernels.
    near = [f"{key}.{error.key}" for key in keys if _has_key(parent, key, str(error.key))]
    near += difflib.get_close_matches(str(error.key), keys)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    if OmegaConf.get_type(parent) is dict:  # such as the corpora of data.train, without a schema
        return f"; write +{error.full_key}=... to add it to {', '.join(keys)}"
    return f"; one of: {', '.join(sorted(keys))}"


def _has_key(parent: DictConfig, group: str, key: str) -> bool:
    child = parent._get_node(group)
    return isinstance(child, DictConfig) and not child._is_missing() and key in set(child)
