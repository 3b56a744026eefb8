import math
from collections import Counter

import pytest

from seq2seq.evaluation.bleu_tokenize import ScoringRule
from seq2seq.evaluation.metrics import score

REFERENCES = [
    "A dog runs through the snow.",
    "Two men are sitting on a bench.",
    "The child isn't sleeping, is it?",
]
HYPOTHESES = [
    "A dog runs through snow.",
    "Two men sit on a bench.",
    "The child is not sleeping, is it?",
]


def ngrams(words, size):
    return Counter(tuple(words[i : i + size]) for i in range(len(words) - size + 1))


def bleu_by_definition(hypotheses, references):
    """Return BLEU by Papineni et al. 2002, for text tokenised at spaces."""
    hypotheses = [text.split() for text in hypotheses]
    references = [text.split() for text in references]
    log_precisions = []
    for size in range(1, 5):
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            found = ngrams(hypothesis, size)
            matches += (found & ngrams(reference, size)).total()
            total += found.total()
        log_precisions.append(math.log(matches / total))
    hypothesis_length, reference_length = sum(map(len, hypotheses)), sum(map(len, references))
    brevity = min(0.0, 1 - reference_length / hypothesis_length)
    return 100 * math.exp(brevity + sum(log_precisions) / 4)


def test_bleu_is_the_published_definition_over_the_corpus():
    hypotheses = ["a b c d e f", "g h i j k", "x"]
    references = ["a b c d f e g", "g h i j k", "y"]

    scores = score(hypotheses, references)

    assert scores.bleu == pytest.approx(bleu_by_definition(hypotheses, references))


def test_the_signature_says_how_bleu_was_computed():
    parts = score(HYPOTHESES, REFERENCES).signature.split("|")

    assert parts[:5] == ["nrefs:1", "case:mixed", "eff:no", "tok:13a", "smooth:exp"]
    assert parts[5].startswith("version:")


def test_text_is_tokenised_before_scoring():
    attached = score(["A dog runs through the snow!"], ["A dog runs through the snow."])

    # Six of seven tokens match, but only five of six words.
    assert attached.bleu == pytest.approx(100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25)


def test_perfect_translations_get_the_best_scores():
    scores = score(REFERENCES, REFERENCES)

    assert (scores.bleu, scores.chrf, scores.ter) == (100, 100, 0)


@pytest.mark.parametrize("num_words", range(1, 12))
def test_no_rounding_error_takes_a_score_above_100(num_words):
    text = " ".join("abcdefghijkl"[:num_words])

    scores = score([text], [text])

    assert max(scores.bleu, scores.chrf) <= 100


def test_ter_may_exceed_100():
    assert score(["the dog runs fast"], ["cat"]).ter == pytest.approx(400)


def test_case_matters():
    assert score([text.lower() for text in REFERENCES], REFERENCES).bleu < 90


def test_ter_counts_edits_for_each_reference_word():
    scores = score(["the dog runs"], ["the dog runs fast"])

    assert scores.ter == pytest.approx(100 * 1 / 4)


@pytest.mark.parametrize("tokenize", ["zh", "char"])
def test_ter_counts_edits_of_chinese_characters(tokenize):
    hypotheses, references = ["\u6211\u559c\u6b22\u82f9\u679c"], ["\u6211\u559c\u6b22\u68a8"]

    assert score(hypotheses, references, rule=ScoringRule(tokenize)).ter == pytest.approx(
        100 * 2 / 4
    )


def test_ter_is_left_out_on_request_and_the_rest_stays():
    with_ter = score(HYPOTHESES, REFERENCES)
    without = score(HYPOTHESES, REFERENCES, ter=False)

    assert without.ter is None
    assert (without.bleu, without.chrf) == (with_ter.bleu, with_ter.chrf)


def test_an_empty_translation_lowers_the_score():
    scores = score(["", "the dog runs fast today"], ["a cat", "the dog runs fast today"])

    assert 0 < scores.bleu < 100


def test_nothing_to_score_is_an_error():
    with pytest.raises(ValueError, match="no translations to score"):
        score([], [])


def test_different_counts_are_an_error_with_both_counts():
    with pytest.raises(ValueError, match="2 translations but 3 references"):
        score(HYPOTHESES[:2], REFERENCES)
