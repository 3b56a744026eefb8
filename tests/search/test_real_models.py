"""The real model fits the protocols: every search, attention type and form of the decoder."""

from types import SimpleNamespace

import pytest
import tiny_search as tools
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
def config(request):
    return tools.decoding(request.param, **SETTINGS[request.param])


@pytest.mark.parametrize("form", ["bahdanau", "conditional", "luong"])
@pytest.mark.parametrize("attention", sorted(attention_config_types()))
def test_scores_and_attention_weights_are_those_of_the_known_target(attention, form, config):
    model = tools.real_model(attention=attention, form=form)

    found = search(model, *tools.pad(SOURCES, extra=2), config)

    for source, hypotheses in zip(SOURCES, found, strict=True):
        for hypothesis in hypotheses:
            output = tools.with_end(hypothesis)
            with torch.inference_mode():
                known = tools.score_known(model, source, output)
            assert hypothesis.log_probability == pytest.approx(known.log_probability, abs=1e-4)
            by_token = hypothesis.token_log_probabilities
            assert by_token == pytest.approx(known.by_token, abs=1e-4)
            torch.testing.assert_close(hypothesis.attention_weights, known.attention_weights)


def test_a_prefix_of_the_whole_output_gets_the_score_of_its_search(config):
    model = tools.real_model()
    found = search(model, *tools.pad(SOURCES), config)
    outputs = [[*of[0].ids, EOS] if of[0].finished else of[0].ids for of in found]

    known = search(model, *tools.pad(SOURCES), config, prefixes=outputs)

    for [hypothesis, *_], [same, *_] in zip(found, known, strict=True):
        assert same.ids == hypothesis.ids
        assert same.score == pytest.approx(hypothesis.score, abs=1e-4)


def test_a_coverage_penalty_needs_attention():
    config = tools.decoding("beam", coverage_penalty=0.2)
    model = tools.real_model(attention="none", form="bahdanau")

    with pytest.raises(ValueError, match=r"decoding\.coverage_penalty=0\.2 needs attention"):
        search(model, *tools.pad(SOURCES), config)


def test_a_search_uses_no_more_of_a_model_than_the_protocols_name(config):
    whole = tools.FakeModel(vocabulary_size=8, seed=1)

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
