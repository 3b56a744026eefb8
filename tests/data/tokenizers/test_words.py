"""Words are cut and put together by language, chosen by frequency, and given vectors."""

import gzip
import logging
import ssl
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from seq2seq.data import (
    CharacterTokenizer,
    Pair,
    WordsConfig,
    WordTokenizer,
    load_vectors,
    train_tokenizers,
)
from seq2seq.data.tokenizers.torchtext_words import splitter
from seq2seq.special_tokens import EOS, UNK

CONFIG = WordsConfig(
    name="words",
    vocabulary_size=99,
    source_tokenizer="moses",
    target_tokenizer="moses",
    source_language="de",
    target_language="en",
    min_frequency=1,
    lowercase=False,
)


class ListCorpus:
    name = "train"
    fingerprint = "list"

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[Pair]:
        return (Pair(source, target, None) for source, target in self._pairs)


def words(config: WordsConfig, *lines: str) -> list[str]:
    """Return the source vocabulary that the lines give, without the special tokens."""
    tokenizer = train_tokenizers(config, ListCorpus([(line, "x") for line in lines])).source
    return tokenizer.tokens(range(4, len(tokenizer)))


def knowing(line: str, *, tokenizer: str, language: str) -> WordTokenizer:
    """Return a tokenizer whose vocabulary is that of the line."""
    split = splitter(tokenizer, language=language, lowercase=False)
    return WordTokenizer(
        sorted(set(split(line))), tokenizer=tokenizer, language=language, lowercase=False
    )


def vectors_file(folder: Path, *lines: str) -> str:
    path = folder / "vectors.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def vocabulary(*words: str) -> WordTokenizer:
    return WordTokenizer(words, tokenizer="moses", language="en", lowercase=False)


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "It's a dog's life, isn't it? \"Yes\" (no) 50% & $3.50 e.g. [x]"),
        ("de", 'Der Hund (braun), z.B. ein Dackel, läuft 3,5 km; "schnell"!'),
        ("fr", "L'eau d'ici, n'est-ce pas ?"),
        ("cs", "Pes běží po sněhu."),
    ],
)
def test_moses_words_come_back_as_text(language: str, line: str) -> None:
    tokenizer = knowing(line, tokenizer="moses", language=language)

    assert tokenizer.decode(tokenizer.encode([line])[0]) == line


def test_moses_follows_the_rules_of_the_language() -> None:
    line = "l'eau z.B. heute"

    french = splitter("moses", language="fr", lowercase=False)(line)
    german = splitter("moses", language="de", lowercase=False)(line)

    assert french[:2] == ["l'", "eau"]
    assert "z.B." in german


def test_words_hold_no_markup() -> None:
    split = splitter("moses", language="en", lowercase=False)

    assert split("it's <b> & [x]") == ["it", "'s", "<", "b", ">", "&", "[", "x", "]"]


def test_basic_english_words_come_back_as_text() -> None:
    line = "it's a dog (brown), isn't it? yes. [no"
    tokenizer = knowing(line, tokenizer="basic_english", language="en")

    assert tokenizer.decode(tokenizer.encode([line])[0]) == line


def test_contractions_of_other_tokenizers_are_put_together() -> None:
    tokenizer = WordTokenizer(
        ["do", "n't", "dog", "'s", "we", "'ll", "!"],
        tokenizer="basic_english",
        language="en",
        lowercase=False,
    )

    assert tokenizer.decode([4, 5, 6, 7, 8, 9, 10]) == "don't dog's we'll!"


def test_basic_english_is_for_english() -> None:
    with pytest.raises(ValueError, match="basic_english is for en, not de; choose moses"):
        train_tokenizers(replace(CONFIG, source_tokenizer="basic_english"), ListCorpus([]))


def test_an_unknown_tokenizer_is_refused_with_the_choices() -> None:
    with pytest.raises(
        ValueError,
        match="unknown word tokenizer 'mosess'; one of: basic_english, moses, spacy, toktok",
    ):
        train_tokenizers(replace(CONFIG, target_tokenizer="mosess"), ListCorpus([]))


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
    """Put a stand-in for the package where it is imported from."""
    package = types.ModuleType("spacy")
    package.__dict__["load"] = load
    package.__spec__ = types.SimpleNamespace(name="spacy")
    monkeypatch.setitem(sys.modules, "spacy", package)


def test_a_missing_nltk_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ValueError, match="toktok needs the package nltk; run: pip install nltk"):
        splitter("toktok", language="de", lowercase=False)


def test_frequent_words_come_first_and_equals_in_their_order() -> None:
    assert words(CONFIG, "der Hund und der Ball", "ein Hund und der Ast") == [
        "der",
        "Hund",
        "und",
        "Ast",
        "Ball",
        "ein",
    ]


def test_the_vocabulary_holds_no_more_than_configured() -> None:
    assert words(replace(CONFIG, vocabulary_size=4 + 2), "a a a b b c") == ["a", "b"]


def test_rare_words_are_unknown() -> None:
    assert words(replace(CONFIG, min_frequency=2), "a a a b b c") == ["a", "b"]


def test_lower_case_is_a_choice() -> None:
    assert words(replace(CONFIG, lowercase=True), "Der der DER") == ["der"]
    assert words(CONFIG, "Der der Der DER") == ["Der", "DER", "der"]


def test_each_side_has_its_own_words_and_tokenizer() -> None:
    config = replace(CONFIG, target_tokenizer="basic_english")

    tokenizers = train_tokenizers(config, ListCorpus([("Ein Hund", "A Dog")]))

    assert tokenizers.source.tokens([4, 5]) == ["Ein", "Hund"]
    assert tokenizers.target.tokens([4, 5]) == ["a", "dog"]


def test_how_much_of_the_text_is_unknown_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="seq2seq"):
        words(replace(CONFIG, min_frequency=2), "a a b", "c a")

    assert caplog.messages[0] == (
        "train (source): 1 of 3 different words are in the vocabulary; "
        "2 of 5 in the text are unknown"
    )


def test_a_word_that_looks_like_a_special_token_is_none() -> None:
    split = WordTokenizer(["a"], tokenizer="basic_english", language="en", lowercase=False)

    ids = split.encode(["a </s> <s> <pad>"])[0]

    assert ids == [4, UNK, UNK, UNK]
    assert EOS not in ids


def test_words_of_text_are_found_where_the_tokenizer_changes_it() -> None:
    line = "It's a \"Dog\"; (BROWN) isn't it? <br /> Yes:"
    tokenizer = knowing(line, tokenizer="basic_english", language="en")
    ids = tokenizer.encode([line])[0]

    owners = tokenizer.words(line, ids)

    found = dict(zip(tokenizer.tokens(ids), owners, strict=True))
    assert {word: found[word] for word in ("a", "dog", "brown", "isn", "it", "yes")} == {
        "a": 1,
        "dog": 2,
        "brown": 3,
        "isn": 4,
        "it": 5,
        "yes": 8,
    }


def test_an_unknown_word_that_holds_the_next_one_keeps_its_place() -> None:
    tokenizer = vocabulary("house", "a")
    line = "a dog-house house a"

    assert tokenizer.words(line, tokenizer.encode([line])[0]) == [0, 1, 2, 3]


def test_words_of_decoded_text_are_found() -> None:
    tokenizer = vocabulary("isn", "'t", "it", "?")
    ids = [4, 5, UNK, 6, 7]

    assert tokenizer.decode(ids) == "isn't \u2047 it?"
    assert tokenizer.words(tokenizer.decode(ids), ids) == [0, 0, 1, 2, 2]


def test_vectors_of_known_words_fill_their_rows(tmp_path: Path) -> None:
    path = vectors_file(tmp_path, "hund 1 2 3", "katze 4 5 6.5", "maus 7 8 9")

    matrix, num_found = load_vectors(path, vocabulary("katze", "vogel", "hund"), 3)

    assert num_found == 2
    expected = torch.zeros(4 + 3, 3)
    expected[4] = torch.tensor([4, 5, 6.5])
    expected[6] = torch.tensor([1, 2, 3])
    torch.testing.assert_close(matrix, expected)


def test_a_word_is_also_looked_up_in_lower_case(tmp_path: Path) -> None:
    path = vectors_file(tmp_path, "hund 1 2 3", "Katze 4 5 6", "katze 7 8 9")

    matrix, num_found = load_vectors(path, vocabulary("Hund", "Katze"), 3)

    assert num_found == 2
    torch.testing.assert_close(matrix[4:], torch.tensor([[1.0, 2, 3], [4, 5, 6]]))


def test_characters_can_have_vectors(tmp_path: Path) -> None:
    path = vectors_file(tmp_path, "b 1 2 3")

    assert load_vectors(path, CharacterTokenizer(["a", "b"]), 3).num_found == 1


def test_the_header_and_trailing_spaces_of_fasttext_are_skipped(tmp_path: Path) -> None:
    path = vectors_file(tmp_path, "2 3", "hund 1 2 3 ", "katze 4 5 6 ")

    matrix, num_found = load_vectors(path, vocabulary("hund", "katze"), 3)

    assert num_found == 2
    torch.testing.assert_close(matrix[5], torch.tensor([4.0, 5, 6]))


def test_compressed_vectors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(b"hund 1 2 3\n"))

    assert load_vectors(str(path), vocabulary("hund"), 3).num_found == 1


def test_a_changed_file_gives_new_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    load_vectors(vectors_file(tmp_path, "hund 1 2 3"), vocabulary("hund"), 3)

    matrix, _ = load_vectors(vectors_file(tmp_path, "hund 4 5 6"), vocabulary("hund"), 3)

    torch.testing.assert_close(matrix[4], torch.tensor([4.0, 5, 6]))
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.txt"]


def test_vectors_of_another_size_are_refused(tmp_path: Path) -> None:
    path = vectors_file(tmp_path, "hund 1 2 3")

    with pytest.raises(ValueError, match="holds vectors of size 3, the embedding has 5; set the"):
        load_vectors(path, vocabulary("hund"), 5)


@pytest.mark.parametrize(
    "lines",
    [("hund 1 2 3", "katze 4 5"), ("hund eins zwei drei",), (), ("hund",)],
    ids=["ragged", "no numbers", "empty", "one word"],
)
def test_a_file_without_vectors_is_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    path = vectors_file(tmp_path, *lines)

    with pytest.raises(ValueError, match="is no file of word vectors, which has lines of a word"):
        load_vectors(path, vocabulary("hund"), 3)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"glove\.6B\.100d: no such file .*; download"):
        load_vectors(str(tmp_path / "glove.6B.100d"), vocabulary("hund"), 3)


def test_certificates_are_still_checked_after_reading_vectors(tmp_path: Path) -> None:
    load_vectors(vectors_file(tmp_path, "hund 1 2 3"), vocabulary("hund"), 3)

    context = ssl._create_default_https_context()

    assert context.verify_mode is ssl.CERT_REQUIRED


def test_reading_vectors_is_quiet_without_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    load_vectors(vectors_file(tmp_path, "hund 1 2 3"), vocabulary("hund"), 3)

    assert capfd.readouterr() == ("", "")


def test_moses_refuses_a_language_that_it_has_no_rules_for():
    with pytest.raises(ValueError, match="Moses has no rules for the language 'source'"):
        splitter("moses", language="source", lowercase=False)
