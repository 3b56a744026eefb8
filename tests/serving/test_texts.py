import numpy as np
import pytest

from seq2seq.inference.translations import TranslatedHypothesis, Translation
from seq2seq.serving.texts import SplitHtml, attended_offsets, split_text
from seq2seq.text.sentences import split_sentences


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ja.",
        "\n",
        "Ja.\n",
        "\n\nJa. Nein.\r\n\r\nJa.\r",
        " \t\n Ja.  Nein. \n",
        "Ja\x00.\x0bNein.",
    ],
)
def test_line_ends_and_paragraphs_are_kept(text):
    split = split_text(text, split_sentences)

    joined = split.join([f"<{number}>" for number in range(len(split.sentences))])

    ends = [each for each in text if each in "\r\n"]
    assert [each for each in joined if each in "\r\n"] == ends
    assert all(sentence.strip() for sentence in split.sentences)
    assert joined.count("<") == len(split.sentences)


@pytest.mark.parametrize("read", [split_text, SplitHtml])
def test_chinese_translations_are_joined_without_spaces(read):
    assert read("Ja. Nein.", split_sentences).join(["\u662f\u3002", "\u4e0d\u3002"]) == (
        "\u662f\u3002\u4e0d\u3002"
    )


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("ja", "JA"),
        ("ja.wav", "JA.WAV"),  # which a parser may take for the name of a file
        ('<p class="a">Ja. Nein.</p>', '<p class="a">JA. NEIN.</p>'),
        ("<p> ja\n <b>und</b>  nein </p>\n", "<p> JA <b>UND</b> NEIN </p>\n"),
        ("<div>a <b>b <i>c</i></b>, d</div>", "<div>A <b>B <i>C</i></b>, D</div>"),
        ("<b>Ja. Nein.</b> <a href='x'>Ja</a>.", '<b>JA. NEIN.</b> <a href="x">JA</a>.'),
        ('<i class="x notranslate">a</i> b', '<i class="x notranslate">a</i> B'),
        (
            'a <img alt="ja" title="b c"/> <a title="d">e</a>',
            'A <img alt="JA" title="B C"/> <a title="D">E</a>',
        ),
        ("<td>a</td><td><b></b>b</td>", "<td>A</td><td><b></b>B</td>"),
        ("in\n einer\t Zeile", "IN EINER ZEILE"),
        ('ja<br/>&nbsp;<img alt="ja &quot;" src="a"/>', 'JA<br/>\xa0<img alt=\'JA "\' src="a"/>'),
        ("1 &lt; 2 &amp;&amp; &#228;&#xD800;", "1 &lt; 2 &amp;&amp; \u00c4\ufffd"),
        ("AT&T", "AT&amp;T"),
        ("<p>R&D; &AMP;</p> A&B;", "<p>R&amp;D; &amp;</p> A&amp;B;"),
        ('<a href="?a&section=1&amp;b=c">a</a>', '<a href="?a&amp;section=1&amp;b=c">A</a>'),
        ("<script>x<y&copy=1>z</script><p>a", "<script>x<y&copy=1>z</script><p>A</p>"),
        ("<!--<a b=&copy=1>-->a", "<!--<a b=&copy=1>-->A"),
        ("a < b", "A &lt; B"),
        ("<b>a</b <i", "<b>A&lt;/B &lt;I</b>"),
        (
            "<script>a<b</script><style>a</style><!-- a -->b",
            "<script>a<b</script><style>a</style><!-- a -->B",
        ),
        ("<i>10<sup>9</sup> t</i> CO<sub>2</sub>", "<i>10<sup>9</sup> T</i> CO<sub>2</sub>"),
        (
            "<!-- a -->b<!-- --> <time>5</time><!-- --> c<wbr/>d <!-- e -->",
            "<!-- a -->B <time>5</time> CD <!-- --><!-- --><wbr/><!-- e -->",
        ),
        ("Ja.<sup>[1]</sup> Es<b> </b>ist", "JA.<sup>[1]</sup> ES<b> </b>IST"),
        ("<math><mi>x</mi></math>a", "<math><mi>x</mi></math>A"),
        ("<pre>a\n <b>b</b></pre><code>a</code>c", "<pre>a\n <b>b</b></pre><code>a</code>C"),
        ('<code><a title="b">a</a></code>c', '<code><a title="b">a</a></code>C'),
        ('<i translate="no">:a: <b>b</b></i>c', '<i translate="no">:a: <b>b</b></i>C'),
        ('<?xml version="1.0"?><a>b</a>', '<?xml version="1.0"?><a>B</a>'),
        ("", ""),
        ("<br/>", "<br/>"),
    ],
)
def test_texts_between_tags_are_translated_and_everything_else_stays(html, expected):
    split = SplitHtml(html, split_sentences)

    shouted = [sentence.upper() for sentence in split.sentences]

    assert split.join(shouted) == expected
    assert split.join(shouted) == expected  # of another rank


def test_an_attribute_of_a_tag_in_a_sentence_is_translated_once():
    split = SplitHtml('<p>a <a title="b">c</a></p>', split_sentences)

    assert split.sentences == ["b", "a c"]


def test_deep_html_is_split_and_joined():
    html = 3000 * "<b>" + "a" + 3000 * "</b>"

    split = SplitHtml(html, split_sentences)

    assert split.join(["b"]) == html.replace(">a<", ">b<")


@pytest.mark.parametrize("html", ["<![x>", "&#" + 5000 * "9" + ";", "&#" + 5000 * "9" + ";<br>"])
def test_what_is_no_html_is_refused(html):
    with pytest.raises(ValueError):
        SplitHtml(html, split_sentences)


def test_tags_follow_the_words_that_attend_to_their_words():
    html = "<p>Ich habe <b>den <i>Hund</i></b> gesehen, <u>ja</u>.</p>"
    split = SplitHtml(html, split_sentences)
    text = "I saw the dog, yes."
    source = split.sentences[0]
    links = {"I": "Ich", "saw": "gesehen", "the": "den", "dog": "Hund", ",": ",", "yes": "ja"}
    links["."] = "."

    found = split.join([text], [[(text.index(word), source.index(links[word])) for word in links]])

    assert source == "Ich habe den Hund gesehen, ja."
    assert found == "<p>I saw <b>the <i>dog</i></b>, <u>yes</u>.</p>"


@pytest.mark.parametrize(
    ("html", "sources", "expected"),
    [
        ("a <b>b</b> c", [0, 0, 4], "A <b>B</b> C"),
        ("<b>a</b> c <b>a</b>", [0, 2, 2], "<b>A</b> B <b>C</b>"),
        ("a b<sup>2</sup> c", [0, 3, 5], "A B<sup>2</sup> C"),
        ("a <sup>C</sup> b", [0, 0, 4], "A B <sup>C</sup>"),
        ("a<b> </b>b c", [0, 2, 4], "A<b> </b>B C"),
    ],
)
def test_a_tag_without_an_attending_word_is_kept(html, sources, expected):
    split = SplitHtml(html, split_sentences)

    assert split.join(["A B C"], [list(zip([0, 2, 4], sources, strict=True))]) == expected


def test_an_added_exponent_is_kept_apart_from_a_number():
    assert SplitHtml("50 m<sup>2</sup>", split_sentences).join(["50"]) == "50<sup> 2</sup>"


def test_a_token_of_several_words_and_marks_has_the_tags_of_one_word():
    split = SplitHtml("<p>Um <b>12:30</b> <a>x.de/</a> da</p>", split_sentences)

    found = split.join(["At 12:30 x.de/ there"], [[(0, 0), (3, 3), (9, 9), (15, 15)]])

    assert found == "<p>At <b>12:30</b> <a>x.de/</a> there</p>"


def test_a_symbol_that_is_put_before_each_sentence_is_read():
    split = SplitHtml("<p>@ Ja. <b>Nein</b>.</p>", lambda _: ["@ Ja.", "@ Nein."])

    assert split.join(["@ YES.", "@ NO."]) == "<p>@ YES. <b>@ NO</b>.</p>"


def test_a_run_without_a_translation_stays_and_is_joined_again():
    split = SplitHtml("<p>Ja</p>", split_sentences)

    assert [split.join([text]) for text in ("", "Yes")] == ["<p>Ja</p>", "<p>Yes</p>"]


def test_the_place_of_a_token_is_that_of_its_most_attended_source_token():
    weights = np.zeros((2, 3, 5), np.float32)
    weights[:, 0, 1] = weights[:, 1, 2] = weights[:, 2, 4] = 1  # the last column is EOS
    weights[0, 2, 3] = 0.5
    hypothesis = TranslatedHypothesis(
        "The dog .",
        0.0,
        0.0,
        True,
        [7, 8, 9],
        ["\u2581The", "\u2581dog", "\u2581.", "</s>"],
        weights,
    )
    labels = ["\u2581", "Der", "\u2581Hund", ".", "</s>"]
    translation = Translation("Der  Hund.", [4, 5, 6, 7], labels, [hypothesis])

    assert attended_offsets(translation, hypothesis) == [(0, 0), (4, 5), (8, 9)]
    capitals = translation._replace(source="DER  HUND.")
    shouted = hypothesis._replace(text="THE DOG .")
    assert attended_offsets(capitals, shouted) == [(0, 0), (4, 5), (8, 9)]
    # A sentence that was cut into very long parts has no weights.
    without = hypothesis._replace(attention_weights=np.zeros((2, 0, 0), np.float32))
    assert attended_offsets(translation, without)[-1] == (8, 8)  # in the order of the words
