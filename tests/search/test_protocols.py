"""The real model fits the protocols: every search, attention type and form of the decoder."""

from types import SimpleNamespace

import pytest
import torch

from seq2seq.attention import attention_config_types
from seq2seq.search import search
from seq2seq.special_tokens import EOS

SOURCES = [[4, 5, 7, EOS], [6, EOS], [5, 4, 6, 6, 7, EOS]]
SETTINGS = {
    "greedy": {"no_repeat_ngram": 2},
    "beam": {"beam_size": 4, "n_best": 3, "length_penalty": 0.7, "min_length": 2},
    "sampling": {"num_samples": 4, "n_best": 3, "top_k": 4, "temperature": 1.3},
}


@pytest.fixture(params=SETTINGS)
def config(request, tools):
    return tools.decoding(request.param, **SETTINGS[request.param])


@pytest.fixture(params=sorted(attention_config_types()))
def attention(request):
    return request.param


@pytest.fixture(params=["bahdanau", "conditional", "luong"])
def model(request, tools, attention):
    return tools.real_model(attention=attention, form=request.param)


def test_scores_and_attention_weights_are_those_of_the_known_target(tools, model, config):
    found = search(model, *tools.pad(SOURCES, extra=2), config)

    for source, hypotheses in zip(SOURCES, found, strict=True):
        for hypothesis in hypotheses:
            output = [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids
            with torch.inference_mode():
                known = tools.score_known(model, source, output)
            assert hypothesis.log_probability == pytest.approx(known.log_probability, abs=1e-4)
            by_token = hypothesis.token_log_probabilities
            assert len(by_token) == len(output)
            assert sum(by_token) == pytest.approx(known.log_probability, abs=1e-4)
            torch.testing.assert_close(hypothesis.attention_weights, known.attention_weights)


def test_a_sentence_is_translated_the_same_alone_and_in_a_padded_batch(tools, model, config):
    together = search(model, *tools.pad(SOURCES, extra=3), config)
    alone = [search(model, *tools.pad([source]), config)[0] for source in SOURCES]

    for one, other in zip(together, alone, strict=True):
        assert [hypothesis.ids for hypothesis in one] == [hypothesis.ids for hypothesis in other]


def test_a_prefix_of_the_whole_output_gets_the_score_of_its_search(tools, model, config):
    found = search(model, *tools.pad(SOURCES), config)
    outputs = [[*of[0].ids, EOS] if of[0].finished else of[0].ids for of in found]

    known = search(model, *tools.pad(SOURCES), config, prefixes=outputs)

    for [hypothesis, *_], [same, *_] in zip(found, known, strict=True):
        assert same.ids == hypothesis.ids
        assert same.score == pytest.approx(hypothesis.score, abs=1e-4)


def test_beam_of_one_is_greedy(tools, model):
    narrow = tools.decoding("beam", beam_size=1, length_penalty=0.7)

    beams = search(model, *tools.pad(SOURCES), narrow)
    greedies = search(model, *tools.pad(SOURCES), tools.decoding("greedy"))

    assert [[each.ids for each in of] for of in beams] == [
        [each.ids for each in of] for of in greedies
    ]


def test_a_coverage_penalty_needs_attention(tools, attention, model):
    config = tools.decoding("beam", coverage_penalty=0.2)

    if attention == "none":
        with pytest.raises(ValueError, match=r"decoding\.coverage_penalty=0\.2 needs attention"):
            search(model, *tools.pad(SOURCES), config)
    else:
        assert search(model, *tools.pad(SOURCES), config)


def test_a_search_uses_no_more_of_a_model_than_the_protocols_name(tools, config):
    whole = tools.model(vocabulary_size=8, seed=1)

    def step(state, previous_ids, memory):
        made = whole.step(state.own, previous_ids, memory.own)
        return SimpleNamespace(
            logits=made.logits, state=only(made.state), attention_weights=made.attention_weights
        )

    def only(part):
        return SimpleNamespace(own=part, select=lambda rows: only(part.select(rows)))

    bare = SimpleNamespace(
        training=False,
        decoder=SimpleNamespace(step=step),
        encode=lambda source_ids, source_mask: map(only, whole.encode(source_ids, source_mask)),
    )

    found, expected = (search(model, *tools.pad(SOURCES), config) for model in (bare, whole))

    assert [[each.ids for each in of] for of in found] == [
        [each.ids for each in of] for of in expected
    ]
