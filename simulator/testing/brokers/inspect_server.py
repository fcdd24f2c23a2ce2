"""Inspects a real server: reads its queues and its counters."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pika

from dlx.consumer import DeathHistory, death_history
from simulator.capture.connected import amqp_parameters
from simulator.testing.brokers.inspection import PATHS_SHOWN, QueueContents, paths_told
from simulator.testing.brokers.running_server import ServerBroker
from simulator.testing.brokers.servers import ManagementError

__tracebackhide__ = True  # pytest shows the line of the test instead

PATIENCE_S = 5
"""How long to wait for what should be there."""
QUIET_S = 1
"""Depths that stay the same for so long have come to rest."""
STATISTICS_S = 5.5
"""Counters that stay the same for so long are up to date: servers send them every 5 s."""
STATISTICS_MAX_S = 60
_POLL_S = 0.1
_EVIDENCE = "What is ready in the queues (a real server does not say what became of messages):"


class ServerInspection:
    """Answers the assertions (``Inspection``) by AMQP and the management API.

    Messages are read as a client reads them, and go back to their queue: they are
    redelivered afterwards, and a quorum queue counts it.
    """

    def __init__(self, broker: ServerBroker) -> None:
        self._broker = broker
        self._vhost = quote(broker.vhost, safe="")
        self._read: dict[str, tuple[int, list[DeathHistory]]] = {}

    def wait_until_right(self, wrong: Callable[[], list[str]], times: int | None) -> list[str]:
        """Check again and again until nothing is wrong or time is up; return what is wrong then."""
        until, right_since = time.monotonic() + PATIENCE_S, math.inf
        # Dead letters may be on their way from one queue to the next, so they must not have to stay for long.
        steady_s = {None: 0, 0: QUIET_S}.get(times, _POLL_S)
        while True:
            found, now = wrong(), time.monotonic()
            right_since = math.inf if found else min(right_since, now)
            if (found and now >= until) or (not found and now - right_since >= steady_s):
                return found
            time.sleep(_POLL_S)

    def queues(self) -> list[str]:
        """Return the names of the queues."""
        return sorted(queue["name"] for queue in self._broker.api("GET", f"queues/{self._vhost}?columns=name"))

    def contents(self, queue: str) -> QueueContents | None:
        """Return the ready messages of a queue, which is read again only when its depth has changed."""
        if not self._readable(queue):
            return None
        depth = self._depths([queue])[queue]
        if depth is None:
            return None
        if self._read.get(queue, (None,))[0] != depth:
            self._read[queue] = depth, self._histories(queue, depth)
        return QueueContents(self._read[queue][1])

    def _histories(self, queue: str, depth: int) -> list[DeathHistory]:
        histories = []
        with self._connected() as connection:
            channel = connection.channel()
            for _ in range(depth):
                method, properties, _ = channel.basic_get(queue)
                if method is None:
                    break
                histories.append(death_history(properties))
            if histories:
                channel.basic_nack(0, multiple=True, requeue=True)
        return histories

    def _readable(self, queue: str) -> bool:
        """Return whether the queue exists and is not exclusive. (AMQP would close the channel, and pika log it.)"""
        try:
            found = self._broker.api("GET", f"queues/{self._vhost}/{quote(queue, safe='')}")
        except ManagementError as error:
            if error.status == 404:
                return False
            raise
        return not found.get("exclusive")

    def _connected(self) -> Any:
        return pika.BlockingConnection(amqp_parameters(self._broker.amqp_url))

    def _depths(self, queues: list[str]) -> dict[str, int | None]:
        """Return how many messages are ready in each queue; ``None`` if it does not exist or is exclusive."""
        depths: dict[str, int | None] = {}
        with self._connected() as connection:
            for queue in queues:
                channel = connection.channel()
                try:
                    depths[queue] = channel.queue_declare(queue, passive=True).method.message_count
                    channel.close()
                except pika.exceptions.ChannelClosedByBroker:
                    depths[queue] = None
        return depths

    def evidence(self) -> list[str]:
        """Say which messages are ready in each queue, and how they died."""
        lines = [_EVIDENCE]
        for queue in self.queues():
            depth = self._depths([queue])[queue] if self._readable(queue) else None
            lines.append(f"  {queue}: {'cannot be read' if depth is None else self._told(queue, depth)}")
        return lines

    def _told(self, queue: str, depth: int) -> str:
        return paths_told(self._histories(queue, min(depth, PATHS_SHOWN)), depth)

    def what_became(self, told: str) -> list[str]:
        """Say what is ready in each queue. The counters that show losses are seconds late, too late for a report."""
        return [] if _EVIDENCE in told else self.evidence()

    def traces(self, test: str) -> list[bytes]:
        """Return none: a server does not say what became of messages."""
        return []

    def losses(self) -> list[str]:
        """Say how many copies the counters miss."""
        routed, acknowledged, left = self._settled_counters()
        missing = routed - acknowledged - left - self._broker.purged
        if missing <= 0:
            return []
        return [
            f"{missing} of {routed} copies are missing: publishes were routed to queues {routed} times, consumers "
            f"acknowledged {acknowledged}, and {left} are in queues.",
            *self.evidence(),
        ]

    def _settled_counters(self) -> tuple[int, int, int]:
        """Return the counters, once the server's statistics are up to date."""
        until = time.monotonic() + STATISTICS_MAX_S
        counters, since = self._counters(), time.monotonic()
        while time.monotonic() - since < STATISTICS_S and time.monotonic() < until:
            time.sleep(_POLL_S)
            now = self._counters()
            if now != counters:
                counters, since = now, time.monotonic()
        return counters

    def _counters(self) -> tuple[int, int, int]:
        """Return how often publishes were routed to queues, how many copies were acknowledged, how many are left."""
        exchanges = self._broker.api("GET", f"exchanges/{self._vhost}")
        queues = self._broker.api("GET", f"queues/{self._vhost}")
        routed = sum(_stat(exchange, "publish_out") for exchange in exchanges)
        taken = ("ack", "deliver_no_ack", "get_no_ack")
        acknowledged = sum(_stat(queue, name) for queue in queues for name in taken)
        return routed, acknowledged, sum(queue.get("messages", 0) for queue in queues)

    def unrest(self, within_us: int) -> list[str]:
        """Watch the depths until they stay the same or the time is over; look at least twice."""
        within_s = within_us / 1_000_000
        quiet_s = max(_POLL_S, min(QUIET_S, within_s))
        start = time.monotonic()
        queues = [queue for queue in self.queues() if self._readable(queue)]
        before = depths = self._depths(queues)
        since = time.monotonic()  # after reading, which may take a busy server longer than quiet_s
        while time.monotonic() - since < quiet_s:
            time.sleep(_POLL_S)
            now = self._depths(queues)
            if now != depths:
                before, depths, since = depths, now, time.monotonic()
            if since - start > within_s:
                changed = [queue for queue in queues if before[queue] != depths[queue]]
                return [f"  {queue}: {_shown(before[queue])} ready, then {_shown(depths[queue])}" for queue in changed]
        return []


def _shown(depth: int | None) -> str:
    return "no queue" if depth is None else str(depth)


def _stat(of: dict[str, Any], name: str) -> int:
    return int(of.get("message_stats", {}).get(name, 0))
