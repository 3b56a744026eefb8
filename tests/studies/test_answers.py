"""The answers of a report are those of the tests that they summarize."""

import pytest
from tiny_study import read_study, write_study

from seq2seq.studies.answers import answers_section
from seq2seq.studies.measures import COMPARED, compare_measures

UNIFORM = {
    "group": "none",
    "intervention": "uniform",
    "bleu_lost": 12.0,
    "bleu_lost_low": 9.0,
    "bleu_lost_high": 15.0,
    "bleu_lost_p": 0.01,
    "p_covers": "seeds and sentences",
}


@pytest.fixture
def comparisons(tmp_path):
    return read_study(write_study(tmp_path)).comparisons


def answers(comparisons, losses=()):
    table = answers_section(comparisons, losses).tables[0]
    labels = [column.label for column in table.columns]
    return {row[0].text: dict(zip(labels[1:], row[1:], strict=True)) for row in table.rows}


def test_a_group_with_another_bleu_and_other_attention_says_so(comparisons):
    [none] = [each for each in comparisons if each.baseline]
    none.columns |= {"agreement_between": 0.4, "agreement_within": 0.1, "agreement_p": 0.02}

    found = answers(comparisons, [UNIFORM])["none"]

    low, high = none.result.interval
    difference = f"{none.result.effect:+.2f} ({low:+.2f} to {high:+.2f})"
    assert found["Different BLEU?"].text == f"yes: {difference}"
    assert found["Different attention?"].text == "yes (p 0.020): 0.400, own seeds 0.100"
    assert found["Do its weights matter?"].text == "yes: 12.00 (9.00 to 15.00)"
    assert found["Valid for"].text == "seeds and sentences"


def test_what_is_not_shown_or_not_known_is_no_yes(comparisons):
    [none] = [each for each in comparisons if each.baseline]
    none.columns |= {"agreement_between": 0.2, "agreement_within": 0.1}
    none.columns["agreement_seeds_needed"] = 4
    unsure = UNIFORM | {"bleu_lost_p": 0.2}
    unchanged = {key: value for key, value in UNIFORM.items() if key != "bleu_lost_p"}

    found = answers(comparisons, [unsure])

    assert found["none"]["Different attention?"].text.startswith("needs 4 seeds: 0.200")
    assert found["none"]["Do its weights matter?"].text.startswith("not shown: 12.00")
    assert found["dot"]["Different BLEU?"].text == "baseline"
    assert found["dot"]["Do its weights matter?"].text == "-"
    same = answers(comparisons, [unchanged])["none"]["Do its weights matter?"].text
    assert same.startswith("nothing changes")


def test_every_measure_that_is_tested_has_a_row(comparisons):
    compare_measures(comparisons, [])

    table = answers_section(comparisons, []).tables[1]

    [none] = [each for each in comparisons if each.baseline]
    tested = [name for name in COMPARED if f"{name}_p" in none.columns]
    assert tested and [row[2].value for row in table.rows] == [
        none.columns[f"{name}_difference"] for name in tested
    ]
    assert {row[0].text for row in table.rows} == {"none"}
