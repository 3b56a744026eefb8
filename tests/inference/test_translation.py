import pytest
import torch

from seq2seq.data import CharacterTokenizer, TokenizerPair
from seq2seq.inference.translation import (
    EncodedLine,
    EncodedPair,
    empty_translation,
    encode_lines,
    found_translation,
    scored_translation,
)
from seq2seq.search import Hypothesis

TOKENIZERS = TokenizerPair(CharacterTokenizer("jan "), CharacterTokenizer("yes\n"))
SOURCE = EncodedLine("ja", [4, 5])


def found(ids, *, finished=True, score=-1.5):
    rows = len(ids) + finished
    return Hypothesis(ids, score, -3.0, finished, torch.ones(2, rows, 3), [-3.0 / rows] * rows)


def test_each_hypothesis_keeps_the_values_of_the_search():
    hypotheses = [found([4, 5, 6]), found([4], finished=False, score=-2.0)]

    translation = found_translation(SOURCE, hypotheses, tokenizers=TOKENIZERS)

    first, second = translation.hypotheses
    assert (first.text, first.tokens, first.finished) == ("yes", ["y", "e", "s", "</s>"], True)
    assert (second.text, second.tokens, second.finished) == ("y", ["y"], False)
    for hypothesis, expected in zip(translation.hypotheses, hypotheses, strict=True):
        assert (hypothesis.ids, hypothesis.score) == (expected.ids, expected.score)
        assert hypothesis.log_probability == expected.log_probability
        assert hypothesis.token_log_probabilities == expected.token_log_probabilities
        assert hypothesis.attention_weights is expected.attention_weights


def test_text_and_score_are_those_of_the_best_hypothesis():
    hypotheses = [found([4]), found([5], score=-2.0)]

    translation = found_translation(SOURCE, hypotheses, tokenizers=TOKENIZERS)

    assert (translation.best, translation.text) == (translation.hypotheses[0], "y")
    assert translation.score == -1.5


def test_a_translation_is_one_line():
    translation = found_translation(SOURCE, [found([4, 7, 5])], tokenizers=TOKENIZERS)

    assert translation.text == "y e"


def test_a_scored_target_is_the_only_translation():
    weights = torch.ones(2, 3, 3)
    scored = Hypothesis([4, 5], -4.0, -4.0, True, weights, [-1.0, -1.0, -2.0])
    pair = EncodedPair(SOURCE, EncodedLine("ye", [4, 5]))

    translation = scored_translation(pair, scored, tokenizers=TOKENIZERS)

    [hypothesis] = translation.hypotheses
    assert (hypothesis.text, hypothesis.ids, hypothesis.finished) == ("ye", [4, 5], True)
    assert hypothesis.score == hypothesis.log_probability == sum(hypothesis.token_log_probabilities)
    assert translation.source_tokens == ["j", "a", "</s>"]


@pytest.mark.parametrize("line", ["", " ", "\t\u3000"])
def test_a_line_without_text_has_no_tokens(line):
    assert encode_lines(["ja", line], TOKENIZERS.source) == [SOURCE, EncodedLine(line, [])]


def test_an_empty_translation_has_probability_1():
    pair = EncodedPair(EncodedLine(" ", []), EncodedLine("", []))

    translation = empty_translation(pair, num_heads=3, tokenizers=TOKENIZERS)

    [hypothesis] = translation.hypotheses
    assert (hypothesis.ids, hypothesis.log_probability, hypothesis.finished) == ([], 0.0, True)
    assert hypothesis.token_log_probabilities == [0.0]
    assert hypothesis.attention_weights.shape == (3, 1, 1)
    assert translation.source_tokens == hypothesis.tokens == ["</s>"]
