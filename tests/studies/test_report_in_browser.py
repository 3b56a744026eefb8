"""The report of a study in headless Chromium: choosing, hovering, narrow screens."""

import re

import pandas as pd
import pytest
from headless_browser import (
    assert_makes_no_request,
    needs_browser,
    open_browser,
    open_page,
    shades_of,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from seq2seq.studies.charts import length_chart
from seq2seq.studies.report import render_report

pytestmark = needs_browser
HOSTILE = "</script><script>window.hacked = 1</script>\"'><img src=x onerror='window.hacked = 1'>"
START = "\u2581"
SOURCE = [f"{START}Ein", f"{START}Hund", "</s>"]
TARGET = [f"{START}A", f"{START}dog", "</s>"]
WEIGHTS = [
    [[900, 100, 0], [200, 800, 0], [0, 0, 1000]],
    [[500, 300, 200], [400, 600, 0], [100, 100, 800]],
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    yield from open_browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture
def show(browser, tmp_path):
    """Return a function that opens the page of a study; the console must stay empty."""

    def write_and_open(text="dot"):
        path = tmp_path / "report.html"
        path.write_text(render_report(make_page(text)), encoding="utf-8")
        open_page(browser, path)
        return browser

    yield write_and_open
    assert browser.get_log("browser") == []


def make_page(text):
    labels = [text, "additive", "none"]
    measures = {f"Measure {number}": "0.5" for number in range(12)}
    table = pd.DataFrame(measures, index=pd.Index([text, *labels[1:]], name=text))
    lengths = pd.DataFrame({"group": [text, text, "additive", "additive"], "unit": "words"})
    lengths = lengths.assign(source_length=["1-5", "6-9"] * 2, bleu=[2.0, 3.0, 1.0, 1.5])
    [chart] = length_chart(lengths.assign(bleu_deviation=0.5), labels).values()
    tokens = {"source_tokens": SOURCE, "target_tokens": TARGET}
    translations = [
        {"group": group, "text": each, "attention": tokens | {"weights": WEIGHTS[:heads]}}
        for group, (each, heads) in enumerate((("A dog", 2), (text, 1), ("Nothing", 0)))
    ]
    sentences = [
        {
            "source": each,
            "reference": each,
            "translations": translations,
            "numbers": {"Source words": number, "AER": number / 10},
        }
        for number, each in enumerate((text, "Zwei Hunde"), start=1)
    ]
    return {
        "title": text,
        "groups": labels,
        "summary": [text],
        "tables": {"Results": {text: table, "Long": pd.concat([table] * 9)}, "Answers": {}},
        "charts": {"Answers": {text: chart, "Validation": chart}},
        "sentences": sentences,
        "notes": [text],
    }


def traces(browser, chart=0):
    """Return name and x of each line that Plotly shows."""
    return browser.execute_script(
        f"return document.querySelectorAll('.chart')[{chart}].data"
        ".filter(each => each.name && each.visible !== false).map(each => [each.name, each.x])"
    )


def tokens(browser, card, side):
    selector = f".card:nth-child({card}) .token[data-side={side}]"
    return browser.find_elements(By.CSS_SELECTOR, selector)


def shades(browser, card, side):
    """Return the opacity of the shade of each token."""
    return shades_of(tokens(browser, card, side))


def point_at(element):
    driver = element.parent
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    ActionChains(driver).move_to_element(element).perform()


def test_groups_can_be_hidden_in_charts_and_translations_singly_and_at_once(show):
    browser = show()
    everything, nothing = browser.find_elements(By.CSS_SELECTOR, "#groups button")
    boxes = browser.find_elements(By.CSS_SELECTOR, "#groups input")

    def drawn():
        return [name for name, _ in traces(browser)]

    boxes[0].click()
    assert drawn() == ["additive"]
    titles = browser.find_elements(By.CSS_SELECTOR, ".card h3")
    shown = [title.text for title in titles if title.is_displayed()]
    assert shown == ["\u25a0additive", "\u25c6none"]
    nothing.click()
    assert drawn() == []
    boxes[1].click()
    assert drawn() == ["additive"]
    everything.click()
    assert drawn() == ["dot", "additive"]


def test_a_finger_scrolls_the_page_over_a_chart(show, browser):
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        show()
        chart = browser.find_element(By.CSS_SELECTOR, ".chart")
        before, left, top = browser.execute_script(
            "arguments[0].scrollIntoView({ block: 'center' });"
            "const { x, y, width, height } = arguments[0].getBoundingClientRect();"
            "return [scrollY, x + width / 2, y + height / 2]",
            chart,
        )
        for kind, offset in (("Start", 0), *(("Move", -20 * step) for step in range(1, 8))):
            points = [{"x": left, "y": top + offset}]
            event = {"type": f"touch{kind}", "touchPoints": points}
            browser.execute_cdp_cmd("Input.dispatchTouchEvent", event)
        end = {"type": "touchEnd", "touchPoints": []}
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", end)
        WebDriverWait(browser, 10).until(
            lambda _: browser.execute_script("return scrollY") > before
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_charts_are_drawn_with_colours_and_a_translation_like_the_reference_is_marked(show):
    browser = show()

    listed = browser.execute_script(
        "return [...document.querySelectorAll('#groups .mark')].map((each) => each.style.color)"
    )
    drawn = browser.execute_script(
        "return [...document.querySelector('.chart').querySelectorAll('.trace .point:first-child')]"
        ".map((each) => each.style.fill)"
    )

    assert len(set(listed)) == 3
    assert drawn == listed[:2]
    marked = browser.find_elements(By.CSS_SELECTOR, ".card:has(.same:not([hidden])) h3")

    assert [title.text for title in marked] == ["\u25a0additive"]
    assert len(browser.find_elements(By.CSS_SELECTOR, ".chart .main-svg")) >= 3
    assert len(browser.find_elements(By.CSS_SELECTOR, ".chart .point")) >= 2 * (2 + 2)


def test_a_source_token_shows_what_looked_at_it_in_every_translation(show):
    browser = show()

    point_at(tokens(browser, 1, "target")[1])
    sources = [shades(browser, card, "source") for card in (1, 2)]
    point_at(tokens(browser, 1, "source")[0])

    assert sources[0] == pytest.approx([0.3, 0.7, 0.0], abs=0.01)
    assert sources[1] == [0.0, 0.0, 0.0]  # of the other card
    assert shades(browser, 1, "target") == pytest.approx([0.7, 0.3, 0.05], abs=0.01)
    assert shades(browser, 2, "target") == pytest.approx([0.9, 0.2, 0.0], abs=0.01)
    assert len(tokens(browser, 3, "source")) == 0  # without attention


def test_the_order_of_the_sentences_can_be_chosen(show):
    browser = show()

    def listed():
        return [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#choice option")]

    assert listed() == ["1 (1): dot", "2 (2): Zwei Hunde"]
    browser.find_element(By.CSS_SELECTOR, "#order option:nth-child(2)").click()
    assert listed() == ["1 (0.2): Zwei Hunde", "2 (0.1): dot"]
    browser.find_element(By.ID, "next").click()
    assert browser.find_element(By.ID, "source").text == "dot"
    assert not browser.find_element(By.ID, "next").is_enabled()


@pytest.mark.parametrize("width", [1400, 400])
def test_the_page_is_no_wider_than_the_screen(show, browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == 400}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        show(HOSTILE)
        overflow = browser.execute_script(
            "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
        )
        chart = browser.find_element(By.CSS_SELECTOR, ".chart svg").rect
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert overflow <= 0
    assert 250 <= chart["width"] <= width


def test_text_is_shown_and_never_run_and_the_page_may_request_nothing(show):
    browser = show(HOSTILE)

    point_at(browser.find_element(By.CSS_SELECTOR, "figure:last-child .point"))

    for place in ("h1", "h3", "p", "thead th", "tbody th", "li", "figcaption", "#source"):
        assert browser.find_element(By.CSS_SELECTOR, place).text == HOSTILE
    assert browser.execute_script("return window.hacked") is None
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert_makes_no_request(browser)


def test_text_of_charts_has_the_colours_of_the_scheme(show):
    browser = show()
    papers = []
    for scheme in ("dark", "light"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        WebDriverWait(browser, 10).until(
            lambda _: browser.execute_script(
                "const [label, body] = [document.querySelector('.chart .xtitle'), document.body];"
                "return getComputedStyle(label).fill === getComputedStyle(body).color"
            ),
            "the text of the charts keeps the colour of the other scheme",
        )
        body = browser.find_element(By.TAG_NAME, "body")
        papers.append(re.findall(r"\d+", body.value_of_css_property("background-color"))[0])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert int(papers[0]) < 127 < int(papers[1])


def test_the_list_of_groups_and_the_first_column_stay_in_sight(show):
    browser = show()
    browser.set_window_size(500, 900)

    lefts = browser.execute_script(
        "const box = document.querySelector('.scroll'); box.scrollLeft = 150;"
        "return [...box.querySelectorAll('tr > :first-child')]"
        ".map(each => each.getBoundingClientRect().left - box.getBoundingClientRect().left)"
    )
    scrolled, top = browser.execute_script(
        "scrollTo(0, document.body.scrollHeight);"
        "return [scrollY, document.getElementById('groups').getBoundingClientRect().top]"
    )

    assert len(lefts) == 4
    assert lefts == pytest.approx([lefts[0]] * 4) and 0 <= lefts[0] <= 1
    assert scrolled > 200
    assert top == pytest.approx(0, abs=1)
