"""Timestamps of all releases."""

from __future__ import annotations

import pytest

from simulator.capture.trace_logs import parse_timestamp_us

MOMENT_US = 1_795_221_420_987_000


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T00:37:00.987+00:00",
        "2026-11-21T09:37:00.987+09:00",  # the zone of the server
        "2026-11-20T20:07:00.987-04:30",
        "2026-11-21T00:37:00.987Z",
        "2026-11-21T00:37:00.987000+00:00",
        "2026-11-21 0:37:00:987",  # RabbitMQ 3.8
    ],
)
def test_all_forms_name_the_same_moment(text: str) -> None:
    assert parse_timestamp_us(text) == MOMENT_US


@pytest.mark.parametrize(
    "text", ["", "now", "2026-11-21T00:37:00.987", "2026-13-21 0:37:00:987", "2026-11-21T00:61:00.987+00:00"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="timestamp: expected one such as 2026-11-21T00:37:37"):
        parse_timestamp_us(text)
