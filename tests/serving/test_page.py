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
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert policy.split("; ")[0] == "default-src 'none'"
    assert "unsafe" not in policy
    assert "://" not in page
    assert not re.search(r"<[^>]* (on\w+|style)=", page)


def test_the_description_has_every_path_and_the_fields_of_bodies_and_answers(live):
    description = live.ask("/openapi.json").content

    paths, schemas = description["paths"], description["components"]["schemas"]
    assert paths.keys() == {
        *("/health", "/ready", "/metrics", "/languages", "/frontend/settings"),
        *("/translate", "/v1/translate"),
    }
    bodies = paths["/translate"]["post"]["requestBody"]["content"]
    form = bodies["multipart/form-data"]["schema"]
    assert form == bodies["application/json"]["schema"]
    assert set(form["required"]) == {"q", "source", "target"}
    answer = paths["/v1/translate"]["post"]["responses"]["200"]["content"]["application/json"]
    assert answer["schema"]["$ref"] == "#/components/schemas/DetailAnswer"
    assert "token_log_probabilities" in schemas["Hypothesis"]["properties"]
