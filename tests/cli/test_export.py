import subprocess
import sys


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "seq2seq.cli.export", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_misspelt_key_is_one_line(tmp_path):
    done = run("checkpoint=missing", f"outptu={tmp_path / 'a'}")

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "outptu" in done.stderr


def test_missing_checkpoint_is_one_line(tmp_path):
    done = run(f"checkpoint={tmp_path / 'no'}", f"output={tmp_path / 'a'}")

    assert done.returncode == 2
    assert done.stderr.startswith("error: checkpoint=")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
