"""AMQP values as plain JSON, where libraries differ in how they decode them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from simulator.json_values import plain

DIED = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@pytest.fixture
def east_of_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("east_of_utc")
@pytest.mark.parametrize("moment", [DIED, DIED.replace(tzinfo=None)], ids=["aware", "naive"])
def test_a_timestamp_is_utc_wherever_the_machine_is(moment: datetime) -> None:
    """Until 1.3, pika decodes timestamps without a time zone."""
    assert plain({"x-death": [{"time": moment}]}) == {"x-death": [{"time": DIED.timestamp()}]}
