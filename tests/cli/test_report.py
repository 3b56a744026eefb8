import pytest
from tiny_study import read_rows, write_run, write_study

from seq2seq.cli.report import main


def test_the_tables_of_a_sweep_are_written_again(run, tmp_path, caplog):
    write_study(tmp_path)

    _, out, err = run(main, f"sweeps={tmp_path}", "baseline=none", "attributions=true")

    assert "baseline" in out
    assert caplog.text.count("no attributions: ") == 4  # these runs have no model
    names = ("leaderboard.csv", "groups.csv", "differences.csv", "lengths.csv", "report.html")
    assert err == "".join(f"\n{tmp_path}/{name}" for name in names) + "\n"
    assert all((tmp_path / name).stat().st_size for name in names)
    assert len(read_rows(tmp_path / "leaderboard.csv")) == 4
    assert [row["baseline"] for row in read_rows(tmp_path / "groups.csv")] == ["none", ""]


def test_tables_for_a_paper_are_written(run, tmp_path):
    write_study(tmp_path)

    _, _, err = run(main, f"sweeps={tmp_path}", "baseline=none", "format=latex")

    assert err.splitlines()[-1] == str(tmp_path / "tables.tex")
    text = (tmp_path / "tables.tex").read_text(encoding="utf-8")
    assert "31.00 \xb1 1.41 & +99.45 & +99.45 to +99.45" in text


def test_several_sweeps_are_compared_in_a_new_place_and_patterns_match_directories_only(
    run, tmp_path
):
    write_study(tmp_path / "first")
    write_run(tmp_path / "second" / "0-grammar-gaussian", "attention=gaussian", "seed=1")
    (tmp_path / "second.md").write_text("x")

    run(main, f"sweeps=[{tmp_path}/first,{tmp_path}/sec*]", f"output={tmp_path / 'all'}")

    rows = read_rows(tmp_path / "all" / "leaderboard.csv")
    assert len(rows) == 5
    assert "second/0-grammar-gaussian" in [row["run"] for row in rows]
    assert {row["attention"] for row in rows} == {"none", "dot", "gaussian"}
    assert not (tmp_path / "first" / "groups.csv").exists()


def test_a_single_run_needs_a_place_for_the_files(refusal, tmp_path):
    path = write_run(tmp_path / "run")
    before = sorted(path.iterdir())

    line = refusal(main, f"sweeps={path}")

    assert line == f"sweeps={path}: not a single sweep; add output=DIRECTORY"
    assert sorted(path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["sweeps=[a,b]"], "sweeps=a, b: not a single sweep; add output=DIRECTORY"),
        (["sweeps=absent"], "absent: no such file or directory"),
        (["sweeps=study", "baseline=odd"], "baseline=odd is not a group"),
        (["sweeps=study", "format=word"], "format='word' must be one of: latex, markdown, or null"),
        # It is refused before anything is read.
        (
            ["sweeps=absent", "interventions=[uniform,unifrom]"],
            "unknown intervention 'unifrom'; one of: uniform, permuted, ",
        ),
    ],
)
def test_a_mistake_is_one_line(refusal, tmp_path, arguments, line):
    write_study(tmp_path / "study")

    assert refusal(main, *arguments).startswith(line)
