"""The recipes of docs/translating.md, run in their order, with sizes that make training quick."""

import gzip
import os
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from documents import Page, make_workplace, quickened, run_script, run_shell

from seq2seq.cli.config import TranslateConfig
from seq2seq.cli.score_config import ScoreConfig
from seq2seq.search import BeamConfig, GreedyConfig, SamplingConfig

README = Page("README.md")
PAGE = Page("docs/translating.md")
COMMANDS = PAGE.commands()
WRITTEN = ("output", "alignments", "attention_plot", "attention_html")
"""keys of files that a command writes"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workplace(tmp_path_factory.mktemp("recipes"))


def paths_of(workplace: Path, command: str, *keys: str) -> list[Path]:
    """Return what a command's keys name."""
    pairs = (
        argument.split("=", maxsplit=1) for argument in shlex.split(command) if "=" in argument
    )
    values = (value for key, value in pairs if key in keys)
    return [workplace / path for value in values for path in value.strip("[]").split(",")]


def num_lines(paths: list[Path]) -> int:
    """Return how many lines stand in files, packed ones too."""
    contents = (path.read_bytes() for path in paths)
    unpacked = (gzip.decompress(c) if c.startswith(b"\x1f\x8b") else c for c in contents)
    return sum(content.count(b"\n") for content in unpacked)


def is_prompt(command: str) -> bool:
    return re.fullmatch(r"python translate\.py checkpoint=\S+", command) is not None


def run(workplace: Path, command: str) -> None:
    """Run a command of the page: scripts in this process, the rest in a shell."""
    arguments = shlex.split(command)
    is_plain = not re.search(r"[|>*]", command) and arguments[0] == "python"
    if is_plain and arguments[1] == "train.py":
        run_script(workplace, "train.py", quickened(arguments[2:]))
    elif is_plain and arguments[1] == "translate.py":
        run_script(workplace, "translate.py", arguments[2:])
    else:
        done = run_shell(workplace, command)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [c for c in COMMANDS if not is_prompt(c)])
def test_command_runs_and_writes_what_it_names(workplace: Path, command: str) -> None:
    written = paths_of(workplace, command, *WRITTEN)
    for path in written:
        if path.is_file():
            path.unlink()  # of an earlier recipe

    run(workplace, command)

    assert [path for path in written if not path.exists()] == []
    outputs, inputs = (paths_of(workplace, command, key) for key in ("output", "input"))
    if outputs and inputs:
        assert num_lines(outputs) == num_lines(inputs) > 0


@pytest.mark.parametrize("command", [c for c in COMMANDS if is_prompt(c)])
def test_prompt_answers_what_is_typed(workplace: Path, command: str) -> None:
    pty = pytest.importorskip("pty", reason="there are pseudo-terminals on POSIX alone")
    keyboard, terminal = pty.openpty()
    os.write(keyboard, b"Der Hund.\nJa.\n\x04")

    done = run_shell(workplace, command, stdin=terminal)

    os.close(terminal)
    os.close(keyboard)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 2


def test_python_example_prints_hypotheses_and_links(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    PAGE.run_example(0, workplace)

    # Two hypotheses and the links of each of two sentences.
    assert capsys.readouterr().out.count("\n") == 6
    assert PAGE.num_examples() == 1


def test_every_key_has_its_recipe() -> None:
    configs = (TranslateConfig, ScoreConfig, GreedyConfig, BeamConfig, SamplingConfig)
    searches = configs[2:]
    keys = {
        f"decoding.{each.name}=" if config in searches else f"{each.name}="
        for config in configs
        for each in fields(config)
        if each.name != "name"
    }

    assert sorted(key for key in keys if key not in " ".join(COMMANDS)) == []


def test_readme_adds_no_key_without_a_recipe() -> None:
    [table] = re.findall(r"^\| to \| add \|\n(.*?)^$", README.text, re.MULTILINE | re.DOTALL)
    keys = re.findall(r"[`' ]([a-z_.]+=)", table)

    assert len(keys) > 10
    assert [key for key in keys if key not in " ".join(COMMANDS)] == []
