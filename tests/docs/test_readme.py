"""Run the README's commands, with sizes that make them quick."""

import re
import shlex
from pathlib import Path

import pytest
from documents import ROOT, Page, make_workplace, pages, quickened, run_script, run_shell

README = Page("README.md")
COMMANDS = README.commands()
OF_PAGES = {command for page in pages().values() for command in page.commands()}
"""commands that test_pages.py runs"""
TRAININGS = [c for c in COMMANDS if c.startswith("python train.py") and c not in OF_PAGES]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workplace(tmp_path_factory.mktemp("readme"))


@pytest.mark.parametrize("command", TRAININGS)
def test_training_command_runs(workplace: Path, command: str) -> None:
    run_script(workplace, "train.py", quickened(shlex.split(command)[2:]))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python translate.py")])
def test_translating_command_runs(workplace: Path, command: str) -> None:
    run_script(workplace, "translate.py", shlex.split(command)[2:])

    if "output=my/output.en" in command:
        assert (workplace / "my" / "output.en").read_bytes().count(b"\n") == 3
    if "attention_html" in command:
        assert "Zwei" in (workplace / "my" / "attention.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [c for c in COMMANDS if re.search(r"benchmarks/\w+_speed", c)])
def test_measurement_knows_its_options(command: str) -> None:
    """Check the options only: a measurement takes too long to run here."""
    run_script(ROOT, shlex.split(command)[1], ["--help"])


@pytest.mark.parametrize("command", [c for c in COMMANDS if "| python" in c])
def test_pipe_gives_one_line_for_each_line(workplace: Path, command: str) -> None:
    done = run_shell(workplace, command)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("mkdir")])
def test_shell_command_makes_the_file_that_is_translated(tmp_path: Path, command: str) -> None:
    assert run_shell(tmp_path, command).returncode == 0
    assert [path.name for path in (tmp_path / "my").iterdir()] == ["input.de"]


def test_python_example_translates(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    README.run_example(0, workplace)

    assert capsys.readouterr().out.count("\n") == 2


def test_every_command_is_run() -> None:
    known = ("python train.py", "python translate.py", "python benchmarks/", "mkdir")

    forgotten = [c for c in COMMANDS if not c.startswith(known) and "| python" not in c]

    assert forgotten == []
    assert README.num_examples() == 1


def test_every_linked_file_exists() -> None:
    pictures = re.findall(r'src="([^"]+)"', README.text)

    assert README.missing_links() == []
    assert pictures
    assert [picture for picture in pictures if not (ROOT / picture).exists()] == []


def test_readme_is_short() -> None:
    assert README.text.count("\n") <= 120
