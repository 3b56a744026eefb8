"""The README's commands, run as they stand but for sizes that make them quick."""

import re
import shlex
from pathlib import Path

import pytest
from documents import ROOT, Page, make_workplace, quickened, run_script, run_shell

README = Page("README.md")
COMMANDS = README.commands()


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workplace(tmp_path_factory.mktemp("readme"))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python train.py")])
def test_training_command_runs(workplace: Path, command: str) -> None:
    run_script(workplace, "train.py", quickened(shlex.split(command)[2:]))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python translate.py")])
def test_translating_command_runs(workplace: Path, command: str) -> None:
    run_script(workplace, "translate.py", shlex.split(command)[2:])

    if "output=my/output.en" in command:
        assert (workplace / "my" / "output.en").read_bytes().count(b"\n") == 3
    if "attention_html" in command:
        assert "Zwei" in (workplace / "my" / "attention.html").read_text(encoding="utf-8")
    if "attention_plot" in command:
        assert len(list((workplace / "my" / "pictures").glob("*.png"))) == 2
        assert (workplace / "my" / "links.txt").read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("command", [c for c in COMMANDS if "benchmarks/compare" in c])
def test_comparison_lists_what_it_would_train(command: str) -> None:
    done = run_shell(ROOT, f"{command} --list")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("train.py") >= 6


@pytest.mark.parametrize("command", [c for c in COMMANDS if re.search(r"benchmarks/\w+_speed", c)])
def test_measurement_knows_its_options(command: str) -> None:
    """It takes too long to run; its keys are those of training and translating."""
    arguments = shlex.split(command)

    kind = [a for a in arguments[2:3] if a.isalpha()]  # of measurement, each with its options
    done = run_shell(ROOT, shlex.join([*arguments[:2], *kind, "--help"]))

    assert done.returncode == 0, done.stderr
    assert [a for a in arguments if a.startswith("--") and f"{a} " not in done.stdout] == []


@pytest.mark.parametrize("command", [c for c in COMMANDS if "| python" in c])
def test_pipe_gives_one_line_for_each_line(workplace: Path, command: str) -> None:
    done = run_shell(workplace, command)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("torchrun")])
def test_processes_train_together(workplace: Path, command: str) -> None:
    arguments = shlex.split(command)

    done = run_shell(workplace, shlex.join([*arguments[:3], *quickened(arguments[3:])]))

    assert done.returncode == 0, done.stderr
    assert (workplace / "checkpoints" / "two-processes" / "results.json").exists()


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("tensorboard")])
def test_tensorboard_finds_the_runs(workplace: Path, command: str) -> None:
    done = run_shell(workplace, f"{command} --inspect")

    assert done.returncode == 0, done.stderr
    assert "valid/bleu" in done.stdout


def test_python_example_translates(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    README.run_example(0, workplace)

    assert capsys.readouterr().out.count("\n") == 2


def test_python_example_attends(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    README.run_example(1, workplace)

    sizes = [
        [int(n) for n in re.findall(r"\d+", part)]
        for part in capsys.readouterr().out.split("S")[1:]
    ]
    assert sizes == [[2, 3, 40], [2, 1, 3, 7]]


def test_every_command_is_run() -> None:
    scripts = ("train.py", "translate.py", "benchmarks/")
    known = (*(f"python {script}" for script in scripts), "torchrun", "tensorboard")

    forgotten = [c for c in COMMANDS if not c.startswith(known) and "| python" not in c]

    assert forgotten == []
    assert README.num_examples() == 2


@pytest.mark.parametrize(
    "path", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
)
def test_every_linked_file_exists(path: str) -> None:
    assert Page(path).missing_links() == []
