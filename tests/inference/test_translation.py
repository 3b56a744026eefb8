import pytest
import torch
from tiny_attention import VARIANTS
from tiny_models import tiny_batch, tiny_model

from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.inference import translation as translation_module
from seq2seq.inference.results import EncodedLine, encode_lines, make_translation
from seq2seq.inference.translation import score_targets
from seq2seq.search.config import Hypothesis
from seq2seq.text.rules import SYMBOLS

TOKENIZERS = TokenizerPair(CharacterTokenizer("jan "), CharacterTokenizer("yes\n"))
SOURCE = EncodedLine("ja", [4, 5])


def found(ids, *, finished=True, score=-1.5):
    rows = len(ids) + finished
    return Hypothesis(ids, score, -3.0, finished, torch.ones(2, rows, 3), [-3.0 / rows] * rows)


def test_each_hypothesis_keeps_the_values_of_the_search():
    hypotheses = [found([4, 5, 6]), found([4], finished=False, score=-2.0)]

    translation = make_translation(SOURCE, hypotheses, tokenizers=TOKENIZERS)

    first, second = translation.hypotheses
    assert (first.text, first.tokens, first.finished) == ("yes", ["y", "e", "s", "</s>"], True)
    assert (second.text, second.tokens, second.finished) == ("y", ["y"], False)
    for hypothesis, expected in zip(translation.hypotheses, hypotheses, strict=True):
        assert (hypothesis.ids, hypothesis.score) == (expected.ids, expected.score)
        assert hypothesis.log_probability == expected.log_probability
        assert hypothesis.token_log_probabilities == expected.token_log_probabilities
        assert hypothesis.attention_weights is expected.attention_weights


def test_a_translation_is_one_line():
    translation = make_translation(SOURCE, [found([4, 7, 5])], tokenizers=TOKENIZERS)

    assert translation.text == "y e"


class Merged(CharacterTokenizer):
    """Tokens of letters, and one of two letters: a text has several segmentations."""

    def decode(self, ids):
        return super().decode(ids).replace("2", "ye")


@pytest.mark.parametrize(("n_best", "kept"), [(None, [0, 2, 4]), (1, [0]), (2, [0, 2])])
def test_hypotheses_have_distinct_texts(n_best, kept):
    rows = [[7, 6], [4, 5, 6], [5], [4, 5, 6], [6], [7, 6]]  # yes, yes, e, yes, s, yes
    hypotheses = [found(ids, score=-rank) for rank, ids in enumerate(rows)]
    tokenizers = TokenizerPair(TOKENIZERS.source, Merged("yes2"))

    translation = make_translation(SOURCE, hypotheses, tokenizers=tokenizers, n_best=n_best)

    assert [-each.score for each in translation.hypotheses] == kept
    assert {each.log_probability for each in translation.hypotheses} == {-3.0}


@pytest.mark.parametrize("line", ["", " ", "\t\u3000"])
def test_a_line_without_text_has_no_tokens(line):
    assert encode_lines(["ja", line], TOKENIZERS.source) == [SOURCE, EncodedLine(line, [])]


def test_a_line_in_capitals_is_read_in_usual_letters_and_answered_in_capitals():
    usual, capitals = encode_lines(["Ja, na ja ja", "JA, NA JA JA"], TOKENIZERS.source)
    [recased] = encode_lines(["JA, NA JA JA"], TOKENIZERS.source, recases=True)

    assert recased == usual._replace(text="JA, NA JA JA", in_capitals=True)
    assert capitals.ids != recased.ids
    spans = (SYMBOLS[0],)
    source = recased._replace(spans=("%s",))
    tokenizers = TokenizerPair(TOKENIZERS.source, CharacterTokenizer(["y", *spans]))
    translation = make_translation(source, [found([4, 5])], tokenizers=tokenizers)
    assert (translation.source, translation.text) == ("JA, NA JA JA", "Y%s")


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

    monkeypatch.setattr(translation_module, "_ROWS", 3)

    in_parts = score_batch(model, tiny_batch())
    for whole, part in zip(at_once, in_parts, strict=True):
        assert part.log_probability == pytest.approx(whole.log_probability, abs=1e-6)


def test_weights_do_not_keep_the_batch_in_memory():
    for scored in score_batch(tiny_model(VARIANTS["multihead"]), tiny_batch(extra=3)):
        stored = scored.attention_weights.untyped_storage().nbytes()
        assert stored == scored.attention_weights.numel() * scored.attention_weights.element_size()
