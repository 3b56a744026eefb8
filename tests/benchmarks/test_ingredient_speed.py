"""The benchmark of ingredients prints its table, with small models."""

import re
import subprocess
import sys
from pathlib import Path

from benchmarks.ingredient_speed import INGREDIENTS

ROOT = Path(__file__).parents[2]
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


def print_table(folder: Path, *overrides: str) -> str:
    script = str(ROOT / "benchmarks" / "ingredient_speed.py")
    command = [sys.executable, script, "--intervals", "2", f"data.cache_dir={folder}/cache"]
    done = subprocess.run(
        [*command, *SMALL, *overrides], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(printed: str) -> dict[str, tuple[float, int]]:
    """Return the ratio and the tokens of each row."""
    pattern = r"^\| ([\w, -]+) \| \d+ \| ([\d.]+) \| (\d+) \|$"
    found = re.findall(pattern, printed, re.MULTILINE)
    return {name: (float(ratio), int(tokens)) for name, ratio, tokens in found}


def test_every_ingredient_is_compared_with_the_base_on_the_same_sentences(tmp_path):
    printed = print_table(tmp_path)

    rows = rows_of(printed)
    assert list(rows) == list(INGREDIENTS)
    assert rows["base"][0] == 1.0
    assert {tokens for name, (_, tokens) in rows.items() if name != "sub-word sampling"} == {
        rows["base"][1]
    }
    assert re.search(r"^sub-word sampling draws .* in \d+\.\d s$", printed, re.MULTILINE)


def test_guided_attention_is_left_out_with_a_line_if_attention_cannot_learn(tmp_path):
    printed = print_table(tmp_path, "attention=uniform", "tokenizer=characters")

    rows = rows_of(printed)
    assert "base" in rows
    assert {"guided attention", "sub-word sampling"}.isdisjoint(rows)
    assert "\nguided attention is left out: " in printed
