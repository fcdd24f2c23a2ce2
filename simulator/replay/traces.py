"""Writes the lives of all messages of a log as OpenTelemetry traces: also the stays and deaths that no row shows.

The walk is over the rows of one message after the other, with what the replay says of each. A delivery says from which
row before it its path starts, and which deaths lie between: a stay in a queue goes from one of these to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from dlx.deaths import DELIVERY_LIMIT, REJECTED
from dlx.message_flow import MessageFlow
from dlx.possible_deaths import possible_death
from dlx.releases import release
from simulator.events import Event
from simulator.files import beside
from simulator.otlp import TRACEPARENT, Facts, MessageTrace, Moment, add_facts, death_facts
from simulator.replay.one_message import Flows, unchecked_texts, verdict_text
from simulator.replay.results.held_up import holding_queues, is_over, was_seen_then, with_true_ends
from simulator.replay.rows.assumptions import Assumptions
from simulator.replay.rows.periods import Period
from simulator.replay.rows.tables import Database, rows, select
from simulator.replay.search.copies import Fate

_ROWS = """
    SELECT one.*, seen.message_id, seen.expiration, seen.routing_keys, seen.routed_queues, seen.headers
    FROM {replayed} AS one LEFT JOIN {captured} AS seen
        ON one.time_us = seen.time_us AND one.file = seen.file AND one.line = seen.line
            AND one.vhost = seen.vhost AND one.message = seen.message
    ORDER BY vhost, message, time_us, file, line"""
_LEAVING = (REJECTED, DELIVERY_LIMIT)
"""Reasons for which a message dies on its way back from a consumer, and not in the queue."""
ROWS_MAX = 2_000
"""Rows of one message that its trace has: no tool shows more."""
_DID: dict[str, str] = {Event.ACKED: "ack", Event.REJECTED: "reject", Event.REQUEUED: "requeue"}

Row = Mapping[str, Any]
FlowAt = Callable[[str, int], MessageFlow]
"""Returns the flow of a virtual host at a time."""


def write_traces(
    path: Path,
    verdicts: Path,
    captures: Sequence[str],
    periods: Sequence[Period],
    rules: str,
    assumptions: Assumptions,
    work: Path,
) -> None:
    """Write a trace of each message of a replay, whichever engine made its ``verdicts``.

    Raises ``OSError``.
    """
    judge = release(rules)
    flows = [(period, Flows(period.definitions, judge)) for period in periods]

    def flow_at(vhost: str, time_us: int) -> MessageFlow:
        return next(flow for period, flow in flows if period.from_us <= time_us < period.until_us).of(vhost)

    with Database(work) as database, beside(path) as part, part.open("wb") as file:
        replayed = database.parquet([*verdicts.glob("*.parquet")])
        (ends,) = rows("SELECT max(time_us) AS until_us FROM {replayed}", replayed=replayed)
        until_us = assumptions.traced_until_us(ends["until_us"])
        ended = with_true_ends(replayed, holding_queues(replayed, until_us))
        found = select(_ROWS, replayed=ended, captured=database.parquet(captures)).rows()
        file.writelines(trace_lines(found, flow_at, rules, until_us, ends["until_us"]))


def trace_lines(found: Iterable[Row], flow_at: FlowAt, rules: str, until_us: int, last_us: int) -> Iterator[bytes]:
    """Yield the trace of each message as a line.

    Args:
        found: rows of a replay and what the capture has of each besides, those of a message together and in order.
        flow_at, rules: what is asked for the settings behind a death, and the release.
        until_us: until when what dies in time is known to be gone.
        last_us: when the log ends.
    """
    for _, group in groupby(found, key=lambda row: (row["vhost"], row["message"])):
        own = iter(group)
        life = _MessageLife([*islice(own, ROWS_MAX)], flow_at, rules)
        left_out = sum(1 for _ in own)
        if left_out:
            life.cut(left_out)
        else:
            life.end(until_us, last_us)
        yield life.trace.line()


class _MessageLife:
    """Adds the spans of one message, row by row.

    Args:
        found: its rows, in order, at least one.
        flow_at, rules: as for ``trace_lines``.
    """

    def __init__(self, found: Sequence[Row], flow_at: FlowAt, rules: str) -> None:
        first = found[0]
        message_id = next((row["message_id"] for row in found if row["message_id"] is not None), None)
        vhost, message = first["vhost"], first["message"]
        facts = {"messaging.message.id": message_id, "dlx.message": message, "dlx.vhost": vhost}
        self.trace = MessageTrace(f"{vhost}\0{message}", facts, _traceparent(first), rules)
        self._found = found
        self._flow_at = flow_at
        self._of_row: list[Span | None] = []
        self._deaths: dict[tuple[Any, ...], _Hop] = {}
        self._stays: dict[tuple[Any, ...], tuple[Span, int]] = {}
        self._taken: set[tuple[int, str]] = set()  # by place of a publish
        self._delivered: dict[str, Span] = {}
        self._returned_us: dict[str, int] = {}
        for at, row in enumerate(found):
            if row["event"] == Event.PUBLISHED:
                self._of_row.append(self._published(row))
            elif row["event"] == Event.DELIVERED:
                self._of_row.append(self._deliver(at, row))
            else:
                self._of_row.append(self._settled(row))

    def _published(self, row: Row) -> Span:
        routed = row["routed_queues"]
        facts = {"dlx.routed_queues": sorted(routed or ()), **_of_row(row)}
        error = "" if routed is None or len(routed) else "unroutable"
        given = _traceparent(row)
        return self.trace.published(
            row["time_us"], row["exchange"], row["routing_keys"] or (), facts, traceparent=given, error=error
        )

    def _settled(self, row: Row) -> Span | None:
        queue, event = row["queue"], row["event"]
        if event == Event.REQUEUED:
            self._returned_us[queue] = row["time_us"]
        stay = self._delivered.get(queue)
        if stay is None:
            return None
        return self.trace.settled(queue, _DID[event], row["time_us"], _of_row(row), stay=stay)

    # A delivery, and what led to it

    def _deliver(self, at: int, row: Row) -> Span:
        source = at - row["source"] if row["source"] else None
        hops = row["hops"] or []
        path = [(hop["queue"], hop["reason"], hop["exchange"], hop["to_queue"]) for hop in hops]
        key = (source, *path)
        end = Moment.exactly(row["time_us"])
        earlier = self._stays.get(key)
        if earlier is not None and not row["new_hops"]:
            previous: Span | None = earlier[0]
            start, by = self._back_in(row["queue"], earlier[1], end), "return"
        elif not hops:
            previous, start, by = self._from(source, row["queue"], end)
        else:
            last = self._die(source, row, end)
            previous, start, by = last.span, last.at, "dead-letter"
        facts = {"dlx.arrived.by": by, "dlx.outcome": "delivered", **_judged(row), **_of_row(row)}
        stay = self.trace.stayed(
            row["queue"], start, end, facts, previous=previous, exchange=row["exchange"], keys=row["routing_keys"] or ()
        )
        self._stays[key] = stay, row["time_us"]
        self._delivered[row["queue"]] = stay
        return stay

    def _from(self, source: int | None, queue: str, end: Moment) -> tuple[Span | None, Moment, str]:
        """Return what came before a stay that begins at a row, when it begins, and by what it came."""
        if source is None:
            return None, Moment(end.at_us, None, end.at_us), "unknown"
        before = self._found[source]
        if before["event"] == Event.PUBLISHED:
            self._taken.add((source, queue))
            return self._of_row[source], Moment.exactly(before["time_us"]), "publish"
        return self._of_row[source], self._back_in(queue, before["time_us"], end), "return"

    def _back_in(self, queue: str, delivered_us: int, end: Moment) -> Moment:
        """Return when a message came back to its queue, of which only a recorded consumer tells."""
        returned_us = self._returned_us.get(queue, -1)
        if returned_us >= delivered_us:
            return Moment.exactly(returned_us)
        return Moment(delivered_us, delivered_us, end.latest_us)

    def _die(self, source: int | None, row: Row, end: Moment) -> _Hop:
        """Add the stays and deaths on the way to a delivery that no earlier one has shown; return the last death."""
        hops, new = row["hops"], row["new_hops"] or 0
        old = len(hops) - new
        key: tuple[Any, ...] = (source,)
        last: _Hop | None = None
        for place, hop in enumerate(hops):
            key = (*key, hop["queue"], hop["reason"])
            is_known = place < old or (place == old and row["new_deaths"] < new)
            known = self._deaths.get(key) if is_known else None
            if known is None:
                at = self._moment(hop, source if last is None else None, last, end)
                facts = {"dlx.death.exchange": hop["exchange"], "dlx.death.to_queue": hop["to_queue"]}
                known = self._add_death(source, last, hop["queue"], hop["reason"], at, {**_HOP, **facts})
                self._deaths[key] = known
            last = known
            key = (*key, hop["exchange"], hop["to_queue"])
        assert last is not None, "there are hops"
        return last

    def _moment(self, hop: Row, source: int | None, last: _Hop | None, end: Moment) -> Moment:
        """Return when a death was: at the latest, where it is only known between which moments."""
        before_us = None if source is None else self._found[source]["time_us"]
        since_us = before_us if last is None else last.at.earliest_us
        latest_us = end.at_us if hop["latest_us"] is None else min(hop["latest_us"], end.at_us)
        at_us = max(latest_us, since_us or 0 if last is None else last.at.at_us)
        earliest_us = since_us if hop["earliest_us"] is None else hop["earliest_us"]
        return Moment(at_us, None if earliest_us is None else min(earliest_us, at_us), at_us)

    def _add_death(
        self, source: int | None, last: _Hop | None, queue: str, reason: str, at: Moment, facts: Facts, error: str = ""
    ) -> _Hop:
        """Add a death and the stay before it: after the death ``last``, or after the row ``source``, if it is known.

        A message that dies on its way back from a consumer has its stay before the delivery.
        """
        of_row = None if source is None else self._of_row[source]
        stay: Span | None = None
        if last is not None:
            stay = self._add_stay(queue, last.at, at, "dead-letter", last.span)
        elif source is not None and not (self._found[source]["event"] != Event.PUBLISHED and reason in _LEAVING):
            previous, start, by = self._from(source, queue, at)
            stay = self._add_stay(queue, start, at, by, previous)
        expiration = None if source is None or last is not None else self._found[source]["expiration"]
        facts = {**facts, **self._behind(queue, reason, at.at_us, expiration)}
        return _Hop(self.trace.died(queue, reason, at, facts, stay=stay or of_row, error=error), at)

    def _behind(self, queue: str, reason: str, at_us: int, expiration: str | None) -> Facts:
        """Return what decided a death: the rule, the setting and who set it, and what decides the way from there."""
        flow = self._flow_at(self._found[0]["vhost"], at_us)
        if queue not in flow.topology.queues:
            return {"dlx.death.rule": f"the definitions have no queue '{queue}'"}
        settings = flow.settings(queue)
        return death_facts(possible_death(reason, settings, flow.release, expiration).rule, settings)

    def _add_stay(self, queue: str, start: Moment, end: Moment, by: str, previous: Span | None) -> Span:
        facts: Facts = {"dlx.arrived.by": by, "dlx.outcome": "died", "dlx.seen": False}
        return self.trace.stayed(queue, start, end, facts, previous=previous)

    # Where no row follows

    def cut(self, left_out: int) -> None:
        """Say on its first span how many rows of the message are left out."""
        first = next(span for span in self._of_row if span is not None)
        add_facts(first, {"dlx.rows_left_out": left_out})

    def end(self, until_us: int, last_us: int) -> None:
        """Add how the message is lost or held, and what may be; and which copies stay where they are."""
        last = self._found[-1]
        may_be = []
        for end in last["dead_ends"] or ():
            if is_over(end, last, until_us):
                self._add_end(end, last)
            else:
                may_be.append(f"{_FATES[end['fate']]} in '{end['queue']}': {end['why']}")
        span = self._of_row[-1]
        if may_be and span is not None:
            add_facts(span, {"dlx.may_be": may_be})
        self._leave_open(last_us)

    def _add_end(self, end: Row, last: Row) -> None:
        seen_us = last["time_us"] if was_seen_then(end, last, len(self._found)) else None
        source = len(self._found) - 1 if seen_us is not None else self._publish_into(end["way"][0]["queue"])
        key: tuple[Any, ...] = ("end", source)
        hop: _Hop | None = None
        onward = [death["queue"] for death in end["way"][1:]]
        for place, death in enumerate(end["way"]):
            key = (*key, death["queue"], death["reason"])
            known = self._deaths.get(key)
            after_us = death["after_ms"] * 1_000
            at = Moment(last["time_us"] + after_us, None, last["time_us"] + after_us)
            if seen_us is not None:
                at = Moment(seen_us + after_us, seen_us + after_us, None)
            if place < len(onward):
                facts = {**_HOP, "dlx.death.to_queue": onward[place]}
                hop = known or self._add_death(source, hop, death["queue"], death["reason"], at, facts)
            else:
                fate = _FATES[end["fate"]]
                facts = {"dlx.seen": False, "dlx.outcome": fate, "dlx.why": end["why"]}
                error = "" if fate == "held" else fate
                hop = self._add_death(source, hop, death["queue"], death["reason"], at, facts, error)
            self._deaths[key] = hop

    def _publish_into(self, queue: str) -> int | None:
        """Return the place of a publish into that queue of which no delivery shows what became of it."""
        return next((at for at, routed in self._untaken() if routed == queue), None)

    def _untaken(self) -> Iterator[tuple[int, str]]:
        """Yield the places of publishes, each with a queue that it came into and that no delivery has it from."""
        for at, row in enumerate(self._found):
            routed = row["routed_queues"] if row["event"] == Event.PUBLISHED else None
            yield from ((at, queue) for queue in sorted(routed or ()) if (at, queue) not in self._taken)

    def _leave_open(self, last_us: int) -> None:
        """Add the stays of copies that came into a queue and are in no other row: they last until the log ends."""
        end = Moment(last_us, last_us, None)
        for at, queue in list(self._untaken()):
            previous, start, by = self._from(at, queue, end)
            facts = {"dlx.arrived.by": by, "dlx.outcome": "not seen again"}
            self.trace.stayed(queue, start, end, facts, previous=previous)


class _Hop(NamedTuple):
    """A death that was added, and when it was."""

    span: Span
    at: Moment


_HOP: Facts = {"dlx.seen": False, "dlx.outcome": "dead-lettered"}
_FATES = {Fate.LOST: "lost", Fate.HELD: "held", Fate.HELD_UP: "held up"}


def _traceparent(row: Row) -> object:
    headers = msgspec.json.decode(row["headers"]) if row["headers"] else {}
    return headers.get(TRACEPARENT)


def _of_row(row: Row) -> Facts:
    return {"dlx.row": f"{row['file']}:{row['line']}"}


def _judged(row: Row) -> Facts:
    """Return what the replay says of a delivery."""
    unchecked = list(unchecked_texts(row))
    return {"dlx.verdict": row["verdict"], "dlx.verdict.text": verdict_text(row), "dlx.unchecked": unchecked}
