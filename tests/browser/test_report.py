"""The report of a replay in a real browser: from a loss to its message, the search, narrow windows, no network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.chromium import colours, size
from tests.browser.scene import report_of_the_example

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the captured example of 4.3."""
    return report_of_the_example(tmp_path_factory.mktemp("report"))


@pytest.fixture
def page(chromium: Chrome, report: Path) -> Iterator[Chrome]:
    size(chromium, 1100)
    chromium.get("about:blank")
    chromium.get_log("performance")
    chromium.get_log("browser")
    chromium.get(report.as_uri())
    WebDriverWait(chromium, 20, 0.05).until(drawn)
    yield chromium
    assert chromium.get_log("browser") == []
    messages = (json.loads(entry["message"])["message"] for entry in chromium.get_log("performance"))
    requested = {each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"}
    assert {url for url in requested if not url.startswith(("file:", "data:", "blob:"))} == set()


def drawn(page: Chrome) -> bool:
    return page.execute_script(
        "return 'drawn' in document.documentElement.dataset && !!document.querySelector('svg.main-svg')"
    )


def life(page: Chrome) -> str:
    found: str = page.execute_script("return document.getElementById('life').innerText")
    return found


def test_one_click_leads_from_a_loss_to_its_message(page: Chrome) -> None:
    page.find_element(By.CSS_SELECTOR, "#losses a").click()
    WebDriverWait(page, 20, 0.05).until(life)
    told = life(page)
    assert told.startswith("task-")
    assert "Published to the" in told
    assert "Died in 'cycles.silent.a' (expired), and was dead-lettered to 'cycles.silent.b'." in told
    assert "Lost in 'cycles.silent.b' (expired): it would return to 'cycles.silent.a'" in told


def test_a_message_is_found_by_its_id(page: Chrome) -> None:
    find = page.find_element(By.ID, "find")
    find.send_keys("feed-00083ABCC5")
    told = life(page)
    assert "Delivered from 'feeds.missing'." in told
    assert "Lost in 'feeds.missing' if it was rejected or has expired" in told
    find.send_keys("-no-such")
    assert life(page) == ""
    assert page.find_element(By.ID, "hits").text.startswith("No message of this page")


def test_messages_are_found_by_what_happened_to_them(page: Chrome) -> None:
    find = page.find_element(By.ID, "find")
    find.send_keys("lost in 'cycles.silent.b'")
    hits = page.find_elements(By.CSS_SELECTOR, "#hits button")
    assert len(hits) == 19
    assert all(hit.text.endswith(" lost") for hit in hits)
    find.send_keys(Keys.TAB, Keys.ENTER)
    assert life(page).startswith(hits[0].text.removesuffix(" lost"))


def test_a_link_can_name_a_message(page: Chrome) -> None:
    page.get(page.current_url.partition("#")[0] + "#message=feed-00083abcc5")
    assert life(page).startswith("feed-00083abcc5")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_narrow_window(page: Chrome, scheme: str) -> None:
    size(page, 600)
    colours(page, scheme)
    page.find_element(By.CSS_SELECTOR, "#losses a").click()
    WebDriverWait(page, 20, 0.05).until(life)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 600
