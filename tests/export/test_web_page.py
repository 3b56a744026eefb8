import json
import re

import pytest
from web_runtime_cache import CACHE, needs_web_runtime

from seq2seq.export.web_page import write_page
from seq2seq.export.web_runtime import load_web_runtime

EXAMPLES = ["</script><b>", "zwei"]


@pytest.fixture(scope="module")
def page(exported, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(exported, path, runtime=load_web_runtime(CACHE), examples=EXAMPLES)
    return path.read_text(encoding="utf-8")


def block(page, name):
    return re.search(rf'<script type="[^"]*" id="{name}">([^<]*)</script>', page)[1]


@needs_web_runtime
def test_policy_allows_no_other_script_style_or_request(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]

    assert policy.startswith("default-src 'none'")
    assert "'unsafe-inline'" not in policy
    assert "'unsafe-eval'" not in policy


@needs_web_runtime
def test_page_describes_the_model(page):
    found = json.loads(block(page, "model"))

    assert (found["source"], found["target"]) == ("de", "en")
    assert found["examples"] == EXAMPLES
    assert found["decoding"]["early_stopping"] == "exact"


@needs_web_runtime
def test_page_is_the_same_each_time(exported, page, tmp_path):
    path = tmp_path / "again.html"
    write_page(exported, path, runtime=load_web_runtime(CACHE), examples=EXAMPLES)

    assert path.read_text(encoding="utf-8") == page


@needs_web_runtime
def test_runtime_is_a_script_without_exports():
    script = load_web_runtime(CACHE).script

    assert "globalThis.ort={InferenceSession:" in script
    assert not re.search(r"export\s*\{", script)
    assert "Licensed under the MIT License" in script
