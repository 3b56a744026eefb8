import pytest

from seq2seq.text.layer import VERY_LONG, Segment, TextLayer, line_of, words_of
from seq2seq.text.rules import ModelText, TextRules
from seq2seq.text.sentences import Split

SINGLE, SEVERAL = {"several_sentences": 0.1}, {"several_sentences": 0.9}
TIMES = {"without_words": 0.5}


def make_layer(habits=SINGLE, *, normalizes=False, **changes):
    """Return a layer with two tags that counts words as tokens."""
    keys = {"count": lambda text: (0, len(text.split()))} | changes
    return TextLayer(TextRules(normalizes, tags=("<2b>", "<2c>")), habits, **keys)


def sources(layer, line, split=Split.auto):
    return [each.source for each in layer.segments(line, split)]


def staying(layer, line, split=Split.auto):
    """Return the pieces that stay."""
    return [each.source for each in layer.segments(line, split) if not each.model.text]


@pytest.mark.parametrize(
    ("habits", "split", "is_split"),
    [
        (SINGLE, Split.auto, True),
        (SEVERAL, Split.auto, False),
        (SEVERAL, Split.always, True),
        (SINGLE, Split.never, False),
    ],
)
def test_lines_are_split_for_a_model_of_single_sentences_or_as_asked(habits, split, is_split):
    line = "Zwei Hunde.  Eine Katze!"

    segments = make_layer(habits).segments(line, split)

    expected = line.split("  ") if is_split else [line]
    assert segments == [Segment(each, ModelText(each)) for each in expected]


def test_a_line_is_normalized_before_it_is_split():
    layer = make_layer(normalizes=True)
    line = "Scho\u0308n.\u200f <br> A\u0308pfel.\u00a0Ja"

    assert sources(layer, line) == ["Sch\u00f6n.", " <br> ", "\u00c4pfel.", "Ja"]
    assert staying(layer, line) == [" <br> "]
    assert line_of(each.model.line(each.model.text.upper()) for each in layer.segments(line)) == (
        "SCH\u00d6N. <br> \u00c4PFEL. JA"
    )


@pytest.mark.parametrize(
    ("habits", "split", "is_recased"),
    [
        ({"capitals": 0.009}, Split.auto, True),
        ({"capitals": 0.01}, Split.auto, False),
        (SINGLE, Split.never, False),
    ],
)
def test_capitals_are_read_in_usual_letters_unless_the_training_text_has_them(
    habits, split, is_recased
):
    [segment] = make_layer(habits).segments("EIN HUND", split)

    read = "Ein hund" if is_recased else "EIN HUND"
    assert segment.model == ModelText(read, in_capitals=is_recased)
    assert segment.model.line("a dog") == ("A DOG" if is_recased else "a dog")


@pytest.mark.parametrize("line", ["", " ", "Eins zwei.", "<2b> ", "- ", "\u200b", " 12:30  7"])
@pytest.mark.parametrize("split", Split)
def test_a_line_of_a_single_piece_is_its_source(line, split):
    [segment] = make_layer(normalizes=True).segments(line, split)

    assert segment.source == line
    assert segment.model.text or segment.model.line("").split() == line.strip("\u200b").split()


@pytest.mark.parametrize(
    ("habits", "split", "pieces"),
    [
        (SINGLE, Split.auto, ["-", "Ja.", "12:30.", "\U0001f600", "Nein.", "---"]),
        (TIMES, Split.auto, ["- Ja.", "12:30.", "\U0001f600 Nein.", "---"]),
        (SINGLE, Split.never, ["- Ja. 12:30. \U0001f600 Nein. ---"]),
    ],
)
def test_text_without_words_stays_unless_the_training_text_translates_it(habits, split, pieces):
    layer = make_layer(habits)
    line = "- Ja. 12:30. \U0001f600 Nein. ---"

    assert sources(layer, line, split) == pieces
    stays = habits is SINGLE and split is Split.auto
    assert staying(layer, line, split) == (["-", "12:30.", "\U0001f600", "---"] if stays else [])


@pytest.mark.parametrize("start", ["<2b> ", " <2c> ", ""])
def test_every_sentence_of_a_line_has_the_tags_of_its_start(start):
    tag = start.lstrip()

    assert sources(make_layer(), f"{start}- Zwei Hunde. Ja ja. 12:30") == (
        ["-", f"{tag}Zwei Hunde.", f"{tag}Ja ja.", "12:30"]
    )


@pytest.mark.parametrize("habits", [SINGLE, SEVERAL])
@pytest.mark.parametrize("text", ["a" * 2500, "a b " * 625, "x" + " " * 2000 + "y" * 1500])
def test_a_sentence_of_very_many_tokens_is_cut_into_tagged_parts(text, habits):
    layer = make_layer(habits, count=lambda text: (0, len(text)))
    longest = "<2b>" + "a" * (VERY_LONG - 4)

    segments = layer.segments(f"<2b>{text}")

    assert layer.segments(longest) == [Segment(longest, ModelText(longest))]
    parts = [each.source for each in segments]
    assert {each.is_cut for each in segments} == {True}
    assert max(map(len, parts)) <= 100
    assert "".join(part.removeprefix("<2b>") for part in parts).replace(" ", "") == (
        text.replace(" ", "")
    )
    assert all(part.startswith("<2b>") for part in parts)


def test_a_line_of_nothing_but_tags_stays_whole():
    layer = make_layer(count=lambda text: (0, len(text)))

    assert sources(layer, "<2b>" * 500) == ["<2b>" * 500]


def test_short_lines_are_not_tokenized():
    assert sources(make_layer(count=lambda text: 1 // 0), "Ja. Nein.") == ["Ja.", "Nein."]


def test_the_words_of_a_piece_are_counted_in_the_line_of_the_user():
    layer = make_layer(normalizes=True)
    line = "<2b> \u200b Ein\u00a0Hund.Nein,  nein."

    assert sources(layer, line) == ["<2b> Ein Hund.", "<2b> Nein, nein."]
    assert layer.source_words(line, sources(layer, line)) == [[0, 2, 2], [0, 2, 3]]
    assert words_of("a dog. No", ["a dog.", "", "No"]) == [[0, 1], [2], [2]]
