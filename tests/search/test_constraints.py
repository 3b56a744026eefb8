"""Constraints in every search."""

import pytest
import tiny_search as tools

from seq2seq.search.registry import search
from seq2seq.special_tokens import BOS, EOS, PAD, UNK

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


@pytest.mark.parametrize(
    "constraints",
    [{"prefixes": [[40]]}, {"prefixes": [[-3]]}, {"banned": [[40]]}, {"banned": [[5, -3]]}],
)
def test_an_id_outside_the_vocabulary_is_refused(decoding, model, constraints):
    with pytest.raises(ValueError, match=r"contains token id (40|-3), which is outside the vocab"):
        search(model, *tools.pad([[4, EOS]]), decoding(), **constraints)


def test_other_constraints_do_not_apply_to_prefixes(decoding, model):
    config = decoding(no_repeat_ngram=1, min_length=4, max_length_offset=4)
    source = tools.pad([[4, EOS]])

    [[hypothesis]] = search(model, *source, config, prefixes=[[5, 5, EOS]], banned=[[5]])

    assert tools.with_end(hypothesis) == [5, 5, EOS]


def test_ended_hypotheses_are_not_counted_in_the_warning(caplog):
    model = tools.TableModel([[-99.0, -99.0, -99.0, 1.0, 1.0]] + [[-99.0] * 4 + [1.0]] * 9)
    config = tools.decoding("sampling", num_samples=9, n_best=9, max_length_offset=4)
    nothing_after_unknown_ends = [[EOS, 4], [EOS, EOS], [UNK, UNK], [UNK, 4], [UNK, EOS]]

    [hypotheses] = search(model, *tools.pad([[4, EOS]]), config, banned=nothing_after_unknown_ends)

    assert sorted(hypothesis.ids for hypothesis in hypotheses) == [[], [4] * 6]
    assert caplog.records == []


def test_hypotheses_without_an_allowed_token_end_and_are_counted_in_one_warning(caplog):
    model = tools.TableModel([[-9.0, 0.5, -9.0, -2.0, 1.0, 0.9]] * 20)
    config = tools.decoding("greedy", no_repeat_ngram=1, min_length=9, max_length_offset=9)
    prefixes = [[4, 4], [4, EOS], []]

    found = search(model, *tools.pad([[4, EOS]] * 3), config, prefixes=prefixes)

    ends = [[4, 4, 5, UNK, EOS], [4, EOS], [4, 5, UNK, EOS]]
    assert [tools.with_end(hypothesis) for [hypothesis] in found] == ends
    known = tools.score_known(model, [4, EOS], ends[2])
    assert found[2][0].log_probability == pytest.approx(known.log_probability, abs=1e-4)
    [record] = caplog.records
    assert record.getMessage().startswith("hypotheses that ended because no token was allowed: 2;")


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        ([[4]], "prefixes: 1, sentences: 4"),
        ([[4], [], [PAD], []], "prefix 2 contains PAD"),
        ([[4], [BOS, 4], [], []], "prefix 1 contains PAD, BOS"),
        ([[4, EOS, 4], [], [], []], "prefix 0 contains .* EOS before"),
        ([[], [], [], [4] * 5], r"prefix 3 has 5 tokens, but .* at most 4; raise decoding\.max"),
    ],
)
def test_an_invalid_prefix_is_refused_with_its_row(model, prefixes, message):
    with pytest.raises(ValueError, match=message):
        search(model, *tools.pad(SOURCES), tools.decoding("greedy"), prefixes=prefixes)


def test_an_empty_banned_sequence_is_refused(model):
    with pytest.raises(ValueError, match="a banned sequence is empty"):
        search(model, *tools.pad(SOURCES), tools.decoding("greedy"), banned=[[4], []])


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
