"""Reads user and password from a client's SASL response.

Source: rabbit_auth_mechanism_plain.erl, _amqplain.erl, _anonymous.erl.
"""

from __future__ import annotations

from simulator.server.amqp.protocol_errors import MalformedError
from simulator.server.amqp.tables import decode_table

ANONYMOUS = ("guest", "guest")


def credentials(mechanism: str, response: bytes) -> tuple[str, str] | None:
    """Return user and password from the response of that mechanism; ``None`` if it cannot be read."""
    if mechanism == "ANONYMOUS":
        return ANONYMOUS
    return _plain(response) if mechanism == "PLAIN" else _amqplain(response)


def _plain(response: bytes) -> tuple[str, str] | None:
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        return None
    return _text(parts[1]), _text(parts[2])


def _amqplain(response: bytes) -> tuple[str, str] | None:
    try:
        table = decode_table(response)
    except MalformedError:
        return None
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(user, (str, bytes)) or not isinstance(password, (str, bytes)):
        return None
    return _text(user), _text(password)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="surrogateescape")


def is_loopback(address: str) -> bool:
    """Return whether a numeric address is a loopback address of this machine."""
    return address == "::1" or address.removeprefix("::ffff:").startswith("127.")
