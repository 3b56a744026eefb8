"""Properties of all kinds of tokenizers, with symbols and without."""

import pickle
from dataclasses import replace

import pytest
import torch
from tiny_data import BASE, list_corpus, unigram_config, words_config
from tiny_training import two_corpora

from seq2seq.data.config import CharactersConfig
from seq2seq.data.tokenizers.interface import SamplingTokenizer, TokenizerPair, word_indices
from seq2seq.data.tokenizers.ruled import (
    RuledTokenizer,
    choose_rules,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.data.tokenizers.tags import check_tags, required_tags, with_tags
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.special_tokens import BOS, EOS, PAD, SPACE_LABEL, UNK
from seq2seq.text import rules as text_rules
from seq2seq.text.patterns import PATTERNS
from seq2seq.text.rules import TextRules, split_words

UNIGRAM = unigram_config()
CHARACTERS = CharactersConfig(name="characters", vocabulary_size=50, min_frequency=1)
CONFIGS = {
    "unigram": UNIGRAM,
    "bpe": replace(UNIGRAM, name="bpe"),
    "joint": replace(UNIGRAM, joint=True),
    "words": words_config(splitter="basic_english"),
    "characters": CHARACTERS,
}
SENTENCES = [
    ("Ein Hund läuft, und zwei Hunde schlafen.", "a dog is running, and two dogs sleep."),
    ("Zwei Männer stehen im Schnee!", "two men are standing in the snow!"),
    ("Läuft ein Mann?", "is a man running?"),
]
CORPUS = list_corpus(SENTENCES)


def test_own_patterns_protect_as_they_are_written():
    config = replace(CHARACTERS, protect=["//etc/[a-z]+//", r"/a\//"])

    rules = train_tokenizers(config, CORPUS).source.rules

    assert rules.prepare("in //etc/ab/ or a/.").spans == ("/etc/ab/", "a/")


def test_a_symbol_of_the_user_unprotects_no_code_that_begins_with_it():
    config = replace(CHARACTERS, protect=["codes"], user_symbols=["EN", "A4"])

    matches = choose_rules(config, list_corpus([])).matches("EN EN50128 A4 B5")

    assert [match[0] for match in matches] == ["EN50128", "B5"]


def test_the_kinds_that_the_training_text_copies_are_protected(caplog):
    copied = [(f"in A{number}", f"at A{number}") for number in range(50)]
    rewritten = [(f"{number} Hunde", "some dogs") for number in range(20)]
    rare = [("ja \U0001f600", "yes")] * 19
    corpus = list_corpus([*copied, *rewritten, *rare])

    with caplog.at_level("INFO"):
        rules = train_tokenizers(CHARACTERS, corpus).source.rules

    assert rules.prepare("5 A7 a@b.de \U0001f600").spans == ("A7", "a@b.de", "\U0001f600")
    assert "codes 50 of 50, numbers 0 of 20 (not protected), emoji 0 of 19" in caplog.text


def test_decimal_numbers_that_the_training_text_rewrites_are_not_protected(caplog):
    prices = [(f"Nr. {place}: {place},50 Euro", f"no. {place}: {place}.50") for place in range(50)]

    with caplog.at_level("INFO"):
        rules = train_tokenizers(CHARACTERS, list_corpus(prices)).source.rules

    assert rules.prepare("7 um 12:30, -1,50 oder 1.250,50").spans == ("7", "12:30")
    assert "numbers 50 of 50" in caplog.text
    assert "decimals 0 of 50 (not protected)" in caplog.text
    seldom = train_tokenizers(CHARACTERS, list_corpus([*prices, *[("ja", "yes")] * 5000])).source
    assert seldom.rules.prepare("1,50").spans == ("1,50",)


@pytest.fixture(scope="module", params=CONFIGS)
def tokenizers(request):
    return train_tokenizers(CONFIGS[request.param], CORPUS)


def test_known_text_is_restored_from_ids_that_are_not_special(tokenizers):
    for tokenizer, lines in zip(tokenizers, zip(*SENTENCES, strict=True), strict=True):
        assert tokenizer.tokens([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
        for line, ids in zip(lines, tokenizer.encode(lines), strict=True):
            assert EOS < min(ids) <= max(ids) < len(tokenizer)
            assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == line


def test_unknown_text_shows_as_its_sign_and_an_empty_line_has_no_ids(tokenizers):
    empty, ids = tokenizers.source.encode(["", "Ein \u65e5 Hund"])

    assert UNK in ids
    assert tokenizers.source.decode(ids) == "Ein \u2047 Hund"
    assert empty == []
    assert tokenizers.source.decode([]) == ""


@pytest.mark.parametrize(
    "line",
    [
        *("  Ein\t Hund \u00a0läuft ,  und", "Ein Hund", " zwei\u2028Hunde."),
        *("Ein \u65e5 \u672c Hund", "\u65e5\u672c Hund \u65e5Mann\u672c."),  # unknown characters
    ],
)
def test_each_id_belongs_to_a_word_in_order(tokenizers, line):
    ids = tokenizers.source.encode([line])[0]

    words = tokenizers.source.words(line, ids)

    assert len(words) == len(ids)
    assert words == sorted(words)
    assert set(words) == set(range(len(split_words(line))))


@pytest.mark.parametrize("symbols", [[], ["<2de>"]])
@pytest.mark.parametrize("name", CONFIGS)
def test_tokenizers_trained_again_or_saved_or_sent_are_the_same(name, symbols, tmp_path):
    config = replace(CONFIGS[name], user_symbols=symbols)
    tokenizers, again = train_tokenizers(config, CORPUS), train_tokenizers(config, CORPUS)
    lines = [f"<2de> {source} \u65e5" for source, _ in SENTENCES]
    torch.save(tokenizers_state(tokenizers), tmp_path / "state.pt")

    restored = tokenizers_from_state(torch.load(tmp_path / "state.pt", weights_only=True))
    sent: TokenizerPair = pickle.loads(pickle.dumps(tokenizers))  # as torch.distributed sends it

    for copies in (again, restored, sent):
        for before, after in zip(tokenizers, copies, strict=True):
            assert after is not before
            assert after.encode(lines) == before.encode(lines)
            assert after.tokens(range(len(after))) == before.tokens(range(len(before)))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_corpus_without_text_is_refused(name):
    with pytest.raises(ValueError, match="train: no line has a source and a target"):
        train_tokenizers(CONFIGS[name], list_corpus([]))


@pytest.mark.parametrize(
    ("text", "surfaces", "expected"),
    [
        ("ab c", ["a", "b", " c"], [0, 0, 1]),
        ("ab c", [" ab", " ", "c"], [0, 1, 1]),
        (" ab  c ", [" ", "ab", " ", "c", " "], [0, 0, 1, 1, 1]),
        ("ab c", [None, "c"], [0, 1]),
        ("ab cd", ["a", None, "d"], [0, 0, 1]),
        ("ab c", [None, None, None], [0, 0, 1]),
        ("ab c", [None, None, None, None, "x"], [0, 0, 1, 1, 1]),
        ("ab c d", ["ab", "x", "d"], [0, 1, 2]),
        ("", ["a", None, ""], [0, 0, 0]),
        ("a b", [], []),
        ("A\u00a0b c", ["A", "b", "c"], [0, 0, 1]),
        ("a\u3000b\u202f?\u2009c\td\x85", ["a\u3000b", "\u202f?", " c", "d"], [0, 0, 0, 1]),
        ("a \u00a0 b", ["a", "\u00a0", "b"], [0, 2, 2]),
    ],
)
def test_tokens_are_traced_through_the_text(text, surfaces, expected):
    assert word_indices(text, surfaces) == expected


TAGS = ["<2de>", "<2fr>"]
TAGGED = {name: replace(config, user_symbols=TAGS) for name, config in CONFIGS.items()}
TAGGED["words"] = replace(TAGGED["words"], splitter="moses")
PAIRS = [
    ("<2de> ein hund läuft, und zwei hunde schlafen.", "a dog is running, and two dogs sleep."),
    ("<2fr> zwei männer stehen im schnee!", "two men are standing in the snow!"),
    ("<2de> 2 > 1 < 3, läuft ein mann de fr?", "is a man running?"),
]
TAGGED_CORPUS = list_corpus(PAIRS)


@pytest.fixture(scope="module", params=TAGGED)
def tagged(request):
    return train_tokenizers(TAGGED[request.param], TAGGED_CORPUS)


def visible(tokenizer, ids):
    return [label for label in tokenizer.tokens(ids) if label != SPACE_LABEL]


def test_text_beside_a_tag_has_the_tokens_that_it_has_alone_and_is_restored(tagged):
    for source, target in PAIRS:
        tag, _, text = source.partition(" ")
        both, alone, of_tag = tagged.source.encode([source, text, tag])
        assert visible(tagged.source, both) == visible(tagged.source, of_tag + alone)
        assert tagged.source.decode([BOS, *both, EOS]) == source
        line = f"{target} <2de>"
        assert tagged.target.decode(tagged.target.encode([line])[0]) == line


def test_the_vocabulary_counts_the_tags_and_has_nothing_of_them(tagged):
    labels = tagged.source.tokens(range(len(tagged.source)))

    assert [label for label in labels if "2" in label and label != "2"] == TAGS
    assert len(labels) <= 60


def test_a_tag_is_a_word_of_its_own_for_links(tagged):
    line = "<2de> ein hund <2fr>"
    [ids] = tagged.source.encode([line])
    labels = [label.strip(SPACE_LABEL) for label in tagged.source.tokens(ids)]

    words = tagged.source.words(line, ids)

    assert [word for word, label in zip(words, labels, strict=True) if label in TAGS] == [0, 3]


def test_the_longest_of_several_tags_is_found():
    tokenizer = train_tokenizers(replace(CHARACTERS, user_symbols=["@", "@de"]), CORPUS).source

    assert tokenizer.tokens(tokenizer.encode(["@de@"])[0]) == ["@de", "@"]


@pytest.mark.parametrize("name", ["unigram", "bpe"])
@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.9])
def test_sampling_never_splits_a_tag(name, alpha):
    tokenizer = train_tokenizers(TAGGED[name], TAGGED_CORPUS).source
    assert isinstance(tokenizer, SamplingTokenizer)
    lines = [source for source, _ in PAIRS]

    drawn = [tokenizer.sample(lines, seed=s, alpha=alpha) for s in range(50)]

    for rows in drawn:
        for line, row in zip(lines, rows, strict=True):
            assert line.split()[0] in tokenizer.tokens(row)
            assert tokenizer.decode(row) == line
    assert len({str(rows) for rows in drawn}) > 1
    assert drawn[7] == tokenizer.sample(lines, seed=7, alpha=alpha)


def test_leading_tags_are_those_before_the_text():
    rules = TextRules(tags=tuple(TAGS))
    for text, expected in {
        "<2de> ein hund": "<2de> ",
        "<2de> <2fr> ein": "<2de> <2fr> ",
        "<2fr>ein <2de>": "<2fr>",
        " <2de> ein": " <2de> ",
        " \t<2de> ein": " \t<2de> ",
        "  ein": "",
        "ein <2de> hund": "",
        "": "",
    }.items():
        assert rules.leading_tags(text) == expected
    assert TextRules().leading_tags("<2de> ab") == ""


@pytest.mark.parametrize("name", ["unigram", "words", "characters"])
def test_a_tag_of_letters_is_no_part_of_a_word(name):
    config = replace(TAGGED[name], user_symbols=["ei", "de>"])
    tokenizer = train_tokenizers(config, TAGGED_CORPUS).source
    [ids] = tokenizer.encode(["ei ein zwei ei, einei de>ei hund ade>b ei"])
    word, end = (tokenizer.encode([tag])[0][-1] for tag in config.user_symbols)

    assert [i for i in ids if i in (word, end)] == [word, word, end, word, word]
    if name != "words":  # which has unknown words
        assert tokenizer.decode(ids).count("ei") == 8


def with_tags_only(*tags: str) -> TokenizerPair:
    source = RuledTokenizer(CharacterTokenizer("abcde"), TextRules(tags=tags))
    return TokenizerPair(source, source)


def test_a_tag_is_no_second_time_among_the_symbols(tmp_path):
    config = replace(CONFIGS["words"], user_symbols=["<2b>", "<z>"])
    data = two_corpora(tmp_path, large={"tag": "<2b>"}, small={"tag": "<2a>"})

    assert with_tags(config, data).user_symbols == ["<2b>", "<z>", "<2a>"]
    assert with_tags(config, BASE).user_symbols == ["<2b>", "<z>"]
    assert required_tags(BASE) == []


@pytest.mark.parametrize(
    ("tag", "symbol", "key"),
    [("<z>", "<2b>", "data.train.small.tag"), ("<2b>", "<z>", "tokenizer.user_symbols")],
)
def test_symbols_that_the_tokenizers_would_split_are_refused(tmp_path, tag, symbol, key):
    config = replace(CONFIGS["words"], user_symbols=["<2b>", symbol])
    data = two_corpora(tmp_path, large={"tag": "<2b>"}, small={"tag": tag})

    with pytest.raises(ValueError, match=f"^{key}=<z> is not a symbol of the tokenizer"):
        check_tags(config, data, with_tags_only("<2b>"))


@pytest.mark.parametrize(
    ("large", "small", "required"),
    [
        ({"tag": "<2y>"}, {"tag": "<2x>"}, ["<2y>", "<2x>"]),
        ({"tag": "<2x>"}, {"tag": "<2x>"}, ["<2x>"]),
        ({"tag": "<2x>"}, {}, []),
        ({}, {}, []),
    ],
)
def test_tags_are_required_if_every_training_corpus_has_one(
    tmp_path, caplog, large, small, required
):
    data = two_corpora(tmp_path, large=large, small=small)

    check_tags(CONFIGS["words"], data, with_tags_only("<2x>", "<2y>"))

    assert required_tags(data) == required
    expected = (
        "data.valid, data.test: no tag, although every training corpus has one "
        f"({', '.join(required)}); "
    )
    assert [each.startswith(expected) for each in caplog.messages] == [True] * bool(required)


def test_symbols_of_a_prepared_text_are_encoded():
    rules = TextRules(normalizes=True, patterns={"numbers": PATTERNS["numbers"]})
    tokenizer = RuledTokenizer(CharacterTokenizer([*text_rules.SYMBOLS, *"ab "]), rules)
    prepared = rules.prepare("a 12\u00a0b")

    [ids] = tokenizer.encode([prepared.text])

    assert "".join(tokenizer.tokens(ids)).count(text_rules.SYMBOLS[0]) == 1
