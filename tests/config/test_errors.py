"""A user's error is one line on stderr; a fault of the program keeps its traceback."""

import os

import pytest

from seq2seq.cli.errors import one_line_errors, run_script
from seq2seq.config.errors import describe_error


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


def test_a_fault_of_the_program_is_not_caught():
    with pytest.raises(RuntimeError, match="ours"):
        fail_with(RuntimeError("ours"))()


def test_ctrl_c_is_one_line_and_the_exit_code_of_the_signal(capsys):
    with pytest.raises(SystemExit) as end:
        fail_with(KeyboardInterrupt())()

    assert end.value.code == 130
    assert capsys.readouterr().err.count("\n") == 1


def test_an_error_without_words_is_named_by_its_type():
    assert describe_error(ValueError()) == "ValueError"


def test_an_error_of_the_system_names_its_file_without_a_number(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(NotADirectoryError) as refused:
        (tmp_path / "file" / "run").mkdir()

    assert describe_error(refused.value) == f"{tmp_path}/file/run: not a directory"


@pytest.mark.parametrize("before", [None, "0"])
def test_running_a_script_leaves_the_environment_as_it_was(before, monkeypatch):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    if before is not None:
        monkeypatch.setenv("HYDRA_FULL_ERROR", before)
    seen = []

    run_script(lambda: seen.append(os.environ["HYDRA_FULL_ERROR"]))

    assert seen == ["1"]
    assert os.environ.get("HYDRA_FULL_ERROR") == before
