from pathlib import Path

import pytest
import torch

from seq2seq.data import CharacterTokenizer, WordTokenizer, load_vectors


def vectors_file(folder: Path, *lines: str) -> str:
    path = folder / "vectors.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def vocabulary(*words: str) -> WordTokenizer:
    return WordTokenizer(words, tokenizer="moses", language="en", lowercase=False)


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


def test_vectors_are_found_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = vectors_file(tmp_path, "hund 1 2 3")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert load_vectors(f"~/{Path(path).name}", vocabulary("hund"), 3).num_found == 1


def test_characters_can_have_vectors(tmp_path: Path) -> None:
    path = vectors_file(tmp_path, "b 1 2 3")

    assert load_vectors(path, CharacterTokenizer(["a", "b"]), 3).num_found == 1


def test_vectors_of_another_size_are_refused(tmp_path: Path) -> None:
    path = vectors_file(tmp_path, "hund 1 2 3")

    with pytest.raises(ValueError, match="has vectors of size 3, the embedding has 5; set the"):
        load_vectors(path, vocabulary("hund"), 5)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_vectors_that_are_not_finite_are_refused(tmp_path: Path, number: str) -> None:
    path = vectors_file(tmp_path, "hund 1 2 3", f"katze 4 {number} 6", "maus nan nan nan")

    with pytest.raises(ValueError, match=r"2 vectors .* not finite, the first .* 'katze'"):
        load_vectors(path, vocabulary("hund"), 3)
