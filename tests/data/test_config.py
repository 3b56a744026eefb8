"""Configurations of corpora and tokenizers refuse bad values before anything is read."""

import re
from dataclasses import replace

import pytest
from tiny_data import shared, unigram_config, words_config

from seq2seq.data.config import (
    CharactersConfig,
    FilesConfig,
    FileSet,
    GrammarConfig,
    Multi30kConfig,
    read_file_sets,
)

SHARED = shared()
GRAMMAR = GrammarConfig(**SHARED, num_train=5)
MULTI30K = Multi30kConfig(**SHARED, root="data/multi30k", test="test_2016_flickr")
FILES = FilesConfig(**SHARED, train=["a.de", "a.en"], valid=["b.tsv"], test=["c.tsv.gz"])


KEY = "data.train"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a.de", "a.en"], [FileSet(key=KEY, name="", paths=("a.de", "a.en"))]),
        (["a.tsv"], [FileSet(key=KEY, name="", paths=("a.tsv",))]),
        (
            {"files": ["a.tsv"], "tag": "<2de>"},
            [FileSet(key=KEY, name="", paths=("a.tsv",), tag="<2de>")],
        ),
        (
            {"news": {"files": ["a", "b"], "weight": 2}, "talks": ["c.tsv"]},
            [
                FileSet(key=f"{KEY}.news", name="news", paths=("a", "b"), weight=2.0),
                FileSet(key=f"{KEY}.talks", name="talks", paths=("c.tsv",)),
            ],
        ),
        (
            [["a", "b"], {"files": ["c.tsv"], "weight": 0.5}],
            [
                FileSet(key=f"{KEY}.1", name="1", paths=("a", "b")),
                FileSet(key=f"{KEY}.2", name="2", paths=("c.tsv",), weight=0.5),
            ],
        ),
    ],
)
def test_one_corpus_or_several_are_read(value, expected):
    assert read_file_sets(KEY, value) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a.de", "data.train=a.de must contain one to three paths"),
        (None, "data.train=null must contain one to three paths"),
        ({}, "data.train={} must contain one to three paths"),
        ({"a b": ["c"]}, "data.train: 'a b' is not a name for a corpus; use letters"),
        ({"news": "a.tsv"}, "data.train.news=a.tsv must contain one to three paths"),
        ([["a", "b"], "c"], "data.train.2=c must contain one to three paths"),
        *(
            (paths, f"data.train={paths} must contain one to three paths; give")
            for paths in ([], ["a", "b", "c", "d"], [""], ["a", " "])
        ),
        (
            {"news": {"files": ["a"], "wieght": 2}},
            "unknown key 'data.train.news.wieght'; one of: files, tag, weight",
        ),
        ({"files": ["a"], "weight": 0}, "data.train.weight=0 must be above 0"),
        ({"files": ["a"], "weight": True}, "data.train.weight=true must be a number"),
        (
            {"files": ["a"], "weight": float("inf")},
            "data.train.weight=inf must be finite and ",
        ),
        ({"files": ["a"], "weight": "2x"}, "data.train.weight='2x' must be a number"),
        ({"files": ["a"], "tag": 2}, "data.train.tag: 2 must be a string without spaces"),
    ],
)
def test_other_values_are_refused(value, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        read_file_sets(KEY, value)


UNIGRAM = unigram_config()
BPE = replace(UNIGRAM, name="bpe")
WORDS = words_config(vocabulary_size=6)
CHARACTERS = CharactersConfig(name="characters", vocabulary_size=40, min_frequency=1)
SEVERAL = {"news": {"files": ["a.de", "a.en"], "weight": 2, "tag": "<x>"}, "talks": ["b.tsv"]}


@pytest.mark.parametrize(
    ("config", "values", "message"),
    [
        (GRAMMAR, {"source": "en"}, "data.source=en and data.target=en: the bundled corpus is"),
        (FILES, {"train": {"news": list("abcd")}}, "data.train.news=['a', 'b', 'c', 'd'] must "),
        (
            FILES,
            {"train": SEVERAL, "temperature": 0.5},
            "data.temperature=0.5 must be at least 1",
        ),
        (FILES, {"test": [["a.tsv"], ["b.tsv"]]}, "data.test names 2 sets, but a run scores one"),
        (
            FILES,
            {"valid": {"files": ["a.tsv"], "weight": 2}},
            "unknown key 'data.valid.weight'; one of: files, tag",
        ),
        *(
            (config, {"vocabulary_size": 4}, "tokenizer.vocabulary_size=4 must be more than 4,")
            for config in (UNIGRAM, BPE, WORDS, CHARACTERS)
        ),
        (BPE, {"sampling_alpha": 1.1}, "tokenizer.sampling_alpha=1.1 is a probability with BPE"),
        *(
            (WORDS, {"user_symbols": symbols}, f"tokenizer.{message}")
            for symbols, message in [
                ([""], "user_symbols: '' must be a string without spaces and "),
                (["<2 de>"], "user_symbols: '<2 de>' must be a string without spaces and "),
                (["<\u200b>"], "user_symbols: '<\\u200b>' must be a string without spaces and "),
                (["</s>"], "user_symbols: '</s>' must be a string without spaces and "),
                (["<a>", "<b>"], "vocabulary_size=6 must be more than 6, the number of special "),
            ]
        ),
        *(
            (CHARACTERS, {"protect": [pattern]}, f"tokenizer.protect{message}")
            for pattern, message in [
                ("colors", ": 'colors' is none of tags, emails, "),
                ("/[/", "=/[/: unterminated character set"),
                ("/(?i)a/", "=/(?i)a/: global flags not at the start"),
                ("/a)|(?:b/", "=/a)|(?:b/: unbalanced parenthesis"),
                ("/(a)/", ": '/(a)/' is none of tags, "),
                ("/[0-9]*/", ": '/[0-9]*/' is none of tags, "),
            ]
        ),
    ],
)
def test_values_that_do_not_fit_together_are_refused(config, values, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        replace(config, **values)
