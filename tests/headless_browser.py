"""Chromium without a window, for the tests of pages."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

_BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
_DRIVER = shutil.which("chromedriver")
_OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage "
    "--window-size=1280,900"
)
# `element` is a function of the script of either page.
_IS_OPEN = (
    "return location.href === arguments[0] && document.readyState === 'complete' "
    "&& !document.isLeft && typeof element === 'function'"
)
needs_browser = pytest.mark.skipif(
    _BROWSER is None or _DRIVER is None,
    reason="needs a browser: no chromium and chromedriver on the path "
    "(Debian: apt-get install chromium chromium-driver)",
)


def open_browser(profile: Path) -> Iterator[webdriver.Chrome]:
    """Yield a browser that keeps its data in a folder and its console for the tests to read."""
    options = webdriver.ChromeOptions()
    options.binary_location = _BROWSER
    for option in _OPTIONS.split():
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(_DRIVER, log_output=os.devnull)
    with webdriver.Chrome(options=options, service=service) as driver:
        yield driver


def open_page(browser: webdriver.Chrome, path: Path) -> None:
    """Open a page, and wait until it is loaded and its script has run.

    `get` alone sometimes returns while the browser still shows the page before, which may have the
    same address.
    """
    browser.execute_script("document.isLeft = true")
    browser.get(path.as_uri())
    WebDriverWait(browser, 30).until(
        lambda _: browser.execute_script(_IS_OPEN, path.as_uri()), f"{path} did not open"
    )


def shades_of(elements: list[WebElement]) -> list[float]:
    """Return the opacity of the shade of each element."""
    colors = [
        re.findall(r"[\d.]+", each.value_of_css_property("background-color")) for each in elements
    ]
    return [float(color[3]) if len(color) == 4 else 1.0 for color in colors]


def assert_makes_no_request(browser: webdriver.Chrome) -> None:
    """Check that a page has loaded nothing else, and that it may not."""
    loaded = browser.execute_script("return performance.getEntriesByType('resource').length")
    refused = browser.execute_async_script(
        "const done = arguments[0];"
        "addEventListener('securitypolicyviolation', event => done(event.effectiveDirective));"
        "fetch('http://127.0.0.1:9/').catch(() => {});"
    )

    assert (loaded, refused) == (0, "connect-src")
    browser.get_log("browser")  # what the refusal left there
