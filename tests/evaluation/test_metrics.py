import itertools
import sys

import numpy as np
import pytest
import sacrebleu
from tiny_study import BAD, REFERENCE

from seq2seq.evaluation.measures import score_texts
from seq2seq.evaluation.metrics import (
    CHOICES,
    DEFAULT_RULE,
    ScoringRule,
    build_bleu,
    build_metrics,
    check_bleu_is_available,
    choose_bleu_tokenize,
    chrf_of_each_other,
    equal_bins,
    signature,
    text_warnings,
)
from seq2seq.evaluation.significance import compare_systems

SUBJECTS = ["\u72ac", "\u732b", "\u5c11\u5e74", "\u5973\u306e\u4eba", "\u5148\u751f"]
PLACES = ["\u516c\u5712\u3067", "\u5ddd\u306e\u305d\u3070\u3067", "\u96ea\u306e\u4e2d\u3067"]
OBJECTS = ["\u672c\u3092", "\u6c34\u3092", "\u5199\u771f\u3092", "\u6b4c\u3092"]
VERBS = ["\u8aad\u3093\u3067\u3044\u307e\u3059", "\u98f2\u307f\u307e\u3057\u305f"]
KEY = "training.validation.bleu_tokenize"
JAPANESE = [
    f"{subject}\u304c{place}{thing}{VERBS[i % 2]}\u3002"
    for i, (subject, place, thing) in enumerate(itertools.product(SUBJECTS, PLACES, OBJECTS))
][::3]
JAPANESE_HYPOTHESES = [*JAPANESE[:10], *reversed(JAPANESE[10:])]
ENGLISH = ["A dog runs through the snow.", "Two men are sitting on a bench."]


@pytest.mark.parametrize(
    ("language", "tokenize"),
    [
        ("de", "13a"),
        ("target", "13a"),
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("zh_Hant", "zh"),
        ("ZHO", "zh"),
        ("ja", "ja-mecab"),
        ("jpn_Jpan", "ja-mecab"),
        ("ko", "ko-mecab"),
        ("th", "13a"),
        ("jam", "13a"),
    ],
)
def test_the_language_chooses_the_tokenizer(language, tokenize):
    assert choose_bleu_tokenize("auto", language=language) == tokenize
    assert {choose_bleu_tokenize(value, language=language) for value in CHOICES[1:]} == {
        *CHOICES[1:]
    }


def test_without_case_lower_case_is_right():
    cased, lower = ["Der Hund sieht die Katze."], ["der hund sieht die katze."]

    scores = score_texts(lower, cased, rule=ScoringRule(lowercase=True))

    assert list(scores.values()) == [100, 100, 0]
    assert "case:lc" in str(signature(ScoringRule(lowercase=True))).split("|")
    assert score_texts(lower, cased)["bleu"] < 50


@pytest.mark.parametrize("tokenize", ["13a", "intl", "zh", "char", "none"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_a_signature_names_tokenizer_and_case_and_gives_the_rule_back(tokenize, lowercase):
    rule = ScoringRule(tokenize, lowercase=lowercase)

    text = str(signature(rule))

    case = "lc" if lowercase else "mixed"
    expected = ["nrefs:1", f"case:{case}", "eff:no", f"tok:{tokenize}", "smooth:exp"]
    assert text.split("|")[:5] == expected
    assert ScoringRule.of_signature(text) == rule


def test_a_signature_of_japanese_words_gives_its_rule_back():
    text = "nrefs:1|case:mixed|eff:no|tok:ja-mecab-0.996-IPA|smooth:exp|version:2.6.0"

    assert ScoringRule.of_signature(text) == ScoringRule("ja-mecab")


def test_japanese_is_scored_by_words():
    pytest.importorskip("MeCab", reason="the extra ja is not installed")

    by_13a = score_texts(JAPANESE_HYPOTHESES, JAPANESE)
    by_words = score_texts(JAPANESE_HYPOTHESES, JAPANESE, rule=ScoringRule("ja-mecab"))

    assert by_13a["bleu"] == pytest.approx(0)  # a sentence is one word, which has no 4-gram
    assert 50 < by_words["bleu"] < 90
    assert "tok:ja-mecab" in str(signature(ScoringRule("ja-mecab")))
    assert by_words["chrf"] == by_13a["chrf"]


def test_systems_are_compared_with_the_tokenizer():
    found = compare_systems(
        [("a", JAPANESE_HYPOTHESES), ("b", JAPANESE)],
        [JAPANESE],
        num_samples=20,
        rule=ScoringRule("char"),
    )

    assert "tok:char" in found.signatures["bleu"].split("|")
    first, second = found.scores["bleu"]
    expected = score_texts(JAPANESE_HYPOTHESES, JAPANESE, rule=ScoringRule("char"))["bleu"]
    assert (first.score, second.score) == (pytest.approx(expected), 100)


@pytest.mark.parametrize(
    ("tokenize", "module", "extra"), [("ja-mecab", "MeCab", "ja"), ("ko-mecab", "mecab_ko", "ko")]
)
def test_a_missing_extra_is_named(monkeypatch, tokenize, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    tokenizer_module = f"sacrebleu.tokenizers.tokenizer_{tokenize.replace('-', '_')}"
    monkeypatch.delitem(sys.modules, tokenizer_module, raising=False)

    with pytest.raises(ValueError, match=rf"^{KEY}={tokenize}: .* sacrebleu\[{extra}\]$"):
        check_bleu_is_available(tokenize, key=KEY)

    monkeypatch.delitem(sys.modules, tokenizer_module, raising=False)


def test_a_failed_download_is_one_line(monkeypatch):
    def fail(*arguments: object) -> None:
        raise OSError("no\nroute")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", fail)
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", "nowhere")

    with pytest.raises(ValueError, match=r"^x=flores200: no route$"):
        build_bleu(ScoringRule("flores200"), key="x")


@pytest.mark.parametrize("tokenize", ["13a", "intl", "zh", "char", "none"])
def test_ordinary_tokenizers_are_not_loaded_for_the_check(monkeypatch, tokenize):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)

    check_bleu_is_available(tokenize, key=KEY)


@pytest.mark.parametrize("tokenize", ["13a", "intl", "none"])
@pytest.mark.parametrize(
    "lines",
    [
        JAPANESE,
        ["\u6211\u5f88\u51b7\u4e86\u5417\uff1f"] * 3,
        ["thisisalanguagewithoutanyspacesatall"],
    ],
)
def test_text_without_spaces_is_reported(tokenize, lines):
    [warning] = text_warnings({"a": ENGLISH, "the set": lines, "b": lines}, tokenize, key="x")

    assert warning == (
        f"the set has hardly any spaces, so BLEU with x={tokenize} takes whole clauses as "
        "words; set x=char, or zh, ja-mecab or ko-mecab if it is the language"
    )


@pytest.mark.parametrize(
    ("tokenize", "lines"),
    [
        *((each, JAPANESE) for each in ("zh", "ja-mecab", "ko-mecab", "char", "flores200")),
        ("13a", ENGLISH),
        ("13a", ["Donaudampfschifffahrtsgesellschaft ist lang.", "Ja."]),
        ("13a", ["\u79c1 \u306f \u6771\u4eac \u306b \u884c\u304f \u3002"]),
        ("13a", ["\u0e09\u0e31\u0e19 \u0e01\u0e34\u0e19 \u0e02\u0e49\u0e32\u0e27"]),
        ("13a", [" ".join(line) for line in JAPANESE]),
        ("13a", ["I like \u6771\u4eac very much."]),
        ("13a", [""]),
        ("13a", [" ".join(["long"] * 500)]),
    ],
)
def test_text_whose_tokenizer_finds_words_is_not_reported(tokenize, lines):
    warnings = text_warnings({"the set": lines}, tokenize, key="x")

    assert not [each for each in warnings if "looks tokenized" not in each]


@pytest.mark.parametrize(
    ("values", "num_bins"),
    [([7], 5), ([4, 4, 4, 4], 3), (list(range(1, 101)), 5), ([1, 1, 1, 50], 4), ([2, 9], 5)],
)
def test_every_value_is_in_exactly_one_range_and_no_range_is_empty(values, num_bins):
    bins = equal_bins(values, num_bins=num_bins)

    assert len(bins) <= num_bins
    assert all(sum(each.has(value) for each in bins) == 1 for value in values)
    assert all(any(each.has(value) for value in values) for each in bins)


def test_chrf_of_each_other_is_sacrebleus_score_of_every_pair():
    texts = [*REFERENCE, *BAD, "x", "a a a", "A dog"]

    found = chrf_of_each_other(texts)

    expected = [[sacrebleu.sentence_chrf(a, [b]).score for b in texts] for a in texts]
    assert found.tolist() == [[min(each, 100.0) for each in row] for row in expected]
    assert not np.array_equal(found, found.T)


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (["A dog runs .", "Two dogs .\n", "Yes"], "2 of 3"),
        (["\u72ac \u304c \u8d70\u308b \u3002"], "1 of 1"),
        (["A dog runs.", 'He said " no .', "Yes."], None),
        (["Vraiment ?", "Oui !"], None),
        ([], None),
    ],
)
def test_tokenized_text_gets_one_warning_of_ours(lines, number, caplog):
    found = list(text_warnings({"data.valid": lines}, "zh", key="x"))
    build_metrics(DEFAULT_RULE)["bleu"].corpus_score(["A dog ."] * 100, [["A dog ."] * 100])

    expected = f"data.valid looks tokenized: {number} lines end in ' .'; detokenize it"
    assert [each[: len(expected)] for each in found] == ([] if number is None else [expected])
    assert not caplog.records
