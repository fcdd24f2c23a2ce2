"""Adds up which rules a log has exercised, and of each queue that dead-letters, which of its deaths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from dlx.deaths import REASONS
from dlx.message_flow import MessageFlow
from dlx.releases import release
from simulator.definitions import Definitions
from simulator.replay.coverage.catalogue import RULES
from simulator.replay.coverage.shown import UNTRIED
from simulator.replay.rows.tables import Table, rows
from simulator.replay.rows.topologies import topologies
from simulator.replay.search.graph import with_stand_ins

DEATHS = {f"{reason}_in_{kind}": reason for reason in REASONS for kind in ("classic", "quorum")}
"""The reason of death behind a rule."""
Place = tuple[str, str]
"""A queue, by virtual host and name."""
_SHOWN = "SELECT DISTINCT vhost, one.rule, one.queue FROM (SELECT vhost, explode(shown) AS one FROM {replayed})"


class QueueCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The deaths in one queue that has a dead-letter exchange.

    Attributes:
        vhost, queue: which one.
        exercised: the reasons for which messages died there, by deliveries that agree.
        missing: those that its settings allow, too.
        never_shown: why no trace can show any death there; empty if one can.
        rules: all rules that the log exercised there.
    """

    vhost: str
    queue: str
    exercised: tuple[str, ...]
    missing: tuple[str, ...]
    never_shown: str
    rules: tuple[str, ...]


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What a log has exercised.

    Attributes:
        exercised, of: how many of the rules that a trace can show.
        by_rule: whether it has exercised each of them.
        deaths_exercised, deaths_of: how many of the deaths that the settings of the queues allow.
        by_queue: which ones, for each queue that has a dead-letter exchange.
        rows_untried: whether release rows were tried on a part of the distinct deliveries alone.
    """

    exercised: int
    of: int
    by_rule: dict[str, bool]
    deaths_exercised: int
    deaths_of: int
    by_queue: tuple[QueueCoverage, ...]
    rows_untried: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The rules that were not exercised, in the order of the catalogue."""
        return tuple(name for name, exercised in self.by_rule.items() if not exercised)


def coverage(replayed: Table, definitions: Definitions, rules: str) -> Coverage:
    """Return what a log has exercised, from the result of ``simulator.replay.replay``."""
    return _added_up(shown_rules(replayed), definitions, rules)


def table_coverage(replayed: pa.Table, definitions: Definitions, rules: str) -> Coverage:
    """Return the same from the result of ``simulator.replay.replay_table``."""
    both = zip(replayed.column("vhost").to_pylist(), replayed.column("shown").to_pylist(), strict=True)
    shown = _by_queue({"vhost": vhost, **one} for vhost, shown in both for one in shown or ())
    return _added_up(shown, definitions, rules)


def shown_rules(replayed: Table) -> dict[Place, set[str]]:
    """Return the rules that a log has exercised, by queue, from the result of ``simulator.replay.replay``."""
    return _by_queue(rows(_SHOWN, replayed=replayed))


def _by_queue(shown: Iterable[Mapping[str, Any]]) -> dict[Place, set[str]]:
    by_queue: dict[Place, set[str]] = {}
    for one in shown:
        by_queue.setdefault((one["vhost"], one["queue"]), set()).add(one["rule"])
    return by_queue


def _added_up(by_queue: Mapping[Place, set[str]], definitions: Definitions, rules: str) -> Coverage:
    seen = set().union(*by_queue.values())
    by_rule = {name: name in seen for name in RULES}
    queues = tuple(_queues(by_queue, definitions, rules))
    exercised = sum(len(each.exercised) for each in queues)
    return Coverage(
        exercised=sum(by_rule.values()),
        of=len(by_rule),
        by_rule=by_rule,
        deaths_exercised=exercised,
        deaths_of=exercised + sum(len(each.missing) for each in queues),
        by_queue=queues,
        rows_untried=UNTRIED in seen,
    )


def _queues(shown: Mapping[Place, set[str]], definitions: Definitions, rules: str) -> Iterable[QueueCoverage]:
    for vhost, topology in topologies(definitions).items():
        seen = sorted({name for name, _ in shown}) if vhost is None else [vhost]
        flow = MessageFlow(with_stand_ins(topology), release(rules))
        for name in sorted(flow.topology.queues):
            if flow.settings(name).dead_letters:
                yield from (_queue(flow, host, name, shown.get((host, name), set())) for host in seen or ["/"])


def _queue(flow: MessageFlow, vhost: str, name: str, rules: set[str]) -> QueueCoverage:
    exercised = {DEATHS[rule] for rule in rules & DEATHS.keys()}
    never = flow.why_never_routed(name) or ""
    allowed = {reason for reason in REASONS if not never and flow.why_impossible(name, reason) is None}
    return QueueCoverage(
        vhost=vhost,
        queue=name,
        exercised=tuple(reason for reason in REASONS if reason in exercised),
        missing=tuple(reason for reason in REASONS if reason in allowed - exercised),
        never_shown=never,
        rules=tuple(name for name in RULES if name in rules),
    )


# Says in words what a log has exercised.


def headline(coverage: Coverage) -> str:
    """Return the counts in one sentence, without a full stop."""
    deaths = f"{coverage.deaths_exercised} of {coverage.deaths_of} deaths that the queues allow"
    return f"This log exercised {coverage.exercised} of {coverage.of} rules that a trace can show, and {deaths}"


def rules_untried(coverage: Coverage) -> str:
    """Return what was not examined, as a further sentence; empty if everything was."""
    if not coverage.rows_untried:
        return ""
    return " Release rows were tried on only a part of the distinct deliveries: more of them may be exercised."


def queue_line(queue: QueueCoverage) -> tuple[str, str]:
    """Return the deaths that were seen in a queue, and those that were not."""
    missing = f"no trace can show one: {queue.never_shown}" if queue.never_shown else ", ".join(queue.missing)
    return ", ".join(queue.exercised), missing
