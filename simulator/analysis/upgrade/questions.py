"""A topology under two releases, the changes that an upgrade brings, and the questions that find them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec

from dlx.erlang_printing import in_plain_text
from dlx.message_flow import MessageFlow
from dlx.policy_validation import PolicyRefusedError, check_policy
from dlx.releases import Release, Row, with_behaviour
from dlx.settings import DEAD_LETTER_STRATEGY, DELIVERY_LIMIT, OVERFLOW, Settings, effective_settings
from dlx.topology import QUORUM, Policy, Topology
from simulator.analysis.entries import Entries, entries
from simulator.analysis.findings import Fix, ObjectName, Severity
from simulator.analysis.snapshot import queue_left_out
from simulator.analysis.walk import Walk
from simulator.definitions import Definitions

# A change that an upgrade brings, and the questions that find them: one for each row of the release table.
#
# A question looks at a topology under two releases and yields the objects to which its row matters. It writes no
# rules: it compares what ``dlx`` says under both.


Kind = Literal["any message", "dead letter", "death", "return", "republished", "CC", "expiration", "priority"]
"""Which messages can meet a change: any, those that died before, die or come back there, or carry something."""


class MessagesConcerned(msgspec.Struct, frozen=True):
    """The messages that can meet a change: of that kind, in these queues; in all of the virtual host without any."""

    kind: Kind
    vhost: str
    queues: tuple[str, ...] = ()


class UpgradeChange(msgspec.Struct, frozen=True, kw_only=True):
    """What will change for one object.

    Attributes:
        severity: ``error`` where messages will be lost, ``warning`` where they may be or come another way.
        about: the object.
        message: what happens now and what will, in sentences.
        fix: what to do, and whether it can be done before the upgrade without losing anything.
        traffic: the messages that can meet it.
    """

    severity: Severity
    about: ObjectName
    message: str
    fix: Fix
    traffic: MessagesConcerned


class FoundChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change with the row of the release table behind it, and how that is known."""

    behaviour: str
    change: UpgradeChange
    evidence: str

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        about = self.change.about
        return {
            "behaviour": self.behaviour,
            "severity": self.change.severity,
            "kind": about.kind,
            "vhost": about.vhost,
            "object": about.name,
            "message": self.change.message,
            "fix": msgspec.to_builtins(self.change.fix),
            "evidence": self.evidence,
        }


Question = Callable[["Upgrade", Row], Iterable[UpgradeChange]]

QUESTIONS: dict[str, Question] = {}
"""The questions by the name of their row."""


def asks(*rows: str) -> Callable[[Question], Question]:
    """Return the decorator that makes a function the question of these rows."""

    def add(question: Question) -> Question:
        for row in rows:
            if row in QUESTIONS:
                raise ValueError(f"{row} has a question already")
            QUESTIONS[row] = question
        return question

    return add


NOTHING_TO_DO = Fix(True, "nothing to do before the upgrade")


def named(names: Iterable[str], most: int = 4) -> str:
    """Return names as a sentence has them: 'a', 'b' and 3 more."""
    known = sorted(names)
    shown = ", ".join(f"'{name}'" for name in known[:most])
    return f"{shown} and {len(known) - most} more" if len(known) > most else shown


# A topology under two releases, and under one in which a single row is that of the other.
#
# That experiment shows which row a difference comes from: it is there with the row as it was before, and gone with
# the row as it will be.


class QueueAt(NamedTuple):
    """A queue and its virtual host."""

    vhost: str
    name: str

    @property
    def about(self) -> ObjectName:
        """The queue's name as findings have it."""
        return ObjectName("queue", self.vhost, self.name)


class Upgrade:
    """Definitions, the release of their server, and the release to upgrade to.

    Attributes:
        definitions: as given.
        before, after: the releases.
        topologies: the virtual hosts by name, without exchanges of plugins and bindings of what the export lacks.
        left_out: what that leaves out, in sentences.
        before_flows, after_flows: what the rules of each release say of them.
    """

    def __init__(self, definitions: Definitions, before: Release, after: Release) -> None:
        self.definitions, self.before, self.after = definitions, before, after
        self.left_out: list[str] = []
        self._trials: dict[str, tuple[dict[str, MessageFlow], dict[str, MessageFlow]]] = {}
        self.topologies = {name: self._known(name, definitions.topology(name)) for name in definitions.vhosts}
        self.before_flows, self.after_flows = self.flows(before), self.flows(after)

    @property
    def import_too(self) -> str:
        """What to add to a sentence that says that clients fail."""
        return ", and so does an import" if self.definitions.is_imported else ""

    def _known(self, vhost: str, topology: Topology) -> Topology:
        """Return the topology without exchanges whose types only plugins have, and bindings of what is not there."""
        stock = self.before.exchange_types | self.after.exchange_types
        others = {name: each.type for name, each in topology.exchanges.items() if each.type not in stock}
        self.left_out += [f"what goes through exchange '{name}' of type {kind}" for name, kind in others.items()]
        exchanges = {name: each for name, each in topology.exchanges.items() if name not in others}
        known = {"queue": topology.queues, "exchange": exchanges}
        absent = [(kind, name) for kind, name in _bound(topology) if name not in known[kind]]
        if not others and not absent:
            return topology
        gone = [ObjectName(kind, vhost, name) for kind, name in absent if kind == "queue" or name not in others]
        self.left_out += map(_not_exported, gone)
        return msgspec.structs.replace(
            topology,
            exchanges=exchanges,
            bindings={
                name: tuple(each for each in bound if each.destination in known[each.destination_type])
                for name, bound in topology.bindings.items()
                if name in exchanges
            },
        )

    def flows(self, release: Release) -> dict[str, MessageFlow]:
        """Return what the rules of a release say of each virtual host."""
        return {vhost: MessageFlow(each, release) for vhost, each in self.topologies.items()}

    def with_row(self, row: Row) -> Release:
        """Return the release before, with this row as it will be."""
        return with_behaviour(self.before, row.name, self.after)

    def without_row(self, row: Row) -> Release:
        """Return the later release, with this row as it was."""
        return with_behaviour(self.after, row.name, self.before)

    def trials(self, row: Row) -> tuple[tuple[Release, Release], ...]:
        """Return pairs of releases that differ in this row alone: some changes show only beside others."""
        return (self.before, self.with_row(row)), (self.without_row(row), self.after)

    def flows_of_trials(self, row: Row) -> tuple[dict[str, MessageFlow], dict[str, MessageFlow]]:
        """Return what the earlier release says with this row as it will be, and the later one with it as it was."""
        if row.name not in self._trials:
            self._trials[row.name] = self.flows(self.with_row(row)), self.flows(self.without_row(row))
        return self._trials[row.name]

    def names(self, *types: str) -> Iterator[QueueAt]:
        """Yield the queues of these types, of all without any."""
        return (queue for queue, _, _ in self.queues(*types))

    def queues(self, *types: str) -> Iterator[tuple[QueueAt, Settings, Settings]]:
        """Yield the queues of these types, of all without any, each with its settings before and after."""
        for vhost, topology in self.topologies.items():
            for name, queue in sorted(topology.queues.items()):
                if not types or queue.type in types:
                    now, then = self.before_flows[vhost].settings(name), self.after_flows[vhost].settings(name)
                    yield QueueAt(vhost, name), now, then

    @cached_property
    def entries(self) -> Entries:
        """What publishers publish."""
        return entries(self.before_flows)

    @cached_property
    def walks(self) -> dict[str, Walk]:
        """All that can become of messages before the upgrade, by virtual host."""
        publishes, _ = self.entries
        return {vhost: Walk(flow, vhost, publishes) for vhost, flow in self.before_flows.items()}

    @cached_property
    def later_walks(self) -> dict[str, Walk]:
        """All that can become of messages after the upgrade, by virtual host."""
        publishes, _ = self.entries
        return {vhost: Walk(flow, vhost, publishes) for vhost, flow in self.after_flows.items()}

    @cached_property
    def takes_dead_letters(self) -> dict[str, dict[str, set[str]]]:
        """By virtual host the queues that dead letters enter, each with the queues that they come from."""
        found: dict[str, dict[str, set[str]]] = {}
        for vhost, walk in self.walks.items():
            sources = found.setdefault(vhost, {})
            for place in walk.places:
                for hop, _ in place.onward:
                    sources.setdefault(hop.to_queue, set()).add(hop.queue)
        return found

    def refused_policy(self, policy: Policy, release: Release, *, operator: bool) -> str | None:
        """Return why a release does not take a policy; ``None`` if it does."""
        try:
            check_policy(
                policy.name,
                policy.pattern,
                dict(policy.definition),
                policy.apply_to,
                policy.priority,
                operator=operator,
                release=release,
            )
        except PolicyRefusedError as refused:
            return in_plain_text(str(refused))
        return None


class SettingChange(NamedTuple):
    """A setting of a queue that differs after the upgrade; ``None`` is none."""

    queue: QueueAt
    key: str
    now: Any
    then: Any
    before: Settings
    after: Settings


def setting_changes(upgrade: Upgrade, row: Row) -> Iterator[SettingChange]:
    """Yield the settings that this row changes."""
    for queue, before, after in upgrade.queues():
        now, then = in_force(before), in_force(after)
        for key in sorted(now.keys() | then.keys()):
            if now.get(key) != then.get(key) and _is_behind(row, upgrade, queue, key):
                yield SettingChange(queue, key, now.get(key), then.get(key), before, after)


def _is_behind(row: Row, upgrade: Upgrade, queue: QueueAt, key: str) -> bool:
    topology = upgrade.topologies[queue.vhost]

    def value(release: Release) -> Any:
        return in_force(effective_settings(topology.queues[queue.name], topology, release)).get(key)

    return any(value(one) != value(other) for one, other in upgrade.trials(row))


def in_force(settings: Settings) -> dict[str, Any]:
    """Return the values that take effect, by key."""
    found = {key: setting.value for key, setting in settings.values.items()}
    if OVERFLOW in found:
        found[OVERFLOW] = settings.overflow
    if DEAD_LETTER_STRATEGY in found:
        found[DEAD_LETTER_STRATEGY] = settings.dead_letter_strategy
    if settings.queue.type == QUORUM:
        found[DELIVERY_LIMIT] = settings.delivery_limit
    return found


def _bound(topology: Topology) -> list[tuple[str, str]]:
    """Return the kind and name of whatever bindings lead from or to, once each."""
    sources = {("exchange", name) for name in topology.bindings}
    ends = ((each.destination_type, each.destination) for bound in topology.bindings.values() for each in bound)
    return sorted(sources.union(ends))


def _not_exported(about: ObjectName) -> str:
    if about.kind == "queue":
        return queue_left_out(about, exported=True)
    return f"what goes through {about}, which the export leaves out"


def for_each_vhost(
    upgrade: Upgrade,
    queues: Iterable[tuple[str, str]],
    kind: Kind,
    text: str,
    severity: Severity = "note",
    fix: Fix = NOTHING_TO_DO,
) -> Iterator[UpgradeChange]:
    """Yield one change for all these queues of a virtual host; ``text`` has ``{names}`` and the releases in it."""
    found: dict[str, list[str]] = {}
    for vhost, name in queues:
        found.setdefault(vhost, []).append(name)
    for vhost, names in found.items():
        yield UpgradeChange(
            severity=severity,
            about=ObjectName("vhost", vhost, vhost),
            message=text.format(names=named(names), before=upgrade.before.name, after=upgrade.after.name),
            fix=fix,
            traffic=MessagesConcerned(kind, vhost, tuple(sorted(names))),
        )


def by_policy(settings: Settings, what: str) -> str:
    """Say which policy to set something in: the one that the queue has, since only one applies, or one of its own."""
    policy = settings.policy.policy
    if policy is None:
        return f"set {what} with a policy for '{settings.queue.name}'"
    return f"set {what} in policy '{policy.name}', the one that applies to '{settings.queue.name}'"


def change_of(settings: Settings, key: str, how: str) -> Fix:
    """Return the fix that changes a setting where it is set: safe in a policy, not in a queue's arguments."""
    setting = settings.values.get(key)
    if setting is not None and setting.origin.kind == "argument":
        return Fix(False, f"{how}: x-{key} is an argument, so drain the queue, delete it and declare it again")
    return Fix(True, f"{by_policy(settings, key)}: {how}")
