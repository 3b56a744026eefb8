"""Text files become pairs, line by line, and every bad line is named or counted."""

import gzip
import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_data import shared
from tiny_training import read_tags, tiny_run, write_corpus

from seq2seq.data import Corpora, FilesConfig, OnInvalid, Pair, load_corpora
from seq2seq.data.files.corpus import TextFilesCorpus, file_sha256

BOM = b"\xef\xbb\xbf"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def make_corpus(
    *paths: Path,
    name: str = "train",
    empty_lines: OnInvalid = OnInvalid.error,
    invalid_utf8: OnInvalid = OnInvalid.error,
) -> TextFilesCorpus:
    return TextFilesCorpus(name, paths=paths, empty_lines=empty_lines, invalid_utf8=invalid_utf8)


def make_config(**paths: list[Path]) -> FilesConfig:
    return FilesConfig(
        **shared(name="files"),
        **{key: [str(path) for path in values] for key, values in paths.items()},
    )


def texts(corpus: TextFilesCorpus) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in corpus]


def test_load_corpora_reads_pairs_of_files_and_files_of_two_columns(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"Hund\nKatze\nMaus\n")
    target = write(tmp_path / "a.en", b"dog\ncat\nmouse\n")
    table = write(tmp_path / "b.tsv", "M\u00fcller\tmiller\nja\tyes\n".encode())

    corpora = load_corpora(make_config(train=[source, target], valid=[table], test=[table]))

    assert isinstance(corpora, Corpora)
    names = [corpora.train.name, corpora.valid.name, corpora.test.name]
    assert names == ["train", "valid", "test"]
    assert corpora.other_valid == {}
    assert list(corpora.train) == [
        Pair("Hund", "dog", None),
        Pair("Katze", "cat", None),
        Pair("Maus", "mouse", None),
    ]
    assert list(corpora.valid) == [Pair("M\u00fcller", "miller", None), Pair("ja", "yes", None)]
    assert list(corpora.test) == list(corpora.valid)


def test_a_corpus_without_test_files_has_no_test_part(tmp_path: Path) -> None:
    table = write(tmp_path / "b.tsv", b"ja\tyes\n")
    config = replace(make_config(train=[table], valid=[table], test=[table]), test=None)

    corpora = load_corpora(config)

    assert corpora.test is None
    assert list(corpora.valid) == [Pair("ja", "yes", None)]


def test_paths_start_from_the_root(tmp_path: Path) -> None:
    write(tmp_path / "b.tsv", b"ja\tyes\n")
    absolute = write(tmp_path / "c.tsv", b"nein\tno\n")
    config = make_config(train=[Path("b.tsv")], valid=[absolute], test=[absolute])

    corpora = load_corpora(replace(config, root=str(tmp_path)))

    assert list(corpora.train) == [Pair("ja", "yes", None)]
    assert list(corpora.valid) == [Pair("nein", "no", None)]


def test_further_validation_sets_have_their_names(tmp_path: Path) -> None:
    tables = [write(tmp_path / f"{i}.tsv", b"ja\tyes\n" * i) for i in (1, 2, 3)]
    config = make_config(train=tables[:1], valid=tables[:1], test=tables[:1])
    sets = {f"set{i}": [str(table)] for i, table in enumerate(tables)}

    corpora = load_corpora(replace(config, valid=sets))

    assert corpora.valid.num_lines == 1
    found = {name: (each.name, each.num_lines) for name, each in corpora.other_valid.items()}
    assert found == {"set1": ("valid.set1", 2), "set2": ("valid.set2", 3)}


def test_several_test_sets_are_refused(tmp_path: Path) -> None:
    table = str(write(tmp_path / "b.tsv", b"ja\tyes\n"))
    config = make_config(train=[Path(table)], valid=[Path(table)], test=[Path(table)])

    with pytest.raises(ValueError, match=r"^data\.test names 2 sets, but a run scores one; trans"):
        replace(config, test={"a": [table], "b": [table]})


def test_a_home_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "b.tsv", b"ja\tyes\n")
    table = Path("~/b.tsv")

    corpora = load_corpora(make_config(train=[table], valid=[table], test=[table]))

    assert list(corpora.train) == [Pair("ja", "yes", None)]


@pytest.mark.parametrize("suffixes", [(".gz", ".gz"), ("", ".gz"), (".gz", "")])
def test_gzipped_and_plain_files_read_alike(tmp_path: Path, suffixes: tuple[str, str]) -> None:
    source = write(tmp_path / f"a.de{suffixes[0]}", b"Hund\nKatze\n")
    target = write(tmp_path / f"a.en{suffixes[1]}", b"dog\ncat\n")

    assert texts(make_corpus(source, target)) == [("Hund", "dog"), ("Katze", "cat")]


def test_gzipped_columns_are_read(tmp_path: Path) -> None:
    table = write(tmp_path / "b.tsv.gz", b"ja\tyes\nnein\tno\n")

    assert texts(make_corpus(table)) == [("ja", "yes"), ("nein", "no")]


def test_a_corpus_can_be_read_again_and_left_early(tmp_path: Path) -> None:
    corpus = make_corpus(write(tmp_path / "b.tsv", b"ja\tyes\nnein\tno\n"))

    first = next(iter(corpus))

    assert (first.source, first.target) == ("ja", "yes")
    assert list(corpus) == list(corpus)


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\x00"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, odd: str) -> None:
    source = write(tmp_path / "a.de", f"ein{odd}Hund\nKatze\n".encode())
    target = write(tmp_path / "a.en", b"a dog\ncat\n")

    assert texts(make_corpus(source, target)) == [(f"ein{odd}Hund", "a dog"), ("Katze", "cat")]


def test_windows_line_ends_are_dropped(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"Hund\r\nKatze\r\r\n")
    target = write(tmp_path / "a.en", b"dog\ncat\r\n")

    assert texts(make_corpus(source, target)) == [("Hund", "dog"), ("Katze\r", "cat")]


def test_a_byte_order_mark_is_dropped_at_the_start_alone(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", BOM + b"Hund\n" + BOM + b"Katze\n")
    target = write(tmp_path / "a.en", BOM + b"dog\ncat\n")

    assert texts(make_corpus(source, target)) == [("Hund", "dog"), ("\ufeffKatze", "cat")]


def test_a_missing_last_line_end_changes_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"Hund\nKatze")
    target = write(tmp_path / "a.en", b"dog\ncat\n")

    assert texts(make_corpus(source, target)) == [("Hund", "dog"), ("Katze", "cat")]


def test_white_space_around_the_text_is_kept(tmp_path: Path) -> None:
    table = write(tmp_path / "b.tsv", b" ja \t yes\n")

    assert texts(make_corpus(table)) == [(" ja ", " yes")]


def test_different_line_counts_are_refused_before_reading_pairs(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"Hund\nKatze\nMaus\n")
    target = write(tmp_path / "a.en.gz", b"dog\ncat\n")

    with pytest.raises(ValueError, match="3 lines but") as caught:
        make_corpus(source, target)

    assert str(caught.value) == (
        f"data.train={source}: 3 lines but {target} has 2; "
        "a parallel corpus needs one line per sentence in both files"
    )


@pytest.mark.parametrize(("line", "num_tabs"), [(b"nein no", 0), (b"nein\tno\tnope", 2)])
def test_other_than_two_columns_are_named_by_line(
    tmp_path: Path, line: bytes, num_tabs: int
) -> None:
    table = write(tmp_path / "b.tsv", b"ja\tyes\n" + line + b"\n")
    corpus = make_corpus(table, empty_lines=OnInvalid.skip, invalid_utf8=OnInvalid.skip)

    with pytest.raises(ValueError, match=rf"b\.tsv:2: {num_tabs} tabs; a line needs one, between"):
        list(corpus)


def test_invalid_utf8_is_named_by_file_line_and_byte(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"Hund\nKatze\n")
    target = write(tmp_path / "a.en", b"dog\nca\xfft\n")

    with pytest.raises(ValueError, match="is not UTF-8") as caught:
        list(make_corpus(source, target))

    assert str(caught.value) == (
        f"{target}:2: byte 3 of the line, 0xff, is not UTF-8; "
        "correct it, or set data.invalid_utf8=skip to skip such pairs"
    )


@pytest.mark.parametrize(
    ("line", "side"),
    [
        (b"\tno", "source"),
        (b"nein\t", "target"),
        (b"nein\t \xe2\x80\xa8 ", "target"),
        (b"", "source"),
        (b" \t ", "source"),
    ],
)
def test_an_empty_side_is_named_by_line(tmp_path: Path, line: bytes, side: str) -> None:
    table = write(tmp_path / "b.tsv", b"ja\tyes\n" + line + b"\n")

    with pytest.raises(ValueError, match=rf"b\.tsv:2: the {side} is empty; .*empty_lines=skip"):
        list(make_corpus(table))


def test_an_empty_target_line_names_the_target_file(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"Hund\nKatze\n")
    target = write(tmp_path / "a.en", b"dog\n\n")

    with pytest.raises(ValueError, match=r"a\.en:2: the target is empty"):
        list(make_corpus(source, target))


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_skipped_pairs_are_counted_once_for_each_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    table = write(tmp_path / "b.tsv", b"ja\tyes\n\xff\tno\n\tmaybe\nnie\t\ngut\tgood\nso\t \n")
    corpus = make_corpus(table, name=name, empty_lines=OnInvalid.skip, invalid_utf8=OnInvalid.skip)

    with caplog.at_level(logging.WARNING):
        first = texts(corpus)
        second = texts(corpus)

    assert first == second == [("ja", "yes"), ("gut", "good")]
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"data.{name}={table}: skipped 1 of 6 pairs that are not UTF-8 (data.invalid_utf8=skip)",
        f"data.{name}={table}: skipped 3 of 6 pairs with an empty side (data.empty_lines=skip)",
    ]


def test_skipped_pairs_are_reported_after_a_full_pass_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = write(tmp_path / "b.tsv", b"\tno\nja\tyes\ngut\tgood\n")
    corpus = make_corpus(table, empty_lines=OnInvalid.skip)

    next(iter(corpus))

    assert caplog.records == []


def test_clean_files_give_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = make_corpus(write(tmp_path / "b.tsv", b"ja\tyes\n"), empty_lines=OnInvalid.skip)

    list(corpus)

    assert caplog.records == []


def test_a_corpus_of_skipped_pairs_only_is_refused(tmp_path: Path) -> None:
    table = write(tmp_path / "b.tsv", b"\tno\nja\t\n")
    corpus = make_corpus(table, empty_lines=OnInvalid.skip)

    with pytest.raises(ValueError, match=r"b\.tsv: all 2 pairs were skipped; check"):
        list(corpus)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"Hund\n")
    target = write(tmp_path / "a.en", b"")

    with pytest.raises(ValueError, match=r"data\.train=.*a\.en: the file is empty"):
        make_corpus(source, target)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "no.tsv"

    with pytest.raises(FileNotFoundError) as caught:
        make_corpus(missing, name="valid")

    assert str(caught.value) == f"data.valid={missing}: no such file; correct the path"


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"data\.train=.* is a directory; give the name"):
        make_corpus(tmp_path)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.tsv")

    with pytest.raises(ValueError, match=r"data\.train=.* is not a regular file; give a file that"):
        make_corpus(tmp_path / "b.tsv")


@pytest.mark.parametrize("key", ["train", "valid", "test"])
def test_the_home_of_an_unknown_user_is_refused(tmp_path: Path, key: str) -> None:
    path = write(tmp_path / "a.tsv", b"ja\tyes\n")
    paths = {"train": [path], "valid": [path], "test": [path], key: [Path("~nobodyatall/a.tsv")]}

    with pytest.raises(ValueError, match=f"^data.{key}=~nobodyatall/a.tsv: ~nobodyatall is not a"):
        load_corpora(make_config(**paths))


def test_plain_text_named_gz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tsv.gz"
    path.write_bytes(b"ja\tyes\n")

    with pytest.raises(
        ValueError, match=r"b\.tsv\.gz: damaged or incomplete gzip file .*; create it again"
    ):
        make_corpus(path)


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "b.tsv.gz"
    whole = bytearray(gzip.compress(b"".join(b"%d\t%d\n" % (i, i * i) for i in range(500))))
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        whole[len(whole) // 2] ^= 0xFF
        path.write_bytes(whole)

    with pytest.raises(ValueError, match=r"b\.tsv\.gz: damaged or incomplete gzip file") as caught:
        make_corpus(path)

    assert "\n" not in str(caught.value)


def test_fingerprint_stays_when_the_files_move(tmp_path: Path) -> None:
    first = make_corpus(write(tmp_path / "a.tsv", b"ja\tyes\n"))
    second = make_corpus(write(tmp_path / "b.tsv", b"ja\tyes\n"), name="test")

    assert first.fingerprint == second.fingerprint
    assert len(first.fingerprint) == 64


def test_fingerprint_changes_with_everything_that_changes_the_pairs(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"ja\tx\n")
    target = write(tmp_path / "a.en", b"yes\tx\n")
    other = write(tmp_path / "b.en", b"yea\tx\n")
    packed = write(tmp_path / "c.tsv.gz", b"ja\tx\n")
    raw = write(tmp_path / "c.tsv", packed.read_bytes())

    fingerprints = {
        make_corpus(source, target).fingerprint,
        make_corpus(target, source).fingerprint,
        make_corpus(source, other).fingerprint,
        make_corpus(source).fingerprint,
        make_corpus(packed).fingerprint,
        make_corpus(raw).fingerprint,
        make_corpus(source, target, empty_lines=OnInvalid.skip).fingerprint,
        make_corpus(source, target, invalid_utf8=OnInvalid.skip).fingerprint,
    }

    assert len(fingerprints) == 8


def test_the_number_of_lines_includes_skipped_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"a\tb\n\nc\td")

    corpus = make_corpus(path, empty_lines=OnInvalid.skip)

    assert corpus.num_lines == len(list(corpus.lines())) == 3


@pytest.mark.parametrize("lines", [(b"Hund\tdog", b"dog"), (b"Hund", b"dog\tHund")])
def test_a_tab_in_one_of_two_files_is_named_by_line(
    tmp_path: Path, lines: tuple[bytes, bytes]
) -> None:
    paths = [
        write(tmp_path / name, b"ja\n" + line + b"\n")
        for name, line in zip(("a.de", "a.en"), lines, strict=True)
    ]
    at_fault = paths[0] if b"\t" in lines[0] else paths[1]
    side = "source" if b"\t" in lines[0] else "target"

    with pytest.raises(ValueError, match="has a tab") as caught:
        list(make_corpus(*paths, empty_lines=OnInvalid.skip))

    assert str(caught.value) == (
        f"{at_fault}:2: the {side} has a tab; a file of two columns is given alone, "
        f"data.train=[{at_fault}], and data.allow_tabs=true accepts tabs as text"
    )


def test_tabs_are_text_if_they_are_allowed(tmp_path: Path) -> None:
    source = write(tmp_path / "a.de", b"ein\tHund\n")
    target = write(tmp_path / "a.en", b"a\tdog\n")
    config = replace(
        make_config(train=[source, target], valid=[source, target], test=[source, target]),
        allow_tabs=True,
    )

    corpora = load_corpora(config)

    assert [(pair.source, pair.target) for pair in corpora.train] == [("ein\tHund", "a\tdog")]


def test_swapped_names_are_reported_for_each_part(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    german = write(tmp_path / "a.de", b"ja\n")
    english = write(tmp_path / "a.en", b"yes\n")
    swapped = [english, german]

    with caplog.at_level(logging.WARNING):
        load_corpora(make_config(train=swapped, valid=[german, english], test=swapped))

    assert [record.getMessage().partition("=")[0] for record in caplog.records] == [
        "data.train",
        "data.test",
    ]


def test_file_sha256_is_that_of_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2seq.data.files.corpus._CHUNK_SIZE", 3)
    path = write(tmp_path / "x", b"longer than a chunk")

    assert file_sha256(path) == hashlib.sha256(b"longer than a chunk").hexdigest()


def test_a_run_learns_to_copy_text_of_one_language(tmp_path, caplog):
    write_corpus(tmp_path)
    parts = [
        f"data.{part}=['{tmp_path}/a.{part}','{tmp_path}/a.{part}']"
        for part in ("train", "valid", "test")
    ]
    tokenizer = ["tokenizer=bpe", "tokenizer.joint=false", "tokenizer.vocabulary_size=12"]

    with caplog.at_level(logging.INFO):
        tiny_run(
            tmp_path,
            *("data.source=en", "data.target=en", *parts, *tokenizer),
            *("training.max_epochs=1", "training.validation.num_samples=1"),
        )

    first = (tmp_path / "a.test").read_text().splitlines()[0]
    assert any(f"\n  en  {first}\n  en  " in message for message in caplog.messages)
    assert {"text/valid_0/text_summary", "attention/valid_0"} <= read_tags(tmp_path / "runs")
    assert len(list((tmp_path / "cache").glob("tokenizers-*.pt"))) == 1
