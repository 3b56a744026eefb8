"""Folders of a cache are complete or absent, and hold the ids of each pair that is kept."""

import errno
import itertools
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from tiny_data import list_corpus, shared, unigram_config

from seq2seq.data import cache
from seq2seq.data.batching import EncodedCorpus, IdRows
from seq2seq.data.cache import (
    ArrayWriter,
    cached,
    cached_tokenizers,
    digest,
    encode_corpus,
    read_arrays,
)
from seq2seq.data.config import CharactersConfig, DataConfig
from seq2seq.data.corpus import Corpus, Pair
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.special_tokens import UNK
from seq2seq.text.sentences import HABITS


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_interrupt_leaves_nothing(tmp_path):
    def create(folder: Path) -> None:
        folder.mkdir()
        (folder / "ids").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path / "train-1", create, names)

    assert names(tmp_path) == []


def test_only_what_processes_killed_long_ago_have_left_is_removed(tmp_path):
    killed = [".train-0.99-abcdef01", ".tokenizers-0.pt.99-abcdef01"]
    others = [".train-1.99-abcdef01", ".config.d", ".git", ".mail.2019-abc", ".notes.old-2023"]
    for name in (*killed, *others):
        (tmp_path / name).mkdir() if "pt" not in name else (tmp_path / name).touch()
        if name != others[0]:
            os.utime(tmp_path / name, (0, 0))

    cached(tmp_path / "train-2", Path.mkdir, names)

    assert names(tmp_path) == sorted([*others, "train-2"])


def write_arrays(folder: Path) -> None:
    with ArrayWriter(folder) as writer:
        writer.append("ids", np.array([7, 5], np.uint16))
        writer.append("ids", np.array([], np.uint16))
        writer.append("ids", np.array([9], np.uint16))
        writer.append_rows("rows", IdRows.of([[]]))
        writer.append_rows("rows", IdRows.of([[4], [6, 8]]))
        writer.finish({"pairs": 3})


def test_arrays_written_in_parts_are_mapped(tmp_path):
    write_arrays(tmp_path / "train-1")

    arrays, counts = read_arrays(tmp_path / "train-1")

    assert {name: array.tolist() for name, array in arrays.items()} == {
        "ids": [7, 5, 9],
        "rows": [4, 6, 8],
        "rows_offsets": [0, 0, 1, 3],
    }
    assert arrays["ids"].dtype == np.uint16
    assert type(arrays["ids"]) is np.ndarray
    assert isinstance(arrays["ids"].base, np.memmap)
    assert counts == {"pairs": 3}
    with pytest.raises(ValueError, match="read-only"):
        arrays["ids"][0] = 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ids.npy", b""),
        ("ids.npy", None),
        ("ids.npy", b"x" * 134),
        ("complete.json", b"{"),
        ("complete.json", b"\xff"),
        ("complete.json", None),
    ],
)
def test_damaged_arrays_are_written_again_with_a_warning(tmp_path, caplog, name, content):
    folder = tmp_path / "train-1"
    expected = cached(folder, write_arrays, read_arrays)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)

    found = cached(folder, write_arrays, read_arrays)

    assert str(found) == str(expected)
    assert names(tmp_path) == ["train-1"]
    assert caplog.messages == [f"{folder}: damaged cache; it is created again"]


def test_a_cache_that_cannot_be_read_now_is_kept(tmp_path, monkeypatch):
    folder = tmp_path / "train-1"
    cached(folder, write_arrays, read_arrays)

    def fail(*arguments, **options):
        raise OSError(errno.EMFILE, "Too many open files", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr(np, "load", fail)
        with pytest.raises(OSError, match="Too many open files"):
            cached(folder, write_arrays, read_arrays)

    assert cached(folder, write_arrays, read_arrays)[1] == {"pairs": 3}


def test_the_digest_is_that_of_the_content():
    value = {"b": [1, None, True], "a": {"x": torch.tensor([1, 2], dtype=torch.uint8)}}
    same = {"a": {"x": torch.tensor([1, 2], dtype=torch.uint8)}, "b": [1, None, True]}
    others = [{**value, "b": [1, None]}, {**value, "b": [[1], None, True]}, {**value, "c": 1}]

    digests = [digest(each) for each in (value, same, *others)]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


PAIRS = [("ab", "abc"), ("c", "a"), ("abcab", "cb"), ("", "cc"), ("ba", "abcabca")]
TOKENIZERS = TokenizerPair(CharacterTokenizer("abc"), CharacterTokenizer("cba"))
CHARACTERS = CharactersConfig(name="characters", vocabulary_size=9, min_frequency=1, protect=[])
UNIGRAM = unigram_config(vocabulary_size=12, joint=True, protect=[])


def corpus_of(pairs: list[tuple[str, str]] = PAIRS, **changes: object) -> Corpus:
    """Return a corpus that counts how often it is read."""
    corpus = list_corpus(pairs, name="valid")
    return replace(corpus, lines=Mock(side_effect=corpus.lines), **changes)


@pytest.fixture
def config(tmp_path):
    return DataConfig(**shared(cache_dir=str(tmp_path / "cache"), max_length=7))


def texts(encoded: EncodedCorpus) -> list[tuple[str, str]]:
    """Decode the whole corpus."""
    sides = zip((encoded.source_rows, encoded.target_rows), TOKENIZERS, strict=True)
    sources, targets = (list(map(tokenizer.decode, rows)) for rows, tokenizer in sides)
    assert len(sources) == len(encoded)
    return list(zip(sources, targets, strict=True))


def folders(config: DataConfig) -> list[Path]:
    return sorted(Path(config.cache_dir).iterdir())


def test_the_rows_are_the_encoded_pairs_as_small_numbers(config):
    encoded = encode_corpus(corpus_of(), TOKENIZERS, config)
    empty = [("", "ab"), ("", "c")]  # a side without any ids

    assert texts(encoded) == PAIRS
    assert texts(encode_corpus(corpus_of(empty), TOKENIZERS, config)) == empty
    assert encoded.source_rows[0].tolist() == TOKENIZERS.source.encode(["ab"])[0]
    assert encoded.source_rows.ids.dtype == np.uint8


@pytest.mark.parametrize("chunk", [1, 2, 5, 6])
def test_the_size_of_the_chunks_does_not_matter(config, monkeypatch, chunk):
    monkeypatch.setattr(cache, "_CHUNK", chunk)
    skipping = replace(config, max_length=4)

    encoded = encode_corpus(corpus_of(), TOKENIZERS, skipping)

    assert texts(encoded) == [PAIRS[0], PAIRS[1], PAIRS[3]]
    assert encoded.indices.tolist() == [0, 1, 3]


def test_the_habits_of_the_text_are_counted(config):
    pairs = [("Ba. Ab!", "Ab"), ("12:30", "half"), ("12:30", "12:30"), ("JA NEIN", "x")]

    for _ in range(2):  # encoded, then from the cache
        encoded = encode_corpus(corpus_of(pairs), TOKENIZERS, config)

        assert encoded.habits == dict.fromkeys(HABITS, 0.25)


def test_relevant_changes_create_new_arrays(config):
    other_tokenizers = TokenizerPair(CharacterTokenizer("abcd"), TOKENIZERS.target)
    calls = [
        (corpus_of(), TOKENIZERS, config),
        (corpus_of(fingerprint="other"), TOKENIZERS, config),
        (corpus_of(), other_tokenizers, config),
        (corpus_of(), TokenizerPair(*reversed(TOKENIZERS)), config),
        (corpus_of(), TOKENIZERS, replace(config, max_length=8)),
        (corpus_of(), TOKENIZERS, replace(config, source="xx")),  # other texts count as faulty
        (corpus_of(), TOKENIZERS, replace(config, target="xx")),
    ]

    for corpus, tokenizers, changed in calls:
        encode_corpus(corpus, tokenizers, changed)
    encode_corpus(calls[0][0], TOKENIZERS, replace(config, name="own"))  # reads the same arrays

    assert [corpus.lines.call_count for corpus, _, _ in calls] == [1] * len(calls)
    assert len(folders(config)) == len(calls)


def test_skipped_pairs_are_counted_in_one_warning_of_each_kind_each_time(config, caplog):
    skipping = replace(config, max_length=4)
    lines = [None, *itertools.starmap(Pair, PAIRS)]
    corpus = replace(corpus_of(), num_lines=len(lines), path="a.de", lines=lambda: iter(lines))

    for _ in range(2):
        caplog.clear()
        encoded = encode_corpus(corpus, TOKENIZERS, skipping)

        assert encoded.indices.tolist() == [1, 2, 4]  # lines of a file, from 0

        assert caplog.messages == [
            "valid: skipped 1 of 6 pairs with an empty side or bytes that are not UTF-8; "
            "the first is line 1 of a.de",
            "valid: skipped 2 of 5 pairs with a side longer than data.max_length=4 tokens; "
            "the first is line 4 of a.de",
        ]


def test_unknown_tokens_are_counted(config, caplog):
    with caplog.at_level(logging.INFO):
        encoded = encode_corpus(corpus_of([("axb", "yz"), ("a", "b")]), TOKENIZERS, config)

    assert encoded.source_rows[0][1] == UNK
    assert caplog.messages[0] == "valid: 2 pairs with 7 tokens, 3 of them unknown"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "valid: no pair is left of 0;"),
        ([("ab", "a"), ("a", "bc")], "valid: no pair is left of 2; .* data.max_length=1: 2$"),
    ],
)
def test_a_corpus_without_pairs_or_of_long_ones_alone_is_refused(config, pairs, message):
    skipping = replace(config, max_length=1)

    with pytest.raises(ValueError, match=message):
        encode_corpus(corpus_of(pairs), TOKENIZERS, skipping)

    assert folders(config) == []


def test_a_slower_process_uses_the_arrays_of_the_first(config):
    def lines() -> Iterator[Pair | None]:
        """While the slower process reads, the first finishes the same work."""
        yield from corpus_of().lines()
        encode_corpus(corpus_of(), TOKENIZERS, config)

    encoded = encode_corpus(replace(corpus_of(), lines=lines), TOKENIZERS, config)

    assert texts(encoded) == PAIRS
    assert len(folders(config)) == 1


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_damaged_tokenizers_are_trained_again(config, caplog, share):
    cached_tokenizers(CHARACTERS, corpus_of(), config.cache_dir)
    (path,) = folders(config)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])

    tokenizers = cached_tokenizers(CHARACTERS, corpus_of(), config.cache_dir)

    assert tokenizers.source.decode(tokenizers.source.encode(["abc"])[0]) == "abc"
    assert f"{path}: damaged cache; it is created again" in caplog.text
    assert path.read_bytes() != content[: int(share * len(content))]


def test_only_relevant_changes_train_new_tokenizers(config):
    calls = [
        (CHARACTERS, corpus_of()),
        (CHARACTERS, corpus_of(fingerprint="other")),
        (replace(CHARACTERS, min_frequency=2), corpus_of()),
        (UNIGRAM, corpus_of()),
        (replace(UNIGRAM, name="bpe"), corpus_of()),
    ]
    unread = corpus_of()

    trained = [cached_tokenizers(*call, config.cache_dir) for call in calls]
    read = cached_tokenizers(CHARACTERS, unread, config.cache_dir)
    cached_tokenizers(replace(UNIGRAM, sampling_alpha=0.5), unread, config.cache_dir)

    assert len(folders(config)) == len(calls)
    assert unread.lines.call_count == 0
    assert read.source.encode(["abcab"]) == trained[0].source.encode(["abcab"])
    assert read.source is not read.target
