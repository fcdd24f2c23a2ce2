"""Debian's Chromium without a window, driven by its driver; it is installed where that is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

INSTALLER = Path(__file__).parents[2] / "tools" / "browser"
_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # containers have little of it
    "--hide-scrollbars",
    # Whatever is not on this machine is refused.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def start(profile: Path) -> Chrome:
    """Start a browser whose profile is the new folder. Raises ``CalledProcessError`` where there can be none."""
    subprocess.run([INSTALLER], check=True)
    options = ChromeOptions()
    options.binary_location = found("chromium")
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options=options, service=Service(found("chromedriver")))


def found(program: str) -> str:
    path = shutil.which(program)
    assert path is not None, f"{INSTALLER} installs {program}"
    return path


def size(browser: Chrome, width: int, height: int = 800) -> None:
    """Make the page so wide and high, in pixels."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def colours(browser: Chrome, scheme: str) -> None:
    """Have the user prefer ``light`` or ``dark`` pages."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
