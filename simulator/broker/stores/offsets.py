"""Where a stream's consumer asks to start: the argument x-stream-offset.

Source: rabbit_stream_queue.erl parse_offset_arg, rabbit_amqqueue.erl check_max_age;
what arguments are refused: ``dlx.argument_values.stream_offset``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from dlx.field_values import Timestamp

_AGE = re.compile(r"(\d+)([YMDhms])(?=\n|\Z)", re.ASCII)  # RabbitMQ does not look behind a line break
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "D": 86_400, "M": 30 * 86_400, "Y": 365 * 86_400}


class Moment(msgspec.Struct, frozen=True):
    """The first message that the stream took at this time or later; ``ms`` since 1970."""

    ms: int


Start = Literal["first", "last", "next"] | int | Moment


def start(argument: Any, now_us: int) -> Start:
    """Return where a consumer with this ``x-stream-offset`` starts; an ``int`` is an offset, no argument is ``next``.

    Raises ``ValueError`` for a value that RabbitMQ refuses.
    """
    match argument:
        case None:
            return "next"
        case "first" | "last" | "next" as name:
            place: Literal["first", "last", "next"] = name
            return place
        case datetime():
            moment = argument if argument.tzinfo else argument.replace(tzinfo=UTC)
            return Moment(int(moment.timestamp()) * 1_000)
        case Timestamp():
            return Moment(argument * 1_000)
        case str():
            return Moment(now_us // 1_000 - age_ms(argument))
        case int() if not isinstance(argument, bool):
            return argument
    raise ValueError(f"no x-stream-offset: {argument!r}")


def age_ms(age: str) -> int:
    """Return the milliseconds of an age such as ``5m``: a number and one of the units Y, M, D, h, m, s.

    Raises ``ValueError`` for any other text.
    """
    found = _AGE.match(age)
    if found is None:
        raise ValueError(f"no age: {age!r}; one is a number and a unit of Y, M, D, h, m, s, such as 5m")
    return int(found[1]) * _SECONDS[found[2]] * 1_000
