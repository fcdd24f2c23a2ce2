"""Lint finds nothing in the configuration that comes with ActiveMQ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.systems.activemq.lint import lint
from tests.systems.activemq.live.player import Player

SHIPPED = Path("/etc/activemq/instances-available/main/activemq.xml")

pytestmark = pytest.mark.live


def check(player: Player) -> None:
    """Lint the file of Debian's package, which is there where a broker plays."""
    assert lint(SHIPPED.read_bytes()).findings == ()


def test_the_configuration_of_the_package_has_no_finding(checked: Callable[[], None]) -> None:
    checked()
