"""Follow docs/tutorials/new-attention-type.md in a copy of the project."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, Page, quickened

PAGE = Page("docs/tutorials/new-attention-type.md")
MODULE, IMPORT, OWN_TEST, EXAMPLE = PAGE.blocks("python")
[YAML] = PAGE.blocks("yaml")
TESTS, *TRAININGS = PAGE.commands()
COPIED = (
    "configs",
    "data/german-english.grammar",
    "pyproject.toml",
    "seq2seq",
    "tests/attention",
    *(f"tests/{path.name}" for path in ROOT.glob("tests/*.py")),
    "train.py",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project in which the three steps of the page were done."""
    root = tmp_path_factory.mktemp("project")
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    for path in ("seq2seq/attention/cosine.py", "configs/attention/cosine.yaml"):
        assert f"`{path}`" in PAGE.text
    (root / "seq2seq/attention/cosine.py").write_text(MODULE)
    (root / "configs/attention/cosine.yaml").write_text(YAML)
    (root / "tests/attention/test_cosine.py").write_text(OWN_TEST)
    with (root / "seq2seq/attention/__init__.py").open("a") as file:
        file.write(IMPORT)
    return root


def run(project: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tests_of_attention_run_over_the_new_type(project: Path) -> None:
    python, *arguments = shlex.split(TESTS)

    printed = run(project, *arguments, "-p", "no:xdist", "-p", "no:cacheprovider")

    assert python == "python"
    assert printed.count(".") > 30


@pytest.mark.parametrize("command", TRAININGS)
def test_new_type_is_trained(project: Path, command: str) -> None:
    python, script, *arguments = shlex.split(command)

    run(project, script, *quickened(arguments))

    assert (python, script) == ("python", "train.py")
    assert list(project.glob("checkpoints/**/*-cosine/results.json"))


def test_python_example_runs(project: Path) -> None:
    assert run(project, "-c", EXAMPLE) == "torch.Size([2, 1, 3, 5])\n"
