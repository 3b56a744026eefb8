"""Constraints in every search."""

import pytest
import tiny_search as tools
import torch

from seq2seq.search.searches import search
from seq2seq.special_tokens import EOS, UNK

SEARCHES = ["greedy", "beam", "sampling"]
SOURCES = [[4, 5, EOS], [6, EOS], [5, 4, 6, 6, EOS], [4, EOS]]
VOCABULARY_SIZE = 7


@pytest.fixture(params=SEARCHES)
def decoding(request):
    """Make a config of each search."""
    return lambda **changes: tools.decoding(request.param, **changes)


@pytest.fixture
def model():
    return tools.FakeModel(vocabulary_size=VOCABULARY_SIZE, seed=2)


def test_ended_hypotheses_are_not_counted_in_the_warning(caplog):
    either, end = [-torch.inf] * 3 + [1.0, 1.0], [-torch.inf] * 3 + [1.0, -torch.inf]
    model = tools.TableModel([either, either, end])
    config = tools.decoding("sampling", num_samples=9, n_best=9, no_repeat_ngram=2)

    [hypotheses] = search(model, *tools.pad([[4, EOS]]), config)

    # A hypothesis that ended at once can only repeat its end while the longest one goes on.
    assert sorted(hypothesis.ids for hypothesis in hypotheses) == [[], [4], [4, 4]]
    assert caplog.records == []


def test_hypotheses_without_an_allowed_token_end_and_are_counted_in_one_warning(caplog):
    model = tools.TableModel([[-9.0, 0.5, -9.0, -2.0, 1.0, 0.9]] * 20)
    config = tools.decoding("greedy", no_repeat_ngram=1, min_length=9, max_length_offset=9)

    found = search(model, *tools.pad([[4, EOS]] * 2), config)

    ends = [4, 5, UNK, EOS]
    assert [tools.with_end(hypothesis) for [hypothesis] in found] == [ends] * 2
    known = tools.score_known(model, [4, EOS], ends)
    assert found[1][0].log_probability == pytest.approx(known.log_probability, abs=1e-4)
    [record] = caplog.records
    assert record.getMessage().startswith("hypotheses that ended because no token was allowed: 2;")


@pytest.mark.parametrize(
    ("numbers", "others"),
    [([0, 2, 1, 2], {}), ([0, 2, 1, 2], {"min_length": 2}), ([0, 0, 0, 0], {})],
)
def test_every_symbol_of_a_source_is_placed_once_and_no_other(decoding, model, numbers, others):
    config = decoding(max_length_offset=30, **others)

    found = search(model, *tools.pad(SOURCES), config, symbols=[5, 4], num_symbols=numbers)

    for number, [hypothesis] in zip(numbers, found, strict=True):
        assert hypothesis.finished
        placed = sorted(each for each in hypothesis.ids if each in (4, 5))
        assert placed == [[], [5], [4, 5]][number]


def test_a_symbol_follows_where_the_model_would_end_without_it(decoding):
    #                           PAD  BOS            EOS       symbols
    ends = tools.TableModel([[-9.0, -9.0, -9.0, 5.0, 4.0, -3.0, -2.0]] * 20)

    [[found]] = search(ends, *tools.pad(SOURCES[:1]), decoding(), symbols=[5, 6], num_symbols=[2])

    assert sorted(found.ids[:2]) == [5, 6]
