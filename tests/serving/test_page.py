import base64
import hashlib
import re

import pytest
from tiny_service import make_serve_config, running


@pytest.fixture(scope="module")
def live():
    with running(make_serve_config(checkpoint=["de-en"])) as service:
        yield service


def test_the_page_runs_its_own_script_only(live):
    answer = live.ask("/")

    page = answer.content.decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    digests = {
        name: base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        for name, content in re.findall(r"<(script|style)>(.*?)</\1>", page, re.DOTALL)
    }
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert policy.split("; ")[0] == "default-src 'none'"
    assert f"style-src 'sha256-{digests['style']}'" in policy
    assert f"script-src 'sha256-{digests['script']}'" in " ".join(policy.split())
    assert "unsafe" not in policy
    assert "://" not in page
    assert not re.search(r"<[^>]* (on\w+|style)=", page)


def test_the_description_has_every_path_of_the_service(live):
    description = live.ask("/openapi.json").content

    routes = {route.path: route.methods for route in live.service.application().routes}
    described = {
        path: {method.upper() for method in methods}
        for path, methods in description["paths"].items()
    }
    assert {path: methods - {"HEAD"} for path, methods in routes.items()} == {
        **described,
        "/": {"GET"},
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
        "/translate": {
            "q": "ja",
            "alternatives": 1,
            "format": "html",
            "source": "auto",
            "target": "en",
        },
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
