"""What a server says to declarations of a topology that is not the one it has: asked of a broker of the release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from dlx.settings import effective_settings
from dlx.topology import Exchange, Queue
from simulator.analysis.findings import ObjectName
from simulator.analysis.plan.changes import Change
from simulator.analysis.snapshot import Snapshot
from simulator.bootstrap import add_user
from simulator.broker import Broker, OperatorError
from simulator.broker.commands import (
    ChannelId,
    Command,
    DeclareExchange,
    DeclareQueue,
    ImportDefinitions,
    OpenChannel,
    OpenConnection,
)
from simulator.broker.replies import ChannelClosed, ConnectionClosed
from simulator.scenario.player import START_US

USER = "who makes the change"


class Answer(msgspec.Struct, frozen=True):
    """What a server says to the declaration of one object: its code (0 where it says nothing) and its words."""

    about: ObjectName
    code: int
    text: str


class Client:
    """A client of a broker that may do everything. It opens a channel to each virtual host when it needs one."""

    def __init__(self, broker: Broker, now_us: int = START_US) -> None:
        self.broker, self._now_us = broker, now_us
        self._channels: dict[str, ChannelId] = {}
        add_user(broker, USER, now_us)

    def channel(self, vhost: str) -> ChannelId:
        """Return a channel to the virtual host that is open."""
        known = self._channels.get(vhost)
        if known is None or known not in self.broker.channels:
            numbers = (f"{USER} {number}" for number in count(1))
            connection = next(each for each in numbers if each not in self.broker.connections)
            known = self._channels[vhost] = connection, 1
            self.broker.handle(OpenConnection(connection, vhost, USER, limited=False), self._now_us)
            self.broker.handle(OpenChannel(known), self._now_us)
        return known

    def told(self, command: Command) -> tuple[int, str]:
        """Give a command, and return the code and the words of its refusal: 0 and nothing where it is done."""
        for reply in self.broker.handle(command, self._now_us):
            if isinstance(reply, ChannelClosed | ConnectionClosed):
                return reply.code, reply.text
        return 0, ""

    def declare(self, vhost: str, part: Queue | Exchange) -> tuple[int, str]:
        """Declare a queue or an exchange, and return what ``told`` does."""
        flags: dict[str, Any] = {"durable": part.durable, "auto_delete": part.auto_delete, "arguments": part.arguments}
        if isinstance(part, Queue):
            return self.told(DeclareQueue(channel=self.channel(vhost), queue=part.name, **flags))
        exchange: dict[str, Any] = {"exchange": part.name, "type": part.type, "internal": part.internal}
        return self.told(DeclareExchange(channel=self.channel(vhost), **exchange, **flags))


def answers(broker: Broker, changes: Sequence[Change], *, old: bool = False) -> list[Answer]:
    """Return what a broker says where clients declare changed queues and exchanges as they will be, or as they were.

    The broker has the objects afterwards that it did not refuse.
    """
    client = Client(broker)
    found = []
    for change in changes:
        part = change.before if old else change.after
        if change.what == "changed" and isinstance(part, Queue | Exchange):
            found.append(Answer(change.about, *client.declare(change.about.vhost, part)))
    return found


def unchanged_by_import(
    broker: Broker, documents: Iterator[tuple[str, dict[str, Any]]], changes: Sequence[Change]
) -> list[ObjectName]:
    """Import documents into virtual hosts, and return the queues and exchanges that stay as they were all the same."""
    for vhost, document in documents:
        try:
            broker.handle(ImportDefinitions(document, vhost), START_US)
        except OperatorError:
            continue  # what it refused stays as it was
    return [each.about for each in changes if each.what == "changed" and _stays(broker, each)]


def _stays(broker: Broker, change: Change) -> bool:
    vhost = broker.vhosts[change.about.vhost]
    if isinstance(change.before, Queue):
        return vhost.definitions.get(change.about.name) == change.before
    return isinstance(change.before, Exchange) and vhost.exchanges.get(change.about.name) == change.before


def to_recreate(after: Snapshot, changes: Sequence[Change], told: Sequence[Answer]) -> list[Change]:
    """Return the changes for which an object has to be deleted: the server refuses it, or it would go on otherwise."""
    refused = {answer.about for answer in told if answer.code}
    return [each for each in changes if each.what == "changed" and (each.about in refused or _acts(after, each))]


def _acts(after: Snapshot, change: Change) -> bool:
    """Tell whether an object does other things by its arguments alone, though no server compares them.

    Those of exchanges of plugins' types all count.
    """
    if isinstance(change.before, Exchange) and isinstance(change.after, Exchange):
        return not {change.before.type, change.after.type} <= after.release.exchange_types
    if not isinstance(change.before, Queue) or not isinstance(change.after, Queue):
        return False
    topology = after.topologies[change.about.vhost]
    one, other = (effective_settings(each, topology, after.release) for each in (change.before, change.after))
    return {key: each.value for key, each in one.values.items()} != {
        key: each.value for key, each in other.values.items()
    }
