import pytest
import torch

from seq2seq.search import EarlyStopping, LengthPenaltyForm, search
from seq2seq.special_tokens import EOS

SOURCES = [[4, 5, EOS], [5, EOS], [5, 4, 4, 5, EOS], [4, EOS]]
VOCABULARY_SIZE = 6


@pytest.fixture
def config(tools):
    """Make a config without a length penalty."""

    def make(*, penalty=0.0, ratio=1.0, **changes):
        values = {"n_best": 1, "length_penalty": penalty, "max_length_ratio": ratio, **changes}
        return tools.decoding("beam", **values)

    return make


def with_end(hypothesis):
    return [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids


def gnmt(length, exponent):
    return ((5 + length) / 6) ** exponent


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_beam_of_one_is_greedy(tools, config, seed, penalty):
    model = tools.model(vocabulary_size=9, seed=seed)
    greedy = tools.decoding("greedy")

    beams = search(model, *tools.pad(SOURCES), config(beam_size=1, penalty=penalty))
    greedies = search(model, *tools.pad(SOURCES), greedy)

    for [beam], [other] in zip(beams, greedies, strict=True):
        assert with_end(beam) == with_end(other)
        assert beam.log_probability == other.log_probability
        torch.testing.assert_close(beam.attention_weights, other.attention_weights)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_scores_and_attention_weights_are_those_of_the_known_target(tools, config, penalty):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=5)

    found = search(
        model, *tools.pad(SOURCES), config(beam_size=4, n_best=4, penalty=penalty, ratio=2.0)
    )

    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert len(hypotheses) == 4
        for hypothesis in hypotheses:
            output = with_end(hypothesis)
            known = tools.score_known(model, source, output)
            score = known.log_probability / gnmt(len(output), penalty)
            assert hypothesis.log_probability == pytest.approx(known.log_probability, abs=1e-4)
            assert hypothesis.score == pytest.approx(score, abs=1e-4)
            torch.testing.assert_close(hypothesis.attention_weights, known.attention_weights)


@pytest.mark.parametrize("seed", range(3))
def test_neither_the_batch_nor_padding_changes_a_translation(tools, config, seed):
    model = tools.model(vocabulary_size=9, seed=seed)
    settings = config(beam_size=3, n_best=2, penalty=0.8, ratio=3.0)

    together = search(model, *tools.pad(SOURCES, extra=3), settings)
    alone = [search(model, *tools.pad([source]), settings)[0] for source in SOURCES]

    for found, expected in zip(together, alone, strict=True):
        assert [each.ids for each in found] == [each.ids for each in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
            torch.testing.assert_close(one.attention_weights, other.attention_weights)


def test_hypotheses_come_best_first_and_differ(tools, config):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=1)

    [found] = search(model, *tools.pad([[4, 5, EOS]]), config(beam_size=6, n_best=5))

    assert len({tuple(hypothesis.ids) for hypothesis in found}) == 5
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_ties_go_to_the_earlier_end_then_the_better_parent_then_the_lower_id(tools, config):
    end, other = [-9.0, -9.0, -9.0, 3.0, 3.0, 3.0], [-9.0, -9.0, -9.0, 9.0, 2.0, 2.0]
    model = tools.table_model([end, other, end, end])

    [found] = search(model, *tools.pad([[4, EOS]]), config(beam_size=3, n_best=3))

    assert [hypothesis.ids for hypothesis in found] == [[], [4], [5]]


def test_unfinished_hypotheses_follow_if_too_few_are_finished(tools, config):
    table = [[-9.0, -9.0, -9.0, 0.0, 2.0, 1.0]] * 3 + [[-9.0, -9.0, -9.0, 0.0, 2.0, 1.9]]
    rarely_ends = tools.table_model(table)

    settings = config(beam_size=2, n_best=2)
    [found] = search(rarely_ends, *tools.pad([[4, EOS]]), settings)

    assert [hypothesis.ids for hypothesis in found] == [[4, 4, 4, 4], [4, 4, 4, 5]]
    assert not any(hypothesis.finished for hypothesis in found)


def test_a_finished_hypothesis_comes_before_an_unfinished_one_with_a_higher_score(tools, config):
    model = tools.table_model([[-9.0, -9.0, -9.0, 0.0, 1.0, -9.0]] + [[-9, -9, -9, -9, 9.0, 0]] * 3)

    [found] = search(model, *tools.pad([[4, EOS]]), config(beam_size=2, n_best=2))

    assert [hypothesis.finished for hypothesis in found] == [True, False]
    assert found[0].score < found[1].score


def test_search_stops_when_nothing_can_improve(tools, config):
    model = tools.table_model([[-9.0, -9.0, -9.0, 5.0, 0.0, 0.0]] * 20)

    search(model, *tools.pad([[4, EOS]]), config(beam_size=3, ratio=8.0))

    assert model.rows_stepped == [1]


def test_a_length_penalty_continues_a_search_that_can_still_improve(tools, config):
    ends_late = tools.table_model(
        [[-9.0, -9.0, -9.0, 1.0, 0.9, -9.0]] + [[-9, -9, -9, 5, -9, -9]] * 3
    )

    short = search(ends_late, *tools.pad([[4, EOS]]), config(beam_size=2))
    long = search(ends_late, *tools.pad([[4, EOS]]), config(beam_size=2, penalty=1.0))

    assert short[0][0].ids == []
    assert long[0][0].ids == [4]


def test_finished_sentences_leave_the_batch(tools, config):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=0)
    settings = config(beam_size=3, ratio=2.0)

    search(model, *tools.pad(SOURCES), settings)
    together, model.rows_stepped = model.rows_stepped, []
    for source in SOURCES:
        search(model, *tools.pad([source]), settings)

    assert together[-1] < together[1]
    assert sum(together) == sum(model.rows_stepped)


def test_the_first_stop_ends_when_beam_size_hypotheses_are_finished(tools, config):
    ends_now_or_later = [[-9.0, -9.0, -9.0, 1.0, 0.9, -9.0]] * 10
    model = tools.table_model(ends_now_or_later)
    settings = {"beam_size": 2, "penalty": 3.0, "ratio": 4.0}

    [exact] = search(model, *tools.pad([[4, EOS]]), config(**settings))
    exact_rows, model.rows_stepped = model.rows_stepped, []
    [first] = search(
        model, *tools.pad([[4, EOS]]), config(early_stopping=EarlyStopping.first, **settings)
    )

    assert model.rows_stepped == [1, 2]
    assert len(exact_rows) > 2
    assert first[0].ids == []
    assert exact[0].score > first[0].score


def test_the_first_stop_ends_without_live_hypotheses(tools, config):
    model = tools.table_model([[-9.0, -9.0, -9.0, 1.0, 0.9, -9.0]] * 9)
    settings = config(beam_size=3, n_best=3, early_stopping=EarlyStopping.first)

    [found] = search(model, *tools.pad([[4, EOS]]), settings, prefixes=[[5, EOS]])

    assert [hypothesis.ids for hypothesis in found] == [[5]]


def test_an_average_prefers_longer_outputs_than_a_sum(tools, config):
    ends_late = tools.table_model(
        [[-9.0, -9.0, -9.0, 1.0, 0.9, -9.0]] + [[-9, -9, -9, 5, -9, -9]] * 3
    )
    average = {"penalty": 1.0, "length_penalty_form": LengthPenaltyForm.average}

    [summed] = search(ends_late, *tools.pad([[4, EOS]]), config(beam_size=2))
    [averaged] = search(ends_late, *tools.pad([[4, EOS]]), config(beam_size=2, **average))

    assert summed[0].ids == []
    assert averaged[0].ids == [4]
    assert averaged[0].score == pytest.approx(averaged[0].log_probability / 2)


def test_tokens_have_the_log_probabilities_of_the_known_target(tools, config):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=5)

    found = search(model, *tools.pad(SOURCES), config(beam_size=4, n_best=4, ratio=2.0))

    for source, hypotheses in zip(SOURCES, found, strict=True):
        for hypothesis in hypotheses:
            expected = tools.score_known(model, source, with_end(hypothesis)).by_token
            by_token = hypothesis.token_log_probabilities
            assert by_token == pytest.approx(expected, abs=1e-4)
            assert sum(by_token) == pytest.approx(hypothesis.log_probability, abs=1e-4)
            assert max(by_token) <= 0


def test_the_exact_stop_waits_for_a_narrow_winner_at_the_limit(tools, config):
    # Ends at once with a mean of -1, or at the limit of 3 tokens with one of -2.85 / 3.
    first = [-0.6, -99.0, -99.0, -1.0, -2.85, -99.0]
    model = tools.table_model(
        [first, [-99.0] * 4 + [0.0, -99.0], [-99.0] * 3 + [0.0, -99.0, -99.0]]
    )
    average = {"penalty": 1.0, "length_penalty_form": LengthPenaltyForm.average}

    [[best]] = search(
        model,
        *tools.pad([[4, EOS]]),
        config(beam_size=2, ratio=0.0, max_length_offset=3, **average),
    )

    assert best.ids == [4, 4]
    assert best.score == pytest.approx(best.log_probability / 3)


def test_unfinished_hypotheses_are_sorted_by_score(tools, config):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=1, temperature=2.0)
    settings = config(beam_size=500, n_best=9, coverage_penalty=2.0)

    found = search(model, *tools.pad(SOURCES), settings, banned=[[EOS]])

    for hypotheses in found:
        scores = [hypothesis.score for hypothesis in hypotheses]
        sums = [hypothesis.log_probability for hypothesis in hypotheses]
        assert not any(hypothesis.finished for hypothesis in hypotheses)
        assert scores == sorted(scores, reverse=True)
        assert sums != sorted(sums, reverse=True)
