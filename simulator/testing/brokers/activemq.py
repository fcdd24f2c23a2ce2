"""A simulated ActiveMQ for a test: it speaks STOMP on a port of this machine, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from simulator.clock import VirtualClock
from simulator.server.in_process import THREAD_NAME
from simulator.systems.activemq.activemq_xml import broker_settings
from simulator.systems.activemq.settings import BrokerSettings
from simulator.systems.activemq.stomp_server import StompServer

__tracebackhide__ = True  # pytest shows the line of the test instead

T = TypeVar("T")
WITHIN_S: float = 5
"""How long ``wait_for`` waits for clients, seconds of real time."""
_POLL_S = 0.005


class ActiveMQ:
    """A broker in a thread of this process.

    Attributes:
        host, port: where clients of STOMP find it.
        clock: its time, which stands still until ``advance`` moves it.
    """

    host = "127.0.0.1"

    def __init__(self, settings: BrokerSettings) -> None:
        self._time = VirtualClock()
        self._server = StompServer(settings, self._time)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=THREAD_NAME, daemon=True)
        self._thread.start()
        url = asyncio.run_coroutine_threadsafe(self._server.listen(self.host, 0), self._loop).result()
        self.stomp_url, self.port = url, int(url.rpartition(":")[2])

    def now_ms(self) -> int:
        """Return the broker's time, milliseconds since 1970, for the header ``expires``."""
        return self._time.now_us() // 1_000

    def advance(self, **how_long: float) -> None:
        """Move the time forward by ``hours``, ``minutes``, ``seconds`` or ``milliseconds``; what falls due happens.

        Raises ``ValueError`` for a negative duration, and ``TypeError`` for another unit.
        """

        def move() -> None:
            self._time.advance(**how_long)
            self._server.catch_up()

        self._run(move)

    def queues(self) -> dict[str, int]:
        """Return how many messages are in each queue and durable subscription, by name (``queue://orders``)."""
        return {each["name"]: each["messages"] for each in self._run(self._server.served.queues)}

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """Return what is in a queue, the oldest first; nothing of a queue that does not exist."""
        return self._run(lambda: self._server.served.messages(queue)) or []

    def dead_letters(self, queue: str = "ActiveMQ.DLQ") -> list[dict[str, Any]]:
        """Return what is in a dead-letter queue, by default that of a broker without configuration."""
        return self.messages(queue)

    def wait_for(self, queue: str, messages: int, *, within_s: float = WITHIN_S) -> list[dict[str, Any]]:
        """Wait until a queue has this number of messages, and return them.

        Raises ``AssertionError`` if clients have not brought that about ``within_s`` seconds of real time.
        """
        until_s = time.monotonic() + within_s
        while len(found := self.messages(queue)) != messages:
            if time.monotonic() > until_s:
                held = ", ".join(f"{name}: {count}" for name, count in self.queues().items()) or "no queue"
                raise AssertionError(f"expected {messages} in {queue} within {within_s:g} s; there is {held}")
            time.sleep(_POLL_S)
        return found

    def events(self) -> list[dict[str, Any]]:
        """Return what happened to messages, as a scenario's trace has it."""
        return self._run(self._server.served.trace.told)

    def what_became(self) -> list[str]:
        """Say what happened, a line for each event."""
        return [
            f"{each['time_ms'] / 1000:g} s  {each['event']}  {each['message']}  {each['queue']}"
            f"  {each.get('reason') or ''} {each.get('detail') or ''} {each.get('to') or ''}".rstrip()
            for each in self.events()
        ]

    def stop(self) -> None:
        """Drop all clients, and stop."""
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, act: Callable[[], T]) -> T:
        async def acting() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result()


@contextlib.contextmanager
def started(activemq_xml: Path | None) -> Iterator[ActiveMQ]:
    """Yield a new broker. Raises ``ConfigurationError``, and ``OSError`` for a file that cannot be read."""
    settings = BrokerSettings() if activemq_xml is None else broker_settings(activemq_xml.read_bytes())
    broker = ActiveMQ(settings)
    try:
        yield broker
    finally:
        broker.stop()
