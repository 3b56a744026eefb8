import os

import pytest

from seq2seq.cli import errors
from seq2seq.cli.errors import one_line_errors, run_script


def fail_with(error):
    @one_line_errors
    def function():
        raise error

    return function


@pytest.mark.parametrize("error", [ValueError("a\n b"), OSError("a b"), FloatingPointError("a b")])
def test_a_users_error_is_one_line_and_exit_code_2(error, capsys):
    with pytest.raises(SystemExit) as end:
        fail_with(error)()

    assert end.value.code == 2
    assert capsys.readouterr() == ("", "error: a b\n")


def test_a_bug_of_the_program_is_not_caught():
    with pytest.raises(RuntimeError, match="ours"):
        fail_with(RuntimeError("ours"))()


def test_the_traceback_is_shown_first_if_the_environment_asks_for_it(capsys, monkeypatch):
    monkeypatch.setattr(errors, "_SHOWS_TRACEBACKS", True)

    with pytest.raises(SystemExit) as end:
        fail_with(ValueError("a\nb"))()

    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "error: a b")


def test_ctrl_c_is_one_line_and_the_exit_code_of_the_signal(capsys):
    with pytest.raises(SystemExit) as end:
        fail_with(KeyboardInterrupt())()

    assert end.value.code == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("before", [None, "0"])
def test_running_a_script_does_not_change_the_environment(before, monkeypatch):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    if before is not None:
        monkeypatch.setenv("HYDRA_FULL_ERROR", before)
    seen = []

    run_script(lambda: seen.append(os.environ["HYDRA_FULL_ERROR"]))

    assert seen == ["1"]
    assert os.environ.get("HYDRA_FULL_ERROR") == before


def test_a_wrapped_function_keeps_its_name_and_result():
    @one_line_errors
    def double(number):
        return 2 * number

    assert double(3) == 6
    assert double.__name__ == "double"
