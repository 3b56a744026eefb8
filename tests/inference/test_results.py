import json

import numpy as np
import pytest
import torch

from seq2seq.inference.results import TranslatedHypothesis, Translation, as_json
from seq2seq.special_tokens import UNK


def make_translation():
    found = TranslatedHypothesis("yes", -1.5, -3.0, True, [4], ["y", "</s>"], torch.ones(2, 4, 3))
    worse = found._replace(text="no", score=-2.0)
    return Translation("ja", [4, UNK], ["j", "<unk>", "</s>"], [found, worse])


def test_text_and_score_are_those_of_the_first_hypothesis():
    translation = make_translation()

    assert (translation.text, translation.score) == ("yes", -1.5)
    assert translation.num_unknown_tokens == 1


def test_repr_is_short_and_names_text_and_score():
    translation = make_translation()

    assert repr(translation) == (
        "Translation(source='ja', text='yes', score=-1.5000, num_hypotheses=2)"
    )
    assert repr(translation.best) == (
        "TranslatedHypothesis(text='yes', score=-1.5000, finished=True, "
        "attention_weights=(2, 4, 3))"
    )


@pytest.mark.parametrize("weights", [torch.tensor([[[0.25, 1 / 3]]]), np.array([[[0.25, 1 / 3]]])])
def test_json_has_all_values_with_six_digits(weights):
    translation = make_translation()
    best = translation.best._replace(
        attention_weights=weights, token_log_probabilities=[-1.0, -2.12345678]
    )
    translation = translation._replace(hypotheses=[best])

    content = json.loads(json.dumps(as_json(translation)))

    assert content == {
        "source": "ja",
        "source_tokens": ["j", "<unk>", "</s>"],
        "unknown_tokens": 1,
        "hypotheses": [
            {
                "text": "yes",
                "score": -1.5,
                "log_probability": -3.0,
                "finished": True,
                "tokens": ["y", "</s>"],
                "token_log_probabilities": [-1.0, -2.123457],
                "attention": [[[0.25, 0.333333]]],
            }
        ],
    }
    assert "attention" not in as_json(translation, has_attention=False)["hypotheses"][0]
