"""The bundled corpus of `data=grammar`, which `data/german_english.py` has written."""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from seq2seq.data.config import GrammarConfig, OnInvalid
from seq2seq.data.corpus import Corpora, Pair, load_corpora
from seq2seq.data.files import TextFilesCorpus
from seq2seq.files.links import GoldLinks
from seq2seq.files.paths import resource

_NUM_LINES_BEFORE = {"test": 0, "valid": 500, "train": 1000}
"""Number of lines before the first line of each part."""


@load_corpora.register
def load_grammar(config: GrammarConfig) -> Corpora:
    """Open the corpora; each is the first pairs of its part of the file."""
    is_swapped = config.source == "en"
    return Corpora(
        train=GrammarCorpus("train", size=config.num_train, is_swapped=is_swapped),
        valid=GrammarCorpus("valid", size=config.num_valid, is_swapped=is_swapped),
        test=GrammarCorpus("test", size=config.num_test, is_swapped=is_swapped),
    )


class GrammarCorpus(TextFilesCorpus):
    """Pairs of one part of the file, perhaps from English to German."""

    def __init__(self, name: str, *, size: int, is_swapped: bool) -> None:
        super().__init__(
            name,
            paths=[resource("data/german-english.tsv.gz")],
            empty_lines=OnInvalid.error,
            invalid_utf8=OnInvalid.error,
        )
        self.num_lines = size
        self._is_swapped = is_swapped

    @cached_property
    def fingerprint(self) -> str:
        parts = [super().fingerprint, self.name, self.num_lines, self._is_swapped]
        return hashlib.sha256(repr(parts).encode("ascii")).hexdigest()

    def lines(self) -> Iterator[Pair | None]:
        start = _NUM_LINES_BEFORE[self.name]
        pairs = islice(super().lines(), start, start + self.num_lines)
        return map(_swap, pairs) if self._is_swapped else pairs


def _swap(pair: Pair | None) -> Pair:
    assert pair is not None
    assert pair.links is not None
    links = GoldLinks(*(frozenset((j, i) for i, j in each) for each in pair.links))
    return Pair(source=pair.target, target=pair.source, links=links)
