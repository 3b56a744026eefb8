import io
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from tiny_data import shared, unigram_config

from seq2seq.data import (
    CharactersConfig,
    CharacterTokenizer,
    DataConfig,
    EncodedCorpus,
    OnInvalid,
    Pair,
    SentencePieceConfig,
    SentencePieceModel,
    SymbolTokenizer,
    TokenizerPair,
    cached_tokenizers,
    encode_corpus,
)
from seq2seq.data import encoded as encoded_module
from seq2seq.data.encoded import IdRows, RowWriter, TextRows
from seq2seq.special_tokens import UNK

ROWS = [[7, 5, 9], [], [4]]


@pytest.fixture
def folder(tmp_path):
    with RowWriter(tmp_path, "source") as writer:
        writer.write(ROWS[:2])
        writer.write(ROWS[2:])
    return tmp_path


def test_rows_written_in_parts_are_read_back(folder):
    rows = IdRows.open(folder, "source")

    assert [rows[i].tolist() for i in range(3)] == ROWS
    assert rows.lengths.tolist() == [3, 0, 1]


LINES = ["ein Hund", "", "M\u00fcller \U0001f600", "a\nb\u2028c", ""]


@pytest.fixture
def text_folder(tmp_path: Path) -> Path:
    with RowWriter(tmp_path, "source") as writer:
        writer.write_lines(LINES[:3])
        writer.write_lines([])
        writer.write_lines(LINES[3:])
    return tmp_path


@pytest.mark.parametrize(("start", "end"), [(0, 5), (0, 1), (1, 4), (2, 3), (4, 5), (3, 3)])
def test_any_range_of_lines_is_read_back(text_folder: Path, start: int, end: int) -> None:
    rows = TextRows.open(text_folder, "source")

    assert len(rows) == 5
    assert rows.lines(start, end) == LINES[start:end]


PAIRS = [("ab", "abc"), ("c", "a"), ("abcab", "cb"), ("", "cc"), ("ba", "abcabca")]
TOKENIZERS = TokenizerPair(CharacterTokenizer("abc"), CharacterTokenizer("cba"))
CHARACTERS = CharactersConfig(name="characters", vocabulary_size=9, min_frequency=1)
UNIGRAM = unigram_config(vocabulary_size=12, joint=True)


class ListCorpus:
    name = "valid"

    def __init__(self, pairs: list[tuple[str, str]], *, fingerprint: str = "list") -> None:
        self.fingerprint = fingerprint
        self.num_readings = 0
        self._pairs = pairs

    @property
    def num_lines(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self.lines() if pair is not None)

    def lines(self) -> Iterator[Pair | None]:
        self.num_readings += 1
        return (Pair(source, target, None) for source, target in self._pairs)


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    return DataConfig(**shared(cache_dir=str(tmp_path / "cache"), max_length=7))


def texts(encoded: EncodedCorpus) -> list[tuple[str, str]]:
    """Decode the whole corpus."""
    return [
        (
            TOKENIZERS.source.decode(encoded.source(row).tolist()),
            TOKENIZERS.target.decode(encoded.target(row).tolist()),
        )
        for row in range(len(encoded))
    ]


def folders(config: DataConfig) -> list[Path]:
    return sorted(Path(config.cache_dir).iterdir())


def test_the_rows_are_the_encoded_pairs(config: DataConfig) -> None:
    encoded = encode_corpus(ListCorpus(PAIRS), TOKENIZERS, config)

    assert len(encoded) == len(PAIRS)
    assert texts(encoded) == PAIRS
    assert encoded.source(0).tolist() == TOKENIZERS.source.encode(["ab"])[0]


@pytest.mark.parametrize("chunk", [1, 2, 5, 6])
def test_the_size_of_the_chunks_does_not_matter(
    config: DataConfig, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(encoded_module, "_CHUNK", chunk)
    skipping = replace(config, max_length=4, long_pairs=OnInvalid.skip)

    encoded = encode_corpus(ListCorpus(PAIRS), TOKENIZERS, skipping)

    assert texts(encoded) == [PAIRS[0], PAIRS[1], PAIRS[3]]
    assert encoded.indices.tolist() == [0, 1, 3]


def test_the_ids_are_mapped_and_not_read(config: DataConfig) -> None:
    encoded = encode_corpus(ListCorpus(PAIRS), TOKENIZERS, config)

    mapped = encoded.source_rows.ids.base
    assert isinstance(mapped, np.memmap)
    assert encoded.source_rows.ids.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        encoded.source(0)[0] = 1


def test_a_side_without_any_ids_can_be_opened(config: DataConfig) -> None:
    encoded = encode_corpus(ListCorpus([("", "ab"), ("", "c")]), TOKENIZERS, config)

    assert texts(encoded) == [("", "ab"), ("", "c")]


def test_an_encoded_corpus_is_not_read_again(config: DataConfig) -> None:
    corpus = ListCorpus(PAIRS)

    first = encode_corpus(corpus, TOKENIZERS, config)
    second = encode_corpus(corpus, TOKENIZERS, config)

    assert corpus.num_readings == 1
    assert texts(second) == texts(first)


def test_relevant_changes_create_new_arrays(config: DataConfig) -> None:
    other_tokenizers = TokenizerPair(CharacterTokenizer("abcd"), TOKENIZERS.target)
    calls = [
        (ListCorpus(PAIRS), TOKENIZERS, config),
        (ListCorpus(PAIRS, fingerprint="other"), TOKENIZERS, config),
        (ListCorpus(PAIRS), other_tokenizers, config),
        (ListCorpus(PAIRS), TokenizerPair(*reversed(TOKENIZERS)), config),
        (ListCorpus(PAIRS), TOKENIZERS, replace(config, max_length=8)),
        (ListCorpus(PAIRS), TOKENIZERS, replace(config, long_pairs=OnInvalid.skip)),
    ]

    for corpus, tokenizers, changed in calls:
        encode_corpus(corpus, tokenizers, changed)

    assert [corpus.num_readings for corpus, _, _ in calls] == [1] * len(calls)
    assert len(folders(config)) == len(calls)


def test_other_changes_reuse_the_arrays(config: DataConfig) -> None:
    corpus = ListCorpus(PAIRS)
    encode_corpus(corpus, TOKENIZERS, config)

    encode_corpus(corpus, TOKENIZERS, replace(config, max_epochs=9, empty_lines=OnInvalid.skip))

    assert corpus.num_readings == 1


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_long_pair_is_an_error_that_names_it(config: DataConfig, side: str) -> None:
    long_pair = ("abcabcab", "a") if side == "source" else ("a", "abcabcab")

    with pytest.raises(
        ValueError,
        match=(
            r"valid: pair 6 has a side of 8 tokens, more than data\.max_length=7; raise it or set "
            r"data\.long_pairs=skip"
        ),
    ):
        encode_corpus(ListCorpus([*PAIRS, long_pair]), TOKENIZERS, config)


def test_the_number_of_a_long_pair_counts_all_chunks(
    config: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded_module, "_CHUNK", 2)

    with pytest.raises(ValueError, match=r"pair 5 has a side of 7 tokens, more .*max_length=5"):
        encode_corpus(ListCorpus(PAIRS), TOKENIZERS, replace(config, max_length=5))


def test_skipped_pairs_are_counted_in_one_warning_each_time(
    config: DataConfig, caplog: pytest.LogCaptureFixture
) -> None:
    skipping = replace(config, max_length=4, long_pairs=OnInvalid.skip)

    for _ in range(2):
        caplog.clear()
        encode_corpus(ListCorpus(PAIRS), TOKENIZERS, skipping)

        assert caplog.messages == [
            "valid: skipped 2 of 5 pairs with a side longer than data.max_length=4 tokens"
        ]


def test_unknown_tokens_are_counted(config: DataConfig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        encoded = encode_corpus(ListCorpus([("axb", "yz"), ("a", "b")]), TOKENIZERS, config)

    assert encoded.source(0)[1] == UNK
    assert caplog.messages[0] == "valid: 2 pairs of 7 tokens, 3 of them unknown"


@pytest.mark.parametrize(
    "text", ["<b>a</b>", "a<br/>", "x &amp; y", '<a href="x">a</a>', "&#39;a&#x2F;", "<P>a"]
)
def test_pairs_with_markup_are_counted_in_a_warning_each_time(
    config: DataConfig, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    corpus = ListCorpus([(text, text), ("b", text), ("a < b & c > d; <x y>", "<2de> <s> &a;")])
    config = replace(config, max_length=50)

    for _ in range(2):  # the second time from the cache
        caplog.clear()
        encode_corpus(corpus, TOKENIZERS, config)
        [warning] = [each for each in caplog.messages if "HTML" in each]
        assert warning.startswith("valid: 2 of 3 pairs contain HTML tags or entities, such as <b>")


@pytest.mark.parametrize("num_others", [0, 100])
def test_symbols_and_rare_markup_are_no_reason_for_a_warning(
    config: DataConfig, caplog: pytest.LogCaptureFixture, num_others: int
) -> None:
    tokenizers, config = TOKENIZERS, replace(config, max_length=50)
    if num_others == 0:
        symbols = SymbolTokenizer(CharacterTokenizer("ab"), ["<b>", "</b>"])
        tokenizers = TokenizerPair(symbols, symbols)

    encode_corpus(ListCorpus([("<b>a</b>", "a"), *[("b", "b")] * num_others]), tokenizers, config)

    assert not [each for each in caplog.messages if "HTML" in each]


@pytest.mark.parametrize(("known", "is_warned"), [(9, False), (8, True)])
def test_a_text_of_which_a_tenth_is_unknown_is_warned_of(
    config: DataConfig, caplog: pytest.LogCaptureFixture, known: int, is_warned: bool
) -> None:
    pair = ("a" * known + "x", "b" * known + "y")
    encode_corpus(ListCorpus([pair]), TOKENIZERS, replace(config, max_length=20))

    warning = f"valid: {100 / (known + 1):.0f}% of the tokens are unknown, and a model cannot tell"
    assert [each.startswith(warning) for each in caplog.messages] == [True] * is_warned


def test_an_empty_corpus_is_refused(config: DataConfig) -> None:
    with pytest.raises(ValueError, match="valid: the corpus has no pairs; give files with text"):
        encode_corpus(ListCorpus([]), TOKENIZERS, config)

    assert folders(config) == []


def test_a_corpus_of_long_pairs_only_is_refused(config: DataConfig) -> None:
    skipping = replace(config, max_length=1, long_pairs=OnInvalid.skip)

    with pytest.raises(ValueError, match=r"all 2 pairs are longer than data\.max_length=1 "):
        encode_corpus(ListCorpus([("ab", "a"), ("a", "bc")]), TOKENIZERS, skipping)


def test_a_slower_process_uses_the_arrays_of_the_first(config: DataConfig) -> None:
    class SlowCorpus(ListCorpus):
        """While it is read, another process finishes the same work."""

        def lines(self) -> Iterator[Pair | None]:
            yield from super().lines()
            encode_corpus(ListCorpus(PAIRS), TOKENIZERS, config)

    encoded = encode_corpus(SlowCorpus(PAIRS), TOKENIZERS, config)

    assert texts(encoded) == PAIRS
    assert len(folders(config)) == 1


def test_a_rename_that_fails_otherwise_is_an_error(
    config: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(f"no right to write {target.name}")

    monkeypatch.setattr(Path, "rename", refuse)

    with pytest.raises(PermissionError, match="no right to write valid-"):
        encode_corpus(ListCorpus(PAIRS), TOKENIZERS, config)


@pytest.mark.parametrize(
    "name", ["source.content", "target.content", "source.offsets", "indices", "counts.json"]
)
def test_damaged_arrays_are_created_again(
    config: DataConfig, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """An id out of range would fail in training, on a GPU without a message."""
    encode_corpus(ListCorpus(PAIRS), TOKENIZERS, config)
    (folder,) = folders(config)
    content = bytearray((folder / name).read_bytes())
    content[1] ^= 0x20
    (folder / name).write_bytes(content)

    assert texts(encode_corpus(ListCorpus(PAIRS), TOKENIZERS, config)) == PAIRS

    assert f"{folder}: damaged cache; it is created again" in caplog.text
    assert folders(config) == [folder]


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_damaged_tokenizers_are_trained_again(
    config: DataConfig, caplog: pytest.LogCaptureFixture, share: float
) -> None:
    cached_tokenizers(CHARACTERS, ListCorpus(PAIRS), config.cache_dir)
    (path,) = folders(config)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])

    tokenizers = cached_tokenizers(CHARACTERS, ListCorpus(PAIRS), config.cache_dir)

    assert tokenizers.source.decode(tokenizers.source.encode(["abc"])[0]) == "abc"
    assert f"{path}: damaged cache; it is created again" in caplog.text
    assert path.read_bytes() != content[: int(share * len(content))]


def test_progress_shows_on_a_terminal(config: DataConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())

    encode_corpus(ListCorpus(PAIRS), TOKENIZERS, config)

    assert "encoding valid" in sys.stderr.getvalue()


@pytest.mark.parametrize("tokenizer", [CHARACTERS, UNIGRAM])
def test_tokenizers_are_trained_once(
    config: DataConfig, tokenizer: CharactersConfig | SentencePieceConfig
) -> None:
    corpus = ListCorpus(PAIRS)

    first = cached_tokenizers(tokenizer, corpus, config.cache_dir)
    num_readings = corpus.num_readings
    second = cached_tokenizers(tokenizer, corpus, config.cache_dir)

    assert corpus.num_readings == num_readings
    assert second.source.encode(["abcab"]) == first.source.encode(["abcab"])
    assert (second.source is second.target) == (tokenizer is UNIGRAM)


def test_relevant_changes_train_new_tokenizers(config: DataConfig) -> None:
    calls = [
        (CHARACTERS, ListCorpus(PAIRS)),
        (CHARACTERS, ListCorpus(PAIRS, fingerprint="other")),
        (replace(CHARACTERS, min_frequency=2), ListCorpus(PAIRS)),
        (UNIGRAM, ListCorpus(PAIRS)),
        (replace(UNIGRAM, model_type=SentencePieceModel.bpe), ListCorpus(PAIRS)),
    ]

    for tokenizer, corpus in calls:
        cached_tokenizers(tokenizer, corpus, config.cache_dir)

    assert len(folders(config)) == len(calls)


def test_tokenizers_that_cannot_be_written_leave_nothing_behind(
    config: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(state: object, file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("torch.save", fail)

    with pytest.raises(OSError, match="disk full"):
        cached_tokenizers(CHARACTERS, ListCorpus(PAIRS), config.cache_dir)

    assert folders(config) == []
