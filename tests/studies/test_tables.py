import math

import pytest
from tiny_study import write_study

from seq2seq.studies.runs import Spread, group_runs, read_runs
from seq2seq.studies.tables import known_measures, number_cell, spread


@pytest.mark.parametrize(
    ("mean", "deviation", "form", "expected"),
    [
        (None, None, ".2f", ("-", None)),
        (1234.5678, None, ".0f", ("1,235", 1234.5678)),
        (1.25, 0.5, ".2f", ("1.25 \xb1 0.50", 1.25)),
        (math.inf, None, ".0f", ("never", None)),
    ],
)
def test_a_cell_shows_mean_and_deviation(mean, deviation, form, expected):
    assert number_cell(Spread(mean, deviation), form) == expected


def test_parameters_have_no_deviation_and_unknown_measures_are_left_out(tmp_path):
    groups = group_runs(read_runs([write_study(tmp_path)]))

    assert spread(groups[0], "parameters").text == "1,234"
    assert known_measures(groups, ["aer", "bleu"]) == ["bleu"]
