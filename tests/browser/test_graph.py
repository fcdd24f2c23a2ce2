"""The picture of a topology that is wider than the window: all of it can be scrolled to, on a phone, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from simulator.cli.main import main
from tests.browser.chromium import size

pytestmark = pytest.mark.browser

STAGES = 9
RIGHT = """
    const right = (box) => box.getBoundingClientRect().right;
    return Math.max(...[...document.querySelectorAll(".picture g")].map(right));"""


def chain() -> dict[str, list[dict[str, object]]]:
    """Queues that dead-letter from one to the next."""
    keys = [f"orders.{number}.of-a-long-name" for number in range(STAGES)]
    arguments = [
        {"x-message-ttl": 30_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": key} for key in keys[1:]
    ]
    queues = [
        {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": given}
        for name, given in zip(keys, [*arguments, {}], strict=True)
    ]
    return {"vhosts": [{"name": "/"}], "queues": queues}


@pytest.mark.parametrize("width", [400, 1_400])
def test_all_of_a_wide_picture_can_be_seen(width: int, chromium: Chrome, tmp_path: Path) -> None:
    (tmp_path / "definitions.json").write_text(json.dumps(chain()))
    page = tmp_path / "topology.html"
    assert main(["graph", str(tmp_path / "definitions.json"), "--format", "html", "--out", str(page)]) == 0
    size(chromium, width)
    chromium.get(page.as_uri())
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    assert chromium.execute_script(RIGHT) > width
    chromium.execute_script("document.querySelector('.picture').scrollLeft = 1e6")
    assert chromium.execute_script(RIGHT) < width
    assert "Scroll sideways: the picture is" in page.read_text()
