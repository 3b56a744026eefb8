"""Corpora drawn from a grammar by seed, without duplicates and with gold word links."""

import hashlib
import json
import random
from collections.abc import Iterator
from itertools import islice

from seq2seq.checks import counted
from seq2seq.data.config import GrammarConfig
from seq2seq.data.corpus import Corpora, Corpus, Pair, load_corpora
from seq2seq.data.grammar.generator import PairGenerator
from seq2seq.data.grammar.grammar import START, Grammar, read_grammar
from seq2seq.files.paths import expand_home, resource

_GENERATOR_VERSION = 1
"""Part of the fingerprints; raise it if the same grammar and seed give different pairs."""
_PATIENCE = 10_000
"""Number of repeated sentences in a row after which the grammar counts as exhausted."""


@load_corpora.register
def load_grammar(config: GrammarConfig) -> Corpora:
    """Open the corpora of a grammar; pairs are drawn when they are first read.

    Raises:
        FileNotFoundError: The grammar file does not exist.
        ValueError: The grammar file has an error or lacks a language.
    """
    if config.grammar is None:
        path = resource("data/german-english.grammar")
    else:
        path = expand_home(config.grammar, key="data.grammar")
    try:
        grammar = read_grammar(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"data.grammar={config.grammar} does not exist; give the path of a grammar file, "
            "relative to the current directory"
        ) from error
    pairs = _DistinctPairs(grammar, config)
    # Test and validation come first, so that a larger training set does not change them.
    test_end = config.num_test
    valid_end = test_end + config.num_valid
    train_end = valid_end + config.num_train
    return Corpora(
        train=GrammarCorpus("train", pairs=pairs, rows=range(valid_end, train_end)),
        valid=GrammarCorpus("valid", pairs=pairs, rows=range(test_end, valid_end)),
        test=GrammarCorpus("test", pairs=pairs, rows=range(test_end)),
    )


class GrammarCorpus(Corpus):
    """A range of the pairs that a grammar and a seed give."""

    def __init__(self, name: str, *, pairs: "_DistinctPairs", rows: range) -> None:
        self.name = name
        self.num_lines = len(rows)
        self._pairs = pairs
        self._rows = rows

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256, in hex, of everything that determines the pairs."""
        parts = [self._pairs.identity, self.name, self._rows.start, self._rows.stop]
        return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()

    def lines(self) -> Iterator[Pair]:
        return (self._pairs.get(row) for row in self._rows)


class _DistinctPairs:
    """Pairs without repeated sources or targets, drawn when needed and then stored."""

    def __init__(self, grammar: Grammar, config: GrammarConfig) -> None:
        self.identity = [
            _GENERATOR_VERSION,
            hashlib.sha256(grammar.text.encode("utf-8")).hexdigest(),
            config.seed,
            config.source,
            config.target,
            [config.num_train, config.num_valid, config.num_test],
        ]
        self._grammar = grammar
        self._num_requested = config.num_train + config.num_valid + config.num_test
        generator = PairGenerator(grammar, source=config.source, target=config.target)
        self._stream = _distinct(generator, random.Random(config.seed))
        self._drawn: list[Pair] = []

    def get(self, row: int) -> Pair:
        """Return a pair, after drawing all pairs before it.

        Raises:
            ValueError: The grammar has fewer pairs.
        """
        if row >= len(self._drawn):
            self._drawn.extend(islice(self._stream, row + 1 - len(self._drawn)))
        if row >= len(self._drawn):
            raise self._grammar.rules[START][0].location.error(
                f"{START} gives only {counted(len(self._drawn), 'different pair')}, but "
                f"data.num_train + data.num_valid + data.num_test = {self._num_requested}; "
                "ask for fewer, or add rules and words"
            )
        return self._drawn[row]


def _distinct(generator: PairGenerator, rng: random.Random) -> Iterator[Pair]:
    sources: set[str] = set()
    targets: set[str] = set()
    num_old = 0
    while num_old < _PATIENCE:
        pair = generator.draw(rng)
        if pair.source in sources or pair.target in targets:
            num_old += 1
            continue
        num_old = 0
        sources.add(pair.source)
        targets.add(pair.target)
        yield pair
