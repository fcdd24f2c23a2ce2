"""Finds which rules a delivery shows: those of its path, and the release rows that decided it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN
from dlx.delivery_counts import X_DELIVERY_COUNT
from dlx.message import PublishRefusedError
from dlx.message_flow import Hop, MessageFlow, State
from dlx.recorded_deaths import recorded_deaths
from dlx.releases import Release
from dlx.routing import DEFAULT_EXCHANGE, Visit
from dlx.settings import (
    AT_LEAST_ONCE,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    Setting,
    Settings,
)
from dlx.settings import DELIVERY_LIMIT as DELIVERY_LIMIT_KEY
from dlx.topology import Binding
from simulator.replay.checks.explain import Explainer
from simulator.replay.coverage.catalogue import RELEASE_ROWS
from simulator.replay.rows.row_codec import without_expirations
from simulator.replay.search.graph import ConsumerConstraints, DeliveredState, Effort, StatePath
from simulator.replay.search.sources import Source
from simulator.replay.search.visible_state import CaptureRow

# Reads off an explained delivery which rules brought the message there.


NO_QUEUE = ""


class RuleAtQueue(NamedTuple):
    """A rule that a delivery shows, and the queue in which the message died, or was delivered from, by it.

    A row of the release table has ``NO_QUEUE``: once it has decided one delivery, it is not tried on others.
    """

    rule: str
    queue: str


class PathRules:
    """Tells the rules on a path. ``unknown``: exchanges whose type is not known."""

    def __init__(self, flow: MessageFlow, unknown: frozenset[str]) -> None:
        self._flow = flow
        self._unknown = unknown
        self._settled: dict[tuple[Hop, bool], tuple[str, ...]] = {}
        self._routes: dict[Hop, tuple[str, ...]] = {}

    def shown(self, found: StatePath, row: CaptureRow, *, is_publish: bool) -> Iterator[RuleAtQueue]:
        """Yield the rules that brought a message along a path; ``is_publish``: the path begins with its publish."""
        states = (*found.died, found.state)
        for hop, died, letter in zip(found.hops, found.died, states[1:], strict=True):
            for rule in self._of_death(hop, died, letter):
                yield RuleAtQueue(rule, hop.queue)
        if len(found.hops) > 1:
            yield RuleAtQueue("several_deaths", found.hops[-1].queue)
        if is_publish:
            for rule in self._of_extra_keys(states[0], "publish"):
                yield RuleAtQueue(rule, states[0].queue)
        count = row.of_delivery.get(X_DELIVERY_COUNT)
        if isinstance(count, int) and count > 0:
            yield RuleAtQueue("redelivery_counted", found.state.queue)

    def _of_death(self, hop: Hop, died: State, letter: State) -> Iterator[str]:
        own = died.message.expiration is not None
        if (hop, own) not in self._settled:
            self._settled[hop, own] = tuple(self._of_settings(hop, own))
        yield from self._settled[hop, own]
        yield from self._of_way(hop, letter)
        yield from self._of_history(hop, died, letter)
        if own:
            yield "expiration_removed"
        if len(self._flow.hops(died, hop.reason)) > 1:
            yield "several_copies"
        if self._flow.cycles(died, hop.reason):
            yield "cycle_beside_arrival"

    def _of_settings(self, hop: Hop, own: bool) -> Iterator[str]:
        """Yield what the settings of the two queues show; ``own``: the message has an expiration."""
        settings = self._flow.settings(hop.queue)
        yield f"{hop.reason}_in_{settings.queue.type}"
        yield f"into_{self._flow.topology.queues[hop.to_queue].type}"
        if hop.reason == EXPIRED:
            yield from _of_expiry(own, settings)
        elif hop.reason == MAXLEN:
            yield from _of_length(settings)
        elif hop.reason == DELIVERY_LIMIT:
            yield from _origin("delivery_limit", settings.values.get(DELIVERY_LIMIT_KEY))
        yield from _of_address(settings)

    def _of_way(self, hop: Hop, letter: State) -> tuple[str, ...]:
        """Return what the way of a dead letter shows: the same for all, where its queue and no header decides it."""
        known = self._routes.get(hop)
        if known is None:
            known = tuple(self._of_route(letter))
            replaces_keys = self._flow.settings(hop.queue).dead_letter_routing_key is not None
            if replaces_keys and self._flow.routes_by_key(hop.exchange):
                self._routes[hop] = known
        return known

    def _of_route(self, letter: State) -> Iterator[str]:
        visits = self._flow.visits(letter.message)
        leading = [visit for visit in visits if letter.queue in visit.queues]
        yield from self._of_extra_keys(letter, "dead_letter")
        if sum(visit.queues.count(letter.queue) for visit in visits) > 1:
            yield "one_copy_per_queue"
        visit: Visit | None = leading[0] if leading else None
        to = letter.queue
        while visit is not None:
            yield from self._of_visit(visit, to)
            if visit.before is not None:
                yield "through_alternate" if visit.is_alternate else "through_exchange_binding"
            to, visit = visit.exchange.name, visit.before

    def _of_visit(self, visit: Visit, to: str) -> Iterator[str]:
        exchange = visit.exchange
        if exchange.internal:
            yield "through_internal"
        if exchange.name in self._unknown:
            return
        yield "through_default" if exchange.name == DEFAULT_EXCHANGE else f"through_{exchange.type}"
        for binding in visit.bindings:
            if binding.destination == to:
                yield from _of_binding(exchange.type, binding)

    def _of_extra_keys(self, state: State, kind: str) -> Iterator[str]:
        """Yield which of a message's other keys leads it to its queue, if its first one does not."""
        message = state.message
        if len(message.routing_keys) < 2:
            return
        for visit in self._flow.visits(message):
            names = (state.queue,) if visit.exchange.name == DEFAULT_EXCHANGE else ()
            keys = names or tuple(each.routing_key for each in visit.bindings if each.destination == state.queue)
            if state.queue in visit.queues and message.routing_keys[0] not in keys:
                for key in set(keys) & set(message.routing_keys):
                    yield f"bcc_routes_{kind}" if key in message.bcc else f"cc_routes_{kind}"

    def _of_history(self, hop: Hop, died: State, letter: State) -> Iterator[str]:
        kind = (hop.queue, hop.reason)
        before = recorded_deaths(died.message, self._flow.release)
        kinds = [None if death is None else (death.queue, death.reason) for death in before]
        if not kinds:
            yield "first_death"
        elif kind not in kinds:
            yield "another_death"
        else:
            yield "older_entry_counted" if kinds.index(kind) else "counted_again"
        if hop.to_queue == hop.queue:
            yield "into_same_queue"
        if any(queue == hop.to_queue for queue, _ in letter.counts):
            yield "return_after_rejection"


def _of_expiry(own: bool, settings: Settings) -> Iterator[str]:
    ttl_ms = settings.message_ttl_ms
    yield "expired_by_queue_ttl" if not own else "expired_by_expiration" if ttl_ms is None else "expired_by_shorter"
    if ttl_ms == 0:
        yield "expired_at_once"
    if not own:
        yield from _origin("ttl", settings.values.get(MESSAGE_TTL))


def _of_length(settings: Settings) -> Iterator[str]:
    limits = {key: settings.values[key] for key in (MAX_LENGTH, MAX_LENGTH_BYTES) if key in settings.values}
    if len(limits) == 1:  # of two limits, a trace does not tell which one it was
        yield "length_in_messages" if MAX_LENGTH in limits else "length_in_bytes"
        yield from _origin("length", next(iter(limits.values())))
    yield "overflow_reject_publish_dlx" if settings.dead_letters_refused else "overflow_drop_head"


def _of_address(settings: Settings) -> Iterator[str]:
    yield "keys_kept" if settings.dead_letter_routing_key is None else "keys_replaced"
    exchange, key = settings.values.get(DEAD_LETTER_EXCHANGE), settings.values.get(DEAD_LETTER_ROUTING_KEY)
    for name, setting in (("exchange", exchange), ("key", key)):
        yield from _origin(name, setting)
    if settings.dead_letter_strategy == AT_LEAST_ONCE:
        yield from _origin("at_least_once", settings.values.get(DEAD_LETTER_STRATEGY))


def _origin(what: str, setting: Setting | None) -> Iterator[str]:
    """Yield where a setting comes from, and what it has hidden."""
    if setting is None:
        return
    yield f"{what}_by_{setting.origin.kind.replace(' ', '_')}"
    if setting.hidden:
        yield "argument_over_policy" if isinstance(setting.value, str) else "smaller_number"


def _of_binding(kind: str, binding: Binding) -> Iterator[str]:
    if kind == "topic":
        if "*" in binding.routing_key:
            yield "topic_star"
        if "#" in binding.routing_key:
            yield "topic_hash"
    elif kind == "headers":
        match = str(binding.arguments.get("x-match", "all"))
        yield "headers_any" if match.startswith("any") else "headers_all"


# Finds the rows of the release table that decided a delivery: under another value, nothing leads to it.
#
# That is an experiment, as with the causes of a difference. A row that was found once is not tried again, and of the
# deliveries with equal sources, states and paths only one is tried.


TRIED_MAX = 400
"""Distinct deliveries on which one process tries the rows: that takes half a second at most."""
UNTRIED = "untried"
"""Stands among the rules for deliveries beyond that number."""
SOURCES_MAX = 32
"""Sources from which one delivery may have come; with more of them, the rows are not tried on it."""
STATES_MAX = 500
"""States that one search under another value may look at."""


class RowTrials:
    """Tries other values of the rows on the deliveries of one virtual host."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._left = {row.name: row.values for row in RELEASE_ROWS}
        self._others: dict[str, list[Explainer]] = {}
        self._tried = 0

    def deciding(
        self, sources: Sequence[Source], target: DeliveredState, row: CaptureRow, constraints: ConsumerConstraints
    ) -> Iterator[str]:
        """Yield the rows, not found before, under another value of which no source explains the delivery.

        ``sources`` are those with its content; the first explains it under the rules as they are.
        """
        if self._tried >= TRIED_MAX or len(sources) > SOURCES_MAX:
            yield UNTRIED
            return
        self._tried += 1
        read = _RecordingRelease(self._explainer.release)
        _explains(self._explainer.afresh(cast("Release", read), _effort()), sources, target, row, constraints)
        for name in sorted(read.names & self._left.keys()):
            if any(not _explains(other, sources, target, row, constraints) for other in self._under_others(name)):
                del self._left[name]
                yield name

    def _under_others(self, name: str) -> list[Explainer]:
        """Return the explainers that differ in that row alone."""
        if name not in self._others:
            own, values = self._explainer.release, self._left[name]
            different = [value for number, value in enumerate(values) if value not in values[:number]]
            different.remove(getattr(own, name))
            others = (msgspec.structs.replace(own, **{name: value}) for value in different)
            self._others[name] = [self._explainer.afresh(rules, _effort()) for rules in others]
        return self._others[name]


def _effort() -> Effort:
    return Effort(STATES_MAX, every_way=False)


class _RecordingRelease:
    """Stands for a release, and notes the rows that are asked for: only they can decide anything."""

    def __init__(self, release: Release) -> None:
        self.names: set[str] = set()
        self._release = release

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self._release, name)


def _explains(
    other: Explainer,
    sources: Sequence[Source],
    target: DeliveredState,
    row: CaptureRow,
    constraints: ConsumerConstraints,
) -> bool:
    """Tell whether a path leads from one of the sources to the delivery; yes, if the search was cut short."""
    for source in sources:
        roots = _roots(other, source)
        for found in other.paths(roots, target, constraints):
            may_carry = other.counts.may_carry(found.hops, before=source.may_carry)
            if not other.counts.differences(row, found.state.message.headers or {}, may_carry=may_carry):
                return True
        if other.may_have_more(roots, target, constraints):
            return True
    return False


def _roots(other: Explainer, source: Source) -> tuple[State, ...]:
    if not source.is_publish:
        return tuple(other.observed(source.row, root.message, source.headers) for root in source.roots)
    try:
        return other.entries(source.row, source.headers)
    except PublishRefusedError:
        return ()


# Tells which rules a delivery shows.


class ExplainedDelivery(NamedTuple):
    """An explained delivery: its row, from which source by which path, and what else might have led to it."""

    row: CaptureRow
    target: DeliveredState
    source: Source
    found: StatePath
    sources: Sequence[Source]
    constraints: ConsumerConstraints

    @property
    def key(self) -> Hashable:
        """Return what tells it from deliveries of the same virtual host that show other rules.

        No rule looks at how many milliseconds an expiration has.
        """
        headers = repr(sorted(self.source.headers.items(), key=repr)) if self.source.headers else ""
        return _template(self.row.signature), _template(self.source.row.signature), headers, self.found.hops


@lru_cache(maxsize=10_000)
def _template(signature: str) -> str:
    return without_expirations(signature)[0]


class ShownRules:
    """Tells the rules that deliveries of one virtual host show."""

    def __init__(self, explainer: Explainer) -> None:
        self._paths = PathRules(explainer.flow, explainer.unknown_routing)
        self._rows = RowTrials(explainer)

    def of(self, delivery: ExplainedDelivery) -> tuple[RuleAtQueue, ...]:
        """Return the rules that the delivery shows, each once."""
        return tuple(dict.fromkeys(self._shown(delivery)))

    def _shown(self, delivery: ExplainedDelivery) -> Iterator[RuleAtQueue]:
        row, source = delivery.row, delivery.source
        yield from self._paths.shown(delivery.found, row, is_publish=source.is_publish)
        sources = [source, *(each for each in delivery.sources if each is not source)]
        for name in self._rows.deciding(sources, delivery.target, row, delivery.constraints):
            yield RuleAtQueue(name, NO_QUEUE)
