"""Compares the futures that a dry run predicts with what becomes of the messages on servers, in random topologies.

    DLX_LIVE_SERVERS=4.3=AMQP_URL|MANAGEMENT_URL,... python -m tests.redrive.futures [--messages 10000] [--seed 1]

Messages with keys of their own die in plain queues. Then these are deleted, and others of the same names are declared,
with exchanges, bindings, times to live and dead-letter exchanges drawn at random. The messages are brought back,
whatever is predicted for them, or some of them to where the dry run proposes instead. Then all that waits dies twice
more: a consumer rejects it, or returns it too often, or others push it out of its queue. A prediction is right if after
each step the message is in exactly the queues that it says, and where it is lost, the dry run has said that it may be.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pika
from pika.adapters.blocking_connection import BlockingChannel

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from dlx.message_flow import MessageFlow
from simulator.analysis.walk import Place as Situation
from simulator.analysis.walk import Walk
from simulator.redrive.execute import Execution, RedriveSource
from simulator.redrive.groups import Selection
from simulator.redrive.how_to_peek import how_to_peek
from simulator.redrive.journal import RedriveJournal
from simulator.redrive.peek import peek
from simulator.redrive.plan import Planned, RedriveOptions, RedrivePlanner
from simulator.redrive.prediction import Kind
from simulator.redrive.server import held_now, queue_on
from simulator.redrive.waiting import Address, WaitingMessage, waiting
from simulator.scenario.steps import Publish
from tests.live.servers import LiveServer, given
from tests.redrive.dead_letters import Place, ready, until, vhost_on

MESSAGES_OF_A_CASE = 40
CASES_OF_A_VHOST = 6
DEATHS = 2
SETTLE_S = 1.0
SHORT_MS, LONG_MS = 20, 600_000
LENGTH_MAX = 100
"""Where more copies come together in such a queue, it is not followed what they push out."""
ROUNDS_MAX = 12
"""Whoever has died so often by its short time to live goes on dying: the cycle rule of older releases allows that."""
KEYS = ("a.b", "a.c", "d")
FILLER = "filler"
STAY = frozenset(
    {
        Kind.NOT_SELECTED,
        Kind.UNKNOWN_ORIGIN,
        Kind.UNROUTABLE,
        Kind.REFUSED_WHEN_FULL,
        Kind.REFUSED_PUBLISH,
        Kind.ENDLESS,
    }
)


class Wrong(msgspec.Struct, frozen=True):
    """A prediction that did not come true: after so many deaths, what was predicted and what was found.

    ``trap``: the message is lost, and no loss of it was foreseen.
    """

    release: str
    seed: int
    message: str
    kind: str
    deaths: int
    predicted: list[str]
    found: list[str]
    trap: bool


class Case:
    """One dead-letter queue and what is around it, drawn by a seed; all names begin with the case's own.

    Its ``channel`` stays open: a quorum queue drops answers that it has not got when the channel is closed.
    """

    def __init__(self, place: Place, channel: BlockingChannel, seed: int, messages: int) -> None:
        self.place, self.channel, self.seed, self.messages = place, channel, seed, messages
        self.name = name = f"f{seed}"
        self.dead, self.entry = f"{name}.dead", f"{name}.in"
        self.origins = [f"{name}.q{number}" for number in range(2)]
        self.others = [f"{name}.r{number}" for number in range(3)]
        self.exchanges = [f"{name}.x{number}" for number in range(3)]
        self.planned: dict[str, Planned] = {}
        self.expected: dict[str, list[Situation]] = {}
        self.lived: set[str] = set()
        self.untold: set[str] = set()
        self.unclear: set[str] = set()
        self.published_again: set[str] = set()
        self.compared_with_first = self.follows = 0
        self.wrong: list[Wrong] = []
        self._limited: list[str] = []
        self._delivered_once: list[str] = []
        self._short: set[str] = set()
        self._draw = random.Random(seed)

    @property
    def queues(self) -> list[str]:
        """All queues whose messages are looked at."""
        return [*self.origins, *self.others, self.dead]

    def let_die(self) -> None:
        """Have messages die in plain queues, and delete these."""
        draw = self._draw
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead}
        channel = self.channel
        kind: dict[str, Any] = {"x-queue-type": draw.choice(["classic", "quorum"])}
        if draw.random() < 0.3:
            kind["x-dead-letter-exchange"] = self.exchanges[0]
        channel.queue_declare(self.dead, durable=True, arguments=kind)
        channel.exchange_declare(self.entry, "topic", durable=True)
        for queue, key in zip(self.origins, ("a.*", "d"), strict=True):
            channel.queue_declare(queue, durable=True, arguments=to_dead)
            channel.queue_bind(queue, self.entry, key)
        for number in range(self.messages):
            key = draw.choice(KEYS)
            exchange, key = draw.choice([(self.entry, key)] * 3 + [("", draw.choice(self.origins))])
            headers = {"kind": draw.choice("ab")} | ({"CC": [f"cc.{key}"]} if draw.random() < 0.1 else {})
            properties = pika.BasicProperties(message_id=f"{self.name}-{number}", headers=headers)
            channel.basic_publish(exchange, key, b".", properties)
        for queue in self.origins:
            for last, _ in _held(channel, queue)[-1:]:
                channel.basic_nack(last, multiple=True, requeue=False)
        until(lambda: ready(channel, self.dead) == self.messages)
        for queue in self.origins:
            channel.queue_delete(queue)
            if draw.random() < 0.2:  # which the messages were bound by, and are no more
                channel.queue_unbind(queue, self.entry, "d")

    def declare(self) -> None:
        """Declare what they come back to."""
        draw = self._draw
        channel = self.channel
        for exchange in self.exchanges:
            alternate = {"alternate-exchange": draw.choice(self.exchanges)} if draw.random() < 0.2 else {}
            kind = draw.choice(["direct", "direct", "topic", "topic", "fanout", "headers"])
            channel.exchange_declare(exchange, kind, durable=True, arguments=alternate)
        for queue in (*self.origins, *self.others):
            self._declare(queue)
        for queue, key in zip(self.origins, ("a.*", "d"), strict=True):
            channel.queue_bind(queue, self.entry, key)
        if draw.random() < 0.3:
            channel.queue_bind(draw.choice(self.others), self.entry, draw.choice(["#", *KEYS]))
        for exchange in self.exchanges:
            for queue in draw.sample(self.queues, 2):
                key = draw.choice(["#", "a.*", "cc.#", *KEYS, *KEYS, *self.origins])
                compared = {"x-match": "any", "kind": draw.choice("ab")}
                channel.queue_bind(queue, exchange, key, arguments=compared)

    def _declare(self, queue: str) -> None:
        arguments = self._arguments(origin=queue in self.origins)
        try:
            with self.place.channel() as channel:
                channel.queue_declare(queue, durable=True, arguments=arguments)
        except pika.exceptions.ChannelClosedByBroker:  # an older release has no such argument
            del arguments["x-message-ttl"]
            with self.place.channel() as channel:
                channel.queue_declare(queue, durable=True, arguments=arguments)
        if "x-delivery-limit" in arguments:
            self._delivered_once.append(queue)
        elif "x-max-length" in arguments:
            self._limited.append(queue)

    def _arguments(self, *, origin: bool) -> dict[str, Any]:
        draw = self._draw
        found: dict[str, Any] = {"x-queue-type": "quorum" if draw.random() < 0.4 else "classic"}
        if found["x-queue-type"] == "quorum" and draw.random() < 0.4:
            found["x-delivery-limit"] = 0
        if draw.random() < 0.4:
            found["x-message-ttl"] = LONG_MS if origin and draw.random() < 0.7 else draw.choice([SHORT_MS, LONG_MS])
        if draw.random() < 0.15:
            found["x-max-length"] = LENGTH_MAX
        if draw.random() < (0.9 if origin else 0.6):
            found["x-dead-letter-exchange"] = draw.choice(["", self.entry, *self.exchanges * 2, f"{self.name}.missing"])
            if draw.random() < (0.6 if found["x-dead-letter-exchange"] == "" else 0.3):
                found["x-dead-letter-routing-key"] = draw.choice([*self.queues, *KEYS, f"{self.name}.nowhere"])
        return found

    def bring_back(self, folder: Path) -> None:
        """Predict as a dry run does, and bring them back."""
        server = self.place.server
        assert server.amqp_url is not None
        on_server = queue_on(server, self.dead)
        settings = {queue: on_server.flow.settings(queue) for queue in self.queues}
        self._short = {queue for queue, each in settings.items() if each.message_ttl_ms == SHORT_MS}
        how = how_to_peek(on_server.settings, "consume")
        messages = [waiting(row) for row in peek(server.amqp_url, server.vhost, how).rows]
        assert len(messages) == self.messages
        held = held_now(server, on_server)
        wanted = self._wanted(on_server.flow, messages)
        planner = RedrivePlanner(on_server.flow, held, wanted)
        for planned in map(planner.planned, messages):
            if planned.fate.kind not in STAY:
                self.planned[planned.message.id] = planned
                self.expected[planned.message.id] = self._first(planned, on_server.flow)
        again = RedrivePlanner(on_server.flow, held, wanted)
        with RedriveJournal(folder / self.name, wanted.asked(str(server), server.vhost, self.dead)) as journal:
            Execution(RedriveSource(server.amqp_url, server.vhost, self.dead, how), journal, again.planned).run()

    def _wanted(self, flow: MessageFlow, messages: list[WaitingMessage]) -> RedriveOptions:
        """Draw how they are brought back: some to where a dry run proposes instead of their origin."""
        draw = self._draw
        headers: Any = draw.choice(["strip", "strip", "attempts", "keep"])
        to: Any = draw.choice(["origin", "origin", "origin", "published", "elsewhere"])
        if to == "elsewhere":
            to = Address(draw.choice(["", *self.exchanges]), draw.choice([*KEYS, *self.others, *self.origins]))
        wanted = RedriveOptions(to=to, headers=headers, allowed=frozenset(Kind) - STAY)
        planner = RedrivePlanner(flow, {}, wanted)
        proposed: dict[str, list[str]] = {}
        for message in messages if to == "origin" and draw.random() < 0.5 else []:
            instead = planner.instead_of(planner.planned(message))
            if instead is not None and instead.option:
                proposed.setdefault(instead.option, []).append(message.id)
        if not proposed:
            return wanted
        option = draw.choice(sorted(proposed))
        self.follows = len(proposed[option])
        _, *words = option.split()
        to = words[0] if len(words) == 1 else Address(words[0], words[1])
        chosen = Selection([f"id~^({'|'.join(proposed[option])})$"])
        # Which is not lost there: if the dry run says now that it is, it stays, and that is found.
        return RedriveOptions(to=to, headers=headers, only=chosen, allowed=frozenset(Kind) - STAY - {Kind.LOST_LATER})

    def _first(self, planned: Planned, flow: MessageFlow) -> list[Situation]:
        assert planned.address is not None
        to = Publish(planned.address.exchange, planned.address.routing_key, headers=planned.headers)
        walk = Walk(flow, to.vhost, [to])
        return [place for each in walk.places if each.hop is None for place in self._rests(planned, each)]

    def _rests(self, planned: Planned, place: Situation, rounds: int = 0) -> Iterator[Situation]:
        """Yield where a message waits when the short times to live have run out; note where that never ends."""
        if place.queue not in self._short:
            yield place
        elif rounds < ROUNDS_MAX:
            yield from self._died(planned, place, EXPIRED, rounds)
        else:
            self.unclear.add(planned.message.id)

    def _died(self, planned: Planned, place: Situation, reason: str, rounds: int = 0) -> Iterator[Situation]:
        """Yield where a message waits after a death. Where it is lost, the dry run has said so of that death."""
        ahead = [onward for hop, onward in place.onward if hop.reason == reason]
        told = any(loss.queue == place.queue and reason in loss.reasons for loss in planned.fate.future.losses)
        if not ahead and not told and planned.fate.kind != Kind.LOST_AT_ONCE:
            self.untold.add(planned.message.id)
        for onward in ahead:
            yield from self._rests(planned, onward, rounds + 1)

    def compare(self, deaths: int, *, die: bool) -> None:
        """Note what is not where it was predicted to be after so many deaths, and have all die once more."""
        reasons = self._reasons()
        found: dict[str, list[str]] = {}
        channel = self.channel
        in_order = sorted(self.queues, key=lambda queue: reasons[queue] != MAXLEN)
        held = {queue: _held(channel, queue) for queue in in_order}
        for queue in in_order:
            for _, message in held[queue]:
                found.setdefault(message, []).append(queue)
            for is_done, together in groupby(held[queue], lambda each: not die or each[1] == FILLER):
                tags = [tag for tag, _ in together]
                last = tags[-1]
                if is_done:
                    channel.basic_ack(last, multiple=True)
                elif reasons[queue] == DELIVERY_LIMIT:
                    for tag in tags:
                        channel.basic_reject(tag, requeue=True)
                else:
                    channel.basic_nack(last, multiple=True, requeue=reasons[queue] == MAXLEN)
            if die and reasons[queue] == MAXLEN:
                for _ in range(LENGTH_MAX):
                    channel.basic_publish("", queue, b"", pika.BasicProperties(message_id=FILLER))
        for message, planned in self.planned.items():
            predicted = sorted(place.queue for place in self.expected[message])
            self._judge(planned, deaths, predicted, sorted(found.get(message, ())))
            if not die:
                continue
            self.expected[message] = [
                rest for place in self.expected[message] for rest in self._died(planned, place, reasons[place.queue])
            ]
        copies = Counter(place.queue for places in self.expected.values() for place in places)
        if any(copies[queue] > LENGTH_MAX for queue in self._limited):
            self.unclear.update(self.planned)

    def publish_again(self) -> None:
        """Publish the messages as they were first published."""
        channel = self.channel
        for message, planned in {} if self._short else self.planned.items():
            entry = planned.message.first_entry
            assert entry is not None
            key, *copied = entry.routing_keys
            headers = {"kind": planned.message.headers["kind"]} | ({"CC": copied} if copied else {})
            properties = pika.BasicProperties(message_id=message, headers=headers)
            channel.basic_publish(entry.exchange, key, b".", properties)

    def reject_there(self) -> None:
        """Reject them in the queue in which they first died, and take them out of others."""
        channel = self.channel
        held = [(queue, *each) for queue in self.queues for each in _held(channel, queue)]
        for is_there, together in groupby(held, lambda each: self._is_where_it_died(each[0], each[2])):
            alike = list(together)
            if is_there:
                self.published_again.update(message for _, _, message in alike)
                channel.basic_nack(alike[-1][1], multiple=True, requeue=False)
            else:
                channel.basic_ack(alike[-1][1], multiple=True)

    def _is_where_it_died(self, queue: str, message: str) -> bool:
        planned = self.planned.get(message)
        first = None if planned is None else planned.message.first_entry
        return planned is not None and first is not None and queue == first.queue and queue in planned.fate.queues

    def compare_with_first(self) -> None:
        """Note where the dry run was wrong about what the first publish would have done better."""
        channel = self.channel
        found = {message for queue in self.queues for _, message in _held(channel, queue)}
        for message in self.published_again:
            planned, first = self.planned[message], self.planned[message].message.first_entry
            assert first is not None
            for loss in planned.fate.future.losses:
                if loss.queue == first.queue and not loss.after and REJECTED in loss.reasons:
                    self.compared_with_first += 1
                    if loss.as_before == (message in found):
                        kind, said = planned.fate.kind, [f"as before: {loss.as_before}"]
                        self.wrong.append(Wrong(self.place.release, self.seed, message, kind, -1, said, [], False))

    def _reasons(self) -> dict[str, str]:
        """Draw why messages die in each queue: in one of them others may push them out."""
        reasons = dict.fromkeys(self.queues, REJECTED)
        reasons |= {queue: self._draw.choice([REJECTED, DELIVERY_LIMIT]) for queue in self._delivered_once}
        return reasons | dict.fromkeys(self._draw.sample(self._limited, min(1, len(self._limited))), MAXLEN)

    def _judge(self, planned: Planned, deaths: int, predicted: list[str], found: list[str]) -> None:
        fate, message = planned.fate, planned.message.id
        if message in self.unclear:
            return
        if found:
            self.lived.add(message)
        foreseen = message not in self.untold and not fate.is_safe
        trap = not found and message in self.lived and not foreseen
        if predicted != found or trap:
            self.wrong.append(Wrong(self.place.release, self.seed, message, fate.kind, deaths, predicted, found, trap))


def _held(channel: BlockingChannel, queue: str) -> list[tuple[int, str]]:
    """Take all out of a queue, without an answer; return tags and ids."""
    held = []
    while (got := channel.basic_get(queue))[0] is not None:
        held.append((got[0].delivery_tag, str(got[1].message_id)))
    return held


def play(place: Place, seeds: Iterable[int], settle: Callable[[], object], messages: int) -> list[Case]:
    """Play the cases of these seeds side by side."""
    with tempfile.TemporaryDirectory(prefix="dlx-futures-") as folder, ExitStack() as opened:
        cases = []
        for seed in seeds:
            channel = opened.enter_context(place.channel())
            channel.confirm_delivery()
            cases.append(Case(place, channel, seed, messages))
        for case in cases:
            case.let_die()
            case.declare()
        for case in cases:
            case.bring_back(Path(folder))
        for deaths in range(DEATHS + 1):
            settle()
            for case in cases:
                case.compare(deaths, die=deaths < DEATHS)
        for step in (Case.publish_again, Case.reject_there, Case.compare_with_first):
            settle()
            for case in cases:
                step(case)
    return cases


def on_live(live: LiveServer, seeds: Iterable[int]) -> list[Case]:
    """Play the cases of these seeds in a virtual host of their own."""
    with vhost_on(live, "dlx-futures") as place:
        return play(place, seeds, lambda: time.sleep(SETTLE_S), MESSAGES_OF_A_CASE)


def main() -> None:
    """Compare, and print what was wrong, and how many predictions of each kind there were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000, help="over all servers")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    servers = given()
    if not servers:
        parser.error("name servers in DLX_LIVE_SERVERS")
    kinds: Counter[str] = Counter()
    safe = traps = compared = follows = lost = 0
    wrong: set[tuple[str, int, str]] = set()
    seeds = range(options.seed, 10**9)
    while kinds.total() < options.messages:
        chosen, seeds = seeds[:CASES_OF_A_VHOST], seeds[CASES_OF_A_VHOST:]
        for case in (case for live in servers for case in on_live(live, chosen)):
            compared_here = [each for message, each in case.planned.items() if message not in case.unclear]
            kinds.update(planned.fate.kind.value for planned in compared_here)
            safe += sum(planned.fate.is_safe for planned in compared_here)
            compared += case.compared_with_first
            follows += case.follows
            lost += sum(message in case.lived and not case.expected[message] for message in case.planned)
            for each in case.wrong:
                print(msgspec.json.encode(each).decode(), flush=True)
                wrong.add((each.release, each.seed, each.message))
                traps += each.trap
        print(f"{kinds.total():,} messages, {len(wrong):,} predictions wrong", file=sys.stderr, flush=True)
    for kind, count in kinds.most_common():
        print(f"{count:>8,} {kind}")
    share = 1 - len(wrong) / kinds.total()
    print(f"{kinds.total():,} messages, {len(wrong):,} predictions wrong: {share:.2%} right")
    print(f"{safe:,} were called safe; {traps:,} were lost where no loss was foreseen")
    print(f"{lost:,} were lost within {DEATHS} deaths; {follows:,} went where the dry run proposed instead")
    print(f"{compared:,} losses were compared with what becomes of the same message as it was first published")


if __name__ == "__main__":
    main()
