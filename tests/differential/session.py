"""The connections and channels of a script, by name, and the events that arrive on them."""

from __future__ import annotations

from collections.abc import Callable
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
    listening: bool = False  # whether anything may arrive that is no answer
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

    def open_channels(self, first: str, which: Callable[[Channel], bool]) -> dict[int, str]:
        """Numbers and names of such channels, ``first`` before the others."""
        names = sorted(self.channels, key=lambda name: (name != first, name))
        return {self.channels[name].number: name for name in names if which(self.channels[name])}

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

    def _in_order(self, here: str) -> list[tuple[str, _Client]]:
        """The open connections: that one, then the others by name."""
        return sorted(self._clients.items(), key=lambda item: (item[0] != here, item[0]))

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
        for name, _ in self._in_order(_connection(at)):
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

    def exchange(self, at: str, which: Callable[[Channel], bool] = lambda channel: True) -> None:
        """A request and its answer on every such open channel, ``at`` first: what was sent before has arrived."""
        asked = [(name, client, client.open_channels(at, which)) for name, client in self._in_order(_connection(at))]
        for _, client, channels in asked:
            client.connection.send_all((number, "channel.flow", {"active": True}) for number in channels)
        for name, client, channels in asked:
            for number, answer in client.connection.answers(list(channels), "channel.flow-ok").items():
                if answer.is_close and self._clients.get(name) is client:
                    self.see(answer, channels[number])

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._clients)

    def unconfirmed(self) -> bool:
        """Whether a publish still waits for its confirm."""
        clients = self._clients.values()
        return any(channel.unconfirmed for client in clients for channel in client.channels.values())

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
