"""BLEU splits each language into words in its own way, and says so in its signature."""

import random
import sys

import pytest

from seq2seq.evaluation.bleu_tokenize import (
    CHOICES,
    ScoringRule,
    build_bleu,
    check_bleu_is_available,
    check_bleu_tokenize,
    choose_bleu_tokenize,
    describe_missing_spaces,
)
from seq2seq.evaluation.metrics import score
from seq2seq.evaluation.significance import Significance, compare_systems

SUBJECTS = ["\u72ac", "\u732b", "\u5c11\u5e74", "\u5973\u306e\u4eba", "\u5148\u751f"]
PLACES = ["\u516c\u5712\u3067", "\u5ddd\u306e\u305d\u3070\u3067", "\u96ea\u306e\u4e2d\u3067"]
OBJECTS = ["\u672c\u3092", "\u6c34\u3092", "\u5199\u771f\u3092", "\u6b4c\u3092"]
VERBS = ["\u8aad\u3093\u3067\u3044\u307e\u3059", "\u98f2\u307f\u307e\u3057\u305f"]
KEY = "training.validation.bleu_tokenize"


def japanese(size: int) -> list[str]:
    """Return sentences of a grammar of five words, without spaces."""
    draw = random.Random(1)
    return [
        f"{draw.choice(SUBJECTS)}\u304c{draw.choice(PLACES)}{draw.choice(OBJECTS)}"
        f"{draw.choice(VERBS)}\u3002"
        for _ in range(size)
    ]


REFERENCES = japanese(20)
HYPOTHESES = [*REFERENCES[:10], *reversed(REFERENCES[10:])]
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
def test_the_language_chooses_the_tokenizer(language: str, tokenize: str) -> None:
    assert choose_bleu_tokenize("auto", language=language) == tokenize


@pytest.mark.parametrize("value", CHOICES[1:])
def test_a_given_tokenizer_is_taken(value: str) -> None:
    assert choose_bleu_tokenize(value, language="ja") == value


def test_another_tokenizer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^x=moses is not a tokenizer of BLEU; one of: auto, 13a"):
        check_bleu_tokenize("moses", key="x")


@pytest.mark.parametrize("tokenize", ["13a", "intl", "zh", "char", "none"])
def test_the_signature_names_the_tokenizer(tokenize: str) -> None:
    scores = score(ENGLISH, ENGLISH, rule=ScoringRule(tokenize))

    assert scores.bleu == 100
    assert f"tok:{tokenize}" in scores.signature.split("|")


def test_without_case_lower_case_is_right():
    cased, lower = ["Der Hund sieht die Katze."], ["der hund sieht die katze."]

    scores = score(lower, cased, rule=ScoringRule(lowercase=True))

    assert (scores.bleu, scores.chrf, scores.ter) == (100, 100, 0)
    assert "case:lc" in scores.signature.split("|")
    assert score(lower, cased).bleu < 50


@pytest.mark.parametrize("rule", [ScoringRule(), ScoringRule("char", lowercase=True)])
def test_a_signature_gives_its_rule_back(rule):
    assert ScoringRule.of_signature(score(ENGLISH, ENGLISH, rule=rule).signature) == rule


def test_a_signature_of_japanese_words_gives_its_rule_back():
    signature = "nrefs:1|case:mixed|eff:no|tok:ja-mecab-0.996-IPA|smooth:exp|version:2.6.0"

    assert ScoringRule.of_signature(signature) == ScoringRule("ja-mecab")


def test_japanese_is_scored_by_words() -> None:
    pytest.importorskip("MeCab", reason="the extra ja is not installed")

    by_13a = score(HYPOTHESES, REFERENCES, ter=False)
    by_words = score(HYPOTHESES, REFERENCES, ter=False, rule=ScoringRule("ja-mecab"))

    assert by_13a.bleu == pytest.approx(0)  # a sentence is one word, which has no 4-gram
    assert 50 < by_words.bleu < 90
    assert "tok:ja-mecab" in by_words.signature
    assert (by_words.chrf, by_words.ter) == (by_13a.chrf, by_13a.ter)


def test_systems_are_compared_with_the_tokenizer() -> None:
    found = compare_systems(
        [("a", HYPOTHESES), ("b", REFERENCES)],
        [REFERENCES],
        significance=Significance.bootstrap,
        num_samples=20,
        rule=ScoringRule("char"),
    )

    assert "tok:char" in found.signatures["bleu"].split("|")
    first, second = found.scores["bleu"]
    expected = score(HYPOTHESES, REFERENCES, rule=ScoringRule("char")).bleu
    assert (first.score, second.score) == (pytest.approx(expected), 100)


@pytest.mark.parametrize(
    ("tokenize", "module", "extra"), [("ja-mecab", "MeCab", "ja"), ("ko-mecab", "mecab_ko", "ko")]
)
def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tokenize: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    tokenizer_module = f"sacrebleu.tokenizers.tokenizer_{tokenize.replace('-', '_')}"
    monkeypatch.delitem(sys.modules, tokenizer_module, raising=False)

    with pytest.raises(ValueError, match="packages are missing") as caught:
        check_bleu_is_available(tokenize, key=KEY)

    assert str(caught.value) == (
        f"BLEU cannot use {KEY}={tokenize}: packages are missing; "
        f"pip install 'attention-seq2seq[{extra}]', or set {KEY}=char"
    )
    monkeypatch.delitem(sys.modules, tokenizer_module, raising=False)


def test_a_failed_download_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("no\nroute")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", fail)
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", "nowhere")

    with pytest.raises(
        ValueError, match=r"^BLEU cannot use x=flores200: no route; set x=char$"
    ) as caught:
        build_bleu(ScoringRule("flores200"), key="x")

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tokenize", ["13a", "intl", "zh", "char", "none"])
def test_ordinary_tokenizers_are_not_loaded_for_the_check(
    monkeypatch: pytest.MonkeyPatch, tokenize: str
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)

    check_bleu_is_available(tokenize, key=KEY)


@pytest.mark.parametrize("tokenize", ["13a", "intl", "none"])
def test_text_without_spaces_is_reported(tokenize: str) -> None:
    warning = describe_missing_spaces(REFERENCES, tokenize, key="x")

    assert warning == (
        f"the references have hardly any spaces, so BLEU with x={tokenize} takes whole clauses as "
        "words; set x=char, or zh, ja-mecab or ko-mecab if it is the language"
    )


@pytest.mark.parametrize("tokenize", ["zh", "ja-mecab", "ko-mecab", "char", "flores200"])
def test_tokenizers_that_need_no_spaces_are_not_reported(tokenize: str) -> None:
    assert describe_missing_spaces(REFERENCES, tokenize, key="x") is None


@pytest.mark.parametrize(
    "lines",
    [
        ENGLISH,
        ["Donaudampfschifffahrtsgesellschaft ist lang.", "Ja."],
        ["abcde", "edcba"],
        [" ".join(line) for line in REFERENCES],
        ["\uac1c\uac00 \ub208\uc744 \ub2ec\ub9b0\ub2e4."],
        ["I like \u6771\u4eac very much."],
        [""],
    ],
)
def test_text_with_spaces_is_not_reported(lines: list[str]) -> None:
    assert describe_missing_spaces(lines, "13a", key="x") is None


@pytest.mark.parametrize(
    "lines",
    [
        ["\u6211\u559c\u6b22\u82f9\u679c\u3002"],
        ["\u0e09\u0e31\u0e19\u0e0a\u0e2d\u0e1a\u0e41\u0e2d\u0e1b\u0e40\u0e1b\u0e34\u0e49\u0e25"],
        ["thisisalanguagewithoutanyspacesatall"],
    ],
)
def test_other_text_without_spaces_is_reported(lines: list[str]) -> None:
    assert describe_missing_spaces(lines, "13a", key="x") is not None
