"""Text before and after the model. The page that translates is tested with the same cases."""

import json
import random
import re
import time
import unicodedata
from pathlib import Path

import pytest
from node_scripts import needs_node, run_scripts

from seq2seq.export.web_page import javascript_pattern
from seq2seq.text.patterns import PATTERNS
from seq2seq.text.rules import (
    GLUE,
    KEPT,
    MAX_SPANS,
    SYMBOLS,
    ModelText,
    TextRules,
    in_capitals,
    lost_spans,
    normalize,
    recase,
    restore,
    split_words,
)
from seq2seq.text.sentences import has_words, split_marker, split_sentences

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())
"""Cases for Python and the page: spans are in brackets; sentences, capitals and so on."""
RULES = TextRules(
    normalizes=True, patterns={KEPT: re.escape("<2de>"), "own1": r"ORD-x-\d\d", **PATTERNS}
)
FUNCTION = """({ rules, lines }) => {
  const own = new TextRules(rules);
  return lines.map((line) => {
    const { text, spans } = own.prepare(line);
    return [text, spans, restore(text, spans)];
  });
}"""


def marked(text, spans):
    """Return a text of the model with its spans in brackets in place of symbols."""
    return restore(text, [f"[{span.rstrip(GLUE)}]{GLUE * span.endswith(GLUE)}" for span in spans])


@pytest.mark.parametrize(("given", "expected"), CASES["spans"])
def test_text_is_normalized_and_spans_are_found(given, expected):
    text, spans = RULES.prepare(given)[:2]

    assert marked(text, spans) == expected
    assert restore(text, spans) == RULES.normalize(given)
    assert RULES.normalize(RULES.normalize(given)) == RULES.normalize(given)


def strange_lines():
    draw = random.Random(3)
    alphabet = [*"ab1 2%${}<>/@.:&;-+#\u00e4\u0308\u00a0\u00ad\u200d\u0660\ufe0f", "\U0001f600"]
    alphabet += ["http://", "%s", "&amp;", "<b", "A-7", "www.", "\u1100\u1161", SYMBOLS[1], "_"]
    return ["".join(draw.choices(alphabet, k=draw.randint(1, 25))) for _ in range(3000)]


@needs_node
def test_the_page_follows_the_same_rules():
    lines = [*(text for text, _ in CASES["spans"]), *strange_lines()]
    rules = {"normalizes": True, "pattern": javascript_pattern(RULES.patterns)}

    found = run_scripts(
        "sentences.js", "rules.js", function=FUNCTION, data={"rules": rules, "lines": lines}
    )

    expected = []
    for line in lines:
        source = RULES.prepare(line)
        expected.append([source.text, list(source.spans), source.line(source.text)])
    assert found == expected


@needs_node
def test_the_page_reads_own_patterns_as_python_does():
    own = TextRules(True, {"own1": r"{[a-z]+}|\bx\W[\d]{2}\b|[\]}]\s\x41"})
    lines = ["a {b_c} {bc} x-12 \u00e4x-12 x-123 x-\u0661\u0662 xy12", "x\u00e412 ] A} A"]
    rules = {"normalizes": True, "pattern": javascript_pattern(own.patterns)}

    found = run_scripts(
        "sentences.js", "rules.js", function=FUNCTION, data={"rules": rules, "lines": lines}
    )

    assert [spans for _, spans, _ in found] == [list(own.prepare(line).spans) for line in lines]
    assert sum(len(spans) for _, spans, _ in found) == 5
    with pytest.raises(
        ValueError, match=r"protect=a\\B: a browser has no \\B with the same meaning"
    ):
        javascript_pattern({"own1": r"a\B"})


def test_an_own_pattern_that_matches_nothing_protects_nothing():
    rules = TextRules(True, {"own1": "[0-9]*(?=\u20ac)"})

    assert rules.prepare("Das \u20ac ist 5\u20ac").spans == ("5",)


SHAPES = (
    *(
        "%0",
        "%(a)0",
        "A1-",
        "1",
        "1,",
        "1 000 ",
        "(",
        "<a",
        "<",
        "{",
        "{a,",
        "[[",
        "@a",
        "a@b.",
        "/a",
    ),
    *(
        "http://(",
        "www.",
        "--a",
        "-a=",
        "a_",
        "$t(",
        ":a_",
        "&#1",
        "DE89 ",
        "+1 ",
        "0123 ",
        "1e",
        "v1.",
    ),
    *(
        "\U0001f44d",
        "\U0001f1e9",
        "#\ufe0f",
        ". ",
        "A. ",
        "<br> ",
        "\\N",
        "\u03b1; ",
        "\u300c",
        "I. ",
        "><",
    ),
)


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_length_of_a_text(shape):
    def seconds(size):
        text = shape * (size // len(shape)) + "z\u00e9"
        start = time.process_time()
        for function in (RULES.matches, split_sentences, has_words, split_marker):
            function(text)
        return time.process_time() - start

    size = 2_000
    # Eight times as many characters would take 64 times as long in quadratic time.
    ratios = (seconds(8 * size) / max(seconds(size), 1e-3) for _ in range(5))
    assert any(found < 8 * 2.5 for found in ratios)


def test_the_pattern_of_emoji_is_that_of_the_list():
    list_of_unicode = pytest.importorskip("emoji")
    from emoji_pattern import emoji_pattern

    found = list_of_unicode.EMOJI_DATA.items()
    qualified = [each for each, data in found if data["status"] == 2]
    others = [each for each, data in found if data["status"] > 2]

    assert emoji_pattern().encode().decode("unicode_escape") == PATTERNS["emoji"]
    assert all(RULES.prepare(each).spans == (each,) for each in qualified)
    assert not any(RULES.prepare(each).spans == (each,) for each in others)


def test_normalization_keeps_every_visible_character():
    for code in range(0x20, 0x110000):
        if not 0xD800 <= code < 0xE000:
            character = chr(code)
            kind = unicodedata.category(character)
            is_visible = kind not in ("Cc", "Cf") and not character.isspace()
            if is_visible and character not in SYMBOLS:
                assert normalize(character) == unicodedata.normalize("NFC", character), hex(code)


def test_only_spans_of_both_sides_become_symbols_in_training():
    source, target = RULES.prepare_pair("Um 2.30 kommen 7 von 7 (A4).", "At 2:30 A4 7 come.")

    assert marked(source.text, source.spans) == "Um 2.30 kommen [7] von 7 ([A4])."
    assert marked(target, source.spans) == "At 2:30 [A4] [7] come."
    assert source.spans == ("7", "A4")


def test_a_target_has_each_symbol_of_its_source_once():
    spans = ("7", "A4", "7")

    assert (
        RULES.mask("7 A4 7 A4 7", ModelText("", spans))
        == f"{SYMBOLS[0]} {SYMBOLS[1]} {SYMBOLS[2]} A4 7"
    )


def test_without_rules_nothing_changes():
    text = "  a\u00a0\u0308 7 \ufeff"

    assert TextRules().prepare(text) == ModelText(text)
    assert TextRules().prepare_pair(text, text) == (ModelText(text), text)


def test_words_of_the_model_belong_to_the_words_of_the_user():
    text = "\u00ad Nr.  7 von\u00a0 10 000 <b>Hunden</b> \u200b!"
    words = split_words(text)
    source = RULES.prepare(text)

    owners = RULES.owners(text, source)

    originals = [source.label(word) for word in source.text.split()]
    assert originals == ["Nr.", "7", "von", "10 000", "<b>", "Hunden</b>", "!"]
    assert [words[owner] for owner in owners] == [
        *("Nr.", "7", "von\u00a0", "10", "<b>Hunden</b>", "<b>Hunden</b>", "\u200b!")
    ]


@pytest.mark.parametrize(
    ("text", "read", "answer", "line"),
    [
        ("Da <b>ist</b> er", "Da [<b>] ist[</b>] er", "He [<b>] is[</b>]", "He <b>is</b>"),
        ("<i>Ja</i>", "[<i>] Ja[</i>]", "[<i>]Yes [</i>]", "<i>Yes </i>"),
        ("a<br/>b, <b> c", "a[<br/>] b, [<b>] c", "[<b>] a[<br/>] b", "<b> a<br/>b"),
    ],
)
def test_a_word_after_an_opening_tag_is_read_as_it_is_alone(text, read, answer, line):
    source = RULES.prepare(text)

    def symbols(bracketed):
        for span, symbol in zip(source.spans, SYMBOLS, strict=False):
            bracketed = bracketed.replace(f"[{span.rstrip(GLUE)}]", symbol)
        return bracketed

    assert source.text == symbols(read)
    assert source.line(source.text) == text
    assert source.line(symbols(answer)) == line
    assert source.lost(text, line) == []


def test_the_symbols_are_no_characters_of_a_text():
    assert len(SYMBOLS) == MAX_SPANS
    assert {unicodedata.category(symbol) for symbol in SYMBOLS} == {"Co"}


@pytest.mark.parametrize(
    ("source", "translation", "lost"),
    [
        ("Es kostet 73,24 \u20ac am 3. Mai.", "It costs \u20ac73.24 on 3 May.", []),
        ("Artikel KR-7, \U0001f600", "Item KR-8", ["KR-7", "\U0001f600"]),
        ("7 und 7", "7", ["7"]),
        ("<2de> 500ml, 1990er, 7h30", "100ml, 1990s, 7:30", ["500ml"]),
        ("Scho\u0308n: a@b.de\u00a0!", "Nice: a@b.de!", []),
        ("5 Hunde, 3Euro, KR-7", "50 dogs, 30 euros, KR-77", ["5", "3", "KR-7"]),
        ("1,50 am 1.12.2024, 1:30", "150 on 11.2.2024, 130", ["1,50", "1.12.2024", "1:30"]),
        ("-5 Grad, \u20137 Grad", "5 degrees, -7 degrees", ["-5"]),
        ("1.234,50, 10 000, 1.5.2024", "1,234.50, 10,000, 1/5/2024", []),
        ("CO2-Test, 3D-Bild, 8 GB, \u20135 Grad", "CO2 test, 3D image, 8GB, minus 5 degrees", []),
        ("0171/123 45 67, vom 1.\u20133. Mai", "0171 123 45 67, 1\u20133 May", []),
        ("10-12 oder 7\u20138, 2-3", "10\u201312 or 7 to 8, 2.3", ["2-3"]),
        ("1/2 und 3:2, 5-7", "1.2 and 3.2, 5.7", ["1/2", "5-7"]),
        ("5 \u20ac, 6 $, 7 \u00a3, 20 %", "5 euros, US$6, 7 pounds, 20 percent", []),
        ("5 \u20ac und 20 %", "5 and 20", ["\u20ac", "%"]),
        ("\u2764\ufe0f dich", "\u2764 you", []),
        ("Hallo", "Hello 5", []),
    ],
)
def test_spans_that_a_translation_lacks_are_named(source, translation, lost):
    assert lost_spans(source, translation) == lost


@pytest.mark.parametrize(("text", "expected"), CASES["capitals"])
def test_text_in_capitals_is_read_in_the_letters_of_the_vocabulary(text, expected):
    assert in_capitals(text) is (expected is not None)
    if expected is not None:
        assert recase(text, cost_of_hund) == expected


def cost_of_hund(word):
    """Only one word has a capital letter in the vocabulary."""
    return (0, 1 if word == "Hund" else 2 + word[0].isupper())


@needs_node
def test_the_page_reads_capitals_in_the_same_letters():
    strange = [line.upper() for line in strange_lines()]
    lines = [
        line
        for line in [*(text for text, _ in CASES["capitals"]), *strange]
        if "\u0308" not in line
    ]
    function = """(lines) => lines.map((line) => [inCapitals(line), recase(line, (word) =>
      word === "Hund" ? 1 : 2 + (word[0] === word[0].toUpperCase()))])"""

    found = run_scripts("sentences.js", "rules.js", function=function, data=lines)

    expected = [[in_capitals(line), recase(line, cost_of_hund)] for line in lines]
    assert [each[0] for each in found] == [each[0] for each in expected]
    for (is_in, text), own in zip(found, expected, strict=True):
        assert not is_in or text == own[1]
