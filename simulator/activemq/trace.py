"""What happened in a simulation, in the vocabulary of events that all systems share, as JSON values."""

from __future__ import annotations

from typing import Any

from dlx.activemq.destinations import Destination
from dlx.activemq.messages import Message
from simulator.events import Event
from simulator.scenario.scenario_errors import ScenarioError

EVENTS_MAX = 200_000


class Trace:
    """The events of one run.

    Attributes:
        start_ms: the time of the scenario's beginning, milliseconds since 1970.
        now_ms: the time, milliseconds since 1970.
        step: the number of the step that runs, from 0 on.
        events: what happened.
        exceptions: what a client's exception listener was told.
    """

    def __init__(self, start_ms: int) -> None:
        self.start_ms = self.now_ms = start_ms
        self.step = 0
        self.events: list[dict[str, Any]] = []
        self.exceptions: list[dict[str, Any]] = []

    @property
    def time_ms(self) -> int:
        """Milliseconds since the beginning."""
        return self.now_ms - self.start_ms

    def add(self, event: Event, message: Message, queue: Destination | None = None, **more: Any) -> None:
        """Note what happened to a message, in ``queue`` where that is not its destination.

        Raises ``ScenarioError`` for a scenario that has no end, such as one with unlimited redeliveries at once.
        """
        if len(self.events) >= EVENTS_MAX:
            raise ScenarioError(f"steps[{self.step}]", f"expected a scenario of at most {EVENTS_MAX:,} events")
        self.events.append(
            {
                "event": str(event),
                "time_ms": self.time_ms,
                "step": self.step,
                "message": message.message_id,
                "body": message.body,
                "queue": str(queue or message.destination),
                **{name: value for name, value in more.items() if value is not None},
            }
        )

    def exception(self, connection: str, text: str) -> None:
        """Note what an exception listener was told."""
        self.exceptions.append(
            {"time_ms": self.time_ms, "step": self.step, "connection": connection, "exception": text}
        )


def described(message: Message, counter: int, now_ms: int) -> dict[str, Any]:
    """A message as a consumer sees it; ``counter``: how often it was delivered again."""
    return {
        "message": message.message_id,
        "body": message.body,
        "JMSRedelivered": counter > 0,
        "JMSXDeliveryCount": counter + 1,
        "JMSDestination": str(message.destination),
        "originalDestination": None if message.original_destination is None else str(message.original_destination),
        "JMSDeliveryMode": "PERSISTENT" if message.persistent else "NON_PERSISTENT",
        "JMSExpiration": message.expiration_ms,
        "lives_for_ms": message.expiration_ms - now_ms if message.expiration_ms else None,
        "JMSPriority": message.priority,
        "properties": dict(message.properties),
    }
