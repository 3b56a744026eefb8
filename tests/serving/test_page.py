import re

import pytest
from tiny_service import make_serve_config, running


@pytest.fixture(scope="module")
def live():
    with running(make_serve_config(checkpoint=["de-en"])) as service:
        yield service


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")],
)
def test_the_page_may_use_its_own_files_only(live, path, kind):
    answer = live.ask(path)

    assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 's")
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert b"://" not in answer.content
    assert not re.search(rb"<[^>]* (on\w+|style)=", answer.content)


def test_the_description_has_every_path_of_the_service(live):
    description = live.ask("/openapi.json").content

    routes = {route.path: route.methods for route in live.service.application().routes}
    described = {
        path: {method.upper() for method in methods}
        for path, methods in description["paths"].items()
    }
    assert {path: methods - {"HEAD"} for path, methods in routes.items()} == {
        **described,
        **{path: {"GET"} for path in ("/", "/page.css", "/page.js")},
    }


def fields(schema, value, schemas):
    """Check that a value has the fields of its schema, and no others."""
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if schema.get("type") == "object":
        assert set(schema["required"]) <= set(value) <= set(schema["properties"])
        for name, each in value.items():
            fields(schema["properties"][name], each, schemas)
    if schema.get("type") == "array" and "items" in schema:
        assert isinstance(value, list)
        for each in value:
            fields(schema["items"], each, schemas)


def test_answers_have_the_fields_of_the_description(live):
    description = live.ask("/openapi.json").content
    common = {"source": "de", "target": "en"}
    requests = {
        "/translate": {"q": ["ja"], "alternatives": 1, "format": "text"} | common,
        "/v1/translate": {"text": "ja", "beam": 2, "n_best": 2, "attention": True} | common,
        "/languages": None,
    }

    for path, request in requests.items():
        method = description["paths"][path]["post" if request else "get"]
        answer = live.ask(path, request)
        schema = method["responses"]["200"]["content"]["application/json"]["schema"]
        schemas = description["components"]["schemas"]
        assert answer.status == 200
        fields(schema, answer.content, schemas)
        if request:
            body = method["requestBody"]["content"]["application/json"]["schema"]
            fields(body, request, schemas)
