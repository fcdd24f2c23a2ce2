"""Makes the pictures of docs/page.md: ``python -m tests.browser.screenshots``."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.chromium import colours, size, start
from tests.browser.scene import shop

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
    with shop() as scene, tempfile.TemporaryDirectory() as profile:
        browser = start(Path(profile))
        try:
            browser.get(scene.url.replace("://", "://guest:guest@"))
            for name, query, width, scheme in PICTURES:
                size(browser, width)
                colours(browser, scheme)
                browser.get(scene.url + query)
                WebDriverWait(browser, 20).until(lambda it: it.find_element(By.ID, "state").text == "live")
                (FOLDER / name).write_bytes(_taken(browser))
                print(f"{FOLDER / name}: {(FOLDER / name).stat().st_size / 1_000:.0f} kB")
        finally:
            browser.quit()


def _taken(browser: Chrome) -> bytes:
    """The page as a PNG, also what is below the window, but no more than is looked at."""
    width, height = browser.execute_script("return [innerWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, HIGHEST), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    return base64.b64decode(shot["data"])


if __name__ == "__main__":
    main()
