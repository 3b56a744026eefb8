"""The README's commands, run as they stand but for sizes that make them quick."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

QUICK = [
    "data.cache_dir=cache",
    "data.max_length=200",
    "training.max_updates=2",
    "training.threads=1",
    "training.validation.batch_size=4",
    "training.validation.num_samples=1",
    "training.batching.size=64",
    "model.encoder.embedding_size=8",
    "model.encoder.hidden_size=4",
    "model.decoder.embedding_size=8",
    "model.decoder.hidden_size=8",
    "model.decoder.readout_size=8",
    "decoding.max_length_ratio=0",
]
QUICK_GRAMMAR = ["data.num_train=40", "data.num_valid=4", "data.num_test=4"]
QUICK_ATTENTION = {
    "additive": ["attention.size=8"],
    "gaussian": ["attention.size=8"],
    "multihead": ["attention.size=8"],
}


def commands() -> list[str]:
    """Return the lines of the README's shell blocks, in their order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def quickened(arguments: list[str]) -> list[str]:
    """Add overrides that make a training small, without touching what the command shows."""
    if "data=multi30k" in arguments or "experiment=multi30k" in arguments:
        # What is left out is the download and the training; of a sweep, all jobs but the first.
        first = [argument.split(",")[0] for argument in arguments if argument != "-m"]
        return [*first, "--cfg", "job"]
    extra = QUICK + ([] if "data=files" in arguments else QUICK_GRAMMAR)
    chosen = next(
        (a.partition("=")[2] for a in arguments if a.startswith("attention=")), "additive"
    )
    extra += QUICK_ATTENTION.get(chosen, [])
    given = {argument.partition("=")[0] for argument in arguments}
    return arguments + [override for override in extra if override.partition("=")[0] not in given]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project as a user has it, with text of their own and a trained run."""
    path = tmp_path_factory.mktemp("readme")
    for name in ("configs", "seq2seq", "train.py", "translate.py"):
        (path / name).symlink_to(ROOT / name)
    (path / "data").mkdir()
    (path / "data" / "german-english.grammar").symlink_to(ROOT / "data" / "german-english.grammar")
    mine = path / "my"
    mine.mkdir()
    german, english = ["Der Hund läuft.", "Zwei Männer."], ["The dog runs.", "Two men."]
    for split in ("train", "valid", "test"):
        (mine / f"{split}.de").write_text("\n".join(german) + "\n", encoding="utf-8")
        (mine / f"{split}.en").write_text("\n".join(english) + "\n", encoding="utf-8")
        rows = "".join(f"{a}\t{b}\n" for a, b in zip(german, english, strict=True))
        (mine / f"{split}.tsv").write_text(rows, encoding="utf-8")
    for split in ("train", "test"):
        (mine / f"{split}.align").write_text("1-1 2-2\n1-1\n", encoding="ascii")
    (mine / "input.de").write_text("Der Hund läuft.\n\nZwei Männer.\n", encoding="utf-8")
    run_script(path, "train.py", quickened([]))
    return path


def run_script(workplace: Path, script: str, arguments: list[str]) -> None:
    """Run a script in this process, which has imported torch already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workplace)
        patch.setattr(sys, "argv", [script, *arguments])
        patch.syspath_prepend(str(workplace))
        try:
            runpy.run_path(str(workplace / script), run_name="__main__")
        except SystemExit as end:
            assert not end.code, f"{script} {shlex.join(arguments)} ended with {end.code}"


def run_shell(workplace: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=workplace,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("python train.py")])
def test_training_command_runs(workplace: Path, command: str) -> None:
    run_script(workplace, "train.py", quickened(shlex.split(command)[2:]))


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("python translate.py")])
def test_translating_command_runs(workplace: Path, command: str) -> None:
    run_script(workplace, "translate.py", shlex.split(command)[2:])

    if "output=my/output.en" in command:
        assert (workplace / "my" / "output.en").read_bytes().count(b"\n") == 3
    if "attention_html" in command:
        assert "Zwei" in (workplace / "my" / "attention.html").read_text(encoding="utf-8")
    if "attention_plot" in command:
        assert len(list((workplace / "my" / "pictures").glob("*.png"))) == 2
        assert (workplace / "my" / "links.txt").read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("command", [c for c in commands() if "benchmarks/compare" in c])
def test_comparison_lists_what_it_would_train(workplace: Path, command: str) -> None:
    done = run_shell(ROOT, f"{command} --list")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("train.py") >= 6


@pytest.mark.parametrize("command", [c for c in commands() if "| python" in c])
def test_pipe_gives_one_line_for_each_line(workplace: Path, command: str) -> None:
    done = run_shell(workplace, command)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("torchrun")])
def test_processes_train_together(workplace: Path, command: str) -> None:
    arguments = shlex.split(command)

    done = run_shell(workplace, shlex.join([*arguments[:3], *quickened(arguments[3:])]))

    assert done.returncode == 0, done.stderr
    assert (workplace / "checkpoints" / "two-processes" / "results.json").exists()


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("tensorboard")])
def test_tensorboard_finds_the_runs(workplace: Path, command: str) -> None:
    done = run_shell(workplace, f"{command} --inspect")

    assert done.returncode == 0, done.stderr
    assert "valid/bleu" in done.stdout


def run_example(number: int, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    monkeypatch.chdir(workplace)
    exec(compile(examples[number], "README.md", "exec"), {})


def test_python_example_translates(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example(0, workplace, monkeypatch)

    assert capsys.readouterr().out.count("\n") == 2


def test_python_example_attends(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example(1, workplace, monkeypatch)

    sizes = [
        [int(n) for n in re.findall(r"\d+", part)]
        for part in capsys.readouterr().out.split("S")[1:]
    ]
    assert sizes == [[2, 3, 40], [2, 1, 3, 7]]


def test_every_command_is_run() -> None:
    scripts = ("train.py", "translate.py", "benchmarks/compare.py")
    known = (*(f"python {script}" for script in scripts), "torchrun", "tensorboard")

    forgotten = [c for c in commands() if not c.startswith(known) and "| python" not in c]

    assert forgotten == []


def test_every_linked_file_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)

    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]

    assert missing == []
