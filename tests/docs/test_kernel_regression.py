"""Test the estimates of docs/kernel_regression.py, its command and the figures of its page."""

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from documents import ROOT, Page, load_script
from numpy.typing import NDArray

SCRIPT = ROOT / "docs" / "kernel_regression.py"
PAGE = Page("docs/tutorials/kernel-regression.md")
ERROR = re.compile(r"^.+: error \d\.\d{3}$", flags=re.MULTILINE)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return load_script("kernel_regression")


def nadaraya_watson(
    queries: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    width: float,
    *,
    leave_one_out: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return estimates and weights by the formula."""
    kernel = np.exp(-((width * (queries[:, None] - x)) ** 2) / 2)
    if leave_one_out:
        np.fill_diagonal(kernel, 0.0)
    weights = kernel / kernel.sum(axis=1, keepdims=True)
    return weights @ y, weights


def leave_one_out_error(x: NDArray[np.float64], y: NDArray[np.float64], width: float) -> float:
    estimates, _ = nadaraya_watson(x, x, y, width, leave_one_out=True)
    return float(np.mean((estimates - y) ** 2))


@pytest.mark.parametrize(
    ("kind", "width"), [("average", 0.0), ("fixed", 1.0), ("learned", 1.0), ("learned", 3.7)]
)
def test_estimates_are_those_of_the_formula(example: ModuleType, kind: str, width: float) -> None:
    x, y = example.make_points()
    queries = torch.linspace(0, 5, 7, dtype=torch.float64)
    average = kind == "average"
    attention = example.make_average() if average else example.make_gaussian(kind == "learned")
    if kind == "learned":
        attention.inverse_width.data.fill_(width)

    estimate = example.regress(attention, queries, x, y)

    expected_y, expected_weights = nadaraya_watson(queries.numpy(), x.numpy(), y.numpy(), width)
    np.testing.assert_allclose(estimate.y.detach().numpy(), expected_y, atol=1e-12)
    np.testing.assert_allclose(estimate.weights.detach().numpy(), expected_weights, atol=1e-12)


def test_learned_width_is_the_best_for_points_left_out(example: ModuleType) -> None:
    x, y = example.make_points()
    attention = example.make_gaussian(is_learned=True)

    before, after = example.fit_width(attention, x, y)

    def error(width: float) -> float:
        return leave_one_out_error(x.numpy(), y.numpy(), width)

    learned = attention.inverse_width.item()
    assert before == pytest.approx(error(1.0))
    assert after == pytest.approx(error(learned))
    assert after < before
    assert after < min(error(0.97 * learned), error(1.03 * learned))


def test_each_estimate_is_drawn_above_its_weights(example: ModuleType) -> None:
    x, y = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([3.0, 1.0, 2.0])
    queries = torch.tensor([0.0, 5.0])
    weights = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.4, 0.6]])
    estimates = {
        "first": example.Estimate(weights @ y, weights),
        "second": example.Estimate(weights @ y + 1, weights.flip(1)),
    }

    *panels, color_bar = example.draw(estimates, queries, x, y).axes

    assert [axes.get_title() for axes in panels[:2]] == ["first", "second"]
    for above, below, estimate in zip(panels[:2], panels[2:], estimates.values(), strict=True):
        np.testing.assert_allclose(above.lines[-1].get_ydata(), estimate.y.numpy())
        shown = below.collections[0].get_array()
        np.testing.assert_allclose(shown, estimate.weights.numpy())
    assert color_bar.get_ylabel() == "weight"


def test_command_writes_the_picture_and_prints_what_the_page_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--output", str(tmp_path / "picture.png")])

    runpy.run_path(str(SCRIPT), run_name="__main__")

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
    attention = example.make_gaussian(is_learned=True)

    example.fit_width(attention, *example.make_points())

    assert f"{attention.inverse_width.item():.2f}" == width


def test_code_in_the_page_is_that_of_the_script() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    excerpts = PAGE.blocks("python")

    assert excerpts
    assert [excerpt for excerpt in excerpts if excerpt not in script] == []
