"""The page of a server in a real browser: followed, clicked, typed at, made narrow, and cut off from the network."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

import simulator
from tests.browser.chromium import colours, size
from tests.browser.page import Page, looked_at
from tests.browser.scene import Scene, shop

pytestmark = pytest.mark.browser

LONG = "a-name-that-is-as-long-as-a-name-may-be-" * 6
HOSTILE = "<img src=x onerror=alert(1)>"
# The least contrast between any text and what is behind it (WCAG 2, 1.4.3), with the text.
CONTRAST = """
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const solid = (colour) => colour.length < 4 || colour[3] > 0;
const behind = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = numbers(getComputedStyle(each).backgroundColor);
    if (solid(colour)) return colour;
  }
  return [255, 255, 255];
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.checkVisibility()) continue;
  const style = getComputedStyle(element), back = behind(element), inSvg = element.closest("svg");
  const alpha = Number(style.opacity);
  const front = numbers(inSvg ? style.fill : style.color).slice(0, 3).map((v, i) => v * alpha + back[i] * (1 - alpha));
  const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), element.textContent.trim().slice(0, 40)]);
}
return found.sort((x, y) => x[0] - y[0])[0];
"""


@pytest.fixture
def scene() -> Iterator[Scene]:
    with shop() as found:
        yield found


@pytest.fixture
def page(chromium: Chrome, scene: Scene) -> Iterator[Page]:
    with looked_at(chromium, scene.url) as found:
        yield found


def test_three_clicks_lead_from_a_lost_message_to_its_cause(page: Page) -> None:
    assert page.text.startswith("4 messages were lost")
    page.link("bill-3").click()
    page.wait_for("Its life")
    assert "Lost. It was dropped: it died in the queue 'bills' (expired)" in page.text
    page.find("#message").find_element(By.LINK_TEXT, "bills").click()
    page.wait_for("Settings")
    row = page.find("#settings tbody tr")
    assert row.text == "dead-letter-exchange biils.dlx argument"


def test_what_is_published_appears_without_a_reload(page: Page, scene: Scene) -> None:
    page.browser.execute_script("window.here = true")
    page.link("parking").send_keys("")
    page.browser.execute_script("arguments[0].focus()", page.link("parking"))
    scene.publish("", "parking", "once more")
    page.wait(lambda: "13" in page.find("#queues-0").text)
    scene.declare("new", message_ttl=1_000)
    page.wait_for("new")
    assert page.browser.execute_script("return window.here") is True
    assert page.focused.text == "parking"


def test_what_was_scrolled_stays_so(page: Page, scene: Scene) -> None:
    size(page.browser, 360)
    table = "document.querySelector('#queues-0 .scroll')"
    page.browser.execute_script(f"{table}.scrollTo(40, 0)")
    scene.publish("", "parking", "once more")
    page.wait(lambda: "13" in page.find("#queues-0").text)
    assert page.browser.execute_script(f"return {table}.scrollLeft") == 40


def test_a_message_is_followed_while_it_lives(page: Page, scene: Scene) -> None:
    page.open("?message=7")
    assert "It is in the queue 'orders'" in page.text
    scene.reject("orders")
    page.wait_for("It entered the queue 'orders.wait'.")
    assert "4: " not in page.find("#way").text
    scene.server.clock.advance(seconds=30)
    page.wait_for("Its time to live ran out in the queue 'orders.wait'.")


def test_buttons_move_the_clock(page: Page, scene: Scene) -> None:
    assert page.find("#now").text == "2026-01-05 09:01:02 UTC virtual time"
    second, minute, deadline = page.browser.find_elements(By.CSS_SELECTOR, "[data-advance]")
    second.click()
    page.wait(lambda: "09:01:03" in page.find("#now").text)
    minute.click()
    page.wait(lambda: "09:02:03" in page.find("#now").text)
    scene.declare("soon", message_ttl=5_000, dead_letter_exchange="gone")
    scene.publish("", "soon", "")
    deadline.click()
    page.wait_for("5 messages were lost")
    assert "09:02:08" in page.find("#now").text


def test_it_is_usable_by_keyboard(page: Page) -> None:
    page.press(Keys.TAB)
    assert page.focused.text == "Skip to the content"
    page.press(Keys.ENTER, Keys.TAB)
    assert page.focused.text == "bills"
    page.press("/")
    assert page.focused.get_attribute("id") == "find"
    page.press("bill-2", Keys.ENTER)
    page.wait_for("Lost. It was dropped")
    assert page.find("h1").text == "bill-2"
    for _ in range(30):
        page.press(Keys.TAB)
        if page.focused.text == "+1 min":
            break
    assert page.browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press(Keys.ENTER)
    page.wait(lambda: "09:02:02" in page.find("#now").text)
    assert page.focused.text == "+1 min"


PAGES = (
    "",
    "?vhost=%2F&queue=orders",
    "?vhost=%2F&queue=bills",
    "?message=1",
    "?message=4",
    "?find=o",
    f"?find={LONG}",
)


@pytest.mark.parametrize("width", [600, 360])
def test_nothing_is_wider_than_a_narrow_window(page: Page, scene: Scene, width: int) -> None:
    scene.declare(LONG, dead_letter_exchange=LONG)
    scene.publish("", LONG, "x" * 500, LONG, **{LONG[:100]: LONG})
    size(page.browser, width)
    for query in (*PAGES, f"?vhost=%2F&queue={LONG}"):
        page.open(query)
        assert page.browser.execute_script("return document.documentElement.scrollWidth") <= width, query
    page.open()
    assert page.link("bills").is_displayed()
    assert page.find("[data-advance]").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(page: Page, scheme: str) -> None:
    colours(page.browser, scheme)
    for query in PAGES:
        page.open(query)
        contrast, text = page.browser.execute_script(CONTRAST)
        assert contrast >= 4.5, (query, text)


def test_texts_of_others_are_text(page: Page, scene: Scene) -> None:
    scene.declare(HOSTILE, dead_letter_exchange=HOSTILE)
    scene.publish("", HOSTILE, HOSTILE, HOSTILE, **{HOSTILE: HOSTILE})
    page.wait_for(HOSTILE)
    page.link(HOSTILE).click()
    page.wait_for("Settings")
    assert page.find("h1").text == HOSTILE
    page.link(HOSTILE).click()
    page.wait_for("What is in it")
    assert page.text.count(HOSTILE) >= 5
    assert page.browser.find_elements(By.TAG_NAME, "img") == []


def test_a_server_that_is_gone_is_said_to_be(page: Page, scene: Scene) -> None:
    scene.server.stop()
    page.wait(lambda: page.find("#state").text == "not connected")
    assert "4 messages were lost" in page.text
    leave(page)


def test_a_server_that_comes_back_is_followed_again(page: Page, scene: Scene) -> None:
    scene.server.stop()
    page.wait(lambda: page.find("#state").text == "not connected")
    with simulator.serve("4.3", management_port=urlsplit(scene.url).port) as again:
        page.wait_for("No message was lost")
        assert page.find("#state").text == "live"
        assert again.management_url == scene.url
        leave(page)


def leave(page: Page) -> None:
    """Leave a page whose server was gone: nothing but that was complained about."""
    page.browser.get("about:blank")
    told = page.browser.get_log("browser")
    assert all("page/changes" in each["message"] for each in told)
