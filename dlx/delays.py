"""Delays of the x-delayed-message exchange: which messages it keeps back, for how long, and what it makes of them.

A delayed exchange routes as the type that it names. A message with a delay it keeps, and routes nowhere: it
goes to the alternate exchange or back to its publisher, and once the delay is over to whatever is bound then. By that
time its ``x-delay`` is negative, so that no exchange delays it again.

Source: rabbit_exchange_type_delayed_message.erl, rabbit_delayed_message.erl; live servers of 3.8.9, 3.10.8, 4.0.5 and,
with a start of Mnesia put in place of the plugin's own, 4.3.6. No released version of the plugin starts on 4.3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from dlx.field_values import Long, wire_type
from dlx.message import Message, PublishRefusedError
from dlx.releases import Release
from dlx.server_plugins import DELAYED, PLUGINS
from dlx.topology import Exchange, Policy

X_DELAY = "x-delay"
X_DELAYED_TYPE = "x-delayed-type"
LONGEST_MS = 2**32 - 1

_INTEGER = re.compile(r"[+-]?[0-9]+")


class Delay(msgspec.Struct, frozen=True):
    """A message that an exchange keeps back.

    Attributes:
        exchange: as it was then; it routes the message in the end, even if it has been deleted.
        policy: the policy that it had then.
        delay_ms: for how long.
        message: as it is when the delay is over.
    """

    exchange: Exchange
    policy: Policy | None
    delay_ms: int
    message: Message


def routing_type(exchange: Exchange) -> Any:
    """Return the type that an exchange routes as: a delayed one as the type that it names, whatever that is."""
    named = exchange.arguments.get(X_DELAYED_TYPE) if exchange.type == DELAYED else exchange.type
    return named.decode(errors="surrogateescape") if isinstance(named, bytes) else named


def delay_ms(message: Message, release: Release) -> int:
    """Return for how long a delayed exchange keeps the message, in ms; 0 where it routes the message at once.

    Raises ``PublishRefusedError`` for a header that the exchange fails over.
    """
    headers = message.headers
    if headers is None or X_DELAY not in headers:
        return 0
    delay = _number(headers[X_DELAY], release)
    return delay if 0 < delay <= LONGEST_MS else 0


def _number(value: Any, release: Release) -> int:
    """Return the header's value as a number of ms; 0 for a value of a type that cannot be a delay."""
    kind = wire_type(value)[0]
    if kind in release.delay_kinds_unreadable:
        raise PublishRefusedError(code=541)
    if kind not in release.delay_kinds:
        return 0
    if isinstance(value, str | bytes):
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if not _INTEGER.fullmatch(text):
            raise PublishRefusedError(code=541)
        return int(text)
    return int(value) if math.isfinite(value) else 0


def delayed(message: Message, delay: int, release: Release) -> Message:
    """Return the message as it is when its delay is over, in ms."""
    negative = -delay if release.delay_header_after == "as published" else Long(-delay)
    # A server that has not written the headers anew still has the bytes in which the publisher sent them.
    untouched = release.delay_header_after == "as published" and not message.bcc and message.first_death is None
    return msgspec.structs.replace(
        message,
        headers={**(message.headers or {}), X_DELAY: negative},
        headers_sent=message.headers if untouched else None,
    )


def rewritten(delay: Delay) -> Delay:
    """Return the delay of a message that the server has never had as the bytes of a publisher."""
    return msgspec.structs.replace(delay, message=msgspec.structs.replace(delay.message, headers_sent=None))


def plugin_starts(release: Release) -> bool:
    """Return whether a server of the release starts with a released version of the plugin."""
    return PLUGINS["delayed"].name not in release.plugins_not_released


def delays_text(delays: Iterable[Delay]) -> str:
    """Say which exchanges delay a message."""
    return ", ".join(f"the exchange '{delay.exchange.name}' delays it for {delay.delay_ms:,} ms" for delay in delays)
