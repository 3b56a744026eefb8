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
MODULE, EXAMPLE, OWN_TEST = PAGE.blocks("python")
[IMPORT] = PAGE.indented_blocks("python")
[YAML] = PAGE.indented_blocks("yaml")
*TRAININGS, TRANSLATING, TESTS = PAGE.commands()
PUBLIC, INNER = (
    f"from seq2seq.attention{module} import Attention, AttentionConfig, register_attention"
    for module in ("", ".base")
)
COPIED = (
    "configs",
    "data/german-english.grammar",
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
    for path in ("seq2seq/attention/cosine.py", "configs/attention/cosine.yaml"):
        assert f"`{path}`" in PAGE.text
    assert f"`{INNER}`" in PAGE.text
    (root / "seq2seq/attention/cosine.py").write_text(MODULE.replace(PUBLIC, INNER))
    (root / "configs/attention/cosine.yaml").write_text(YAML)
    (root / "tests/attention/test_cosine.py").write_text(OWN_TEST)
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
    done = start(project, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def trained(outside: Path) -> Path:
    """Run the first training of the page."""
    train(outside, TRAININGS[0])
    return outside


def train(project: Path, command: str) -> None:
    python, script, *arguments = shlex.split(command)
    assert (python, script) == ("python", "train.py")
    run(project, script, *quickened(arguments))


def test_plugin_is_trained(trained: Path) -> None:
    assert (trained / "checkpoints/grammar-cosine/results.json").exists()
    assert not (trained / "configs/attention/cosine.yaml").exists()


@pytest.mark.parametrize("command", TRAININGS[1:])
def test_plugin_is_trained_in_a_sweep(outside: Path, command: str) -> None:
    train(outside, command)

    assert len(list(outside.glob("checkpoints/cosine/*/results.json"))) == 2
    assert list(outside.glob("checkpoints/cosine/*-cosine/results.json"))


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_plugin_is_trained_in_the_processes_of_a_launcher(outside: Path, launcher: str) -> None:
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    sweep = f"checkpoints/{launcher}"
    one = TRAININGS[-1].replace("attention=additive,cosine", "attention=cosine")
    train(outside, f"{one} hydra/launcher={launcher} hydra.sweep.dir={sweep}")

    assert len(list(outside.glob(f"{sweep}/*-cosine/results.json"))) == 1


def test_checkpoint_is_translated_with_the_plugin(trained: Path) -> None:
    _, script, *arguments = shlex.split(TRANSLATING)

    assert run(trained, script, *arguments).count("\n") == 1


def test_checkpoint_names_its_plugin_and_does_not_load_it(trained: Path) -> None:
    _, script, *arguments = shlex.split(TRANSLATING)
    without = [each for each in arguments if not each.startswith("plugins=")]

    done = start(trained, script, *without)

    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown attention 'cosine'" in done.stderr
    assert "plugins=[my/cosine.py]" in done.stderr
    assert done.stderr.count("\n") == 1


def test_python_example_runs(outside: Path) -> None:
    assert run(outside, "-c", EXAMPLE).startswith("torch.Size([2, 1, 3, 5]) tensor(0.")


def test_tests_of_attention_run_over_a_type_of_the_package(inside: Path) -> None:
    python, *arguments = shlex.split(TESTS)

    printed = run(inside, *arguments, "-p", "no:xdist", "-p", "no:cacheprovider")

    assert python == "python"
    assert printed.count(".") > 30
