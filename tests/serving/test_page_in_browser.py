"""The page in headless Chromium, wide and narrow, with a pointer and with keys."""

from functools import partial

import pytest
import torch
from headless_browser import needs_browser, open_browser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from tiny_service import KEYS, Shouter, load_shouter, make_serve_config, running

pytestmark = needs_browser
HOSTILE = "</textarea><img src=x onerror='window.hacked = 1'>"
HEADS = torch.tensor([[[0.75, 0.25], [0.0, 1.0]], [[0.25, 0.75], [0.5, 0.5]]])


def load(path, source=("\u2581ja", "</s>"), target=("\u2581A", "</s>"), heads=HEADS):
    """Return a model that shows the same attention for every sentence."""

    def shown(sentence):
        found = [h._replace(tokens=target, attention_weights=heads) for h in sentence.hypotheses]
        return sentence._replace(source_tokens=source, hypotheses=found)

    def translate(lines, decoding):
        return [
            line._replace(sentences=list(map(shown, line.sentences)))
            for line in Shouter()(lines, decoding)
        ]

    return load_shouter(path, translate)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    yield from open_browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def live():
    with running(make_serve_config(checkpoint=["de-en", "en-de", "fr-en"]), load=load) as service:
        yield service


@pytest.fixture
def page(browser, live):
    """Open the page; the console must stay empty."""
    open_page(browser, live)
    yield browser
    assert browser.get_log("browser") == []


def open_page(browser, live):
    browser.get(f"http://127.0.0.1:{live.port}/")
    wait_for(browser, lambda: browser.find_element(By.CSS_SELECTOR, "html[data-ready]"))


def wait_for(browser, condition):
    WebDriverWait(browser, 20, poll_frequency=0.02, ignored_exceptions=[Exception]).until(
        lambda _: condition()
    )


def find(page, name):
    return page.find_element(By.ID, name)


def write(page, text, result):
    """Write a text and wait for its translation."""
    find(page, "text").clear()
    find(page, "text").send_keys(text)
    wait_for(page, lambda: find(page, "result").get_property("value") == result)


def tokens(page, side):
    return page.find_elements(By.CSS_SELECTOR, f".{side} .token")


def choose(page, rank):
    page.find_elements(By.CSS_SELECTOR, "#hypotheses label")[rank].click()


def result(page):
    return find(page, "result").get_property("value")


def test_typing_translates_and_keeps_paragraphs(page):
    write(page, "Ja. Nein.\n\nJa.", "JA. NEIN.\n\nJA.")

    assert find(page, "count").text == "14 / 300"
    assert find(page, "status").text == "Translated"
    assert find(page, "place").text == "Sentence 1 of 3"
    find(page, "next").click()
    assert find(page, "place").text == "Sentence 2 of 3"
    find(page, "clear").click()
    wait_for(page, lambda: not find(page, "details").is_displayed())
    assert result(page) == ""


def test_alternatives_take_the_places_of_the_translations(page):
    write(page, "Ja. Nein.\n\nJa.", "JA. NEIN.\n\nJA.")

    labels = page.find_elements(By.CSS_SELECTOR, "#hypotheses label")
    assert [each.text.split("\n") for each in labels] == [
        ["JA.", "37%"], ["JA.!", "14%"], ["JA.!!", "5%"], ["JA.!!!", "2%"],
    ]  # fmt: skip
    choose(page, 1)
    assert result(page) == "JA.! NEIN.\n\nJA."
    for _ in range(2):
        find(page, "next").click()
    choose(page, 2)
    assert result(page) == "JA.! NEIN.\n\nJA.!!"
    for _ in range(2):
        find(page, "previous").click()

    chosen = page.find_elements(By.CSS_SELECTOR, "#hypotheses input:checked")
    assert [each.get_attribute("value") for each in chosen] == ["1"]


def test_a_pointer_shows_the_attention_of_each_head(page):
    write(page, "ja", "JA")

    ActionChains(page).move_to_element(tokens(page, "target")[0]).perform()
    mean = page.find_element(By.CLASS_NAME, "readout").text
    page.find_elements(By.CSS_SELECTOR, ".heads input")[1].click()
    ActionChains(page).move_to_element(tokens(page, "target")[0]).perform()

    assert mean == "A looked at ja 50%, </s> 50%"
    assert page.find_element(By.CLASS_NAME, "readout").text == "A looked at ja 75%, </s> 25%"


def test_swapping_exchanges_languages_and_texts(page):
    write(page, "ja", "JA")

    find(page, "swap").click()

    assert Select(find(page, "from")).first_selected_option.text == "English"
    assert Select(find(page, "to")).first_selected_option.text == "German"
    assert find(page, "text").get_property("value") == "JA"
    Select(find(page, "from")).select_by_visible_text("French")
    assert not find(page, "swap").is_enabled()


def test_swapping_before_the_answer_keeps_the_text(page):
    write(page, "ja", "JA")
    page.execute_script(
        "const text = document.getElementById('text'); text.value = 'neu';"
        "text.dispatchEvent(new Event('input')); document.getElementById('swap').click();"
    )

    assert find(page, "text").get_property("value") == "neu"


def test_hostile_text_is_shown_as_text(page):
    write(page, HOSTILE, HOSTILE.upper())

    assert page.execute_script("return window.hacked") is None
    assert find(page, "hypotheses").find_elements(By.TAG_NAME, "img") == []


def test_an_error_of_the_service_takes_the_place_of_the_translation(browser, live):
    open_page(browser, live)
    write(browser, "ja", "JA")
    find(browser, "text").send_keys("x" * 299)

    wait_for(
        browser, lambda: "the request has more than 300 characters" in find(browser, "status").text
    )
    assert result(browser) == ""
    assert not find(browser, "details").is_displayed()
    browser.get_log("browser")  # the browser reports status 413


def test_every_control_has_a_name(page):
    write(page, "Ja. Ja.", "JA. JA.")

    controls = page.find_elements(By.CSS_SELECTOR, "button, select, textarea, fieldset")
    assert [each.get_attribute("id") for each in controls if not each.accessible_name] == []


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 390)])
def test_nothing_is_wider_than_a_phone(browser, scheme, width):
    sentence = (
        "Das M\u00e4dchen zeigt dem Hund die Bilder, weil er sie gestern noch nicht sehen konnte."
    )
    pieces = [sentence[begin : begin + 4] for begin in range(0, len(sentence), 4)]
    weights = torch.full((4, len(pieces), len(pieces)), 1 / len(pieces))
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    phone = {"width": width, "height": 640, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        with running(load=partial(load, source=pieces, target=pieces, heads=weights)) as service:
            open_page(browser, service)
            for text in (f"{sentence} Ja.", "x" * 100):
                write(browser, text, text.upper())
                shown = browser.execute_script("return document.documentElement.scrollWidth")
                assert shown == width
        color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert color == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}[scheme]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_service_with_keys_asks_for_one(browser):
    with running(load=load, read_keys=lambda: KEYS) as service:
        open_page(browser, service)
        find(browser, "text").send_keys("ja")
        wait_for(browser, lambda: "the API key is missing" in find(browser, "status").text)
        find(browser, "key").send_keys(KEYS[0], Keys.ENTER)

        wait_for(browser, lambda: find(browser, "result").get_property("value") == "JA")
    browser.get_log("browser")  # the browser reports status 403
