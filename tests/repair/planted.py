"""Plants one fault in a recorded log: something that happened, and that the log or the definitions do not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from dlx.deaths import X_DEATH
from dlx.releases import Release
from dlx.settings import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DELIVERY_LIMIT,
    MAX_LENGTH,
    MESSAGE_TTL,
    OVERFLOW,
    effective_settings,
)
from dlx.topology import CLASSIC, QUORUM, Binding, Exchange, Policy, Queue, Topology
from simulator.broker import commands as amqp
from simulator.capture.schema import Observation
from simulator.definitions import Definitions, DefinitionsError
from simulator.replay.repair import hypotheses as costs
from simulator.replay.repair.hypotheses import OtherBinding, OtherExchange, OtherSetting, Part
from simulator.scenario import steps
from simulator.testing.strategies import definitions_document, topologies
from tests.repair.recording import Recording, TooMuchTrafficError, Traffic

STEPS = 60
FAULTS = ("publish dropped", "definitions changed", "foreign publish", "forged header")
OLD = "old"
"""An exchange that is deleted in the middle of a log."""


class Truth(msgspec.Struct, frozen=True):
    """What was planted: right are hypotheses of these kinds, with this part, queue or header."""

    kinds: tuple[str, ...]
    part: Part | None = None
    queue: str | None = None
    header: str | None = None


class Planted(msgspec.Struct, frozen=True):
    """A log with a fault, the definitions to replay it with, and the truth."""

    seed: int
    fault: str
    release: Release
    rows: list[Observation]
    definitions: Definitions
    truth: Truth


def drawn_topologies(rules: Release, first_seed: int, count: int) -> list[Topology]:
    """Draw topologies; the same seed draws the same."""
    found: list[Topology] = []

    @seed(first_seed)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(topologies(queues_min=2, release=rules, types=(CLASSIC, QUORUM)))
    def draw(topology: Topology) -> None:
        found.append(topology)

    draw()
    return found


def planted(fault: str, seed: int, topology: Topology, rules: Release) -> Planted | None:
    """Plant a fault into a log of traffic; ``None`` where the topology has no place for it."""
    try:
        found = _PLANTS[fault](topology, rules, Random(seed))
    except (TooMuchTrafficError, DefinitionsError):
        return None
    if found is None:
        return None
    rows, final, truth = found
    definitions = Definitions(definitions_document(final, rules), "definitions.json")
    return Planted(seed, fault, rules, rows, definitions, truth)


Made = tuple[list[Observation], Topology, Truth]


def _publish_dropped(topology: Topology, rules: Release, random: Random) -> Made | None:
    recording, traffic = Recording(topology, rules), Traffic(topology, random)
    for _ in range(STEPS):
        recording.do(traffic.step())
    delivered = {row.message for row in recording.rows if row.event == "delivered"}
    publishes = [row for row in recording.rows if row.event == "published" and row.message in delivered]
    if not publishes:
        return None
    recording.rows.remove(random.choice(publishes))
    return recording.rows, topology, Truth((costs.ROWS_MISSING, costs.LOG_CUT))


# -- definitions -----------------------------------------------------------------


def _definitions_changed(topology: Topology, rules: Release, random: Random) -> Made | None:
    change = random.choice((_other_setting, _other_setting, _other_setting, _other_binding, _other_exchange))
    made = change(topology, rules, random)
    if made is None:
        return None
    before, after, apply, part = made
    recording, traffic = Recording(before, rules), Traffic(after, random)
    at = random.randint(STEPS // 3, STEPS)
    for number in range(STEPS + at):
        if number == at:
            apply(recording)
        recording.do(traffic.step())
    return recording.rows, after, Truth((costs.OTHER_DEFINITIONS,), part)


Changed = tuple[Topology, Topology, Callable[[Recording], None], Part]


def _other_setting(topology: Topology, rules: Release, random: Random) -> Changed | None:
    """The queue has another value first; policy or argument, as the topology has it."""
    queue = topology.queues[random.choice([*topology.queues])]
    key, value = _other_value(queue, topology, random)
    current = effective_settings(queue, topology, rules)
    if current.value(key) == value:
        return None
    policy = next((policy for policy in topology.policies if policy.name == queue.name), None)
    by_policy = policy is not None or (not _arguments(queue) and random.random() < 0.7)
    if by_policy:
        known = policy or Policy(name=queue.name, pattern=f"^{queue.name}$", definition={}, apply_to="queues")
        other = msgspec.structs.replace(known, definition=_with(known.definition, key, value))
        rest = tuple(each for each in topology.policies if each is not policy)
        before = msgspec.structs.replace(topology, policies=(*rest, *([other] if other.definition else [])))

        def apply(recording: Recording) -> None:
            if policy is None:
                recording.tell(amqp.ClearPolicy("/", queue.name))
            else:
                recording.tell(amqp.SetPolicy("/", policy))
    else:
        other_queue = msgspec.structs.replace(queue, arguments=_with(queue.arguments, f"x-{key}", value))
        before = msgspec.structs.replace(topology, queues={**topology.queues, queue.name: other_queue})

        def apply(recording: Recording) -> None:
            recording.do(steps.Leave(queue.name))
            recording.tell(amqp.DeleteQueue(("operator", 1), queue.name))
            arguments = {**queue.arguments}
            declare = amqp.DeclareQueue(channel=("operator", 1), queue=queue.name, durable=True, arguments=arguments)
            recording.tell(declare)
            for bound in topology.bindings.values():
                for b in bound:
                    if b.destination == queue.name and b.destination_type == "queue":
                        recording.tell(
                            amqp.BindQueue(("operator", 1), queue.name, b.source, b.routing_key, b.arguments)
                        )

    effective = effective_settings(before.queues[queue.name], before, rules).value(key)
    if effective == current.value(key):
        return None
    named = key in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, OVERFLOW)
    return before, topology, apply, OtherSetting(queue.name, key, effective, exact=named)


def _other_value(queue: Queue, topology: Topology, random: Random) -> tuple[str, Any]:
    keys = [DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_EXCHANGE, MESSAGE_TTL, MAX_LENGTH]
    key = random.choice([*keys, DELIVERY_LIMIT] if queue.type == QUORUM else keys)
    values: Mapping[str, list[Any]] = {
        DEAD_LETTER_ROUTING_KEY: [None, *topology.queues],
        DEAD_LETTER_EXCHANGE: [*topology.exchanges],
        MESSAGE_TTL: [1_000],
        MAX_LENGTH: [1],
        DELIVERY_LIMIT: [1, 2],
    }
    return key, random.choice(values[key])


def _with(table: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    found = {name: each for name, each in table.items() if name != key}
    return found if value is None else {**found, key: value}


def _arguments(queue: Queue) -> list[str]:
    return [name for name in queue.arguments if name != "x-queue-type"]


def _other_binding(topology: Topology, rules: Release, random: Random) -> Changed | None:
    """A queue is bound to an exchange first, and not later."""
    exchanges = [each for each in topology.exchanges.values() if each.name in topology.bindings]
    if not exchanges:
        return None
    exchange, queue = random.choice(exchanges), random.choice([*topology.queues])
    bound = topology.bindings[exchange.name]
    if any(binding.destination == queue for binding in bound):
        return None
    key = random.choice(bound).routing_key
    binding = Binding(source=exchange.name, destination=queue, routing_key=key)
    before = msgspec.structs.replace(topology, bindings={**topology.bindings, exchange.name: (*bound, binding)})

    def apply(recording: Recording) -> None:
        recording.tell(amqp.UnbindQueue(("operator", 1), queue, exchange.name, key))

    return before, topology, apply, OtherBinding(exchange.name, queue, key)


def _other_exchange(topology: Topology, rules: Release, random: Random) -> Changed | None:
    """Dead letters go through an exchange first that is deleted later."""
    senders = [
        queue
        for queue in topology.queues.values()
        if not any(policy.name == queue.name for policy in topology.policies)
    ]
    if not senders:
        return None
    sender, target = random.choice(senders), random.choice([*topology.queues])
    arguments = {**_with(sender.arguments, "x-dead-letter-routing-key", None), "x-dead-letter-exchange": OLD}
    queues = {**topology.queues, sender.name: msgspec.structs.replace(sender, arguments=arguments)}
    after = msgspec.structs.replace(topology, queues=queues)
    exchange = Exchange(name=OLD, type=random.choice(("fanout", "topic")))
    key = "" if exchange.type == "fanout" else "#"
    before = msgspec.structs.replace(
        after,
        exchanges={**after.exchanges, OLD: exchange},
        bindings={**after.bindings, OLD: (Binding(source=OLD, destination=target, routing_key=key),)},
    )
    return (
        before,
        after,
        lambda recording: recording.tell(amqp.DeleteExchange(("operator", 1), OLD)),
        OtherExchange(OLD, "fanout"),
    )


# -- publishes that the trace does not show --------------------------------------


def _foreign_publish(topology: Topology, rules: Release, random: Random) -> Made | None:
    """A publisher that uses an address of its own, one that uses another's, or a shovel that moves a message."""
    recording, traffic = Recording(topology, rules), Traffic(topology, random)
    queue = random.choice([*topology.queues])
    at = random.randint(STEPS // 4, STEPS)
    for number in range(STEPS + at):
        if number == at:
            own = [name for name in topology.queues if ("", name) not in traffic.addresses]
            if recording.delivered and (not own or random.random() < 0.5):
                identity = random.choice(sorted(recording.delivered))
                headers = recording.headers_of(identity)
                recording.do(steps.Publish("", queue, headers), alias=identity, hide=True)
            else:
                if own and random.random() < 0.9:
                    queue = random.choice(own)
                recording.do(steps.Publish("", queue, {"kind": "a"}), hide=True)
        recording.do(traffic.step())
    return recording.rows, topology, Truth((costs.FOREIGN_PUBLISH,), queue=queue)


def _forged_header(topology: Topology, rules: Release, random: Random) -> Made | None:
    recording, traffic = Recording(topology, rules), Traffic(topology, random)
    queue, header = random.choice([*topology.queues]), ""
    at = random.randint(STEPS // 2, STEPS)
    for number in range(STEPS + at):
        if number == at:
            if not recording.delivered:
                return None
            identity = random.choice(sorted(recording.delivered))
            headers = recording.headers_of(identity)
            header, forged = _forged(headers, topology, random)
            recording.do(steps.Publish("", queue, forged), alias=identity, hide=True)
        recording.do(traffic.step())
    return recording.rows, topology, Truth((costs.FORGED_HEADERS,), header=header)


def _forged(headers: dict[str, Any], topology: Topology, random: Random) -> tuple[str, dict[str, Any]]:
    """Return the headers with one of them forged or stripped, and that one's name."""
    deaths = headers.get(X_DEATH)
    if not deaths:
        return "kind", {**headers, "kind": "changed"}
    change = random.choice(("count", "queue", "strip", "shorten", "kind"))
    if change == "count":
        deaths = [{**deaths[0], "count": deaths[0]["count"] + 5}, *deaths[1:]]
    elif change == "queue":
        others = [name for name in (*topology.queues, "elsewhere") if name != deaths[0]["queue"]]
        deaths = [{**deaths[0], "queue": random.choice(others)}, *deaths[1:]]
    elif change == "shorten" and len(deaths) > 1:
        deaths = deaths[1:]
    elif change == "kind":
        return "kind", {**headers, "kind": "changed"}
    else:
        return X_DEATH, {name: value for name, value in headers.items() if not name.startswith("x-")}
    return X_DEATH, {**headers, X_DEATH: deaths}


_PLANTS: Mapping[str, Callable[[Topology, Release, Random], Made | None]] = {
    "publish dropped": _publish_dropped,
    "definitions changed": _definitions_changed,
    "foreign publish": _foreign_publish,
    "forged header": _forged_header,
}
