"""The page of a server in a browser, as the tests drive it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.chromium import colours, size


@contextmanager
def looked_at(chromium: Chrome, url: str) -> Iterator[Page]:
    """Open the page; at the end nothing was complained about, and nothing asked for elsewhere."""
    size(chromium, 1100)
    colours(chromium, "light")
    found = Page(chromium, url)
    chromium.get_log("performance")
    chromium.get_log("browser")
    found.log_in()
    yield found
    assert chromium.get_log("browser") == []
    requested = {
        message["params"]["request"]["url"].replace("guest:guest@", "")
        for message in (json.loads(entry["message"])["message"] for entry in chromium.get_log("performance"))
        if message["method"] == "Network.requestWillBeSent"
    }
    assert {each for each in requested if not each.startswith((url, "data:"))} == set()
    assert url in requested
    chromium.get("about:blank")


class Page:
    """The page in a browser."""

    def __init__(self, browser: Chrome, url: str) -> None:
        self.browser = browser
        self.url = url

    def log_in(self) -> None:
        self.browser.get(self.url.replace("://", "://guest:guest@"))
        self.open()

    def open(self, query: str = "") -> None:
        self.browser.get(self.url + query)
        self.wait(lambda: self.find("#state").text == "live")

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def link(self, text: str) -> WebElement:
        return self.browser.find_element(By.LINK_TEXT, text)

    @property
    def text(self) -> str:
        found: str = self.browser.execute_script("return document.querySelector('main').innerText")
        return found

    @property
    def focused(self) -> WebElement:
        return self.browser.switch_to.active_element

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def wait(self, until: Callable[[], object]) -> None:
        waiting = WebDriverWait(self.browser, 20, 0.05, ignored_exceptions=[StaleElementReferenceException])
        waiting.until(lambda _: until())

    def wait_for(self, text: str) -> None:
        self.wait(lambda: text in self.text)
