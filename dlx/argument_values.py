"""Check the values that queues and consumers have in their arguments.

Each check takes the value, all arguments and the release. It returns ``None`` for a good
value, otherwise the Erlang term with which RabbitMQ's error text says what is wrong. It
raises ``Refusal`` where the check itself fails on a server with an internal error.

Source: rabbit_amqqueue.erl declare_args, consume_args and the checks there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from dlx.amqp_errors import client_characters, explained, internal_error
from dlx.erlang_printing import Atom, field_term
from dlx.field_values import type_name
from dlx.releases import Release
from dlx.settings import OVERFLOWS, STRATEGIES
from dlx.topology import Arguments

Check = Callable[[Any, Arguments, Release], Any]

LINE = 255  # the columns in which RabbitMQ prints the term that says what is wrong
_INTEGERS = frozenset({"byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint"})
_AGE = re.compile(r"([0-9]*)([^\n]*)")
_DAY_MS = 24 * 3_600_000
_AGE_UNITS_MS = {"Y": 365 * _DAY_MS, "M": 30 * _DAY_MS, "D": _DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1_000}
LOCATION_STRATEGIES = ("min-masters", "client-local", "random")
"""The strategies to choose a node for a classic queue, where a master locator is a strategy."""
_NAMED_OFFSETS = ("first", "last", "next")
_NAMED_OFFSETS_IN_BYTES = tuple(name.encode() for name in _NAMED_OFFSETS)
_MAX_PRIORITY = 255


def integer(value: Any, _arguments: Arguments, release: Release) -> Any:
    """Check that the value has one of AMQP's integer types."""
    kind = type_name(value)
    if kind in _INTEGERS:
        return None
    if release.argument_errors == "terms":
        return _unacceptable(value)
    return _string(f"expected integer, got {kind}")


def not_negative(value: Any, arguments: Arguments, release: Release) -> Any:
    wrong = integer(value, arguments, release)
    if wrong is None and value < 0:
        return Atom("value_negative"), int(value)
    return wrong


def positive(value: Any, arguments: Arguments, release: Release) -> Any:
    wrong = not_negative(value, arguments, release)
    return (Atom("value_zero"), 0) if wrong is None and value == 0 else wrong


def message_ttl(value: Any, arguments: Arguments, release: Release) -> Any:
    """Check that the value is a number of ms, 0 or more, and at most ten years where the release has that limit."""
    wrong = not_negative(value, arguments, release)
    longest = release.expiration_max_ms
    if wrong is None and longest is not None and value > longest:
        return Atom("value_too_large"), int(value)
    return wrong


def expires(value: Any, arguments: Arguments, release: Release) -> Any:
    """Check as ``message_ttl`` does, and that the value is not 0."""
    wrong = message_ttl(value, arguments, release)
    return (Atom("value_zero"), 0) if wrong is None and value == 0 else wrong


def max_priority(value: Any, arguments: Arguments, release: Release) -> Any:
    wrong = not_negative(value, arguments, release)
    return (Atom("max_value_exceeded"), int(value)) if wrong is None and value > _MAX_PRIORITY else wrong


def boolean(value: Any, _arguments: Arguments, _release: Release) -> Any:
    return None if isinstance(value, bool) else _unacceptable(value)


def string(value: Any, _arguments: Arguments, _release: Release) -> Any:
    return None if type_name(value) == "longstr" else _unacceptable(value)


def dead_letter_routing_key(value: Any, arguments: Arguments, release: Release) -> Any:
    """Check that the value is a string and that the arguments name a dead-letter exchange, too."""
    wrong = string(value, arguments, release)
    if wrong is None and "x-dead-letter-exchange" not in arguments:
        return Atom("routing_key_but_no_dlx_defined")
    return wrong


def dead_letter_strategy(value: Any, _arguments: Arguments, _release: Release) -> Any:
    return _one_of(STRATEGIES, value, Atom("invalid_dlx_strategy"))


def overflow(value: Any, _arguments: Arguments, _release: Release) -> Any:
    return _one_of(OVERFLOWS, value, Atom("invalid_overflow"))


def leader_locator(value: Any, _arguments: Arguments, release: Release) -> Any:
    return _one_of(release.leader_locators, value, Atom("invalid_queue_locator_arg"))


def is_location_strategy(value: Any) -> bool:
    """Return whether a string or a byte array names a strategy of ``LOCATION_STRATEGIES``."""
    return field_term(value) in [name.encode() for name in LOCATION_STRATEGIES]


def queue_mode(value: Any, _arguments: Arguments, release: Release) -> Any:
    """Check that the value is a mode of classic queues; accept anything in releases that have no modes."""
    if not release.queue_mode_checked:
        return None
    return _one_of(("default", "lazy"), value, _unsupported("queue mode", value, release))


def queue_type(value: Any, _arguments: Arguments, release: Release) -> Any:
    known = release.queue_types | release.queue_types_meaning_default
    return _one_of(known, value, _unsupported("queue type", value, release))


def queue_version(value: Any, arguments: Arguments, release: Release) -> Any:
    wrong = not_negative(value, arguments, release)
    if wrong is None and value not in release.queue_versions:
        return _string(f"unsupported queue version '{int(value)}'")
    return wrong


def max_age(value: Any, arguments: Arguments, release: Release) -> Any:
    """Check that the value is a number followed by one of the units Y, M, D, h, m, s."""
    wrong = string(value, arguments, release)
    if wrong is None and age_ms(value, release) is None:
        return Atom("invalid_max_age")
    return wrong


def age_ms(value: str | bytes, release: Release) -> int | None:
    """Return an age in ms, written as a number above 0 and a unit; ``None`` for anything else.

    RabbitMQ ignores everything after a line break.
    """
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    number, unit = _AGE.match(text).groups()  # type: ignore[union-attr]
    if not number and release.non_numeric_max_age == "internal error":
        raise internal_error()
    if not number or int(number) == 0 or unit not in _AGE_UNITS_MS:
        return None
    return int(number) * _AGE_UNITS_MS[unit]


def stream_offset(value: Any, _arguments: Arguments, release: Release) -> Any:
    """Check that a string is ``first``, ``last``, ``next`` or an age."""
    if type_name(value) != "longstr" or value in _NAMED_OFFSETS or age_ms(value, release) is not None:
        return None
    return Atom("invalid_stream_offset_arg"), (Atom("longstr"), field_term(value))


def is_stream_offset(value: Any) -> bool:
    """Return whether a stream can start at such a value: a number, a time or a named offset."""
    kind = type_name(value)
    return kind in _INTEGERS or kind in ("longstr", "timestamp") or field_term(value) in _NAMED_OFFSETS_IN_BYTES


_IN_WORDS = {
    "value_negative": "{} is less than 0",
    "value_zero": "it is 0, and must be more",
    "value_too_large": "{} ms is more than ten years",
    "max_value_exceeded": f"{{}} is more than {_MAX_PRIORITY}",
    "unacceptable_type": "{} does not fit",
    "routing_key_but_no_dlx_defined": "it needs an x-dead-letter-exchange",
    "invalid_dlx_strategy": f"expected {' or '.join(STRATEGIES)}",
    "invalid_overflow": f"expected {' or '.join(OVERFLOWS)}",
    "invalid_queue_locator_arg": "unknown leader locator",
    "invalid_queue_mode": "expected default or lazy",
    "invalid_queue_type": "unknown queue type",
    "invalid_max_age": "expected a number above 0 and one of the units Y, M, D, h, m and s, such as 7D",
}


_KINDS = {
    "longstr": "a string",
    "bool": "true or false",
    "array": "a list",
    "table": "an object",
    "double": "a number with a fraction",
}


def wrong_values(checks: Iterable[tuple[str, Check]], arguments: Arguments, where: str, release: Release) -> list[str]:
    """Return what is wrong with the values of arguments, in the words of a shovel's definition from 4.3 on."""
    found = ((key, check(arguments[key], arguments, release)) for key, check in checks if key in arguments)
    starts = ((f"invalid arg '{key}' in {where}: ", why) for key, why in found if why is not None)
    return [explained(start, why, release, LINE) for start, why in starts]


def in_words(wrong: Any) -> str:
    """Return what a check has found wrong with an argument of a queue, for a person."""
    if isinstance(wrong, list):
        return "".join(map(chr, wrong))
    name, value = wrong if isinstance(wrong, tuple) else (wrong, "")
    kind = "an integer" if value in _INTEGERS else _KINDS.get(value, value)
    return _IN_WORDS[str(name)].format(kind)


def _one_of(known: Any, value: Any, otherwise: Any) -> Any:
    if type_name(value) != "longstr":
        return _unacceptable(value)
    return None if value in known else otherwise


def _unacceptable(value: Any) -> Any:
    return Atom("unacceptable_type"), Atom(type_name(value))


def _unsupported(what: str, value: Any, release: Release) -> Any:
    if release.argument_errors == "terms":
        return Atom("invalid_" + what.replace(" ", "_"))
    shown = client_characters(value, release) if isinstance(value, str | bytes) else value
    return _string(f"unsupported {what} '{shown}'")


def _string(text: str) -> list[int]:
    """Return the text as an Erlang string, a list of code points."""
    return list(map(ord, text))
