"""A channel that the API opens for itself, on a connection of its own, as RabbitMQ's management plugin does.

Requests declare, publish and get through one, so the broker checks what they do. Its refusals are therefore AMQP's:
declarations show them without the name of the reply code; publishing and getting show the whole text.

Source: rabbit_mgmt_util.erl direct_request, with_channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from dlx.amqp_errors import NAMES
from simulator.broker.commands import ChannelId, CloseConnection, Command, OpenChannel, OpenConnection
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Reply
from simulator.server.management.http_errors import (
    ApiError,
    HandlerCrash,
    bad_request,
    crashed,
    not_authorised,
    not_found,
    told,
)
from simulator.server.node import Node

if TYPE_CHECKING:
    from simulator.server.management.request import Request


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


# What requests do through it


def getting_channel(request: Request) -> AbstractContextManager[InternalChannel]:
    """Open a channel in the request's virtual host; refusals show the name of their code."""
    return _opened(request, _shown_whole)


def publishing_channel(request: Request) -> AbstractContextManager[InternalChannel]:
    """Open a channel in the request's virtual host; every refusal is a bad request that shows its code."""
    return _opened(request, _shown_with_code)


def declare(request: Request, command: Callable[[ChannelId], Command]) -> None:
    """Run one declaration or deletion in the request's virtual host. RabbitMQ needs no connection for it."""
    request.needed_vhost()
    with _opened(request, _shown_short, limited=False) as channel:
        try:
            channel.run(command(channel.id))
        except RefusedByBroker as refusal:
            if refusal.is_crash:
                raise crashed(request.broker.node, "an internal error") from refusal
            raise


@contextmanager
def _opened(
    request: Request, shown: Callable[[RefusedByBroker], ApiError], *, limited: bool = True
) -> Iterator[InternalChannel]:
    channel = request.management.new_channel()
    try:
        try:
            channel.open(request.vhost_name or "/", request.user.name, limited=limited)
        except RefusedByBroker as refusal:
            raise not_authorised("Access refused.") from refusal
        yield channel
    except RefusedByBroker as refusal:
        raise (HandlerCrash() if refusal.is_crash else told(shown(refusal), request.api)) from refusal
    finally:
        channel.close()


def _shown_short(refusal: RefusedByBroker) -> ApiError:
    if refusal.code == 404:
        return not_found(refusal.explanation)
    if refusal.code in (403, 530):
        return not_authorised("Access refused.")
    return bad_request(refusal.explanation)


def _shown_whole(refusal: RefusedByBroker) -> ApiError:
    if refusal.code == 404 and not refusal.hard:
        return not_found(refusal.text)
    if refusal.code == 403 and not refusal.hard:
        return not_authorised(refusal.text)
    return _shown_with_code(refusal)


def _shown_with_code(refusal: RefusedByBroker) -> ApiError:
    return bad_request(f"{refusal.code} {refusal.explanation if refusal.hard else refusal.text}")
