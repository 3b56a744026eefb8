"""Shared by all commands: arguments as Hydra expects them, and errors in one line."""

import argparse
import contextlib
import functools
import gc
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, ParamSpec, TypeVar

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from seq2seq.checks import Config, field_types
from seq2seq.config.composition import (
    USER_ERRORS,
    config_directory,
    describe_error,
    quote_value,
    to_dataclass,
)
from seq2seq.config.plugins import KEY, load_plugins_of
from seq2seq.runtime.process import interrupts_in_one_line, log_to_stderr
from seq2seq.runtime.torchrun import LostProcessError, report_failure

_Config = TypeVar("_Config", bound=Config)
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_SHOWS_TRACEBACKS = os.environ.get("HYDRA_FULL_ERROR") == "1"
_SWEEPS = ("-m", "--multirun", "hydra.mode=MULTIRUN")


class OneLineParser(argparse.ArgumentParser):
    """A parser that raises its errors as ValueError, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; --help shows how the command is called")


def read_arguments(config_type: type[Config] | None = None) -> None:
    """Write the arguments of this process as Hydra expects them.

    Args:
        config_type: Configuration of a command without sweeps; None: of train.py.

    Raises:
        ValueError: An option is unknown, or asks a command without sweeps for one.
    """
    given = sys.argv[1:]
    if config_type is not None and (sweeps := [each for each in given if each in _SWEEPS]):
        # Hydra would create directories for it.
        raise ValueError(
            f"{sweeps[0]}: only train.py sweeps; run this command for each combination"
        )
    sys.argv[1:] = quote_plain_values(options_first(given), config_type)


def quote_plain_values(
    arguments: Sequence[str], config_type: type[Config] | None = None
) -> list[str]:
    """Quote the texts and paths of a configuration, to make Hydra take them literally.

    Without quotes, a comma would start a sweep and an umlaut would be a syntax error. A quoted
    path and `null` stay as they are. A single path for a key of several becomes a list.

    Args:
        arguments: Arguments of a command.
        config_type: Its configuration. None: only plug-ins are quoted, as train.py sweeps over
            values with commas.
    """
    types = {} if config_type is None else field_types(config_type)  # type: ignore[arg-type]
    quoted = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        bases = (list,) if key == KEY else types[key].bases if key in types else ()
        if equals and list in bases:
            argument = f"{key}={_quote_list(value)}"
        elif equals and str in bases and (key == "text" or not _is_hydra_value(value)):
            argument = f"{key}={quote_value(value)}"
        quoted.append(argument)
    return quoted


def _quote_list(value: str) -> str:
    """Quote the paths of [a,b], or make a list of one path; keep a list with quotes."""
    if value in ("null", "???"):
        return value
    if not (value.startswith("[") and value.endswith("]")):
        return f"[{value if value and _is_hydra_value(value) else quote_value(value)}]"
    paths = value[1:-1].strip()
    if not paths or any(quote in paths for quote in "'\""):
        return value
    return f"[{','.join(quote_value(path.strip()) for path in paths.split(','))}]"


def _is_hydra_value(value: str) -> bool:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return is_quoted or value in ("", "null", "???")


def options_first(arguments: Sequence[str]) -> list[str]:
    """Put Hydra's options before the keys; its parser refuses keys on both sides of an option.

    Raises:
        ValueError: An option is unknown, such as a key with dashes.

    Example:
        >>> options_first(["seed=1,2", "-m", "attention=dot"])
        ['-m', 'seed=1,2', 'attention=dot']
        >>> options_first(["--checkpoint", "best.pt"])
        Traceback (most recent call last):
        ValueError: unknown option --checkpoint; write checkpoint=best.pt (--help shows the keys)
    """
    parser = OneLineParser(parents=[get_args_parser()], add_help=False)
    parsed, unknown = parser.parse_known_intermixed_args(arguments)
    # argparse takes an option with a space for a key.
    unknown += [each for each in parsed.overrides if each.startswith("-")]
    if unknown:
        option, equals, value = unknown[0].partition("=")
        following = [*arguments, ""][arguments.index(unknown[0]) + 1]
        if not equals:
            value = "..." if not following or following.startswith("-") else following
        way_out = shlex.quote(f"{option.lstrip('-').replace('-', '_')}={value}")
        raise ValueError(f"unknown option {option}; write {way_out} (--help shows the keys)")
    return sorted(arguments, key=lambda each: each in parsed.overrides)


def run_script(main: Callable[[], None]) -> None:
    """Run a Hydra command and print any user's error in one line.

    This includes errors that occur while Hydra composes the configuration.
    """
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors instead of printing them
    try:
        one_line_errors(main)()
    finally:
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before
        # The process ends soon, and collecting garbage among all of torch's objects would take
        # longer than translating a sentence.
        gc.freeze()


def run_command(
    name: str,
    config_type: type[_Config],
    function: Callable[[_Config], None],
    *,
    register: Callable[[], None] | None = None,
) -> None:
    """Compose the configuration of a command without sweeps, and call its function.

    Args:
        name: Of the YAML file.
        config_type: The configuration, which the function gets.
        function: Does the work.
        register: Registers the dataclasses that the YAML file refers to, besides this one.
    """

    @hydra.main(version_base="1.3", config_path=str(config_directory()), config_name=name)
    @one_line_errors
    def composed(config: DictConfig) -> None:
        function(to_dataclass(config, config_type))

    def read_and_compose() -> None:
        read_arguments(config_type)
        load_plugins_of(sys.argv[1:])
        if register is not None:
            register()
        ConfigStore.instance().store(name=f"{name}_schema", node=config_type)
        composed()

    log_to_stderr()
    run_script(read_and_compose)


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the process with one line on stderr and exit code 2 on a user's error.

    With HYDRA_FULL_ERROR=1 in the environment, the traceback is shown before.
    """
    try:
        yield
    except (*USER_ERRORS, LostProcessError) as error:
        if _SHOWS_TRACEBACKS:
            traceback.print_exc()
        is_consequence = isinstance(error, LostProcessError)
        report_failure(describe_error(error), is_consequence=is_consequence)
        sys.exit(2)


def one_line_errors(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Decorate a command to end as in `errors_in_one_line`, and with one line at a signal.

    Below `hydra.main` the decorator prevents the line that Hydra would print. Launchers pickle the
    decorated function, which they could not with context managers as decorators.
    """

    @functools.wraps(function)
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with errors_in_one_line(), interrupts_in_one_line():
            return function(*args, **kwargs)

    return wrapped
