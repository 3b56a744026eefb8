import logging
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_data import list_corpus, unigram_config
from tiny_translator import make_translator

from seq2seq.data.tokenizers.interface import TokenizerPair, train_tokenizers
from seq2seq.data.tokenizers.words import CharacterTokenizer, WordTokenizer
from seq2seq.inference.results import EncodedLine, make_translation
from seq2seq.inference.sentence_splitting import join_translations
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translation import attention_links
from seq2seq.inference.unknown_words import UnknownWords
from seq2seq.search.config import Hypothesis
from seq2seq.special_tokens import UNK, UNKNOWN_SURFACE

SOURCE = WordTokenizer(
    ["Der", "Berg", "ist", "Hoch", ",", ".", "/"], tokenizer="moses", language="de", lowercase=False
)
TARGET = WordTokenizer(
    ["The", "is", "high", "\t."], tokenizer="moses", language="en", lowercase=False
)
WORDS = TokenizerPair(SOURCE, TARGET)


def unknown_words(tokenizers=WORDS, counts=None):
    translator = SimpleNamespace(num_heads=1, tokenizers=tokenizers)
    counts = Counter() if counts is None else counts
    return UnknownWords(translator, counts=counts)


def translate(source, target_ids, attended, *, tokenizers=WORDS):
    """Return a translation whose tokens attend to the numbered source tokens; -1 is EOS."""
    [ids] = tokenizers.source.encode([source])
    weights = torch.full((1, len(target_ids) + 1, len(ids) + 1), 0.01)
    for row, column in enumerate(attended):
        weights[0, row, column] = 0.9
    hypothesis = Hypothesis(target_ids, -1.0, -2.0, True, weights)
    return make_translation(EncodedLine(source, ids), [hypothesis], tokenizers=tokenizers)


def target_ids(*labels):
    known = {label: i for i, label in enumerate(TARGET.tokens(range(len(TARGET))))}
    return [known[label] for label in labels]


def test_an_unknown_word_is_copied_without_the_punctuation_beside_it():
    ids = target_ids("The", "<unk>", "is", "<unk>", ".")
    translation = translate("Der Watzmann, ist 2713m.", ids, [0, 1, 3, 4, 5])

    replaced = unknown_words().replace(translation)

    assert translation.text == f"The {UNKNOWN_SURFACE} is {UNKNOWN_SURFACE}."
    assert replaced.text == "The Watzmann is 2713m."


def test_a_known_source_word_is_copied_too():
    translation = translate("Der Berg/Watzmann.", target_ids("The", "<unk>", "."), [0, 1, 4])

    assert unknown_words().replace(translation).text == "The Berg."


def test_tokens_scores_and_weights_do_not_change():
    translation = translate("Berg", target_ids("<unk>"), [0])

    replaced = unknown_words().replace(translation)

    assert replaced.best._replace(text="", words=None) == translation.best._replace(text="")
    assert replaced[:3] == translation[:3]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("q ab.", "q ab."),
        ("cab ab.", "cab ab."),  # looked for in it, ab would stand in cab
    ],
)
def test_links_count_the_words_of_the_new_text(source, text):
    tokenizers = TokenizerPair(CharacterTokenizer("qcab. "), CharacterTokenizer("abc. "))
    ids = [UNK, *tokenizers.target.encode([" ab."])[0]]
    attended = [0, *range(source.index(" "), len(source))]
    translation = translate(source, ids, attended, tokenizers=tokenizers)

    replaced = unknown_words(tokenizers).replace(translation)

    assert replaced.text == text
    links = attention_links(replaced, replaced.best, tokenizers=tokenizers)
    assert next(links) == {(0, 0), (1, 1)}


def test_every_hypothesis_is_replaced():
    one, two = (translate("Berg Tal", target_ids("The", "<unk>"), [0, column]) for column in (0, 1))
    translation = one._replace(hypotheses=[one.best, two.best, one.best])

    replaced = unknown_words().replace(translation)

    assert [found.text for found in replaced.hypotheses] == ["The Berg", "The Tal"]


def test_the_word_with_most_attention_is_copied_even_if_another_token_has_more():
    tokenizers = TokenizerPair(CharacterTokenizer("abc "), TARGET)
    translation = translate("abc c", target_ids("<unk>"), [-1], tokenizers=tokenizers)
    # The tokens a, b and c have more together than the last c, and EOS more than any.
    translation.best.attention_weights[0, 0] = torch.tensor([0.1, 0.1, 0.1, 0.0, 0.2, 0.5])

    assert unknown_words(tokenizers).replace(translation).text == "abc"


def test_an_unknown_token_of_a_word_is_copied_alone():
    tokenizers = TokenizerPair(CharacterTokenizer("abc "), TARGET)
    translation = translate("ab\u0141c", target_ids("<unk>"), [2], tokenizers=tokenizers)

    assert unknown_words(tokenizers).replace(translation).text == "\u0141"


def test_a_translation_that_was_scored_is_refused():
    translation = translate("Berg", target_ids("<unk>"), [0])
    scored = translation._replace(hypotheses=[translation.best._replace(text="mountain")])

    with pytest.raises(ValueError, match="has no marks of its unknown tokens"):
        unknown_words().replace(scored)


def test_a_known_token_that_looks_unknown_is_kept():
    tokenizers = TokenizerPair(CharacterTokenizer("ab"), CharacterTokenizer(["x", UNKNOWN_SURFACE]))
    translation = translate("ab", [5, 4, UNK, 5], [0, 0, 0, 0], tokenizers=tokenizers)

    replaced = unknown_words(tokenizers).replace(translation)

    assert replaced.text == f"{UNKNOWN_SURFACE}xab{UNKNOWN_SURFACE}"


def test_an_unknown_token_without_attention_is_kept_and_counted(caplog):
    translation = translate("Berg", target_ids("<unk>"), [-1])
    translation.best.attention_weights[0, 0, 0] = 0
    counts = StreamCounts((), None)

    with caplog.at_level(logging.INFO):
        replaced = unknown_words(counts=counts.tally.numbers).replace(translation)
        counts.report()

    assert replaced.text == UNKNOWN_SURFACE
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no source word has attention there: 1" in caplog.text


def test_replacements_are_counted(caplog):
    counts = StreamCounts((), None)
    rules = unknown_words(counts=counts.tally.numbers)

    with caplog.at_level(logging.INFO):
        for _ in range(2):
            rules.replace(translate("Berg Watzmann", target_ids("<unk>", "<unk>"), [0, 1]))
            rules.replace(translate("Watzmann", target_ids("<unk>"), [0]))
        counts.report()

    assert caplog.messages == [
        "unknown words replaced by copies of source words: 6",
    ]
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_sub_words_are_joined_to_their_word():
    tokenizer = sentence_tokens()
    tokenizers = TokenizerPair(tokenizer, tokenizer)
    [ids] = tokenizer.encode(["(Garmisch), der"])
    labels = tokenizer.tokens(ids)
    inside = next(i for i, label in enumerate(labels) if "m" in label)
    assert len(labels) > 5
    translation = translate("(Garmisch), der", [UNK], [inside], tokenizers=tokenizers)

    assert unknown_words(tokenizers).replace(translation).text == "Garmisch"


def sentence_tokens():
    text = "der schnee ist hoch ( G a r m i s c h ) , "
    config = unigram_config(vocabulary_size=30, joint=True)
    return train_tokenizers(config, list_corpus([(text, text)] * 3)).source


@settings(max_examples=40)
@given(
    source=st.text(alphabet="ab \u0141.,\u0130\u00df\u4e00", max_size=12),
    ids=st.lists(st.sampled_from([UNK, 4, 5, 6]), max_size=5),
    tokenizers=st.sampled_from([WORDS, TokenizerPair(CharacterTokenizer("ab ."), TARGET)]),
    data=st.data(),
)
def test_any_source_and_attention_give_words_of_the_source(source, ids, tokenizers, data):
    [source_ids] = tokenizers.source.encode([source])
    if not source.strip():
        return
    attended = [data.draw(st.integers(0, len(source_ids) - 1)) for _ in ids]
    translation = translate(source, ids, attended, tokenizers=tokenizers)

    replaced = unknown_words(tokenizers).replace(translation)

    assert UNKNOWN_SURFACE not in replaced.text
    words = translation.text.split(UNKNOWN_SURFACE)
    assert all(part in replaced.text for part in words)


def test_a_model_without_attention_is_refused():
    with pytest.raises(ValueError, match="unknown_words=copy needs a model with attention"):
        UnknownWords(make_translator("none"), counts=Counter())


def test_the_sentences_of_a_line_are_replaced_one_by_one():
    parts = [translate("Hund", [UNK], [0]), translate("Katze .", [UNK, 7], [0, 1])]

    replaced = unknown_words().replace(join_translations("Hund Katze .", parts))

    assert replaced.text == "Hund Katze."
    assert [part.text for part in replaced.parts] == ["Hund", "Katze."]
