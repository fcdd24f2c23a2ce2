"""The broker's scheduler: it sends messages later, to the millisecond; a real one keeps its times to half a second."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.messages import Message, sent_by_scheduler


class Scheduler:
    """Sends messages later.

    Args:
        state: what the broker has.
        arrive: takes a message when its time has come.
    """

    def __init__(self, state: BrokerState, arrive: Callable[[Message], None]) -> None:
        self._state, self._arrive = state, arrive
        self._jobs = count(1)

    def send(self, message: Message, delay_ms: int, producer: str = "ID:broker-1:1:1:1") -> None:
        """Send a message in so many milliseconds; its job has a number behind the ``producer``."""
        job = f"{producer}:{next(self._jobs)}"
        self._state.deadlines.set(self._state.trace.now_ms + delay_ms, partial(self._due, message, job))

    def _due(self, message: Message, job: str) -> None:
        self._arrive(sent_by_scheduler(message, job, self._state.trace.now_ms))
