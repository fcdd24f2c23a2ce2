"""Canonical JSON of AMQP values: the same text whichever reader the values came through.

The form is the one in which RabbitMQ itself writes AMQP values as JSON, with
sorted keys and no spaces:

* a timestamp is its integer seconds, void is ``"undefined"``;
* bytes that are UTF-8 are a string, others the string ``"Not UTF-8, base64 is: ..."``;
* a decimal of scale 2 and value 12345 is the number 2.12345, as RabbitMQ writes it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

_BASE64_LINE = 76
_encode = msgspec.json.Encoder(order="deterministic").encode


def canonical_json(value: Any) -> str:
    """Encode plain JSON values compactly, with sorted keys."""
    return _encode(value).decode()


def plain(value: Any) -> Any:
    """Turn what an AMQP library decoded into plain JSON values."""
    if value is None:
        return "undefined"
    if isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return int(value)  # libraries have integer types of their own
    if isinstance(value, bytes):
        return text(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else text(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if value < 0 else 1)
        return decimal_number(-int(exponent), unscaled)
    raise TypeError(f"no JSON form for a {type(value).__name__}")


def text(data: bytes) -> str:
    """Decode UTF-8; other bytes become the string that RabbitMQ writes for them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        encoded = base64.b64encode(data).decode()
        lines = (encoded[at : at + _BASE64_LINE] for at in range(0, len(encoded) + 1, _BASE64_LINE))
        return "Not UTF-8, base64 is: " + "\n".join(lines)


def decimal_number(scale: int, unscaled: int) -> float | str:
    """Write an AMQP decimal as RabbitMQ does; a negative one, which it cannot write, as text."""
    return f"{scale}.{unscaled}" if unscaled < 0 else float(f"{scale}.{unscaled}")
