"""Repairs a log: finds what may be behind its deliveries that are not as predicted, and tells it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dlx.releases import Release
from dlx.topology import Topology
from simulator.replay.repair import costs
from simulator.replay.repair.hypotheses import Hypothesis
from simulator.replay.repair.other_definitions import stops
from simulator.replay.repair.sentences import say_log_cut, say_other_definitions, say_rows_missing, say_unseen_publish
from simulator.replay.repair.sequences import RowSequence, Seen
from simulator.replay.repair.together import Chooser, Chosen, Group, Item, grouped
from simulator.replay.repair.told import Likely, Repair, Repairs, ShownRow
from simulator.replay.repair.vhost_log import VhostLog

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


def _repair(chosen: Chosen, log: VhostLog) -> Repair:
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


def _likely(cost: float, group: Group, items: tuple[Item, ...], log: VhostLog) -> Likely:
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


def _text(group: Group, forms: list[Hypothesis], messages: int, log: VhostLog) -> str:
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
