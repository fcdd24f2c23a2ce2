"""Sessions, links, outcomes and ``/management`` of AMQP 1.0: every frame that a server sends, played on any server.

``python -m tests.amqp10.session_transcripts`` records the servers of 4.0 and 4.3 in ``DLX_LIVE_SERVERS``.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import pika
from proton import Array, Described, char, int32, symbol, timestamp, uint, ulong

from simulator.broker import Broker
from simulator.broker.commands import (
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Publish,
    SetPermissions,
    SetTopicPermissions,
)
from simulator.broker.replies import Reply
from simulator.clock import VirtualClock
from simulator.server.amqp.connection import ServerSettings
from simulator.server.amqp.contents import DeliveryEncoder
from simulator.server.amqp10.connection import Connection
from simulator.server.amqp10.frames import (
    Accepted,
    Attach,
    Begin,
    Codec,
    Composite,
    Detach,
    Disposition,
    End,
    Flow,
    Header,
    Modified,
    Open,
    Properties,
    Rejected,
    Released,
    Source,
    Target,
    Transfer,
    frame,
    symbols,
)
from simulator.server.management.internal_channel import InternalChannel
from simulator.server.node import Node
from tests.amqp10.wire import WireClient
from tests.live.servers import LiveServer, fresh_vhost, given

RECORDED = Path(__file__).parent / "recorded"
RELEASES = ("4.0", "4.3")
TYPES = ("classic", "quorum")
OUTCOMES: dict[str, Any] = {
    "accepted": Accepted(),
    "rejected": Rejected(),
    "released": Released(),
    "modified": Modified(),
    "modified-failed": Modified(delivery_failed=True),
    "modified-undeliverable": Modified(undeliverable_here=True),
    "modified-both": Modified(delivery_failed=True, undeliverable_here=True),
    "modified-annotations": Modified(message_annotations={symbol("x-opt-why"): "because", symbol("x-n"): 7}),
}
_GENERATED = re.compile(r"amq\.[\w.+/=-]+-[\w.+/=%-]{8,}|\d{13}")
UNTYPED: dict[str, Any] = {
    **{"char": char("a"), "timestamp": timestamp(1_000), "list": ["a", 1]},
    **{"double": 1.5, "null": None, "uuid": UUID("00112233-4455-6677-0819-1a2b3c4d5e6f"), "binary": b"\0\1"},
}
LATE = {symbol("rabbitmq:consumer-timeout"): uint(1_000)}
QUIET_S = 0.25  # after which a real server has sent what it sends
_INTERNAL = re.compile(r"description=.\{?((?:Reader error|Unexpected frame|\w+)).*", re.DOTALL)
Script = Callable[["Player"], None]


class Player:
    """One connection with one session, and what the server sent."""

    def __init__(
        self, client: WireClient, vhost: str, port: int, server: LiveServer | None = None, **fields: Any
    ) -> None:
        self.seen: list[str] = []
        self.server = server
        self.client = client
        self.vhost = vhost
        self.port = port
        self.opened = self.client.open(vhost, **fields)
        self.seen_id = int(self.client.begin().next_outgoing_id or 0)
        self.names = 0
        self.unsettled: list[int] = []
        self.sorts = False

    def send(self, performative: Composite, payload: bytes = b"", *, quiet: bool = True) -> None:
        """Send a frame, and note what comes back."""
        self.client.send(performative, payload)
        if quiet:
            self.listen()

    def listen(self) -> None:
        """Note what the server sends until it is quiet."""
        before = len(self.seen)
        self.client.socket.settimeout(QUIET_S)
        try:
            while True:
                _, found, payload = self.client.receive()
                if isinstance(found, Transfer):
                    self.seen_id = (self.seen_id + 1) % 2**32
                    if not found.settled:
                        self.unsettled.append(int(found.delivery_id or 0))
                sections = "".join(f"\n      {self.shown(each)}" for each in self.client.sections(payload))
                self.note(f"{self.shown(found)}{sections if not getattr(found, 'more', False) else ' …'}")
        except TimeoutError:
            pass
        except (EOFError, ConnectionError):
            self.note("(the connection is closed)")
        finally:
            self.client.socket.settimeout(5)
        if self.sorts:
            self.seen[before:] = sorted(self.seen[before:])

    def note(self, text: str) -> None:
        """Note something without what differs each time, and an internal error without what follows its first words."""
        text = _INTERNAL.sub(r"description=\1…", text) if "internal-error" in text else text
        self.seen.append(_GENERATED.sub("…", text if self.vhost == "/" else text.replace(self.vhost, "/")))

    def count(self, since: int) -> None:
        """Put how many messages came over each link in place of what was noted of them."""
        noted = self.seen[since:]
        counts = Counter(line.partition("(handle=uint(")[2].partition(")")[0] for line in noted if _is_transfer(line))
        self.seen[since:] = [f"{counts[handle]} messages over link {handle}" for handle in sorted(counts)]
        self.seen += [line for line in noted if not _is_transfer(line)]

    def shown(self, value: Any) -> str:
        """Return a value as text."""
        if isinstance(value, Composite):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            told = {name: self.shown(field) for name, field in fields.items() if field is not None}
            return f"{type(value).__name__}({', '.join(f'{name}={field}' for name, field in told.items())})"
        if isinstance(value, Described):
            return f"{value.descriptor!r}:{self.shown(value.value)}"
        if isinstance(value, dict):
            pairs = sorted(f"{self.shown(key)}: {self.shown(field)}" for key, field in value.items())
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, Array):
            return f"[{', '.join(map(self.shown, value.elements))}]"
        if isinstance(value, list):
            return f"[{', '.join(map(self.shown, value))}]"
        return repr(value).replace("symbol(", "(")

    # What scripts do

    def sender(self, address: str | None, handle: int = 0, **fields: Any) -> None:
        """Attach a link to publish over."""
        target = fields.pop("target", Target(address=address))
        self.send(
            Attach(
                name=f"out{handle}",
                handle=handle,
                role=False,
                source=Source(),
                target=target,
                **{"initial_delivery_count": 0, **fields},
            )
        )

    def receiver(self, address: str | None, handle: int = 1, credit: int | None = 10, **fields: Any) -> None:
        """Attach a link to consume over, and grant credit."""
        source = fields.pop("source", Source(address=address))
        self.send(Attach(name=f"in{handle}", handle=handle, role=True, source=source, target=Target(), **fields))
        if credit is not None:
            self.credit(handle, credit)

    def credit(self, handle: int, credit: int, **fields: Any) -> None:
        """Send a flow for a link."""
        self.send(self.flow(handle, credit, **fields))

    def flow(self, handle: int, credit: int, **fields: Any) -> Flow:
        """Return a flow for a link."""
        window = {"incoming_window": 1000, "next_outgoing_id": 0, "outgoing_window": 1000, **fields}
        return Flow(next_incoming_id=self.seen_id, handle=handle, link_credit=credit, **window)

    def publish(
        self, body: bytes, handle: int = 0, *, id: int = 0, header: Header | None = None, **fields: Any
    ) -> None:
        """Publish a message."""
        self.send(
            Transfer(**{"handle": handle, "delivery_id": id, "delivery_tag": bytes([id]), "settled": False, **fields}),
            self.message(body, header=header),
        )

    def fill(self, queue: str, kind: str, messages: int, header: Header | None = None) -> None:
        """Declare a queue, attach a link to it, and publish some messages, whose bodies are their numbers."""
        self.declare(queue, kind)
        self.sender(f"/queues/{queue}")
        for number in range(messages):
            self.publish(b"%d" % number, id=number, header=header)

    def message(self, body: bytes, *, header: Header | None = None, **properties: Any) -> bytes:
        """Return a message."""
        encode = self.client.codec.encode
        sections = [] if header is None else [encode(header)]
        sections += [encode(Properties(**properties))] if properties else []
        return b"".join([*sections, encode(Described(ulong(0x75), body))])

    def wait(self, ms: int) -> None:
        """Let time pass, and note what the server sends by itself."""
        time.sleep(ms / 1_000)
        self.listen()

    def settle(self, outcome: Any, first: int = 0, last: int | None = None, *, settled: bool = True) -> None:
        """Settle deliveries."""
        self.send(Disposition(role=True, first=first, last=last, settled=settled, state=outcome))

    def detach(self, handle: int) -> None:
        """Detach a link."""
        self.send(Detach(handle=handle, closed=True))

    def declare(self, name: str, kind: str = "classic", **arguments: Any) -> None:
        """Declare a queue by AMQP 0-9-1."""
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        with self._channel() as channel:
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **given})

    def load(self, queue: str, messages: int) -> None:
        """Publish messages to a queue by AMQP 0-9-1."""
        with self._channel() as channel:
            channel.confirm_delivery()
            for _ in range(messages):
                channel.basic_publish("", queue, b"x")

    def ready(self, queue: str) -> int:
        """Return how many messages of a queue are ready."""
        with self._channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.message_count)

    def delete(self, queue: str) -> None:
        """Delete a queue by AMQP 0-9-1."""
        with self._channel() as channel:
            channel.queue_delete(queue)

    def declare_exchange(self, name: str, *, internal: bool = False) -> None:
        """Declare a direct exchange by AMQP 0-9-1."""
        with self._channel() as channel:
            channel.exchange_declare(name, durable=True, internal=internal)

    def delete_exchange(self, name: str) -> None:
        """Delete an exchange by AMQP 0-9-1."""
        with self._channel() as channel:
            channel.exchange_delete(name)

    def permit(self, configure: str, write: str, read: str) -> None:
        """Change what the user of the connection may do."""
        assert self.server is not None
        permissions = {"configure": configure, "write": write, "read": read}
        self.server.api("PUT", f"permissions/{self.vhost}/guest", permissions)

    def permit_topics(self, write: str, read: str) -> None:
        """Change the user's topic permissions for amq.topic."""
        assert self.server is not None
        permissions = {"exchange": "amq.topic", "write": write, "read": read}
        self.server.api("PUT", f"topic-permissions/{self.vhost}/guest", permissions)

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """An exclusive queue of another connection."""
        with self._channel() as channel:
            channel.queue_declare(name, exclusive=True)
            yield

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, self.vhost)
        with pika.BlockingConnection(parameters) as connection:
            yield connection.channel()

    def request(self, method: str, to: str, body: Any = None) -> None:
        """Send a request to ``/management``."""
        self.names += 1
        properties = Properties(message_id=ulong(self.names), subject=method, to=to, reply_to="$me")
        encoded = self.client.codec.encode(properties) + self.client.codec.encode(Described(ulong(0x77), body))
        transfer = Transfer(handle=5, delivery_id=100 + self.names, delivery_tag=b"r", settled=True)
        self.note(f"{method} {to}")
        self.send(transfer, encoded)


def _is_transfer(line: str) -> bool:
    return line.startswith("Transfer(")


def outcome(name: str, kind: str, strategy: str, player: Player) -> None:
    """Settle one message, look whether it comes again, and what is dead."""
    player.declare("dead", kind)
    letters = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    if strategy == "at-least-once":
        letters |= {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    player.declare("work", kind, **letters)
    player.sender("/queues/work")
    player.publish(b"one", header=Header(durable=True))
    player.receiver("/queues/work", credit=1)
    player.settle(OUTCOMES[name])
    player.credit(1, 1, delivery_count=None)
    player.credit(1, 5)
    player.receiver("/queues/dead", handle=2)


def unsettled_disposition(kind: str, player: Player) -> None:
    """Settle by a disposition that is not settled, a range, one twice and one that does not exist."""
    player.fill("q", kind, 4)
    player.receiver("/queues/q")
    player.settle(Accepted(), 0, settled=False)
    player.settle(Released(), 1, 2, settled=False)
    player.settle(Accepted(), 1)
    player.settle(Accepted(), 77)
    player.settle(None, 3)


def left_open(kind: str, player: Player) -> None:
    """Settle by dispositions that do not say whether they are settled; once the session has ended, begin another."""
    player.fill("q", kind, 2)
    player.receiver("/queues/q")
    player.send(Disposition(role=True, first=7, state=Accepted()))
    player.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
    player.seen_id = 0 if player.seen_id < 1000 else 2**32 - 4
    player.receiver("/queues/q")
    player.send(Disposition(role=True, first=0, state=Accepted()))
    player.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
    player.seen_id -= 2
    player.receiver("/queues/q")


def settled_receiver(kind: str, player: Player) -> None:
    """Receive what is settled by the sender."""
    player.declare("q", kind)
    player.sender("/queues/q")
    player.publish(b"one", settled=True)
    player.receiver("/queues/q", snd_settle_mode=1)
    player.detach(1)
    player.receiver("/queues/q", handle=2)


def detached(kind: str, player: Player) -> None:
    """Detach with unsettled deliveries, which another link gets."""
    player.fill("q", kind, 3)
    player.receiver("/queues/q", credit=2)
    player.detach(1)
    player.receiver("/queues/q", handle=2)


def ended(kind: str, player: Player) -> None:
    """End the session with unsettled deliveries."""
    player.declare("q", kind)
    player.sender("/queues/q")
    player.publish(b"one")
    player.receiver("/queues/q")
    player.send(End())
    player.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
    player.seen_id = 0 if player.seen_id < 1000 else 2**32 - 4
    player.receiver("/queues/q", handle=2)


def credits(kind: str, player: Player) -> None:
    """Grant, lower and drain credit, and ask for an echo."""
    player.fill("q", kind, 5)
    player.receiver("/queues/q", credit=2)
    player.credit(1, 0, delivery_count=(player.seen_id and None), echo=True)
    player.credit(1, 9, drain=True)
    player.credit(1, 9, echo=True)


def batches(kind: str, player: Player) -> None:
    """Publish several messages at once, settled and not."""
    player.declare("q", kind)
    player.sender("/queues/q")
    for number in range(3):
        transfer = Transfer(handle=0, delivery_id=number, delivery_tag=bytes([number]), settled=number == 1)
        player.send(transfer, player.message(b"x"), quiet=False)
    player.listen()


def fragments(player: Player) -> None:
    """Publish in several frames, abort one, and change the rules on the way."""
    player.declare("q")
    player.sender("/queues/q")
    whole = player.message(b"abcdef" * 5)
    player.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"0", more=True), whole[:10])
    player.send(Transfer(handle=0, more=False), whole[10:])
    player.receiver("/queues/q")
    player.send(Transfer(handle=0, delivery_id=1, delivery_tag=b"1", more=True), whole[:10])
    player.send(Transfer(handle=0, delivery_id=9, more=False), whole[10:])


def unroutable(player: Player) -> None:
    """Publish to an exchange that routes nowhere, and over a link without a target."""
    player.sender("/exchanges/amq.direct/nowhere")
    player.publish(b"one")
    player.publish(b"two", id=1, settled=True)
    player.sender(None, handle=3)
    for number, to in enumerate(["/queues/none", "/exchanges/none/k", "bad", "/exchanges/amq.fanout"], 2):
        transfer = Transfer(handle=3, delivery_id=number, delivery_tag=bytes([number]), settled=False)
        player.send(transfer, player.message(b"x", to=to))
    player.publish(b"no to", handle=3, id=9)
    player.send(Transfer(handle=3, delivery_id=10, delivery_tag=b"a", settled=True), player.message(b"x", to="bad"))


def refused_publish(kind: str, player: Player) -> None:
    """Publish to a queue that refuses when it is full."""
    player.declare("q", kind, max_length=1, overflow="reject-publish")
    player.sender("/queues/q")
    for number in range(4):
        player.publish(b"%d" % number, id=number)


def wrong_attach(fields: dict[str, Any], player: Player) -> None:
    """Attach a link that the server does not take, and another one after it."""
    player.declare("q")
    attach = {"name": "wrong", "handle": 3, "role": True, "source": Source(address="/queues/q"), "target": Target()}
    player.send(Attach(**{**attach, **fields}))
    player.receiver("/queues/q")


WRONG: dict[str, dict[str, Any]] = {
    "missing-queue": {"source": Source(address="/queues/none")},
    "bad-escape": {"source": Source(address="/queues/%zz")},
    "version-1": {"source": Source(address="/amq/queue/q")},
    "no-address": {"source": Source()},
    "no-source": {"source": None},
    "dynamic": {"source": Source(dynamic=True)},
    "missing-target-queue": {"role": False, "target": Target(address="/queues/none"), "initial_delivery_count": 0},
    "missing-exchange": {"role": False, "target": Target(address="/exchanges/none"), "initial_delivery_count": 0},
    "default-exchange": {"role": False, "target": Target(address="/exchanges//k"), "initial_delivery_count": 0},
    "bad-target": {"role": False, "target": Target(address="/exchanges/a/b/c"), "initial_delivery_count": 0},
    "second": {"rcv_settle_mode": 1},
    "unsettled": {"unsettled": {b"t": None}},
    "outcomes": {"source": Source(address="/queues/q", outcomes=symbols(["amqp:accepted:list", "other"]))},
    "large-handle": {"handle": 256},
    "unpaired": {"source": Source(address="/management")},
}


def wrong_frame(frames: list[Composite], player: Player) -> None:
    """Send frames over which the session ends, and begin another."""
    player.declare("q")
    player.receiver("/queues/q")
    for performative in frames:
        player.send(performative)
    player.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))


FRAMES: dict[str, list[Composite]] = {
    "flow-of-unknown-link": [
        Flow(next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, handle=9, link_credit=1)
    ],
    "transfer-of-unknown-link": [Transfer(handle=9, delivery_id=0, delivery_tag=b"t")],
    "detach-of-unknown-link": [Detach(handle=9, closed=True)],
    "handle-in-use": [Attach(name="x", handle=1, role=True, source=Source(address="/queues/q"), target=Target())],
    "window": [
        Flow(next_incoming_id=50, incoming_window=9, next_outgoing_id=0, outgoing_window=9),
    ],
    "second-open": [Open(container_id="again")],
}


def priorities(player: Player) -> None:
    """The link of a higher priority comes first, whatever it is attached."""
    player.declare("q")
    player.receiver("/queues/q", handle=1)
    player.receiver("/queues/q", handle=2, properties={symbol("rabbitmq:priority"): int32(5)})
    player.sender("/queues/q")
    for number in range(3):
        player.publish(b"%d" % number, id=number, settled=True)


def deleted(kind: str, player: Player) -> None:
    """Delete the queue of a link."""
    player.declare("q", kind)
    player.receiver("/queues/q")
    player.delete("q")
    player.listen()


def attach_management(player: Player, request: int = 5, response: int = 6) -> None:
    """Attach the two links to ``/management``."""
    paired = {symbol("paired"): True}
    settled = {"snd_settle_mode": 1, "rcv_settle_mode": 0, "properties": paired}
    node = "/management"
    player.send(
        Attach(
            name="m", handle=request, role=False, source=Source(address="me"), target=Target(address=node),
            initial_delivery_count=0, **settled,
        )
    )  # fmt: skip
    player.send(
        Attach(
            name="m", handle=response, role=True, source=Source(address=node), target=Target(address="me"), **settled
        )
    )
    player.credit(response, 100)


def managed(player: Player) -> None:
    """All operations of ``/management``, as they should be and not."""
    attach_management(player)
    quorum = {"x-queue-type": "quorum"}
    for method, to, body in (
        ("PUT", "/queues/a%2Fb", {"durable": True, "arguments": quorum}),
        ("PUT", "/queues/a%2Fb", {"durable": True, "arguments": quorum}),
        ("PUT", "/queues/a%2Fb", {"durable": True}),
        ("PUT", "/queues/c", {"auto_delete": True, "arguments": {"x-message-ttl": ulong(5000)}}),
        ("PUT", "/queues/amq.x", {}),
        ("PUT", "/queues/", {}),
        ("PUT", "/queues/d", {"wrong": 1}),
        ("PUT", "/queues/d", {"arguments": {"x-queue-type": "none"}}),
        ("GET", "/queues/c", None),
        ("GET", "/queues/none", None),
        ("PUT", "/exchanges/e", {"type": "topic"}),
        ("PUT", "/exchanges/e", {"type": "topic"}),
        ("PUT", "/exchanges/e", {"type": "fanout"}),
        ("PUT", "/exchanges/f", {"type": "none"}),
        ("PUT", "/exchanges/amq.new", {}),
        ("PUT", "/exchanges/", {}),
        ("POST", "/bindings", {"source": "e", "destination_queue": "c", "binding_key": "k.#", "arguments": {}}),
        ("POST", "/bindings", {"source": "e", "destination_queue": "c", "binding_key": "k", "arguments": {"a": "b"}}),
        (
            "POST",
            "/bindings",
            {"source": "e", "destination_exchange": "amq.fanout", "binding_key": "", "arguments": {}},
        ),
        ("POST", "/bindings", {"source": "none", "destination_queue": "c", "binding_key": "k", "arguments": {}}),
        ("POST", "/bindings", {"source": "", "destination_queue": "c", "binding_key": "k", "arguments": {}}),
        ("GET", "/bindings?src=e&dstq=c&key=k", None),
        ("GET", "/bindings?src=e&dstq=c&key=k.%23", None),
        ("DELETE", "/bindings/src=e;dstq=c;key=k.%23;args=", None),
        ("DELETE", "/bindings/src=e;dstq=c;key=none;args=", None),
        ("DELETE", "/bindings/bad", None),
        ("DELETE", "/queues/c/messages", None),
        ("DELETE", "/queues/none/messages", None),
        ("DELETE", "/queues/c", None),
        ("DELETE", "/queues/c", None),
        ("DELETE", "/exchanges/e", None),
        ("DELETE", "/exchanges/e", None),
        ("DELETE", "/exchanges/amq.topic", None),
        ("DELETE", "/exchanges/", None),
    ):
        player.request(method, to, body)
    player.detach(5)
    player.detach(6)


def managed_exclusive(player: Player) -> None:
    """Declare an exclusive queue at ``/management``, and use one of another connection."""
    attach_management(player)
    player.request("PUT", "/queues/mine", {"exclusive": True})
    with player.exclusive("theirs"):
        player.request("GET", "/queues/theirs")
        player.request("PUT", "/queues/theirs", {"exclusive": True})
        player.request("DELETE", "/queues/theirs/messages")
        player.request("DELETE", "/queues/theirs")


def managed_twice(player: Player) -> None:
    """Attach a second pair of links of the same name to ``/management``."""
    attach_management(player)
    attach_management(player, 7, 8)


def managed_token(player: Player) -> None:
    """Renew a token."""
    attach_management(player)
    player.request("PUT", "/auth/tokens", b"token")


def managed_without_permission(player: Player) -> None:
    """Ask ``/management`` for what the user may not do."""
    player.declare("q")
    attach_management(player)
    player.permit("^$", "^$", "^$")
    player.request("GET", "/queues/q")
    player.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
    attach_management(player)
    player.request("PUT", "/queues/new", {})


def exclusive_source(player: Player) -> None:
    """Attach to an exclusive queue of another connection."""
    with player.exclusive("theirs"):
        player.receiver("/queues/theirs", credit=None)
        player.sender("/queues/theirs")


def internal_exchange(player: Player) -> None:
    """Publish to an internal exchange, by the link's address and by the message's."""
    player.declare_exchange("inside", internal=True)
    player.sender(None, handle=3)
    player.send(Transfer(handle=3, delivery_id=0, delivery_tag=b"0"), player.message(b"x", to="/exchanges/inside/k"))
    player.sender("/exchanges/inside/k")


def deleted_exchange(player: Player) -> None:
    """Publish to an exchange that is deleted meanwhile."""
    player.declare_exchange("gone")
    player.sender("/exchanges/gone/k")
    player.publish(b"one")
    player.delete_exchange("gone")
    player.publish(b"two", id=1)


def user_id(player: Player) -> None:
    """Publish with the user's name, and with another."""
    player.declare("q")
    player.sender("/queues/q")
    for number, name in enumerate((b"guest", b"other")):
        transfer = Transfer(handle=0, delivery_id=number, delivery_tag=bytes([number]))
        player.send(transfer, player.message(b"x", user_id=name))


def without_permission(permissions: tuple[str, str, str], player: Player) -> None:
    """Consume and publish with too few permissions."""
    player.declare("q")
    player.permit(*permissions)
    player.receiver("/queues/q", credit=None)
    player.send(Begin(next_outgoing_id=0, incoming_window=1000, outgoing_window=1000))
    player.sender("/queues/q")
    player.publish(b"one")


def topic_permissions(player: Player) -> None:
    """Publish to amq.topic by a key that is permitted, and by another."""
    player.permit_topics("^a", ".*")
    player.sender(None, handle=3)
    for number, key in enumerate(("a", "b")):
        transfer = Transfer(handle=3, delivery_id=number, delivery_tag=bytes([number]))
        player.send(transfer, player.message(b"x", to=f"/exchanges/amq.topic/{key}"))


def version_1(address: str, player: Player) -> None:
    """Publish to an address of version 1."""
    player.sender(address)
    player.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"0"), player.message(b"x", subject="k"))
    player.receiver("/queues/new", credit=None)


def dynamic(capability: str, player: Player) -> None:
    """Attach to a node that the server makes."""
    settled = {"snd_settle_mode": 1} if "volatile" in capability else {}
    source = Source(dynamic=True, expiry_policy="link-detach", capabilities=symbols([capability]))
    player.receiver(None, source=source, **settled)
    player.detach(1)


def single_active(player: Player) -> None:
    """Two links to a queue with a single active consumer: the other takes over."""
    player.declare("q", "quorum", single_active_consumer=True)
    player.receiver("/queues/q", handle=1)
    player.receiver("/queues/q", handle=2)
    player.detach(1)


def closed_window(kind: str, player: Player) -> None:
    """Grant credit while the window for deliveries is closed, and open it by and by."""
    player.fill("q", kind, 4, header=Header(durable=True))
    player.receiver("/queues/q", credit=None)
    for window, credit in ((0, 4), (1, 3), (10, 0)):
        player.send(
            Flow(
                next_incoming_id=player.seen_id, incoming_window=window, next_outgoing_id=4, outgoing_window=1000,
                handle=1, delivery_count=4 - credit, link_credit=credit,
            )
        )  # fmt: skip


def odd_dispositions(kind: str, player: Player) -> None:
    """Settle from a higher to a lower id, across ids that are settled already, and twice."""
    player.fill("q", kind, 5, header=Header(durable=True))
    player.receiver("/queues/q", credit=5)
    player.settle(Accepted(), 3, 1, settled=False)
    player.settle(Accepted(), 2, settled=False)
    player.settle(Released(), 0, 4, settled=False)
    player.settle(Rejected(), 0, 4, settled=False)


def delivery_tags(name: str, player: Player) -> None:
    """Take several messages of a classic queue with priorities, and return some."""
    player.declare("q", max_priority=9)
    player.sender("/queues/q")
    for number, priority in enumerate((1, 5, 1, 5)):
        player.publish(b"%d" % number, id=number, header=Header(durable=True, priority=priority))
    settled = {"snd_settle_mode": 1} if name == "settled" else {}
    player.receiver("/queues/q", credit=3, **settled)
    player.settle(Released(), 0, 1)
    player.credit(1, 9, delivery_count=3)


def stream_outcome(name: str, player: Player) -> None:
    """Settle what came from a stream: it stays there."""
    player.fill("s", "stream", 3)
    offset = symbol("rabbitmq:stream-offset-spec")
    first = Source(address="/queues/s", filter={offset: Described(offset, "first")})
    player.receiver(None, source=first, credit=2)
    player.settle(OUTCOMES[name], 0, 1, settled=False)
    player.detach(1)
    player.receiver(None, handle=2, source=first, credit=5)


def deleted_target(name: str, kind: str, player: Player) -> None:
    """Delete the queue of a link to publish over, which was used or not, and of one to consume; then publish."""
    player.declare("q", kind)
    player.sender("/queues/q")
    player.sender("/exchanges/amq.default/q" if name == "beside" else "/exchanges/amq.topic/k", handle=3)
    player.sender(None, handle=4, target=Target())
    if name in ("used", "consumed"):
        player.publish(b"one")
    if name == "beside":
        transfer = Transfer(handle=4, delivery_id=0, delivery_tag=b"0", settled=False)
        player.send(transfer, player.message(b"one", to="/queues/q"))
    if name in ("consumed", "only consumed"):
        player.receiver("/queues/q", credit=0)
    player.delete("q")
    player.listen()
    player.publish(b"two", id=1)


def untyped(name: str, player: Player) -> None:
    """Return a message with an annotation of a type that the server does not keep."""
    player.declare("q", "quorum")
    player.sender("/queues/q")
    player.publish(b"one", header=Header(durable=True))
    player.receiver("/queues/q", credit=1)
    player.settle(Modified(message_annotations={symbol("x-opt-v"): UNTYPED[name]}), 0)
    player.credit(1, 1, delivery_count=1)


def large_credit(name: str, kind: str, player: Player) -> None:
    """Grant two links more credit than a session passes on to a queue at a time."""
    player.declare("q", kind)
    for handle in (1, 2):
        player.receiver("/queues/q", handle, credit=None)
    if name != "before":
        player.load("q", 600)
    seen = len(player.seen)
    if name == "together":
        flows = [frame(player.client.codec, 0, player.flow(handle, 400)) for handle in (1, 2)]
        player.client.socket.sendall(b"".join(flows))
        player.listen()
    elif name == "window":
        for window in (10, 10, 300, 1000):
            player.credit(1, 400, incoming_window=window)
            player.count(seen)
            player.note(f"{player.ready('q')} ready messages")
            seen = len(player.seen)
    else:
        fields = {"drain": {"drain": True}, "echo": {"echo": True}}.get(name, {})
        for handle in (1, 2):
            player.credit(handle, 400, **fields)
    if name == "before":
        player.load("q", 600)
        player.listen()
    player.count(seen)


def unsendable(kind: str, player: Player) -> None:
    """Take messages from a queue, one of which has an annotation that the server cannot send."""
    player.declare("work", "quorum", dead_letter_exchange="", dead_letter_routing_key="q")
    player.fill("q", kind, 2)
    player.sender("/queues/work", handle=3)
    player.publish(b"bad", handle=3, id=2)
    player.receiver("/queues/work", credit=1)
    annotations = {symbol("x-opt-v"): 1.5}
    player.settle(Modified(undeliverable_here=True, message_annotations=annotations), 0)
    player.detach(1)
    player.publish(b"behind", id=3)
    player.receiver("/queues/q", handle=2, credit=None)
    player.note("with credit:")
    player.credit(2, 10)


def late(name: str, kind: str, player: Player) -> None:
    """Hold two messages for too long, settle one after the other, and take what came back."""
    player.fill("q", kind, 3, header=Header(durable=True))
    player.receiver("/queues/q", credit=2, properties=LATE)
    player.wait(1_500)
    player.credit(1, 1, delivery_count=2)
    player.settle(OUTCOMES[name], 0)
    player.credit(1, 1, delivery_count=2)
    player.settle(OUTCOMES[name], 1, settled=False)
    player.note("and with more credit:")
    player.credit(1, 2, delivery_count=2)


def late_detached(kind: str, player: Player) -> None:
    """Hold a message for too long, and leave it to the next."""
    player.declare("q", kind)
    player.sender("/queues/q")
    player.publish(b"one", header=Header(durable=True))
    player.receiver("/queues/q", credit=1, properties=LATE)
    player.wait(1_500)
    player.receiver("/queues/q", handle=2)
    player.detach(1)
    player.settle(Accepted(), 1)
    player.detach(2)
    player.receiver("/queues/q", handle=3)


def late_single_active(name: str, player: Player) -> None:
    """The single active consumer holds a message for too long: the other takes over."""
    player.declare("q", "quorum", single_active_consumer=True)
    player.sender("/queues/q")
    player.publish(b"one", header=Header(durable=True))
    player.receiver("/queues/q", handle=1, credit=1, properties=LATE)
    player.receiver("/queues/q", handle=2, credit=1)
    player.wait(1_500)
    player.settle(OUTCOMES[name], 0)
    player.credit(1, 1, delivery_count=1)
    player.detach(2)


def links(player: Player) -> None:
    """Attach links of every kind, so that the management API has something to show."""
    for name, kind in (("q", "classic"), ("qq", "quorum"), ("s", "stream")):
        player.declare(name, kind)
    player.sender("/queues/q")
    player.sender(None, handle=3, target=Target())
    player.sender("/exchanges/amq.topic/a.b", handle=4, snd_settle_mode=1)
    player.publish(b"1")
    player.publish(b"2", id=1)
    player.receiver("/queues/q", credit=5)
    player.receiver("/queues/qq", handle=2, credit=7, snd_settle_mode=1, max_message_size=1_000)
    attach_management(player)
    offset, properties = symbol("rabbitmq:stream-offset-spec"), symbol("amqp:properties-filter")
    filters = {
        offset: Described(offset, "first"),
        properties: Described(properties, {symbol("subject"): "&p:a", symbol("group-sequence"): uint(7)}),
    }
    player.receiver(None, handle=8, credit=300, source=Source(address="/queues/s", filter=filters))


def shown_sessions(player: Player, api: Callable[[str, str], Any]) -> list[dict[str, Any]]:
    """Return what the management API shows of the sessions of a connection with many links."""
    links(player)
    player.client.send(Begin(next_outgoing_id=5, incoming_window=7, outgoing_window=9, handle_max=3), channel=1)
    player.listen()
    until = time.monotonic() + 20
    while time.monotonic() < until:  # a server's statistics come every five seconds
        for shown in api("GET", "connections"):
            if shown.get("vhost") == player.vhost and shown.get("container_id"):
                found: list[dict[str, Any]] = api("GET", f"connections/{quote(shown['name'])}/sessions")
                return found
        time.sleep(0.1)
    raise AssertionError("the connection is not shown")


SCRIPTS: dict[str, Script] = {
    **{
        f"outcome {name} {kind} {strategy}": partial(outcome, name, kind, strategy)
        for name in OUTCOMES
        for kind, strategy in (("classic", "at-most-once"), ("quorum", "at-most-once"), ("quorum", "at-least-once"))
    },
    **{
        f"{script.__name__} {kind}": partial(script, kind)
        for script in (
            unsettled_disposition,
            left_open,
            settled_receiver,
            detached,
            ended,
            credits,
            batches,
            refused_publish,
            deleted,
        )
        for kind in TYPES
    },
    **{f"attach {name}": partial(wrong_attach, fields) for name, fields in WRONG.items()},
    **{f"frame {name}": partial(wrong_frame, frames) for name, frames in FRAMES.items()},
    "fragments": fragments,
    "unroutable": unroutable,
    "priorities": priorities,
    "management": managed,
    "management exclusive": managed_exclusive,
    "management twice": managed_twice,
    "management token": managed_token,
    "management without permission": managed_without_permission,
    "exclusive source": exclusive_source,
    "internal exchange": internal_exchange,
    "deleted exchange": deleted_exchange,
    "user id": user_id,
    "may not read": partial(without_permission, (".*", ".*", "^$")),
    "may not write": partial(without_permission, (".*", "^$", ".*")),
    "topic permissions": topic_permissions,
    "dynamic temporary": partial(dynamic, "temporary-queue"),
    "dynamic volatile": partial(dynamic, "rabbitmq:volatile-queue"),
    "single active": single_active,
    **{
        f"late {name} {kind}": partial(late, name, kind)
        for name, kind in (*((name, "quorum") for name in OUTCOMES), ("accepted", "classic"))
    },
    **{
        f"{script.__name__} {kind}": partial(script, kind)
        for script in (closed_window, odd_dispositions)
        for kind in TYPES
    },
    **{
        f"deleted_target {name} {kind}": partial(deleted_target, name, kind)
        for name in ("used", "unused", "beside", "consumed", "only consumed")
        for kind in TYPES
    },
    **{f"untyped {name}": partial(untyped, name) for name in UNTYPED},
    **{
        f"large_credit {name} {kind}": partial(large_credit, name, kind)
        for name in ("in turn", "together", "window", "before", "drain", "echo")
        for kind in TYPES
    },
    **{f"unsendable {kind}": partial(unsendable, kind) for kind in TYPES},
    **{f"delivery_tags {name}": partial(delivery_tags, name) for name in ("settled", "unsettled")},
    **{f"stream_outcome {name}": partial(stream_outcome, name) for name in OUTCOMES},
    **{f"late detached {kind}": partial(late_detached, kind) for kind in TYPES},
    **{f"late single active {name}": partial(late_single_active, name) for name in ("accepted", "released")},
    **{
        f"version 1 {name}": partial(version_1, address)
        for name, address in {
            "queue": "/queue/new",
            "plain": "new",
            "exchange": "/exchange/amq.fanout/k",
            "topic": "/topic/k",
            "subject": "/queue",
        }.items()
    },
}


class NodeClient(WireClient):
    """A client without a socket: what it sends goes straight into the protocol."""

    def __init__(self, node: Node) -> None:
        self.codec = Codec()
        self.socket: Any = self
        self.sent_packets = 0
        self._buffer = b""
        self._node = node
        broker = node.broker
        settings = ServerSettings(
            release=broker.release,
            cluster_name=lambda: broker.cluster_name,
            message_max_bytes=broker.max_message_size,
            contents=DeliveryEncoder(broker.release),
            broker=broker,
        )
        self._connection = Connection(1, "client", settings, broker.authenticated)
        node.connections[1] = self  # type: ignore[assignment]

    def settimeout(self, _seconds: float) -> None:
        """Wait for nothing: what the node sends is here at once."""

    def sendall(self, data: bytes) -> None:
        """Have the node do what the bytes say."""
        for command in self._connection.receive(data):
            self._node.execute(command)
        self._node.has_output(self)  # type: ignore[arg-type]
        self._node.settle()

    def take(self, count: int) -> bytes:
        """Return the next bytes. Raises ``TimeoutError`` if there are none, ``EOFError`` at the end."""
        if len(self._buffer) < count:
            raise EOFError if self._connection.ending else TimeoutError
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def reply(self, reply: Reply) -> None:
        """Take a reply of the broker."""
        self._connection.reply(reply)

    def flush(self) -> None:
        """Take what waits to be sent."""
        self._buffer += self._connection.take()
        for command in self._connection.follow_up():
            self._node.execute(command)

    def alarm_changed(self, active: bool) -> None:
        """Close or open the windows."""
        self._connection.publishers_wait = active
        self.flush()


class NodePlayer(Player):
    """Plays on a node in this process."""

    def __init__(self, node: Node, **fields: Any) -> None:
        super().__init__(NodeClient(node), "/", 0, **fields)
        self._node = node
        self.channel_of_node = InternalChannel(node, 2)
        self.channel_of_node.open("/", "guest")

    def wait(self, ms: int) -> None:
        self._node.advance(ms * 1_000)
        self.listen()

    def declare(self, name: str, kind: str = "classic", **arguments: Any) -> None:
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        channel = self.channel_of_node
        channel.run(
            DeclareQueue(channel=channel.id, queue=name, durable=True, arguments={"x-queue-type": kind, **given})
        )

    def load(self, queue: str, messages: int) -> None:
        for _ in range(messages):
            self.channel_of_node.run(Publish(self.channel_of_node.id, "", queue, {}, b"x"))

    def ready(self, queue: str) -> int:
        return self._node.broker.vhosts["/"].queues[queue].store.ready

    def delete(self, queue: str) -> None:
        self.channel_of_node.run(DeleteQueue(self.channel_of_node.id, queue))

    def declare_exchange(self, name: str, *, internal: bool = False) -> None:
        channel = self.channel_of_node
        channel.run(DeclareExchange(channel=channel.id, exchange=name, durable=True, internal=internal))

    def delete_exchange(self, name: str) -> None:
        self.channel_of_node.run(DeleteExchange(self.channel_of_node.id, name))

    def permit(self, configure: str, write: str, read: str) -> None:
        self._node.handle(SetPermissions("guest", "/", configure, write, read))

    def permit_topics(self, write: str, read: str) -> None:
        self._node.handle(SetTopicPermissions("guest", "/", "amq.topic", write, read))

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        channel = self.channel_of_node
        channel.run(DeclareQueue(channel=channel.id, queue=name, exclusive=True))
        yield


def new_node(release: str) -> Node:
    """Return a node in this process."""
    return Node(Broker(release, node="dlx@localhost"), VirtualClock(start_us=1_700_000_000_000_000))


def simulated(script: Script, release: str) -> list[str]:
    """Return what the simulator sends in a script."""
    player = NodePlayer(new_node(release))
    script(player)
    return player.seen


def recorded(release: str) -> dict[str, list[str]]:
    """Return what the real server sent, by script."""
    found: dict[str, list[str]] = json.loads((RECORDED / f"sessions-{release}.json").read_text("utf-8"))
    return found


def record(server: LiveServer, names: list[str]) -> None:
    """Record a real server."""
    path = RECORDED / f"sessions-{server.release}.json"
    seen = recorded(server.release) if path.exists() else {}
    for name in names or SCRIPTS:
        with fresh_vhost(server) as vhost:
            port = urlsplit(server.amqp_url).port or 0
            player = Player(WireClient(port), vhost, port, server)
            SCRIPTS[name](player)
            player.client.close()
            found = player.seen
        node = re.compile(r"'dlx\d+@localhost'")
        seen[name] = [node.sub("'dlx@localhost'", line) for line in found]
        time.sleep(0.02)
    path.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n", "utf-8")


def record_links(server: LiveServer) -> None:
    """Record what a real server shows of sessions and links."""
    with fresh_vhost(server) as vhost:
        port = urlsplit(server.amqp_url).port or 0
        player = Player(WireClient(port), vhost, port, server)
        shown = shown_sessions(player, server.api)
        player.client.close()
    (RECORDED / f"links-{server.release}.json").write_text(json.dumps(shown, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    for each in given():
        if each.release in RELEASES:
            record(each, sys.argv[1:])
        if each.release == "4.3" and not sys.argv[1:]:
            record_links(each)
