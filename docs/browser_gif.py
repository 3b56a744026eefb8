"""Record the animation of the README: a translation in the browser, and what each word read.

    python docs/browser_gif.py

writes docs/browser-translator.gif, with Chromium and chromedriver, from the page of translator.py.
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

SIZE = (700, 610)
OPTIONS = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--window-size=700,1200")
IS_IDLE = "return main.getAttribute('aria-busy') === 'false' && !isBusy"
FIRST, STEP, LAST = 1200, 600, 2000
"""Milliseconds of the first picture, of each word, and of the last one."""


def record(driver: webdriver.Chrome) -> list[Image.Image]:
    """Return a picture of the page before the translation, and one for each token of it."""

    def picture() -> Image.Image:
        content = driver.get_screenshot_as_png()
        return Image.open(io.BytesIO(content)).convert("RGB").crop((0, 0, *SIZE))

    driver.find_element(By.CSS_SELECTOR, "#beam option[value='1']").click()  # shows one translation
    pictures = [picture()]
    driver.find_elements(By.CSS_SELECTOR, "#examples button")[1].click()
    WebDriverWait(driver, 60).until(lambda _: driver.execute_script(IS_IDLE))
    for token in driver.find_elements(By.CSS_SELECTOR, ".target .token")[:-1]:
        ActionChains(driver, duration=0).move_to_element(token).perform()
        pictures.append(picture())
    return pictures


def main() -> None:
    """Record the page and write the animation."""
    options = webdriver.ChromeOptions()
    for option in OPTIONS:
        options.add_argument(option)
    with tempfile.TemporaryDirectory() as folder, webdriver.Chrome(options=options) as driver:
        page = Path(folder, "translator.html")
        translator.write(page)
        driver.get(page.as_uri())
        WebDriverWait(driver, 60).until(lambda _: driver.execute_script(IS_IDLE))
        pictures = record(driver)
    first, *others = (each.quantize(64) for each in pictures)
    times = [FIRST, *[STEP] * (len(others) - 1), LAST]
    path = Path(__file__).with_name("browser-translator.gif")
    first.save(path, save_all=True, append_images=others, duration=times, loop=0, optimize=True)


if __name__ == "__main__":
    main()
