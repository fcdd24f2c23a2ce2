"""Repairs a log: finds what may be behind its deliveries that are not as predicted, and says it in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeGuard

import pyarrow as pa

from dlx.deaths import X_DEATH
from dlx.releases import Release, release
from dlx.routing import headers_looked_at
from dlx.settings import MESSAGE_TTL, Setting, Settings
from dlx.topology import Topology
from simulator.definitions import Definitions
from simulator.replay.repair import hypotheses as costs
from simulator.replay.repair.choice import ChangeTime, Chooser, HypothesisChoice, HypothesisGroup, Item, grouped
from simulator.replay.repair.hypotheses import (
    AT_LEAST,
    FORGED_HEADERS,
    Change,
    Hypothesis,
    OtherBinding,
    OtherExchange,
    OtherQueue,
    OtherSetting,
    Part,
)
from simulator.replay.repair.other_definitions import stops
from simulator.replay.repair.repair_log import VhostLog
from simulator.replay.repair.repair_report import Likely, Repair, Repairs, ShownRow
from simulator.replay.repair.sequences import Gathered, RowSequence, Seen, gather
from simulator.replay.rows.topologies import exporting_release, topologies
from simulator.replay.search.graph import with_stand_ins

# Says a hypothesis in plain English, and what to check.


class _Text(NamedTuple):
    """A part of a change: what it is about, what that was like, what it is like now, and what to check."""

    about: str
    was: str
    now: str
    check: str


def say_other_definitions(
    change: Change, topology: Topology, settings: Mapping[str, Settings], moment: ChangeTime | None
) -> str:
    """Return the sentence on other definitions; ``settings`` are those of the queues of the ``topology``."""
    parts = sorted(_texts(change, topology, settings))
    was = " and ".join(f"{part.about} {part.was}" for part in parts)
    now = " and ".join(f"{part.about if len(parts) > 1 else 'it'} {part.now}" for part in parts)
    checks = dict.fromkeys(part.check for part in parts)
    when = _when(moment)
    if moment is not None and moment.by_us is None:
        checks = dict.fromkeys(["whether these are the definitions of the broker that was traced"])
        if not any(isinstance(part, OtherSetting) for part in change):  # no delivery shows that a queue was not there
            when = "at the time of these deliveries"
            checks = dict.fromkeys(["whether these are the definitions of that time, and of that broker"])
    return f"{was[0].upper()}{was[1:]} {when}, and in the definitions {now}: check {', and '.join(checks)}."


def _texts(change: Change, topology: Topology, settings: Mapping[str, Settings]) -> Iterator[_Text]:
    """Yield each part in words; parts that belong to a missing queue or exchange come with it."""
    missing = {part.name for part in change if isinstance(part, OtherQueue)}
    lost = {part.name for part in change if isinstance(part, OtherExchange) and part.name not in topology.exchanges}
    for part in change:
        match part:
            case OtherSetting() if part.queue not in missing:
                yield _setting(part, settings[part.queue].values.get(part.key))
            case OtherBinding() if part.exchange not in lost:
                key = f" with the routing key '{part.routing_key}'" if part.routing_key else ""
                was = f"was bound to exchange '{part.exchange}'{key}"
                yield _Text(f"queue '{part.queue}'", was, "is not", "who removed the binding then")
            case OtherExchange() if part.name not in lost:
                now = f"is a {topology.exchanges[part.name].type} exchange"
                yield _Text(f"exchange '{part.name}'", f"was a {part.type} exchange", now, "who replaced it then")
            case OtherExchange():
                led = [f"'{each.queue}'" for each in change if _bound_to(each, part.name)]
                was = f"was there, bound to {' and '.join(sorted(led))}"
                yield _Text(f"exchange '{part.name}'", was, "is missing", "who deleted it then")
            case OtherQueue():
                had = [_value(each) for each in change if isinstance(each, OtherSetting) and each.queue == part.name]
                was = f"was there{' with ' if had else ''}{' and '.join(sorted(had))}"
                yield _Text(f"queue '{part.name}'", was, "is missing", "whether it was deleted, or exclusive")


def _bound_to(part: Part, exchange: str) -> TypeGuard[OtherBinding]:
    return isinstance(part, OtherBinding) and part.exchange == exchange


def _setting(part: OtherSetting, setting: Setting | None) -> _Text:
    now = "has none" if setting is None else f"has {_quoted(setting.value)} (by {setting.origin})"
    return _Text(f"queue '{part.queue}'", f"had {_value(part)}", now, _who(setting))


def _when(moment: ChangeTime | None) -> str:
    if moment is None:
        return "for some of the time, more than once"
    if moment.by_us is None or moment.after_us is None:
        return "throughout this log"
    between = f"some time between {clock(moment.after_us)} and {clock(moment.by_us)}"
    return f"until {between}" if moment.before else f"from {between} on"


def clock(time_us: int) -> str:
    """Return a time of day, UTC."""
    return f"{datetime.fromtimestamp(time_us / 1_000_000, UTC):%H:%M:%S.%f}"[:-3]


def _who(setting: Setting | None) -> str:
    if setting is None:
        return "who changed its policy or arguments then"
    if setting.origin.kind == "argument":
        return "who declared it again then"
    return f"who changed {setting.origin} then"


def _value(part: OtherSetting) -> str:
    if part.value is None:
        return f"no {part.key}"
    if part.exact:
        return f"the {part.key} {_quoted(part.value)}"
    if part.bound:
        unit = " ms" if part.key == MESSAGE_TTL else ""
        none = ", or none" if part.bound == AT_LEAST else ""
        return f"a {part.key} of {part.bound} {part.value:,}{unit}{none}"
    return f"a {part.key}"


def _quoted(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def say_rows_missing(forms: Sequence[Hypothesis], messages: int) -> str:
    """Return the sentence on rows that the log has lost; ``forms`` are the hypothesis as each message has it."""
    first = forms[0]
    if first.exchange is None:
        return f"The log lacks deliveries from '{first.queue}', where messages were rejected: check for lost rows."
    addresses = {(form.exchange, form.routing_keys) for form in forms}
    to = f" to {_address(first)}" if len(addresses) == 1 else ""
    rows = "row of the publish" if messages == 1 else "rows of the publishes"
    return f"The log lacks the {rows}{to}: check whether tracing was on then, and whether rows were lost."


def say_log_cut(messages: int) -> str:
    """Return the sentence on a log that begins late."""
    were = "message was" if messages == 1 else "messages were"
    return f"The log begins after {messages:,} {were} published: look for the log before this one."


def say_unseen_publish(hypothesis: Hypothesis) -> str:
    """Return the sentence on a publish that was not traced."""
    to = _address(hypothesis)
    if hypothesis.kind == FORGED_HEADERS:
        return (
            f"A client published the message again to {to}, {_changed(hypothesis)}, and the trace does not show it, or"
            " the log lacks rows of its path: check for lost rows first, then which consumers republish what they get."
        )
    return (
        f"A publish to {to} that the trace does not show put a copy into '{hypothesis.queue}':"
        " check for lost rows first, then for a shovel, or for a publisher that tracing does not cover."
    )


def _changed(hypothesis: Hypothesis) -> str:
    if "left out" in hypothesis.remarks:
        return f"without the {X_DEATH} that it had"
    others = [name for name in hypothesis.headers if name != X_DEATH]
    own = [f"with an {X_DEATH} of its own"] if X_DEATH in hypothesis.headers else []
    changed = [f"with another {', '.join(others)}"] if others else []
    return " and ".join([*changed, *own])


def _address(hypothesis: Hypothesis) -> str:
    exchange = f"exchange '{hypothesis.exchange}'" if hypothesis.exchange else "the default exchange"
    return f"{exchange} with the key {', '.join(map(repr, hypothesis.routing_keys))}"


# Repairs a log: finds what may be behind its deliveries that are not as predicted, and reports it.


Topologies = Mapping[str | None, Topology]
"""The topologies by virtual host; that of ``None`` serves all."""


def repaired(sequences: Iterable[RowSequence], topologies: Topologies, rules: Release, left_out: int = 0) -> Repairs:
    """Return what may be behind the deliveries of sequences that are not as predicted under the rules.

    ``left_out``: how many messages are in none of the sequences.
    """
    by_vhost: defaultdict[str, list[RowSequence]] = defaultdict(list)
    for sequence in sequences:
        by_vhost[sequence.vhost].append(sequence)
    found: list[Repair] = []
    unexplained = 0
    for vhost, own in sorted(by_vhost.items()):
        topology = topologies.get(vhost, topologies.get(None))
        if topology is None:
            unexplained += sum(each.count * len(each.bad) for each in own)
        elif any(each.bad for each in own):
            log = VhostLog(vhost, topology, rules, own)
            chosen = Chooser(grouped(log.suggestions()), log.counts, log.moment).choose()
            found += [_repair(each, log) for each in chosen]
            unexplained += log.count({item for each in chosen for item in each.items})
    found.sort(key=lambda repair: (-repair.deliveries, repair.vhost, repair.rows[0].time_us))
    return Repairs(tuple(found), unexplained, left_out)


def _repair(chosen: HypothesisChoice, log: VhostLog) -> Repair:
    counts = log.counts
    number, at = min(chosen.items, key=lambda item: log.sequences[item[0]].places[item[1]].time_us)
    sequence = log.sequences[number]
    return Repair(
        likely=tuple(_likely(cost, group, chosen.items, log) for cost, group in chosen.groups),
        deliveries=sum(counts[number] for number, _ in chosen.items),
        messages=_messages(chosen.items, counts),
        vhost=log.vhost,
        message=sequence.message,
        rows=_shown(sequence, log.seen(number), at),
    )


def _messages(items: Iterable[Item], counts: Sequence[int]) -> int:
    return sum(counts[number] for number in {number for number, _ in items})


def _likely(cost: float, group: HypothesisGroup, items: tuple[Item, ...], log: VhostLog) -> Likely:
    forms = [group.items[item] for item in items]
    first = forms[0]
    return Likely(
        kind=group.kind,
        cost=cost,
        text=_text(group, forms, _messages(items, log.counts), log),
        queue=first.queue,
        exchange=first.exchange,
        routing_keys=first.routing_keys,
        headers=first.headers,
        changes=tuple(sorted(group.change, key=repr)),
        after_us=None if group.moment is None else group.moment.after_us,
        by_us=None if group.moment is None else group.moment.by_us,
    )


def _text(group: HypothesisGroup, forms: list[Hypothesis], messages: int, log: VhostLog) -> str:
    if group.kind == costs.OTHER_DEFINITIONS:
        return say_other_definitions(group.change, log.flow.topology, log.settings, group.moment)
    if group.kind == costs.LOG_CUT:
        return say_log_cut(messages)
    if group.kind == costs.ROWS_MISSING:
        return say_rows_missing(forms, messages)
    return say_unseen_publish(forms[0])


def _shown(sequence: RowSequence, seen: tuple[Seen, ...], at: int) -> tuple[ShownRow, ...]:
    """Return the row in question, with the rows of the message before and after it."""
    roles = {at - 1: "before", at: "in question", at + 1: "after"}
    found = []
    for index, role in roles.items():
        if 0 <= index < len(seen):
            row, place = seen[index].row, sequence.places[index]
            found.append(
                ShownRow(
                    role=role,
                    file=place.file,
                    line=place.line,
                    time_us=place.time_us,
                    event=row.event,
                    queue=row.queue,
                    exchange=row.visible.exchange,
                    routing_keys=row.visible.routing_keys,
                    deaths=" <- ".join(f"{stop.queue} {stop.reason}" for stop in stops(row.visible.x_death)),
                )
            )
    return tuple(found)


# Repairs a replayed log, from its rows and their verdicts.


class Repairing:
    """Repairs one log.

    Args:
        definitions: the definitions that the log was replayed with.
        rules: the release whose rules applied.
    """

    def __init__(self, definitions: Definitions, rules: str) -> None:
        self._topologies = topologies(definitions)
        self._rules = release(rules)
        self._captured_on = exporting_release(definitions)

    def gather(self, replayed: Iterable[pa.RecordBatch]) -> Gathered:
        """Return the sequences of replayed batches (``sequences.COLUMNS``)."""
        names = {vhost: headers_looked_at(with_stand_ins(each)) for vhost, each in self._topologies.items()}
        by_release = self._captured_on is not None and self._captured_on != self._rules
        return gather(replayed, names, by_release=by_release)

    def repaired(self, gathered: Gathered) -> Repairs:
        """Return what may be behind the deliveries of sequences that are not as predicted."""
        return repaired(gathered.sequences, self._topologies, self._rules, gathered.left_out)
