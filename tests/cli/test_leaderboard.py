import csv
import json

from seq2seq.cli.leaderboard import format_leaderboard, record_failure, write_leaderboard


def write_results(path, *, bleu, aer=None):
    path.mkdir()
    test = {"bleu": bleu, "chrf": 50.5, "ter": 30.25}
    if aer is not None:
        test["aer"] = aer
    results = {
        "test": test,
        "parameters": 1234,
        "seconds": 90.0,
        "target_tokens_per_second": 567.8,
    }
    (path / "results.json").write_text(json.dumps(results))


def sweep(path):
    write_results(path / "0-none", bleu=9.5)
    write_results(path / "1-dot", bleu=30.25, aer=0.125)
    record_failure(path / "2-odd", "attention.num_heads=3 must divide attention.size=256")
    (path / "3-killed").mkdir()
    write_results(path / "4-additive", bleu=101.0 - 1.0)
    (path / "multirun.yaml").write_text("x: 1\n")
    return path


def test_runs_are_sorted_by_bleu_and_failed_ones_come_last(tmp_path):
    rows = write_leaderboard(sweep(tmp_path))

    assert [row.run for row in rows] == ["4-additive", "1-dot", "0-none", "2-odd", "3-killed"]
    assert [row.bleu for row in rows] == [100.0, 30.25, 9.5, None, None]
    assert rows[3].failure == "attention.num_heads=3 must divide attention.size=256"
    assert rows[4].failure == "it has no results.json"


def test_a_failure_does_not_remove_existing_results(tmp_path):
    write_results(tmp_path / "0-none", bleu=9.5)
    record_failure(tmp_path / "0-none", "the directory holds a run already")

    (row,) = write_leaderboard(tmp_path)

    assert (row.bleu, row.failure) == (9.5, None)


def test_the_file_has_a_line_for_each_run(tmp_path):
    write_leaderboard(sweep(tmp_path))

    with (tmp_path / "leaderboard.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == ["4-additive", "1-dot", "0-none", "2-odd", "3-killed"]
    assert rows[1] == {
        "run": "1-dot",
        "bleu": "30.25",
        "chrf": "50.50",
        "ter": "30.25",
        "aer": "0.125",
        "parameters": "1234",
        "minutes": "1.5",
        "tokens_per_second": "568",
        "failure": "",
    }
    assert rows[3]["bleu"] == ""
    assert rows[3]["failure"].startswith("attention.num_heads=3")


def test_the_chart_is_a_picture(tmp_path):
    write_leaderboard(sweep(tmp_path))

    assert (tmp_path / "leaderboard.png").read_bytes().startswith(b"\x89PNG")


def test_a_sweep_whose_runs_all_failed_has_no_chart(tmp_path):
    record_failure(tmp_path / "0-none", "no such file")

    rows = write_leaderboard(tmp_path)

    assert [row.bleu for row in rows] == [None]
    assert not (tmp_path / "leaderboard.png").exists()


def test_a_score_of_zero_is_a_score(tmp_path):
    write_results(tmp_path / "0-none", bleu=0.0)
    record_failure(tmp_path / "1-dot", "no such file")

    rows = write_leaderboard(tmp_path)

    assert [(row.run, row.bleu) for row in rows] == [("0-none", 0.0), ("1-dot", None)]


def test_the_table_has_aligned_columns_and_names_failures_below(tmp_path):
    table = format_leaderboard(write_leaderboard(sweep(tmp_path))).splitlines()

    assert table[0].split() == [
        "run",
        "bleu",
        "chrf",
        "ter",
        "aer",
        "parameters",
        "minutes",
        "tokens_per_second",
    ]
    assert table[1].split()[:2] == ["4-additive", "100.00"]
    assert len({len(line) for line in table[:4]}) == 1
    assert table[4:] == [
        "2-odd failed: attention.num_heads=3 must divide attention.size=256",
        "3-killed failed: it has no results.json",
    ]
