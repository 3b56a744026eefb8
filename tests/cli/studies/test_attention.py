from tiny_study import write_run

from seq2seq.cli.studies.attention import attention
from seq2seq.cli.studies.runs import group_runs, read_runs


def test_each_head_of_each_run_has_a_row_and_a_point(groups):
    section = attention(groups)

    [chart] = section.charts  # without gold links there is no AER
    assert chart.y_label == "Sharpness"
    [series] = chart.series
    assert groups[series.group].label == "multihead"
    assert len(series.y) == 4
    of_groups, of_heads = section.tables
    assert len(of_groups.rows) == 2
    assert [row[2].text for row in of_heads.rows] == ["1", "2", "1", "2"]
    [run, _] = next(group for group in groups if group.label == "multihead").runs
    assert of_heads.rows[1][3].value == run.results.heads[1]["entropy"]


def test_aer_stands_beside_bleu_for_each_run(tmp_path):
    write_run(tmp_path / "0", "attention=dot", "seed=1", bleu=30.0, aer=0.25)
    write_run(tmp_path / "1", "attention=dot", "seed=2", bleu=31.0, aer=0.125)
    write_run(tmp_path / "2", "attention=none", "seed=1", bleu=10.0)

    section = attention(group_runs(read_runs([tmp_path])))

    [chart] = section.charts
    [series] = chart.series
    assert (series.x["aer"], series.y) == ([0.25, 0.125], [30.0, 31.0])
    assert series.hints == ["dot, seed 1", "dot, seed 2"]


def test_without_attention_the_section_is_empty(tmp_path):
    write_run(tmp_path / "0", "attention=none")

    section = attention(group_runs(read_runs([tmp_path])))

    assert not section.paragraphs and not section.tables
