import pytest

from seq2seq.runtime.interrupts import interrupts_in_one_line


def test_ctrl_c_is_one_line_and_the_exit_code_of_the_signal(capsys):
    with pytest.raises(SystemExit) as end, interrupts_in_one_line():
        raise KeyboardInterrupt

    assert end.value.code == 130
    assert capsys.readouterr() == ("", "stopped by Ctrl-C\n")


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="ours"), interrupts_in_one_line():
        raise RuntimeError("ours")
