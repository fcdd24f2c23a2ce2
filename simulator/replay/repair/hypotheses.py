"""Hypotheses: what may have happened that the log or the definitions do not show, and what each costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.settings import ARGUMENT, QUEUE_TYPE, Setting, Settings, effective_settings
from dlx.topology import Binding, Exchange, Queue, Topology

# Other definitions than those that a replay was given: what may have been otherwise for a time.
#
# A ``Change`` is a set of parts, each of which says one thing that the definitions do not: another value of a queue's
# setting, a binding, an exchange, a queue. ``changed_flow`` answers what can become of messages under such
# definitions.


AT_MOST, AT_LEAST = "at most", "at least"


class OtherSetting(msgspec.Struct, frozen=True, tag_field="part", tag="setting"):
    """A setting of a queue had another value.

    ``value`` ``None``: it was not set. ``exact`` is false where the trace shows only that there
    was some value, such as a time to live; ``value`` then is one that fits, and ``bound`` says
    on which side of it others fit: ``AT_MOST``, ``AT_LEAST``, or not known.
    """

    queue: str
    key: str
    value: str | int | None
    exact: bool = True
    bound: str = ""


class OtherBinding(msgspec.Struct, frozen=True, tag_field="part", tag="binding"):
    """A queue was bound to an exchange."""

    exchange: str
    queue: str
    routing_key: str


class OtherExchange(msgspec.Struct, frozen=True, tag_field="part", tag="exchange"):
    """There was an exchange that the definitions lack, or that was of another type."""

    name: str
    type: str


class OtherQueue(msgspec.Struct, frozen=True, tag_field="part", tag="queue"):
    """There was a queue that the definitions lack."""

    name: str


Part = OtherSetting | OtherBinding | OtherExchange | OtherQueue
Change = frozenset[Part]


def without_bounds(change: Change) -> Change:
    """Return the change without the values that are only bounds, which differ from message to message."""
    return frozenset(msgspec.structs.replace(part, value=None) if _has_bound(part) else part for part in change)


def tightest(changes: Iterable[Change]) -> Change:
    """Return changes that differ only in bounds as one, with the bounds under which all of them fit."""
    found: dict[Part, Part] = {}
    for part in (part for change in changes for part in change):
        (key,) = without_bounds(frozenset([part]))
        known = found.setdefault(key, part)
        if isinstance(part, OtherSetting) and isinstance(known, OtherSetting) and _has_bound(part):
            choose = min if part.bound == AT_MOST else max
            found[key] = choose(known, part, key=_number)
    return frozenset(found.values())


def _number(part: OtherSetting) -> int:
    return part.value if isinstance(part.value, int) else 0


def _has_bound(part: Part) -> bool:
    return isinstance(part, OtherSetting) and bool(part.bound)


def changed_topology(change: Change, topology: Topology) -> Topology:
    """Return the topology with the parts of the change that are not settings, and with queue types."""
    exchanges, queues = dict(topology.exchanges), dict(topology.queues)
    bindings = dict(topology.bindings)
    for part in change:
        if isinstance(part, OtherExchange):
            known = exchanges.get(part.name, Exchange(name=part.name))
            exchanges[part.name] = msgspec.structs.replace(known, type=part.type)
        elif isinstance(part, OtherQueue):
            queues.setdefault(part.name, Queue(name=part.name))
        elif isinstance(part, OtherBinding):
            binding = Binding(source=part.exchange, destination=part.queue, routing_key=part.routing_key)
            bindings[part.exchange] = (*bindings.get(part.exchange, ()), binding)
    for part in change:
        if isinstance(part, OtherSetting) and part.key == QUEUE_TYPE:
            queues[part.queue] = msgspec.structs.replace(queues[part.queue], type=str(part.value))
    return msgspec.structs.replace(topology, exchanges=exchanges, queues=queues, bindings=bindings)


def changed_flow(change: Change, topology: Topology, release: Release) -> MessageFlow:
    """Return the automaton for the definitions with the change."""
    other = changed_topology(change, topology)
    known: dict[str, Settings] = {}

    def settings_of(queue: str) -> Settings:
        if queue not in known:
            resolved = effective_settings(other.queues[queue], other, release)
            known[queue] = msgspec.structs.replace(resolved, values=_values(resolved.values, queue, change))
        return known[queue]

    return MessageFlow(other, release, settings_of=settings_of)


def _values(values: Mapping[str, Setting], queue: str, change: Change) -> Mapping[str, Setting]:
    found: dict[str, Any] = dict(values)
    for part in change:
        if isinstance(part, OtherSetting) and part.queue == queue and part.key != QUEUE_TYPE:
            found.pop(part.key, None)
            if part.value is not None:
                found[part.key] = Setting(part.key, part.value, ARGUMENT)
    return found


def touched_queues(change: Change, topology: Topology) -> Collection[str]:
    """Return the queues whose messages may go another way under the change; ``topology`` is the changed one."""
    touched = [part.queue for part in change if isinstance(part, OtherSetting) and part.key != QUEUE_TYPE]
    return touched if len(touched) == len(change) else topology.queues


# How much a hypothesis costs: the cheapest one that explains a delivery is the one to look at first.
#
# Only the order counts, not the numbers: one is the smallest step that makes a difference, and hypotheses no further
# apart than ``TIE`` are called equally likely. A hypothesis is paid for once, whatever it explains, and for each
# message again if each is a new event. So one change of definitions that explains many messages is cheaper than many
# single events.


Kind = Literal["rows missing", "log cut", "other definitions", "foreign publish", "forged headers"]
LOG_CUT: Kind = "log cut"
ROWS_MISSING: Kind = "rows missing"
OTHER_DEFINITIONS: Kind = "other definitions"
FOREIGN_PUBLISH: Kind = "foreign publish"
FORGED_HEADERS: Kind = "forged headers"

TIE = 1.0
"""Hypotheses whose costs differ by no more are called equally likely: the trace cannot tell."""


class Cost(NamedTuple):
    """What a hypothesis costs once, and again for each message; ``why`` gives the reason."""

    once: float
    each: float
    why: str


COSTS: dict[Kind, Cost] = {
    ROWS_MISSING: Cost(3, 1, "logs lose rows: they are rotated, and tracing is switched on late or falls behind"),
    LOG_CUT: Cost(5.5, 0, "every log begins somewhere, but only the messages of its beginning lack their publish"),
    FOREIGN_PUBLISH: Cost(4, 1, "a client publishes past the trace; a trace shows every publish of a channel"),
    OTHER_DEFINITIONS: Cost(5, 0, "one export serves a whole log, and operators change policies"),
    FORGED_HEADERS: Cost(5, 1, "clients rarely write the headers that a broker writes"),
}
"""The table of all kinds."""
REMARKS: dict[str, Cost] = {
    "argument": Cost(0.5, 0, "a queue's arguments change only if it is deleted and declared again"),
    "another part": Cost(1, 0, "two changes at the same time are less likely than one"),
    "back and forth": Cost(3, 0, "no single moment separates the rows that need the change from those that exclude it"),
    "new address": Cost(0, 1.5, "no publish in the log goes to that exchange with those keys"),
    "second publish": Cost(0, 1, "most messages are published once, and the log has a publish of this one"),
    "left out": Cost(-1, 0, "a consumer that retries by itself publishes without the headers of the broker"),
    "further row": Cost(0, 1, "each further row that must have been lost is another loss"),
}
"""What makes a hypothesis less likely than others of its kind, or more."""


def once(kind: Kind, remarks: Iterable[str]) -> float:
    """Return what the hypothesis costs, whatever it explains."""
    return COSTS[kind].once + sum(REMARKS[remark].once for remark in remarks)


def each(kind: Kind, remarks: Iterable[str]) -> float:
    """Return what it costs again for each message."""
    return COSTS[kind].each + sum(REMARKS[remark].each for remark in remarks)


# Hypotheses: what may have happened that the log or the definitions do not show.


class Hypothesis(msgspec.Struct, frozen=True):
    """Something that would explain deliveries; two messages may have the same one.

    Attributes:
        kind: what sort of thing.
        vhost: the virtual host.
        change: of ``other definitions``, what they said otherwise.
        exchange, routing_keys: of an unseen publish, where it went to.
        queue: the queue that the copy entered, or, of a missing delivery, the one that made it.
        headers: of ``forged headers``, those that the client wrote or left out.
        remarks: what makes it less likely than others of its kind (``REMARKS``); one may stand there twice.
    """

    kind: Kind
    vhost: str
    change: Change = frozenset()
    exchange: str | None = None
    routing_keys: tuple[str, ...] = ()
    queue: str | None = None
    headers: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
