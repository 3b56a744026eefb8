"""The page in a browser: opened from a file in headless Chromium, with a pointer and keys."""

import re
from itertools import pairwise

import pytest
import torch
from colors import contrast
from headless_browser import needs_browser, open_browser, open_page, shades_of
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from seq2seq.visualization.page import AttentionPage

pytestmark = needs_browser
START = "\u2581"
GERMAN = [f"{START}Ein", f"{START}Hund", f"{START}renn", "t", "</s>"]
ENGLISH = [f"{START}A", f"{START}dog", "</s>"]
HEBREW = [f"{START}\u05e9\u05e0\u05d9", f"{START}\u05db\u05dc\u05d1", "\u05d9\u05dd", "</s>"]
WEIGHTS = torch.tensor([[[0.7, 0.2, 0.1, 0, 0], [0, 0.25, 0.75, 0, 0], [0.2] * 5]])
HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"'&amp;"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    yield from open_browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture
def show(browser, tmp_path):
    """Return a function that opens a page of sentences; the console must stay empty."""

    def write_and_open(*sentences):
        path = tmp_path / "attention.html"
        with path.open("wb") as file:
            page = AttentionPage(file)
            for sentence in sentences:
                page.add(**sentence)
            page.close()
        open_page(browser, path)
        point_away(browser)  # the pointer stands where the test before left it
        return browser

    yield write_and_open
    assert browser.get_log("browser") == []


def make_sentence(source, target, weights=None, num_heads=2):
    """Return a sentence in which each head attends to one token, shifted by the head's index."""
    if weights is None:
        columns = torch.arange(len(target)).unsqueeze(0) + torch.arange(num_heads).unsqueeze(1)
        weights = 0.8 * torch.eye(len(source))[columns % len(source)] + 0.2 / len(source)
    return {
        "source": "".join(source[:-1]).replace(START, " ").strip(),
        "target": "".join(target[:-1]).replace(START, " ").strip(),
        "source_tokens": source,
        "target_tokens": target,
        "attention_weights": weights,
        "note": "log-probability -3.21",
    }


def tokens(browser, side):
    return browser.find_elements(By.CSS_SELECTOR, f".{side} .token")


def shades(browser, side):
    """Return the opacity of the shade of each token."""
    return shades_of(tokens(browser, side))


def numbers_of(token, name):
    return [float(value) for value in re.findall(r"[\d.]+", token.value_of_css_property(name))]


def numbers(browser, side):
    return [token.find_element(By.TAG_NAME, "small").text for token in tokens(browser, side)]


def point_at(element):
    ActionChains(element.parent).move_to_element(element).perform()


def point_away(browser):
    point_at(browser.find_element(By.TAG_NAME, "h1"))


def test_pointing_at_a_token_shades_the_other_side_by_its_weights(show):
    browser = show(make_sentence(GERMAN, ENGLISH, WEIGHTS))
    selector = browser.find_element(By.CLASS_NAME, "heads")
    at_rest = shades(browser, "source")

    point_at(tokens(browser, "target")[1])

    assert not selector.is_displayed()  # there is a single head
    assert at_rest == [0.0] * 5
    assert shades(browser, "source") == pytest.approx([0.0, 0.25, 0.75, 0.0, 0.0], abs=0.01)
    assert numbers(browser, "source") == ["", "25%", "75%", "", ""]
    assert shades(browser, "target") == [0.0] * 3

    point_at(tokens(browser, "source")[1])

    assert shades(browser, "target") == pytest.approx([0.2, 0.25, 0.2], abs=0.01)
    assert numbers(browser, "target") == ["20%", "25%", "20%"]


def test_leaving_removes_the_shades_unless_a_click_keeps_them(show):
    browser = show(make_sentence(GERMAN, ENGLISH))
    at_rest = shades(browser, "source")
    token = tokens(browser, "target")[1]

    point_at(token)
    pointed = shades(browser, "source")
    assert pointed != at_rest
    point_away(browser)
    assert shades(browser, "source") == at_rest
    token.click()
    point_away(browser)
    assert shades(browser, "source") == pointed
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert shades(browser, "source") == at_rest


def test_the_head_selector_changes_the_shades(show):
    browser = show(make_sentence(GERMAN, ENGLISH, num_heads=3))
    tokens(browser, "target")[0].click()
    found = []
    for head in browser.find_elements(By.CSS_SELECTOR, ".heads input"):
        head.click()
        found.append(numbers(browser, "source"))

    assert found == [
        ["31%", "31%", "31%", "4%", "4%"],  # the mean
        ["84%", "4%", "4%", "4%", "4%"],
        ["4%", "84%", "4%", "4%", "4%"],
        ["4%", "4%", "84%", "4%", "4%"],
    ]


def test_keys_reach_tokens_and_sentences(show):
    browser = show(make_sentence(GERMAN, ENGLISH), make_sentence(HEBREW, ENGLISH))
    tokens(browser, "source")[0].send_keys(Keys.ARROW_RIGHT)
    second = browser.switch_to.active_element.get_attribute("data-index")
    shaded = numbers(browser, "target")

    browser.find_element(By.TAG_NAME, "body").send_keys("n")
    place = browser.find_element(By.ID, "place").text
    # Where text runs from right to left, the next token is to the left.
    tokens(browser, "source")[0].send_keys(Keys.ARROW_LEFT)

    assert second == "1"
    assert "".join(shaded)
    assert place == "2 of 2"
    assert browser.switch_to.active_element.get_attribute("data-index") == "1"


@pytest.mark.parametrize(("source", "is_mirrored"), [(GERMAN, False), (HEBREW, True)])
def test_a_cell_lights_up_its_row_and_column(show, source, is_mirrored):
    browser = show(make_sentence(source, ENGLISH))
    canvas = browser.find_element(By.TAG_NAME, "canvas")
    cell = canvas.size["width"] / len(source)
    middle = canvas.size["width"] / 2

    # The third cell from the left in the last row.
    down = canvas.size["height"] / 2 - cell / 2
    ActionChains(browser).move_to_element_with_offset(
        canvas, round(2.5 * cell - middle), round(down)
    ).perform()

    column = len(source) - 3 if is_mirrored else 2
    active = browser.find_elements(By.CSS_SELECTOR, ".token.active")
    assert [token.get_attribute("data-index") for token in active] == [str(column), "2"]
    line, label = (
        browser.find_element(By.CSS_SELECTOR, selector).rect
        for selector in (".column.line", ".columns .active")
    )
    assert abs(line["x"] - label["x"]) <= 1
    assert abs(line["x"] - canvas.rect["x"] - 2 * cell) <= 1


def test_the_matrix_has_one_pixel_for_each_cell(show):
    weights = torch.zeros(1, 3, 4)
    weights[0, 1, 2] = 1.0
    browser = show(make_sentence(HEBREW, ENGLISH, weights))

    pixels = browser.execute_script(
        "const {canvas} = view, {width, height} = canvas;"
        "return [...canvas.getContext('2d').getImageData(0, 0, width, height).data];"
    )

    # The source runs from right to left, so its third column is the second from the left.
    visible = torch.tensor(pixels).view(3, 4, 4)[:, :, 3]
    assert visible.nonzero().tolist() == [[1, 1]]
    assert visible[1, 1] == 255


def test_a_sentence_of_sixty_words_stays_legible_on_a_phone(show):
    words = [f"{START}Wort{index}" for index in range(60)] + ["</s>"]
    browser = show(make_sentence(words, words, num_heads=8), make_sentence(GERMAN, ENGLISH))
    browser.set_window_size(400, 900)
    try:
        point_at(tokens(browser, "target")[7])
        overflow, sizes = browser.execute_script(
            "const page = document.documentElement;"
            "const texts = [...document.querySelectorAll('body *')].filter(one => one.innerText);"
            "return [page.scrollWidth - page.clientWidth,"
            " texts.map(one => parseFloat(getComputedStyle(one).fontSize))];"
        )
        boxes = [token.rect for token in tokens(browser, "source")]
        cut = browser.execute_script(
            "return [...document.querySelectorAll('.token, .labels span')]"
            ".filter(one => one.scrollWidth > one.clientWidth + 1).length"
        )
    finally:
        browser.set_window_size(1280, 900)

    assert overflow <= 0
    assert min(sizes) >= 12
    assert cut == 0
    for one, other in pairwise(boxes):
        assert one["x"] + one["width"] <= other["x"] or one["y"] + one["height"] <= other["y"]


def test_right_to_left_tokens_run_from_right_to_left(show):
    browser = show(make_sentence(HEBREW, ENGLISH))

    columns = browser.find_elements(By.CSS_SELECTOR, ".columns span")

    for parts, is_falling in (
        (tokens(browser, "source"), True),
        (columns, True),
        (tokens(browser, "target"), False),
    ):
        lefts = [part.rect["x"] for part in parts]
        assert lefts == sorted(lefts, reverse=is_falling)


def test_tokens_of_a_word_touch_and_words_stand_apart(show):
    browser = show(make_sentence(GERMAN, ENGLISH))

    words = browser.find_elements(By.CSS_SELECTOR, ".source .word")

    texts = [[token.text for token in word.find_elements(By.CLASS_NAME, "token")] for word in words]
    assert texts == [["Ein"], ["Hund"], ["renn", "t"], ["</s>"]]
    rects = [word.rect for word in words]
    assert all(one["x"] + one["width"] < other["x"] for one, other in pairwise(rects))


@pytest.mark.parametrize("text", [HOSTILE, "\u2028\u2029\u202e", "a\0\n\x7f", "\udc80"])
def test_text_is_shown_and_never_run(show, text):
    hostile = make_sentence([START + text, "</s>"], [text, "</s>"])
    browser = show({**hostile, "source": text, "target": text, "note": text})

    point_at(tokens(browser, "target")[0])

    shown = browser.execute_script(
        "return document.getElementById('source-text').textContent.toWellFormed()"
    )
    symbols = {0: "\u2400", 10: "\u240a", 127: "\u2421", 0xDC80: "\ufffd"}
    assert shown == text.translate(symbols)
    assert browser.execute_script("return window.hacked") is None
    assert browser.find_elements(By.TAG_NAME, "img") == []


def test_only_one_of_thousands_of_sentences_is_drawn(show):
    browser = show(*[make_sentence(GERMAN, ENGLISH) for _ in range(3000)])

    browser.execute_script("list.children[2998].firstChild.click()")
    browser.find_element(By.ID, "next").click()

    assert browser.find_element(By.ID, "place").text == "3000 of 3000"
    assert not browser.find_element(By.ID, "next").is_enabled()
    assert len(browser.find_elements(By.CLASS_NAME, "token")) == len(GERMAN) + len(ENGLISH)


def test_a_page_without_sentences_says_so(show):
    browser = show()

    assert "no sentences" in browser.find_element(By.TAG_NAME, "main").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ink_on_the_fullest_shade_has_contrast(show, scheme):
    browser = show(make_sentence(GERMAN, ENGLISH, torch.eye(5).unsqueeze(0)[:, :3]))
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    point_at(tokens(browser, "target")[1])

    token = tokens(browser, "source")[1]
    ink, shade = numbers_of(token, "color"), numbers_of(token, "background-color")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert contrast(ink, shade) >= 4.5
