"""The rows of one message, in order: each delivery explained from what was seen before it.

A message fans out, and each copy has its own line of descent, so the row before a
delivery is often not its ancestor. Every publish and every delivered state is a
source; a delivery is searched for from the latest source back to the first, and
the path that reaches exactly what was delivered is its explanation. The state it
showed becomes a source itself, also where it differs from the prediction: what
comes after is predicted from what was seen, and one difference is reported once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import compress, islice
from typing import Any, NamedTuple

import msgspec

from dlx.deaths import REJECTED
from dlx.message import PublishRefusedError
from dlx.message_flow import State
from simulator.events import Event
from simulator.replay.checks.counts import CountGrowth, Grown
from simulator.replay.checks.explain import Explainer, Nearest
from simulator.replay.checks.path_times import ANY_NUMBER, UNKNOWN, PathTimes
from simulator.replay.coverage.shown import SOURCES_MAX as TRIED_SOURCES_MAX
from simulator.replay.coverage.shown import ExplainedDelivery
from simulator.replay.rows.verdict_words import Difference, Unchecked, Verdict, What, path_text
from simulator.replay.search.copies import DeadEnd, How, OpenCopies
from simulator.replay.search.graph import ConsumerConstraints, DeliveredState, StatePath
from simulator.replay.search.sources import LOOKED_AT_MAX, Claims, Source
from simulator.replay.search.visible_state import CaptureRow

UNKNOWN_OFFSET = "the log does not show where its consumer began to read"
UNTYPED = "a header that a headers exchange compares may be a timestamp, which the log shows as an integer"
UNSEEN = "the log lacks the delivery that was rejected"
UNPUBLISHED = "the log has no publish of the message before: it may have begun later, or have a gap"
LOST = "the log has a gap since the message was seen before, and may lack a publish of it"
DISORDERED = "rows of the log are out of order, and nothing tells which row of one moment came first"
SLIGHT = 2
"""Differing fields up to which a delivery counts as altered, not as unexplained."""
SOURCES_MAX = 64
"""Sources that the search for the nearest explanation looks at, the latest first."""
NO_DEATH = (Event.ACKED, Event.REQUEUED)
"""What a recorded consumer said of a delivery that it did not reject."""
LEFT_BY: dict[str, How] = {Event.REJECTED: How.REJECTED, Event.REQUEUED: How.WAITING}
"""How a copy is left by what its consumer did, unless that is an acknowledgement."""

Fits = Callable[[int, PathTimes], bool]
"""Returns whether an explanation, by its number and what it asks of the times, fits them."""

_Key = tuple[str, str, tuple[int, ...]]


def always(_number: int, _times: PathTimes) -> bool:
    """Return true: times are ignored."""
    return True


class RowVerdict(NamedTuple):
    """What the replay says of one row: a verdict on a delivery or on a publish that was routed elsewhere, what its
    explanation asks of the times, how copies of the message may be lost that are not seen again, and the delivery
    whose rules count if the times do not refute it."""

    verdict: Verdict | None
    times: PathTimes
    dead_ends: tuple[DeadEnd, ...] = ()
    delivery: ExplainedDelivery | None = None


class Explained(NamedTuple):
    """The verdict on a delivery, the state it showed, where it comes from, and what that asks of the times."""

    verdict: Verdict
    state: State | None
    source: Source | None = None
    is_redelivery: bool = False
    may_carry: bool = True
    times: PathTimes = UNKNOWN
    delivery: ExplainedDelivery | None = None
    new_copies: int = ANY_NUMBER
    path: StatePath | None = None

    @property
    def sure_path(self) -> StatePath | None:
        """How the copy came there, if that is the only way and nothing speaks against it."""
        sure = self.verdict.name == "agree" and self.times.judged and not self.times.refuted
        return self.path if sure else None


class _Candidate(NamedTuple):
    """One path to a delivery, and the others from the same source that come after it."""

    source: Source
    paths: list[StatePath]
    counts_fit: bool = True
    is_only_way: bool = True
    is_used_up: bool = False

    @property
    def best(self) -> StatePath:
        return self.paths[0]


class Lineage:
    """One message's observations so far.

    Args:
        explainer: knows the rules.
        details: whether steps tell how copies may be lost, and the delivery whose rules count, too.
    """

    def __init__(self, explainer: Explainer, *, details: bool = False) -> None:
        self._explainer = explainer
        self._sources: dict[_Key, Source] = {}  # the latest last
        self._by_content: dict[str, dict[_Key, Source]] = {}
        self._claims = Claims()
        self._growth = CountGrowth(explainer.release)
        self._broker_wrote = False  # of recorders, each may have a clock of its own
        self._copies_left = OpenCopies(explainer.flow, explainer.dead_ends) if details else None
        self._open: Counter[DeliveredState] = Counter()  # deliveries, less those known not to have been rejected
        self._rejectable: Counter[str] = Counter()  # of each queue, the states with an open delivery
        self._shown: dict[DeliveredState, State] = {}
        self._showing: defaultdict[DeliveredState, set[Source]] = defaultdict(set)
        self._copies: Counter[DeliveredState] = Counter()
        self._publishes = 0
        self._lacks_publish = False
        self._at = 0

    def step(self, row: CaptureRow, content: str, headers: Mapping[str, Any], fits: Fits = always) -> RowVerdict:
        """Take the next row; return the verdict if there is one, and what its explanation asks of the times.

        ``content`` is the row's properties and user headers, compared and never
        parsed; ``headers`` those that headers exchanges look at. ``fits`` is asked for
        one explanation after the other, numbered from 0, until one fits the times.
        """
        step = RowVerdict(None, PathTimes())
        if row.event == Event.PUBLISHED:
            step = self._publish(row, content, headers)
        elif row.event == Event.DELIVERED:
            step = self._deliver(row, content, headers, fits)
        else:
            self._ended(row)
        self._at += 1
        dead_ends = () if self._copies_left is None else self._copies_left.dead_ends()
        return step._replace(dead_ends=dead_ends) if dead_ends else step

    def _ended(self, row: CaptureRow) -> None:
        """Take what a consumer did with a delivery."""
        if row.event in NO_DEATH:
            self._count(row, -1)
        state = self._shown.get(DeliveredState(row.queue or "", row.visible))
        if state is not None and self._copies_left is not None:
            self._copies_left.ended(state, LEFT_BY.get(row.event))

    def _deliver(self, row: CaptureRow, content: str, headers: Mapping[str, Any], fits: Fits) -> RowVerdict:
        explained = self._explain(row, content, headers, fits)
        self._count(row, 1)
        self._follow(explained)
        earlier, target = 0, DeliveredState(row.queue or "", row.visible)
        if explained.state is not None:
            self._shown[target] = explained.state
            source, earlier = self._observe(row, content, headers, (explained.state,), explained.source)
            self._showing[target].add(source)
            source.instances += not explained.is_redelivery
            source.may_carry |= explained.may_carry
            self._copies[target] += explained.new_copies
            source.reached = max(source.reached, self._explainer.counts.reached(row, may_carry=explained.may_carry))
            explained = self._with_counters(explained, row, target)
        return RowVerdict(explained.verdict, explained.times._replace(earlier=earlier), delivery=explained.delivery)

    def _with_counters(self, explained: Explained, row: CaptureRow, target: DeliveredState) -> Explained:
        """Return the explanation with what the numbers that the queue gave to the delivery say, or leave open."""
        verdict, queue = explained.verdict, target.queue
        if verdict.name not in ("agree", "ambiguous") or explained.path is None:
            return explained
        grown = Grown()
        if self._explainer.is_stream(queue):
            grown = Grown(unchecked=(Unchecked("stream-offset", queue, UNKNOWN_OFFSET),))
        elif self._explainer.counts.is_quorum(queue):
            grown = self._growth.delivered(
                row,
                target,
                explained.path.state.message.headers or {},
                copies=self._copies[target],
                may_carry=explained.may_carry,
                in_order=self._broker_wrote,
            )
        if grown.differences:
            differ = msgspec.structs.replace(verdict, name="differ", alternatives=(), differences=grown.differences)
            return explained._replace(verdict=differ)
        if grown.unchecked:
            verdict = msgspec.structs.replace(verdict, unchecked=(*verdict.unchecked, *grown.unchecked))
        return explained._replace(verdict=verdict)

    def _follow(self, explained: Explained) -> None:
        path, copies = explained.sure_path, self._copies_left
        if copies is None:
            return
        if path is None:
            copies.lost_track(explained.state)
        else:
            copies.delivered(path, again=explained.is_redelivery, unknown_routing=self._explainer.unknown_routing)

    def _count(self, row: CaptureRow, change: int) -> None:
        """Count a delivery, or take back one that was not rejected.

        By state: recorders have clocks of their own, so a row may stand before its delivery.
        """
        target = DeliveredState(row.queue or "", row.visible)
        before = self._open[target]
        self._open[target] = before + change
        self._rejectable[target.queue] += (before + change > 0) - (before > 0)

    def _publish(self, row: CaptureRow, content: str, headers: Mapping[str, Any]) -> RowVerdict:
        self._publishes += 1
        try:
            entering = self._explainer.entering(row, headers)
        except PublishRefusedError:
            entering = ()
        differences = self._explainer.misrouted(row, entering)
        unchecked: tuple[Unchecked, ...] = ()
        typed = self._explainer.with_timestamps(row, headers) if differences else None
        if typed is not None:
            entering, differences, unchecked = typed, (), (Unchecked("routing", row.visible.exchange, UNTYPED),)
        roots = tuple(state for state, _ in entering)
        delays_ms = {state: delay_ms for state, delay_ms in entering if delay_ms}
        source, earlier = self._observe(row, content, headers, roots, None)
        source.delays_ms = delays_ms
        source.instances += max(Counter(roots).values(), default=1)  # two exchanges may delay it into one queue
        routed = row.routed_queues
        self._broker_wrote |= routed is not None
        if self._copies_left is not None:
            known = row.visible.exchange not in self._explainer.unknown_routing  # else it may enter these, or others
            shown = [root.queue in routed if routed is not None and root not in delays_ms else known for root in roots]
            self._copies_left.published(compress(roots, shown), delays_ms)
        times = PathTimes(earlier=earlier, held=self._explainer.may_hold(row.visible.exchange))
        verdict = Verdict("differ", differences=differences) if differences else None
        return RowVerdict(Verdict("agree", unchecked=unchecked) if unchecked else verdict, times)

    def _observe(
        self,
        row: CaptureRow,
        content: str,
        headers: Mapping[str, Any],
        roots: tuple[State, ...],
        parent: Source | None,
    ) -> tuple[Source, int]:
        """Return the source for what was observed, which is now the latest, and how many rows ago it last was."""
        key = (row.event, content, tuple(state.number for state in roots))
        alike = self._by_content.setdefault(content, {})
        source = alike.pop(key, None)
        earlier = 0
        if source is None:
            source = Source(row, content, headers, roots, parent)
        else:
            del self._sources[key]
            earlier = self._at - source.latest
        source.latest = self._at
        self._sources[key] = alike[key] = source
        return source, earlier

    def _explain(self, row: CaptureRow, content: str, headers: Mapping[str, Any], fits: Fits) -> Explained:
        queue = row.queue or ""
        why = self._explainer.why_unknown(row.vhost, queue)
        if why is not None:
            return Explained(not_checked("queue", queue, why), None)
        target = DeliveredState(queue, row.visible)
        constraints = self._freedom()
        first: tuple[_Candidate, PathTimes] | None = None
        for number, candidate in enumerate(self._candidates(target, row, content, constraints)):
            times = self._path_times(candidate, row)
            if not candidate.counts_fit or fits(number, times):
                explained = self._accepted(candidate, target, row, times)
                if not candidate.counts_fit or self._copies_left is None:
                    return explained
                sources = tuple(islice(self._alike(content, queue), TRIED_SOURCES_MAX + 1))
                delivery = ExplainedDelivery(row, target, candidate.source, candidate.best, sources, constraints)
                return explained._replace(delivery=delivery)
            first = first or (candidate, times)
        if first is None:
            lost = self._with_lost_rows(target, row, content, constraints)
            return lost or self._inexact(target, row, content, headers, constraints)
        alike = self._alike(content, queue)
        if any(self._explainer.may_have_more(source.roots, target, constraints) for source in alike):
            return self._unsearched(self._accepted(first[0], target, row, first[1]._replace(judged=False)), queue)
        return self._accepted(first[0], target, row, first[1]._replace(refuted=True))

    def _with_lost_rows(
        self, target: DeliveredState, row: CaptureRow, content: str, constraints: ConsumerConstraints
    ) -> Explained | None:
        """Explain a delivery by a way on which the log lacks deliveries: consumers reject only what was delivered."""
        anywhere = constraints._replace(delivered_in=frozenset(self._explainer.topology.queues))
        candidates = self._candidates(target, row, content, anywhere)
        found = next((each for each in candidates if each.counts_fit), None)
        if found is None:
            return None
        return self._accepted(found, target, row, self._path_times(found, row)._replace(judged=False))

    def _unsearched(self, explained: Explained, queue: str) -> Explained:
        """Return the explanation, though no path that was tried fits the times: there may be one that does."""
        verdict = explained.verdict
        unchecked = (*verdict.unchecked, Unchecked("search", queue, "no path that was tried fits the times"))
        return explained._replace(verdict=msgspec.structs.replace(verdict, unchecked=unchecked))

    def _accepted(self, chosen: _Candidate, target: DeliveredState, row: CaptureRow, times: PathTimes) -> Explained:
        source, best = chosen.source, chosen.best
        redelivery = not source.is_publish and not best.hops
        new = (0, 0) if redelivery else self._claims.claim(source, target, best.hops)
        verdict = self._verdict(row, chosen, new)
        if verdict.name == "differ":
            times = times._replace(judged=False)
        new_copies = self._new_copies(chosen, times)
        may_carry = self._may_carry(source, best)
        return Explained(verdict, best.state, source, redelivery, may_carry, times, new_copies=new_copies, path=best)

    def _path_times(self, chosen: _Candidate, row: CaptureRow) -> PathTimes:
        source, counts = chosen.source, self._explainer.counts
        times = self._explainer.path_times(source, chosen.best, row, self._at - source.latest)
        may_carry, client = self._may_carry(source, chosen.best), chosen.best.state.message.headers or {}
        copies = self._copies[DeliveredState(row.queue or "", row.visible)] + self._new_copies(chosen, times)
        if counts.repeats_unflagged(row):
            copies = ANY_NUMBER
        return times._replace(
            not_new=counts.is_counted(row, client, may_carry=may_carry),
            not_again=counts.is_uncounted(row),
            copies=min(copies, ANY_NUMBER),
            has_flag=not self._explainer.is_stream(row.queue or "") and not counts.repeats_unflagged(row),
            comes_flagged=counts.may_come_flagged(row, may_carry=may_carry),
        )

    def _new_copies(self, chosen: _Candidate, times: PathTimes) -> int:
        """Return how many copies of the message have come to the delivery that no earlier one showed.

        That is one, or none if they were all delivered before. At-least-once queues send dead letters again if in
        doubt, streams deliver to whoever asks, and of publishes before the log nothing is known.
        """
        several = not chosen.is_only_way or any(hop.held for hop in times.hops) or not self._publishes
        if several or self._explainer.is_stream(chosen.best.state.queue):
            return ANY_NUMBER
        redelivery = not chosen.source.is_publish and not chosen.best.hops
        return 0 if redelivery or chosen.is_used_up else 1

    def _verdict(self, row: CaptureRow, chosen: _Candidate, new: tuple[int, int]) -> Verdict:
        best = chosen.best
        counts = self._miscounted(row, chosen)
        if counts:
            return Verdict("differ", "", best.hops, *new, differences=tuple(counts))
        rejected = tuple(Unchecked("rejection", queue, UNSEEN) for queue in self._unseen(chosen.source, best))
        unchecked = (*self._explainer.unchecked(chosen.source, best.hops), *rejected)
        if len(chosen.paths) > 1:
            sequences = tuple(dict.fromkeys(path_text(path.hops) for path in chosen.paths))
            if len(sequences) > 1:
                return Verdict("ambiguous", "", best.hops, *new, alternatives=sequences, unchecked=unchecked)
        return Verdict("agree", "", best.hops, *new, unchecked=unchecked)

    def _may_carry(self, source: Source, found: StatePath) -> bool:
        """Return whether a dead letter may have brought its delivery count into the queue."""
        return self._explainer.counts.may_carry(found.hops, before=source.may_carry)

    def _miscounted(self, row: CaptureRow, chosen: _Candidate) -> list[Difference]:
        client = chosen.best.state.message.headers or {}
        may_carry = self._may_carry(chosen.source, chosen.best)
        return self._explainer.counts.differences(row, client, may_carry=may_carry)

    def _alike(self, content: str, queue: str) -> Iterator[Source]:
        """Yield the latest sources with that content, the latest first; streams add a delivery mode to it."""
        if not self._explainer.is_stream(queue):
            return islice(reversed(self._by_content.get(content, {}).values()), LOOKED_AT_MAX)
        same_content = self._explainer.same_content
        latest = islice(reversed(self._sources.values()), LOOKED_AT_MAX)
        return (source for source in latest if same_content(source.content, content, queue))

    def _candidates(
        self, target: DeliveredState, row: CaptureRow, content: str, constraints: ConsumerConstraints
    ) -> Iterator[_Candidate]:
        """Yield the paths that lead exactly to the target, the best first: from the latest source, one not used up.

        Paths with a rejection that no delivery shows come after all others. Paths whose counts do not fit come
        last, and only if there are no others.
        """
        again: list[_Candidate] = []
        unseen: list[_Candidate] = []
        used_up: list[Source] = []
        miscounted: list[_Candidate] = []
        claims, showing = self._claims.of(target), self._showing.get(target, ())
        found = False
        for source in self._alike(content, target.queue):
            shows = source in showing
            if claims[source] >= source.instances and not shows:
                used_up.append(source)
                continue
            ways = self._ways(source, target, constraints, unseen)
            if ways and self._miscounted(row, ways[0]):
                miscounted.append(ways[0]._replace(counts_fit=False))
            elif shows:
                again += ways
            else:
                found |= bool(ways)
                yield from ways
        found |= bool(again)
        yield from again
        for source in used_up:
            ways = [way._replace(is_used_up=True) for way in self._ways(source, target, constraints, unseen)]
            if ways and self._miscounted(row, ways[0]):
                miscounted.append(ways[0]._replace(counts_fit=False))
            else:
                found |= bool(ways)
                yield from ways
        fitting = [each for each in unseen if not self._miscounted(row, each)]
        miscounted += [each._replace(counts_fit=False) for each in unseen if self._miscounted(row, each)]
        found |= bool(fitting)
        yield from fitting
        if not found:
            yield from miscounted

    def _ways(
        self, source: Source, target: DeliveredState, constraints: ConsumerConstraints, unseen: list[_Candidate]
    ) -> list[_Candidate]:
        """Return the ways from a source; those with a rejection that no delivery shows are put into ``unseen``."""
        paths = self._explainer.paths(source.roots, target, constraints)
        only = len(paths) == 1
        others = [path for path in paths if self._unseen(source, path)]
        unseen += [_Candidate(source, others[place:], is_only_way=only) for place in range(len(others))]
        seen = [path for path in paths if path not in others] if others else paths
        return [_Candidate(source, seen[place:], is_only_way=only) for place in range(len(seen))]

    def _unseen(self, source: Source, path: StatePath) -> tuple[str, ...]:
        """Return the queues in which the message was rejected as no delivery so far has shown it."""
        died = zip(path.hops, path.died, strict=True)
        rejected = [state for hop, state in islice(died, 0 if source.is_publish else 1, None) if hop.reason == REJECTED]
        return tuple(dict.fromkeys(each.queue for each in rejected if not self._explainer.was_shown(each, self._open)))

    def _inexact(
        self,
        target: DeliveredState,
        row: CaptureRow,
        content: str,
        headers: Mapping[str, Any],
        constraints: ConsumerConstraints,
    ) -> Explained:
        explainer = self._explainer
        if not self._publishes or self._lacks_publish:
            self._lacks_publish = True
            observed = explainer.observed(row, None, headers)
            return Explained(not_checked("publish", target.queue, UNPUBLISHED), observed)
        latest = list(islice(reversed(self._sources.values()), SOURCES_MAX))
        nearest = explainer.nearest(latest, target, content, constraints)
        ruled_out = explainer.ruled_out(latest, target, content, constraints)
        parent = nearest.found.state.message if nearest else None
        observed = explainer.observed(row, parent, headers)
        unknown = explainer.why_unknown_death(row.vhost, target)
        if unknown:
            return Explained(not_checked("queue", target.queue, unknown), observed)
        if nearest is None or self._is_far(nearest, ruled_out):
            return Explained(Verdict("unexplained", ruled_out or self._no_path(target)), observed)
        chosen = _Candidate(nearest.source, [nearest.found])
        reached = DeliveredState(target.queue, explainer.visible(nearest.found.state))
        new = self._claims.claim(nearest.source, reached, nearest.found.hops)
        differences = (*nearest.differences, *self._miscounted(row, chosen))
        verdict = Verdict("differ", "", nearest.found.hops, *new, differences=differences)
        times = self._path_times(chosen, row)._replace(judged=False)
        return Explained(verdict, observed, nearest.source, times=times)

    def _is_far(self, nearest: Nearest, ruled_out: str | None) -> bool:
        """Return whether the nearest explanation explains nothing: another way fits, or its deaths are missing."""
        if len(nearest.differences) <= SLIGHT:
            return False
        fields = {difference.field for difference in nearest.differences}
        unmoved = not nearest.found.hops and bool(fields & {"x-death", "x-death length"})
        return unmoved or ruled_out is not None

    def _no_path(self, target: DeliveredState) -> str:
        start = "the publish"
        if len(self._sources) > LOOKED_AT_MAX:
            start = f"the latest {LOOKED_AT_MAX} of {len(self._sources):,} situations of this message"
        return f"no path from {start} to queue '{target.queue}' that rules and definitions allow"

    def _freedom(self) -> ConsumerConstraints:
        settled = frozenset(queue for queue, states in self._rejectable.items() if not states)
        return ConsumerConstraints(frozenset(self._rejectable), settled)


def not_checked(what: What, queue: str, why: str) -> Verdict:
    """Return the verdict on a delivery of which nothing is known but that the broker made it."""
    return Verdict("agree", unchecked=(Unchecked(what, queue, why),))
