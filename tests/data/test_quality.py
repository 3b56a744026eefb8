"""Four warnings name text from which a model learns badly, each time that it is prepared."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_data import list_corpus, shared

from seq2seq.data.advice import hash_pair, warn_of_long_validation, warn_of_shared
from seq2seq.data.batching import EncodedCorpus
from seq2seq.data.cache import encode_corpus
from seq2seq.data.config import DataConfig, OnInvalid
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer

TOKENIZERS = TokenizerPair(*[CharacterTokenizer("ab.0123456789")] * 2)
LENGTHS = np.random.default_rng(1).integers(10, 30, 700)
SOURCES = [f"{row}".ljust(length, "a") for row, length in enumerate(LENGTHS)]
DISTINCT = [(f"{row}", f"{row}.") for row in range(500)]


@pytest.fixture
def config(tmp_path):
    cache_dir = str(tmp_path / "cache")
    return DataConfig(**shared(cache_dir=cache_dir, max_length=50, long_pairs=OnInvalid.skip))


def encode(
    pairs: list[tuple[str, str]], config: DataConfig, *, fingerprint: str = "tiny"
) -> EncodedCorpus:
    return encode_corpus(list_corpus(pairs, fingerprint=fingerprint), TOKENIZERS, config)


def shifted(pairs: list[tuple[str, str]], first: int, lines: int) -> list[tuple[str, str]]:
    """Return pairs whose targets, from a pair on, are those of some pairs later."""
    sources, targets = zip(*pairs, strict=True)
    return list(zip(sources, targets[:first] + targets[first + lines :], strict=False))


@pytest.mark.parametrize(
    ("pairs", "warning"),
    [
        ([("a" * 40, "b" * 8 + "y")], "1 of 9 target tokens are unknown; use sub-words"),
        ([*DISTINCT, *[("a", "a")] * 27], "27 of 527 pairs have the same text on both sides"),
        (
            shifted([(each, each + "b") for each in SOURCES], 350, 1),
            "around pair 415 fit the targets around pair 414",
        ),
        (
            shifted([(each, each + "b") for each in SOURCES], 350, 3),
            "pair 388 fit the targets around pair 385",
        ),
        (shifted([(each, each + "b") for each in SOURCES], 0, 1), "around pair 104 fit"),
        (
            [(each, "b" * (1 + row % 7)) for row, each in enumerate(SOURCES)],
            "the lengths of sources and targets hardly correlate (",
        ),
    ],
)
def test_pairs_that_ruin_a_model_are_warned_of_each_time(config, caplog, pairs, warning):
    for _ in range(2):  # the second time from the cache
        caplog.clear()
        encode(pairs, config)

        assert warning in caplog.text


@pytest.mark.parametrize(
    "pairs",
    [
        [("a" * 9 + "x", "b" * 9 + "y")],
        [*DISTINCT, *[("a", "a")] * 26],
        [("a", "a")] * 20,
        [(each, each + "b" * (1 + row % 5)) for row, each in enumerate(SOURCES)],
        [(each[:3], each) for each in SOURCES],  # sources of equal lengths
        [(each, each + "b" * (1 + row % 5)) for row, each in enumerate(sorted(SOURCES, key=len))],
    ],
)
def test_sound_pairs_are_not_warned_of(config, caplog, pairs):
    encode(pairs, config)

    assert caplog.messages == []


def test_a_model_that_learns_to_copy_may_have_equal_sides(config, caplog):
    encode([("a", "a")] * 30, replace(config, target=config.source))

    assert caplog.messages == []


@pytest.mark.parametrize(("num_shared", "is_warned"), [(0, False), (1, False), (2, True)])
def test_pairs_to_score_that_are_in_the_training_text_are_counted(
    config, caplog, num_shared, is_warned
):
    """A pair that was too long for training is not in it."""
    train = encode([*DISTINCT, ("a" * 60, "b")], config)
    own = [("a" * 60, "b"), *[(target, source) for source, target in DISTINCT]]
    valid = replace(config, max_length=100)
    encoded = encode([*DISTINCT[:num_shared], *own][:100], valid, fingerprint="valid")

    warn_of_shared("valid", encoded, train)

    expected = (
        "valid: 2 of 100 pairs are also in the training text; scores on them say nothing about "
        "new text"
    )
    assert caplog.messages == [
        "train: skipped 1 of 501 pairs with a side longer than data.max_length=50 tokens",
        *[expected] * is_warned,
    ]


def test_hashes_of_pairs_are_equal_only_if_both_texts_are():
    pairs = [Pair("a", "b"), Pair("b", "a"), Pair("ab", ""), Pair("a", "b\udcff")]

    assert len({hash_pair(pair) for pair in pairs}) == 4
    assert hash_pair(pairs[0]) == hash_pair(Pair("a", "b", part=3))


@pytest.mark.parametrize(
    ("name", "num_pairs", "num_train", "is_long"),
    [
        ("valid", 2001, 20_000, True),
        ("valid.talks", 2001, 9, True),
        ("valid", 2000, 9, False),
        ("valid", 3000, 30_000, False),
        ("test", 2001, 9, False),
    ],
)
def test_a_long_validation_is_warned_of(name, num_pairs, num_train, is_long, caplog):
    warn_of_long_validation(name, num_pairs, num_train=num_train)

    assert bool(caplog.messages) == is_long
