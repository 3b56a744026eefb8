import pytest
import tiny_search as tools

from seq2seq.search.config import (
    BeamConfig,
    GreedyConfig,
    convert_search,
)


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        ("greedy", "min_length", {"min_length": 4, "max_length_offset": 3}),
        ("beam", "n_best", {"beam_size": 2, "n_best": 3}),
        ("sampling", "n_best", {"num_samples": 3, "n_best": 4}),
    ],
)
def test_values_that_exclude_each_other_are_refused_in_one_line(name, key, values):
    with pytest.raises(ValueError, match=rf"^decoding\.{key}={values[key]} must .*$") as refusal:
        tools.decoding(name, **values)

    assert "\n" not in str(refusal.value)


def test_limits_are_rounded_down_and_count_the_end():
    config = tools.decoding("greedy", max_length_ratio=1.5, max_length_offset=4)

    assert [config.longest(length) for length in (1, 5, 6, 7)] == [5, 11, 13, 14]


def test_a_search_is_converted_with_the_settings_that_both_have():
    limits = {"min_length": 2, "no_repeat_ngram": 4}

    greedy, beam = (tools.decoding(name, **limits) for name in ("greedy", "beam"))

    assert convert_search(beam, GreedyConfig) == greedy
    assert convert_search(tools.decoding("mbr", beam_size=3), BeamConfig).beam_size == 3
