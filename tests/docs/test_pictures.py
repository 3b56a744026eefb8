"""Test what docs/pictures.py draws, and the pictures of the pages."""

import re
from pathlib import Path
from types import ModuleType

import pytest
import torch
from documents import QUICK, QUICK_GRAMMAR, ROOT, Page, load_script, pages
from PIL import Image

from seq2seq import build_model, load_config
from seq2seq.model.recurrence import DECODERS

INTRODUCTION = Page("docs/explanation/introduction.md")
PICTURES = sorted((ROOT / "docs").glob("*.png"))


@pytest.fixture
def script() -> ModuleType:
    return load_script("pictures")


@pytest.mark.parametrize("form", DECODERS)
def test_parts_of_a_form_are_drawn_in_the_order_of_their_computation(
    script: ModuleType, form: str
) -> None:
    model = build_model(
        load_config(f"model={form}"), source_vocabulary_size=7, target_vocabulary_size=5
    ).eval()
    recurrence = model.decoder.recurrence
    modules = {
        "GRU" if form != "conditional" else "GRU 1": recurrence.bottom_cell,
        "GRU 2": getattr(recurrence, "context_cell", None),
        "attention": recurrence.attention.query_projection,
        "readout": model.decoder.readout.projection,
    }
    called: list[str] = []
    for name, module in modules.items():
        if module is not None:
            module.register_forward_hook(lambda *_, name=name: called.append(name))
    source_ids, source_mask = torch.tensor([[4, 5, 3]]), torch.ones(1, 3, dtype=torch.bool)
    memory, state = model.encode(source_ids, source_mask)

    model.decoder.step(state, torch.tensor([2]), memory)

    assert called == [part.name for part in script.FORMS[form]]
    assert len(script.FORMS) == len(DECODERS)


def test_differences_are_those_of_the_results(script: ModuleType) -> None:
    rows = re.findall(
        r"^\| (\w+) \| [\d.]+ ± [\d.]+ \| ([+-][\d.]+), ",
        Page("docs/results.md").text,
        re.MULTILINE,
    )

    drawn = [(each.name, f"{each.mean:+.2f}") for each in script.read_differences()]

    assert len(drawn) == len(script.TYPES) - 1
    assert drawn == rows


def test_weights_of_the_diagram_are_those_of_the_example(script: ModuleType) -> None:
    [shown] = re.findall(r"tensor\((\[0\..*\])\)", INTRODUCTION.text)
    axes = script.draw_model().axes[0]

    texts = [text.get_text() for text in axes.texts]
    bars = [patch.get_height() for patch in axes.patches if patch.get_y() == script.BASE]
    percents = [float(text.rstrip("%")) / 100 for text in texts if text.endswith("%")]
    weights = [float(number) for number in shown.strip("[]").split(", ")]
    assert percents == pytest.approx(weights, abs=0.005)
    assert bars == pytest.approx([script.BAR * weight for weight in percents])


@pytest.mark.slow
def test_command_trains_and_draws_every_picture(
    tmp_path: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = [each for each in (*QUICK, *QUICK_GRAMMAR) if "max_updates" not in each]
    values = {
        "SETTINGS": list(dict.fromkeys([*script.SETTINGS, *quick])),
        "BUNDLED": [
            *(each for each in quick if "num_samples" not in each),
            "training.validation.num_samples=2",
            "training.validation.every_updates=1",
        ],
        "STEPS": [re.sub("=100$", "=1", each) for each in script.STEPS],
        "TYPES": ("additive", "multihead", "none"),
        "LEARNED": (1, 2, 3),
        "COLUMNS": 3,
    }
    for name, value in values.items():
        monkeypatch.setattr(script, name, value)
    monkeypatch.chdir(tmp_path)

    script.main(["--output", "."])

    made = {path.name for path in tmp_path.glob("*.png")}
    assert len(made) == 8
    assert made <= {path.name for path in PICTURES}


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_pictures_are_small_and_shown(path: Path) -> None:
    with Image.open(path) as picture:
        width, _ = picture.size

    texts = [Page("README.md").text, *(page.text for page in pages().values())]
    assert width <= 1400
    assert path.stat().st_size < 200_000
    assert any(path.name in text for text in texts)
