import json

from tiny_study import write_run, write_study

from seq2seq.cli.studies.comparison import compare_with_baseline
from seq2seq.cli.studies.results import results
from seq2seq.cli.studies.runs import group_runs, read_runs


def section_of(path, baseline=None):
    runs = read_runs([path])
    groups = group_runs(runs)
    comparisons = compare_with_baseline(groups, baseline)
    return results(runs, groups, comparisons), comparisons


def test_the_summary_says_which_group_is_best_and_what_is_significant(tmp_path):
    section, _ = section_of(write_study(tmp_path))

    first, best, significance, cost = section.paragraphs
    assert first == "4 runs in 2 groups, which differ in attention."
    assert best.startswith("Best on the validation set: dot, with 31.00 \xb1 1.41 BLEU")
    assert "compared with dot; a difference is significant if p < 0.05" in significance
    assert "the 95% intervals are not corrected" in significance
    assert "Worse: none" in significance
    assert cost.startswith("Cost: dot has 1,234 parameters and trained in 1.5 \xb1 0.0 minutes")


def set_result(path, key, value):
    content = json.loads((path / "results.json").read_text())
    (path / "results.json").write_text(json.dumps({**content, key: value}))


def test_the_cost_of_the_best_group_stands_beside_the_quickest_and_the_slowest(tmp_path):
    for name, minutes, bleu in (("dot", 2, 30.0), ("none", 1, 20.0), ("local", 4, 10.0)):
        write_run(tmp_path / name, f"attention={name}", bleu=bleu)
        set_result(tmp_path / name, "seconds", 60 * minutes)

    section, _ = section_of(tmp_path)

    assert section.paragraphs[-1] == (
        "Cost: dot has 1,234 parameters and trained in 2.0 minutes; the quickest group, none, in "
        "1.0; the slowest group, local, in 4.0."
    )


def test_a_warning_says_that_equal_work_took_different_times(tmp_path):
    write_study(tmp_path)
    steady, _ = section_of(tmp_path)
    set_result(tmp_path / "0-grammar-none-seed-1", "target_tokens_per_second", 1000.0)
    set_result(tmp_path / "1-grammar-none-seed-2", "target_tokens_per_second", 500.0)

    unsteady, _ = section_of(tmp_path)

    assert not any("uncertain" in text for text in steady.paragraphs)
    assert "one run of none was 2.0 times as fast as another" in unsteady.paragraphs[-1]


def test_the_table_has_the_means_and_the_comparison(tmp_path):
    section, comparisons = section_of(write_study(tmp_path))

    table = section.tables[0]
    labels = [column.label for column in table.columns]
    dot, none = (dict(zip(labels, row, strict=True)) for row in table.rows)
    assert (dot["attention"].text, dot["BLEU"].value) == ("dot", 31.0)
    assert dot["Difference"].text == "baseline"
    assert none["Difference"].value == comparisons[1].result.effect
    assert none["p (Holm)"].value == comparisons[1].holm
    assert none["Parameters"].text == "1,234"
    assert none["BLEU"].text == "10.00 \xb1 0.71"


def test_every_run_has_a_row(tmp_path):
    section, _ = section_of(write_study(tmp_path))

    names = [row[0].text for row in section.tables[1].rows]
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())


def test_runs_without_a_swept_key_are_one_group(tmp_path):
    write_run(tmp_path / "only")

    section, _ = section_of(tmp_path)

    assert section.paragraphs[0] == "1 run in 1 group."
    assert [row[0].text for row in section.tables[0].rows] == ["only"]
