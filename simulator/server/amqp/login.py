"""Reads user and password from a client's SASL response.

Source: rabbit_auth_mechanism_plain.erl, _amqplain.erl, _anonymous.erl.
"""

from __future__ import annotations

from dlx.field_values import Binary
from dlx.releases import Release
from simulator.server.amqp.protocol_errors import MalformedError
from simulator.server.amqp.tables import decode_table

ANONYMOUS = ("guest", "guest")


def credentials(mechanism: str, response: bytes, release: Release) -> tuple[str, str | None] | None:
    """Return user and password from the response of that mechanism; ``None`` if it cannot be read.

    A password of ``None`` is no text, and nobody's.
    """
    if mechanism == "ANONYMOUS":
        return ANONYMOUS
    return _plain(response) if mechanism == "PLAIN" else _amqplain(response, release)


def _plain(response: bytes) -> tuple[str, str] | None:
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        return None
    return _text(parts[1]), _text(parts[2])


def _amqplain(response: bytes, release: Release) -> tuple[str, str | None] | None:
    try:
        table = decode_table(response)
        user, password = table["LOGIN"], table["PASSWORD"]
    except (MalformedError, KeyError):
        return None
    if not isinstance(user, (str, bytes)):
        return None
    if isinstance(password, (str, bytes)):
        both = isinstance(user, Binary) and isinstance(password, Binary)
        return None if both and not release.amqplain_takes_byte_arrays else (_text(user), _text(password))
    return None if isinstance(user, Binary) else (_text(user), None)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="surrogateescape")


def is_loopback(address: str) -> bool:
    """Return whether a numeric address is a loopback address of this machine."""
    return address == "::1" or address.removeprefix("::ffff:").startswith("127.")
