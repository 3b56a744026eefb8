import gzip
import ssl
import sys
import types
from collections import Counter
from pathlib import Path

import pytest
import torch

from seq2seq.data.tokenizers.torchtext_words import (
    frequent_words,
    has_moses_rules,
    moses_joiner,
    read_vectors,
    splitter,
)


def vectors_file(folder: Path, *lines: str) -> str:
    path = folder / "vectors.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("language", "known"), [("de", True), ("german", False), ("", False)])
def test_moses_has_rules_for_language_codes(language: str, known: bool) -> None:
    assert has_moses_rules(language) == known


def test_moses_refuses_a_language_that_it_has_no_rules_for() -> None:
    with pytest.raises(ValueError, match="Moses has no rules for the language 'source'; one of: a"):
        splitter("moses", language="source", lowercase=False)


def test_moses_joins_words_by_the_rules_of_the_language() -> None:
    assert moses_joiner("en")(["it", "'s", "(", "a", ")", "dog", "."]) == "it's (a) dog."
    assert moses_joiner("fr")(["l'", "eau", "?"]) == "l'eau ?"


def test_frequent_words_are_limited_and_sorted_by_frequency() -> None:
    counts = Counter({"a": 2, "b": 3, "c": 1, "d": 2})

    assert frequent_words(counts, limit=9, min_frequency=2) == ["b", "a", "d"]
    assert frequent_words(counts, limit=1, min_frequency=1) == ["b"]


def test_moses_follows_the_rules_of_the_language() -> None:
    line = "l'eau z.B. heute"

    french = splitter("moses", language="fr", lowercase=False)(line)
    german = splitter("moses", language="de", lowercase=False)(line)

    assert french[:2] == ["l'", "eau"]
    assert "z.B." in german


def test_words_hold_no_markup() -> None:
    split = splitter("moses", language="en", lowercase=False)

    assert split("it's <b> & [x]") == ["it", "'s", "<", "b", ">", "&", "[", "x", "]"]


def test_a_missing_spacy_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(
        ValueError, match="pip install spacy && python -m spacy download de_core_news_sm"
    ):
        splitter("spacy", language="de", lowercase=False)


def test_a_missing_spacy_model_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        raise OSError(f"[E050] Can't find model '{name}'")

    use_spacy(monkeypatch, load)

    with pytest.raises(
        ValueError, match=r"lacks its model en_core_web_sm; .*spacy download en_core_web_sm"
    ):
        splitter("spacy", language="en", lowercase=False)


def test_spacy_words_are_those_of_its_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    def tokenize(line: str) -> list[types.SimpleNamespace]:
        return [types.SimpleNamespace(text=text) for text in ["Ein", "  ", "Hund", "."]]

    use_spacy(monkeypatch, lambda name: types.SimpleNamespace(tokenizer=tokenize))

    assert splitter("spacy", language="de", lowercase=False)("Ein  Hund.") == ["Ein", "Hund", "."]


def use_spacy(monkeypatch: pytest.MonkeyPatch, load: object) -> None:
    """Replace the package by a stand-in."""
    package = types.ModuleType("spacy")
    package.__dict__["load"] = load
    package.__spec__ = types.SimpleNamespace(name="spacy")
    monkeypatch.setitem(sys.modules, "spacy", package)


def test_a_missing_nltk_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ValueError, match="toktok needs the package nltk; run: pip install nltk"):
        splitter("toktok", language="de", lowercase=False)


@pytest.mark.parametrize(
    "lines",
    [("hund 1 2 3", "katze 4 5"), ("hund eins zwei drei",), (), ("hund",)],
    ids=["ragged", "no numbers", "empty", "one word"],
)
def test_a_file_without_vectors_is_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    path = vectors_file(tmp_path, *lines)

    with pytest.raises(
        ValueError, match="is not a file of word vectors; each line must have a word"
    ):
        read_vectors(path)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"glove\.6B\.100d: no such file .*; download"):
        read_vectors(str(tmp_path / "glove.6B.100d"))


def test_certificates_are_still_checked_after_reading_vectors(tmp_path: Path) -> None:
    read_vectors(vectors_file(tmp_path, "hund 1 2 3"))

    context = ssl._create_default_https_context()

    assert context.verify_mode is ssl.CERT_REQUIRED


def test_reading_vectors_is_quiet_without_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    read_vectors(vectors_file(tmp_path, "hund 1 2 3"))

    assert capfd.readouterr() == ("", "")


def test_the_header_and_trailing_spaces_of_fasttext_are_skipped(tmp_path: Path) -> None:
    path = vectors_file(tmp_path, "2 3", "hund 1 2 3 ", "katze 4 5 6 ")

    vectors = read_vectors(path)

    assert vectors.stoi.keys() == {"hund", "katze"}
    torch.testing.assert_close(vectors["katze"], torch.tensor([4.0, 5, 6]))


def test_compressed_vectors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(b"hund 1 2 3\n"))

    assert read_vectors(str(path)).dim == 3


def test_a_changed_file_gives_new_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    read_vectors(vectors_file(tmp_path, "hund 1 2 3"))

    vectors = read_vectors(vectors_file(tmp_path, "hund 4 5 6"))

    torch.testing.assert_close(vectors["hund"], torch.tensor([4.0, 5, 6]))
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.txt"]
