"""The parts of every command: `key=value` arguments without quotes, and errors in one line."""

import contextlib
import csv
import difflib
import gc
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import yaml  # type: ignore[import-untyped]

from seq2seq.checks import Config, FieldType, as_yaml, field_types
from seq2seq.config.composition import (
    USER_ERRORS,
    config_directory,
    describe_error,
)
from seq2seq.config.plugins import KEY, load_plugins
from seq2seq.export.folder import is_exported
from seq2seq.runtime.process import (
    TOO_LARGE,
    LostProcessError,
    interrupts_in_one_line,
    is_too_large,
    log_to_stderr,
    report_failure,
)
from seq2seq.search.config import CONFIG_TYPES, DecodingConfig

_Config = TypeVar("_Config", bound=Config)

_SHOWS_TRACEBACKS = os.environ.get("HYDRA_FULL_ERROR") == "1"
_TRUTH = {"true": True, "false": False}


def run_command(name: str, config_type: type[_Config], function: Callable[[_Config], None]) -> None:
    """Call the function of a command with the configuration that the arguments describe.

    Args:
        name: Name of the YAML file.
        config_type: Type of the configuration that the function gets.
        function: Function that does the work of the command.
    """
    log_to_stderr()
    with errors_in_one_line(), interrupts_in_one_line():
        if {"-h", "--help"} & {*sys.argv[1:]}:
            print(_help(name), end="")
        else:
            function(load_command(name, config_type, sys.argv[1:]))
    # The process ends soon, and collecting garbage among all objects of torch would take longer
    # than translating a sentence.
    gc.freeze()


def load_command(name: str, config_type: type[_Config], arguments: Sequence[str]) -> _Config:
    """Return the configuration of a command: its YAML file, changed by `key=value` arguments.

    A value is taken literally, so it needs no quotes beyond the shell's. A list is [a,b];
    single quotes protect a comma in a path. `null` leaves an optional key without a value, unless
    the key accepts any text.

    Args:
        name: Name of the YAML file.
        config_type: The configuration.
        arguments: Arguments of the command.

    Raises:
        ValueError: A key or a choice is unknown, or a value is missing, has the wrong type or is
            out of its range.
    """
    given = dict(map(_key_and_text, arguments))
    values = _defaults(name)
    del values["help"]
    types = dict(field_types(config_type))  # type: ignore[arg-type]  # a class has a hash
    if KEY in given and KEY in types:
        load_plugins(_read_list(given[KEY]))
    choices: Mapping[str, type[Config]] = {}
    if "decoding" in types:
        choices = searches_of(_read_list(given.get("checkpoint", "")))
        chosen = given.get("decoding", str(values["decoding"]))
        if chosen not in choices:
            raise ValueError(f"unknown decoding {chosen!r}; one of: {', '.join(sorted(choices))}")
        of_search = field_types(choices[chosen])  # type: ignore[arg-type]
        types |= {f"decoding.{field}": field_type for field, field_type in of_search.items()}
    for key, text in given.items():
        if key not in types:
            raise ValueError(f"unknown key {key!r}{_hint(key, types, choices)}")
        values[key] = _read(text, types[key])
    for key, value in values.items():
        if value == "???" and key not in given:
            raise ValueError(f"{key} needs a value; give {key}=...")
    if choices:
        options = {
            key.removeprefix("decoding."): values.pop(key)
            for key in given
            if key.startswith("decoding.")
        }
        try:
            values["decoding"] = choices[chosen](**options)
        except TypeError as error:  # a plug-in's search may have an option without a default
            raise ValueError(f"decoding={chosen}: {error}") from error
    return config_type(**values)


def searches_of(checkpoints: Sequence[str]) -> Mapping[str, type[DecodingConfig]]:
    """Return the searches for some checkpoints; exported folders lack the searches of plug-ins."""
    if checkpoints and all(map(is_exported, checkpoints)):
        return CONFIG_TYPES
    try:
        from seq2seq.search.registry import decoding_config_types
    except ModuleNotFoundError as error:
        raise ValueError(
            f"this checkpoint needs {error.name}; without it, only a folder that seq2seq-export "
            "wrote translates"
        ) from error
    return decoding_config_types()


def _key_and_text(argument: str) -> tuple[str, str]:
    key, equals, text = argument.partition("=")
    if not equals or key.startswith("-"):
        raise ValueError(f"{argument!r} is not key=value; --help shows the keys")
    return key, text


def _defaults(name: str) -> dict[str, object]:
    """Return the values of a command's keys, and its help text under `help`."""
    text = (config_directory() / "commands" / f"{name}.yaml").read_text(encoding="utf-8")
    content: dict[str, object] = yaml.safe_load(text)
    return content


def _help(name: str) -> str:
    values = _defaults(name)
    text = values.pop("help")
    pairs = [f"{key}={as_yaml(value)}" for key, value in values.items()]
    keys = textwrap.fill(" ".join(pairs), 78, break_long_words=False, break_on_hyphens=False)
    return f"{text}\nAll keys with their values:\n\n{textwrap.indent(keys, '  ')}\n"


def _read(text: str, field_type: FieldType) -> object:
    """Convert a text to the type of its field if possible; the field checks the result later."""
    bases = field_type.bases
    if str in bases and not field_type.rules:
        return text
    if text == "null" and field_type.is_optional:
        return None
    if list in bases:
        return _read_list(text)
    for base, read in ((bool, _TRUTH.__getitem__), (int, int), (float, float)):
        if base in bases:
            with contextlib.suppress(KeyError, ValueError):
                return read(text)
    return text


def _read_list(text: str) -> list[str]:
    """Return the items of [a,b] or ['a,b',c]; any other text is a single item."""
    if not (text.startswith("[") and text.endswith("]")):
        return [text]
    rows = csv.reader(text[1:-1].splitlines(), quotechar="'", skipinitialspace=True)
    return [item.strip() for row in rows for item in row]


def _hint(key: str, types: Mapping[str, FieldType], choices: Mapping[str, type[Config]]) -> str:
    """Return a hint about the key that was probably meant."""
    field = key.removeprefix("decoding.")
    having = [name for name, each in choices.items() if field in each.__dataclass_fields__]
    if having and key != field:
        return f"; it belongs to decoding={' or '.join(having)}"
    near = [f"decoding.{key}"] if having else difflib.get_close_matches(key, types)
    return f"; did you mean {' or '.join(near)}?" if near else "; --help shows the keys"


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the process with one line on stderr and exit code 2 on a user's error.

    With HYDRA_FULL_ERROR=1 in the environment, the traceback is shown first.
    """
    try:
        yield
    except Exception as error:
        is_short = is_too_large(error)
        if not is_short and not isinstance(error, (*USER_ERRORS, LostProcessError)):
            raise
        if _SHOWS_TRACEBACKS:
            traceback.print_exc()
        is_consequence = isinstance(error, LostProcessError)
        report_failure(
            TOO_LARGE if is_short else describe_error(error), is_consequence=is_consequence
        )
        sys.exit(2)
