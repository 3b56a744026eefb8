"""Beam search against exhaustive search, and the best of each length, by their definitions."""

import pytest
import tiny_search as tools
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.search.config import LengthPenaltyForm
from seq2seq.search.registry import search
from seq2seq.special_tokens import BOS, EOS

SOURCES = [[4, 5, EOS], [5, EOS], [4, EOS]]
VOCABULARY_SIZE = 6
EVERYTHING = 500
"""Larger than the number of outputs of the lengths that are searched here."""

OPTIONS = st.fixed_dictionaries(
    {
        "length_penalty": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
        "length_penalty_form": st.sampled_from(LengthPenaltyForm),
        "coverage_penalty": st.sampled_from([0.0, 0.2, 1.0, 5.0]),
        "min_length": st.integers(0, 2),
        "min_length_ratio": st.sampled_from([0.0, 0.7]),
        "max_length_ratio": st.sampled_from([0.7, 1.0]),
        "no_repeat_ngram": st.integers(0, 3),
    }
)
MODELS = st.builds(dict, seed=st.integers(0, 10_000), temperature=st.sampled_from([0.3, 1.0, 3.0]))
PREFIXES = st.lists(
    st.sampled_from([(), (), (4,), (5, 1), (4, 4, 5), (EOS,), (1, EOS)]), min_size=3, max_size=3
)
BANNED = st.lists(
    st.sampled_from([(1,), (4, 5), (5, EOS), (BOS, 4), (4, 1, 4), (EOS,)]), max_size=2
)


def assert_same(found, expected, score):
    assert [tools.with_end(hypothesis) for hypothesis in found] == [
        output.ids for output in expected
    ]
    for hypothesis, output in zip(found, expected, strict=True):
        assert hypothesis.score == pytest.approx(score(output), abs=1e-4)
        assert hypothesis.log_probability == pytest.approx(output.log_probability, abs=1e-4)


@settings(max_examples=12)
@given(model=MODELS, options=OPTIONS, n_best=st.integers(1, 9), prefixes=PREFIXES, banned=BANNED)
def test_a_beam_as_wide_as_the_space_is_exhaustive(model, options, n_best, prefixes, banned):
    model = tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, **model)
    config = tools.decoding("beam", beam_size=EVERYTHING, n_best=n_best, **options)

    ids, mask = tools.pad(SOURCES, extra=1)

    together = search(model, ids, mask, config, prefixes=prefixes, banned=banned)

    for source, prefix, found in zip(SOURCES, prefixes, together, strict=True):
        every = tools.outputs(model, tools.Task(source, config, prefix, banned))
        expected = tools.ranked(every, config)[:n_best]
        assert_same(found, expected, lambda output: tools.score(output, config))


@settings(max_examples=30)
@given(
    model=MODELS,
    options=OPTIONS,
    beam_size=st.integers(1, 4),
    spare=st.integers(0, 3),
    prefixes=PREFIXES,
    banned=BANNED,
)
def test_exact_stopping_and_leaving_the_batch_change_no_result(
    model, options, beam_size, spare, prefixes, banned
):
    model = tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, **model)
    n_best = max(1, beam_size - spare)
    config = tools.decoding("beam", beam_size=beam_size, n_best=n_best, **options)
    ids, mask = tools.pad(SOURCES, extra=2)

    together = search(model, ids, mask, config, prefixes=prefixes, banned=banned)

    for source, prefix, found in zip(SOURCES, prefixes, together, strict=True):
        task = tools.Task(source, config, prefix, banned)
        expected = tools.beam_by_definition(model, task)
        assert_same(found, expected, lambda output: tools.score(output, config))
