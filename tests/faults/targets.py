"""What the faults are tried on: a simulator of each release, in this process, and the live servers there are."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pika

import simulator
from simulator.broker.commands import AddVhost, DeleteVhost, SetPermissions
from simulator.server.in_process import Server
from tests.faults.cases import CASES
from tests.faults.wire import Wire
from tests.live.servers import LiveServer


@dataclass(frozen=True)
class Target:
    """A server to be ill-treated. ``at_once``: how many cases it is asked together."""

    release: str
    amqp_url: str
    server: LiveServer | Server
    settle_s: float
    at_once: int

    @property
    def is_live(self) -> bool:
        return isinstance(self.server, LiveServer)

    @property
    def name(self) -> str:
        """Such as ``simulated-4.3``."""
        return f"{'live' if self.is_live else 'simulated'}-{self.release}"

    @contextmanager
    def vhosts(self, count: int) -> Iterator[list[str]]:
        """Fresh virtual hosts, gone afterwards."""
        names = [f"dlx-faults-{uuid.uuid4().hex[:8]}" for _ in range(count)]
        try:
            for name in names:
                self._add_vhost(name)
            yield names
        finally:
            for name in names:
                self._delete_vhost(name)

    def wire(self, vhost: str) -> Wire:
        """A connection that has sent nothing yet."""
        return Wire(self.amqp_url, vhost, self.settle_s)

    @contextmanager
    def client(self, vhost: str) -> Iterator[Any]:
        """A channel of a client that behaves."""
        parameters = pika.URLParameters(f"{self.amqp_url.rstrip('/')}/{vhost}")
        parameters.blocked_connection_timeout = parameters.socket_timeout = 30
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    def answers(self, names: list[str]) -> dict[str, list[str]]:
        """What it answers to the cases of these names."""
        count = min(self.at_once, len(names))
        with self.vhosts(count) as vhosts, ThreadPoolExecutor(count) as pool:
            free: SimpleQueue[str] = SimpleQueue()
            for vhost in vhosts:
                free.put(vhost)
            return dict(zip(names, pool.map(lambda name: self._borrowing(free, name), names), strict=True))

    def _borrowing(self, free: SimpleQueue[str], name: str) -> list[str]:
        vhost = free.get()
        try:
            return self.answer(vhost, name)
        finally:
            free.put(vhost)

    def answer(self, vhost: str, name: str) -> list[str]:
        """What it answers to a case; a line of ours where even the way there failed."""
        with self.wire(vhost) as wire:
            try:
                CASES[name](wire)
            except AssertionError as error:
                return [f"not as far as the case: {error}"]
            found = [line.replace(vhost, "VHOST") for line in wire.drain()]
            if not wire.ended:
                wire.close()
            return found

    def _add_vhost(self, name: str) -> None:
        if isinstance(self.server, LiveServer):
            self.server.api("PUT", f"vhosts/{name}", {})
            permissions = {"configure": ".*", "write": ".*", "read": ".*"}
            self.server.api("PUT", f"permissions/{name}/guest", permissions)
        else:
            self.server.handle(AddVhost(name))
            self.server.handle(SetPermissions("guest", name, ".*", ".*", ".*"))

    def _delete_vhost(self, name: str) -> None:
        if isinstance(self.server, LiveServer):
            self.server.api("DELETE", f"vhosts/{name}")
        else:
            self.server.handle(DeleteVhost(name))


def live(server: LiveServer) -> Target:
    """Channels of a real server are processes of their own: it settles late."""
    return Target(server.release, server.amqp_url, server, settle_s=0.5, at_once=16)


@contextmanager
def simulated(release: str) -> Iterator[Target]:
    """A simulator of the release; it answers in order, so that nothing comes after the answer to the last question."""
    with simulator.serve(release, clock="wall") as server:
        yield Target(release, server.amqp_url, server, settle_s=0.02, at_once=64)
