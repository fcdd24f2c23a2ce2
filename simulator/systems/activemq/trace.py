"""Notes what happens in a simulation, in the events that all systems share, and returns it as JSON values."""

from __future__ import annotations

from collections import deque
from typing import Any

from simulator.events import Event, Happened
from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems.activemq.destinations import Destination
from simulator.systems.activemq.messages import Message

EVENTS_MAX = 200_000
_BODY_SHOWN = 1_000


class Trace:
    """The events of one run.

    Args:
        start_ms: the time of its beginning, milliseconds since 1970.
        keeps: how many of the last events are kept, with the beginning of each body; ``None`` for all of them whole, of
            which there may be ``EVENTS_MAX``.

    Attributes:
        start_ms: the time of the scenario's beginning, milliseconds since 1970.
        now_ms: the time, milliseconds since 1970.
        step: the number of the step that runs, from 0 on.
        events: what happened.
        exceptions: what a client's exception listener was told.
    """

    def __init__(self, start_ms: int, *, keeps: int | None = None) -> None:
        self.start_ms = self.now_ms = start_ms
        self.step = 0
        self.events: deque[Happened] = deque(maxlen=keeps)
        self._body_shown = None if keeps is None else _BODY_SHOWN
        self.exceptions: list[dict[str, Any]] = []

    @property
    def time_ms(self) -> int:
        """Milliseconds since the beginning."""
        return self.now_ms - self.start_ms

    def add(
        self,
        event: Event,
        message: Message,
        queue: Destination | None = None,
        *,
        reason: str | None = None,
        detail: str | None = None,
        **more: Any,
    ) -> None:
        """Note what happened to a message, in ``queue`` where that is not its destination.

        ``more`` goes in under its names, without those that are ``None``.

        Raises ``ScenarioError`` for a scenario that has no end, such as one with unlimited redeliveries at once.
        """
        if self.events.maxlen is None and len(self.events) >= EVENTS_MAX:
            raise ScenarioError(f"steps[{self.step}]", f"expected a scenario of at most {EVENTS_MAX:,} events")
        self.events.append(
            Happened(
                event=event,
                time_us=self.now_ms * 1_000,
                message=message.message_id,
                queue=str(queue or message.destination),
                reason=reason,
                detail=detail or "",
                more={"step": self.step, "body": message.text[: self._body_shown], **more},
            )
        )

    def told(self) -> list[dict[str, Any]]:
        """Return the events as JSON values, in milliseconds since the beginning."""
        return [_as_document(happened, self.start_ms) for happened in self.events]

    def exception(self, connection: str, text: str) -> None:
        """Note what an exception listener received."""
        self.exceptions.append(
            {"time_ms": self.time_ms, "step": self.step, "connection": connection, "exception": text}
        )


def _as_document(happened: Happened, start_ms: int) -> dict[str, Any]:
    more = dict(happened.more or {})
    told: dict[str, Any] = {
        "event": str(happened.event),
        "time_ms": happened.time_us // 1_000 - start_ms,
        "step": more.pop("step"),
        "message": happened.message,
        "body": more.pop("body"),
        "queue": happened.queue,
    }
    why = {"reason": happened.reason, "detail": happened.detail or None}
    who = {name: value for name, value in more.items() if name not in _WHERE_TO}
    where_to = {name: value for name, value in more.items() if name in _WHERE_TO}
    told |= {**who, **why, **where_to} if any(why.values()) else more
    return {name: value for name, value in told.items() if value is not None}


_WHERE_TO = ("to", "delay_ms")


def described(message: Message, counter: int, now_ms: int) -> dict[str, Any]:
    """Return a message as a consumer sees it. ``counter`` is how often it was delivered again."""
    about = message.about
    return {
        "message": message.message_id,
        "body": message.text,
        "JMSRedelivered": counter > 0,
        "JMSXDeliveryCount": counter + 1,
        "JMSDestination": str(message.destination),
        "originalDestination": original.qualified_name if (original := message.original_destination) else None,
        "JMSDeliveryMode": "PERSISTENT" if message.persistent else "NON_PERSISTENT",
        "JMSExpiration": message.expiration_ms,
        "lives_for_ms": message.expiration_ms - now_ms if message.expiration_ms else None,
        "JMSPriority": message.priority,
        "properties": dict(message.properties),
        **({} if about is None else {"about": _told_of(about)}),
    }


def _told_of(message: Message) -> dict[str, Any]:
    return {
        "message": message.message_id,
        "JMSDestination": str(message.destination),
        "JMSExpiration": message.expiration_ms,
        "properties": dict(message.properties),
    }
