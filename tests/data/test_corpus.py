"""Pairs in memory are a corpus."""

from seq2seq.data.corpus import Corpus, Pair
from seq2seq.files.links import parse_links


def test_pairs_in_memory_are_a_corpus():
    pairs = [Pair("ja", "yes"), Pair("n\u00f6", "no", parse_links("0-0", where=""))]

    corpus = Corpus.of(iter(pairs), name="train")

    assert list(corpus) == list(corpus.lines()) == pairs
    assert (corpus.name, corpus.num_lines) == ("train", 2)
    assert corpus.fingerprint == Corpus.of(pairs).fingerprint
    assert corpus.fingerprint != Corpus.of(pairs[:1]).fingerprint
