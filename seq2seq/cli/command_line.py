"""The parts of every command: `key=value` arguments without quotes, and errors in one line."""

import contextlib
import csv
import gc
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import yaml  # type: ignore[import-untyped]
from hydra.core.config_store import ConfigStore

from seq2seq.checks import Config, FieldType, as_yaml, field_types
from seq2seq.config.composition import (
    USER_ERRORS,
    config_directory,
    describe_error,
    load_as,
    quote_value,
    register_parts,
)
from seq2seq.config.plugins import KEY, load_plugins_of
from seq2seq.runtime.process import (
    TOO_LARGE,
    LostProcessError,
    interrupts_in_one_line,
    is_too_large,
    log_to_stderr,
    report_failure,
)
from seq2seq.search.config import CONFIG_TYPES

_Config = TypeVar("_Config", bound=Config)

_SHOWS_TRACEBACKS = os.environ.get("HYDRA_FULL_ERROR") == "1"


def run_command(name: str, config_type: type[_Config], function: Callable[[_Config], None]) -> None:
    """Call the function of a command with the configuration that the arguments describe.

    Args:
        name: Name of the YAML file.
        config_type: Type of the configuration that the function gets.
        function: Function that does the work of the command.
    """
    log_to_stderr()
    # Collecting garbage among all objects of torch would take longer than translating a sentence.
    gc.disable()
    with errors_in_one_line(), interrupts_in_one_line():
        if {"-h", "--help"} & {*sys.argv[1:]}:
            print(_help(name), end="")
        else:
            config = load_command(name, config_type, sys.argv[1:])
            gc.enable()
            function(config)
    gc.freeze()  # the process ends soon


def load_command(name: str, config_type: type[_Config], arguments: Sequence[str]) -> _Config:
    """Return the configuration of a command: its YAML file, changed by `key=value` arguments.

    A text is taken literally, so it needs no quotes beyond the shell's. A list is [a,b]; single
    quotes protect a comma in a path. `null` leaves an optional key without a value, unless the key
    accepts any text.

    Args:
        name: Name of the YAML file.
        config_type: The configuration.
        arguments: Arguments of the command.

    Raises:
        ValueError: A key or a choice is unknown, or a value is missing, has the wrong type or is
            out of its range.
    """
    types = field_types(config_type)  # type: ignore[arg-type]  # a class has a hash
    overrides = [_with_quotes(argument, types) for argument in arguments]
    if KEY in types:
        load_plugins_of(overrides)
    ConfigStore.instance().store(name=f"{name}_schema", node=config_type)
    register_parts("decoding", _searches())
    return load_as(config_type, f"commands/{name}", overrides)


def _searches() -> Mapping[str, type]:
    """Return the searches to choose from; a plug-in has loaded the registry if it adds one."""
    registry = sys.modules.get("seq2seq.search.searches")
    return CONFIG_TYPES if registry is None else registry.decoding_config_types()


def _with_quotes(argument: str, types: Mapping[str, FieldType]) -> str:
    """Put quotes around a text, and around each text of a list, so that Hydra does not read it."""
    key, equals, text = argument.partition("=")
    field_type = types.get(key)
    if not equals or field_type is None:
        return argument
    if text == "null" and field_type.is_optional and field_type.rules:
        return argument
    if str in field_type.bases:
        return f"{key}={quote_value(text)}"
    if list in field_type.bases:
        return f"{key}=[{','.join(map(quote_value, _items(text)))}]"
    return argument


def _items(text: str) -> list[str]:
    """Return the items of [a,b] or ['a,b',c]; any other text is a single item."""
    if not (text.startswith("[") and text.endswith("]")):
        return [text]
    rows = csv.reader(text[1:-1].splitlines(), quotechar="'", skipinitialspace=True)
    return [item.strip() for row in rows for item in row]


def _help(name: str) -> str:
    text = (config_directory() / "commands" / f"{name}.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    text = values.pop("hydra")["help"]["template"]
    parts = [each for each in values.pop("defaults") if isinstance(each, dict)]
    values |= {group.lstrip("/"): part for each in parts for group, part in each.items()}
    pairs = [f"{key}={as_yaml(value)}" for key, value in values.items()]
    keys = textwrap.fill(" ".join(pairs), 78, break_long_words=False, break_on_hyphens=False)
    return f"{text}\nAll keys with their values:\n\n{textwrap.indent(keys, '  ')}\n"


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
