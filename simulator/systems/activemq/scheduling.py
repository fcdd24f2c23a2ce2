"""A broker's scheduler: it sends messages later, again and again, or at the times of a cron entry.

It is accurate to the millisecond; a real one keeps its times to half a second. Cron entries are in UTC.

Source: activemq-broker, SchedulerBroker; activemq-kahadb-store, JobSchedulerImpl; activemq-client, CronParser.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

import msgspec

from simulator.events import Event
from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.messages import (
    SCHEDULED_CRON,
    SCHEDULED_DELAY,
    SCHEDULED_PERIOD,
    SCHEDULED_REPEAT,
    Message,
    sent_by_scheduler,
)

_STARTING = (SCHEDULED_DELAY, SCHEDULED_PERIOD, SCHEDULED_CRON)
EVERY_MINUTE = "* * * * *"
_MINUTE_MS = 60_000


class ScheduleError(ValueError):
    """What a broker refuses of a message for its scheduler: a property and what would be right."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When a message is sent.

    Attributes:
        delay_ms: how long after its arrival, or after the time of the cron entry.
        period_ms: how long from one time to the next; for the first time, where there is no delay.
        repeat: how many times more.
        cron: minutes, hours, days of the month, months, days of the week; empty for none.
    """

    delay_ms: int = 0
    period_ms: int = 0
    repeat: int = 0
    cron: str = ""

    @property
    def first_ms(self) -> int:
        """How long it is to the first time."""
        return self.delay_ms if self.delay_ms > 0 else self.period_ms


def as_set(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties as a client sets them: those for the scheduler as whole numbers. Raises ``ScheduleError``."""
    cron = properties.get(SCHEDULED_CRON)
    if cron is not None:
        _fields(str(cron))
    numbers = (name for name in (SCHEDULED_DELAY, SCHEDULED_PERIOD, SCHEDULED_REPEAT) if name in properties)
    return {**properties, **{name: _whole(properties, name) for name in numbers}}


def is_scheduled(properties: Mapping[str, Any]) -> bool:
    """Return whether a message is for the scheduler, if the broker has one."""
    return any(name in properties for name in _STARTING)


def schedule_of(properties: Mapping[str, Any], repeat_max: int) -> Schedule | None:
    """Return the schedule that properties of a message ask for; ``None`` where they ask for none.

    Raises ``ScheduleError``.
    """
    if not is_scheduled(properties):
        return None
    repeat = _whole(properties, SCHEDULED_REPEAT)
    if repeat > repeat_max:
        limit = f"at most {repeat_max} (maxSchedulerRepeatAllowed) as {SCHEDULED_REPEAT}"
        raise ScheduleError(f"expected {limit}, got {repeat}: The scheduled repeat value is too large")
    cron = str(properties.get(SCHEDULED_CRON, ""))
    next_cron_ms(cron, 0)
    delay_ms, period_ms = _whole(properties, SCHEDULED_DELAY), _whole(properties, SCHEDULED_PERIOD)
    return Schedule(delay_ms=delay_ms, period_ms=period_ms, repeat=repeat, cron=cron)


def _whole(properties: Mapping[str, Any], name: str) -> int:
    text = str(properties.get(name, 0))
    if not text.isdecimal():
        raise ScheduleError(f"expected a whole number from 0 as {name}, got '{text}'")
    return int(text)


class Scheduler:
    """Sends messages later.

    Args:
        state: what the broker has.
        arrive: takes a message when its time has come.
    """

    def __init__(self, state: BrokerState, arrive: Callable[[Message], None]) -> None:
        self._state, self._arrive = state, arrive
        self._jobs, self._sent = count(1), count(1)
        self._stored: dict[str, Message] = {}

    def forget(self) -> None:
        """Forget what is to be sent, as a broker that stores nothing does when it stops."""
        for message in self._stored.values():
            self._state.trace.add(Event.PURGED, message, detail="the broker was stopped")
        self._stored.clear()

    def send(self, message: Message, schedule: Schedule, producer: str = "ID:broker-1:1:1:1") -> None:
        """Send a message as a schedule has it; its job has a number behind the ``producer``."""
        job = f"{producer}:{next(self._jobs)}"
        now_ms = self._state.trace.now_ms
        start_ms = next_cron_ms(schedule.cron, now_ms) or now_ms
        self._set(start_ms + schedule.first_ms, message, schedule, job)

    def _set(self, due_ms: int, message: Message, schedule: Schedule, job: str) -> None:
        self._stored[job] = message
        self._state.deadlines.set(due_ms, partial(self._due, schedule, job))

    def _due(self, schedule: Schedule, job: str) -> None:
        message = self._stored.pop(job, None)
        if message is None:
            return
        now_ms = self._state.trace.now_ms
        if schedule.cron:
            self._set(next_cron_ms(schedule.cron, now_ms), message, schedule, job)
        elif schedule.repeat:
            left = msgspec.structs.replace(schedule, repeat=schedule.repeat - 1)
            self._set(now_ms + schedule.period_ms, message, left, job)
        if schedule.cron and schedule.repeat:
            self.send(message, msgspec.structs.replace(schedule, cron=""))
        else:
            self._arrive(sent_by_scheduler(self._named(message), job, now_ms))

    def _named(self, message: Message) -> Message:
        """Return a message with an identifier of its own, where its properties have it sent more than once."""
        if not message.properties.get(SCHEDULED_REPEAT) and not message.properties.get(SCHEDULED_CRON):
            return message
        return msgspec.structs.replace(message, message_id=f"ID:scheduler-1:1:1:1:{next(self._sent)}")


# -- cron ----------------------------------------------------------------------------------------------------------


class _Field(msgspec.Struct, frozen=True):
    """One of the five fields of an entry, and the numbers that it stands for."""

    name: str
    first: int
    end: int
    numbers: tuple[int, ...]

    def until(self, now: int, days: int) -> int:
        """Return how far it is from a number to the next; ``days`` has the month."""
        later = [number for number in self.numbers if number > now]
        if later:
            return later[0] - now
        end = days + 1 if self.name == "day of the month" else self.end
        return end + self.numbers[0] - self.first - now + (self.name in ("month", "day of the week"))


_FIELDS = (("minute", 0, 60), ("hour", 0, 24), ("day of the month", 1, 32), ("month", 1, 12), ("day of the week", 0, 6))


def next_cron_ms(entry: str, now_ms: int) -> int:
    """Return the next time of a cron entry, milliseconds since 1970; 0 for an empty one.

    Where both kinds of days are restricted, the time is what the broker makes of it, which need not fit either.
    Raises ``ScheduleError``.
    """
    if not entry:
        return 0
    if entry == EVERY_MINUTE:
        return (now_ms // _MINUTE_MS + 1) * _MINUTE_MS
    minutes, hours, days, months, weekdays = _fields(entry)
    at = datetime.fromtimestamp(now_ms / 1000, UTC).replace(second=0) + timedelta(minutes=1)
    if at.minute not in minutes.numbers:
        at += timedelta(minutes=minutes.until(at.minute, 0))
    if at.hour not in hours.numbers:
        at += timedelta(hours=hours.until(at.hour, 0))
    at = _on_day(at, days, weekdays)
    if at.month not in months.numbers:
        number = at.month - 1 + months.until(at.month, 0)
        at = at.replace(year=at.year + number // 12, month=number % 12 + 1, day=1, hour=0, minute=0)
    at = _on_day(at, days, weekdays)
    if at.hour not in hours.numbers:
        at += timedelta(hours=hours.until(at.hour, 0))
    if at.minute not in minutes.numbers:
        at += timedelta(minutes=minutes.until(at.minute, 0))
    found_ms = round(at.timestamp() * 1000)
    if found_ms <= now_ms:
        raise ScheduleError(f"expected times that come, got '{entry}' as {SCHEDULED_CRON}")
    return found_ms


def _on_day(at: datetime, days: _Field, weekdays: _Field) -> datetime:
    """Return the beginning of the next day that fits, or the time itself on one that does."""
    in_month = monthrange(at.year, at.month)[1]
    weekday = at.isoweekday() % 7
    ahead = [weekdays.until(weekday, in_month)] if weekday not in weekdays.numbers else []
    ahead += [days.until(at.day, in_month)] if at.day not in days.numbers else []
    return (at + timedelta(days=min(ahead))).replace(hour=0, minute=0) if ahead else at


def _fields(entry: str) -> tuple[_Field, ...]:
    texts = entry.split()
    if len(texts) != len(_FIELDS):
        names = ", ".join(name for name, _, _ in _FIELDS)
        raise ScheduleError(f"expected five fields ({names}) as {SCHEDULED_CRON}, got '{entry}'")
    fields = tuple(
        _Field(name, first, end, _numbers(text, name, first, end))
        for text, (name, first, end) in zip(texts, _FIELDS, strict=True)
    )
    for field, text in zip(fields, texts, strict=True):
        if not field.numbers or field.numbers[0] < field.first or field.numbers[-1] > field.end:
            numbers = f"numbers from {field.first} to {field.end}"
            raise ScheduleError(f"expected {numbers} as the {field.name} of {SCHEDULED_CRON}, got '{text}'")
    return fields


def _numbers(text: str, name: str, first: int, end: int) -> tuple[int, ...]:
    """Return what a field stands for: all, a number, a range, a list of them, or every nth of them."""
    if text in ("*", "?"):
        return tuple(range(first, end + 1))
    if "/" in text:
        of, _, step = text.partition("/")
        if step.isdecimal() and int(step):
            return tuple(number for number in _numbers(of, name, first, end) if number % int(step) == 0)
    elif "," in text:
        return tuple(sorted(number for part in text.split(",") if part for number in _numbers(part, name, first, end)))
    lowest, dash, highest = text.partition("-")
    highest = highest if dash else lowest
    if not lowest.isdecimal() or not highest.isdecimal():
        raise ScheduleError(f"expected numbers as the {name} of {SCHEDULED_CRON}, got '{text}'")
    return tuple(range(int(lowest), int(highest) + 1))
