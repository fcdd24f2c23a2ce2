"""Makes the simulator a broker under test: a new one for every test, on virtual time."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Any
from urllib.parse import urlsplit

from dlx.releases import DEFAULT, known_release
from simulator import serve
from simulator.bootstrap import import_definitions
from simulator.broker.commands import AddVhost
from simulator.clock import duration_us
from simulator.definitions import Definitions, version_of
from simulator.message_history import MessageHistories, RecordingBroker
from simulator.server.in_process import Server, ServerFaults
from simulator.server.node import Node
from simulator.server.tls import Tls
from simulator.testing.brokers.publish_and_get import PublishAndGet
from simulator.testing.brokers.servers import call
from simulator.testing.brokers.what_became import waiting
from simulator.testing.fuzz.topology_under_test import OneTopology

# Lets the time of the simulator pass while clients consume: from deadline to deadline, with their answers between.


__tracebackhide__ = True  # pytest shows the line of the test instead

ANSWER_S = 0.1
"""How long a consumer may take to answer a delivery; one that takes longer is not waited for."""
ANSWERS_MAX_S = 2
"""How long consumers may keep the time from passing, by requeueing again and again."""
_POLL_S = 0.0005


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


def pass_time(server: Server, us: int, stop: Callable[[Node], bool] = lambda _: False) -> int:
    """Let microseconds pass and return the new time. Deliveries on the way are answered before the time moves on.

    It passes no further than to the first moment when ``stop`` is true and clients have nothing to answer.
    Raises ``ValueError`` beyond the year 9999, and ``TypeError`` on wall time.
    """
    until_us = server.run(lambda node: node.later_us(us))
    answers = _Answers(server)
    answers.wait()
    at_us, since_s = -1, 0.0
    while not server.run(stop) and server.run(lambda node: node.advance_to_output(until_us, stop)):
        now_us = server.clock.now_us()
        if now_us > at_us:
            at_us, since_s = now_us, time.monotonic()
        elif time.monotonic() > since_s + ANSWERS_MAX_S:  # consumers and a time to live of 0 can go on for ever
            return server.clock.advance(milliseconds=(until_us - now_us) / 1000)
        answers.wait()
    return server.clock.now_us()


class _Answers:
    """Waits for consumers to settle what was delivered to them.

    One that does not, such as a consumer in the thread that waits here, is waited for once,
    and again when it has sent something.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._given_up: dict[Hashable, tuple[int, int]] = {}

    def wait(self) -> None:
        """Wait until no client owes an answer, or those that do have been silent for a while."""
        since_s = last_s = time.monotonic()
        before: dict[Hashable, tuple[int, int]] = {}
        while True:
            hear_clients(self._server)
            owing, now_s = self._server.run(self._owing), time.monotonic()
            if owing != before:
                before, last_s = owing, now_s
            if not owing:
                return
            if now_s > last_s + ANSWER_S or now_s > since_s + ANSWERS_MAX_S:
                self._given_up.update(owing)
                return
            time.sleep(_POLL_S)

    def _owing(self, node: Node) -> dict[Hashable, tuple[int, int]]:
        """Return the connections with deliveries to settle: how many bytes each has sent, and how many deliveries."""
        deliveries = Counter(
            channel.connection.id
            for channel in node.broker.channels.values()
            for unacked in channel.unacked.values()
            if unacked.consumer is not None and unacked.consumer.tag in channel.consumers and not unacked.timed_out
        )
        owing = {}
        for connection, count in deliveries.items():
            heard = node.connections[connection].received_bytes if connection in node.connections else -1
            heard_before, held = self._given_up.get(connection, (-1, 0))
            if heard != heard_before and count > held:
                owing[connection] = heard, count
        return owing


HISTORIES_MAX = 1_000_000


class VirtualClock:
    """The simulator's time, which stands still until it is advanced."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def now_us(self) -> int:
        """Return the time, microseconds since 1970."""
        return self._server.clock.now_us()

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> int:
        """Run the clients' commands, move the time forward, do all that becomes due, and return the new time.

        Consumers answer a delivery at the time when it was sent, if they take no longer than a tenth of a second.
        Raises ``ValueError`` for a negative duration, and beyond the year 9999.
        """
        try:
            us = duration_us(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
            return pass_time(self._server, us)
        except ValueError as error:  # where it was found is of no interest to the test that asked
            raise error.with_traceback(None) from None


class SimulatedBroker(PublishAndGet):
    """A broker in this process. ``server`` is the one that ``simulator.serve()`` returned.

    ``amqps_url`` and ``tls`` are where clients connect with TLS, and its certificates; ``None`` without TLS.
    """

    simulated = True
    vhost = "/"

    def __init__(self, server: Server, release_name: str, topology: OneTopology | None) -> None:
        self.server = server
        self.release = release_name
        self.topology = topology
        self.clock = VirtualClock(server)
        self.amqp_url = f"amqp://guest:guest@{urlsplit(server.amqp_url).netloc}/%2F"
        self.amqps_url = server.amqps_url and f"amqps://guest:guest@{urlsplit(server.amqps_url).netloc}/%2F"
        self.management_url = str(server.management_url)
        self.tls = server.tls

    @property
    def faults(self) -> ServerFaults:
        """What goes wrong on request (docs/how-to/faults.md)."""
        return self.server.faults

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API; return its answer. Raises ``ManagementError``, and ``RuntimeError`` when stopped."""
        self.server.check_running()
        return call(self.amqp_url, self.management_url, method, path, body)

    def _hear(self) -> None:
        hear_clients(self.server)

    def _ready(self, queue: str) -> int | None:
        return self.server.run(lambda node: self._ready_in(node, queue))

    def _ready_in(self, node: Node, queue: str) -> int | None:
        found = node.broker.vhosts[self.vhost].queues.get(queue)
        return None if found is None else found.store.ready

    def _pass_time_until_ready(self, queue: str, messages: int, within_us: int) -> int | None:
        began_us = self.clock.now_us()
        ended_us = pass_time(self.server, within_us, lambda node: self._ready_in(node, queue) == messages)
        return ended_us - began_us if self._ready(queue) == messages else None

    def _in_queues(self) -> list[str]:
        return self.server.run(lambda node: waiting(node.broker, self.vhost))


class Simulator:
    """Makes brokers in this process, on virtual time.

    Args:
        release_name: the release that they are; by default that of the server which exported the definitions of
            the test, if they say so, else the latest.
        only: whether they are of that release whatever a test wants, as servers are.
    """

    simulated = True

    def __init__(self, release_name: str | None = None, *, only: bool = False) -> None:
        self._release, self._only = release_name, only
        self.id = release_name if release_name and only else "simulator"

    @contextlib.contextmanager
    def broker(
        self, release: str | None, topology: OneTopology | None, tls: Tls | None = None
    ) -> Iterator[SimulatedBroker]:
        """Yield a new broker, which listens with TLS as well if ``tls`` says how."""
        own = None if topology is None else known_release(version_of(topology.document) or "")
        chosen = (None if self._only else release) or self._release or own or DEFAULT
        with serve(chosen, management_port=0, tls=tls or False) as server:
            server.run(_record_all)
            broker = SimulatedBroker(server, chosen, topology)
            if topology is not None:
                _import_simulated(broker, topology)
            try:
                yield broker
            finally:
                broker.disconnect()

    def close(self) -> None:
        """Do nothing: each broker stops with its test."""


def _record_all(node: Node) -> None:
    assert isinstance(node.broker, RecordingBroker)  # it serves the management API
    node.broker.histories = MessageHistories(HISTORIES_MAX)


def _import_simulated(broker: SimulatedBroker, topology: OneTopology) -> None:
    broker.server.handle(AddVhost(broker.vhost, topology.default_queue_type))
    document = {**topology.document, "original_vhost_name": broker.vhost}
    definitions = Definitions(document, topology.source)
    broker.server.run(lambda node: import_definitions(node.broker, definitions, node.clock.now_us()))
