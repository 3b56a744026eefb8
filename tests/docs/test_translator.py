"""The model in the box, which the documentation's first page runs: everyday German to English."""

import re

import pytest
from documents import ROOT, load_script, run_shell

from seq2seq.export.translator import OnnxTranslator

MODEL = ROOT / "checkpoints" / "everyday-de-en"
TRANSLATIONS = {
    "Ich weiß nicht, was ich sagen soll.": r"I (don't|do not) know what to say\.",
    "Mein Bruder arbeitet in einem Krankenhaus.": r"My brother works (in|at) a hospital\.",
    "Er hat das Buch gestern gelesen.": r"He read the book yesterday\.",
    "Kannst du mir bitte helfen?": r"(Can|Could) you (please help me|help me,? please)\?",
    "Wo ist der Bahnhof?": r"Where('s| is) the (railway |train )?station\?",
    "Ich habe heute keine Zeit.": r"I (don't have|have no|haven't) (any )?time today\.",
    "Meine Schwester hat zwei Kinder.": r"My sister has (two|2) (children|kids)\.",
    "Warum bist du so müde?": r"Why are you so tired\?",
    "Das Wasser ist zu kalt.": r"The water('s| is) too cold\.",
    "Wir trinken jeden Morgen Kaffee.": r"We drink coffee (every|each) morning\.",
}
"""Sentences of our own, and what a right translation looks like."""
LEAST_RIGHT = 9
"""Processors round int8 differently, so one translation may change."""


def test_ten_everyday_sentences_are_translated() -> None:
    translator = OnnxTranslator.load(MODEL)

    found = {text: translator([text])[0].text for text in TRANSLATIONS}

    wrong = [each for text, each in found.items() if not re.fullmatch(TRANSLATIONS[text], each)]
    assert len(TRANSLATIONS) - len(wrong) >= LEAST_RIGHT, wrong


def test_the_sentences_that_the_page_offers_are_among_them() -> None:
    assert {*load_script("translator").EXAMPLES} <= TRANSLATIONS.keys()


def test_the_model_is_small_and_its_card_says_how_it_was_trained() -> None:
    card = (MODEL / "README.md").read_text(encoding="utf-8")

    assert sum(path.stat().st_size for path in MODEL.iterdir()) <= 8_000_000
    assert not (MODEL / "best.pt").exists()
    for part in (r"experiment=everyday", r"\| seed \| \d", r"CC BY 2\.0 FR", r"bleu"):
        assert re.search(part, card), part


@pytest.mark.slow
def test_a_typed_sentence_is_answered_at_the_prompt() -> None:
    [text, pattern] = next(iter(TRANSLATIONS.items()))

    done = run_shell(ROOT, f"echo '{text}' | python translate.py checkpoint={MODEL}")

    assert re.fullmatch(pattern, done.stdout.strip()), done.stderr
