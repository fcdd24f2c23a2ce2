"""The connections and channels of a script, by name, and the events that arrive on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.differential.client import CAPABILITIES, Connection, Incoming
from tests.differential.operations import OpenConnection
from tests.differential.transcript import Event, Names, event


class Channel(msgspec.Struct):
    """An open channel: its number, the tags it received, and what it published that is not confirmed yet."""

    name: str
    number: int
    connection: Connection
    received: list[int] = []
    unanswered: set[int] = set()
    automatic: set[str] = set()  # consumers that acknowledge by receiving
    transactional: bool = False
    confirming: bool = False
    published: int = 0
    unconfirmed: set[int] = set()

    def receive(self, incoming: Incoming) -> None:
        """Remember the tag of a delivery."""
        tag = incoming.values["delivery_tag"]
        self.received.append(tag)
        if incoming.values.get("consumer_tag") not in self.automatic:
            self.unanswered.add(tag)

    def answer(self, delivery: int, *, multiple: bool) -> int | None:
        """The tag to answer the delivery of that index with; ``None`` if there is nothing to answer."""
        if not -len(self.received) <= delivery < len(self.received):
            return None
        tag = self.received[delivery]
        if self.transactional:  # a rollback takes answers back
            return tag
        if tag not in self.unanswered:
            return None
        self.unanswered -= {each for each in self.unanswered if each == tag or (multiple and each < tag)}
        return tag

    def published_one(self) -> None:
        """Remember a publish if it will be confirmed."""
        if self.confirming:
            self.published += 1
            self.unconfirmed.add(self.published)


class _Client:
    """A connection and its channels by name; a name keeps its number."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.channels: dict[str, Channel] = {}
        self.numbers: dict[str, int] = {}

    def name(self, number: int) -> str | None:
        return next((name for name, given in self.numbers.items() if given == number), None)


class Session:
    """Opens what is used and not open; ``events`` has what was seen since it was last emptied.

    Channels are named ``connection`` or ``connection/anything``.
    """

    def __init__(self, url: str, vhost: str, names: Names) -> None:
        self._url, self._vhost, self._names = url, vhost, names
        self._clients: dict[str, _Client] = {}
        self._logins: dict[str, OpenConnection] = {}
        self.events: list[Event] = []

    # -- connections and channels

    def open(self, login: OpenConnection) -> None:
        """Open a connection, now and whenever it is needed again."""
        self._logins[login.connection] = login
        self._client(login.connection)

    def close(self, name: str, *, kill: bool = False) -> None:
        """Close a connection, or cut it; nothing if it is not open."""
        client = self._clients.get(name)
        if client is not None:
            (client.connection.kill if kill else client.connection.close)()
            self.collect_from(name)
            self._clients.pop(name, None)

    def close_channel(self, at: str) -> None:
        """Close a channel as a client does; one that is not open is opened before."""
        channel = self.channel(at)
        if channel is not None:
            answer = channel.connection.call(channel.number, "channel.close", code=200, text="bye")
            self.see(answer, at)
            client = self._clients.get(_connection(at))
            if client is not None:
                client.channels.pop(at, None)

    def end(self) -> None:
        """Cut everything."""
        for client in self._clients.values():
            client.connection.kill()
        self._clients.clear()

    def channel(self, at: str) -> Channel | None:
        """The channel of that name, opened if it is not; ``None`` if the server refuses, which is noted."""
        self.collect_from(_connection(at))
        client = self._client(_connection(at))
        if client is None:
            return None
        if at not in client.channels:
            number = client.numbers.setdefault(at, len(client.numbers) + 1)
            answer = client.connection.call(number, "channel.open")
            if answer.is_close:
                self.see(answer, at)
                return None
            client.channels[at] = Channel(at, number, client.connection)
        return client.channels[at]

    def _client(self, name: str) -> _Client | None:
        if name not in self._clients:
            login = self._logins.get(name, OpenConnection(name))
            connection = Connection(
                self._url,
                self._vhost,
                self._names.user(login.user) if login.user else None,
                login.password or login.user,
                CAPABILITIES if login.capabilities is None else login.capabilities,
            )
            if connection.opened.is_close:
                self.events.append(event(connection.opened, name))
                connection.kill()
                return None
            self._clients[name] = _Client(connection)
        return self._clients[name]

    def _channels(self, at: str) -> Iterator[Channel]:
        """All open channels: that one, then those of its connection, then the others by name."""
        here = _connection(at)
        for name in sorted(self._clients, key=lambda name: (name != here, name)):
            client = self._clients[name]
            for where in sorted(client.channels, key=lambda where: (where != at, where)):
                if where in client.channels:
                    yield client.channels[where]

    # -- what arrives

    def call(self, at: str, method: str, **values: Any) -> Incoming | None:
        """Send a method, note what arrived before the answer, and the answer; ``None`` without a channel."""
        channel = self.channel(at)
        if channel is None:
            return None
        answer = channel.connection.call(channel.number, method, **values)
        self.see(answer, at)
        return answer

    def see(self, answer: Incoming, at: str) -> None:
        """Note an answer, and what arrived before it."""
        self._empty_inbox(_connection(at))
        self._note(answer, at)
        if answer.method in ("connection.close", "connection lost"):
            self._clients.pop(_connection(at), None)

    def collect(self, at: str = "") -> None:
        """Note what has arrived on all connections, that of the channel ``at`` first."""
        here = _connection(at)
        for name in sorted(self._clients, key=lambda name: (name != here, name)):
            self.collect_from(name)

    def collect_from(self, name: str) -> None:
        """Note what has arrived on a connection."""
        client = self._clients.get(name)
        if client is None:
            return
        client.connection.pump()
        self._empty_inbox(name)
        if not client.connection.is_open:
            self._clients.pop(name, None)

    def _empty_inbox(self, name: str) -> None:
        client = self._clients.get(name)
        if client is not None:
            inbox = client.connection.inbox
            for number in sorted(inbox):
                for incoming in inbox.pop(number):
                    self._note(incoming, client.name(number) or name)

    def exchange(self, at: str) -> None:
        """One request and its answer on every open channel, ``at`` first: what was sent before has arrived."""
        for channel in list(self._channels(at)):
            client = self._clients.get(_connection(channel.name))
            if client is None or client.channels.get(channel.name) is not channel:
                continue  # an answer closed it
            answer = channel.connection.call(channel.number, "channel.flow", active=True)
            if answer.is_close:
                self.see(answer, channel.name)

    def unconfirmed(self) -> bool:
        """Whether a publish still waits for its confirm."""
        return any(channel.unconfirmed for channel in self._channels(""))

    def _note(self, incoming: Incoming, at: str) -> None:
        client = self._clients.get(_connection(at))
        channel = client.channels.get(at) if client else None
        if client is not None and channel is not None:
            match incoming.method:
                case "basic.deliver" | "basic.get-ok":
                    channel.receive(incoming)
                case "basic.ack" | "basic.nack":
                    self.events.append(_confirm(incoming, channel))
                    return
                case "channel.close":
                    del client.channels[at]
        if incoming.values or not incoming.method.endswith("-ok"):
            self.events.append(event(incoming, at))


def _connection(at: str) -> str:
    return at.partition("/")[0]


def _confirm(incoming: Incoming, channel: Channel) -> Event:
    """The publishes that a confirm is about, one by one."""
    tag = incoming.values["delivery_tag"]
    numbers = [n for n in channel.unconfirmed if n <= tag] if incoming.values["multiple"] else [tag]
    channel.unconfirmed.difference_update(numbers)
    which = "acked" if incoming.method == "basic.ack" else "nacked"
    return {"event": "confirms", "on": channel.name, "acked": [], "nacked": []} | {which: sorted(numbers)}
