"""The translator of the documentation's first page: its model, and the page in Chromium."""

import itertools
import os
import re

import pytest
from documents import ROOT, load_script
from headless_browser import needs_browser, open_browser, open_page
from selenium.webdriver.support.ui import WebDriverWait
from web_runtime_cache import CACHE, needs_web_runtime

from seq2seq import BeamConfig
from seq2seq.config.schema import load_config
from seq2seq.data.corpus import load_corpora
from seq2seq.export.translator import OnnxTranslator
from seq2seq.export.web_page import write_page
from seq2seq.export.web_runtime import load_web_runtime

NUM_SENTENCES = int(os.environ.get("PAGE_SENTENCES", "50"))
"""of the bundled test set; it has 500"""
READY = "return main.getAttribute('aria-busy') === 'false' && !isBusy"
TRANSLATE = """const [lines, size, done] = arguments;
(async () => {
  const texts = [];
  for (const line of lines) {
    const { hypotheses } = await translator.translate(
      line, { ...model.decoding, beam_size: size, n_best: 1 });
    texts.push(hypotheses[0].text);
  }
  return texts;
})().then(done, (error) => done(String(error)));"""


@pytest.fixture(scope="module")
def docs_translator():
    return load_script("translator")


@pytest.fixture(scope="module")
def pairs():
    corpus = load_corpora(load_config().data).test
    return [pair for pair, _ in zip(corpus, range(NUM_SENTENCES), strict=False)]


def test_the_kept_model_is_small_and_knows_the_bundled_language(docs_translator, pairs):
    size = sum(path.stat().st_size for path in docs_translator.KEPT.iterdir())

    found = OnnxTranslator.load(docs_translator.KEPT)([pair.source for pair in pairs])

    assert size < 3_000_000
    same = [each.text == pair.target for each, pair in zip(found, pairs, strict=True)]
    assert sum(same) > 0.8 * len(pairs)


@pytest.mark.parametrize("page", ["how-to/exporting.md", "tutorials/in-the-browser.md"])
def test_examples_are_translated_rightly(docs_translator, page):
    [name] = re.findall(r" examples=\S+/(\w+)\.src", (ROOT / "docs" / page).read_text())
    corpus = getattr(load_corpora(load_config().data), name)
    offered = list(itertools.islice(corpus, 4))

    found = OnnxTranslator.load(docs_translator.KEPT)([pair.source for pair in offered])

    assert [each.text for each in found] == [pair.target for pair in offered]


def test_keeping_an_export_leaves_its_float_weights_out(docs_translator, tmp_path, monkeypatch):
    monkeypatch.setattr(docs_translator, "KEPT", tmp_path / "kept")
    original = ROOT / "docs" / "translator"

    docs_translator.keep(original)

    kept = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    assert kept == {path.name: path.read_bytes() for path in original.iterdir()}


@needs_web_runtime
@needs_browser
def test_page_translates_as_the_kept_model_does(docs_translator, pairs, tmp_path):
    lines = [pair.source for pair in pairs]
    page = tmp_path / "page.html"
    write_page(
        docs_translator.KEPT,
        page,
        runtime=load_web_runtime(CACHE),
        examples=docs_translator.EXAMPLES,
    )
    translator = OnnxTranslator.load(docs_translator.KEPT)

    for browser in open_browser(tmp_path / "profile"):
        open_page(browser, page)
        WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(READY))
        browser.set_script_timeout(600)
        for size in (1, 5):
            found = browser.execute_async_script(TRANSLATE, lines, size)
            expected = translator(lines, BeamConfig(beam_size=size), batch_size=1)
            assert found == [each.text for each in expected]
        assert browser.get_log("browser") == []

    assert page.stat().st_size < 9_000_000
