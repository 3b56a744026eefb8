"""Bodies of requests, sent to a live service: each is answered, and never by a bug."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_service import running

JSON_KIND = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=X"


@pytest.fixture(scope="module")
def live():
    with running() as service:
        yield service


def body(**fields):
    return json.dumps({"q": "ja", "source": "de", "target": "en"} | fields).encode()


def multipart(*parts, end=b"--X--\r\n"):
    """Return a form of pairs of the parameters behind a field's name and its value."""
    head = b"--X\r\nContent-Disposition: form-data; name="
    return b"".join(head + name + b"\r\n\r\n" + value + b"\r\n" for name, value in parts) + end


PARTS = [(b'"q"', "M\u00e4dchen\r\n".encode()), (b'"source"', b"de"), (b'"target"', b"en")]
READ = {
    "null": (JSON_KIND, body(format=None, alternatives=None, api_key=None), ["JA"]),
    "long": (JSON_KIND, body(q="\U0001f600" * 300), ["\U0001f600" * 300]),
    "long, escaped": (
        FORM,
        b"source=de&target=en&q=" + 300 * b"%F0%9F%98%80",
        ["\U0001f600" * 300],
    ),
    "control characters": (JSON_KIND, body(q="a\x00b\x1b"), ["A\x00B\x1b"]),
    "UTF-8": (FORM, "q=Das M\u00e4dchen &source=de&target=en".encode(), ["DAS M\u00c4DCHEN "]),
    "escaped": (
        f"{FORM}; charset=UTF-8",
        b"q=M%C3%A4dchen+%26+%F0%9F%98%80&source=de&target=en&alternatives=1",
        ["M\u00c4DCHEN & \U0001f600", ["M\u00c4DCHEN & \U0001f600!"]],
    ),
    "several texts": (FORM, b"q=a&q=b&source=de&target=en", [["A", "B"]]),
    "parts": (
        MULTIPART,
        multipart(*PARTS, (b"alternatives", b"1")),
        ["M\u00c4DCHEN\r\n", ["M\u00c4DCHEN!\r\n"]],
    ),
    "several parts": (MULTIPART, multipart((b"q", b"a"), *PARTS), [["A", "M\u00c4DCHEN\r\n"]]),
}


@pytest.mark.parametrize("case", READ)
def test_a_body_is_read(live, case):
    kind, raw, expected = READ[case]

    answer = live.ask("/translate", raw, **{"Content-Type": kind})

    assert answer.content == dict(zip(["translatedText", "alternatives"], expected, strict=False))


QUERY = "q=M%C3%A4dchen+%26&source=de&target=en"


@pytest.mark.parametrize(
    ("query", "kind", "raw", "expected"),
    [
        (QUERY, "", b"", "M\u00c4DCHEN &"),
        (QUERY, FORM, b"", "M\u00c4DCHEN &"),
        (QUERY, FORM, b"q=nein&source=xx", "M\u00c4DCHEN &"),
        ("source=de&target=en", FORM, b"q=ja", "JA"),
        ("source=de&target=en", MULTIPART, multipart(PARTS[0]), "M\u00c4DCHEN\r\n"),
        ("q=a&q=b&source=de&target=en", "", b"", ["A", "B"]),
        ("q=[%22a%22,%22b%22]&source=de&target=en", "", b"", ["A", "B"]),
        ("q=x", JSON_KIND, body(), "JA"),  # JSON is complete
        ("", FORM, b'q=["a", "b\\n"]&source=de&target=en', ["A", "B\n"]),
        ("", FORM, b'q= ["a"]&source=de&target=en', ["A"]),
        ("", MULTIPART, multipart((b'"q"', b'["a","b"]'), *PARTS[1:]), ["A", "B"]),
        ("", FORM, b"q=[1, 2]&source=de&target=en", "[1, 2]"),
        ("", FORM, b'q=["a", 1]&source=de&target=en', '["A", 1]'),
        ("", FORM, b"q=[a]&source=de&target=en", "[A]"),
        ("", FORM, b"q=[]&source=de&target=en", "[]"),
        ("", JSON_KIND, body(q='["a"]'), '["A"]'),
    ],
)
def test_fields_are_read_from_the_query_and_lists_from_forms(live, query, kind, raw, expected):
    answer = live.ask(f"/translate?{query}", raw, **{"Content-Type": kind})

    assert answer.content == {"translatedText": expected}


OTHER_PAIR = (
    "source={!r} and target={!r} must name one language pair of this service; choose from de-en"
)
NO_INTEGER = "alternatives: Input should be a valid integer"
NO_TEXT = "source: Input should be a valid string"
NO_FORM = "the body is not a form in UTF-8"
WRONG_JSON = {
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
    "another format": (body(format="xml"), 400, "format: Input should be 'text' or ''"),
    "alternatives text": (body(alternatives="1"), 400, NO_INTEGER),
    "alternatives 4": (body(alternatives=10), 400, "at most 10, alternatives less"),
    "long text": (body(q="a" * 301), 413, "more than 300 characters"),
    "long in sum": (body(q=["a" * 151] * 2), 413, "more than 300 characters"),
    "many lines": (body(q="A.\n" * 13), 413, "more than 12 lines"),
    "large": (body(q="a" * 7700), 413, "more than 7,696 bytes"),
    "huge": (body(q="a" * 100_000), 413, "more than 7,696 bytes"),
}
WRONG_FORMS = {
    "not UTF-8": (b"q=\xe4", 400, NO_FORM),
    "escaped, not UTF-8": (b"q=%E4", 400, NO_FORM),
    "many fields": (1000 * b"&", 400, NO_FORM),
    "two sources": (b"q=a&source=de&source=en&target=en", 400, NO_TEXT),
}
WRONG_PARTS = {
    "a file": (multipart(*PARTS, (b'"file"; filename="a.txt"', b"a")), 400, "Too many files"),
    "empty": (b"", 400, "Field required"),
    "no multipart": (body(), 400, "Invalid multipart data"),
    "two sources": (multipart(*PARTS, PARTS[1]), 400, NO_TEXT),
    "large": (multipart((b"q", 7700 * b"a")), 413, "more than 7,696 bytes"),
    "long": (multipart((b"q", 301 * b"a"), *PARTS[1:]), 413, "more than 300 characters"),
}
WRONG = {JSON_KIND: WRONG_JSON, FORM: WRONG_FORMS, MULTIPART: WRONG_PARTS}


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind in WRONG for case in WRONG[kind]])
def test_a_wrong_body_is_answered_by_its_mistake(live, kind, case):
    raw, status, message = WRONG[kind][case]

    answer = live.ask("/translate", raw, **{"Content-Type": kind})

    assert answer.status == status
    assert list(answer.content) == ["error"]
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


def test_a_hostile_name_of_a_field_is_shown_short_and_escaped(live):
    fields = {"text": "a", "source": "de", "target": "en"}
    answer = live.ask("/v1/translate", fields | {"\x85\n<script>" * 50: 1})

    assert answer.content["error"].startswith(r"\x85\n<script>\x85\n<script>")
    assert len(answer.content["error"]) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(["q", "source", "target", "format", "alternatives", "api_key", "x"])


@settings(max_examples=60)
@given(st.dictionaries(NAMES, JSON | st.just("de") | st.just("en")))
def test_any_fields_are_answered(live, fields):
    answer = live.ask("/translate", fields)

    assert answer.status in (200, 400, 413)


@settings(max_examples=60)
@given(
    st.binary(max_size=60) | st.binary(max_size=30).map(lambda raw: multipart((b"q", raw))),
    st.sampled_from([JSON_KIND, FORM, MULTIPART]),
)
def test_any_bytes_are_answered(live, raw, kind):
    answer = live.ask("/translate", raw, **{"Content-Type": kind})

    assert answer.status in (200, 400)
