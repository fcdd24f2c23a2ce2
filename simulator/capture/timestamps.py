"""Reads timestamps as RabbitMQ's tracing plugin writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Up to RabbitMQ 3.8 the hour is not padded, milliseconds follow a colon, and UTC goes without saying.
_OLD = re.compile(r"(\d{4})-(\d\d?)-(\d\d?) (\d\d?):(\d\d):(\d\d):(\d{3})", re.ASCII)


def parse_timestamp_us(text: str) -> int:
    """Return a trace's timestamp in microseconds since 1970 (UTC).

    It is RFC 3339, or in RabbitMQ 3.8 ``2026-11-21 0:37:00:987``: UTC without saying so.

    Raises:
        ValueError: it is neither.
    """
    try:
        return _parse_us(text)
    except ValueError:
        expected = "expected one such as 2026-11-21T00:37:37.634+00:00"
        raise ValueError(f"timestamp: {expected}, got {text!r:.60}") from None


def _parse_us(text: str) -> int:
    if len(text) == 29 and text[19] == "." and text[20:23].isdecimal():  # the usual form
        return _seconds(text[:19] + text[23:]) * 1_000_000 + int(text[20:23]) * 1000
    if old := _OLD.fullmatch(text):
        year, month, day, hour, minute, second, milliseconds = map(int, old.groups())
        moment = datetime(year, month, day, hour, minute, second, milliseconds * 1000, UTC)
    else:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("no time zone")
    return (moment - _EPOCH) // moment.resolution


@lru_cache(maxsize=1024)  # consecutive records share their second
def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
