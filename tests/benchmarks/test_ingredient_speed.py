"""The benchmark of ingredients prints its table, with small models."""

import re
import sys

import pytest

from benchmarks import ingredient_speed
from benchmarks.ingredient_speed import INGREDIENTS

SMALL = (
    "data.num_train=200",
    "data.num_valid=5",
    "data.num_test=5",
    "data.vocabulary_size=150",
    "model.encoder.embedding_size=8",
    "model.encoder.hidden_size=4",
    "model.decoder.hidden_size=8",
    "training.batching.size=60",
    "training.threads=1",
)


@pytest.fixture
def print_table(tmp_path, monkeypatch, capsys):
    """Return what runs the benchmark in this process and returns what it prints."""

    def run(*overrides):
        given = ["--intervals", "1", f"data.cache_dir={tmp_path}/cache", *SMALL, *overrides]
        monkeypatch.setattr(sys, "argv", ["ingredient_speed.py", *given])
        ingredient_speed.main()
        return capsys.readouterr().out

    return run


def rows_of(printed: str) -> dict[str, tuple[float, int]]:
    """Return the ratio and the tokens of each row."""
    pattern = r"^\| ([\w, -]+) \| \d+ \| ([\d.]+) \| (\d+) \|$"
    found = re.findall(pattern, printed, re.MULTILINE)
    return {name: (float(ratio), int(tokens)) for name, ratio, tokens in found}


def test_every_ingredient_is_compared_with_the_base_on_the_same_sentences(print_table):
    printed = print_table()

    rows = rows_of(printed)
    assert list(rows) == list(INGREDIENTS)
    assert rows["base"][0] == 1.0
    assert {tokens for name, (_, tokens) in rows.items() if name != "sub-word sampling"} == {
        rows["base"][1]
    }
    assert re.search(r"^sub-word sampling draws .* in \d+\.\d s$", printed, re.MULTILINE)


def test_guided_attention_is_left_out_with_a_line_if_attention_cannot_learn(
    print_table, monkeypatch
):
    names = ("base", "guided attention", "sub-word sampling")
    few = {name: INGREDIENTS[name] for name in names}
    monkeypatch.setattr(ingredient_speed, "INGREDIENTS", few)

    printed = print_table("attention=uniform", "tokenizer=characters")

    assert list(rows_of(printed)) == ["base"]
    assert "\nguided attention is left out: " in printed
