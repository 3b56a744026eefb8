import pytest
from tiny_training import read_scalars

from seq2seq.cli.studies.curves import learning_curves, mean_curve, read_curves
from seq2seq.cli.studies.runs import group_runs, read_runs
from seq2seq.training.monitoring.tensorboard import TensorBoard
from seq2seq.training.progress import Progress

TAG = "valid/loss"


def curves(values, minutes):
    updates = range(2, 2 + 2 * len(values), 2)
    return {
        TAG: dict(zip(updates, values, strict=True)),
        "valid/minutes": dict(zip(updates, minutes, strict=True)),
        "valid/target_tokens": {update: 10.0 * update for update in updates},
    }


def test_mean_and_spread_are_those_of_the_runs():
    found = mean_curve(
        [curves([4.0, 2.0], [1.0, 2.0]), curves([5.0, 1.0], [2.0, 4.0])], TAG, group=3
    )

    assert found.group == 3
    assert (found.y, found.low, found.high) == ([4.5, 1.5], [4.0, 1.0], [5.0, 2.0])
    assert found.x == {"updates": [2.0, 4.0], "minutes": [1.5, 3.0], "tokens": [20.0, 40.0]}


def test_a_line_ends_with_the_first_run_that_ended():
    found = mean_curve([curves([4.0, 2.0], [1, 2]), curves([5.0], [1])], TAG, group=0)

    assert found.x["updates"] == [2.0]


def test_a_single_run_has_no_band():
    found = mean_curve([curves([4.0, 2.0], [1, 2])], TAG, group=0)

    assert (found.y, found.low, found.high) == ([4.0, 2.0], (), ())


def test_a_long_line_is_thinned_and_keeps_its_ends():
    values = [float(number) for number in range(1000)]

    found = mean_curve([curves(values, values)], TAG, group=0)

    assert len(found.y) == len(set(found.y)) == 400
    assert (found.y[0], found.y[-1]) == (0.0, 999.0)
    assert found.y == sorted(found.y)


def test_the_curves_are_those_of_tensorboard(trained):
    path = trained / "none-1" / "tensorboard"

    found, expected = read_curves(path), read_scalars(path)

    assert len(found) == 7
    assert found == {tag: expected[tag] for tag in found}


def test_points_that_a_resumed_run_replaced_are_left_out(tmp_path):
    for first_update, minutes in ((1, 1.0), (5, 9.0)):
        with TensorBoard(tmp_path, first_update=first_update) as board:
            for update in range(first_update, 7):
                board.position("valid", Progress(update=update, seconds=60 * minutes))

    found = read_curves(tmp_path)["valid/minutes"]

    assert found == {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 9.0, 6: 9.0}


def test_a_study_has_three_charts_with_a_line_for_each_group(trained):
    section, notes = learning_curves(group_runs(read_runs([trained])))

    assert [chart.title for chart in section.charts] == [
        "Validation BLEU",
        "Validation loss",
        "Training loss",
    ]
    assert all([each.group for each in chart.series] == [0, 1] for chart in section.charts)
    assert notes == []
    assert section.charts[1].series[0].x["updates"] == pytest.approx([6.0, 12.0, 18.0])
