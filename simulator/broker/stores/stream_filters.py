"""Finds the messages that a stream's consumer wants, by its x-stream-filter and x-stream-match-unfiltered.

RabbitMQ leaves out chunks that hold none of the wanted values, and may let one
through by mistake; here every message is a chunk and nothing unwanted comes through.

Source: rabbit_stream_queue.erl filter_spec; osiris_bloom.erl; live servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlx.amqp_errors import internal_error
from dlx.message import Message
from dlx.releases import Release

FILTER = "x-stream-filter"
MATCH_UNFILTERED = "x-stream-match-unfiltered"
VALUE_HEADER = "x-stream-filter-value"
_UNFILTERED = ""

Wanted = frozenset[str]


def wanted(arguments: Mapping[str, Any], release: Release) -> Wanted | None:
    """Return the filter values that a consumer with these arguments wants; ``None`` stands for everything.

    Raises ``Refusal`` for the empty array, of which the server dies.
    """
    given = arguments.get(FILTER)
    if not release.stream_filters or not isinstance(given, str | list | tuple):
        return None
    if not given and not isinstance(given, str):
        raise internal_error()
    values = [given] if isinstance(given, str) else [value for value in given if isinstance(value, str)]
    also = [_UNFILTERED] if arguments.get(MATCH_UNFILTERED) is True else []
    return frozenset(values + also)


def filter_value(message: Message) -> str:
    """Return the value that the publisher gave the message to be filtered by; an empty string if it gave no value."""
    value = (message.headers or {}).get(VALUE_HEADER)
    return value if isinstance(value, str) else _UNFILTERED
