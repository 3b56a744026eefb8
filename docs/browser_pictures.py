"""Take the pictures of pages in the browser: a translator, the service, and a page of attention.

    python docs/browser_pictures.py

writes docs/browser-translator.gif from the page of translator.py, docs/service.png from a service
with checkpoints/everyday-de-en, and docs/attention-page.png from checkpoints/grammar-additive, the
model of `make train`, with Chromium and chromedriver.
"""

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
HEIGHT_OF_PAGE = "return Math.ceil(document.body.getBoundingClientRect().bottom)"
IS_IDLE = "return main.getAttribute('aria-busy') === 'false' && !isBusy"
TARGETS = ".target .token"
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
SERVED = "Mein Bruder arbeitet in einem Krankenhaus. Er hat das Buch gestern gelesen."
SERVED_WIDTH, SERVED_WORD = 900, 5
ADDRESS = re.compile(r"http://\S+/")


def take(driver: webdriver.Chrome, height: int = HEIGHT) -> Image.Image:
    """Return the upper part of the page that the browser shows."""
    image = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    return image.crop((0, 0, image.width, height))


def take_all(driver: webdriver.Chrome) -> Image.Image:
    """Return the whole page."""
    return take(driver, driver.execute_script(HEIGHT_OF_PAGE))


def point_at(driver: webdriver.Chrome, number: int) -> None:
    """Let the pointer rest on a token of the translation, and hide the mark of the focus."""
    driver.execute_script("document.activeElement.blur()")
    token = driver.find_elements(By.CSS_SELECTOR, TARGETS)[number]
    ActionChains(driver, duration=0).move_to_element(token).perform()


def record_translation(driver: webdriver.Chrome) -> list[Image.Image]:
    """Return a picture for each word of a translation, with what it attends to."""
    driver.find_element(By.CSS_SELECTOR, "#beam option[value='1']").click()  # shows one translation
    driver.find_elements(By.CSS_SELECTOR, "#examples button")[EXAMPLE].click()
    WebDriverWait(driver, 60).until(lambda _: driver.find_elements(By.CSS_SELECTOR, TARGETS))
    WebDriverWait(driver, 60).until(lambda _: driver.execute_script(IS_IDLE))
    pictures = []
    count = len(driver.find_elements(By.CSS_SELECTOR, TARGETS))
    for number in range(count - 2):  # without the full stop and the end
        point_at(driver, number)
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
    point_at(driver, WORD)
    return take_all(driver)


@contextmanager
def service() -> Iterator[str]:
    """Serve the model in the box, and return the address of the page."""
    command = [sys.executable, "-m", "seq2seq.cli.serve", f"checkpoint={translator.MODEL}"]
    with subprocess.Popen(
        [*command, "port=0"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            yield next(match[0] for line in process.stderr if (match := ADDRESS.search(line)))
        finally:
            process.terminate()


def show_service(driver: webdriver.Chrome) -> Image.Image:
    """Translate two sentences in the page of the service, with one token chosen."""
    driver.set_window_size(SERVED_WIDTH, 1200)
    with service() as address:
        driver.get(address)
        driver.find_element(By.ID, "text").send_keys(SERVED)
        WebDriverWait(driver, 60).until(
            lambda _: driver.find_element(By.ID, "status").text == "Translated"
        )
        driver.find_element(By.CSS_SELECTOR, "summary").click()  # closes the table of weights
        point_at(driver, SERVED_WORD)
        return take_all(driver)


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
        first, *others = (each.quantize(256) for each in record_translation(driver))
        times = [*[STEP] * len(others), LAST]
        path = docs / "browser-translator.gif"
        first.save(path, save_all=True, append_images=others, duration=times, loop=0, optimize=True)
        if (ROOT / "checkpoints/grammar-additive").exists():
            attention = show_attention(driver, Path(folder))
            attention.quantize(128).save(docs / "attention-page.png", optimize=True)
        show_service(driver).quantize(128).save(docs / "service.png", optimize=True)


if __name__ == "__main__":
    main()
