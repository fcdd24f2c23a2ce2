"""A new user on call: from a lost message to its cause in at most three clicks, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

from tests.browser.chromium import size
from tests.browser.page import Page, looked_at
from tests.browser.scene import Scene, mistakes

pytestmark = pytest.mark.browser


class Trial(NamedTuple):
    """A lost message, the cause that the first page tells, and what its queue's settings say of it.

    Without ``queue`` no queue decided it, and the message's own page has to tell what ``bound`` says.
    """

    message: str
    cause: str
    queue: str = ""
    setting: str = ""
    bound: str = ""


TRIALS = (
    Trial("bill", "rejected: dead-letter exchange 'biils.dlx' of queue 'bills' does not exist", "bills",
          "dead-letter-exchange biils.dlx argument"),
    Trial("misspelt", "No queue was bound for it: it is gone (exchange 'shop' routes key 'bil.eu' to no queue).",
          bound="What is bound to shop now: bill.# → bills."),
    Trial("nowhere", "No queue was bound for it: it is gone",
          bound="there is no queue 'job'; did you mean 'jobs'?"),
    Trial("round", "would return to 'first' without a rejection on the way", "second",
          "dead-letter-routing-key first argument"),
    Trial("poison", "delivery_limit: the queue has no dead-letter exchange", "jobs", "delivery-limit 1 argument"),
    Trial("late", "expired: the queue has no dead-letter exchange", "codes", "message-ttl 5000 5 s argument"),
    Trial("pushed-out", "maxlen: the queue has no dead-letter exchange", "pictures", "max-length 2 argument"),
)  # fmt: skip


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with mistakes() as found:
        yield found


@pytest.fixture
def page(chromium: Chrome, scene: Scene) -> Iterator[Page]:
    with looked_at(chromium, scene.url) as found:
        yield found


@pytest.mark.parametrize("width", [1100, 600])
@pytest.mark.parametrize("trial", TRIALS, ids=[each.message for each in TRIALS])
def test_two_clicks_lead_from_a_lost_message_to_its_cause(page: Page, trial: Trial, width: int) -> None:
    size(page.browser, width)
    assert page.text.startswith("7 messages were lost")
    assert trial.cause in page.text
    page.link(trial.message).click()
    page.wait_for("Its life")
    assert page.find("h1").text == trial.message
    assert "Lost. " in page.text
    if trial.queue:
        page.find("#message").find_element(By.LINK_TEXT, trial.queue).click()
        page.wait_for("Settings")
        assert trial.setting in [row.text for row in page.browser.find_elements(By.CSS_SELECTOR, "#settings tbody tr")]
    else:
        assert trial.bound in page.find("#message").text
    assert page.browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_leads_there_as_well(page: Page) -> None:
    def go_to(text: str) -> None:
        for _ in range(40):
            page.press(Keys.TAB)
            if page.focused.text == text:
                page.press(Keys.ENTER)
                return
        raise AssertionError(f"{text!r} cannot be reached")

    go_to("late")
    page.wait_for("Its life")
    go_to("codes")
    page.wait_for("Settings")
    assert "message-ttl 5000 5 s argument" in [
        row.text for row in page.browser.find_elements(By.CSS_SELECTOR, "#settings tbody tr")
    ]
