import gzip
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_data import list_corpus, shared

from seq2seq.data.config import FilesConfig, read_file_sets
from seq2seq.data.corpus import Corpora, Corpus, Pair, load_corpora
from seq2seq.data.files import check_files, check_same_order, join, language_pairs, read_files
from seq2seq.files.links import GoldLinks, parse_links

TEXT = "Ein Hund l\u00e4uft.\nZwei M\u00e4nner.\n"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_one_of_two_parallel_files_must_be_plain_text(tmp_path):
    paths = [write(tmp_path / "a.de", b"ja\n"), write(tmp_path / "a.json", b"{}\n")]

    with pytest.raises(
        ValueError, match=r"^data\.train=.*a\.json: a \.json file is not plain text"
    ):
        read_files("train", paths=paths)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_all_lines_are_counted_whatever_ends_the_last(tmp_path, monkeypatch, suffix, ending):
    monkeypatch.setattr("seq2seq.files.text.CHUNK", 3)
    path = write(tmp_path / f"a.tsv{suffix}", b"a\tb\n\nc\x00" + ending)  # one 0 is not UTF-16

    assert check_files("train", [path]) == 3 + ending.count(b"\n") // 2


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_named(tmp_path, suffix, mark, encoding):
    path = write(tmp_path / f"a.de{suffix}", f"{mark}{TEXT}".encode(encoding))

    with pytest.raises(
        ValueError, match=rf"^data\.valid={path}: the text is UTF-16.*iconv -f UTF-16"
    ):
        check_files("valid", [path])


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_line_over_the_limit_is_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("seq2seq.data.files.MAX_LINE", 6)
    longest = write(tmp_path / f"a.de{suffix}", b"a\nbbbbbb\ncccccc")
    too_long = write(tmp_path / f"b.de{suffix}", b"a\nbbbbbbb\nc")

    assert len(list(make_corpus(longest, longest))) == 3
    with pytest.raises(ValueError, match=rf"^{too_long}:2: the line has more than"):
        list(make_corpus(too_long, too_long))


LINES = [Pair("a b", "A B"), None, Pair("c", "C")]
FIRST = replace(list_corpus([]), num_lines=3, lines=lambda: iter(LINES))
SECOND = list_corpus([("d", "D")])


def joined(*tags: str | None) -> Corpus:
    return join("train", list(zip((FIRST, SECOND), tags, strict=False)))


def test_joined_pairs_follow_each_other_with_the_tag_and_number_of_their_corpus():
    corpus = joined(None, "<x>")

    assert [corpus.place(number) for number in (3, 4)] == [
        f"line 3 of {FIRST.name}",
        f"line 1 of {SECOND.name}",
    ]
    assert list(corpus.lines()) == [
        Pair("a b", "A B", None, part=0),
        None,
        Pair("c", "C", None, part=0),
        Pair("<x> d", "D", None, part=1),
    ]
    assert corpus.num_lines == 4
    tags = [(None, None), ("<x>", None), (None, "<x>"), (None,)]
    others = [joined(*each) for each in tags] + [join("train", [(SECOND, None), (FIRST, None)])]
    assert len({each.fingerprint for each in others}) == 5
    assert corpus.fingerprint == others[2].fingerprint


def test_pairs_in_memory_are_a_corpus():
    pairs = [Pair("ja", "yes"), Pair("n\u00f6", "no", parse_links("0-0", where=""))]

    corpus = Corpus.of(iter(pairs), name="train")

    assert list(corpus) == list(corpus.lines()) == pairs
    assert (corpus.name, corpus.num_lines) == ("train", 2)
    assert corpus.fingerprint == Corpus.of(pairs).fingerprint
    assert corpus.fingerprint != Corpus.of(pairs[:1]).fingerprint


BOM = b"\xef\xbb\xbf"


def make_corpus(*paths: Path, name: str = "train", skips_invalid: bool = False) -> Corpus:
    return read_files(name, paths=paths, skips_invalid=skips_invalid)


def make_config(**paths: list[Path]) -> FilesConfig:
    return FilesConfig(
        **shared(name="files"),
        **{key: [str(path) for path in values] for key, values in paths.items()},
    )


def texts(corpus: Corpus) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in corpus]


def test_load_corpora_reads_pairs_of_files_and_files_of_two_columns(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("HOME", str(tmp_path))
    source = write(tmp_path / "a.de", b"Hund\nKatze\n")
    write(tmp_path / "a.en", b"dog\ncat\n")
    write(tmp_path / "b.tsv", "M\u00fcller\tmiller\nja\tyes\n".encode())
    write(tmp_path / "c.tsv", b"ja\tyes\n")
    config = make_config(train=[source, Path("a.en")], valid=[Path("~/b.tsv")], test=["c.tsv"])
    valid = {"talks": ["b.tsv"], "news": ["c.tsv"]}

    corpora = load_corpora(replace(config, root=str(tmp_path)))
    several = load_corpora(replace(config, root=str(tmp_path), valid=valid, test=None))
    with pytest.raises(ValueError, match=r"^data\.test=~nobodyatall/a\.tsv: Could not determine"):
        load_corpora(replace(config, root=str(tmp_path), test=["~nobodyatall/a.tsv"]))

    assert isinstance(corpora, Corpora)
    assert caplog.messages[0].startswith("languages: de to en; data.source")
    names = [corpora.train.name, corpora.valid.name, corpora.test.name]
    assert names == ["train", "valid", "test"]
    assert corpora.other_valid == {}
    assert texts(corpora.train) == [("Hund", "dog"), ("Katze", "cat")]
    assert texts(corpora.valid) == [("M\u00fcller", "miller"), ("ja", "yes")]
    assert texts(several.valid) == texts(corpora.valid)
    assert several.test is None
    found = {name: (each.name, texts(each)) for name, each in several.other_valid.items()}
    assert found == {"news": ("valid.news", [("ja", "yes")])}


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_end_at_a_line_feed_and_keep_their_text(tmp_path, suffix):
    source = write(tmp_path / f"a.de{suffix}", BOM + " ein\u2028Hund \r\n".encode() + BOM + b"b")
    target = write(tmp_path / "a.en", BOM + b"dog\ncat\r\r\n")

    assert texts(make_corpus(source, target)) == [(" ein\u2028Hund ", "dog"), ("\ufeffb", "cat\r")]


def test_different_line_counts_are_refused_before_reading_pairs(tmp_path):
    source = write(tmp_path / "a.de", b"Hund\nKatze\nMaus\n")
    target = write(tmp_path / "a.en.gz", b"dog\ncat\n")

    with pytest.raises(ValueError, match="3 lines but") as caught:
        make_corpus(source, target)

    assert str(caught.value) == (
        f"data.train={source}: 3 lines but {target} has 2; "
        "a parallel corpus needs one line per sentence in each file"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ja\tyes\nnein no\n", "2: 0 tabs; every line needs one, .*; for tables"),
        (b"ja\tyes\nnein\tno\t0-0\n", "2: 2 tabs; "),
        (b"ja\tyes\t0-0\nnein\tno\n", "2: 1 tabs; "),
        (b"a\tb\tc\td\n", "1: 3 tabs; "),
        (b"Go.\tGeh.\tCC-BY 2.0\n", "1: the third column, gold links: "),
        (b"ja\tyes\n\tno\n", "2: the source is empty; correct it, or remove the line from each"),
        (b"nein\t\n", "1: the target is empty; "),
        (b"nein\t \xe2\x80\xa8 \n", "1: the target is empty; "),
        (b"nein\t\xe2\x80\x8b\0\n", "1: the target is empty; "),
        (b"\n", "1: the source is empty; "),
        (b" \t \n", "1: the source is empty; "),
    ],
)
def test_a_line_of_another_form_is_named(tmp_path, content, message):
    table = write(tmp_path / "b.tsv", content)

    with pytest.raises(ValueError, match=f"^{table}:{message}"):
        list(make_corpus(table))


def test_a_third_file_or_column_contains_gold_links(tmp_path):
    source = write(tmp_path / "a.de", b"der Hund\nja\n\n")
    target = write(tmp_path / "a.en", b"the dog\nyes\nno\n")
    links = write(tmp_path / "a.align.gz", b"0-0 1p1\n\n0-7\n")
    table = write(tmp_path / "b.tsv", b"der Hund\tthe dog\t1p1 0-0\nja\tyes\t\n\t\t\n")

    for paths in ([source, target, links], [table]):
        assert list(make_corpus(*paths, skips_invalid=True)) == [
            Pair("der Hund", "the dog", GoldLinks({(0, 0)}, {(0, 0), (1, 1)})),
            Pair("ja", "yes", GoldLinks(frozenset(), frozenset())),
        ]


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000", "\u0085", "\x1c"])
def test_links_count_words_between_spaces_only(tmp_path, space):
    row = f"A{space}Paris  il\tin Paris\t1-1\n"
    [pair] = make_corpus(write(tmp_path / "a.tsv", row.encode()))
    table = write(tmp_path / "b.tsv", row.replace("1-1", "2-1").encode())

    assert pair.links == GoldLinks({(1, 1)}, {(1, 1)})
    with pytest.raises(ValueError, match="source words: 2"):
        list(make_corpus(table))


@pytest.mark.parametrize("text", ["1-0 0_0", "0-1", "x"])
def test_wrong_links_are_named_by_file_and_line(tmp_path, text):
    source = write(tmp_path / "a.de", b"ja doch\nja doch\n")
    target = write(tmp_path / "a.en", b"yes\nyes\n")
    links = write(tmp_path / "a.align", f"0-0\n{text}\n".encode())
    table = write(tmp_path / "b.tsv", f"ja doch\tyes\t0-0\nja doch\tyes\t{text}\n".encode())

    for paths in ([source, target, links], [table]):
        with pytest.raises(ValueError, match=f"^{paths[-1]}:2: .*gold links: .*source-target"):
            list(make_corpus(*paths))


def test_invalid_utf8_is_named_by_file_line_and_byte(tmp_path):
    source = write(tmp_path / "a.de", b"Hund\nKatze\n")
    target = write(tmp_path / "a.en", b"dog\nca\xfft\n")

    with pytest.raises(ValueError, match="is not UTF-8") as caught:
        list(make_corpus(source, target))

    assert str(caught.value) == (
        f"{target}:2: byte 3 of the line, 0xff, is not UTF-8 (if the whole file has another "
        f"encoding, convert it: iconv -f CP1252 -t UTF-8 {target} > {target}.utf8); "
        "correct it"
    )


def test_invalid_pairs_are_skipped(tmp_path):
    table = write(tmp_path / "b.tsv", b"ja\tyes\n\xff\tno\n\tmaybe\nnie\t\ngut\tgood\nso\t \n")
    corpus = make_corpus(table, skips_invalid=True)

    first, second = texts(corpus), texts(corpus)

    assert first == second == [("ja", "yes"), ("gut", "good")]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_of_text_is_refused(tmp_path, make):
    path = tmp_path / "b.tsv"
    make(path)

    with pytest.raises(ValueError, match=f"^data.valid={path} is not a regular file; it is read"):
        make_corpus(path, name="valid")


def test_fingerprint_changes_with_everything_that_changes_the_pairs(tmp_path):
    source = write(tmp_path / "a.de", b"ja\tx\n")
    target = write(tmp_path / "a.en", b"yes\tx\n")
    other = write(tmp_path / "b.en", b"yea\tx\n")
    packed = write(tmp_path / "c.tsv.gz", b"ja\tx\n")

    files = [(source, target), (target, source), (source, other), (source,), (packed,)]
    corpora = [make_corpus(*paths) for paths in files]

    assert len({corpus.fingerprint for corpus in corpora}) == 5
    moved = write(tmp_path / "d.tsv", b"ja\tx\n"), write(tmp_path / "e.tsv", b"ja\tx\n")
    assert len({make_corpus(path).fingerprint for path in moved}) == 1


@pytest.mark.parametrize("side", ["source", "target"])
def test_two_tables_are_refused_but_a_later_tab_is_text(tmp_path, side):
    def paths(content: bytes) -> list[Path]:
        return [
            write(tmp_path / name, content if name == side else b"ja\nHund\n")
            for name in ("source", "target")
        ]

    with pytest.raises(ValueError, match=rf"{side}:1: the {side} has a tab; give a tab-separated"):
        list(make_corpus(*paths(b"ja\tyes\nHund\n"), skips_invalid=True))
    assert "Hund\tdog" in texts(make_corpus(*paths(b"ja\nHund\tdog\n")))[1]


def test_only_training_skips_invalid_pairs(tmp_path):
    paths = [write(tmp_path / "a.de", b"Hund\n\n"), write(tmp_path / "a.en", b"dog\ncat\n")]
    corpora = load_corpora(make_config(train=paths, valid=paths))

    assert texts(corpora.train) == [("Hund", "dog")]
    with pytest.raises(ValueError, match=r"a\.de:2: the source is empty; correct it, or remove"):
        list(corpora.valid)


@pytest.mark.parametrize(
    ("train", "valid"),
    [("a.{}", "b.{}"), ("a.{}.gz", "b.{}"), ("a.{}.txt", "b.{}"), ("a.tok.{}", "x.b.{}.tok")],
)
@pytest.mark.parametrize("key", ["valid", "test"])
def test_set_to_score_in_the_opposite_order_of_the_training_files_is_an_error(key, train, valid):
    paths = {
        "train": [train.format("de"), train.format("en")],
        "valid": [train.format("de"), train.format("en")],
        key: [valid.format("en"), valid.format("de")],
    }
    config = FilesConfig(**(shared(name="files") | {"test": None} | paths))

    with pytest.raises(ValueError, match="give the source first in both") as caught:
        load_corpora(config)

    assert str(caught.value).startswith(
        f"data.{key}=[{','.join(paths[key])}] goes from en to de, but "
        f"data.train=[{','.join(paths['train'])}] from de to en; "
    )


@pytest.mark.parametrize(
    ("train", "valid"),
    [
        ([["a.de", "a.en"]], ["b.de", "b.en"]),
        ([["a.de", "a.en"]], ["b.src", "b.trg"]),
        ([["a.de", "a.en"]], ["b.tsv"]),
        ([["a.tsv"]], ["b.en", "b.de"]),
        ([["a.de", "a.en"]], ["en", "de"]),
        ([["a.de", "a.en"], ["a.en", "a.de"]], ["b.en", "b.de"]),
    ],
)
def test_sets_of_the_same_direction_or_of_unknown_direction_are_accepted(train, valid):
    check_same_order(
        read_file_sets("data.train", train if len(train) > 1 else train[0]),
        read_file_sets("data.valid", valid),
    )


def test_one_file_for_both_sides_needs_equal_languages(tmp_path):
    path = write(tmp_path / "a.de", b"eins\n")
    twice = [path, f"{tmp_path}/./a.de"]
    config = make_config(train=twice, valid=[path, path], test=[path, path])

    with pytest.raises(ValueError, match=r"^data\.train=.*a\.de\] is both source and target"):
        load_corpora(config)

    assert texts(load_corpora(replace(config, target=config.source)).train) == [("eins", "eins")]


def corpora(*sets, **keys):
    train = {str(index): value for index, value in enumerate(sets)}
    fields = shared(name="files", source="source", target="target") | keys
    return FilesConfig(train=train, valid=["v.de", "v.en"], test=None, **fields)


def tagged(tag, *files):
    return {"files": list(files), "tag": tag}


@pytest.mark.parametrize(
    ("config", "pairs"),
    [
        (corpora(["a.de", "a.en"]), {("de", "en"): None}),
        (corpora(["a.tsv"], source="de", target="en"), {("de", "en"): None}),
        (
            corpora(["a.de", "a.en"], ["b.fr.gz", "b.en.gz"], target="en"),
            {("de", "en"): None, ("fr", "en"): None},
        ),
        (
            corpora(tagged("<2de>", "a.en", "a.de"), tagged("<2fr>", "b.en", "b.fr"), source="en"),
            {("en", "de"): "<2de>", ("en", "fr"): "<2fr>"},
        ),
        (
            corpora(["a.de", "a.en"], tagged("<bt>", "b.de", "b.en"), source="de", target="en"),
            {("de", "en"): None},
        ),
    ],
)
def test_languages_and_tags_of_a_model_come_from_its_corpora(config, pairs):
    assert language_pairs(config) == pairs


@pytest.mark.parametrize(
    "config",
    [
        corpora(tagged("<a>", "a.tsv"), tagged("<b>", "b.tsv"), source="en"),
        corpora(["a.en", "a.de"], ["b.en", "b.fr"], source="en"),
    ],
)
def test_target_languages_that_nothing_tells_apart_are_refused(config):
    with pytest.raises(ValueError, match="do not tell the target languages of en apart"):
        language_pairs(config)
