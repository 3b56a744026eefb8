"""Joined corpora are one corpus of all pairs, with the tag of each."""

from tiny_data import TinyCorpus

from seq2seq.data import Pair
from seq2seq.data.files.joined import JoinedCorpus

FIRST = TinyCorpus([Pair("a b", "A B", None), None, Pair("c", "C", None)], fingerprint="first")
SECOND = TinyCorpus([Pair("d", "D", None)], fingerprint="second")


def joined(*tags: str | None) -> JoinedCorpus:
    return JoinedCorpus("train", list(zip((FIRST, SECOND), tags, strict=False)))


def test_pairs_follow_each_other_with_the_tag_and_number_of_their_corpus() -> None:
    corpus = joined(None, "<x>")

    assert list(corpus.lines()) == [
        Pair("a b", "A B", None, part=0),
        None,
        Pair("c", "C", None, part=0),
        Pair("<x> d", "D", None, part=1, num_tags=1),
    ]
    assert list(corpus) == [pair for pair in corpus.lines() if pair is not None]
    assert corpus.num_lines == 4


def test_the_fingerprint_depends_on_corpora_tags_and_order() -> None:
    fingerprints = {
        joined(*tags).fingerprint for tags in [(None, None), ("<x>", None), (None, "<x>"), (None,)]
    }
    fingerprints.add(JoinedCorpus("train", [(SECOND, None), (FIRST, None)]).fingerprint)

    assert len(fingerprints) == 5
    assert joined("<x>", None).fingerprint == joined("<x>", None).fingerprint
