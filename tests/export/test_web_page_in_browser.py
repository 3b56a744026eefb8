"""The page that translates, opened from a file in headless Chromium, without a network."""

from dataclasses import asdict
from enum import Enum

import numpy as np
import pytest
from headless_browser import needs_browser, open_browser, open_page
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from tiny_export import BEAM, BEAMS, EXAMPLES, SENTENCES, make_exportable
from web_runtime_cache import CACHE, needs_web_runtime

from seq2seq import BeamConfig, GreedyConfig
from seq2seq.export.exporting import export_model
from seq2seq.export.translator import OnnxTranslator
from seq2seq.export.web_page import write_page
from seq2seq.export.web_runtime import load_web_runtime
from seq2seq.inference.checkpoint import save_checkpoint
from seq2seq.inference.translations import sentences_of

pytestmark = [needs_browser, needs_web_runtime]
TRANSLATE = """const [lines, config, done] = arguments;
(async () => {
  const found = [];
  for (const line of lines) found.push(await translator.translate(line, config));
  return found.map(({ sourceTokens, hypotheses }) => ({ sourceTokens, hypotheses: hypotheses.map(
    (each) => ({ ...each, weights: each.weights.map((heads) => heads.map((w) => [...w])) })) }));
})().then(done, (error) => done(String(error)));"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    for driver in open_browser(tmp_path_factory.mktemp("profile")):
        driver.execute_cdp_cmd("Network.enable", {})
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        yield driver


@pytest.fixture
def shown(browser, page):
    """Return the browser with the page; the console must stay empty."""
    if browser.current_url != page.as_uri():
        open_translator(browser, page)
    browser.execute_script("beam.value = 5; write(model.examples[0])")
    wait_for(browser, "return !isBusy")
    yield browser
    assert browser.get_log("browser") == []


def open_translator(browser, path):
    open_page(browser, path)
    wait_for(browser, "return main.getAttribute('aria-busy') === 'false' && !isBusy")


def wait_for(browser, condition):
    WebDriverWait(browser, 60).until(lambda _: browser.execute_script(condition), condition)


def write(browser, text):
    box = browser.find_element(By.ID, "text")
    box.clear()
    box.send_keys(text)
    wait_for(browser, "return !isBusy")


def translate(browser, lines, decoding):
    values = {
        key: value.name if isinstance(value, Enum) else value
        for key, value in asdict(decoding).items()
    }
    found = browser.execute_async_script(TRANSLATE, lines, values)
    assert not isinstance(found, str), found
    return found


def assert_same(found, expected):
    """Compare the translations of the page with those of OnnxTranslator."""
    for first, second in zip(found, sentences_of(expected), strict=True):
        assert first["sourceTokens"] == second.source_tokens
        hypotheses = second.hypotheses if second.source.strip() else []
        for new, old in zip(first["hypotheses"], hypotheses, strict=True):
            assert (new["text"], new["ids"], new["tokens"]) == (old.text, old.ids, old.tokens)
            assert new["isFinished"] is old.finished
            assert new["score"] == pytest.approx(old.score, rel=1e-6, abs=1e-5)
            assert new["logProbability"] == pytest.approx(old.log_probability, rel=1e-5)
            weights = np.array(new["weights"]).swapaxes(0, 1)  # (N, T, S)
            np.testing.assert_allclose(
                weights.reshape(old.attention_weights.shape), old.attention_weights, atol=1e-5
            )


@pytest.mark.parametrize("decoding", [BeamConfig(beam_size=1), *BEAMS], ids=repr)
def test_translations_are_those_of_the_exported_model(shown, exported, decoding):
    translator = OnnxTranslator.load(exported, threads=1)
    sentences = [*SENTENCES, SENTENCES[0].upper()]

    found = translate(shown, sentences, decoding)

    assert_same(found, translator(sentences, decoding, batch_size=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        [
            *("attention=multihead", "attention.num_heads=2", "model.encoder.num_layers=2"),
            *("model.form=luong", "model.input_feeding=true"),
        ],
        ["attention=none", "model.decoder.self_attention=true", "tokenizer.normalization=nmt_nfkc"],
    ],
    ids=" ".join,
)
def test_other_models_translate_as_well(browser, tmp_path, overrides):
    folder, path = tmp_path / "folder", tmp_path / "page.html"
    save_checkpoint(tmp_path / "best.pt", make_exportable(*overrides, deviation=0.3))
    export_model(tmp_path, folder)
    write_page(folder, path, runtime=load_web_runtime(CACHE))
    open_translator(browser, path)

    found = translate(browser, SENTENCES, BEAM)

    assert_same(found, OnnxTranslator.load(folder)(SENTENCES, BEAM, batch_size=1))
    assert browser.get_log("browser") == []


def test_a_text_is_translated_sentence_by_sentence(shown, exported):
    pieces = ["ein hund rennt.", "Zwei kinder spielen!", "Der mann liest ein buch"]
    text = f"<2en> {' '.join(pieces)}"
    sentences = [f"<2en> {piece}" for piece in pieces]
    size = BeamConfig(beam_size=5, n_best=5)
    parts = sentences_of(OnnxTranslator.load(exported)(sentences, size, batch_size=1))

    shown.execute_script("write(arguments[0])", text)
    wait_for(shown, "return !isBusy")

    expected = [
        " ".join(filter(None, (part.hypotheses[rank].text for part in parts))) for rank in range(5)
    ]
    assert shown_texts(shown) == [text or "(no text)" for text in expected]
    assert texts_of(shown, ".source .token span") == [
        label for part in parts for label in labels_of(part.source_tokens)
    ]
    [heads] = shown.execute_script("return view.heads.slice(1)")
    widths = [len(part.source_tokens) for part in parts]
    owners = np.repeat(range(3), [len(part.best.tokens) for part in parts])
    for row, owner in zip(np.array(heads), owners, strict=True):
        sums = [each.sum() for each in np.split(row, np.cumsum(widths)[:-1])]
        assert sums[owner] == pytest.approx(1000, abs=20)
        assert sum(sums) == sums[owner]  # no weight in another sentence


def test_page_shows_a_translation_while_one_types_and_the_one_that_is_chosen(shown, exported):
    write(shown, "zwei kinder spielen")

    size = BeamConfig(beam_size=5, n_best=5)
    [expected] = sentences_of(OnnxTranslator.load(exported)(["zwei kinder spielen"], size))
    status = shown.find_element(By.ID, "status").text
    assert f"; expected chrF {expected.expected_chrf:.0f}" in status
    assert shown_texts(shown) == [each.text.strip() or "(no text)" for each in expected.hypotheses]
    assert texts_of(shown, ".source .token span") == labels_of(expected.source_tokens)
    assert texts_of(shown, ".target .token span") == labels_of(expected.best.tokens)
    shown.find_elements(By.CSS_SELECTOR, "#hypotheses label")[2].click()
    assert texts_of(shown, ".target .token span") == labels_of(expected.hypotheses[2].tokens)


def test_text_without_words_shows_nothing(shown):
    write(shown, "   ")

    assert shown_texts(shown) == []
    assert not shown.find_element(By.CLASS_NAME, "weights").is_displayed()


def test_a_line_without_tokens_stays_as_it_is(shown):
    shown.execute_script(
        "translator.model.keepsOtherText = false; translator.source.encode = () => [];write('zwei')"
    )
    wait_for(shown, "return !isBusy")
    texts = shown_texts(shown)
    shown.execute_script("translator.model.keepsOtherText = true; delete translator.source.encode")

    assert texts == ["zwei"]


def test_an_error_takes_the_place_of_the_translations(shown):
    shown.execute_script("translator.graphs.onStep = async () => { throw new Error('no memory'); }")
    shown.execute_script("write('zwei')")
    wait_for(shown, "return !isBusy")
    told = shown.find_element(By.ID, "status").text
    texts = shown_texts(shown)
    shown.execute_script("translator.graphs.onStep = breathe()")

    assert told == "The model does not run: no memory"
    assert texts == []
    assert not shown.find_element(By.CLASS_NAME, "weights").is_displayed()


def test_an_example_fills_the_box(shown):
    shown.find_elements(By.CSS_SELECTOR, "#examples button")[1].click()
    wait_for(shown, "return !isBusy")

    assert shown.find_element(By.ID, "text").get_property("value") == EXAMPLES[1]


def test_a_beam_of_one_shows_the_greedy_translation(shown, exported):
    shown.find_element(By.CSS_SELECTOR, "#beam option[value='1']").click()
    wait_for(shown, "return !isBusy")

    expected = OnnxTranslator.load(exported)(EXAMPLES[:1], GreedyConfig())[0]
    assert shown_texts(shown) == [expected.text]


def test_hostile_text_stays_text(shown):
    hostile = "</script><img src=x onerror='window.hacked = 1'>"
    shown.execute_script("write(arguments[0])", hostile)
    wait_for(shown, "return !isBusy")

    assert shown.execute_script("return [window.hacked, document.images.length]") == [None, 0]


def test_every_control_has_a_name(shown):
    names = shown.execute_script(
        """return [...document.querySelectorAll("textarea, select, fieldset, [role=group]")]
        .map((each) => each.ariaLabel || each.labels?.[0]?.textContent
          || document.getElementById(each.getAttribute("aria-labelledby"))?.textContent || "")"""
    )

    assert names and all(name.strip() for name in names)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_page_fits_the_width_of_a_screen(shown, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    shown.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scrolls = "return document.documentElement.scrollWidth"

    try:
        assert shown.execute_script(scrolls) <= width
    finally:
        shown.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def shown_texts(browser):
    return texts_of(browser, "#hypotheses bdi")


def texts_of(browser, selector):
    return [each.text.strip() for each in browser.find_elements(By.CSS_SELECTOR, selector)]


def labels_of(tokens):
    return [token.replace("\u2581", " ").strip() or "\u2581" for token in tokens]
