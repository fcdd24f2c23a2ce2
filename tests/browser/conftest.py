"""What the browser tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from tests.browser.chromium import start


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser with a profile of its own."""
    browser = start(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()
