import pytest
import torch
from tiny_translator import make_translator

from seq2seq.data.config import Splitter
from seq2seq.data.tokenizers.interface import RuledTokenizer, SymbolTokenizer, TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer, WordTokenizer
from seq2seq.inference.lines import join_translations
from seq2seq.inference.scoring import attention_links
from seq2seq.inference.translations import EncodedLine, make_translation
from seq2seq.inference.unknown_words import check_copying, copy_unknown_words
from seq2seq.search.config import Hypothesis
from seq2seq.special_tokens import UNKNOWN_SURFACE
from seq2seq.text.rules import PATTERNS, TextRules

SOURCE = WordTokenizer(
    ["Der", "Berg", "ist", "Hoch", ",", ".", "/"], splitter=Splitter.moses, language="de"
)
TARGET = WordTokenizer(
    ["The", "is", "high", "\t.", UNKNOWN_SURFACE], splitter=Splitter.moses, language="en"
)
WORDS = TokenizerPair(SOURCE, TARGET)


def translate(source, labels, attended, *, tokenizers=WORDS):
    """Return a translation whose tokens attend to the numbered source tokens; -1 is EOS."""
    known = {label: i for i, label in enumerate(TARGET.tokens(range(len(TARGET))))}
    target_ids = [known[label] for label in labels.split()]
    text, spans = tokenizers.source.rules.prepare(source)
    [ids] = tokenizers.source.encode([text])
    weights = torch.full((1, len(target_ids) + 1, len(ids) + 1), 0.01)
    for row, column in enumerate(attended):
        weights[0, row, column] = 0.9
    hypothesis = Hypothesis(target_ids, -1.0, -2.0, True, weights)
    return make_translation(EncodedLine(source, ids, spans), [hypothesis], tokenizers=tokenizers)


@pytest.mark.parametrize(
    ("source", "labels", "attended", "text"),
    [
        ("Der Watzmann, ist 2713m.", "The <unk> is <unk> .", [0, 1, 3, 4, 5], "The Watzmann is"),
        ("Der Berg/Watzmann.", "The <unk> .", [0, 1, 4], "The Berg."),  # a known word
        ("Der Watzmann Jenner", "<unk> <unk>", [2, 1], "Jenner Watzmann"),
        ("Berg Watzmann", f"<unk> {UNKNOWN_SURFACE} <unk>", [1, 0, 0], "Watzmann \u2047 Berg"),
    ],
)
def test_an_unknown_word_becomes_the_source_token_with_the_most_attention(
    source, labels, attended, text
):
    translation = translate(source, labels, attended)

    replaced = copy_unknown_words(translation, WORDS)

    assert translation.text.count(UNKNOWN_SURFACE) == labels.count("unk") + (
        UNKNOWN_SURFACE in text
    )
    assert replaced.text.startswith(text)


def test_protected_spans_and_tags_are_no_obstacle():
    rules = TextRules(patterns={"numbers": PATTERNS["numbers"]})
    source = RuledTokenizer(SymbolTokenizer(SOURCE, ["<2en>"]), rules)
    tokenizers = TokenizerPair(source, TARGET)
    translation = translate("<2en> Der Watzmann 7", "The <unk>", [1, 2], tokenizers=tokenizers)

    assert copy_unknown_words(translation, tokenizers).text == "The Watzmann"


def test_tokens_scores_and_weights_do_not_change():
    translation = translate("Berg", "<unk>", [0])

    replaced = copy_unknown_words(translation, WORDS)

    assert replaced.best._replace(text="", words=None) == translation.best._replace(text="")
    assert replaced[:3] == translation[:3]


def test_links_count_the_words_of_the_new_text():
    translation = translate("Berghigh Hoch", "<unk> high", [0, 1])

    replaced = copy_unknown_words(translation, WORDS)

    assert replaced.text == "Berghigh high"
    links = attention_links(replaced, replaced.best, tokenizers=WORDS)
    assert next(links) == {(0, 0), (1, 1)}


def test_every_hypothesis_is_replaced():
    one, two = (translate("Berg Tal", "The <unk>", [0, column]) for column in (0, 1))
    translation = one._replace(hypotheses=[one.best, two.best, one.best])

    replaced = copy_unknown_words(translation, WORDS)

    assert [found.text for found in replaced.hypotheses] == ["The Berg", "The Tal"]


def test_an_unknown_word_without_attention_to_a_word_is_kept():
    translation = translate("Berg", "<unk>", [-1])
    translation.best.attention_weights[0, 0, 0] = 0

    assert copy_unknown_words(translation, WORDS).text == UNKNOWN_SURFACE


def test_the_sentences_of_a_line_are_replaced_one_by_one():
    parts = [translate("Hund", "<unk>", [0]), translate("Katze .", "<unk> .", [0, 1])]

    replaced = copy_unknown_words(join_translations("Hund Katze .", parts), WORDS)

    assert replaced.text == "Hund Katze."
    assert [part.text for part in replaced.parts] == ["Hund", "Katze."]


@pytest.mark.parametrize(
    ("attention", "tokenizers", "reason"),
    [
        ("none", WORDS, "with attention, which this one lacks"),
        ("dot", TokenizerPair(CharacterTokenizer("ab"), TARGET), "with tokenizer=words; train"),
    ],
)
def test_other_models_are_refused(attention, tokenizers, reason):
    with pytest.raises(ValueError, match=f"^unknown_words=copy needs a model .*{reason}"):
        check_copying(make_translator(attention, tokenizers=tokenizers))


def test_models_of_words_are_accepted():
    target = SymbolTokenizer(TARGET, ["<2en>"])

    check_copying(make_translator("dot", tokenizers=TokenizerPair(SOURCE, target)))
