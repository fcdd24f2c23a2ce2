"""The interface of a broker under test, which is the same for simulated and real ones."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from simulator.testing.fuzz.topology_under_test import OneTopology

if TYPE_CHECKING:
    from simulator.testing.brokers.amqp10_client import Amqp10Client
    from simulator.testing.brokers.client import ReceivedMessage


__tracebackhide__ = True  # pytest shows the line of the test instead

T = TypeVar("T")


class BrokerUnavailableError(Exception):
    """The requested broker is not available: no server there, no container engine, or no image."""


class Clock(Protocol):
    """The time of a broker under test.

    Attributes:
        answer_within_s: how long a consumer may hold a delivery, seconds of real time, before virtual time goes on
            without it. On a server it has no meaning.
    """

    answer_within_s: float

    def now_us(self) -> int:
        """Return the time, microseconds since 1970."""

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
        answer_within_s: float | None = None,
    ) -> int:
        """Let time pass and return the new time. Raises ``ValueError`` for a negative duration.

        ``answer_within_s`` is for this call in place of the attribute.
        """

    async def advance_async(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
        answer_within_s: float | None = None,
    ) -> int:
        """Do as ``advance`` without blocking the event loop, whose consumers go on."""


class AwaitableClock:
    """Part of a clock: lets time pass in another thread while a coroutine waits.

    Attributes:
        cancelled: set while the coroutine waits no longer, but the thread has not ended.
    """

    answer_within_s: float = 0
    advance: Callable[..., int]

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._awaited = threading.Lock()

    async def advance_async(self, **how_long: Any) -> int:
        """Do as ``advance`` without blocking the event loop, whose consumers go on."""
        return await self.run_in_thread(functools.partial(self.advance, **how_long))

    async def run_in_thread(self, call: Callable[[], T]) -> T:
        """Return what a call returns that lets time pass. Time has stopped when a cancelled await ends.

        Raises what the call raises, and ``RuntimeError`` if another call is awaited meanwhile.
        """
        if not self._awaited.acquire(blocking=False):
            raise RuntimeError(
                "another await lets time pass already (advance_async, wait_for_async): await one at a time"
            )
        try:
            running = asyncio.get_running_loop().run_in_executor(None, _outcome, call)
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                self.cancelled.set()
                while not running.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([running])
                self.cancelled.clear()
                raise
            result = running.result()
        finally:
            self._awaited.release()
        if isinstance(result, _Raised):
            raise result.error
        return result


class _Raised:
    """What a call raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _outcome(call: Callable[[], T]) -> T | _Raised:
    """Return what a call returns or raises. An executor that passes an error on adds its own lines to the traceback."""
    try:
        return call()
    except Exception as error:
        return _Raised(error)


def seconds_of(name: str, value: Any) -> float:
    """Return a number of seconds. Raises ``ValueError``, with the name of the option, for anything else."""
    with contextlib.suppress(TypeError, ValueError):
        seconds = -1 if isinstance(value, bool) else float(value)
        if 0 <= seconds < float("inf"):
            return seconds
    raise ValueError(f"{name}: expected seconds of real time, 0 or more, got {value!r}")


class Broker(Protocol):
    """A broker for one test.

    Attributes:
        release: such as ``4.3``.
        amqp_url: where clients connect, with user, password and virtual host.
        management_url: where the management API is.
        vhost: the virtual host of the test.
        clock: its time, which is virtual on the simulator and real on a server.
        simulated: true for the simulator.
        topology: the topology that was imported into it, if any.
    """

    @property
    def release(self) -> str: ...
    @property
    def amqp_url(self) -> str: ...
    @property
    def management_url(self) -> str: ...
    @property
    def vhost(self) -> str: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def simulated(self) -> bool: ...
    @property
    def topology(self) -> OneTopology | None: ...

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API (``path`` such as ``queues/%2F``); return its answer. Raises ``ManagementError``."""

    # PublishAndGet says what these do and raise.

    @property
    def amqp10(self) -> Amqp10Client: ...
    def empty(self) -> None: ...

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes | str = b"",
        properties: Any = None,
        *,
        mandatory: bool = True,
        **fields: Any,
    ) -> None: ...
    def get(self, queue: str, *, auto_ack: bool = True) -> ReceivedMessage | None: ...
    def drain(self, queue: str) -> list[ReceivedMessage]: ...
    def wait_for(
        self, queue: str, *, messages: int = 1, within_s: float = 5, answer_within_s: float | None = None
    ) -> float: ...
    async def wait_for_async(
        self, queue: str, *, messages: int = 1, within_s: float = 5, answer_within_s: float | None = None
    ) -> float: ...


class Backend(Protocol):
    """Makes brokers for tests. ``id`` appears in the names of tests."""

    id: str
    simulated: bool

    def broker(self, release: str | None, topology: OneTopology | None) -> AbstractContextManager[Broker]:
        """Yield a fresh broker; of that release, if the backend can choose.

        Raises ``BrokerUnavailableError``, or ``DefinitionsError`` when the broker refuses the topology.
        """

    def close(self) -> None:
        """Stop every server that the backend started."""
