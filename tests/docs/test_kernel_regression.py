"""Test the estimates of docs/kernel_regression.py, its command and the figures of its page."""

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from documents import ROOT, Page, load_script, run_script
from numpy.typing import NDArray

SCRIPT = ROOT / "docs" / "kernel_regression.py"
PAGE = Page("docs/tutorials/kernel-regression.md")
ERROR = re.compile(r"^.+: error \d\.\d{3}$", flags=re.MULTILINE)


@pytest.fixture
def example() -> ModuleType:
    return load_script("kernel_regression")


def leave_one_out_error(x: NDArray[np.float64], y: NDArray[np.float64], width: float) -> float:
    kernel = np.exp(-((width * (x[:, None] - x)) ** 2) / 2)
    np.fill_diagonal(kernel, 0.0)
    return float(np.mean((kernel @ y / kernel.sum(axis=1) - y) ** 2))


def test_learned_width_is_the_best_for_points_left_out(example: ModuleType) -> None:
    x, y = example.make_points()
    attention = example.make_gaussian()

    before, after = example.fit_width(attention, x, y)

    def error(width: float) -> float:
        return leave_one_out_error(x.numpy(), y.numpy(), width)

    learned = attention.inverse_width.item()
    assert before == pytest.approx(error(1.0))
    assert after == pytest.approx(error(learned))
    assert after < before
    assert after < min(error(0.97 * learned), error(1.03 * learned))


def test_command_writes_the_picture_and_prints_what_the_page_quotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_script(ROOT, str(SCRIPT), ["--output", str(tmp_path / "picture.png")])

    printed = capsys.readouterr().out
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert len(ERROR.findall(printed)) == 3
    assert PAGE.commands() == ["python docs/kernel_regression.py"]
    assert PAGE.blocks("") == [printed]


def test_page_names_the_reach_of_the_kernel_that_it_quotes() -> None:
    (width,) = re.findall(r"learned w = (\S+):", PAGE.text)
    (reach,) = re.findall(r"\$1/w = (\S+)\$", PAGE.text)

    assert f"{1 / float(width):.2f}" == reach


def test_width_that_the_page_names_for_other_noise_is_learned(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = r"`NOISE` at (\S+) .*?, \$w\$ = (\S+),"
    ((noise, width),) = re.findall(pattern, PAGE.text, re.DOTALL)
    monkeypatch.setattr(example, "NOISE", float(noise))
    attention = example.make_gaussian()

    example.fit_width(attention, *example.make_points())

    assert f"{attention.inverse_width.item():.2f}" == width


def test_code_in_the_page_is_that_of_the_script() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    excerpts = PAGE.blocks("python")

    assert excerpts
    assert [excerpt for excerpt in excerpts if excerpt not in script] == []
