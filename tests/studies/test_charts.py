import json
import math
import statistics

import numpy as np
import pandas as pd
import pytest
import sacrebleu
from colors import contrast
from tiny_study import change_results, read_finished, read_study, write_run, write_study

from seq2seq.studies.charts import (
    COLORS,
    SHAPES,
    attention_charts,
    learning_curves,
    length_chart,
)
from seq2seq.studies.comparison import bleu_by_length
from seq2seq.studies.runs import heads_of
from seq2seq.studies.tables import attention_tables, length_table, moments
from seq2seq.training.run_directory import RunDirectory


def traces_of(figure):
    return json.loads(figure.to_json())["data"]


def lines_of(figure):
    """Return the traces with names, which bands do not have."""
    return [trace for trace in traces_of(figure) if "name" in trace]


def values(array):
    """Return the numbers of a trace, which Plotly may encode."""
    if isinstance(array, dict):
        import base64

        return np.frombuffer(base64.b64decode(array["bdata"]), array["dtype"]).tolist()
    return array


@pytest.fixture
def curves(tmp_path):
    """Return the runs of a group of two, of which one ended early, and of a group of one."""
    sweep = write_study(tmp_path)
    for name, bleu in (("2-*", (4.0, 2.0)), ("3-*", (5.0,)), ("0-*", (1.0, 3.0))):
        [path] = sweep.glob(name)
        validations = [{"update": 10 * n, "bleu": each} for n, each in enumerate(bleu, start=1)]
        change_results(path, validations=validations)
    finished = read_finished(sweep)
    return finished[finished["validations"].map(len) > 0]


def test_lines_are_means_and_bands_reach_to_the_lowest_and_highest_run(curves):
    figure = learning_curves(curves, [])["BLEU, validation"]

    dot, none = lines_of(figure)
    [band] = [trace for trace in traces_of(figure) if "name" not in trace]
    # The line ends where the first run ended.
    assert (values(dot["x"]), values(dot["y"])) == ([10], [4.5])
    assert (band["meta"], values(band["y"])) == (dot["meta"], [5.0, 4.0])
    assert (values(none["x"]), values(none["y"])) == ([10, 20], [1.0, 3.0])


def test_a_study_has_charts_with_a_line_for_each_group_that_has_the_measure(finished):
    charts = learning_curves(finished, notes := [])

    titles = ("BLEU", "chrF", "Loss", "Perplexity", "Loss per character")
    of_attention = ("Entropy", "Coverage", "Sharpness", "Weight of EOS", "Backward steps")
    assert list(charts) == [f"{title}, validation" for title in (*titles, *of_attention)]
    drawn = [[each["meta"] for each in lines_of(chart)] for chart in charts.values()]
    with_attention = list(finished["group"].unique()).index("multihead")
    assert drawn == [[0, 1]] * 5 + [[with_attention]] * 5
    assert notes == []


def test_curves_per_token_of_groups_with_other_tokens_are_marked(finished, monkeypatch):
    read = RunDirectory.read_statistics

    def with_more_tokens(self, split):
        found = read(self, split)
        if (self.path, split) == (finished["path"].iloc[0], "valid"):
            found["loss"] = found["loss"] + [0, 1, 0]  # one more token in each sentence
        return found

    monkeypatch.setattr(RunDirectory, "read_statistics", with_more_tokens)

    charts = learning_curves(finished, notes := [])

    comparable = [title for title in charts if "(not comp" not in title]
    assert comparable == [f"{name}, validation" for name in ("BLEU", "chrF", "Loss per character")]
    assert "loss per character" in notes[0]


def write_history(path, *, errors=(0.9, 0.6, 0.4, 0.1), scale=1.0):
    """Write the validations of a run."""
    scores = [
        {"update": 10 * n, "bleu": scale * bleu, "loss": 1.0, "aer": error}
        for n, (bleu, error) in enumerate(
            zip((1.0, 12.0, 28.0, 30.0), errors, strict=True), start=1
        )
    ]
    change_results(path, validations=scores, valid={"bleu": 30.0, "aer_of_diagonal": 0.5})


@pytest.fixture
def learned(tmp_path):
    sweep = write_study(tmp_path / "sweep")
    for path in sweep.glob("*dot*"):
        write_history(path)
    return sweep


def moments_of(path):
    [table] = moments(read_study(path)).values()
    return table


def test_the_moments_are_the_first_validations_past_fixed_thresholds(learned):
    table = moments_of(learned)

    assert table.loc["dot", "Aligned at update"] == "30"  # 0.4 is below the diagonal
    assert table.loc["dot", "Half BLEU at update"] == "30"  # 28 is the first of at least 30 / 2
    assert table.loc["none", "Aligned at update"] == "-"
    assert "Validation BLEU" in table


def test_a_run_may_align_before_the_first_validation_or_never(learned):
    first, second = sorted(learned.glob("*dot*"))
    write_history(first, errors=(0.49, 0.2, 0.2, 0.1))
    write_history(second, errors=(0.9, 0.8, 0.7, 0.51))

    text = moments_of(learned).loc["dot", "Aligned at update"]

    assert text == "before the first validation to never"
    runs = read_finished(learned).set_index("path")["aligned_at"]
    assert (runs[first], runs[second]) == (0, math.inf)


def test_half_bleu_is_half_of_the_best_run_of_the_study(learned):
    for path in learned.glob("*none*"):
        write_history(path, scale=0.4)

    table = moments_of(learned)

    assert table.loc["none", "Half BLEU at update"] == "never"  # 12 at most, of 30
    assert table.loc["dot", "Half BLEU at update"] == "30"


def test_without_alignment_or_attention_there_are_no_tables(tmp_path):
    study = read_study(write_study(tmp_path / "sweep"))

    assert moments(study) == attention_tables(study) == {}


def test_each_head_of_each_run_has_a_row_and_a_point(trained):
    study = read_study(trained)
    heads = heads_of(study.finished)

    [chart] = attention_charts(study.finished).values()  # without gold links, no AER

    assert chart.layout.yaxis.title.text == "Sharpness"
    [points] = lines_of(chart)
    assert study.groups.index[points["meta"]] == "multihead"
    assert len(values(points["y"])) == 4
    table = list(attention_tables(study).values())[-1]
    assert [head for _, _, head in table.index] == [1, 2, 1, 2]
    assert table["Entropy"].iloc[1] == f"{heads['entropy'].iloc[1]:.3f}"


def test_aer_stands_beside_bleu_for_each_run(tmp_path):
    write_run(tmp_path / "0", "attention=dot", "seed=1", bleu=30.0, aer=0.25)
    write_run(tmp_path / "1", "attention=dot", "seed=2", bleu=31.0, aer=0.125)
    write_run(tmp_path / "2", "attention=none", "seed=1", bleu=10.0)

    [chart] = attention_charts(read_finished(tmp_path)).values()

    [points] = lines_of(chart)
    assert (values(points["x"]), values(points["y"])) == ([0.25, 0.125], [30.0, 31.0])
    assert points["hovertext"] == ["dot, seed 1", "dot, seed 2"]


def test_sources_without_spaces_are_measured_in_characters(tmp_path):
    sources = [
        "\u6211\u5f88\u51b7\u3002",
        "\u5979\u4eca\u5929\u770b\u8d77\u6765\u5f88\u9ad8\u3002",
        "",
    ]
    finished = read_finished(write_study(tmp_path))

    scores = bleu_by_length(finished, sources * 10, notes := [])

    [chart] = length_chart(scores, ["dot", "none"]).values()
    assert chart.layout.xaxis.title.text == "Source characters"
    assert notes == [
        "The sources have hardly any spaces, so source lengths are counted in characters."
    ]


def test_the_bleu_of_the_ranges_has_deviations_and_intervals(tmp_path):
    sources = ["a b", "a b c d", "a b c d"] * 10
    finished = read_finished(write_study(tmp_path))

    scores = bleu_by_length(finished, sources, notes := [])

    assert notes == []
    assert list(scores["group"] + scores["source_length"]) == ["dot2-3", "dot4", "none2-3", "none4"]
    none = scores.iloc[3]
    assert (none["sentences"], none["interval_covers"]) == (20, "seeds and sentences")
    inside = [i for i, source in enumerate(sources) if source == sources[2]]
    runs = finished[finished["group"] == "none"]
    bleu = [
        sacrebleu.corpus_bleu(
            [run["translations"][i] for i in inside], [[run["references"][i] for i in inside]]
        ).score
        for _, run in runs.iterrows()
    ]
    assert none["bleu"] == pytest.approx(statistics.fmean(bleu))
    assert none["bleu_deviation"] == pytest.approx(statistics.stdev(bleu))
    assert none["bleu_low"] < none["bleu"] < none["bleu_high"]
    shown = f"{none['bleu']:.2f} ({none['bleu_low']:.2f} to {none['bleu_high']:.2f})"
    assert length_table(scores).loc["none", "4 (20 sentences)"] == shown
    [chart] = length_chart(scores, ["dot", "none"]).values()
    assert lines_of(chart)[1]["x"] == ["2-3", "4"]


def test_text_of_a_study_is_no_markup_in_charts_and_many_groups_differ(tmp_path):
    labels = [f"<b>{number}" for number in range(110)]
    lengths = pd.DataFrame({"group": labels, "source_length": "1", "unit": "words"})
    lengths = lengths.assign(bleu=1.0, bleu_deviation=0.0)

    [chart] = length_chart(lengths, labels).values()

    traces = lines_of(chart)
    assert traces[0]["name"].startswith("&lt;b&gt;0")
    assert [trace["meta"] for trace in traces] == list(range(110))
    assert len({(each["line"]["color"], each["marker"]["symbol"]) for each in traces}) == 110
    assert len({character for _, character in SHAPES}) == len(SHAPES)


@pytest.mark.parametrize("paper", ["#ffffff", "#14161a"])
@pytest.mark.parametrize("color", COLORS)
def test_colours_have_contrast_on_the_paper_of_each_scheme(color, paper):
    assert contrast(*(bytes.fromhex(each[1:]) for each in (color, paper))) >= 3
