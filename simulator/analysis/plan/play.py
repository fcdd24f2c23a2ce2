"""Plays the steps of a plan on a broker, with messages in every queue and publishers that go on, and says what is lost.

A message has an id. After each act, or a few of many, the copies in the queues are compared with those before: one
that is gone, and came to no other queue by it, was lost in that step. Then every entry is published once, and of each
kind of message in a queue it is asked where its dead letter would go. What reached a queue before the steps, and
reaches none between two of them, is lost there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dlx.deaths import REJECTED
from dlx.message import Message
from dlx.releases import Release
from dlx.server_plugins import PLAYED, plugins_with
from dlx.topology import STREAM, Topology
from simulator.analysis.findings import ObjectName, few
from simulator.analysis.life import ARRIVES
from simulator.analysis.plan.changes import QUEUE
from simulator.analysis.plan.refusals import USER, Client
from simulator.analysis.plan.steps import (
    MOVING,
    AddVhost,
    AnyAct,
    ClearPolicy,
    Count,
    Delete,
    Drain,
    Import,
    Known,
    Move,
    PlanStep,
    SetPolicy,
    Unbind,
)
from simulator.analysis.snapshot import Snapshot
from simulator.bootstrap import take_definitions
from simulator.broker import Broker, Copy, OperatorError, commands, delivered_properties
from simulator.broker.replies import Got, Refused
from simulator.events import Event, Happened
from simulator.json_values import canonical_json, plain
from simulator.scenario.player import START_US, Clients
from simulator.scenario.player import USER as TRIAL_USER
from simulator.scenario.steps import Properties, Publish, changed

UNKNOWN_WAITING = 5
"""How many messages wait in a queue without a known count."""
WAITING_MAX = 10_000
ENTRIES_MAX = 300
AT_ONCE_MS = 1_000
"""``dlx redrive`` moves nothing to a queue with so short a time to live."""
LOOKS_MAX = 10
"""So often publishers publish within one step at most, and it is looked what is gone."""
Kind = Literal["waiting", "staying", "published", "dead letters"]
Reach = frozenset[str] | None
"""The queues that a message comes to; ``None`` where its exchange is not there, so that its publisher is told."""


class Lost(msgspec.Struct, frozen=True):
    """What is lost on the way, or from there on.

    Attributes:
        kind: messages that waited in a queue, those that do not get to where they should and stay, what is published,
            or the dead letters of a queue.
        step: the number of the step, from 1 on.
        until: the step that ends it; ``None`` for what is lost in the step alone, or from there on.
        for_good: whether it goes on after the last step.
        what: which messages, in a phrase.
        count: how many messages of those that waited; ``None`` where nobody knows, or where it goes on.
    """

    kind: Kind
    step: int
    until: int | None
    for_good: bool
    what: str
    count: int | None = None


class Played(msgspec.Struct, frozen=True):
    """What came of the steps.

    Attributes:
        lost: what is lost.
        refused: what publishers are told of: their exchange is not there.
        twice: what comes twice, in phrases.
        refusal: the step that the server refuses, and its words; the steps behind it were not played.
        kept: the deletions that were left out, as messages stay there.
        waiting: how many messages waited in the queues as it was played.
        published: how many different publishes went on between the steps.
        left_out: what was not played, in phrases.
        end: the virtual hosts as they are in the end, by name.
    """

    lost: tuple[Lost, ...]
    refused: tuple[Lost, ...]
    twice: tuple[str, ...]
    refusal: tuple[int, str] | None
    kept: frozenset[Delete]
    waiting: int
    published: int
    left_out: tuple[str, ...]
    end: Mapping[str, Topology]


class PlanRefusedError(Exception):
    """Raised where a server refuses a step; ``words`` are the server's."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


Observer = Callable[[Happened, Message], None]


def broker_of(snapshot: Snapshot, observer: Observer | None = None) -> Broker:
    """Return a new broker that has what definitions say, and no stand-ins for queues that they leave out.

    It has the plugins that other definitions may need.
    """
    broker = Broker(snapshot.release, observer=observer, plugins=plugins_with(PLAYED))
    take_definitions(broker, snapshot.definitions.document, snapshot.only_vhost, START_US)
    client = Client(broker)
    for about in snapshot.left_out:
        client.told(commands.DeleteQueue(client.channel(about.vhost), about.name))
    return broker


def played(
    before: Snapshot,
    after: Snapshot,
    steps: Sequence[PlanStep],
    temporary: Mapping[ObjectName, str],
    known: Known,
) -> Played:
    """Play the steps on a broker that has ``before``. ``temporary`` names the queues that take the place of others."""
    return _Play(before, after, temporary, known).played(steps)


class _Play:
    """Plays one plan."""

    def __init__(self, before: Snapshot, after: Snapshot, temporary: Mapping[ObjectName, str], known: Known) -> None:
        self._release: Release = before.release
        self._known = known
        self._vhosts = set(after.definitions.vhosts)
        self._types = {(each.vhost, each.name): here for each, (_, here) in after.of_plugins.items()}
        self._home = {(each.vhost, name): each.name for each, name in temporary.items()}
        self._home |= {(each.vhost, each.name): name for each, name in known.moves.items()}
        self._seen: list[Happened] = []
        self._broker = broker_of(before, lambda event, _: self._seen.append(event))
        self._clients = Clients(self._broker, START_US)
        self._client = Client(self._broker)
        self._entries = self._publishes(before, after)
        both = [item for side in (before, after) for item in side.topologies.items()]
        bindings = [(vhost, each) for vhost, it in both for bound in it.bindings.values() for each in bound]
        self._keys = {(vhost, each.routing_key) for vhost, each in bindings}
        exchanges = [(vhost, each) for vhost, it in both for each in it.exchanges.values()]
        self._topics = {(vhost, each.name) for vhost, each in exchanges if each.type == "topic"}
        self._kept = {(vhost, name) for vhost, flow in after.flows.items() for name in flow.topology.queues}
        self._kept -= {(each.vhost, each.name) for each in after.left_out}
        self._probes: dict[tuple[str, str, str, tuple[str, ...]], Message] = {}
        self._rounds: list[tuple[int, dict[Any, Reach]]] = []
        self._lost: list[Lost] = []
        self._waiting: Counter[ObjectName] = Counter()
        self._moved: dict[tuple[str, str], Move] = {}
        self._stuck: dict[Move, int] = {}
        self._drained: set[tuple[str, str]] = set()
        self._deletions_kept: set[Delete] = set()
        self._first_dead_letters: dict[tuple[str, str, str, tuple[str, ...]], Reach] = {}
        self._first_kinds: dict[tuple[str, str, str], tuple[str, str, str, tuple[str, ...]]] = {}
        self._number = 0

    def _publishes(self, before: Snapshot, after: Snapshot) -> list[Publish]:
        """Return what publishers publish by either topology, to virtual hosts that are there now."""
        found = {repr(each): each for each in (*before.entries.publishes, *after.entries.publishes)}
        left = {each.name for each, to in self._known.moves.items() if each.name == f"{to}{MOVING}"}
        for each in self._known.moves:
            if f"{each.name}{MOVING}" in before.topologies[each.vhost].exchanges:
                left |= {each.name, f"{each.name}{MOVING}"}
        found = {key: each for key, each in found.items() if (each.exchange or each.routing_key) not in left}
        return [each for each in found.values() if each.vhost in self._vhosts and each.vhost in before.broker.vhosts]

    def played(self, steps: Sequence[PlanStep]) -> Played:
        left_out = len(self._entries) - ENTRIES_MAX
        self._entries = self._entries[:ENTRIES_MAX]
        self._fill()
        self._round(0, publish=True)
        self._entries = [each for each in self._entries if self._rounds[0][1].get(repr(each))]
        refusal = None
        try:
            for number, step in enumerate(steps, 1):
                self._step(number, step, last=number == len(steps))
        except PlanRefusedError as error:
            refusal = self._number, error.words
        return Played(
            lost=(
                *self._lost,
                *self._staying(),
                *self._intervals(told=False),
                *self._dead_letters_of_moved(len(steps)),
            ),
            refused=tuple(self._intervals(told=True)),
            twice=tuple(self._twice()),
            refusal=refusal,
            kept=frozenset(self._deletions_kept),
            waiting=self._waiting.total(),
            published=len(self._entries),
            left_out=(f"{left_out:,} more keys and headers that publishers may use",) if left_out > 0 else (),
            end={name: host.topology for name, host in self._broker.vhosts.items()},
        )

    def _fill(self) -> None:
        """Let messages wait in every queue: as many as are known to be there, or a share of what is played at most."""
        hosts = [host for name, host in sorted(self._broker.vhosts.items()) if name in self._vhosts]
        queues = [ObjectName(QUEUE, host.name, name) for host in hosts for name in host.queues]
        counts = {each: self._known.messages.get(each, UNKNOWN_WAITING) for each in queues}
        most = max(WAITING_MAX // max(1, sum(map(bool, counts.values()))), UNKNOWN_WAITING)
        for place, queue in enumerate(queues):
            self._waiting[queue] = min(counts[queue], most)
            for number in range(self._waiting[queue]):
                self._publish(Publish("", queue.name, vhost=queue.vhost), f"w{place}.{number}")

    def _publish(self, publish: Publish, message_id: str) -> Reach:
        """Publish a message, and return the queues that it came to."""
        if publish.exchange not in self._broker.vhosts[publish.vhost].exchanges:
            return None
        self._seen.clear()
        self._clients.act(changed(publish, properties=Properties(message_id=message_id)))
        came = (each.queue for each in self._seen if each.event in (Event.ROUTED, Event.NACKED, Event.DEFERRED))
        return frozenset(self._at(publish.vhost, queue) for queue in came if queue is not None)

    def _at(self, vhost: str, queue: str) -> str:
        """Return the queue in which a message of this one is in the end."""
        return self._home.get((vhost, queue), queue)

    # The steps

    def _step(self, number: int, step: PlanStep, *, last: bool) -> None:
        self._number = number
        size = -(-len(step.acts) // LOOKS_MAX)
        for start in range(0, len(step.acts), size):
            there = self._copies()
            for act in step.acts[start : start + size]:
                self._act(act)
            if not isinstance(act, Drain):  # a step is of one kind
                self._compare(number, there)
            at_end = last and start + size >= len(step.acts)
            self._round(number, publish=at_end or not self._known.publishers_stopped)

    def _copies(self) -> Counter[tuple[str, str, str]]:
        """Return the copies in queues: the id of each, its virtual host, and the queue in which it is in the end."""
        found: Counter[tuple[str, str, str]] = Counter()
        for queue, copy in self._broker.copies():
            vhost = queue.vhost.name
            found[str(copy.message.properties.get("message_id")), vhost, self._at(vhost, queue.name)] += 1
        return found

    def _compare(self, number: int, before: Counter[tuple[str, str, str]]) -> None:
        """Note the copies that the last act lost."""
        now = self._copies()
        moved_on = {each[0] for each in now.keys() - before.keys()}
        gone = [each for each in before if each not in now and each[0] not in moved_on]
        waited = Counter((vhost, queue) for message_id, vhost, queue in gone if message_id.startswith("w"))
        published = Counter((vhost, queue) for message_id, vhost, queue in gone if not message_id.startswith("w"))
        for (vhost, queue), count in waited.items():
            about = ObjectName(QUEUE, vhost, queue)
            known = self._known.messages.get(about)
            whole = known if known is not None and count == self._waiting[about] else count
            what = f"messages in '{queue}'{self._on(vhost)}"
            self._lost.append(Lost("waiting", number, None, False, what, None if known is None else whole))
        for vhost, queue in published.keys() - waited.keys() - self._drained:
            what = f"what was published into '{queue}'{self._on(vhost)} meanwhile"
            self._lost.append(Lost("waiting", number, None, False, what))

    def _on(self, vhost: str) -> str:
        """Return what tells a virtual host from the others of the plan."""
        return "" if len(self._vhosts) == 1 else f" in virtual host '{vhost}'"

    def _act(self, act: AnyAct) -> None:
        vhost, client = act.vhost, self._client
        if isinstance(act, Move):
            self._move(act)
        elif isinstance(act, Count):
            pass
        elif isinstance(act, Drain):
            self._drained.add((vhost, act.queue))
            client.told(commands.PurgeQueue(client.channel(vhost), act.queue))
        else:
            self._tell(act)

    def _tell(self, act: AnyAct) -> None:
        if isinstance(act, Delete) and self._is_needed(act):
            self._deletions_kept.add(act)
            return
        code, words = self._told(act)
        is_queue = isinstance(act, Delete) and act.kind == QUEUE
        moved = self._moved.get((act.vhost, act.name)) if code and isinstance(act, Delete) and is_queue else None
        if moved is not None:  # something came in behind the move
            if self._move(moved):
                code, words = self._told(act)
            else:
                code = 0
                if isinstance(act, Delete):
                    self._deletions_kept.add(act)
        elif code and isinstance(act, Delete) and (act.vhost, act.name) in self._drained:
            code, words = self._told(msgspec.structs.replace(act, if_empty=False))  # its consumers took that, too
        if code:
            raise PlanRefusedError(words)
        if isinstance(act, Delete) and is_queue and act not in self._deletions_kept:
            gone = act.vhost, act.name
            self._stuck = {each: step for each, step in self._stuck.items() if (each.vhost, each.queue) != gone}
        if isinstance(act, AddVhost):
            for user in (USER, TRIAL_USER):
                self._client.told(commands.SetPermissions(user, act.vhost, ".*", ".*", ".*"))

    def _is_needed(self, act: Delete) -> bool:
        """Tell whether messages stay in a queue in place of another, or the exchange is their way out of it."""
        staying = [each for each in self._stuck if each.vhost == act.vhost and (act.vhost, each.queue) in self._home]
        return any(act.name == (each.queue if act.kind == QUEUE else each.through) for each in staying)

    def _staying(self) -> Iterator[Lost]:
        for move, number in self._stuck.items():
            held = self._held(move.vhost, move.queue)
            known = self._known.messages.get(ObjectName(QUEUE, move.vhost, self._at(move.vhost, move.queue)))
            known = self._known.messages.get(ObjectName(QUEUE, move.vhost, move.queue), known)
            target = self._broker.queue(move.to, move.vhost)
            most = None if target is None else target.settings.max_length
            again = (move.vhost, move.to) in self._moved
            there = 0 if again else self._waiting[ObjectName(QUEUE, move.vhost, move.to)]
            room = 0 if most is None else most - max(there, _waited(self._held(move.vhost, move.to)))
            waited = _waited(held)
            waited -= room if 0 < room < waited else 0  # what was published in the play takes none of it
            what = f"messages that '{move.to}'{self._on(move.vhost)} has no room for: they stay in '{move.queue}'"
            if not waited:
                known = None
                where = f"'{move.to}'{self._on(move.vhost)}"
                what = f"what is published and {where} has no room for: it stays in '{move.queue}'"
            if held:
                yield Lost("staying", number, None, False, what, None if known is None else waited)

    def _held(self, vhost: str, queue: str) -> list[Copy]:
        state = self._broker.queue(queue, vhost)
        return [] if state is None else list(state.held())

    def _told(self, act: AnyAct) -> tuple[int, str]:
        try:
            return self._client.told(_command(self._as_here(act), self._client))
        except OperatorError as error:
            raise PlanRefusedError(error.text) from error

    def _as_here(self, act: AnyAct) -> AnyAct:
        """Return an import with the types as which exchanges of plugins' types are taken here."""
        if not isinstance(act, Import) or not self._types:
            return act
        exchanges = [
            {**each, "type": self._types.get((act.vhost, each["name"]), each["type"])}
            for each in act.document.get("exchanges", ())
        ]
        return msgspec.structs.replace(
            act, document={**act.document, **({"exchanges": exchanges} if exchanges else {})}
        )

    def _move(self, move: Move) -> bool:
        """Move what is in the queue, and return whether the other took all of it."""
        self._moved[move.vhost, move.queue] = move
        broker, channel = self._broker, self._client.channel(move.vhost)
        broker.handle(commands.SelectConfirms(channel), START_US)
        for _ in self._held(move.vhost, move.queue):
            if self._would_push_out(move):
                self._stuck[move] = self._number
                return False
            got = [each for each in broker.handle(commands.Get(channel, move.queue), START_US) if isinstance(each, Got)]
            if not got:
                break
            properties = delivered_properties(got[0].message, self._release, got[0].added)
            key = got[0].message.routing_keys[0]
            answer = broker.handle(commands.Publish(channel, move.through, key, properties, got[0].body), START_US)
            if any(isinstance(each, Refused) for each in answer):
                broker.handle(commands.Nack(channel, got[0].delivery_tag), START_US)
                self._stuck[move] = self._number
                return False
            broker.handle(commands.Ack(channel, got[0].delivery_tag), START_US)
        self._stuck.pop(move, None)
        return True

    def _would_push_out(self, move: Move) -> bool:
        """Tell whether the queue that gets a message drops one for it, or drops it at once: then it stays."""
        settings = self._broker.vhosts[move.vhost].flow(self._release).settings(move.to)
        if settings.queue.type == STREAM:
            return False
        if settings.message_ttl_ms is not None and settings.message_ttl_ms <= AT_ONCE_MS:
            return True
        most = None if settings.refuses_when_full else settings.max_length
        return most is not None and len(self._held(move.vhost, move.to)) >= most

    # What publishers and consumers meet between the steps

    def _round(self, number: int, *, publish: bool) -> None:
        reach: dict[Any, Reach] = {}
        if publish:
            place = len(self._rounds)
            for entry, each in enumerate(self._entries):
                reach[repr(each)] = self._publish(each, f"p{number}.{place}.{entry}")
        if not self._rounds:
            self._probes = dict(self._kinds())
            self._first_dead_letters = {
                kind: self._dead_letter(kind[0], kind[1], message) for kind, message in self._probes.items()
            }
        for probe, message in self._probes.items():
            if probe[:2] in self._kept and probe[1] in self._broker.vhosts[probe[0]].queues:
                reach[probe] = self._dead_letter(probe[0], probe[1], message)
        self._rounds.append((number, reach))

    def _kinds(self) -> Iterator[tuple[tuple[str, str, str, tuple[str, ...]], Message]]:
        """Yield one message of each kind that publishers publish, in each queue that it is in."""
        for queue, copy in self._broker.copies():
            message = copy.message
            message_id = str(message.properties.get("message_id"))
            if message_id.startswith("p"):
                kind = queue.vhost.name, queue.name, message.exchange, message.routing_keys
                self._first_kinds[queue.vhost.name, self._at(queue.vhost.name, queue.name), message_id] = kind
                yield kind, message

    def _dead_letters_of_moved(self, number: int) -> Iterator[Lost]:
        """Yield the dead letters of moved messages that go nowhere, where those of what is published then do not."""
        found: dict[str, dict[str, None]] = {}
        for queue, copy in self._broker.copies():
            vhost, message = queue.vhost.name, copy.message
            kind = self._first_kinds.get((vhost, queue.name, str(message.properties.get("message_id"))))
            is_moved = kind is not None and (message.exchange, message.routing_keys) != kind[2:]
            if kind is None or not is_moved or (vhost, queue.name) not in self._kept:
                continue
            reached = [reach[kind] for _, reach in self._rounds if kind in reach] or [self._first_dead_letters[kind]]
            if reached[-1] and not self._dead_letter(vhost, queue.name, message):
                into = f"'{queue.name}'{self._on(vhost)}"
                found.setdefault(into, {})[f"key {', '.join(map(repr, message.routing_keys))}"] = None
        for into, keys in found.items():
            what = f"dead letters of what was moved into {into} with {few(list(keys))}"
            yield Lost("dead letters", number, None, True, what)

    def _dead_letter(self, vhost: str, queue: str, message: Message) -> Reach:
        """Return the queues that get the dead letter of a message that is rejected."""
        flow = self._broker.vhosts[vhost].flow(self._release)
        copies = flow.copies(flow.state(queue, message), REJECTED)
        kept = [queue for each in copies if each.outcome == "held"]
        arrived = [each.queue for each in copies if each.outcome in ARRIVES and each.queue is not None]
        return frozenset(self._at(vhost, each) for each in (*kept, *arrived))

    def _intervals(self, *, told: bool) -> Iterator[Lost]:
        """Yield what came to a queue before and comes to none between steps; ``told``: what publishers are told of."""
        found: dict[tuple[Kind, int, int | None, bool, str], list[str]] = {}
        for probe, first in self._rounds[0][1].items():
            if first:
                for start, end in self._without(probe, first, told=told):
                    kind, where, name = self._named(probe)
                    found.setdefault((kind, start, end, end is None, where), []).append(name)
        for (kind, start, end, for_good, where), names in found.items():
            yield Lost(kind, start, end, for_good, f"{where} {few(list(dict.fromkeys(names)))}")

    def _without(self, probe: Any, first: frozenset[str], *, told: bool) -> Iterator[tuple[int, int | None]]:
        """Yield the first and the last step of each time in which a probe does not come to where it should."""
        asked = [(number, reach[probe]) for number, reach in self._rounds if probe in reach]
        end = asked[-1][1] or frozenset()
        begun: int | None = None
        for number, reach in asked[1:]:
            wrong = reach is None if told else reach is not None and not _is_enough(reach, first, end)
            if wrong and begun is None:
                begun = number
            elif not wrong and begun is not None:
                yield begun, number
                begun = None
        if begun is not None:
            yield begun, None

    def _named(self, probe: Any) -> tuple[Kind, str, str]:
        """Return the kind of a probe, where it goes, and what tells it from others that go there."""
        if isinstance(probe, tuple):
            return (
                "dead letters",
                f"dead letters of '{probe[1]}'{self._on(probe[0])} with",
                f"key {', '.join(map(repr, probe[3]))}",
            )
        publish = next(each for each in self._entries if repr(each) == probe)
        exchange = f"exchange '{publish.exchange}'" if publish.exchange else "the default exchange"
        exchange += self._on(publish.vhost)
        headers = f" and headers {canonical_json(plain(publish.headers))}" if publish.headers else ""
        return "published", f"publishes to {exchange} with", f"{self._key(publish)}{headers}"

    def _key(self, publish: Publish) -> str:
        """Return the key of a publish; where no binding names it, what it stands for."""
        if not publish.exchange or (publish.vhost, publish.routing_key) in self._keys:
            return f"key '{publish.routing_key}'"
        if (publish.vhost, publish.exchange) in self._topics:
            return f"keys such as '{publish.routing_key}'"
        return "any key that no binding names"

    def _twice(self) -> Iterator[str]:
        """Yield which messages came twice, or to two queues of which each is to get them at its time."""
        for publish in self._entries:
            reached = [reach.get(repr(publish)) or frozenset() for _, reach in self._rounds if repr(publish) in reach]
            old, new = reached[0] - reached[-1], reached[-1] - reached[0]
            if any(each & old and each & new for each in reached):
                _, where, name = self._named(repr(publish))
                queues = " and ".join(f"'{queue}'" for queue in sorted(old | new))
                yield f"{where} {name}: until the old bindings are removed, it comes to {queues}"
        twice = Counter((vhost, queue) for (_, vhost, queue), count in self._copies().items() if count > 1)
        for vhost, queue in twice:
            yield f"what is published to '{queue}'{self._on(vhost)} while it and the queue in its place are both bound"


def _is_enough(reach: frozenset[str], first: frozenset[str], end: frozenset[str]) -> bool:
    """Tell whether a message comes to a queue, and to all that get it both before the steps and after them."""
    return bool(reach) and (reach >= first & end)


def _waited(copies: Iterable[Copy]) -> int:
    """Return how many of the copies waited before the steps."""
    return sum(1 for each in copies if str(each.message.properties.get("message_id")).startswith("w"))


def _command(act: AnyAct, client: Client) -> commands.Command:
    """Return what an act tells a broker."""
    vhost = act.vhost
    if isinstance(act, AddVhost):
        return commands.AddVhost(vhost)
    if isinstance(act, Import):
        return commands.ImportDefinitions(act.document, vhost, "guest")
    if isinstance(act, SetPolicy):
        return commands.SetPolicy(vhost, act.policy, act.operator)
    if isinstance(act, ClearPolicy):
        return commands.ClearPolicy(vhost, act.name, act.operator)
    channel = client.channel(vhost)
    if isinstance(act, Unbind):
        binding = act.binding
        kind = commands.UnbindQueue if binding.destination_type == "queue" else commands.UnbindExchange
        return kind(channel, binding.destination, binding.source, binding.routing_key, binding.arguments)
    assert isinstance(act, Delete)
    if act.kind == "exchange":
        return commands.DeleteExchange(channel, act.name)
    return commands.DeleteQueue(channel, act.name, if_empty=act.if_empty)
