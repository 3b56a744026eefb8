"""The bundled corpus of `data=grammar`, which `data/german_english.py` has written."""

import hashlib
from collections.abc import Iterator
from itertools import islice

from seq2seq.data.config import GrammarConfig
from seq2seq.data.corpus import Corpora, Corpus, Pair, register_data
from seq2seq.data.files import read_files
from seq2seq.files.links import GoldLinks
from seq2seq.files.paths import resource

_MOST_HELD_OUT = 500
_NUM_LINES_BEFORE = {"test": 0, "valid": 500, "train": 1000}
"""Number of lines before the first line of each part."""


@register_data(GrammarConfig, "grammar")
def load_grammar(config: GrammarConfig) -> Corpora:
    """Open the corpora; each is the first pairs of its part of the file."""
    whole = read_files(
        "grammar",
        paths=[resource("data/german-english.tsv.gz")],
    )
    held_out = min(max(1, config.num_train // 10), _MOST_HELD_OUT)
    sizes = {"train": config.num_train, "valid": held_out, "test": held_out}
    is_swapped = config.source == "en"
    train, valid, test = (_part(whole, name, size, is_swapped) for name, size in sizes.items())
    return Corpora(train=train, valid=valid, test=test)


def _part(whole: Corpus, name: str, size: int, is_swapped: bool) -> Corpus:
    """Return the pairs of one part of the file; `is_swapped` makes them English to German."""

    def lines() -> Iterator[Pair | None]:
        start = _NUM_LINES_BEFORE[name]
        pairs = islice(whole.lines(), start, start + size)
        return map(_swap, pairs) if is_swapped else pairs

    parts = [whole.fingerprint, name, size, is_swapped]
    fingerprint = hashlib.sha256(repr(parts).encode("ascii")).hexdigest()
    return Corpus(name=name, num_lines=size, fingerprint=fingerprint, lines=lines)


def _swap(pair: Pair | None) -> Pair:
    assert pair is not None
    assert pair.links is not None
    links = GoldLinks(*(frozenset((j, i) for i, j in each) for each in pair.links))
    return Pair(source=pair.target, target=pair.source, links=links)
