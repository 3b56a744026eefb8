"""Promises of every search: independent sentences, errors of impossible models, the registry."""

import random

import pytest
import tiny_search as tools
import torch

from seq2seq.search.config import EarlyStopping
from seq2seq.search.searches import search
from seq2seq.special_tokens import EOS

SEARCHES = ["greedy", "beam", "sampling"]
SETTINGS = {
    "greedy": ("greedy", {}),
    "greedy-constrained": ("greedy", {"no_repeat_ngram": 2, "min_length": 2}),
    "beam": ("beam", {"beam_size": 4, "n_best": 3}),
    "beam-coverage": ("beam", {"beam_size": 4, "n_best": 2, "coverage_penalty": 0.3}),
    "beam-first": ("beam", {"beam_size": 3, "early_stopping": EarlyStopping.first}),
    "beam-constrained": ("beam", {"beam_size": 3, "no_repeat_ngram": 1, "min_length": 2}),
    "sampling": ("sampling", {"num_samples": 3, "n_best": 3}),
    "sampling-filtered": ("sampling", {"top_k": 5, "top_p": 0.8, "temperature": 2.0}),
}


@pytest.fixture(scope="module")
def sources():
    draw = random.Random(3)
    return [[*draw.choices(range(4, 8), k=draw.randint(0, 9)), EOS] for _ in range(23)]


@pytest.fixture(scope="module")
def model():
    return tools.real_model()


@pytest.fixture(params=SETTINGS)
def config(request):
    name, changes = SETTINGS[request.param]
    return tools.decoding(name, **changes)


def in_batches(model, sources, config, *, size, extra):
    found = []
    for start in range(0, len(sources), size):
        batch = tools.pad(sources[start : start + size], extra=extra)
        found += search(model, *batch, config)
    return found


def ids(found):
    return [[(each.finished, each.ids) for each in hypotheses] for hypotheses in found]


def test_neither_the_batch_nor_padding_changes_a_translation(model, sources, config):
    alone, few, all_at_once = (
        in_batches(model, sources, config, size=size, extra=extra)
        for size, extra in ((1, 0), (7, 0), (23, 5))
    )

    assert ids(alone) == ids(few) == ids(all_at_once)
    for hypotheses, others in zip(alone, all_at_once, strict=True):
        for one, other in zip(hypotheses, others, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            weights = one.attention_weights
            torch.testing.assert_close(weights, other.attention_weights, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", SEARCHES)
def test_finished_sentences_leave_the_batch(name):
    model = tools.FakeModel(vocabulary_size=6, seed=0)
    sources = [[4, 5, EOS], [5, EOS], [5, 4, 4, 5, EOS], [4, EOS]]
    config = tools.decoding(name, max_length_ratio=2.0)

    search(model, *tools.pad(sources), config)
    together, model.rows_stepped = model.rows_stepped, []
    for source in sources:
        search(model, *tools.pad([source]), config)

    assert together[-1] < together[1]
    assert sum(together) == sum(model.rows_stepped)


@pytest.mark.parametrize("name", SEARCHES)
def test_an_empty_batch_gives_nothing(name):
    model = tools.FakeModel(vocabulary_size=7, seed=0)
    ids = torch.empty(0, 3, dtype=torch.long)

    assert search(model, ids, ids.bool(), tools.decoding(name)) == []


@pytest.mark.parametrize("name", SEARCHES)
def test_attention_weights_carry_no_gradient(name):
    model = tools.FakeModel(vocabulary_size=7, seed=0)
    model.output.requires_grad_()

    [[hypothesis]] = search(model, *tools.pad([[4, EOS]]), tools.decoding(name))

    assert not hypothesis.attention_weights.requires_grad


@pytest.mark.parametrize("name", SEARCHES)
def test_nan_probabilities_are_an_error(name):
    model = tools.TableModel([[0.0, 0.0, 0.0, 0.0, torch.nan]] * 9)

    with pytest.raises(FloatingPointError, match="not numbers"):
        search(model, *tools.pad([[4, EOS]] * 5), tools.decoding(name))


def logits(**possible):
    """Return the logits of 7 tokens of which only the given ones are possible: `_4=0.5`."""
    row = [-torch.inf] * 7
    for token, logit in possible.items():
        row[int(token[1:])] = logit
    return row


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(
    "table",
    [
        [logits(_0=1.0, _2=0.5)] * 9,
        [logits(_4=1.0)] * 2 + [logits(_0=1.0)] * 9,
    ],
)
def test_a_sentence_without_a_possible_token_is_an_error_of_one_line(name, table):
    model = tools.TableModel(table)

    with pytest.raises(
        FloatingPointError, match=r"^the model.*, or 0 for every token; .*$"
    ) as refusal:
        search(model, *tools.pad([[4, EOS]]), tools.decoding(name))

    assert "\n" not in str(refusal.value)


def test_a_beam_goes_on_with_the_hypotheses_that_have_a_possible_token():
    model = tools.TableModel([logits(_4=1.0, _5=0.5), logits(_4=1.0)] + [logits(_3=1.0)] * 9)
    config = tools.decoding("beam", beam_size=2, n_best=2, no_repeat_ngram=1)

    [hypotheses] = search(model, *tools.pad([[4, EOS]]), config)

    assert [hypothesis.ids for hypothesis in hypotheses] == [[5, 4]]


def test_a_model_in_training_mode_is_refused():
    model = tools.real_model().train()

    with pytest.raises(AssertionError, match="dropout"):
        search(model, *tools.pad([[4, EOS]]), tools.decoding("greedy"))
