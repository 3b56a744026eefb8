"""The real model fits the protocols: every search with every attention type, each in one form."""

import itertools

import pytest
import tiny_search as tools
import torch

from seq2seq.attention.base import attention_config_types
from seq2seq.search.searches import search
from seq2seq.special_tokens import EOS

SOURCES = [[4, 5, 7, EOS], [6, EOS], [5, 4, 6, 6, 7, EOS]]
SETTINGS = {
    "greedy": {"no_repeat_ngram": 2},
    "beam": {"beam_size": 4, "n_best": 3, "length_penalty": 0.7, "min_length": 2},
    "mbr": {"beam_size": 3},
    "sampling": {"num_samples": 4, "n_best": 3, "top_k": 4, "temperature": 1.3},
}


@pytest.fixture(params=SETTINGS)
def config(request):
    return tools.decoding(request.param, **SETTINGS[request.param])


@pytest.mark.parametrize(
    ("attention", "form"),
    list(
        zip(sorted(attention_config_types()), itertools.cycle(["bahdanau", "conditional", "luong"]))
    ),
)
def test_scores_and_attention_weights_are_those_of_the_known_target(
    attention, form, config, monkeypatch
):
    monkeypatch.setattr("seq2seq.search.loop.JOINED_STEPS", 3)  # shorter than some hypotheses
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


def test_a_coverage_penalty_needs_attention():
    config = tools.decoding("beam", coverage_penalty=0.2)
    model = tools.real_model(attention="none", form="bahdanau")

    with pytest.raises(ValueError, match=r"decoding\.coverage_penalty=0\.2 needs attention"):
        search(model, *tools.pad(SOURCES), config)
