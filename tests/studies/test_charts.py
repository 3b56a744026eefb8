import json
import math
import statistics

import pytest
import sacrebleu
from tiny_study import (
    cells_of,
    change_results,
    read_groups,
    read_study,
    write_run,
    write_study,
)
from tiny_training import read_scalars

from seq2seq.studies.charts import (
    attention_section,
    bleu_by_length,
    curves_section,
    learning_section,
    length_section,
    mean_curve,
    read_curves,
)
from seq2seq.studies.comparison import IN_TERMINAL, group_table
from seq2seq.studies.runs import read_runs
from seq2seq.training.curves import TensorBoard
from seq2seq.training.progress import Progress
from seq2seq.training.run_directory import RunDirectory

TAG = "valid/loss"


def curves(values, minutes):
    updates = range(2, 2 + 2 * len(values), 2)
    return {
        TAG: dict(zip(updates, values, strict=True)),
        "valid/minutes": dict(zip(updates, minutes, strict=True)),
        "valid/target_tokens": {update: 10.0 * update for update in updates},
    }


def lines_of(chart):
    """Return the traces of a chart with names, which bands do not have."""
    traces = json.loads(json.dumps(chart["figure"]["data"]))
    return [each for each in traces if "name" in each]


def test_mean_and_spread_are_those_of_the_runs():
    found = mean_curve(
        [curves([4.0, 2.0], [1.0, 2.0]), curves([5.0, 1.0], [2.0, 4.0])], TAG, group=3, name="dot"
    )

    assert found.group == 3
    assert (found.y, found.low, found.high) == ([4.5, 1.5], [4.0, 1.0], [5.0, 2.0])
    assert found.x == {"Updates": [2.0, 4.0], "Minutes": [1.5, 3.0], "Target tokens": [20.0, 40.0]}


def test_a_line_ends_with_the_first_run_that_ended_and_that_of_one_run_has_no_band():
    runs = [curves([4.0, 2.0], [1, 2]), curves([5.0], [1])]

    several, single = (mean_curve(runs[:number], TAG, group=0, name="dot") for number in (2, 1))

    assert several.x["Updates"] == [2.0]
    assert (single.y, single.low, single.high) == ([4.0, 2.0], (), ())


def test_a_long_line_is_thinned_and_keeps_its_ends():
    values = [float(number) for number in range(1000)]

    found = mean_curve([curves(values, values)], TAG, group=0, name="dot")

    assert len(found.y) == len(set(found.y)) == 400
    assert (found.y[0], found.y[-1]) == (0.0, 999.0)
    assert found.y == sorted(found.y)


def test_the_curves_are_those_of_tensorboard(trained):
    path = trained / "none-1" / "tensorboard"

    found, expected = read_curves(path), read_scalars(path)

    assert len(found) == 15 - 5  # without those of attention
    assert found == {tag: expected[tag] for tag in found}


def test_points_that_a_resumed_run_replaced_are_left_out_without_a_word(tmp_path, caplog):
    for first_update, minutes in ((1, 1.0), (5, 9.0)):
        with TensorBoard(tmp_path, first_update=first_update) as board:
            for update in range(first_update, 7):
                board.position("valid", Progress(update=update, seconds=60 * minutes))

    found = read_curves(tmp_path)["valid/minutes"]

    assert found == {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 9.0, 6: 9.0}
    assert not caplog.records


def test_a_study_has_charts_with_a_line_for_each_group_that_has_the_measure(trained):
    groups = read_groups(trained)
    section = curves_section(groups, notes := [])

    of_attention = ["Entropy", "Coverage", "Sharpness", "</s>", "Backward"]
    titles = ["BLEU", "chrF", "Loss", "Perplexity", "Loss per character", *of_attention]
    assert [chart["title"] for chart in section.charts] == [
        "Training loss",
        *(f"{title}, validation" for title in titles),
    ]
    drawn = [[each["meta"] for each in lines_of(chart)] for chart in section.charts]
    with_attention = [group.label for group in groups].index("multihead")
    assert drawn == [[0, 1]] * 6 + [[with_attention]] * 5
    assert notes == []
    assert lines_of(section.charts[1])[0]["x"] == pytest.approx([6.0, 12.0, 18.0])
    assert section.axes == ["Updates", "Minutes", "Target tokens"]


def test_curves_per_token_of_groups_with_other_tokens_are_marked(trained, monkeypatch):
    groups = read_groups(trained)
    read = RunDirectory.read_statistics

    def with_more_tokens(self, split):
        found = read(self, split)
        if (self.path, split) == (groups[1].runs[0].directory.path, "valid"):
            found["loss"] = found["loss"] + [0, 1, 0]  # one more token in each sentence
        return found

    monkeypatch.setattr(RunDirectory, "read_statistics", with_more_tokens)

    section = curves_section(groups, [])

    comparable = [each["title"] for each in section.charts if "(not comp" not in each["title"]]
    assert comparable == [f"{name}, validation" for name in ("BLEU", "chrF", "Loss per character")]
    assert "loss per character" in section.paragraphs[1]


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


def moments_of(study):
    """Return the cells of each group by the labels of their columns."""
    [table] = learning_section(read_groups(study)).tables
    return cells_of(table)


def test_the_moments_are_the_first_validations_past_fixed_thresholds(learned):
    rows = moments_of(learned)

    assert rows["dot"]["Aligned at update"] == ("30", 30)  # 0.4 is below the diagonal
    assert rows["dot"]["Half BLEU at update"] == ("30", 30)  # 28 is the first of at least 30 / 2
    assert rows["none"]["Aligned at update"] == ("-", None)
    assert "Validation BLEU" in rows["dot"]


def test_a_run_may_align_before_the_first_validation_or_never(learned):
    first, second = sorted(learned.glob("*dot*"))
    write_history(first, errors=(0.49, 0.2, 0.2, 0.1))
    write_history(second, errors=(0.9, 0.8, 0.7, 0.51))

    cell = moments_of(learned)["dot"]["Aligned at update"]

    assert cell == ("before the first validation to never", None)
    runs = {run.directory.path: run.measures["aligned_at"] for run in read_runs([learned])[:2]}
    assert runs == {first: 0, second: math.inf}


def test_half_bleu_is_half_of_the_best_run_of_the_study(learned):
    for path in learned.glob("*none*"):
        write_history(path, scale=0.4)

    rows = moments_of(learned)

    assert rows["none"]["Half BLEU at update"].text == "never"  # 12 at most, of 30
    assert rows["dot"]["Half BLEU at update"].text == "30"


def test_without_alignment_or_attention_the_sections_are_empty(tmp_path):
    groups = read_groups(write_study(tmp_path / "sweep"))

    for section in (learning_section(groups), attention_section(groups, {})):
        assert not (section.paragraphs or section.tables)


def test_each_head_of_each_run_has_a_row_and_a_point(groups):
    section = attention_section(groups, {})

    [chart] = section.charts  # without gold links there is no AER
    assert chart["figure"]["layout"]["yaxis"]["title"]["text"] == "Sharpness"
    [points] = lines_of(chart)
    assert groups[points["meta"]].label == "multihead"
    assert len(points["y"]) == 4
    of_groups, of_heads = section.tables
    assert len(of_groups.rows) == 2
    assert [row[2].text for row in of_heads.rows] == ["1", "2", "1", "2"]
    [run, _] = next(group for group in groups if group.label == "multihead").runs
    assert of_heads.rows[1][4].value == run.heads[1]["entropy"]


def test_aer_stands_beside_bleu_for_each_run(tmp_path):
    write_run(tmp_path / "0", "attention=dot", "seed=1", bleu=30.0, aer=0.25)
    write_run(tmp_path / "1", "attention=dot", "seed=2", bleu=31.0, aer=0.125)
    write_run(tmp_path / "2", "attention=none", "seed=1", bleu=10.0)

    section = attention_section(read_groups(tmp_path), {})

    [chart] = section.charts
    [points] = lines_of(chart)
    assert (points["x"], points["y"]) == ([0.25, 0.125], [30.0, 31.0])
    assert points["text"] == ["dot, seed 1", "dot, seed 2"]


def test_the_aer_of_the_diagonal_stands_beside_the_aer(tmp_path):
    file = write_run(tmp_path / "run", "attention=dot", aer=0.25) / "results.json"
    file.write_text(file.read_text().replace('"aer"', '"aer_of_diagonal": 0.5, "aer"'))

    [cells] = cells_of(group_table(read_study(tmp_path).comparisons, IN_TERMINAL)).values()

    assert list(cells)[list(cells).index("AER") + 1] == "AER of diagonal"
    assert cells["AER of diagonal"].text == "0.500"


def test_sources_without_spaces_are_measured_in_characters(tmp_path):
    sources = [
        "\u6211\u5f88\u51b7\u3002",
        "\u5979\u4eca\u5929\u770b\u8d77\u6765\u5f88\u9ad8\u3002",
        "",
    ]
    for path in write_study(tmp_path).iterdir():
        (path / "test.src").write_text("".join(f"{line}\n" for line in sources * 10))

    groups = read_groups(tmp_path)
    scores = bleu_by_length(groups, [4], notes := [])

    [chart] = length_section(groups, scores).charts
    assert chart["figure"]["layout"]["xaxis"]["title"]["text"] == "Source characters"
    found = [(each.source_length, each.sentences) for each in scores]
    assert found == [("1-4", 10), ("5+", 10)] * 2
    assert notes == [
        "The sources have hardly any spaces, so source lengths are counted in characters."
    ]


def test_the_bleu_of_the_chosen_ranges_has_deviations_and_intervals(tmp_path):
    sources = ["a b", "a b c", "a b c d"] * 10
    for path in write_study(tmp_path).iterdir():
        (path / "test.src").write_text("".join(f"{line}\n" for line in sources))
    groups = read_groups(tmp_path)

    scores = bleu_by_length(groups, [1, 3], notes := [])

    assert notes == []
    found = {(each.group, each.source_length): each for each in scores}
    assert list(found) == [(name, words) for name in ("dot", "none") for words in ("2-3", "4+")]
    none = found["none", "2-3"]
    assert (none.sentences, none.interval_covers) == (20, "seeds and sentences")
    inside = [i for i, source in enumerate(sources) if source != sources[2]]
    bleu = [
        sacrebleu.corpus_bleu(
            [run.translations[i] for i in inside], [[run.references[i] for i in inside]]
        ).score
        for run in groups[1].runs
    ]
    assert none.bleu == pytest.approx(statistics.fmean(bleu))
    assert none.bleu_deviation == pytest.approx(statistics.stdev(bleu))
    assert none.bleu_low < none.bleu < none.bleu_high
    section = length_section(groups, scores)
    [chart], [table] = section.charts, section.tables
    cells = cells_of(table)["none"]
    assert list(cells)[1:] == ["2-3 (20 sentences)", "4+ (10 sentences)"]
    shown = f"{none.bleu:.2f} ({none.bleu_low:.2f} to {none.bleu_high:.2f})"
    assert cells["2-3 (20 sentences)"].text == shown
    assert lines_of(chart)[1]["x"] == ["2-3", "4+"]
