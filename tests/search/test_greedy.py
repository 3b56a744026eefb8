import pytest
import torch

from seq2seq.search import search
from seq2seq.special_tokens import BOS, EOS, PAD, UNK

SOURCES = [[4, 5, EOS], [6, EOS], [5, 4, 6, 6, EOS], [4, EOS]]
VOCABULARY_SIZE = 7


@pytest.fixture
def config(tools):
    def make(*, ratio=2.0, offset=3):
        return tools.decoding("greedy", max_length_ratio=ratio, max_length_offset=offset)

    return make


def best_one_by_one(tools, model, source, limit):
    output = []
    while len(output) < limit and output[-1:] != [EOS]:
        scores = [
            tools.score_known(model, source, [*output, token]).log_probability
            if token not in (PAD, BOS)
            else -torch.inf
            for token in range(VOCABULARY_SIZE)
        ]
        output.append(scores.index(max(scores)))
    return output


def with_end(hypothesis):
    return [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids


@pytest.mark.parametrize("seed", range(5))
def test_each_token_is_the_most_probable_one(tools, config, seed):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=seed)

    found = search(model, *tools.pad(SOURCES), config())

    for source, [hypothesis] in zip(SOURCES, found, strict=True):
        limit = 2 * len(source) + 3
        assert with_end(hypothesis) == best_one_by_one(tools, model, source, limit)


def test_scores_and_attention_weights_are_those_of_the_known_target(tools, config):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=3)

    found = search(model, *tools.pad(SOURCES), config())

    for source, [hypothesis] in zip(SOURCES, found, strict=True):
        known = tools.score_known(model, source, with_end(hypothesis))
        assert hypothesis.score == hypothesis.log_probability
        assert hypothesis.score == pytest.approx(known.log_probability, abs=1e-4)
        torch.testing.assert_close(hypothesis.attention_weights, known.attention_weights)


@pytest.mark.parametrize("seed", range(3))
def test_neither_the_batch_nor_padding_changes_a_translation(tools, config, seed):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=seed)

    together = search(model, *tools.pad(SOURCES, extra=4), config())

    for source, [hypothesis] in zip(SOURCES, together, strict=True):
        [[alone]] = search(model, *tools.pad([source]), config())
        assert hypothesis.ids == alone.ids
        assert hypothesis.score == pytest.approx(alone.score, abs=1e-5)
        torch.testing.assert_close(hypothesis.attention_weights, alone.attention_weights)


def test_the_length_limit_grows_with_the_source_and_leaves_hypotheses_unfinished(tools, config):
    never_ends = tools.table_model([[0.0, 0.0, 0.0, -9.0, 1.0, 0.0]] * 20)

    found = search(never_ends, *tools.pad(SOURCES), config(ratio=1.5, offset=2))

    assert [len(hypothesis.ids) for [hypothesis] in found] == [6, 5, 9, 5]
    assert not any(hypothesis.finished for [hypothesis] in found)


def test_an_output_that_ends_at_once_is_empty_and_finished(tools, config):
    model = tools.table_model([[0.0, 0.0, 0.0, 5.0, 0.0]])

    [[hypothesis]] = search(model, *tools.pad([[4, EOS]]), config())

    assert hypothesis.ids == []
    assert hypothesis.finished
    assert hypothesis.attention_weights.shape == (2, 1, 2)


def test_pad_and_bos_are_never_produced_but_unk_may_be(tools, config):
    model = tools.table_model([[9.0, 1.0, 9.0, 0.0, 0.0], [9.0, 0.0, 9.0, 5.0, 0.0]])

    [[hypothesis]] = search(model, *tools.pad([[4, EOS]]), config())

    assert hypothesis.ids == [UNK]


def test_equal_probabilities_go_to_the_lower_id(tools, config):
    model = tools.table_model([[0.0, -1.0, 0.0, 1.0, 2.0, 2.0, 2.0], [0, 0, 0, 9.0, 0, 0, 0]])

    [[hypothesis]] = search(model, *tools.pad([[4, EOS]]), config())

    assert hypothesis.ids == [4]


def test_finished_sentences_leave_the_batch(tools, config):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=0)

    found = search(model, *tools.pad(SOURCES), config())

    lengths = [len(with_end(hypothesis)) for [hypothesis] in found]
    assert len(set(lengths)) > 1
    assert sum(model.rows_stepped) == sum(lengths)
