"""Report a user's error in one line on stderr."""

import contextlib
import functools
import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from seq2seq.config.errors import USER_ERRORS, describe_error
from seq2seq.runtime.interrupts import interrupts_in_one_line
from seq2seq.runtime.torchrun import LostProcessError, Report, name_cause, report_failure

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_SHOWS_TRACEBACKS = os.environ.get("HYDRA_FULL_ERROR") == "1"


def describe_failure(error: Exception) -> Report:
    """Describe an error in one line, and tell the other processes that torchrun started."""
    is_consequence = isinstance(error, LostProcessError)
    return report_failure(describe_error(error), is_consequence=is_consequence)


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
        report = describe_failure(error)
        if report.is_own:
            print(f"error: {report.text}", file=sys.stderr)
            name_cause(report.text)
        sys.exit(2)


def one_line_errors(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Decorate a command to end as in `errors_in_one_line`, and with one line at a signal.

    Below `hydra.main` the decorator prevents the line that Hydra would print.
    """

    @functools.wraps(function)
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with errors_in_one_line(), interrupts_in_one_line():
            return function(*args, **kwargs)

    return wrapped
