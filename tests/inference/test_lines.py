import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_translator import BEAM, TOKENIZERS, make_checkpoint, make_translator, translated

from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.data.tokenizers.interface import SymbolTokenizer
from seq2seq.inference.lines import (
    BATCHES_PER_WINDOW,
    LONG_SENTENCE,
    VERY_LONG,
    SentenceSplitter,
    cut_batches,
    cut_windows,
    in_order,
    join_translations,
)
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translator import Translator
from seq2seq.text.rules import normalize
from seq2seq.text.sentences import Split, TextHabits

SINGLE, SEVERAL = TextHabits(0.1, 0.0), TextHabits(0.9, 0.0)
TIMES = TextHabits(0.0, 0.5)
TAG = {"leading_symbols": lambda line: re.match("( *<..> )?", line)[0]}


def make_splitter(habits=SINGLE, split=Split.auto, **changes):
    """Return a splitter that counts words as tokens."""
    keys = {"num_tokens": lambda line: len(line.split())} | changes
    return SentenceSplitter(habits, split=split, **keys)


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

    parts, was_too_long = make_splitter(habits, split).parts(line)

    assert (parts, was_too_long) == (line.split("  ") if is_split else [line], False)


def test_a_line_is_normalized_before_it_is_split():
    splitter = make_splitter(normalize=normalize)

    parts, _ = splitter.parts("Scho\u0308n.\u200f <br> A\u0308pfel.\u00a0Ja")

    assert parts == ["Sch\u00f6n.", " <br> ", "\u00c4pfel.", "Ja"]
    assert [splitter.stays(part) for part in parts] == [False, True, False, False]


@pytest.mark.parametrize(
    ("habits", "split", "recases"),
    [
        (TextHabits(capitals=0.009), Split.auto, True),
        (TextHabits(capitals=0.01), Split.auto, False),
        (SINGLE, Split.never, False),
    ],
)
def test_capitals_are_read_in_usual_letters_unless_the_training_text_has_them(
    habits, split, recases
):
    assert make_splitter(habits, split).recases is recases


@pytest.mark.parametrize("line", ["", " ", "Eins zwei.", "<2b> ", "- "])
def test_a_single_sentence_is_not_split(line):
    assert make_splitter(**TAG).parts(line) == ([line], False)


@pytest.mark.parametrize(
    ("habits", "split", "parts"),
    [
        (SINGLE, Split.auto, ["-", "Ja.", "12:30.", "\U0001f600", "Nein.", "---"]),
        (TIMES, Split.auto, ["- Ja.", "12:30.", "\U0001f600 Nein.", "---"]),
        (SINGLE, Split.never, ["- Ja. 12:30. \U0001f600 Nein. ---"]),
    ],
)
def test_text_without_words_stays_unless_the_training_text_translates_it(habits, split, parts):
    splitter = make_splitter(habits, split)

    assert splitter.parts("- Ja. 12:30. \U0001f600 Nein. ---")[0] == parts
    stays = habits is SINGLE and split is Split.auto
    assert [splitter.stays(part) for part in ("---", "12:30.", "Ja.")] == [stays, stays, False]


@pytest.mark.parametrize("start", ["<2b> ", " <2c> ", ""])
def test_every_sentence_of_a_line_has_the_symbols_of_its_start(start):
    parts, _ = make_splitter(**TAG).parts(f"{start}- Zwei Hunde. Ja ja. 12:30")

    tag = start.lstrip()
    assert parts == ["-", f"{tag}Zwei Hunde.", f"{tag}Ja ja.", "12:30"]


@pytest.mark.parametrize("habits", [SINGLE, SEVERAL])
@pytest.mark.parametrize("text", ["a" * 2500, "a b " * 625, "x" + " " * 2000 + "y" * 1500])
def test_a_sentence_of_very_many_tokens_is_cut_into_tagged_parts(text, habits):
    splitter = make_splitter(
        habits, num_tokens=len, leading_symbols=lambda line: line[: line.rfind(">") + 1]
    )
    longest = "<2b>" + "a" * (VERY_LONG - 4)

    parts, was_too_long = splitter.parts(f"<2b>{text}")

    assert splitter.parts(longest) == ([longest], False)
    assert was_too_long
    assert max(map(len, parts)) <= 100
    assert "".join(part.removeprefix("<2b>") for part in parts).replace(" ", "") == (
        text.replace(" ", "")
    )
    assert all(part.startswith("<2b>") for part in parts)


def test_a_line_of_nothing_but_leading_symbols_stays_whole():
    splitter = make_splitter(num_tokens=len, leading_symbols=lambda line: line)

    assert splitter.parts("<2b>" * 500) == (["<2b>" * 500], True)


def test_short_lines_are_not_tokenized():
    splitter = make_splitter(num_tokens=lambda line: 1 // 0)

    assert splitter.parts("Ja. Nein.") == (["Ja.", "Nein."], False)


def test_a_line_without_an_end_of_a_sentence_is_its_own_translation():
    part = translated("ja", "JA")

    assert join_translations("ja", [part]) is part
    assert join_translations("<2b> ja", [part]).source == "<2b> ja"


@pytest.mark.parametrize("habits", [SINGLE, SEVERAL])
def test_a_checkpoint_decides_whether_its_translator_splits(habits, tmp_path):
    path = tmp_path / "best.pt"
    save_checkpoint(path, replace(make_checkpoint(), habits=habits))

    [found] = Translator.load(path, device="cpu")(["ein hund. Zwei."])

    assert len(found.parts) == (2 if habits is SINGLE else 0)


def test_the_translation_of_a_line_joins_those_of_its_sentences():
    translator = make_translator()
    sentences = ["ein hund.", "Zwei.", "---", "Ja"]

    parts = translator(sentences, BEAM)
    [joined] = translator([" ein hund.  Zwei. --- Ja"], BEAM)

    assert joined.source == " ein hund.  Zwei. --- Ja"
    assert joined.text == " ".join(part.text for part in parts if part.text)
    assert "---" in joined.text.split()
    assert joined.source_tokens == [token for part in parts for token in part.source_tokens]
    best = [part.best for part in parts]
    assert joined.best.tokens == [token for each in best for token in each.tokens]
    assert joined.score == pytest.approx(sum(each.score for each in best))
    assert len(joined.best.token_log_probabilities) == len(joined.best.tokens)
    assert len(joined.hypotheses) > 1
    row = column = 0
    for each in best:
        _, height, width = each.attention_weights.shape
        block = joined.best.attention_weights[:, row : row + height, column : column + width]
        assert block.equal(each.attention_weights)
        row, column = row + height, column + width
    assert joined.best.attention_weights.shape[1:] == (row, column)
    total = sum(each.attention_weights.sum() for each in best)
    assert float(joined.best.attention_weights.sum()) == pytest.approx(float(total))


def test_the_links_of_a_line_are_those_of_its_sentences_counted_in_the_line():
    tagged = TOKENIZERS._replace(source=SymbolTokenizer(TOKENIZERS.source, ["<2b>"]))
    translator = make_translator(tokenizers=tagged)

    first, second = translator(["<2b> ein hund.", "<2b> Zwei katzen."])
    [joined] = translator(["<2b>  ein hund.  Zwei katzen."])

    offset = len(first.text.split())
    of_second = {
        (source if source == 0 else source + 2, target + offset)
        for source, target in translator.links(second)
    }
    assert translator.links(joined) == translator.links(first) | of_second
    assert translator.links(second)


def windows(lines, batch_size=3, **options):
    return list(cut_windows(lines, make_splitter(), batch_size, StreamCounts((), None, **options)))


def test_a_window_holds_the_sentences_of_many_batches_and_the_last_one_the_rest():
    full = 3 * BATCHES_PER_WINDOW // 2

    found = windows([("Ja. Nein.", "")] * (2 * full + 1))

    assert [len(window) for window in found] == [full, full, 1]
    places = [line[0].place for window in found for line in window]
    assert places == list(range(2 * full + 1))


def test_a_window_ends_where_the_next_line_has_not_arrived():
    answers = iter([True, False, True])

    found = windows([("Ja", "")] * 3, has_more=lambda: next(answers))

    assert [len(window) for window in found] == [2, 1]


@given(
    lengths=st.lists(st.one_of(st.just(0), st.integers(0, 3 * LONG_SENTENCE))),
    batch_size=st.integers(1, 5),
)
def test_every_row_is_in_a_batch_of_bounded_area_and_comes_back_in_order(lengths, batch_size):
    batches = cut_batches(lengths, batch_size)

    assert list(in_order(batches, batches)) == list(range(len(lengths)))
    assert [lengths[row] for batch in batches for row in batch] == sorted(lengths)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        area = len(batch) * max(lengths[row] for row in batch)
        assert len(batch) == 1 or area <= batch_size * LONG_SENTENCE
        assert len({lengths[row] == 0 for row in batch}) == 1


def test_a_result_comes_before_the_batches_behind_it():
    results = in_order([[0, 1], [2, 3]], iter([["a", "b"]]))

    assert [next(results), next(results)] == ["a", "b"]


def test_a_row_without_a_result_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        list(in_order([[0, 1]], [["a"]]))


def test_a_warning_counts_very_long_rows(caplog):
    cut_batches([1, VERY_LONG, VERY_LONG + 1, 50 * VERY_LONG], batch_size=2)

    [message] = caplog.messages
    assert message.startswith("sentences of more than 1,000 tokens: 2, the longest has 50,000;")
    assert message.endswith("split=always splits them")
