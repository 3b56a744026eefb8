"""One corpus and several are read from the value of a key; other values are refused in a line."""

import re

import pytest

from seq2seq.data.files.sets import FileSet, read_file_sets

KEY = "data.train"


def test_a_list_of_paths_is_one_corpus():
    for paths in (["a.de", "a.en"], ["a.tsv"]):
        assert read_file_sets(KEY, paths) == [FileSet(key=KEY, name="", paths=tuple(paths))]


def test_files_with_a_tag_are_one_corpus():
    [found] = read_file_sets(KEY, {"files": ["a.tsv"], "tag": "<2de>"})

    assert found == FileSet(key=KEY, name="", paths=("a.tsv",), tag="<2de>")


def test_a_dictionary_names_its_corpora():
    found = read_file_sets(KEY, {"news": {"files": ["a", "b"], "weight": 2}, "talks": ["c.tsv"]})

    assert found == [
        FileSet(key=f"{KEY}.news", name="news", paths=("a", "b"), weight=2.0),
        FileSet(key=f"{KEY}.talks", name="talks", paths=("c.tsv",)),
    ]


def test_a_list_of_corpora_numbers_them():
    found = read_file_sets(KEY, [["a", "b"], {"files": ["c.tsv"], "weight": 0.5}])

    assert [(each.key, each.name, each.weight) for each in found] == [
        (f"{KEY}.1", "1", 1.0),
        (f"{KEY}.2", "2", 0.5),
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a.de", "data.train=a.de must be a list; write it in brackets, 'data.train=[...]'"),
        (None, "data.train=null must be a list"),
        (3, "data.train=3 must be a list"),
        ({}, "data.train={} names no corpus; give one, 'data.train={news:"),
        ({"files": ["a"], "weight": "2"}, "data.train.weight='2' must be a number above 0"),
        ({"a b": ["c"]}, "data.train: 'a b' is no name of a corpus; use letters"),
        ({"news": "a.tsv"}, "data.train.news=a.tsv is no corpus; give a list of one or two paths"),
        ([["a", "b"], "c"], "data.train.2=c is no corpus; give a list of one or two paths, or sev"),
        ({"news": {"weight": 2}}, "data.train.news={'weight': 2} is no corpus"),
        (
            {"news": {"files": ["a"], "wieght": 2}},
            "unknown key 'data.train.news.wieght'; one of: files, weight, tag",
        ),
        ({"files": "a.tsv"}, "data.train.files=a.tsv must be a list of one or two paths"),
        ({"files": ["a"], "weight": 0}, "data.train.weight=0 must be a number above 0"),
        ({"files": ["a"], "weight": True}, "data.train.weight=true must be a number above 0"),
        ({"files": ["a"], "weight": float("inf")}, "data.train.weight=inf must be a number above"),
        ({"files": ["a"], "weight": float("nan")}, "data.train.weight=nan must be a number above"),
        ({"files": ["a"], "weight": "2x"}, "data.train.weight='2x' must be a number above 0"),
        ({"files": ["a"], "tag": 2}, "data.train.tag=2 must be a text, such as '<2de>'"),
        ({"files": ["a"], "tag": "to de"}, "data.train.tag: 'to de' must be a text without spaces"),
    ],
)
def test_other_values_are_refused(value, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        read_file_sets(KEY, value)
