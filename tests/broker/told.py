"""A broker for a test to tell commands, one client and one channel of it, and a time that the test moves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlx.server_plugins import named_plugins
from simulator.broker import Broker
from simulator.broker.commands import Command, DeclareQueue, Get, OpenChannel, OpenConnection, PassTime, Publish, Reject
from simulator.broker.replies import Delivered, Got

CHANNEL = ("client", 1)


class Told:
    """A broker of a release, with plugins by their short names."""

    def __init__(self, release: str, plugins: Iterable[str] = ()) -> None:
        self.broker = Broker(release, plugins=named_plugins(plugins))
        self.now_ms = 1_700_000_000_000
        self(OpenConnection("client"), OpenChannel(CHANNEL))

    def __call__(self, *commands: Command) -> list[Any]:
        """Tell it these; what it answers."""
        return [reply for command in commands for reply in self.broker.handle(command, self.now_ms * 1_000)]

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms
        self(PassTime())

    def queue(self, name: str, **arguments: Any) -> None:
        """Declare a durable queue; arguments are written as ``x_max_length=1``."""
        table = {key.replace("_", "-"): value for key, value in arguments.items()}
        self(DeclareQueue(channel=CHANNEL, queue=name, durable=True, arguments=table))

    def publish(self, queue: str, body: str = "", **properties: Any) -> list[Any]:
        """Publish to a queue; what the broker says."""
        return self(Publish(CHANNEL, "", queue, properties, body.encode()))

    def rejected(self, queue: str) -> None:
        """Get a message and reject it for good."""
        (got,) = self(Get(CHANNEL, queue))
        self(Reject(CHANNEL, got.delivery_tag, False))

    def drained(self, queue: str) -> list[Got]:
        """Get all messages of a queue, without acknowledgements."""
        found = []
        while isinstance(got := self(Get(CHANNEL, queue, no_ack=True))[0], Got):
            found.append(got)
        return found


def bodies(found: Iterable[Got]) -> list[str]:
    """The bodies of messages."""
    return [each.body.decode() for each in found]


def deliveries(replies: Iterable[Any]) -> list[tuple[str, str]]:
    """Consumer and body of each delivery among replies."""
    return [(reply.consumer_tag, reply.body.decode()) for reply in replies if isinstance(reply, Delivered)]
