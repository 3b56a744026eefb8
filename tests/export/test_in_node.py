"""The tokenizer of the page against SentencePiece itself, in Node."""

import base64
import json
import random
from pathlib import Path

import pytest
from node_scripts import needs_node, run_scripts
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tiny_data import shared, unigram_config

from seq2seq.data.config import GrammarConfig, Normalization
from seq2seq.data.corpus import load_corpora
from seq2seq.data.tokenizers.ruled import plain_tokenizer, train_tokenizers
from seq2seq.export.web_page import described_rules, described_tokenizer, sentence_rules
from seq2seq.text.layer import TextLayer
from seq2seq.text.rules import TextRules
from seq2seq.text.sentences import (
    TextHabits,
    has_words,
    join_sentences,
    split_marker,
    split_sentences,
)

pytestmark = needs_node
NUM_LINES = 10_000
# Two spaces in a row, other spaces, the label of a space, a byte order mark, ligatures, full-width
# and combining characters, characters of four bytes, joined ones, and controls.
STRANGE = (
    *("  ", "\u00a0", "\u3000", "\u2003", "\t", "\u2581", "\u2581\u2581", "\ufeff", "\ufb01"),
    *("\uff21", "\u00e9", "e\u0301", "\u0301", "\u1e9e", "\u01c5", "\u212b", "\u2460", "\u33a5"),
    *("\U0001f600", "\U0001f468\u200d\U0001f469", "\U00020000", "\uac00", "\u1100\u1161", "\u0000"),
    *("\u0007", "\u00ad", "\u200b", "\u202e", "\ufffd", "\ud7ff", "<s>", "<unk>", "\r"),
)
TAGS = ("<2de>", "<2>")
FUNCTION = """({ model, charsmap, lines, rows, rules }) => {
  const tokenizer = new SentencePiece(
    model, readCharsmap(new Uint8Array(Buffer.from(charsmap, "base64"))), new TextRules(rules));
  return {
    ids: lines.map((line) => tokenizer.encode(line)),
    texts: rows.map((row) => tokenizer.decode(row)),
    tokens: tokenizer.tokens([...tokenizer.pieces.keys()]),
  };
}"""


@pytest.fixture(scope="module")
def corpus():
    fields = shared(name="grammar", num_train=NUM_LINES // 2)
    return load_corpora(GrammarConfig(**fields)).train


@pytest.fixture(scope="module")
def lines(corpus):
    """Return sentences, half of them with strange characters in them."""
    draw = random.Random(5)
    found = [pair.source for pair in corpus]
    for pair in corpus:
        characters = list(pair.source)
        for _ in range(draw.randint(1, 12)):
            strange = draw.choice([*STRANGE, chr(draw.randint(1, 0xD7FF)), " "])
            characters.insert(draw.randint(0, len(characters)), strange)
        found.append("".join(characters))
    return ["", " ", "   ", *found]


@pytest.mark.parametrize(
    ("name", "normalization"),
    [*(("unigram", each) for each in Normalization), ("bpe", Normalization.nmt_nfkc)],
)
def test_ids_and_texts_are_those_of_sentencepiece(corpus, lines, name, normalization):
    config = unigram_config(
        vocabulary_size=400,
        name=name,
        normalization=normalization,
        user_symbols=list(TAGS),
    )
    tokenizer = train_tokenizers(config, corpus).source
    # The page normalizes a line before it is encoded.
    lines = [*map(tokenizer.rules.normalize, lines), *(f"{tag}{lines[7]} {tag}" for tag in TAGS)]
    draw = random.Random(7)
    rows = [draw.choices(range(len(tokenizer)), k=draw.randint(0, 9)) for _ in range(2000)]

    model = ModelProto.FromString(plain_tokenizer(tokenizer).model)
    data = {
        "model": described_tokenizer(model),
        "charsmap": base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode(),
        "lines": lines,
        "rows": rows,
        "rules": described_rules(tokenizer.rules),
    }
    scripts = ("sentences.js", "rules.js", "sentencepiece.js")
    found = run_scripts(*scripts, function=FUNCTION, data=data)

    assert found["ids"] == tokenizer.encode(lines)
    assert found["texts"] == [tokenizer.decode(row) for row in rows]
    assert found["tokens"] == tokenizer.tokens(range(len(tokenizer)))


CASES = Path(__file__).parents[1] / "text" / "cases.json"
PARTS = (
    *("Ja", "ja", "\u00c4", "\u00e4", "3", "12", "123", "J", "Dr", "bzw", "usw", "a_b", "e\u0301"),
    *(".", "!", "?", "...", "\u2026", "\u3002", "\uff01", "\u300d", '"', ")", "\u201c", "\u0964"),
    *(" ", "  ", "\u00a0", "\u3000", "\t", "\x85", "\x1c", "\ufeff", "\u200b", "\u01c5", ". "),
    *("\U0001f600", "\u2160", "\u00b2", "\u0663", "\u00df", "\u02b0", "\u0130", " ", " ", "! "),
    *("a) ", "(iv)", "\u300c"),
    *("I", "am", "The", "VI", "'s", "z. B", "U.S", "p.m", "No", "Mai", "der ", "- "),
    *("\uff1a", "\u201d", "\u00bb ", "https://a.b", "a@b.c", "www.", "[", "]", "^", "\\", "\ufe0f"),
)
EVALUATE = """({texts, rules}) => {
  const sentences = new SentenceRules(rules);
  return texts.map((text) => [sentences.split(text), sentences.hasWords(text),
    sentences.splitMarker(text), sentences.join(sentences.split(text))]);
}"""


SPLIT = """({texts, rules, habits, tags}) => {
  const [own, sentences] = [new TextRules(tags), new SentenceRules(rules)];
  const translator = new Translator(null, null, null, own, sentences, habits);
  return texts.map((text) => translator.split(text));
}"""


@pytest.mark.parametrize("habits", [TextHabits(), TextHabits(1.0, 0.0), TextHabits(0.0, 1.0)])
@pytest.mark.parametrize("tags", [TAGS, ()], ids=["tags", "no tags"])
def test_lines_are_split_as_by_the_translator(habits, tags):
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    texts = [case[0] for name in ("split", "markers") for case in cases[name] if case[0].strip()]
    texts += ["<2de> - Ja. Nein. 7", " <2de><2> Ja. Nein.", "<2de> ", "<2de> Ja <2>. Nein."]
    described = {
        "hasSentences": habits.has_sentences,
        "keepsOtherText": habits.keeps_other_text,
        "numHeads": 1,
    }
    scripts = ("sentencepiece.js", "search.js", "sentences.js", "rules.js", "translator.js")
    rules = TextRules(tags=tags)

    found = run_scripts(
        *scripts,
        function=SPLIT,
        data={
            "texts": texts,
            "rules": sentence_rules(),
            "habits": described,
            "tags": described_rules(rules),
        },
    )

    layer = TextLayer(rules, habits._asdict(), count=lambda text: (0, len(text)))
    assert found == [[each.source for each in layer.segments(text)] for text in texts]


def test_sentences_are_those_of_python():
    draw = random.Random(3)
    texts = ["".join(draw.choices(PARTS, k=draw.randint(0, 14))) for _ in range(40_000)]
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    texts += [case[0] for name in ("split", "has_words", "markers") for case in cases[name]]
    texts += [" ".join(texts) for texts, _ in cases["join"]]
    texts += ["x" * 100 + ". Ja.", "\U0001f600" * 100 + ". Ja."]

    data = {"texts": texts, "rules": sentence_rules()}
    found = run_scripts("sentences.js", function=EVALUATE, data=data)

    for text, each in zip(texts, found, strict=True):
        sentences = split_sentences(text)
        marker = list(split_marker(text))
        assert each == [sentences, has_words(text), marker, join_sentences(sentences)], repr(text)
