"""Chooses messages by an expression: ``reason=rejected``, ``header.tenant!=t1``, ``routing-key~^eu\\.``"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import regex

from simulator.nearest_names import suggestion
from simulator.redrive import groups
from simulator.redrive.waiting import Waiting

_HEADER = "header."
_FIELDS: dict[str, Callable[[Waiting], str]] = {
    "first-death": groups.first_death,
    "path": groups.path,
    "reason": groups.reason,
    "routing-key": groups.routing_key,
    "id": lambda message: message.id,
}
_EXPRESSION = regex.compile(r"(?P<field>[^=!~]+?)(?P<sign>!=|=|~)(?P<value>.*)", regex.DOTALL)


class ExpressionError(ValueError):
    """An expression that cannot be read; the text says what would be right."""


def only(expressions: Sequence[str]) -> Callable[[Waiting], bool]:
    """Return what tells whether all of the expressions hold for a message.

    A FIELD is first-death, path, reason, routing-key, id or header.NAME, with the values that
    ``dlx inspect`` shows; ``=`` and ``!=`` compare texts, ``~`` searches for a regular expression.

    Raises:
        ExpressionError: one of them cannot be read; names the field that comes near.
    """
    conditions = [_condition(text) for text in expressions]
    return lambda message: all(holds(message) for holds in conditions)


def _condition(text: str) -> Callable[[Waiting], bool]:
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        raise ExpressionError(f"{text!r}: expected FIELD=VALUE, FIELD!=VALUE or FIELD~PATTERN, such as reason=rejected")
    told, value = _field(found["field"]), found["value"]
    if found["sign"] == "~":
        try:
            pattern = regex.compile(value)
        except regex.error as error:
            raise ExpressionError(f"{text!r}: {value!r} is no regular expression: {error}") from error
        return lambda message: pattern.search(told(message)) is not None
    wanted = found["sign"] == "="
    return lambda message: (told(message) == value) is wanted


def _field(name: str) -> Callable[[Waiting], str]:
    if name.startswith(_HEADER) and len(name) > len(_HEADER):
        return groups.header(name.removeprefix(_HEADER))
    if name not in _FIELDS:
        raise ExpressionError(f"no field {name!r}; {suggestion(name, [*_FIELDS, 'header.NAME'])}")
    return _FIELDS[name]
