import json
import math

import numpy as np
import pytest
import torch
from tiny_attention import VARIANTS
from tiny_models import tiny_batch, tiny_model

from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.evaluation.confidence import Confidence
from seq2seq.inference import scoring
from seq2seq.inference.scoring import score_targets
from seq2seq.inference.translations import (
    EncodedLine,
    TranslatedHypothesis,
    TranslatedSentence,
    Translation,
    encode_segments,
    line_json,
    make_sentence,
    sentence_json,
)
from seq2seq.search.config import Hypothesis
from seq2seq.special_tokens import UNK
from seq2seq.text.layer import Segment
from seq2seq.text.rules import SYMBOLS, ModelText

TOKENIZERS = TokenizerPair(CharacterTokenizer("jan "), CharacterTokenizer("yes\n"))
SOURCE = EncodedLine("ja", [4, 5], ModelText("ja"))


def two_hypotheses():
    found = TranslatedHypothesis("yes", -1.5, -3.0, True, [4], ["y", "</s>"], torch.ones(2, 4, 3))
    worse = found._replace(text="no", score=-2.0)
    return TranslatedSentence("ja", [4, UNK], ["j", "<unk>", "</s>"], [found, worse])


def test_a_protected_span_of_any_pattern_may_be_lost():
    translation = two_hypotheses()._replace(
        source="ORD-x kostet 5", model=ModelText("", ("ORD-x", "yes"))
    )

    assert translation.lost_spans == ["5", "ORD-x"]


LINE = Confidence(slope=90.0, intercept=-10.0, spread=9.0, mean=60.0, first_fifth=40.0)


def test_the_expected_chrf_of_a_line_is_that_of_the_mean_over_its_tokens():
    def sentence(text, log_probability, number):
        values = [log_probability / number] * number
        best = TranslatedHypothesis("", 0.0, log_probability, True, [4], [], None, values)
        model = ModelText(text, ("KR-7",))
        return TranslatedSentence("", [4], [], [best], model=model, confidence=LINE)

    first, second = sentence(f"ja {SYMBOLS[0]}", -1.0, 2), sentence("a", -2.0, 4)
    empty, spans = sentence("", -9.0, 1), sentence(f"{SYMBOLS[0]}.", -9.0, 1)
    line = Translation("", [first, empty, spans, second])

    assert first.expected_chrf == pytest.approx(90 * math.exp(-1 / 2 / 2) - 10)
    assert line.expected_chrf == pytest.approx(90 * math.exp(-3 / 6 / 2) - 10)
    assert empty.expected_chrf is spans.expected_chrf is None  # nothing was translated
    assert first._replace(confidence=None).expected_chrf is None


def test_repr_is_short_and_names_text_and_score():
    translation = two_hypotheses()

    assert repr(translation) == (
        "TranslatedSentence(source='ja', text='yes', score=-1.5000, num_hypotheses=2)"
    )
    assert repr(translation.best) == (
        "TranslatedHypothesis(text='yes', score=-1.5000, finished=True, "
        "attention_weights=(2, 4, 3))"
    )


@pytest.mark.parametrize("weights", [torch.tensor([[[0.25, 1 / 3]]]), np.array([[[0.25, 1 / 3]]])])
def test_json_has_all_values_with_six_digits(weights):
    translation = two_hypotheses()
    best = translation.best._replace(
        attention_weights=weights, token_log_probabilities=[-1.0, -2.12345678]
    )
    translation = translation._replace(hypotheses=[best])

    content = json.loads(json.dumps(sentence_json(translation)))

    assert content == {
        "source": "ja",
        "source_tokens": ["j", "<unk>", "</s>"],
        "expected_chrf": None,
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
    assert "attention" not in sentence_json(translation, has_attention=False)["hypotheses"][0]


def test_the_json_of_a_line_has_its_translations_and_its_sentences():
    first = two_hypotheses()
    [best, _] = first.hypotheses
    second = first._replace(source="na", hypotheses=[best._replace(text="so", finished=False)])

    content = line_json(Translation("ja na", [first, second]))

    assert content == {
        "source": "ja na",
        "expected_chrf": None,
        "unknown_tokens": 2,
        "hypotheses": [
            {"text": "yes so", "score": -3.0, "log_probability": -6.0, "finished": False},
            {"text": "no so", "score": -3.5, "log_probability": -6.0, "finished": False},
        ],
        "sentences": [sentence_json(first), sentence_json(second)],
    }


def found(ids, *, finished=True, score=-1.5):
    rows = len(ids) + finished
    return Hypothesis(ids, score, -3.0, finished, torch.ones(2, rows, 3), [-3.0 / rows] * rows)


def test_each_hypothesis_has_a_text_on_one_line_and_a_label_for_each_token():
    hypotheses = [found([4, 7, 6]), found([4], finished=False)]

    translation = make_sentence(SOURCE, hypotheses, tokenizers=TOKENIZERS)

    first, second = translation.hypotheses
    # A model may write a line feed, but a translation is one line.
    assert (first.text, first.tokens, first.finished) == ("y s", ["y", "\n", "s", "</s>"], True)
    assert (second.text, second.tokens, second.finished) == ("y", ["y"], False)


class Merged(CharacterTokenizer):
    """Tokens of letters, and one of two letters: a text has several segmentations."""

    def decode(self, ids):
        return super().decode(ids).replace("2", "ye")


@pytest.mark.parametrize(("n_best", "kept"), [(None, [0, 2, 4]), (1, [0]), (2, [0, 2])])
def test_hypotheses_have_distinct_texts(n_best, kept):
    rows = [[7, 6], [4, 5, 6], [5], [4, 5, 6], [6], [7, 6]]  # yes, yes, e, yes, s, yes
    hypotheses = [found(ids, score=-rank) for rank, ids in enumerate(rows)]
    tokenizers = TokenizerPair(TOKENIZERS.source, Merged("yes2"))

    translation = make_sentence(SOURCE, hypotheses, tokenizers=tokenizers, n_best=n_best)

    assert [-each.score for each in translation.hypotheses] == kept
    assert {each.log_probability for each in translation.hypotheses} == {-3.0}


@pytest.mark.parametrize("line", ["", " ", "\t\u3000"])
def test_a_line_without_text_has_no_tokens(line):
    segments = [Segment("ja", ModelText("ja")), Segment(line, ModelText(""))]

    assert encode_segments(segments, TOKENIZERS.source) == [SOURCE, EncodedLine(line, [])]


def test_a_text_in_capitals_is_answered_in_capitals_with_its_spans_unchanged():
    source = EncodedLine("JA %s", [4], ModelText("Ja", ("%s",), in_capitals=True))
    tokenizers = TokenizerPair(TOKENIZERS.source, CharacterTokenizer(["y", SYMBOLS[0]]))

    sentence = make_sentence(source, [found([4, 5])], tokenizers=tokenizers)

    assert (sentence.source, sentence.text) == ("JA %s", "Y%s")


def score_batch(model, batch):
    return score_targets(
        model.eval(),
        batch.source_ids,
        batch.source_mask,
        target_ids=batch.target_ids,
        target_mask=batch.target_mask,
    )


def test_probabilities_do_not_depend_on_how_many_are_held_at_once(monkeypatch):
    model = tiny_model(VARIANTS["dot"])
    at_once = score_batch(model, tiny_batch())

    monkeypatch.setattr(scoring, "_ROWS", 3)

    in_parts = score_batch(model, tiny_batch())
    for whole, part in zip(at_once, in_parts, strict=True):
        assert part.log_probability == pytest.approx(whole.log_probability, abs=1e-6)


def test_weights_do_not_keep_the_batch_in_memory():
    for scored in score_batch(tiny_model(VARIANTS["multihead"]), tiny_batch(extra=3)):
        stored = scored.attention_weights.untyped_storage().nbytes()
        assert stored == scored.attention_weights.numel() * scored.attention_weights.element_size()
