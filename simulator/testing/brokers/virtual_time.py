"""Lets the time of the simulator pass while clients consume: from deadline to deadline, with their answers between."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from simulator.broker import Channel, Unacked
from simulator.clock import duration_us
from simulator.server.in_process import THREAD_NAME, Server
from simulator.server.node import Node
from simulator.testing.brokers.broker_under_test import AwaitableClock, seconds_of
from simulator.testing.brokers.servers import OWN_CONTAINER_ID

__tracebackhide__ = True  # pytest shows the line of the test instead

ANSWER_WITHIN_S: float = 15
"""How long a consumer may hold a delivery, seconds of real time. Celery may answer 10 s after its task has ended."""
ALONE_S = 0.1
"""The same where nobody but the waiting thread could answer."""
QUICK_S = 0.1
"""An answer that took no longer is a quick one."""
QUICK_ANSWERS_MAX_S: float = 2
"""How long quick answers may keep the time from passing: a consumer can requeue again and again."""
SLOW_ANSWERS_MAX = 10
"""How many times the wait for one answer all of them may keep the time from passing."""
_ENDLESS = "answered again and again at one moment"
_WENT_ON = ", so time went on without it."
_ITSELF = "; a handler that moves the clock waits for itself"
_POLL_S, _POLL_MAX_S = 0.0005, 0.02


def hear_clients(server: Server) -> None:
    """Wait until the server has done what clients have asked for: acknowledgements and publishes have no answer."""

    def heard(node: Node) -> tuple[int, bool]:
        clients = list(node.connections.values())
        # A client that sends much is served in turns.
        busy = node.busy or any(client.busy for client in clients)
        return sum(client.received_bytes for client in clients), busy

    before, now = (-1, True), server.run(heard)
    while now != before or now[1]:  # the event loop looks at all its sockets between two calls
        before, now = now, server.run(heard)


class VirtualClock(AwaitableClock):
    """The simulator's time, which stands still until it is advanced.

    Attributes:
        answer_within_s: for how many seconds of real time it stands while a consumer holds a delivery, where the
            call does not say.
        left_behind: why it went on without the consumer of a queue, by queue.
    """

    def __init__(self, server: Server, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        super().__init__()
        self._server = server
        self.answer_within_s = answer_within_s
        self.left_behind: dict[str, str] = {}
        # Who sent nothing more, after how many bytes, and which deliveries were held; each for how long.
        self._silent: dict[Hashable, tuple[int, float]] = {}
        self._given_up: dict[Unacked, float] = {}

    def now_us(self) -> int:
        """Return the time, microseconds since 1970."""
        return self._server.clock.now_us()

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
        """Run the clients' commands, move the time forward, do all that becomes due, and return the new time.

        While a consumer holds a delivery, the time stands for ``answer_within_s`` seconds of real time at most.
        Raises ``ValueError`` for a negative duration, and beyond the year 9999; ``TypeError`` for what is no number;
        ``RuntimeError`` when it would wait for a consumer in the event loop that it blocks: ``await``
        ``advance_async`` there.
        """
        try:
            us = duration_us(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
            return self.pass_time(us, answer_within_s=answer_within_s, instead="await dlx_clock.advance_async(...)")
        except (TypeError, ValueError) as error:  # where it was found is of no interest to the test that asked
            raise error.with_traceback(None) from None

    def pass_time(
        self,
        us: int,
        stop: Callable[[Node], bool] = lambda _: False,
        *,
        answer_within_s: float | None = None,
        instead: str = "await asyncio.to_thread(...) around it",
    ) -> int:
        """Let microseconds pass and return the new time. Deliveries on the way are answered before the time moves on.

        It passes no further than to the first moment when ``stop`` is true and clients have nothing to answer.
        ``instead`` is what an event loop that runs a consumer can do. Raises as ``advance`` does, and ``TypeError`` on
        wall time.
        """
        within_s = self.answer_within_s if answer_within_s is None else seconds_of("answer_within_s", answer_within_s)
        server = self._server
        until_us = server.run(lambda node: node.later_us(us))
        answers = _Answers(within_s, instead)

        def advance_to_output(node: Node) -> bool:
            return not self.cancelled.is_set() and node.advance_to_output(until_us, stop)

        self._wait(answers)
        while not server.run(stop) and server.run(advance_to_output):
            if answers.are_endless(server.clock.now_us()):  # consumers and a time to live of 0 can go on for ever
                self._leave_behind(answers.last_owed, _ENDLESS + _WENT_ON)
                return server.clock.advance(milliseconds=(until_us - server.clock.now_us()) / 1000)
            self._wait(answers)
        return server.clock.now_us()

    def _wait(self, answers: _Answers) -> None:
        """Wait until no consumer holds a delivery that is waited for."""
        answers.begin()
        while True:
            hear_clients(self._server)
            owed = self._server.run(lambda node: self._owed(node, answers.within_s))
            answers.see(owed)
            if not owed or self.cancelled.is_set():
                return
            if answers.within_s:
                answers.check_own_loop(owed)
            why = answers.why_over(owed)
            if why is not None:
                self._give_up(owed, answers.within_s)
                self._leave_behind(owed, why + _WENT_ON)
                return
            time.sleep(answers.pause_s())

    def _owed(self, node: Node, within_s: float) -> dict[Hashable, _Owed]:
        """Return what each connection owes that is waited for."""
        found: dict[Hashable, _Owed] = {}
        for channel in node.broker.channels.values():
            client = node.connections.get(channel.connection.id)
            if client is not None and client.container_id == OWN_CONTAINER_ID:
                continue
            deliveries = [each for each in channel.unacked.values() if _is_expected(each, channel)]
            waited_for = [each for each in deliveries if self._given_up.get(each, -1) < within_s]
            if waited_for:
                found.setdefault(channel.connection.id, _Owed(node, channel)).add(waited_for)
        return {
            connection: owed
            for connection, owed in found.items()
            if self._silent.get(connection, (0, -1))[1] < within_s or owed.heard != self._silent[connection][0]
        }

    def _give_up(self, owed: Mapping[Hashable, _Owed], within_s: float) -> None:
        """Wait no longer: for those who stay silent, and for the deliveries that others went past."""
        self._silent |= {connection: (each.heard, within_s) for connection, each in owed.items()}
        self._given_up |= {delivery: within_s for each in owed.values() for delivery in each.oldest}

    def _leave_behind(self, owed: Mapping[Hashable, _Owed], why: str) -> None:
        self.left_behind |= {queue: why for each in owed.values() for queue in each.queues}

    def note_held(self) -> None:
        """Note as left behind the consumers that hold a delivery now, those of earlier tests."""
        held = self._server.run(lambda node: self._owed(node, math.inf))
        self.left_behind.clear()
        self._leave_behind(held, "still holds a delivery of an earlier test.")

    def remarks(self) -> list[str]:
        """Say which consumers the time went on without, and why; and which still hold what earlier tests left."""
        return [f"The consumer of {queue!r} {why}" for queue, why in self.left_behind.items()]


class _Owed:
    """What the consumers of one connection have to settle.

    Attributes:
        heard: how many bytes the client has sent.
        count: how many deliveries it holds.
        queues: the queues that they come from.
        oldest: the first of them on each channel, which is answered next.
        peer: the client's end of the connection; ``None`` for a client that has none.
    """

    def __init__(self, node: Node, channel: Channel) -> None:
        client = node.connections.get(channel.connection.id)
        self.heard = -1 if client is None else client.received_bytes
        self.peer = None if client is None else (client.peer_host, client.peer_port)
        self.count = 0
        self.queues: list[str] = []
        self.oldest: list[Unacked] = []

    def add(self, deliveries: Sequence[Unacked]) -> None:
        """Add the deliveries of one channel."""
        self.count += len(deliveries)
        self.queues += dict.fromkeys(each.queue.name for each in deliveries)
        self.oldest.append(deliveries[0])


def _is_expected(delivery: Unacked, channel: Channel) -> bool:
    """Return whether a consumer that is still there has to settle a delivery."""
    consumer = delivery.consumer
    return consumer is not None and consumer.tag in channel.consumers and not delivery.timed_out


class _Answers:
    """The answers of consumers while time passes: how long they are waited for at one moment of virtual time.

    Attributes:
        within_s: how long each may take, seconds of real time.
        last_owed: what was owed last.
    """

    def __init__(self, within_s: float, instead: str) -> None:
        self.within_s = within_s
        self._instead = instead
        self._at_us = -1
        self._quick_s = self._all_s = 0.0
        self._last_s = time.monotonic()
        self._before: dict[Hashable, tuple[int, int]] = {}
        self.last_owed: Mapping[Hashable, _Owed] = {}

    def begin(self) -> None:
        """Begin to wait."""
        self._last_s, self._before = time.monotonic(), {}

    def see(self, owed: Mapping[Hashable, _Owed]) -> None:
        """Note how long the last answer took, if there is another."""
        now_owed = {connection: (each.heard, each.count) for connection, each in owed.items()}
        if now_owed == self._before:
            return
        now_s = time.monotonic()
        took_s = now_s - self._last_s
        self._all_s += took_s
        self._quick_s += took_s * (took_s <= QUICK_S)
        self._last_s, self._before = now_s, now_owed
        self.last_owed = owed or self.last_owed

    def waited_s(self) -> float:
        """Return how long the next answer takes already."""
        return time.monotonic() - self._last_s

    def pause_s(self) -> float:
        """Return how long to do nothing: a consumer in this process needs the time itself."""
        return min(max(_POLL_S, self.waited_s() / 10), _POLL_MAX_S)

    def why_over(self, owed: Mapping[Hashable, _Owed]) -> str | None:
        """Return why the time goes on without the answers that are owed; ``None`` if it does not."""
        waited_s = self.waited_s()
        if waited_s >= self.within_s:
            own = "" if threading.current_thread() is threading.main_thread() else _ITSELF
            return f"held a delivery for {self.within_s:g} s of real time (dlx_answer_within_s{own})"
        if self._are_too_many():
            return _ENDLESS
        if waited_s > ALONE_S and _is_alone([each.peer for each in owed.values()]):
            return "held a delivery and runs in the thread that moved the clock"
        return None

    def are_endless(self, at_us: int) -> bool:
        """Return whether the answers of one moment do not end."""
        if at_us > self._at_us:
            self._at_us, self._quick_s, self._all_s = at_us, 0.0, 0.0
        return self._are_too_many()

    def _are_too_many(self) -> bool:
        slow_max_s = QUICK_ANSWERS_MAX_S + SLOW_ANSWERS_MAX * self.within_s
        return self._quick_s > QUICK_ANSWERS_MAX_S or self._all_s > slow_max_s

    def check_own_loop(self, owed: Mapping[Hashable, _Owed]) -> None:
        """Raise ``RuntimeError`` if the event loop of this very thread runs a consumer that is waited for."""
        own = _ends_in_own_loop()
        for each in owed.values():
            if each.peer in own:
                raise RuntimeError(
                    f"this call blocks the event loop that runs the consumer of {each.queues[0]!r}, which holds a "
                    f"delivery and cannot answer: use {self._instead}"
                )


# Who could answer: the client's end of a connection tells whether this process has it, and which event loop.


def _is_alone(peers: Iterable[tuple[str, int] | None]) -> bool:
    """Return whether all these clients are in this process, and no other thread of it could answer for them."""
    current = threading.current_thread()
    if any(thread is not current and thread.name != THREAD_NAME for thread in threading.enumerate()):
        return False
    try:
        ends = _ends(map(int, os.listdir("/dev/fd")))
    except OSError:  # not on every system
        return False
    return all(peer in ends for peer in peers)


def _ends_in_own_loop() -> set[tuple[str, int]]:
    """Return the ends of the connections that the event loop of this thread reads; none where no loop runs."""
    try:
        selector = getattr(asyncio.get_running_loop(), "_selector", None)
        found = selector.get_map() if selector is not None else {}
    except (RuntimeError, AttributeError):  # no loop runs here, or one that is not Python's own
        return set()
    return _ends(key.fd for key in list(found.values()))


def _ends(files: Iterable[int]) -> set[tuple[str, int]]:
    """Return the own ends of those files that are connections."""
    ends = set()
    for file in files:
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(file).st_mode):
                continue
            with socket.socket(fileno=os.dup(file)) as opened:
                end = opened.getsockname()
            if isinstance(end, tuple):
                ends.add((end[0], end[1]))
    return ends
