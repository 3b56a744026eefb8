from types import SimpleNamespace

import pytest

from seq2seq.checks import as_yaml, check_not_negative, check_positive, check_probabilities


def test_values_are_shown_as_in_a_command():
    values = (None, True, False, 0, 1, "None", [None])

    assert [as_yaml(value) for value in values] == [
        *("null", "true", "false", "0", "1", "None", "[None]"),
    ]


def test_values_in_range_pass():
    config = SimpleNamespace(size=1, layers=7, dropout=0.0, word_dropout=0.999)

    check_positive("model", config, "size", "layers")
    check_probabilities("model", config, "dropout", "word_dropout")


@pytest.mark.parametrize("value", [0, -3])
def test_size_below_one_is_refused_by_key_and_value(value):
    config = SimpleNamespace(size=5, layers=value)

    with pytest.raises(ValueError, match=f"^model.encoder.layers={value} must be at least 1$"):
        check_positive("model.encoder", config, "size", "layers")


@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf")])
def test_negative_and_infinite_numbers_are_refused_by_key_and_value(value):
    config = SimpleNamespace(penalty=0.0, other=value)

    with pytest.raises(ValueError, match=rf"^decoding.other={value} must be a number of at leas"):
        check_not_negative("decoding", config, "penalty", "other")


def test_a_field_that_is_none_passes():
    config = SimpleNamespace(threads=None)

    check_positive("", config, "threads")
    check_probabilities("", config, "threads")


def test_a_top_level_key_is_named_without_a_section():
    with pytest.raises(ValueError, match=r"^batch_size=0 must be at least 1$"):
        check_positive("", SimpleNamespace(batch_size=0), "batch_size")


@pytest.mark.parametrize("value", [-0.1, 1.0, 1.5, float("nan")])
def test_probability_outside_its_range_is_refused_by_key_and_value(value):
    config = SimpleNamespace(word_dropout=0.5, dropout=value)

    with pytest.raises(ValueError, match=rf"^model.decoder.dropout={value} must lie in \[0, 1\)$"):
        check_probabilities("model.decoder", config, "word_dropout", "dropout")
