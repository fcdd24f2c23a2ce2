"""Turns AMQP values into JSON, and JSON values into AMQP's, as RabbitMQ itself does.

* a timestamp is its integer seconds, void is ``"undefined"``;
* bytes that are UTF-8 are a string, others the string ``"Not UTF-8, base64 is: ..."``;
* a decimal of scale 2 and value 12345 is the number 2.12345, as RabbitMQ writes it;
* the names in a table are sorted; canonical JSON has no spaces.

Source: rabbit_misc.erl amqp_table, to_amqp_table; rabbit_mgmt_format.erl.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from dlx.deaths import seconds
from dlx.field_values import Long
from dlx.value_kinds import value_kind

_BASE64_LINE = 76
_PLAIN = frozenset({str, bool, int, float})
_encode = msgspec.json.Encoder(order="deterministic").encode


class NoFieldValueError(ValueError):
    """The JSON value fits in no AMQP field."""


def canonical_json(value: Any) -> str:
    """Encode plain JSON values compactly, with sorted keys."""
    return _encode(value).decode()


def fields_shown(table: Mapping[str, Any]) -> list[str]:
    """Return each field of a table as a person writes it: ``x-match=all``, ``paid=true``."""
    return [f"{name}={each if isinstance(each, str) else canonical_json(plain(each))}" for name, each in table.items()]


def plain(value: Any) -> Any:
    """Turn AMQP values, as the broker or an AMQP library has them, into plain JSON values."""
    if type(value) in _PLAIN:  # mostly
        return value
    if value is None:
        return "undefined"
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)  # libraries have integer types of their own
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return text(value)
    if isinstance(value, dict | Mapping):  # the abstract class alone takes long
        named = {key if isinstance(key, str) else text(key): plain(item) for key, item in value.items()}
        return dict(sorted(named.items()))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return seconds(value)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if value < 0 else 1)
        return decimal_number(-int(exponent), unscaled)
    raise TypeError(f"no JSON form for {value_kind(value)}")


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


def field_value(value: Any) -> Any:
    """Return the field value that RabbitMQ makes of a JSON value: integers become longs, objects sorted tables.

    Raises ``NoFieldValueError`` for null, and for integers beyond 64 bits.
    """
    if value is None:
        raise NoFieldValueError("null_not_allowed")
    if isinstance(value, Mapping):
        return {name: field_value(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [field_value(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise NoFieldValueError(f"expected an integer of 64 bits, got {value}")
        return Long(value)
    return value
