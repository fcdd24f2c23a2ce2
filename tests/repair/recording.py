"""A log of random traffic, recorded by the simulator's own broker on virtual time."""

from __future__ import annotations

from random import Random
from typing import Any

from dlx.death_headers import stored_headers
from dlx.deaths import X_DEATH
from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.recorded_deaths import death_counts, deaths_in_x_death
from dlx.releases import Release
from dlx.topology import STREAM, Topology
from simulator.broker import commands as amqp
from simulator.broker import delivered_properties
from simulator.capture.schema import Observation
from simulator.events import Event, Happened
from simulator.generate.traced_rows import observation
from simulator.scenario import steps
from simulator.scenario.player import Player
from simulator.testing.strategies import definitions_document

OPERATOR = ("operator", 1)
"""The channel on which an operator changes the topology."""
KINDS = ("a", "b")
"""What publishers write into the header ``kind``."""
WAITS_MS = (1, 10, 1_000, 60_000)


EVENTS_MAX = 3_000
DEATHS_MAX = 20
"""Deaths of one message: on the way of more, unseen, a search gives up."""


class TooMuchTrafficError(Exception):
    """Messages go round and multiply: until 3.12, some loops never end."""


class _BoundedPlayer(Player):
    """Plays steps until too much happens."""

    _count = 0

    def _observe(self, happened: Happened, message: Message) -> None:
        self._count += 1
        if self._count > EVENTS_MAX or _died_often(message):
            raise TooMuchTrafficError
        super()._observe(happened, message)


def _died_often(message: Message) -> bool:
    return sum(death_counts(deaths_in_x_death(stored_headers(message).get(X_DEATH))).values()) > DEATHS_MAX


class Recording:
    """Plays steps to a broker, and keeps the rows that it traces.

    Attributes:
        rows: the rows, in order.
        hidden: the rows that the trace does not show.
        delivered: the latest delivery of each message: its queue, and the message.
    """

    def __init__(self, topology: Topology, release: Release) -> None:
        self._flow, self._release = MessageFlow(topology, release), release
        self.player = _BoundedPlayer(definitions_document(topology, release), release=release.name)
        for command in (amqp.OpenConnection("operator", "/", "guest"), amqp.OpenChannel(OPERATOR)):
            self.tell(command)
        self.rows: list[Observation] = []
        self.hidden: list[Observation] = []
        self.delivered: dict[str, tuple[str, Message]] = {}
        self._aliases: dict[int, str] = {}

    def tell(self, command: amqp.Command) -> None:
        """Give the broker a command as its operator."""
        self.player.broker.handle(command, self.player.now_us)

    def do(self, step: steps.AnyStep, *, alias: str | None = None, hide: bool = False) -> None:
        """Do a step, a millisecond after the one before.

        ``alias``: what it publishes has that identity. ``hide``: and the trace does not show its publish.
        """
        self.player.do(steps.Wait(1))
        self._take(alias, hide)
        self.player.do(step)
        self._take(alias, hide)

    def _take(self, alias: str | None, hide: bool) -> None:
        for happened, message in self.player.events:
            if happened.event not in (Event.PUBLISHED, Event.DELIVERED):
                continue
            is_publish = happened.event == Event.PUBLISHED
            if is_publish and alias is not None:
                self._aliases[happened.uid] = alias
            row = observation(happened, message, self._flow)
            row.message = row.message_id = self._aliases.get(happened.uid, row.message)
            row.line = len(self.rows) + len(self.hidden) + 1
            (self.hidden if is_publish and hide else self.rows).append(row)
            if not is_publish:
                self.delivered[row.message] = (happened.queue or "", message)

    def headers_of(self, identity: str) -> dict[str, Any]:
        """Return the headers with which the message was last delivered."""
        return dict(delivered_properties(self.delivered[identity][1], self._release).get("headers") or {})


class Traffic:
    """Random steps of regular publishers and consumers.

    Publishers use few addresses; consumers reject more than they acknowledge.
    """

    def __init__(self, topology: Topology, random: Random) -> None:
        self._random = random
        addresses = [("", queue) for queue in topology.queues]
        addresses += [(name, b.routing_key) for name, bound in topology.bindings.items() for b in bound]
        self.addresses = random.sample(addresses, min(len(addresses), 2))
        self._queues = [name for name, queue in topology.queues.items() if queue.type != STREAM] or [*topology.queues]

    def step(self) -> steps.AnyStep:
        """Draw the next step."""
        random = self._random
        what = random.choices(("publish", "reject", "ack", "requeue", "wait"), (5, 6, 1, 1, 3))[0]
        if what == "publish":
            exchange, key = random.choice(self.addresses)
            expiration = random.choice((None, None, None, 1_000))
            return steps.Publish(exchange, key, {"kind": random.choice(KINDS)}, expiration)
        if what == "wait":
            return steps.Wait(random.choice(WAITS_MS))
        queue = random.choice(self._queues)
        return {"reject": steps.Reject, "ack": steps.Ack, "requeue": steps.Requeue}[what](queue)
