import base64
import hashlib
import io
import json
from html.parser import HTMLParser

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_attention import make_weights

from seq2seq.visualization.page import AttentionPage

SOURCE = ["\u2581Ein", "\u2581Hund", "\u2581renn", "t", "</s>"]
TARGET = ["\u2581A", "\u2581dog", "</s>"]


class Reader(HTMLParser):
    """Collects the elements of a page and the contents of its scripts and styles."""

    def __init__(self):
        super().__init__()
        self.elements = []
        self.contents = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        tag, attributes = self.elements[-1] if self.elements else ("", {})
        if tag in ("script", "style") and data.strip():
            self.contents.append((tag, attributes.get("class"), data))


def write_page(*sentences):
    output = io.BytesIO()
    page = AttentionPage(output)
    for sentence in sentences:
        page.add(**sentence)
    page.close()
    return output.getvalue()


def make_sentence(**changes):
    sentence = {
        "source": "Ein Hund rennt",
        "target": "A dog",
        "source_tokens": SOURCE,
        "target_tokens": TARGET,
        "attention_weights": make_weights(2),
        "note": "log-probability -3.21",
    }
    return {**sentence, **changes}


def read(page):
    reader = Reader()
    reader.feed(page.decode("utf-8"))
    reader.close()
    return reader


PLAIN = read(write_page(make_sentence())).elements


def blocks(page, name):
    """Return the data of each sentence."""
    contents = read(page).contents
    return [json.loads(data) for tag, kind, data in contents if (tag, kind) == ("script", name)]


def test_each_sentence_is_on_the_page_with_its_text_and_tokens():
    first, second = make_sentence(), make_sentence(source="Zwei", target="Two", note="")

    page = write_page(first, second)

    assert blocks(page, "text") == [
        {"source": "Ein Hund rennt", "target": "A dog", "note": "log-probability -3.21"},
        {"source": "Zwei", "target": "Two", "note": ""},
    ]
    found = [(each["source_tokens"], each["target_tokens"]) for each in blocks(page, "attention")]
    assert found == [(SOURCE, TARGET)] * 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_rounded_to_thousandths(dtype):
    weights = make_weights(2).to(dtype)

    [block] = blocks(write_page(make_sentence(attention_weights=weights)), "attention")

    written = torch.tensor(block["weights"], dtype=torch.float64) / 1000
    torch.testing.assert_close(written, weights.double(), atol=0.000501, rtol=0)
    assert all(type(weight) is int for weight in block["weights"][0][0])


@given(st.text(st.characters(exclude_categories=())))
@example("</script><script>alert(1)</script>")
@example("<!--<script>")
@example("]]>\"'&amp;\u2028\r\n\0\udc80")
def test_any_text_is_read_back_and_is_not_markup(text):
    weights = torch.ones(1, 1, 1)
    hostile = make_sentence(
        source=text,
        target=text,
        source_tokens=[text],
        target_tokens=[text],
        attention_weights=weights,
        note=text,
    )

    page = write_page(hostile)

    assert read(page).elements == PLAIN
    assert blocks(page, "text") == [{"source": text, "target": text, "note": text}]
    assert blocks(page, "attention")[0]["source_tokens"] == [text]


def test_the_page_allows_its_own_script_and_style_and_nothing_else():
    page = read(write_page(make_sentence()))
    [policy] = [
        attributes["content"].split(";")
        for tag, attributes in page.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = {name: values for name, *values in map(str.split, policy)}
    digests = {
        tag: base64.b64encode(hashlib.sha256(data.encode()).digest()).decode()
        for tag, kind, data in page.contents
        if kind is None
    }

    assert rules == {
        "default-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "style-src": [f"'sha256-{digests['style']}'"],
        "script-src": [f"'sha256-{digests['script']}'"],
    }


def test_a_sentence_is_written_at_once_and_not_kept():
    output = io.BytesIO()
    page = AttentionPage(output)
    before = output.tell()

    page.add(**make_sentence())

    assert blocks(output.getvalue()[before:], "text")
    assert not any(isinstance(value, list | dict) for value in vars(page).values())
