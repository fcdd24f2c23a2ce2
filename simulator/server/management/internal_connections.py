"""The API's own connections to the broker: what is declared, published and got over HTTP goes through one.

RabbitMQ does so too, so the broker's refusals are AMQP's. Two kinds of callers
show them differently: declarations leave out the name of the reply code, publishing
and getting show all of it.

Source: rabbit_mgmt_util.erl direct_request, with_channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simulator.broker.commands import ChannelId, CloseConnection, Command, OpenChannel, OpenConnection
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Reply
from simulator.server.management.http_errors import ApiError, bad_request, not_authorised, not_found
from simulator.server.management.request import Call
from simulator.server.node import Node


class PrivateId:
    """The identity of a private connection: nobody else's, and not stored anywhere."""

    def __init__(self, node: Node, number: int) -> None:
        self.name = f"<{node.broker.node}.{node.started_us // 1_000_000}.{number}.0>"


class Closed(Exception):
    """The broker refused a command, and with it the channel or (``hard``) the connection."""

    def __init__(self, code: int, text: str, *, hard: bool) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hard = hard

    @property
    def explanation(self) -> str:
        """The text without the name of the code in front."""
        return self.text.partition(" - ")[2] or self.text


class PrivateChannel:
    """One channel on a connection of its own; ``number`` tells it from the node's others."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.connection = PrivateId(node, number)
        self.id: ChannelId = (self.connection, 1)

    def open(self, vhost: str, user: str) -> None:
        """Connect. Raises ``Closed`` when the user may not enter the virtual host."""
        self.run(OpenConnection(self.connection, vhost, user, self.connection.name))
        self.run(OpenChannel(self.id))

    def run(self, command: Command) -> list[Reply]:
        """The broker's answers to a command on this channel. Raises ``Closed`` when it refuses."""
        replies = [reply for reply in self.node.handle(command) if isinstance(reply, Reply)]
        for reply in replies:
            if isinstance(reply, ChannelClosed | ConnectionClosed):
                raise Closed(reply.code, reply.text, hard=isinstance(reply, ConnectionClosed))
        return replies

    def close(self) -> None:
        """Disconnect; what was not acknowledged goes back."""
        self.node.handle(CloseConnection(self.connection))


@contextmanager
def getting_channel(call: Call) -> Iterator[PrivateChannel]:
    """A channel in the request's virtual host; refusals are shown with their code's name."""
    with _opened(call, _shown_whole) as channel:
        yield channel


@contextmanager
def publishing_channel(call: Call) -> Iterator[PrivateChannel]:
    """A channel in the request's virtual host; every refusal is a bad request, shown with its code."""
    with _opened(call, _shown_with_code) as channel:
        yield channel


def declare(call: Call, command: Callable[[ChannelId], Command]) -> None:
    """Run one declaration or deletion in the request's virtual host."""
    call.needed_vhost()
    with _opened(call, _shown_short) as channel:
        channel.run(command(channel.id))


@contextmanager
def _opened(call: Call, shown: Callable[[Closed], ApiError]) -> Iterator[PrivateChannel]:
    channel = PrivateChannel(call.node, next(call.management.numbers))
    try:
        try:
            channel.open(call.vhost_name or "/", call.user.name)
        except Closed as closed:
            raise not_authorised("Access refused.") from closed
        yield channel
    except Closed as closed:
        raise shown(closed) from closed
    finally:
        channel.close()


def _shown_short(closed: Closed) -> ApiError:
    if closed.code == 404:
        return not_found(closed.explanation)
    if closed.code in (403, 530):
        return not_authorised("Access refused.")
    return bad_request(closed.explanation)


def _shown_whole(closed: Closed) -> ApiError:
    if closed.code == 404 and not closed.hard:
        return not_found(closed.text)
    if closed.code == 403 and not closed.hard:
        return not_authorised(closed.text)
    return _shown_with_code(closed)


def _shown_with_code(closed: Closed) -> ApiError:
    return bad_request(f"{closed.code} {closed.explanation if closed.hard else closed.text}")
