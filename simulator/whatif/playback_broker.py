"""The broker on which stories are played, one run after the other, and the clients of the stories.

Each delivery has a channel of its own. The broker has a time of its own, which only goes on:
a run tells how much later there its story is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from dlx.message import Message
from dlx.releases import Release
from dlx.topology import STREAM
from simulator.bootstrap import add_user, import_definitions
from simulator.broker import Broker, Copy, QueueState
from simulator.broker import commands as amqp
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Got
from simulator.events import Happened
from simulator.whatif.stories import ConsumerAction, Publication

USER = "dlx whatif"
BEGIN_US = 1_767_225_600_000_000  # 2026-01-01
CHANNELS = 64
"""Channels that are opened at a time."""
RESTS_MAX = 100
"""So often something may be due before a broker is taken for one that never rests."""
CHANNEL_TICK_US = 1
"""Channels see at once that a delivery is late: a server counts from when they were opened, which no log tells."""
KEPT_MAX = 1_000
"""Messages that streams may keep from earlier runs."""

QueueRef = tuple[str, str]
"""A virtual host, and a queue in it."""
Observer = Callable[[Happened, Message], None]


class PlaybackBroker:
    """A broker with the settings of one side.

    Args:
        definitions: an export, as JSON values.
        release: the RabbitMQ release.
        imported: a broker of that release that has imported them, to begin with, which nobody else changes.

    Attributes:
        node: the broker itself, another one after some runs.
        now_us: its time.
    """

    def __init__(self, definitions: Mapping[str, Any], release: Release, imported: Broker | None = None) -> None:
        self._definitions, self._release = definitions, release
        self.now_us = BEGIN_US
        self._observer: Observer = _nobody
        self._begin(imported or self._imported())

    def begin_again(self) -> None:
        """Begin with another broker."""
        self._begin(self._imported())

    def _imported(self) -> Broker:
        broker = Broker(self._release)
        import_definitions(broker, self._definitions, self.now_us)
        return broker

    def _begin(self, broker: Broker) -> None:
        self.node = broker
        broker.state.channel_tick_us = CHANNEL_TICK_US
        broker.observe(self._observer)
        add_user(self.node, USER, self.now_us)
        self._free: defaultdict[str, list[amqp.ChannelId]] = defaultdict(list)
        self._publishers: dict[str, amqp.ChannelId] = {}
        self._vhost_of: dict[Any, str] = {}
        self._connections = count(1)
        self._closed: set[amqp.ChannelId] = set()

    def rest(self) -> None:
        """Let all happen that is still due after earlier runs, so that the next one meets nothing of them."""
        for _ in range(RESTS_MAX):
            due_us = self.node.next_due()
            if due_us is None:
                return
            self.now_us = max(self.now_us, due_us)
            self.tell(amqp.PassTime())
        self.begin_again()

    @property
    def observer(self) -> Observer:
        """Who hears all that happens."""
        return self._observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self._observer = observer
        self.node.observe(observer)

    # What clients do

    def tell(self, command: amqp.Command) -> Got | None:
        """Give the broker a command; return the message that it hands out."""
        got = None
        for reply in self.node.handle(command, self.now_us):
            if isinstance(reply, Got):
                got = reply
            elif isinstance(reply, ChannelClosed):
                self._closed.add(reply.channel)
                self.node.handle(amqp.OpenChannel(reply.channel), self.now_us)
            elif isinstance(reply, ConnectionClosed):
                gone = reply.connection
                self._publishers = {vhost: each for vhost, each in self._publishers.items() if each[0] != gone}
        return got

    def publish(self, vhost: str, publication: Publication) -> bool:
        """Publish, as the client did; return whether the broker took it: its exchange may be missing."""
        if vhost not in self.node.vhosts:
            return False
        if vhost not in self._publishers:
            self._publishers[vhost] = self._connect(vhost)[0]
        channel, named = self._publishers[vhost], (publication.exchange, publication.routing_key)
        self._closed.clear()
        self.tell(amqp.Publish(channel, *named, publication.properties, publication.body))
        return vhost in self._publishers and channel not in self._closed

    def get(self, vhost: str, queue: str) -> Got | None:
        """Take the next message of the queue, on a channel that nobody else uses until it is settled."""
        got = self.tell(amqp.Get(self._free_channel(vhost), queue))
        if got is not None:
            self._free[vhost].pop()
        return got

    def settle(self, got: Got, action: ConsumerAction) -> None:
        """Do with a delivery what its consumer does."""
        channel = got.channel
        for command in _SETTLES[action](channel, got.delivery_tag):
            self.tell(command)
        self._free[self._vhost_of[channel[0]]].append(channel)

    def _free_channel(self, vhost: str) -> amqp.ChannelId:
        if not self._free[vhost]:
            self._free[vhost] += self._connect(vhost, CHANNELS)
        return self._free[vhost][-1]

    def _connect(self, vhost: str, channels: int = 1) -> list[amqp.ChannelId]:
        connection = next(self._connections)
        self._vhost_of[connection] = vhost
        self.tell(amqp.OpenConnection(connection, vhost, USER, limited=False))
        opened: list[amqp.ChannelId] = [(connection, number) for number in range(1, channels + 1)]
        for channel in opened:
            self.tell(amqp.OpenChannel(channel))
        return opened

    # What queues hold

    def has_room(self, vhost: str, name: str, publication: Publication) -> bool:
        """Tell whether a queue would let in what is published to it now; only a classic queue says so before."""
        queue = self.node.queue(name, vhost)
        message = Message(exchange=publication.exchange, routing_keys=(publication.routing_key,))
        return queue is not None and not queue.store.refuses(Copy(0, message, publication.body), internal=False)

    def held(self, queues: Iterable[QueueRef]) -> Iterator[tuple[QueueState, Copy]]:
        """Yield what these queues hold."""
        for queue in self.existing(queues):
            yield from ((queue, copy) for copy in queue.held())

    def existing(self, queues: Iterable[QueueRef]) -> Iterator[QueueState]:
        """Yield those of the queues that exist."""
        yield from filter(None, (self.node.queue(name, vhost) for vhost, name in queues))

    def clear(self, queues: Iterable[QueueRef]) -> None:
        """Empty the queues that a run has used, for the next one; what cannot be emptied goes with the broker."""
        self.observer = _nobody
        used = list(queues)
        for queue in self.existing(used):
            if queue.definition.type != STREAM and queue.store.ready:
                self.tell(amqp.PurgeQueue(self._free_channel(queue.vhost.name), queue.name))
        kept = [queue.definition.type for queue, _ in self.held(used)]
        if self.node.state.delayed or len(kept) > KEPT_MAX or any(kind != STREAM for kind in kept):
            self.begin_again()


_SETTLES: Mapping[ConsumerAction, Callable[[amqp.ChannelId, int], Iterable[amqp.Command]]] = {
    ConsumerAction.ENDED: lambda channel, tag: (amqp.Ack(channel, tag),),
    ConsumerAction.REJECTED: lambda channel, tag: (amqp.Nack(channel, tag, requeue=False),),
    ConsumerAction.FAILED: lambda channel, tag: (amqp.Reject(channel, tag, requeue=False),),
    ConsumerAction.REQUEUED: lambda channel, tag: (amqp.Nack(channel, tag, requeue=True),),
    ConsumerAction.CRASHED: lambda channel, _: (amqp.CloseChannel(channel), amqp.OpenChannel(channel)),
}


def _nobody(event: Happened, message: Message) -> None:
    pass
