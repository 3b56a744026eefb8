"""The page splits a text into the sentences of `split_sentences`, in Node."""

import random

from node_scripts import needs_node, run_scripts

from seq2seq.inference.sentence_splitting import ABBREVIATIONS, split_sentences

pytestmark = needs_node
PARTS = (
    *("Ja", "ja", "\u00c4", "\u00e4", "3", "12", "123", "J", "Dr", "bzw", "usw", "a_b", "e\u0301"),
    *(".", "!", "?", "...", "\u2026", "\u3002", "\uff01", "\u300d", '"', ")", "\u201c", "\u0964"),
    *(" ", "  ", "\u00a0", "\u3000", "\t", "\x85", "\x1c", "\ufeff", "\u200b", "\u01c5", ". "),
    *("\U0001f600", "\u2160", "\u00b2", "\u0663", "\u00df", "\u02b0", "\u0130", " ", " ", "! "),
)


def test_sentences_are_those_of_the_service():
    draw = random.Random(3)
    texts = ["".join(draw.choices(PARTS, k=draw.randint(0, 14))) for _ in range(20_000)]
    texts += ["Das M\u00e4dchen ist jung. Der Hund sieht es.", "x" * 100 + ". Ja.", "Am 3. Mai."]

    found = run_scripts(
        "sentences.js",
        function="({texts, abbreviations}) => texts.map((t) => splitSentences(t, abbreviations))",
        data={"texts": texts, "abbreviations": sorted(ABBREVIATIONS)},
    )

    assert found == [split_sentences(text) for text in texts]
