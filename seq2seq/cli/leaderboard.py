"""Compare the runs of a sweep: a table, leaderboard.csv and a bar chart."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tabulate import tabulate

from seq2seq.visualization.plots import bar_chart

FAILURE = "failed.txt"
RESULTS = "results.json"
_COLUMNS = ("run", "bleu", "chrf", "ter", "aer", "parameters", "minutes", "tokens_per_second")


@dataclass(kw_only=True, slots=True)
class LeaderboardRow:
    """One run of a sweep; a run without a score has failed."""

    run: str
    bleu: float | None
    values: dict[str, str]
    failure: str | None


def record_failure(path: Path, reason: str) -> None:
    """Write the reason into the run's directory, where the leaderboard finds it."""
    if (path / RESULTS).exists():
        return  # the results of an earlier sweep are kept
    path.mkdir(parents=True, exist_ok=True)
    (path / FAILURE).write_text(f"{reason}\n", encoding="utf-8")


def write_leaderboard(sweep: Path) -> list[LeaderboardRow]:
    """Compare the runs in a sweep's directory and write leaderboard.csv and leaderboard.png.

    Returns:
        A row for each run, sorted by BLEU, failed runs last.
    """
    rows = [_row(path) for path in sorted(sweep.iterdir()) if path.is_dir()]
    rows.sort(key=lambda row: -1.0 if row.bleu is None else row.bleu, reverse=True)
    with (sweep / "leaderboard.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*_COLUMNS, "failure"])
        for row in rows:
            values = [row.values.get(column, "") for column in _COLUMNS[1:]]
            writer.writerow([row.run, *values, row.failure or ""])
    scored = [row for row in rows if row.bleu is not None]
    if scored:
        bleu = [row.bleu or 0.0 for row in scored]
        figure = bar_chart([row.run for row in scored], bleu, title="Test set", unit="BLEU")
        figure.savefig(sweep / "leaderboard.png")
    return rows


def format_leaderboard(rows: list[LeaderboardRow]) -> str:
    """Format the rows as a table for a terminal."""
    cells = [
        [row.run, *(row.values.get(column, "-") for column in _COLUMNS[1:])]
        for row in rows
        if row.failure is None
    ]
    alignment = ["left", *["right"] * (len(_COLUMNS) - 1)]
    table = tabulate(
        cells, headers=_COLUMNS, tablefmt="plain", disable_numparse=True, colalign=alignment
    )
    lines = [f"{row.run} failed: {row.failure}" for row in rows if row.failure is not None]
    return "\n".join([table, *lines])


def _row(path: Path) -> LeaderboardRow:
    results_path = path / RESULTS
    if (path / FAILURE).exists() or not results_path.exists():
        reason = f"it has no {RESULTS}"
        if (path / FAILURE).exists():
            reason = (path / FAILURE).read_text(encoding="utf-8").strip()
        return LeaderboardRow(run=path.name, bleu=None, values={}, failure=reason)
    results = json.loads(results_path.read_text(encoding="utf-8"))
    test = cast(dict[str, float], results["test"])
    values = {name: f"{test[name]:.2f}" for name in ("bleu", "chrf", "ter")}
    if "aer" in test:
        values["aer"] = f"{test['aer']:.3f}"
    values["parameters"] = str(results["parameters"])
    values["minutes"] = f"{results['seconds'] / 60:.1f}"
    values["tokens_per_second"] = f"{results['target_tokens_per_second']:.0f}"
    return LeaderboardRow(run=path.name, bleu=test["bleu"], values=values, failure=None)
