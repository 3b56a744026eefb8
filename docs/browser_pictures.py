"""Take the pictures of pages in the browser: the animation of the README, and a page of attention.

    python docs/browser_pictures.py

writes docs/browser-translator.gif and docs/attention-page.png with Chromium and chromedriver, from
the model of translator.py.
"""

import io
import tempfile
from pathlib import Path

import translator
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from seq2seq import AttentionPage, OnnxTranslator
from seq2seq.inference.translations import sentences_of

WIDTH, HEIGHT = 700, 610
OPTIONS = ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},1200")
IS_IDLE = "return main.getAttribute('aria-busy') === 'false' && !isBusy"
FIRST, STEP, LAST = 1200, 600, 2000
"""Milliseconds of the first picture, of each word, and of the last one."""
SENTENCES = (
    "Der Hund sieht die Katze nicht.",
    "Arbeiten die Kinder am Montag?",
    "Wen l\u00e4dt die Katze ein?",
)
"""The text of docs/tutorials/looking-at-attention.md."""
WORD = 6
"""The token of the first translation that the pointer rests on."""


def take(driver: webdriver.Chrome, height: int = HEIGHT) -> Image.Image:
    """Return the upper part of the page that the browser shows."""
    content = driver.get_screenshot_as_png()
    return Image.open(io.BytesIO(content)).convert("RGB").crop((0, 0, WIDTH, height))


def record_translation(driver: webdriver.Chrome) -> list[Image.Image]:
    """Return a picture of the page before the translation, and one for each token of it."""
    driver.find_element(By.CSS_SELECTOR, "#beam option[value='1']").click()  # shows one translation
    pictures = [take(driver)]
    driver.find_elements(By.CSS_SELECTOR, "#examples button")[1].click()
    WebDriverWait(driver, 60).until(lambda _: driver.execute_script(IS_IDLE))
    for token in driver.find_elements(By.CSS_SELECTOR, ".target .token")[:-1]:
        ActionChains(driver, duration=0).move_to_element(token).perform()
        pictures.append(take(driver))
    return pictures


def show_attention(driver: webdriver.Chrome, path: Path) -> Image.Image:
    """Write the page of some sentences, and return it with one token chosen."""
    with path.open("wb") as output:
        page = AttentionPage(output)
        for each in sentences_of(OnnxTranslator.load(translator.KEPT)(SENTENCES)):
            page.add(
                source=each.source,
                target=each.text,
                source_tokens=each.source_tokens,
                target_tokens=each.best.tokens,
                attention_weights=each.best.attention_weights,
                note=f"log-probability {each.best.log_probability:.2f}",
            )
        page.close()
    driver.get(path.as_uri())
    tokens = driver.find_elements(By.CSS_SELECTOR, ".target .token")
    ActionChains(driver, duration=0).move_to_element(tokens[WORD]).perform()
    return take(driver, driver.execute_script("return document.body.scrollHeight"))


def main() -> None:
    """Write the animation and the picture."""
    options = webdriver.ChromeOptions()
    for option in OPTIONS:
        options.add_argument(option)
    docs = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder, webdriver.Chrome(options=options) as driver:
        page = Path(folder, "translator.html")
        translator.write(page)
        driver.get(page.as_uri())
        WebDriverWait(driver, 60).until(lambda _: driver.execute_script(IS_IDLE))
        first, *others = (each.quantize(64) for each in record_translation(driver))
        attention = show_attention(driver, Path(folder, "attention.html"))
    times = [FIRST, *[STEP] * (len(others) - 1), LAST]
    path = docs / "browser-translator.gif"
    first.save(path, save_all=True, append_images=others, duration=times, loop=0, optimize=True)
    attention.quantize(128).save(docs / "attention-page.png", optimize=True)


if __name__ == "__main__":
    main()
