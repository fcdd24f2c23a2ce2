"""Random traffic through a topology: publishers that use a few addresses, consumers that now and then fail, time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from random import Random
from typing import Any, Literal, NamedTuple

from dlx.delays import X_DELAY, routing_type
from dlx.message_flow import MessageFlow
from dlx.server_plugins import DELAYED
from dlx.topology import STREAM, Binding
from simulator.scenario.player import Player
from simulator.scenario.steps import Ack, AnyStep, Crash, Publish, Reject, Requeue, Wait

Diversity = Literal["low", "high"]
ADDRESSES_MAX = 50
WORDS = ("eu", "us", "new", "paid", "failed", "retry")
KINDS = ("order", "invoice", "mail")
OUTCOMES: dict[type[Ack | Reject | Requeue | Crash], int] = {Ack: 50, Reject: 35, Requeue: 10, Crash: 5}
"""What consumers do with their deliveries, in per cent."""
PUBLISH_SHARE, PAUSE_SHARE, CC_SHARE = 0.4, 0.02, 0.3
STEP_MS, PAUSE_MS = 20, 120_000
EXPIRATIONS_MS = (1_000, 30_000)
DELAYS_MS = (1_000, 60_000)
"""What publishers ask of a delayed exchange; as many messages have no delay."""
TRIES = 4


class PublishTarget(NamedTuple):
    """Where publishers send messages: by a binding, or by the name of a queue. The exchange routes as ``kind``."""

    exchange: str
    kind: str
    binding: Binding | None
    queue: str = ""
    delays: bool = False


class Traffic:
    """The steps of one virtual host's clients.

    Args:
        flow: the virtual host.
        vhost: its name.
        random: where all choices come from.
        diversity: whether messages resemble each other (``low``), or nearly each has keys, copies, headers and
            an expiration of its own (``high``).
    """

    def __init__(self, flow: MessageFlow, vhost: str, random: Random, diversity: Diversity) -> None:
        self._vhost, self._random, self._diverse = vhost, random, diversity == "high"
        self._consumed = {name for name in flow.topology.queues if _is_consumed(flow, name)}
        addresses = [*_addresses(flow, self._consumed)]
        self._addresses = random.sample(addresses, min(len(addresses), ADDRESSES_MAX))
        self._busy: list[str] = []

    def steps(self, player: Player) -> Iterator[AnyStep]:
        """Yield steps without end, each to be played before the next is asked for."""
        random = self._random
        while True:
            queue = None if random.random() < PUBLISH_SHARE else self._waiting(player)
            if queue is not None:
                outcome = random.choices([*OUTCOMES], [*OUTCOMES.values()])[0]
                yield outcome(queue, vhost=self._vhost)
            elif self._addresses:
                yield self._publish()
            self._note(player)
            pause = random.random() < PAUSE_SHARE or not self._addresses
            yield Wait(random.randint(1, PAUSE_MS if pause else STEP_MS))
            self._note(player)

    def _waiting(self, player: Player) -> str | None:
        """Return a queue that has something for a consumer, if one is met soon."""
        for _ in range(min(TRIES, len(self._busy))):
            place = self._random.randrange(len(self._busy))
            found = player.queue(self._busy[place], self._vhost)
            if found is not None and found.messages_ready + found.unacked:
                return self._busy[place]
            self._busy[place] = self._busy[-1]
            self._busy.pop()
        return None

    def _note(self, player: Player) -> None:
        """Note which queues got something."""
        for happened, _ in player.events:
            if happened.queue in self._consumed and happened.queue not in self._busy[-ADDRESSES_MAX:]:
                self._busy.append(happened.queue)

    def _publish(self) -> Publish:
        random = self._random
        address = random.choice(self._addresses)
        headers: dict[str, Any] = {"kind": random.choice(KINDS)}
        if self._diverse:
            headers["order"] = random.getrandbits(40)
        if address.delays and random.random() < 0.5:
            headers[X_DELAY] = random.randint(*DELAYS_MS) if self._diverse else random.choice(DELAYS_MS)
        if address.kind == "headers" and address.binding is not None:
            headers |= {name: value for name, value in address.binding.arguments.items() if name != "x-match"}
        if self._diverse and address.exchange and address.kind in ("topic", "direct") and random.random() < CC_SHARE:
            alike = [each for each in self._addresses if each.exchange == address.exchange]
            headers["CC"] = [self._key(random.choice(alike)) for _ in range(random.randint(1, 2))]
        return Publish(
            address.exchange, self._key(address), headers, expiration_ms=self._expiration_ms(), vhost=self._vhost
        )

    def _key(self, address: PublishTarget) -> str:
        if address.binding is None:
            return address.queue
        if address.kind == "topic":
            words = (word for part in address.binding.routing_key.split(".") for word in self._words(part))
            return ".".join(words)
        if address.kind in ("fanout", "headers") and self._diverse:
            return self._word()
        return address.binding.routing_key

    def _words(self, part: str) -> list[str]:
        """Return words that a word of a topic pattern matches."""
        if part == "*":
            return [self._word()]
        return [self._word() for _ in range(self._random.randint(0, 2))] if part == "#" else [part]

    def _word(self) -> str:
        return f"{self._random.getrandbits(32):08x}" if self._diverse else self._random.choice(WORDS)

    def _expiration_ms(self) -> int | None:
        if self._diverse:
            return self._random.randint(1, EXPIRATIONS_MS[-1]) if self._random.random() < 0.3 else None
        return self._random.choice(EXPIRATIONS_MS) if self._random.random() < 0.05 else None


def _addresses(flow: MessageFlow, consumed: Collection[str]) -> Iterator[PublishTarget]:
    """Yield where publishers may send: by bindings, and to queues without bindings.

    Not to exchanges that take rejected messages, but to those that waiting messages come back to.
    """
    topology = flow.topology
    for_rejected = {flow.settings(queue).dead_letter_exchange for queue in consumed}
    bound = set()
    for exchange in topology.exchanges.values():
        for binding in topology.bindings.get(exchange.name, ()):
            bound.add(binding.destination)
            if exchange.name not in for_rejected and not exchange.internal:
                yield PublishTarget(exchange.name, routing_type(exchange), binding, delays=exchange.type == DELAYED)
    for queue in topology.queues:
        if queue not in bound:
            yield PublishTarget("", "direct", None, queue)


def _is_consumed(flow: MessageFlow, queue: str) -> bool:
    """Return whether the queue has a consumer: not one in which messages wait for their end, and no stream."""
    settings = flow.settings(queue)
    waits = settings.message_ttl_ms is not None and settings.dead_letter_exchange is not None
    return not waits and flow.topology.queues[queue].type != STREAM
