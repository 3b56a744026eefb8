"""The searches over the real model, every attention type and every form of its decoder."""

import pytest
import torch

from seq2seq.attention import attention_config_types
from seq2seq.data.tokenizer import EOS
from seq2seq.search import BeamConfig, GreedyConfig, search

SOURCES = [[4, 5, 7, EOS], [6, EOS], [5, 4, 6, 6, 7, EOS]]
GREEDY = GreedyConfig(name="greedy", max_length_ratio=1.0, max_length_offset=2)
BEAM = BeamConfig(
    name="beam",
    max_length_ratio=1.0,
    max_length_offset=2,
    beam_size=4,
    num_best=3,
    length_penalty=0.7,
)


@pytest.fixture(params=sorted(attention_config_types()))
def attention(request):
    return request.param


@pytest.fixture(params=["bahdanau", "conditional", "luong"])
def model(request, tools, attention):
    return tools.real_model(attention=attention, form=request.param)


@pytest.mark.parametrize("config", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_scores_and_weights_are_those_of_the_forced_output_alone(tools, model, config):
    found = search(model, *tools.pad(SOURCES, extra=2), config)

    for source, hypotheses in zip(SOURCES, found, strict=True):
        for hypothesis in hypotheses:
            output = [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids
            with torch.inference_mode():
                forced = tools.force(model, source, output)
            assert hypothesis.log_probability == pytest.approx(forced.log_probability, abs=1e-4)
            torch.testing.assert_close(hypothesis.weights, forced.weights)


@pytest.mark.parametrize("config", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_a_sentence_gets_the_same_alone_and_in_a_padded_batch(tools, model, config):
    together = search(model, *tools.pad(SOURCES, extra=3), config)
    alone = [search(model, *tools.pad([source]), config)[0] for source in SOURCES]

    for one, other in zip(together, alone, strict=True):
        assert [hypothesis.ids for hypothesis in one] == [hypothesis.ids for hypothesis in other]


def test_beam_of_one_is_greedy(tools, model):
    narrow = BeamConfig(
        name="beam",
        max_length_ratio=1.0,
        max_length_offset=2,
        beam_size=1,
        num_best=1,
        length_penalty=0.7,
    )

    beams = search(model, *tools.pad(SOURCES), narrow)
    greedies = search(model, *tools.pad(SOURCES), GREEDY)

    assert [[each.ids for each in of] for of in beams] == [
        [each.ids for each in of] for of in greedies
    ]


def test_a_model_in_training_mode_is_refused(tools):
    model = tools.real_model(attention="additive", form="bahdanau").train()

    with pytest.raises(AssertionError, match="dropout"):
        search(model, *tools.pad(SOURCES), GREEDY)
