"""A stepwise search appends what is chosen, and each sentence leaves when its hypotheses end."""

import pytest
import torch

from seq2seq.search.constraints import Constraints
from seq2seq.search.stepwise import stepwise_search
from seq2seq.special_tokens import EOS

SOURCES = [[4, 5, EOS], [6, EOS], [5, 4, EOS]]
VOCABULARY_SIZE = 7


class Script:
    """Chooses tokens by a script: for each sentence the outputs of its hypotheses."""

    def __init__(self, outputs):
        self.width = len(outputs[0])
        self.calls = []
        self._outputs = outputs

    def __call__(self, log_probabilities, sentences, length):
        self.calls.append((sentences.tolist(), length))
        tokens = torch.tensor(
            [
                output[length - 1] if length <= len(output) else 4
                for sentence in sentences.tolist()
                for output in self._outputs[sentence]
            ]
        )
        return log_probabilities.gather(1, tokens[:, None]).squeeze(1), tokens


def run(tools, script, *, limits):
    model = tools.model(vocabulary_size=VOCABULARY_SIZE, seed=3)
    found = stepwise_search(
        model,
        *tools.pad(SOURCES),
        Constraints(),
        limits=limits,
        width=script.width,
        choose=script,
    )
    return model, found


SCRIPT = [
    [[4, 5, EOS], [6, EOS]],
    [[EOS], [EOS]],
    [[5, 5, 5, 5], [4, EOS]],
]


def test_hypotheses_are_the_chosen_tokens_in_the_order_of_the_chooser(tools):
    _, found = run(tools, Script(SCRIPT), limits=[9, 9, 4])

    assert [[each.ids for each in of] for of in found] == [
        [[4, 5], [6]],
        [[], []],
        [[5, 5, 5, 5], [4]],
    ]
    assert [[each.finished for each in of] for of in found] == [
        [True, True],
        [True, True],
        [False, True],
    ]


def test_scores_and_attention_weights_are_those_of_the_chosen_tokens(tools):
    model, found = run(tools, Script(SCRIPT), limits=[9, 9, 4])

    for source, outputs, hypotheses in zip(SOURCES, SCRIPT, found, strict=True):
        for output, hypothesis in zip(outputs, hypotheses, strict=True):
            known = tools.score_known(model, source, output)
            assert hypothesis.score == pytest.approx(known.log_probability, abs=1e-4)
            torch.testing.assert_close(hypothesis.attention_weights, known.attention_weights)


def test_a_sentence_leaves_the_batch_when_all_of_its_hypotheses_have_ended(tools):
    script = Script(SCRIPT)

    model, _ = run(tools, script, limits=[9, 9, 4])

    assert script.calls == [([0, 1, 2], 1), ([0, 2], 2), ([0, 2], 3), ([2], 4)]
    assert model.rows_stepped == [6, 4, 4, 2]


def test_a_hypothesis_ends_at_the_limit_of_its_sentence(tools):
    endless = [[[4] * 9], [[5] * 9], [[6] * 9]]

    _, found = run(tools, Script(endless), limits=[2, 5, 3])

    assert [each.ids for [each] in found] == [[4] * 2, [5] * 5, [6] * 3]
    assert not any(each.finished for [each] in found)
