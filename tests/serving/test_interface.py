"""Bodies of requests, sent to a live service: each is answered, and never by a bug."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_service import make_serve_config, running

FORM = "application/x-www-form-urlencoded"
CONFIG = make_serve_config(max_body=2000)


@pytest.fixture(scope="module")
def live():
    with running(CONFIG) as service:
        yield service


def body(**fields):
    return json.dumps({"q": "ja", "source": "de", "target": "en"} | fields).encode()


def test_a_form_in_utf_8_is_read_as_it_is_sent(live):
    raw = "q=Das Mädchen &source=de&target=en".encode()

    answer = live.ask("/translate", raw, **{"Content-Type": FORM})

    assert answer.content == {"translatedText": "DAS MÄDCHEN "}


def test_a_form_may_be_escaped_and_give_numbers(live):
    raw = b"q=M%C3%A4dchen+%26+%F0%9F%98%80&source=de&target=en&alternatives=1"

    answer = live.ask("/translate", raw, **{"Content-Type": f"{FORM}; charset=UTF-8"})

    assert answer.content == {
        "translatedText": "MÄDCHEN & \U0001f600",
        "alternatives": ["MÄDCHEN & \U0001f600!"],
    }


MULTIPART = {"Content-Type": "multipart/form-data; boundary=X"}


def multipart(*parts, end=b"--X--\r\n"):
    """Return a form of pairs of the parameters behind a field's name and its value."""
    head = b"--X\r\nContent-Disposition: form-data; name="
    return b"".join(head + name + b"\r\n\r\n" + value + b"\r\n" for name, value in parts) + end


PARTS = [(b'"q"', "M\u00e4dchen\r\n".encode()), (b'"source"', b"de"), (b'"target"', b"en")]


def test_a_multipart_form_is_read(live):
    one = live.ask("/translate", multipart(*PARTS, (b"alternatives", b"1")), **MULTIPART)
    several = live.ask("/translate", multipart((b"q", b"a"), *PARTS), **MULTIPART)

    assert one.content == {
        "translatedText": "M\u00c4DCHEN\r\n",
        "alternatives": ["M\u00c4DCHEN!\r\n"],
    }
    assert several.content == {"translatedText": ["A", "M\u00c4DCHEN\r\n"]}


MULTIPART_ERRORS = {
    "a file": (multipart(*PARTS, (b'"file"; filename="a.txt"', b"a")), 400, "Too many files"),
    "empty": (b"", 400, "Field required"),
    "no multipart": (body(), 400, "Invalid multipart data"),
    "two sources": (multipart(*PARTS, PARTS[1]), 400, "source: Input should be a valid string"),
    "large": (multipart((b"q", 2000 * b"a")), 413, "more than 2,000 bytes"),
    "long": (multipart((b"q", 301 * b"a"), *PARTS[1:]), 413, "more than 300 characters"),
}


@pytest.mark.parametrize("case", MULTIPART_ERRORS)
def test_a_wrong_multipart_form_is_answered_by_its_mistake(live, case):
    raw, status, message = MULTIPART_ERRORS[case]

    answer = live.ask("/translate", raw, **MULTIPART)

    assert answer.status == status
    assert message in answer.content["error"]


def test_null_is_a_missing_field(live):
    answer = live.ask("/translate", body(format=None, alternatives=None, api_key=None))

    assert answer.content == {"translatedText": "JA"}


def test_several_texts_of_a_form_are_a_list(live):
    raw = b"q=a&q=b&source=de&target=en"

    answer = live.ask("/translate", raw, **{"Content-Type": FORM})

    assert answer.content == {"translatedText": ["A", "B"]}


OTHER_PAIR = (
    "source={!r} and target={!r} must name one language pair of this service; choose from de-en"
)
NO_INTEGER = "alternatives: Input should be a valid integer"
WRONG = {
    "no JSON": (b"q=ja", 400, "Invalid JSON: expected value"),
    "half": (body()[:-1], 400, "Invalid JSON"),
    "a list": (b"[]", 400, "Input should be an object"),
    "deep": (b'{"q":' + 900 * b"[" + 900 * b"]" + b"}", 400, "recursion limit exceeded"),
    "infinity": (body()[:-1] + b',"alternatives":1e999}', 400, NO_INTEGER),
    "Latin-1": ('{"q":"\u00e4"}'.encode("latin-1"), 400, "invalid unicode code point"),
    "half a pair": (body(q="\ud800"), 400, "unexpected end of hex escape"),
    "q null": (body(q=None), 400, "q: Field required"),
    "q of numbers": (body(q=["a", 1]), 400, "q.list[str].1: Input should be a valid string"),
    "no source": (b'{"q":"a","target":"en"}', 400, "source: Field required"),
    "another source": (body(source="xx"), 400, OTHER_PAIR.format("xx", "en")),
    "another target": (body(target="fr"), 400, OTHER_PAIR.format("de", "fr")),
    "auto to another target": (body(source="auto", target="de"), 400, "source='auto' and"),
    "another format": (body(format="xml"), 400, "format: Input should be 'text' or 'html'"),
    "alternatives text": (body(alternatives="1"), 400, NO_INTEGER),
    "alternatives 4": (body(alternatives=4), 400, "at most 4, alternatives less"),
    "long text": (body(q="a" * 301), 413, "more than 300 characters"),
    "long list": (body(q=["a"] * 6), 413, "more than 5 texts"),
    "long in sum": (body(q=["a" * 151] * 2), 413, "more than 300 characters"),
    "long sentence": (
        body(q=f"Ja. A{'b' * 101}."),
        413,
        f"the sentence 'A{'b' * 39}'... has 103 characters, more than 100; split it",
    ),
    "many sentences": (body(q="A.\n" * 13), 413, "more than 12 sentences"),
    "large": (body(q="a" * 2000), 413, "more than 2,000 bytes"),
    "huge": (body(q="a" * 100_000), 413, "more than 2,000 bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_body_is_answered_by_its_mistake(live, case):
    raw, status, message = WRONG[case]

    answer = live.ask("/translate", raw)

    assert answer.status == status
    assert list(answer.content) == ["error"]
    assert message in answer.content["error"]


NO_FORM = "the body is not a form in UTF-8"
FORM_ERRORS = {
    "not UTF-8": (b"q=\xe4", NO_FORM),
    "escaped, not UTF-8": (b"q=%E4", NO_FORM),
    "many fields": (1000 * b"&", NO_FORM),
    "two sources": (b"q=a&source=de&source=en&target=en", "source: Input should be a valid string"),
}


@pytest.mark.parametrize("case", FORM_ERRORS)
def test_a_wrong_form_is_answered_by_its_mistake(live, case):
    raw, message = FORM_ERRORS[case]

    answer = live.ask("/translate", raw, **{"Content-Type": FORM})

    assert answer.status == 400
    assert message in answer.content["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "multipart/mixed; boundary=x"},
        {"Content-Type": "text/plain"},
        {"Content-Type": ""},
        {"Content-Encoding": "gzip"},
    ],
)
def test_a_body_of_another_kind_is_refused(live, headers):
    answer = live.ask("/translate", body(), **headers)

    assert answer.status == 415
    assert answer.content["error"].startswith("send ")


def test_a_misspelt_field_is_refused_beside_librettranslates_interface(live):
    answer = live.ask("/v1/translate", {"text": "a", "source": "de", "target": "en", "nbest": 2})

    assert answer.status == 400
    assert answer.content == {"error": "nbest: Extra inputs are not permitted"}


def test_a_hostile_name_of_a_field_is_shown_short_and_escaped(live):
    fields = {"text": "a", "source": "de", "target": "en"}
    answer = live.ask("/v1/translate", fields | {"\x85\n<script>" * 50: 1})

    assert answer.content["error"].startswith(r"\x85\n<script>\x85\n<script>")
    assert len(answer.content["error"]) < 200


def test_a_text_of_control_characters_is_translated(live):
    assert live.translate("a\x00b\x1b").content == {"translatedText": "A\x00B\x1b"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(["q", "source", "target", "format", "alternatives", "api_key", "x"])


MARKUP = ["<", ">", "&", "<b>", "</b>", "<!--", "-->", "<![", "<?", "&#", ";", "9", "a='", "ja "]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(MARKUP), max_size=30).map("".join))
def test_any_html_is_answered(live, html):
    answer = live.translate(html, format="html")

    assert answer.status in (200, 400, 413)


@settings(max_examples=60)
@given(st.dictionaries(NAMES, JSON | st.just("de") | st.just("en")))
def test_any_fields_are_answered(live, fields):
    answer = live.ask("/translate", fields)

    assert answer.status in (200, 400, 413)


@settings(max_examples=60)
@given(
    st.binary(max_size=60) | st.binary(max_size=30).map(lambda raw: multipart((b"q", raw))),
    st.sampled_from(["application/json", FORM, MULTIPART["Content-Type"]]),
)
def test_any_bytes_are_answered(live, raw, kind):
    answer = live.ask("/translate", raw, **{"Content-Type": kind})

    assert answer.status in (200, 400)
