import pytest

from seq2seq.text.habits import TextHabits, count_habits


@pytest.mark.parametrize(("share", "has_sentences"), [(0.0, True), (0.4, True), (0.6, False)])
def test_a_text_of_single_sentences_may_have_some_lines_with_several(share, has_sentences):
    assert TextHabits(several_sentences=share).has_sentences is has_sentences


@pytest.mark.parametrize(("share", "keeps"), [(0.0, True), (0.002, True), (0.02, False)])
def test_text_without_words_stays_unless_some_of_it_is_translated(share, keeps):
    assert TextHabits(without_words=share).keeps_other_text is keeps


def test_text_without_words_that_is_copied_does_not_count():
    pairs = [("---", "---"), ("12:30", "half past twelve"), ("Ja. Nein.", "Yes."), ("Ja.", "Yes.")]

    assert count_habits(pairs) == {"several_sentences": 1, "without_words": 1, "capitals": 0}
