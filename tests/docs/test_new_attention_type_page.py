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
MODULE, EXAMPLE, IMPORT = PAGE.blocks("python")
*TRAININGS, TRANSLATING, TESTS = PAGE.commands()
PUBLIC, INNER = (
    f"from seq2seq{module} import Attention, AttentionConfig, register_attention"
    for module in ("", ".attention.base")
)
COPIED = (
    "configs",
    "data/german-english.tsv.gz",
    "pyproject.toml",
    "seq2seq",
    "tests/attention",
    *(f"tests/{path.name}" for path in ROOT.glob("tests/*.py")),
    "train.py",
    "translate.py",
)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with the plug-in of the page."""
    root = copy_project(tmp_path_factory.mktemp("outside"))
    assert "`my/cosine.py`" in PAGE.text
    (root / "my").mkdir()
    (root / "my/cosine.py").write_text(MODULE)
    return root


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with the type in the package."""
    root = copy_project(tmp_path_factory.mktemp("inside"))
    assert "`seq2seq/attention/cosine.py`" in PAGE.text
    assert f"`{INNER}`" in PAGE.text
    (root / "seq2seq/attention/cosine.py").write_text(MODULE.replace(PUBLIC, INNER))
    with (root / "seq2seq/attention/__init__.py").open("a") as file:
        file.write(IMPORT)
    return root


def copy_project(root: Path) -> Path:
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    return root


def run(project: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed(outside: Path) -> list[str]:
    """Run the commands and the example of the page in one process, which alone has the plug-in."""
    commands = [shlex.split(command)[1:] for command in (*TRAININGS, TRANSLATING)]
    parts = [[s, *(quickened(rest) if s == "train.py" else rest)] for s, *rest in commands]
    runs = f"""
import runpy, sys
for arguments in {parts!r}:
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
    print("next part")
"""
    return run(outside, "-c", runs + EXAMPLE).split("next part\n")


def test_plugin_is_trained_also_in_a_sweep_and_translates(
    printed: list[str], outside: Path
) -> None:
    assert (outside / "checkpoints/grammar-cosine/results.json").exists()
    assert len(list(outside.glob("checkpoints/cosine/*/results.json"))) == 2
    assert list(outside.glob("checkpoints/cosine/*-cosine/results.json"))
    assert printed[-2].count("\n") == 1


def test_python_example_runs(printed: list[str]) -> None:
    assert printed[-1].startswith("torch.Size([2, 1, 3, 5]) tensor(0.")


def test_tests_of_attention_run_over_a_type_of_the_package(inside: Path) -> None:
    python, *arguments = shlex.split(TESTS)

    printed = run(inside, *arguments, "-p", "no:xdist", "-p", "no:cacheprovider")

    assert python == "python"
    assert printed.count(".") > 30
