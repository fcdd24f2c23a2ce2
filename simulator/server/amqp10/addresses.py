"""Addresses of AMQP 1.0: which exchange and routing key, or which queue, a link or a message names.

Source: rabbit_amqp_session.erl ensure_source, ensure_target (addresses of version 2).
"""

from __future__ import annotations

from urllib.parse import unquote

from simulator.server.amqp10.errors import LinkFault


def target_of(address: str | None) -> tuple[str | None, str | None]:
    """Return exchange and routing key of a target; no exchange where each message says it. Raises ``LinkFault``."""
    if address is None:
        return None, None
    return _parsed(address)


def address_of_message(to: str | None) -> tuple[str, str]:
    """Return exchange and routing key of the ``to`` of a message. Raises ``LinkFault``."""
    if to is None:
        raise LinkFault("amqp:precondition-failed", "bad 'to' address string: undefined")
    return _parsed(to)


def queue_of(address: str | None) -> str:
    """Return the queue of a source. Raises ``LinkFault``."""
    if address is None or not address.startswith("/queues/"):
        raise _bad(address)
    return unquote(address.removeprefix("/queues/"))


def _parsed(address: str) -> tuple[str, str]:
    kind, _, rest = address.removeprefix("/").partition("/")
    if kind == "queues" and rest and "/" not in rest:
        return "", unquote(rest)
    if kind == "exchanges" and rest and rest.count("/") <= 1:
        exchange, _, key = rest.partition("/")
        return unquote(exchange), unquote(key)
    raise _bad(address)


def _bad(address: str | None) -> LinkFault:
    return LinkFault("amqp:invalid-field", f"Attach refused: {{bad_address,{address}}}")
