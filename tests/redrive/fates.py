"""Compares predicted fates with what becomes of the messages on real servers, in random topologies.

    DLX_LIVE_SERVERS=4.3=AMQP_URL|MANAGEMENT_URL,... python -m tests.redrive.fates [--messages 10000] [--seed 1]

Messages die in plain queues. Then these are deleted, others of the same names are declared with limits, times to live
and dead-letter exchanges drawn at random, and the messages are brought back, whatever is predicted for them. A
prediction is right if the message is in the end in exactly the queues that it names, and in the dead-letter queue if
it stays there.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pika

from simulator.redrive.bring_back import Pace, bring_back
from simulator.redrive.how_to_peek import how_to_peek
from simulator.redrive.journal import RedriveJournal
from simulator.redrive.peek import peek
from simulator.redrive.plan import Planned, RedriveOptions, RedrivePlanner
from simulator.redrive.prediction import Kind
from simulator.redrive.server import held_now, queue_on
from simulator.redrive.waiting import Address, waiting
from tests.live.servers import LiveServer, given
from tests.redrive.dead_letters import Place, ready, until, vhost_on

MESSAGES_OF_A_CASE = 12
CASES_OF_A_VHOST = 8
ORIGINS, EXCHANGES = 3, 2
SETTLE_S = 1.5
LONG_MS = 600_000
STAY = {Kind.UNKNOWN_ORIGIN, Kind.UNROUTABLE, Kind.REFUSED_WHEN_FULL, Kind.REFUSED_PUBLISH, Kind.ENDLESS}
ALLOWED = frozenset(Kind) - {Kind.REFUSED_PUBLISH, Kind.ENDLESS}  # which would end the run, or never end


class Wrong(msgspec.Struct, frozen=True):
    """A prediction that did not come true."""

    release: str
    seed: int
    message: str
    kind: str
    why: str
    predicted: list[str]
    found: list[str]


class Case:
    """One dead-letter queue and what is around it, drawn by a seed; all names begin with the case's own."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place, self.seed = place, seed
        self.name = name = f"c{seed}"
        self.dead, self.sink, self.spill = f"{name}.dead", f"{name}.sink", f"{name}.spill"
        self.origins = [f"{name}.q{number}" for number in range(ORIGINS)]
        self.entry = f"{name}.in"
        self.exchanges = [f"{name}.x{number}" for number in range(EXCHANGES)]
        self.limits: dict[str, int] = {}  # of queues that drop their oldest messages
        self.expected: dict[str, list[str]] = {}
        self.planned: list[Planned] = []
        self._draw = random.Random(seed)

    @property
    def queues(self) -> list[str]:
        """All queues whose messages are looked at."""
        return [*self.origins, self.sink, self.dead]

    def let_die(self) -> None:
        """Have messages die in plain queues, one after the other, and delete these."""
        draw = self._draw
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead}
        with self.place.channel() as channel:
            channel.confirm_delivery()
            kind = {"x-queue-type": draw.choice(["classic", "quorum"])}
            channel.queue_declare(self.dead, durable=True, arguments=kind)
            channel.exchange_declare(self.entry, "direct", durable=True)
            for queue in self.origins:
                channel.queue_declare(queue, durable=True, arguments=to_dead)
                channel.queue_bind(queue, self.entry, queue)
            for number in range(MESSAGES_OF_A_CASE):
                queue, expires = draw.choice(self.origins), draw.random() < 0.3
                headers = {"kind": draw.choice("ab")} | ({"CC": ["eu"]} if draw.random() < 0.2 else {})
                properties = pika.BasicProperties(message_id=f"{self.name}-{number}", headers=headers, delivery_mode=2)
                properties.expiration = "0" if expires else None
                channel.basic_publish(draw.choice(["", self.entry]), queue, b"." * draw.choice([1, 50]), properties)
                while not expires:
                    got, _, _ = channel.basic_get(queue)
                    if got is not None:
                        channel.basic_reject(got.delivery_tag, requeue=False)
                        break
                until(lambda number=number: ready(channel, self.dead) == number + 1)  # type: ignore[misc]
            for queue in self.origins:
                channel.queue_delete(queue)

    def declare(self) -> None:
        """Declare what they come back to."""
        draw = self._draw
        with self.place.channel() as channel:
            channel.confirm_delivery()
            for queue in (self.sink, self.spill):
                channel.queue_declare(queue, durable=True)
            for exchange in self.exchanges:
                alternate = {"alternate-exchange": self.exchanges[0]} if draw.random() < 0.2 else {}
                kind = draw.choice(["direct", "fanout", "topic", "headers"])
                channel.exchange_declare(exchange, kind, durable=True, arguments=alternate)
            there = [queue for queue in self.origins if draw.random() < 0.9]
            for queue in there:
                self._declare(queue)
            for exchange in (self.entry, *self.exchanges):
                for queue in draw.sample([*there, self.sink], min(2, len(there) + 1)):
                    key = draw.choice(["eu", "#", *self.origins])
                    compared = {"x-match": "any", "kind": draw.choice("ab")}
                    channel.queue_bind(queue, exchange, key, arguments=compared)
            for queue, limit in self.limits.items():
                fillers = [f"filler{number}" for number in range(draw.randint(0, limit))]
                for filler in fillers:
                    channel.basic_publish("", queue, b"", pika.BasicProperties(message_id=filler))
                self.expected[queue] = fillers

    def _declare(self, queue: str) -> None:
        arguments = self._arguments()
        try:
            with self.place.channel() as channel:
                channel.queue_declare(queue, durable=True, arguments=arguments)
        except pika.exceptions.ChannelClosedByBroker:  # an older release has no such argument
            arguments = {"x-queue-type": arguments["x-queue-type"]}
            with self.place.channel() as channel:
                channel.queue_declare(queue, durable=True, arguments=arguments)
        if arguments.get("x-max-length", 0) > 0 and "x-overflow" not in arguments:
            self.limits[queue] = arguments["x-max-length"]

    def _arguments(self) -> dict[str, Any]:
        draw = self._draw
        quorum = draw.random() < 0.35
        found: dict[str, Any] = {"x-queue-type": "quorum" if quorum else "classic"}
        if draw.random() < 0.4:
            found["x-max-length"] = draw.choice([0, 1, 4])
            if draw.random() < 0.5:
                overflow = ["reject-publish"] if quorum else ["reject-publish", "reject-publish-dlx"]
                found["x-overflow"] = draw.choice(overflow)
            elif found["x-max-length"]:  # what it pushes out is not followed
                return found | {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.spill}
        if draw.random() < 0.5:
            found["x-message-ttl"] = draw.choice([0, 1, 40, LONG_MS])
        if draw.random() < 0.8:
            found["x-dead-letter-exchange"] = draw.choice(["", "", *self.exchanges, f"{self.name}.missing"])
            if draw.random() < 0.7:
                ahead = [*self.origins, self.sink, self.dead, "eu", f"{self.name}.nowhere"]
                found["x-dead-letter-routing-key"] = draw.choice(ahead)
        return found

    def wanted(self) -> RedriveOptions:
        """Draw how they are brought back."""
        draw = self._draw
        to: Any = draw.choice(["origin", "origin", "published", "elsewhere"])
        if to == "elsewhere":
            to = Address(draw.choice(["", *self.exchanges]), draw.choice(["eu", self.sink, *self.origins]))
        headers: Any = draw.choice(["strip", "attempts", "keep"])
        return RedriveOptions(to=to, headers=headers, allowed=ALLOWED)

    def bring_back(self, journal: Path) -> None:
        """Predict as a dry run does, and bring them back."""
        server = self.place.server
        assert server.amqp_url is not None
        on_server, wanted = queue_on(server, self.dead), self.wanted()
        found = peek(server.amqp_url, server.vhost, how_to_peek(on_server.settings, "consume"))
        planner = RedrivePlanner(on_server.flow, held_now(server, on_server), wanted)
        self.planned = [planner.planned(waiting(row)) for row in found.rows]
        assert len(self.planned) == MESSAGES_OF_A_CASE
        with RedriveJournal(journal, wanted.asked(str(server), server.vhost, self.dead)) as opened:
            bring_back(server, on_server, wanted, opened, Pace())

    def wrong(self) -> Iterator[Wrong]:
        """Yield the predictions that did not come true."""
        for planned in self.planned:
            stays = [self.dead] if planned.fate.kind in STAY else []
            for queue in (*stays, *planned.fate.queues):
                held = self.expected.setdefault(queue, [])
                held.append(planned.message.id)
                if len(held) > self.limits.get(queue, len(held)):
                    held.pop(0)
        there = {queue: ids_in(self.place, queue) for queue in self.queues}
        for planned in self.planned:
            message = planned.message.id
            predicted = sorted(
                queue for queue, held in self.expected.items() if message in held and queue != self.spill
            )
            found = sorted(queue for queue, held in there.items() if message in held)
            if predicted != found:
                fate = planned.fate
                yield Wrong(self.place.release, self.seed, message, fate.kind, fate.why, predicted, found)


def compare(live: LiveServer, seeds: list[int], kinds: Counter[str]) -> list[Wrong]:
    """Play the cases of these seeds in a virtual host of their own, and count their kinds."""
    with vhost_on(live, "dlx-fates") as place, tempfile.TemporaryDirectory(prefix="dlx-fates-") as folder:
        cases = [Case(place, seed) for seed in seeds]
        for case in cases:
            case.let_die()
            case.declare()
        for case in cases:
            case.bring_back(Path(folder) / case.name)
            kinds.update(planned.fate.kind.value for planned in case.planned)
        time.sleep(SETTLE_S)
        return [wrong for case in cases for wrong in case.wrong()]


def ids_in(place: Place, queue: str) -> set[str]:
    """Take everything out of a queue that may not exist; return the ids."""
    try:
        return {str(properties.message_id) for _, properties, _ in place.waiting(queue)}
    except pika.exceptions.ChannelClosedByBroker:
        return set()


def main() -> None:
    """Compare, and print what was wrong, and how many predictions of each kind there were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000, help="over all servers")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    servers = given()
    if not servers:
        parser.error("name servers in DLX_LIVE_SERVERS")
    cases = -(-options.messages // (MESSAGES_OF_A_CASE * len(servers)))
    kinds, wrong = Counter[str](), list[Wrong]()
    for at in range(0, cases, CASES_OF_A_VHOST):
        first = options.seed + at
        for live in servers:
            found = compare(live, list(range(first, first + min(CASES_OF_A_VHOST, cases - at))), kinds)
            wrong += found
            for each in found:
                print(msgspec.json.encode(each).decode(), flush=True)
        print(f"{kinds.total():,} messages, {len(wrong):,} predictions wrong", file=sys.stderr, flush=True)
    for kind, count in kinds.most_common():
        print(f"{count:>8,} {kind}: {sum(each.kind == kind for each in wrong):,} wrong")
    share = 1 - len(wrong) / kinds.total()
    print(f"{kinds.total():,} messages, {len(wrong):,} predictions wrong: {share:.2%} right")


if __name__ == "__main__":
    main()
