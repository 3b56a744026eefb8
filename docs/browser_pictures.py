"""Take the pictures of pages in the browser: the animation of the README, and a page of attention.

    python docs/browser_pictures.py

writes docs/browser-translator.gif from the page of translator.py, and docs/attention-page.png from
checkpoints/grammar-additive, the model of `make train`, with Chromium and chromedriver.
"""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

import translator
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 700, 685
OPTIONS = ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},1200")
IS_IDLE = "return main.getAttribute('aria-busy') === 'false' && !isBusy"
STEP, LAST = 700, 2000
"""Milliseconds of each word, and of the last one."""
EXAMPLE = 2
"""The sentence of the animation, whose verb is at its end."""
SENTENCES = (
    "Der Hund sieht die Katze nicht.",
    "Arbeiten die Kinder am Montag?",
    "Wen l\u00e4dt die Katze ein?",
)
"""The text of docs/tutorials/looking-at-attention.md."""
WORD = 6
"""The token of the first translation that the pointer rests on."""


def take(driver: webdriver.Chrome, height: int = HEIGHT) -> Image.Image:
    """Return the upper part of the page that the browser shows, without a mark of the focus."""
    driver.execute_script("document.activeElement.blur()")
    content = driver.get_screenshot_as_png()
    return Image.open(io.BytesIO(content)).convert("RGB").crop((0, 0, WIDTH, height))


def record_translation(driver: webdriver.Chrome) -> list[Image.Image]:
    """Return a picture for each token of a translation, with what it attends to."""
    driver.find_element(By.CSS_SELECTOR, "#beam option[value='1']").click()  # shows one translation
    driver.find_elements(By.CSS_SELECTOR, "#examples button")[EXAMPLE].click()
    WebDriverWait(driver, 60).until(lambda _: driver.execute_script(IS_IDLE))
    pictures = []
    take(driver)  # a focus that is lost later would take the attention of the first token along
    for token in driver.find_elements(By.CSS_SELECTOR, ".target .token")[:-1]:
        ActionChains(driver, duration=0).move_to_element(token).perform()
        pictures.append(take(driver))
    return pictures


def show_attention(driver: webdriver.Chrome, folder: Path) -> Image.Image:
    """Write the page of some sentences, and return it with one token chosen."""
    (folder / "input.de").write_text("\n".join((*SENTENCES, "")), encoding="utf-8")
    model, path = ROOT / "checkpoints/grammar-additive", folder / "attention.html"
    command = [sys.executable, "translate.py", f"checkpoint={model}", f"input={folder}/input.de"]
    written = [f"output={folder}/output.en", f"attention_html={path}"]
    subprocess.run([*command, *written], cwd=ROOT, check=True)
    driver.get(path.as_uri())
    tokens = driver.find_elements(By.CSS_SELECTOR, ".target .token")
    ActionChains(driver, duration=0).move_to_element(tokens[WORD]).perform()
    return take(driver, driver.execute_script("return document.body.scrollHeight"))


def main() -> None:
    """Write the animation and the picture."""
    options = webdriver.ChromeOptions()
    for option in OPTIONS:
        options.add_argument(option)
    docs = ROOT / "docs"
    with tempfile.TemporaryDirectory() as folder, webdriver.Chrome(options=options) as driver:
        page = Path(folder, "translator.html")
        translator.write(page)
        driver.get(page.as_uri())
        WebDriverWait(driver, 60).until(lambda _: driver.execute_script(IS_IDLE))
        first, *others = (each.quantize(128) for each in record_translation(driver))
        times = [*[STEP] * len(others), LAST]
        path = docs / "browser-translator.gif"
        first.save(path, save_all=True, append_images=others, duration=times, loop=0, optimize=True)
        if (ROOT / "checkpoints/grammar-additive").exists():
            attention = show_attention(driver, Path(folder))
            attention.quantize(128).save(docs / "attention-page.png", optimize=True)


if __name__ == "__main__":
    main()
