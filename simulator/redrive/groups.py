"""Groups of messages of a dead-letter queue: what died, where, why, how often; and the choice of some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import regex

from dlx.nearest_names import NEAREST_MAX, nearest, suggestion
from simulator.json_values import canonical_json
from simulator.redrive.waiting import WaitingMessage

NEVER_DIED = "never died"
NO_TIME = "no time"
_AGES = ((60, "under a minute"), (3_600, "under an hour"), (86_400, "under a day"), (7 * 86_400, "under a week"))
_OLDER = "a week or more"
VALUES_SHOWN_MAX = 5
"""More values of a field are counted."""


class MessageGroup(msgspec.Struct, frozen=True):
    """Messages that have something in common.

    Attributes:
        value: what they have in common.
        messages: how many there are.
        oldest, newest: when the first and the last of them first died; ``None`` where no header says.
        example: the id of the one that is nearest to the head of the queue.
    """

    value: str
    messages: int
    oldest: datetime | None
    newest: datetime | None
    example: str

    def as_json(self) -> dict[str, Any]:
        """Return the group as plain JSON values."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        return told


def first_death(message: WaitingMessage) -> str:
    """Return where and why the message first died."""
    first = message.deaths.first
    return f"{first.queue} {first.reason}" if first else NEVER_DIED


def path(message: WaitingMessage) -> str:
    """Return all deaths, the oldest entry first."""
    return message.deaths.path or NEVER_DIED


def reason(message: WaitingMessage) -> str:
    """Return why the message died last, which brought it here."""
    last = message.deaths.last
    return last.reason if last else NEVER_DIED


def routing_key(message: WaitingMessage) -> str:
    """Return the key that the message was published with, as far as its deaths show it, or else its own."""
    first = message.first_entry
    keys = first.routing_keys if first is not None and first.routing_keys else message.row.routing_keys
    return keys[0] if keys else ""


def age(now: datetime) -> Callable[[WaitingMessage], str]:
    """Return a function that returns how long ago a message first died."""

    def told(message: WaitingMessage) -> str:
        died = message.first_died_at
        if died is None:
            return NO_TIME if message.deaths else NEVER_DIED
        seconds = (now - died).total_seconds()
        return next((name for below, name in _AGES if seconds < below), _OLDER)

    return told


def header(name: str) -> Callable[[WaitingMessage], str]:
    """Return a function that returns the value of a header; JSON text if it is not a string."""

    def told(message: WaitingMessage) -> str:
        if name not in message.headers:
            return f"no {name}"
        value = message.headers[name]
        return value if isinstance(value, str) else canonical_json(value)

    return told


def groupings(now: datetime, headers: Sequence[str] = ()) -> dict[str, Callable[[WaitingMessage], str]]:
    """Return by what messages are put into groups, in the order in which people ask."""
    found: dict[str, Callable[[WaitingMessage], str]] = {
        "first death": first_death,
        "path": path,
        "reason": reason,
        "routing key": routing_key,
        "age": age(now),
    }
    return found | {f"header {name}": header(name) for name in headers}


def grouped(messages: Iterable[WaitingMessage], told: Callable[[WaitingMessage], str]) -> list[MessageGroup]:
    """Return the groups, the largest first; of equally large ones, the one nearest to the head of the queue."""
    members: dict[str, list[WaitingMessage]] = {}
    for message in messages:
        members.setdefault(told(message), []).append(message)
    found = [_group(value, each) for value, each in members.items()]
    return sorted(found, key=lambda group: -group.messages)


def all_groups(messages: Sequence[WaitingMessage], headers: Sequence[str] = ()) -> Mapping[str, list[MessageGroup]]:
    """Return the groups of each grouping, by its name."""
    return {name: grouped(messages, told) for name, told in groupings(datetime.now(UTC), headers).items()}


def _group(value: str, members: Sequence[WaitingMessage]) -> MessageGroup:
    times = [message.first_died_at for message in members if message.first_died_at is not None]
    return MessageGroup(value, len(members), min(times, default=None), max(times, default=None), members[0].id)


# Chooses messages by an expression: ``reason=rejected``, ``header.tenant!=t1``, ``routing-key~^eu\.``


_HEADER = "header."
_FIELDS: dict[str, Callable[[WaitingMessage], str]] = {
    "first-death": first_death,
    "path": path,
    "reason": reason,
    "routing-key": routing_key,
    "id": lambda message: message.id,
}
_EXPRESSION = regex.compile(r"(?P<field>[^=!~]+?)(?P<sign>!=|=|~)(?P<value>.*)", regex.DOTALL)


class ExpressionError(ValueError):
    """An expression that cannot be read; the text says what would be right."""


class Selection:
    """Chooses messages by expressions, all of which have to hold, and counts what it has seen.

    A FIELD is first-death, path, reason, routing-key, id or header.NAME, with the values that
    ``dlx inspect`` shows; ``=`` and ``!=`` compare texts, ``~`` searches for a regular expression.

    Raises:
        ExpressionError: one of them cannot be read; names the field that comes near.
    """

    def __init__(self, expressions: Sequence[str]) -> None:
        self._conditions = [_Condition(text) for text in expressions]
        self._seen = self._chosen = 0

    def __call__(self, message: WaitingMessage) -> bool:
        """Return whether all of the expressions hold for a message."""
        held = [condition.holds(message) for condition in self._conditions]  # each has to see the message
        holds = all(held)
        self._seen += 1
        self._chosen += holds
        return holds

    @property
    def why_none(self) -> str:
        """Say what there is, if none of the messages was chosen; empty if one was, or there was no message."""
        if self._chosen or not self._seen:
            return ""
        said = [condition.what_there_is for condition in self._conditions if not condition.held]
        if not said:
            each = ", ".join(f"{condition.text} ({condition.held:,})" for condition in self._conditions)
            said = [f"none fits all expressions together: {each}"]
        return f"--only chose none of {self._seen:,} messages: {'; '.join(said)}"


class _Condition:
    """One expression, the values that its field had, and for how many messages it held."""

    def __init__(self, text: str) -> None:
        found = _EXPRESSION.fullmatch(text)
        if found is None:
            expected = "expected FIELD=VALUE, FIELD!=VALUE or FIELD~PATTERN, such as reason=rejected"
            raise ExpressionError(f"{text!r}: {expected}")
        self.text, self.held = text, 0
        self._name, self._sign, self._value = found["field"], found["sign"], found["value"]
        self._told = _field(self._name)
        self._values = Counter[str]()
        if self._sign == "~":
            try:
                self._pattern = regex.compile(self._value)
            except regex.error as error:
                problem = f"{self._value!r} is not a regular expression: {error}"
                raise ExpressionError(f"{text!r}: {problem}") from error

    def holds(self, message: WaitingMessage) -> bool:
        value = self._told(message)
        self._values[value] += 1
        if self._sign == "~":
            holds = self._pattern.search(value) is not None
        else:
            holds = (value == self._value) is (self._sign == "=")
        self.held += holds
        return holds

    @property
    def what_there_is(self) -> str:
        """Say which values there are, the most frequent first, and which comes near."""
        shown = ", ".join(f"{value!r} ({count:,})" for value, count in self._values.most_common(VALUES_SHOWN_MAX))
        more = len(self._values) - VALUES_SHOWN_MAX
        there = f"{self._name} is {shown}{f' and {more:,} other values' if more > 0 else ''}"
        begin = [value for value in self._values if value.startswith(self._value)][:NEAREST_MAX]
        near = begin or nearest(self._value, self._values, 0.4)
        question = f"; did you mean {' or '.join(map(repr, near))}?" if self._sign == "=" and near else ""
        return f"{self.text!r} fits none, {there}{question}"


def _field(name: str) -> Callable[[WaitingMessage], str]:
    if name.startswith(_HEADER) and len(name) > len(_HEADER):
        return header(name.removeprefix(_HEADER))
    if name not in _FIELDS:
        raise ExpressionError(f"no field {name!r}; {suggestion(name, [*_FIELDS, 'header.NAME'])}")
    return _FIELDS[name]
