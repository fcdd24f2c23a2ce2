"""What the parts of a selector come to for a message: headers, comparisons, sums, and the logic of three values.

Values are texts, numbers, truth values, and ``None`` for what is unknown. A broker's
logic is not that of JMS in some points: values of two types are unequal and not
unknown, and of two operands only the left one makes a comparison unknown.

Source: activemq-client, ComparisonExpression, ArithmeticExpression, UnaryExpression, PropertyExpression.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from simulator.systems.activemq.messages import Message

Value = Callable[[Message], Any]
"""What a part of a selector comes to for a message."""

_HEADERS: dict[str, Value] = {
    "JMSMessageID": lambda message: message.message_id,
    "JMSPriority": lambda message: message.priority,
    "JMSTimestamp": lambda message: message.timestamp_ms,
    "JMSExpiration": lambda message: message.expiration_ms,
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSDestination": lambda message: str(message.original_destination or message.destination),
    "JMSRedelivered": lambda message: message.redelivery_counter > 0,
    "JMSXDeliveryCount": lambda message: message.redelivery_counter + 1,
    "JMSXGroupSeq": lambda message: message.properties.get("JMSXGroupSeq", 0),
    "JMSXGroupFirstForConsumer": lambda message: False,
}
_ORDERS: dict[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
COMPARISONS = tuple(_ORDERS)


class EvaluationError(ValueError):
    """A sum of what cannot be added, or the like, on which a broker fails."""


def named(name: str) -> Value:
    """Return the value of a header, or of a property."""
    return _HEADERS.get(name, lambda message: message.properties.get(name))


def equal(left: Value, right: Value, *, converts: bool = False) -> Value:
    """Return whether two values are the same; unknown where only the left one is.

    ``converts``: whether a text is read as what it is compared with.
    """

    def compare(message: Message) -> bool | None:
        one, other = left(message), right(message)
        if one is None or other is None:
            return None if one is None and other is not None else one is other
        return _order(one, other, converts=converts) == 0

    return compare


def ordered(left: Value, sign: str, right: Value, *, converts: bool = False) -> Value:
    """Return whether one value is before, or behind, another; unknown where one is. ``converts`` as in ``equal``."""

    def compare(message: Message) -> bool | None:
        one = left(message)
        other = None if one is None else right(message)
        if other is None:
            return None
        order = _order(one, other, converts=converts)
        return order is not None and _ORDERS[sign](order)

    return compare


def among(left: Value, texts: list[str]) -> Value:
    """Return whether a text is one of these; unknown for anything but text."""
    return lambda message: found in texts if isinstance(found := left(message), str) else None


def like(left: Value, pattern: str, escape: str) -> Value:
    """Return whether a text is as the pattern: ``%`` is any text and ``_`` any character."""
    compiled = _pattern(pattern, escape)

    def compare(message: Message) -> bool | None:
        found = left(message)
        return None if found is None else isinstance(found, str) and compiled.fullmatch(found) is not None

    return compare


def truth(value: Value) -> Value:
    """Return a property as a truth value, which one of another type is not."""
    return lambda message: None if (found := value(message)) is None else found is True


def both(left: Value, right: Value) -> Value:
    """Return AND."""
    return _decided_by(left, right, decisive=False)


def either(left: Value, right: Value) -> Value:
    """Return OR."""
    return _decided_by(left, right, decisive=True)


def _decided_by(left: Value, right: Value, *, decisive: bool) -> Value:
    """Return this truth value where one of two has it, else unknown where one is unknown, else the other value."""

    def evaluate(message: Message) -> Any:
        one = left(message)
        if one is decisive:
            return decisive
        other = right(message)
        if other is decisive:
            return decisive
        return None if one is None or other is None else not decisive

    return evaluate


def negated(value: Value) -> Value:
    """Return NOT."""
    return lambda message: None if (found := value(message)) is None else not found


def minus(value: Value) -> Value:
    """Return a number with the other sign; unknown for anything but a number."""

    def evaluate(message: Message) -> Any:
        found = value(message)
        if isinstance(found, Decimal) and int(found) == 2**63:
            return -(2**63)
        return -found if _is_number(found) else None

    return evaluate


def counted(left: Value, sign: str, right: Value) -> Value:
    """Return a sum, a product or the like. ``+`` joins texts. Evaluating it raises ``EvaluationError``."""

    def evaluate(message: Message) -> Any:
        one = left(message)
        other = None if one is None else right(message)
        if other is None:
            return None
        if isinstance(one, str) and sign == "+":
            return one + (str(other).lower() if isinstance(other, bool) else str(other))
        if not _is_number(one) or not _is_number(other):
            raise EvaluationError(f"'{one}' {sign} '{other}'")
        return _COUNTS[sign](*(float(each) if isinstance(each, Decimal) else each for each in (one, other)))

    return evaluate


def _divided(one: Any, other: Any) -> float:
    if other:
        return float(one) / float(other)
    return math.copysign(math.inf, one) * math.copysign(1, other) if one else math.nan


_COUNTS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": _divided,
    "%": lambda one, other: math.fmod(one, other) if other else math.nan,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _order(one: Any, other: Any, *, converts: bool = False) -> int | None:
    """Return below 0, 0 or above 0; ``None`` for values of two types, and for one beyond 64 bits, which has its own."""
    if converts and isinstance(one, str) != isinstance(other, str):
        one, other = (_as_one_of(other, one), other) if isinstance(one, str) else (one, _as_one_of(one, other))
    types = [float if type(each) is int else type(each) for each in (one, other)]
    if types[0] is not types[1]:
        return None
    if types[0] is float and (one != one or other != other):
        return int(one != one) - int(other != other)  # as Java orders them: values other than numbers come last
    return int(one > other) - int(one < other)


def _as_one_of(kind: Any, text: str) -> Any:
    """Return what a text says as a value of the same type as another one; the text where it is none."""
    if isinstance(kind, bool):
        return text.lower() == "true"
    form, read = (_WHOLE, int) if isinstance(kind, int) else (_DECIMAL, float)
    return read(text) if form.fullmatch(text) else text


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")


def _pattern(text: str, escape: str) -> re.Pattern[str]:
    parts, at = [], 0
    while at < len(text):
        if escape and text[at] == escape and text[at + 1 : at + 2] in ("%", "_", escape):
            parts.append(re.escape(text[at + 1]))
            at += 2
            continue
        parts.append({"%": ".*", "_": "."}.get(text[at], re.escape(text[at])))
        at += 1
    return re.compile("".join(parts), re.DOTALL)
