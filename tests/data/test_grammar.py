"""The bundled corpus is distinct, reproducible, and aligned word by word."""

import gzip
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_data import shared

from seq2seq.config.schema import load_config
from seq2seq.data.config import GrammarConfig
from seq2seq.data.corpus import Corpora, Pair, load_corpora
from seq2seq.files.links import GoldLinks

SCRIPT = Path(__file__).parents[2] / "data" / "german_english.py"
CONFIG = GrammarConfig(**shared(name="grammar"), num_train=700)


@pytest.fixture(scope="module")
def corpora() -> Corpora:
    return load_corpora(CONFIG)


@pytest.fixture(scope="module")
def pairs(corpora):
    return [pair for corpus in corpora[:3] for pair in corpus]


def test_the_script_writes_the_file_again():
    script = runpy.run_path(str(SCRIPT))

    # Another zlib may pack the same text differently.
    assert script["corpus"]().encode() == gzip.decompress(script["CORPUS"].read_bytes())


def test_all_pairs_differ_and_fill_the_file():
    whole = load_corpora(load_config().data)
    pairs = [pair for corpus in (whole.test, whole.valid, whole.train) for pair in corpus]

    assert [corpus.num_lines for corpus in whole[:3]] == [20_000, 500, 500]
    assert len({pair.source for pair in pairs}) == len(pairs) == 21_000
    assert len({pair.target for pair in pairs}) == len(pairs)


def test_a_part_is_the_first_pairs_whatever_the_others_are(corpora):
    smaller = load_corpora(replace(CONFIG, num_train=10))

    found = [(each.name, each.num_lines, list(each)) for each in smaller[:3]]
    assert found == [
        (each.name, size, list(each)[:size])
        for each, size in zip(corpora[:3], (10, 1, 1), strict=True)
    ]


def test_other_direction_has_the_same_pairs_with_links_transposed(corpora):
    back = load_corpora(replace(CONFIG, source="en", target="de"))

    for pair, swapped in zip(corpora.train, back.train, strict=True):
        links = frozenset((t, s) for s, t in pair.links.sure)
        assert swapped == Pair(pair.target, pair.source, GoldLinks(links, links))


@pytest.mark.parametrize("change", [{"num_train": 701}, {"source": "en", "target": "de"}])
def test_fingerprint_follows_the_pairs(corpora, change):
    again = load_corpora(CONFIG)

    assert len({corpus.fingerprint for corpus in corpora[:3]}) == 3
    assert [each.fingerprint for each in corpora[:3]] == [each.fingerprint for each in again[:3]]
    changed = load_corpora(replace(CONFIG, **change))
    assert changed.train.fingerprint != corpora.train.fingerprint


def test_characters_of_a_sentence_are_no_more_than_the_default_max_length(pairs):
    longest = max(len(text) for pair in pairs for text in (pair.source, pair.target))

    assert longest <= load_config("data=grammar").data.max_length


def test_every_word_is_linked(pairs):
    for pair in pairs:
        assert {s for s, _ in pair.links.sure} == set(range(len(pair.source.split())))
        assert {t for _, t in pair.links.sure} == set(range(len(pair.target.split())))
