"""A channel that the API opens for itself, on a connection of its own, as RabbitMQ's management plugin does.

Source: rabbit_mgmt_util.erl with_channel.
"""

from __future__ import annotations

from dlx.amqp_errors import NAMES
from simulator.broker.commands import ChannelId, CloseConnection, Command, OpenChannel, OpenConnection
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Reply
from simulator.server.node import Node


class InternalConnectionId:
    """Identifies a connection of the API's own in the broker."""

    def __init__(self, node: Node, number: int) -> None:
        self.name = f"<{node.broker.node}.{node.started_us // 1_000_000}.{number}.0>"


class RefusedByBroker(Exception):
    """The broker refused a command, and closed the channel or (``hard``) the connection."""

    def __init__(self, code: int, text: str, *, hard: bool, uncut: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hard = hard
        self.uncut = uncut or text

    @property
    def is_crash(self) -> bool:
        """Whether the broker ran into something that it did not foresee."""
        return self.code == 541 and self.uncut == NAMES[541]

    @property
    def explanation(self) -> str:
        """The whole text without the name of the code in front."""
        return self.uncut.partition(" - ")[2] or self.uncut


class InternalChannel:
    """One channel on a connection of its own; ``number`` differs for each of the node's."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.connection = InternalConnectionId(node, number)
        self.id: ChannelId = (self.connection, 1)

    def open(self, vhost: str, user: str, *, limited: bool = True) -> None:
        """Connect; unless ``limited``, beyond all limits. Raises ``RefusedByBroker`` when the user may not."""
        self.run(OpenConnection(self.connection, vhost, user, self.connection.name, limited=limited))
        self.run(OpenChannel(self.id))

    def run(self, command: Command) -> list[Reply]:
        """Return the broker's answers to a command on this channel. Raises ``RefusedByBroker``."""
        replies = [reply for reply in self.node.handle(command) if isinstance(reply, Reply)]
        for reply in replies:
            if isinstance(reply, ChannelClosed):
                raise RefusedByBroker(reply.code, reply.text, hard=False, uncut=reply.uncut)
            if isinstance(reply, ConnectionClosed):
                raise RefusedByBroker(reply.code, reply.text, hard=True, uncut=reply.uncut)
        return replies

    def close(self) -> None:
        """Disconnect; messages that were not acknowledged go back to their queues."""
        self.node.handle(CloseConnection(self.connection))
