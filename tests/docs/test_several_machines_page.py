"""Translate the parts of docs/how-to/several-machines.md and translating.md, two of them."""

import os
from pathlib import Path

import pytest
from documents import ROOT, Page, run_shell
from tiny_translator import SENTENCES, write_checkpoint

from seq2seq import BeamConfig, Translator

PAGE = Page("docs/how-to/several-machines.md")
SPLIT, SLURM, JOIN = PAGE.blocks("bash")
[PARTS] = Page("docs/how-to/translating.md").blocks("bash")
RUN = "checkpoints/grammar-additive"
LINES = SENTENCES * 3


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a model, in which this test and its processes work."""
    (tmp_path / "my").mkdir()
    (tmp_path / "checkpoints").mkdir()
    write_checkpoint(tmp_path / RUN)
    (tmp_path / "translate.py").symlink_to(ROOT / "translate.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    return tmp_path


def run(workplace: Path, command: str) -> None:
    done = run_shell(workplace, command)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_slurm_array_translates_parts_that_join_to_the_whole(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("my/large.de").write_text("".join(f"{line}\n" for line in LINES))
    Path("my/translate.sbatch").write_text(SLURM)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    run(workplace, SPLIT.replace("100000", "12"))
    for task in ("0", "1"):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        run(workplace, "bash my/translate.sbatch")

    run(workplace, JOIN)

    expected = Translator.load(RUN, device="cpu")(LINES, BeamConfig(beam_size=5))
    assert Path("my/large.en").read_text() == "".join(f"{each.text}\n" for each in expected)


@pytest.mark.slow
def test_processes_translate_the_missing_parts(workplace: Path) -> None:
    Path("my/input.de").write_text("".join(f"{line}\n" for line in LINES))
    Path("my/en.ab").write_text("made before\n")

    run(workplace, PARTS.replace("1000", "12"))

    expected = Translator.load(RUN, device="cpu")(LINES, BeamConfig(beam_size=5))
    first = [each.text for each in expected[: len(LINES) // 2]]
    assert Path("my/large.en").read_text().splitlines() == [*first, "made before"]


@pytest.mark.parametrize("script", PAGE.blocks("python"))
def test_script_of_ray_is_python(script: str) -> None:
    """Ray is not installed with the tests."""
    compile(script, PAGE.name, "exec")
