"""Makes the pictures of docs/how-to/page.md and docs/how-to/replay.md: ``python -m tests.browser.screenshots``."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.chromium import colours, size, start
from tests.browser.scene import report_of_the_example, shop

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
HIGHEST = 1_150
# Name of the file, what is looked at, width in pixels, colours.
PICTURES = (
    ("page-losses.png", "", 1000, "light"),
    ("page-queue.png", "?vhost=%2F&queue=orders", 1000, "light"),
    ("page-message.png", "?message=4", 1000, "light"),
    ("page-narrow-dark.png", "?message=1", 600, "dark"),
)


def main() -> None:
    """Write each picture, and say how large it is."""
    with tempfile.TemporaryDirectory() as profile:
        browser = start(Path(profile))
        try:
            _page(browser)
            _report(browser)
        finally:
            browser.quit()


def _page(browser: Chrome) -> None:
    with shop() as scene:
        browser.get(scene.url.replace("://", "://guest:guest@"))
        for name, query, width, scheme in PICTURES:
            size(browser, width)
            colours(browser, scheme)
            browser.get(scene.url + query)
            WebDriverWait(browser, 20).until(lambda it: it.find_element(By.ID, "state").text == "live")
            _keep(browser, name, HIGHEST)


def _report(browser: Chrome) -> None:
    """Take the top of the report on the captured example of 4.3."""
    size(browser, 1000)
    colours(browser, "light")
    with tempfile.TemporaryDirectory() as out:
        browser.get(report_of_the_example(Path(out)).as_uri())
        WebDriverWait(browser, 20).until(lambda it: it.find_elements(By.CSS_SELECTOR, "#hits button"))
        _keep(browser, "replay-report.png", 780)


def _keep(browser: Chrome, name: str, highest: int) -> None:
    (FOLDER / name).write_bytes(_taken(browser, highest))
    print(f"{FOLDER / name}: {(FOLDER / name).stat().st_size / 1_000:.0f} kB")


def _taken(browser: Chrome, highest: int) -> bytes:
    """The page as a PNG, also what is below the window, but no more than is looked at."""
    width, height = browser.execute_script("return [innerWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, highest), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    return base64.b64decode(shot["data"])


if __name__ == "__main__":
    main()
