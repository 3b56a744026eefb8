"""SentencePiece models are lossless, reproducible and silent, and their errors are clear."""

import logging
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_data import list_corpus, unigram_config

from seq2seq.data.config import Normalization, SentencePieceConfig
from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers import sentencepiece
from seq2seq.data.tokenizers.interface import TokenizerPair, share_ids
from seq2seq.data.tokenizers.ruled import (
    plain_tokenizer,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.data.tokenizers.sentencepiece import SentencePieceTokenizer
from seq2seq.files.paths import ReadingError
from seq2seq.special_tokens import UNK
from seq2seq.text.rules import split_words

CONFIG = unigram_config(vocabulary_size=48)
NAMES = ["unigram", "bpe"]
CHARACTERS = "abcdehlnouäöüß .,\u00a0\u00bd\ufb01"
ODD_CHARACTERS = "ab. \t\r\x00\u00a0\u0301\u2028\u2047\u2581\u3000\u65e5\U0001f600"
SETTINGS = settings(max_examples=30, database=None)
WORDS = ["hund", "haus", "blau", "ab", "neben", "schön", "über", "fuß", "haben", "hundeleben"]


def small_corpus() -> Corpus:
    lines = [f"{left} {right}." for left in WORDS for right in WORDS]
    pairs = [(line, f"{line.upper()} {CHARACTERS}") for line in [*lines, CHARACTERS]]
    return list_corpus(pairs)


def train(config: SentencePieceConfig) -> SentencePieceTokenizer:
    tokenizer = plain_tokenizer(train_tokenizers(config, small_corpus()).source)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


UNIGRAM, BPE = (train(replace(CONFIG, name=name)) for name in NAMES)
FOLDED = train(replace(CONFIG, normalization=Normalization.nmt_nfkc_cf))


@pytest.mark.parametrize("tokenizer", [UNIGRAM, BPE])
@settings(SETTINGS)
@given(text=st.text(alphabet=CHARACTERS, max_size=20))
def test_any_text_of_known_characters_is_restored(tokenizer, text):
    ids = tokenizer.encode([text])[0]

    assert UNK not in ids
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("tokenizer", [UNIGRAM, BPE, FOLDED])
@settings(SETTINGS)
@given(text=st.text(alphabet=CHARACTERS + ODD_CHARACTERS + "AE\uff21\u200b\u00a8", max_size=20))
def test_any_text_at_all_has_a_word_for_each_id(tokenizer, text):
    ids = tokenizer.encode([text])[0]

    words = tokenizer.words(text, ids)

    assert len(words) == len(ids)
    assert words == sorted(words)
    assert set(words) <= set(range(max(1, len(split_words(text)))))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("normalization", "text"),
    [
        (Normalization.identity, "HUND hu\u00df.\u00a0\ufb01b\u00bd"),
        (Normalization.nmt_nfkc, "HUND hu\u00df. fib1\u20442"),
        (Normalization.nmt_nfkc_cf, "hund hu\u00df. fib1\u20442"),
    ],
)
def test_text_is_normalised_as_configured(name, normalization, text):
    config = replace(CONFIG, joint=True, vocabulary_size=70, name=name, normalization=normalization)
    corpus = list_corpus([("HUND hund hu\u00df. 12\u2044", CHARACTERS)] * 5)

    tokenizer = train_tokenizers(config, corpus).source

    assert tokenizer.decode(tokenizer.encode(["HUND hu\u00df.\u00a0\ufb01b\u00bd"])[0]) == text


@pytest.mark.parametrize("normalization", Normalization)
def test_the_joiner_of_persian_stays(normalization):
    text = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    config = replace(CONFIG, joint=True, vocabulary_size=40, normalization=normalization)

    tokenizer = train_tokenizers(config, list_corpus([(text, "ab")] * 5)).source

    assert tokenizer.decode(tokenizer.encode([text])[0]) == text


def test_the_ids_of_normalised_words_belong_to_the_words_of_the_text():
    text = "HUND Haus \ufb01 \uff21b"  # \ufb01 becomes two letters
    ids = FOLDED.encode([text])[0]

    owners = FOLDED.words(text, ids)

    words = [
        [i for i, owner in zip(ids, owners, strict=True) if owner == index] for index in range(4)
    ]
    assert [FOLDED.decode(word).strip() for word in words] == ["hund", "haus", "fi", "ab"]


def test_random_segmentations_follow_alpha():
    lines = [f"{left} {right}." for left in WORDS for right in WORDS]

    def mean_length(tokenizer: SentencePieceTokenizer, alpha: float) -> float:
        drawn = tokenizer.sample(lines, seed=1, alpha=alpha)
        return sum(map(len, drawn)) / len(lines)

    plain, bpe = (sum(map(len, each.encode(lines))) / len(lines) for each in (UNIGRAM, BPE))
    assert mean_length(BPE, 0.5) > mean_length(BPE, 0.1) > bpe
    assert mean_length(BPE, 1.0) == sum(map(len, lines)) / len(lines) + 1  # single characters
    assert mean_length(UNIGRAM, 0.01) > mean_length(UNIGRAM, 0.05) > plain


@pytest.mark.parametrize("name", NAMES)
def test_a_small_corpus_gives_a_smaller_vocabulary_and_a_message(name, caplog, capfd):
    with caplog.at_level(logging.INFO):
        tokenizer = train(replace(CONFIG, name=name, vocabulary_size=9000))

    # Two languages, one line each.
    assert caplog.messages[0] == (
        f"train (source): the vocabulary has {len(tokenizer)} tokens, fewer than "
        "tokenizer.vocabulary_size allows"
    )
    assert len(caplog.messages) == 2
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", NAMES)
def test_a_vocabulary_smaller_than_the_alphabet_is_explained(name, capfd):
    with pytest.raises(
        ValueError,
        match=(
            r"train \(source\): tokenizer\.vocabulary_size=10: .* Vocabulary size is smaller than "
            r"required_chars\. 10 vs \d\d"
        ),
    ):
        train(replace(CONFIG, name=name, vocabulary_size=10))

    assert capfd.readouterr() == ("", "")


def test_other_failures_of_the_library_name_the_configuration(monkeypatch):
    def fail(**_: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr("seq2seq.data.tokenizers.sentencepiece.SentencePieceTrainer.train", fail)

    with pytest.raises(ReadingError, match=r"tokenizer\.vocabulary_size=48: no luck$"):
        train(replace(CONFIG, name="bpe"))


def test_training_reads_only_a_sample_of_a_large_corpus(caplog, monkeypatch):
    monkeypatch.setattr(sentencepiece, "_MOST_LINES", 7)
    alphabet = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    corpus = list_corpus([(letter, letter) for letter in alphabet])

    with caplog.at_level(logging.INFO):
        tokenizer = train_tokenizers(CONFIG, corpus).source

    known = [letter for letter in alphabet if UNK not in tokenizer.encode([letter])[0]]
    assert len(known) == 7
    assert known != alphabet[:7]
    assert "train (source): the tokenizer is trained on 7 of 26 lines" in caplog.messages


RESTRICTED = replace(CONFIG, joint=True, vocabulary_size=90)


def english_targets() -> Corpus:
    """Return a corpus whose source has letters and subwords that its target lacks."""
    english = ["dog", "house", "blue", "off", "next", "nice", "over", "foot", "have", "doghouse"]
    return list_corpus(
        (f"{a} {b}", f"{english[i]} {english[j]} {a}"[: 12 + i])
        for i, a in enumerate(WORDS)
        for j, b in enumerate(WORDS)
    )


@pytest.mark.parametrize("normalization", list(Normalization))
@pytest.mark.parametrize("name", NAMES)
def test_a_restricted_target_has_only_tokens_of_its_text_under_the_same_ids(
    name, normalization, monkeypatch
):
    corpus = english_targets()
    config = replace(RESTRICTED, name=name, normalization=normalization)
    with monkeypatch.context() as patch:
        patch.setattr(
            sentencepiece,
            "_restrict_target",
            lambda tokenizer, *_, **__: TokenizerPair(tokenizer, tokenizer),
        )
        joint = train_tokenizers(config, corpus).source

    tokenizers = train_tokenizers(config, corpus)

    source, target = tokenizers
    targets = [pair.target for pair in corpus]
    texts = [*targets, *(pair.source for pair in corpus), ODD_CHARACTERS]
    labels = [list(map(joint.tokens, joint.encode(lines))) for lines in (targets, texts)]
    assert [target.tokens(ids) for ids in target.encode(targets)] == labels[0]
    assert [source.tokens(ids) for ids in source.encode(texts)] == labels[1]
    assert source.encode(targets) == target.encode(targets)
    assert len(target) < len(source) == len(joint)
    assert share_ids(tokenizers)
    spare = set(target.tokens(range(4, len(target)))) - {each for row in labels[0] for each in row}
    spare = {each for each in spare if len(each) > 1}
    assert all(any(each in label for row in labels[0] for label in row) for each in spare)
    assert [row.count(UNK) for row in target.encode(texts)] == [
        row.count(UNK) for row in source.encode(texts)
    ]
    sampled = target.sample(texts, seed=3, alpha=0.2)
    assert max(max(ids) for ids in sampled) < len(target)
    assert [target.decode(ids) for ids in target.encode(targets)] == [
        joint.decode(ids) for ids in joint.encode(targets)
    ]


def test_restricted_tokenizers_are_restored_and_keep_symbols():
    config = replace(RESTRICTED, user_symbols=["<2de>"])
    restored = tokenizers_from_state(tokenizers_state(train_tokenizers(config, english_targets())))

    assert [each.tokens(each.encode(["<2de>"])[0])[-1] for each in restored] == ["<2de>"] * 2
    assert share_ids(restored)


def test_a_very_long_line_is_learnt_from():
    corpus = list_corpus([("ab " * 3000 + "q", "t")])

    tokenizer = train_tokenizers(CONFIG, corpus).source

    assert UNK not in tokenizer.encode(["q"])[0]
