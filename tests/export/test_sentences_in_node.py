"""The page treats the sentences of a text as `seq2seq.text.sentences` does, in Node."""

import json
import random
from pathlib import Path

import pytest
from node_scripts import needs_node, run_scripts

from seq2seq.inference.lines import SentenceSplitter
from seq2seq.text.sentences import (
    RULES,
    TextHabits,
    has_words,
    join_sentences,
    split_marker,
    split_sentences,
)

pytestmark = needs_node
CASES = Path(__file__).parents[1] / "text" / "sentences.json"
PARTS = (
    *("Ja", "ja", "\u00c4", "\u00e4", "3", "12", "123", "J", "Dr", "bzw", "usw", "a_b", "e\u0301"),
    *(".", "!", "?", "...", "\u2026", "\u3002", "\uff01", "\u300d", '"', ")", "\u201c", "\u0964"),
    *(" ", "  ", "\u00a0", "\u3000", "\t", "\x85", "\x1c", "\ufeff", "\u200b", "\u01c5", ". "),
    *("\U0001f600", "\u2160", "\u00b2", "\u0663", "\u00df", "\u02b0", "\u0130", " ", " ", "! "),
    *("I", "am", "The", "VI", "'s", "z. B", "U.S", "p.m", "No", "Mai", "der ", "- ", "\u300c"),
    *("\uff1a", "\u201d", "\u00bb ", "https://a.b", "a@b.c", "www.", "[", "]", "^", "\\", "\ufe0f"),
)
EVALUATE = """({texts, rules}) => {
  const sentences = new SentenceRules(rules);
  return texts.map((text) => [sentences.split(text), sentences.hasWords(text),
    sentences.splitMarker(text), sentences.join(sentences.split(text))]);
}"""


SPLIT = """({texts, rules, habits}) => {
  const translator = new Translator(null, null, null, null, new SentenceRules(rules), habits);
  return texts.map((text) => translator.split(text));
}"""


@pytest.mark.parametrize("habits", [TextHabits(), TextHabits(1.0, 0.0), TextHabits(0.0, 1.0)])
def test_lines_are_split_as_by_the_translator(habits):
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    texts = [case[0] for name in ("split", "markers") for case in cases[name] if case[0].strip()]
    described = {
        "hasSentences": habits.has_sentences,
        "keepsOtherText": habits.keeps_other_text,
        "numHeads": 1,
    }
    scripts = ("sentencepiece.js", "search.js", "sentences.js", "translator.js")

    found = run_scripts(
        *scripts, function=SPLIT, data={"texts": texts, "rules": RULES, "habits": described}
    )

    splitter = SentenceSplitter(habits, num_tokens=len)
    assert found == [splitter.sentences(text) for text in texts]


def test_sentences_are_those_of_python():
    draw = random.Random(3)
    texts = ["".join(draw.choices(PARTS, k=draw.randint(0, 14))) for _ in range(40_000)]
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    texts += [case[0] for name in ("split", "has_words", "markers") for case in cases[name]]
    texts += [" ".join(texts) for texts, _ in cases["join"]]
    texts += ["x" * 100 + ". Ja.", "\U0001f600" * 100 + ". Ja."]

    found = run_scripts("sentences.js", function=EVALUATE, data={"texts": texts, "rules": RULES})

    for text, each in zip(texts, found, strict=True):
        sentences = split_sentences(text)
        marker = list(split_marker(text))
        assert each == [sentences, has_words(text), marker, join_sentences(sentences)], repr(text)
