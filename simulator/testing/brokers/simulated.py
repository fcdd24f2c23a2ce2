"""Makes the simulator a broker under test: a new one for every test, on virtual time."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dlx.releases import DEFAULT, known_release
from simulator import serve
from simulator.bootstrap import import_definitions
from simulator.broker.commands import AddVhost
from simulator.definitions import Definitions, version_of
from simulator.message_history import MessageHistories, RecordingBroker
from simulator.server.in_process import Server, ServerFaults
from simulator.server.node import Node
from simulator.server.tls import Tls
from simulator.testing.brokers.publish_and_get import PublishAndGet
from simulator.testing.brokers.servers import call
from simulator.testing.brokers.virtual_time import VirtualClock, hear_clients
from simulator.testing.brokers.what_became import waiting
from simulator.testing.fuzz.topology_under_test import OneTopology

__tracebackhide__ = True  # pytest shows the line of the test instead

T = TypeVar("T")

HISTORIES_MAX = 1_000_000


class SimulatedBroker(PublishAndGet):
    """A broker in this process. ``server`` is the one that ``simulator.serve()`` returned.

    ``amqps_url`` and ``tls`` are where clients connect with TLS, and its certificates. Without TLS they raise
    ``AttributeError``.
    """

    simulated = True
    clock: VirtualClock
    vhost = "/"

    def __init__(self, server: Server, release_name: str, topology: OneTopology | None) -> None:
        self.server = server
        self.release = release_name
        self.topology = topology
        self.clock = VirtualClock(server)
        self.amqp_url = f"amqp://guest:guest@{urlsplit(server.amqp_url).netloc}/%2F"
        self.management_url = str(server.management_url)

    @property
    def amqps_url(self) -> str:
        """Where clients connect with TLS."""
        return f"amqps://guest:guest@{urlsplit(_of_tls(self.server.amqps_url)).netloc}/%2F"

    @property
    def tls(self) -> Tls:
        """The certificates."""
        return _of_tls(self.server.tls)

    @property
    def faults(self) -> ServerFaults:
        """What goes wrong on request (docs/how-to/faults.md)."""
        return self.server.faults

    def api(self, method: str, path: str, body: object = None) -> Any:
        """Call the management API; return its answer. Raises ``ManagementError``, and ``RuntimeError`` when stopped."""
        self.server.check_running()
        return call(self.amqp_url, self.management_url, method, path, body)

    def empty(self) -> None:
        """Wait for consumers, purge all queues, and forget the faults and what became of messages before.

        Warns of a consumer that still holds a delivery.
        """
        self.clock.pass_time(0)
        super().empty()
        self.faults.clear()
        self.server.run(_record_all)
        self.clock.note_held()
        for remark in self.clock.remarks():
            waits = f"Before a test, the clock waits up to {self.clock.answer_within_s:g} s for it"
            warnings.warn(f"{remark} {waits} (dlx_answer_within_s).", stacklevel=2)

    def _hear(self) -> None:
        hear_clients(self.server)

    def _ready(self, queue: str) -> int | None:
        return self.server.run(lambda node: self._ready_in(node, queue))

    def _ready_in(self, node: Node, queue: str) -> int | None:
        found = node.broker.vhosts[self.vhost].queues.get(queue)
        return None if found is None else found.store.ready

    def _pass_time_until_ready(
        self, queue: str, messages: int, within_us: int, answer_within_s: float | None
    ) -> int | None:
        began_us = self.clock.now_us()
        ended_us = self.clock.pass_time(
            within_us,
            lambda node: self._ready_in(node, queue) == messages,
            answer_within_s=answer_within_s,
            instead="await dlx_broker.wait_for_async(...)",
        )
        return ended_us - began_us if self._ready(queue) == messages else None

    def _in_queues(self) -> list[str]:
        return [*self.clock.remarks(), *self.server.run(lambda node: waiting(node.broker, self.vhost))]


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


def _of_tls(given: T | None) -> T:
    """Return what a broker with TLS has."""
    if given is None:
        raise AttributeError("this broker has no TLS: add @pytest.mark.dlx_tls to the test")
    return given


def _record_all(node: Node) -> None:
    assert isinstance(node.broker, RecordingBroker)  # it serves the management API
    node.broker.histories = MessageHistories(HISTORIES_MAX, node.broker.last_uid + 1)


def _import_simulated(broker: SimulatedBroker, topology: OneTopology) -> None:
    broker.server.handle(AddVhost(broker.vhost, topology.default_queue_type))
    document = {**topology.document, "original_vhost_name": broker.vhost}
    definitions = Definitions(document, topology.source)
    broker.server.run(lambda node: import_definitions(node.broker, definitions, node.clock.now_us()))
