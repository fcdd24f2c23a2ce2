"""Compares what is found with what is expected, in sentences; none if nothing differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from simulator.testing.cases.file_format import ExpectedDeath, ExpectedLoss, ExpectedMessage
from simulator.testing.cases.stage import FoundLoss, FoundMessage

_ABSENT = object()
_SHOWN = [field.encode_name for field in msgspec.structs.fields(ExpectedDeath)]


class CaseDifference(NamedTuple):
    """One thing that is not as expected.

    Attributes:
        where: such as ``orders.dead, message 1: deaths[0].count``.
        expected, found: in words.
        queue: the queue that it is about, if it is about one.
    """

    where: str
    expected: str
    found: str
    queue: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, found {self.found}"


def count_difference(queue: str, expected: int, found: int) -> list[CaseDifference]:
    """Compare the numbers of messages of a queue."""
    return [] if expected == found else [CaseDifference(f"queue {queue}", _count(expected), _count(found), queue)]


def message_differences(
    queue: str, expected: Sequence[ExpectedMessage], found: Sequence[FoundMessage]
) -> list[CaseDifference]:
    """Compare the messages of a queue in their order, and their number."""
    wanted = [each for each in expected for _ in range(each.times)]
    differences = count_difference(queue, len(wanted), len(found))
    for number, (want, have) in enumerate(zip(wanted, found, strict=False), 1):
        at = f"queue {queue}, message {number}"
        differences += [
            CaseDifference(f"{at}: {name}", _shown(should), _shown(is_), queue)
            for name, should, is_ in _of_message(want, have)
        ]
    return differences


def number_difference(name: str, expected: int, found: int) -> list[CaseDifference]:
    """Compare how often something happened to publishes."""
    return [] if expected == found else [CaseDifference(name, str(expected), str(found))]


def loss_differences(expected: Sequence[ExpectedLoss], found: Sequence[FoundLoss]) -> list[CaseDifference]:
    """Compare losses, whatever their order: the most definite expectation first takes those that fit it."""
    left = list(found)
    missing = []
    for want in sorted(expected, key=lambda each: sum(value is UNSET for value in _named(each).values())):
        fitting = [loss for loss in left if _fits(want, loss)][: want.times]
        for loss in fitting:
            left.remove(loss)
        if len(fitting) < want.times:
            told = " ".join(str(value) for value in _named(want).values() if value is not UNSET) or "any"
            missing.append(f"{want.times - len(fitting)} more ({told})")
    if not missing and not left:
        return []
    others = Counter(f"{loss.queue} {loss.reason or ''} {loss.how}".replace("  ", " ") for loss in left)
    also = ", ".join(f"{count} × {told}" for told, count in others.items())
    return [CaseDifference("lost", ", ".join(missing) or "nothing else", also or "nothing else")]


def _named(loss: ExpectedLoss) -> dict[str, Any]:
    return {"queue": loss.queue, "reason": loss.reason, "how": loss.how}


def _fits(want: ExpectedLoss, loss: FoundLoss) -> bool:
    return all(value is UNSET or value == getattr(loss, name) for name, value in _named(want).items())


def _of_message(want: ExpectedMessage, have: FoundMessage) -> Iterator[tuple[str, Any, Any]]:
    for name in ("exchange", "routing_key", "redelivered"):
        should, is_ = getattr(want, name), getattr(have, name)
        if should is not UNSET and should != is_:
            yield name, should, is_
    yield from _of_mapping("headers", want.headers, have.headers)
    yield from _of_mapping("properties", want.properties, have.properties)
    if want.deaths is not UNSET:
        yield from _of_deaths(want.deaths, have.headers.get("x-death") or [])


def _of_mapping(name: str, want: Mapping[str, Any], have: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key, should in want.items():
        is_ = have.get(key, _ABSENT)
        if is_ != (_ABSENT if should is None else should):
            yield f"{name}.{key}", _ABSENT if should is None else should, is_


def _of_deaths(want: Sequence[ExpectedDeath], have: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    wanted = [_death(each) for each in want]
    if len(wanted) != len(have) or any(
        any(death.get(name, _ABSENT) != (_ABSENT if value is None else value) for name, value in each.items())
        for each, death in zip(wanted, have, strict=True)
    ):
        names = {name for each in wanted for name in each} | {"queue", "reason", "count"}
        shown = [name for name in _SHOWN if name in names]
        yield "deaths", wanted, [{name: death[name] for name in shown if name in death} for death in have]


def _death(want: ExpectedDeath) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(want)
    return values


def _count(number: int) -> str:
    return "no message" if not number else "1 message" if number == 1 else f"{number:,} messages"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "none"
    if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        return "; ".join(", ".join(f"{name} {_shown(part)}" for name, part in each.items()) for each in value) or "none"
    return "null" if value is None else str(value) if value != "" else "''"
