"""Says by which rule an event happened to a message, whose setting decided it, and how the rule is known.

The rules themselves are asked of ``dlx.message_flow``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dlx import deaths, settings
from dlx.letter_copies import CopyOutcome, LetterCopy
from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.nearest_names import suggestion
from dlx.routing import Visit
from dlx.settings import Settings
from dlx.topology import QUORUM, Binding
from simulator.events import REFUSALS, Event, Happened
from simulator.rule_sources import sources, with_origin

ARRIVES: frozenset[CopyOutcome] = frozenset({"dead-lettered", "may be refused"})
"""Outcomes of copies that reach a queue."""
REASONS: dict[Event, str] = {
    Event.REJECTED: deaths.REJECTED,
    Event.EXPIRED: deaths.EXPIRED,
    Event.LENGTH_DROPPED: deaths.MAXLEN,
    Event.LIMIT_DROPPED: deaths.DELIVERY_LIMIT,
}
"""The reason of each event by which a copy dies."""
_ROUTED_BY = {"topic": "dlx.binding_index", "headers": "dlx.binding_index"}


class Reason(NamedTuple):
    """Why something happened: the rule with the setting that decides, and how the rule is known; both may be empty."""

    because: str = ""
    source: str = ""


class Reasons:
    """Gives the reasons of events in the topology of one flow."""

    def __init__(self, flow: MessageFlow) -> None:
        self._flow = flow

    def of(self, event: Happened, message: Message, before: Happened | None) -> Reason:
        """Return why the event happened; ``message`` is as it was then, ``before`` the event just before."""
        queue = event.queue
        if event.event == Event.ROUTED or (event.event == Event.UNROUTABLE and queue is None):
            return self._routed(message, queue)
        if queue is None or queue not in self._flow.topology.queues:
            return Reason()
        found = self._flow.settings(queue)
        match event.event:
            case Event.EXPIRED | Event.LENGTH_DROPPED | Event.LIMIT_DROPPED:
                return self._death(queue, message, REASONS[event.event])
            case Event.DEAD_LETTERED:
                return Reason(_address(found), sources(["dlx.dead_lettering"]))
            case Event.HELD:
                strategy = _told(found, settings.DEAD_LETTER_STRATEGY)
                return Reason(strategy, sources(["dlx.dead_lettering"], ["quorum_at_least_once"]))
            case Event.REQUEUED if found.queue.type == QUORUM:
                rows = ["returns_counted_as_failures", "quorum_delivery_limit_counts"]
                return Reason(_told(found, settings.DELIVERY_LIMIT), sources(["dlx.delivery_counts"], rows))
            case Event.PURGED:
                return Reason(_told(found, settings.EXPIRES), sources(["dlx.settings"]))
            case Event.DROPPED | Event.NACKED | Event.DEFERRED if _was_full(event, before):
                limits = (settings.OVERFLOW, settings.MAX_LENGTH, settings.MAX_LENGTH_BYTES)
                return Reason(_told(found, *limits), sources(["dlx.settings"]))
            case Event.CYCLE_DROPPED | Event.DROPPED | Event.UNROUTABLE:
                copies = self._flow.copies(self._flow.state(queue, message), event.reason or deaths.REJECTED)
                return copy_reason(copies[0])
        return Reason()

    def not_sent(self, event: Happened, message: Message) -> list[LetterCopy]:
        """Return the copies of a dead letter that reached no queue, though others did: RabbitMQ tells nobody."""
        if event.event != Event.DEAD_LETTERED or event.queue is None or event.queue not in self._flow.topology.queues:
            return []
        copies = self._flow.copies(self._flow.state(event.queue, message), event.reason or deaths.REJECTED)
        return [copy for copy in copies if copy.queue is not None and copy.outcome not in ARRIVES]

    def _death(self, queue: str, message: Message, reason: str) -> Reason:
        state = self._flow.state(queue, message)
        rule = next(death.rule for death in self._flow.deaths(state) if death.reason == reason)
        rows, modules = [], ["dlx.settings"]
        if reason == deaths.DELIVERY_LIMIT:
            modules = ["dlx.delivery_counts"]
            rows = ["quorum_delivery_limit_counts"]
            if rule.setting is not None and rule.setting.origin == settings.SERVER_DEFAULT:
                rows.append("quorum_default_delivery_limit")
        elif reason == deaths.EXPIRED and self._flow.settings(queue).queue.type == QUORUM:
            rows = ["quorum_message_ttl"]
        return Reason(
            with_origin(rule.setting) if rule.setting else rule.text.partition(": ")[2], sources(modules, rows)
        )

    def _routed(self, message: Message, queue: str | None) -> Reason:
        visits = self._flow.visits(message)
        leading = [visit for visit in visits if queue is None or queue in visit.queues]
        if not leading:
            return Reason()
        last = leading[0]
        ways = ", then ".join(_way(visit, queue) for visit in _way_to(last))
        if queue is None and not last.exchange.name:
            missing = (f"no queue '{key}', {suggestion(key, self._flow.topology.queues)}" for key in last.queues)
            ways = f"{ways}, and there is {' and '.join(missing)}"
        modules = ["dlx.routing", *([_ROUTED_BY[last.exchange.type]] if last.exchange.type in _ROUTED_BY else [])]
        return Reason(ways, sources(modules))


def copy_reason(copy: LetterCopy) -> Reason:
    """Return why a copy of a dead letter has the outcome that it has."""
    by = copy.rule.setting
    because = copy.rule.text if by is None else f"{copy.rule.text} ({with_origin(by)})"
    if copy.outcome == "cycle":
        return Reason(because, sources(["dlx.cycles"], ["death_order"]))
    rows = ["stream_takes_dead_letters"] if copy.outcome == "lost in a stream" else []
    return Reason(because, sources(["dlx.dead_lettering"], rows))


def _was_full(event: Happened, before: Happened | None) -> bool:
    if event.event in REFUSALS:
        return True
    return before is not None and before.event in REFUSALS and before.queue == event.queue


def _address(found: Settings) -> str:
    keys = _told(found, settings.DEAD_LETTER_ROUTING_KEY) or "no dead-letter-routing-key: it keeps its keys"
    return f"{_told(found, settings.DEAD_LETTER_EXCHANGE)}; {keys}"


def _told(found: Settings, *keys: str) -> str:
    return "; ".join(with_origin(found.values[key]) for key in keys if key in found.values)


def _way_to(visit: Visit) -> Iterator[Visit]:
    if visit.before is not None:
        yield from _way_to(visit.before)
    yield visit


def _way(visit: Visit, queue: str | None) -> str:
    """Tell by what a message came to the exchange, and by which bindings it leaves it for the queue."""
    exchange = visit.exchange
    named = f"{exchange.type} exchange '{exchange.name}'" if exchange.name else "the default exchange"
    if visit.is_alternate and visit.before is not None:
        named = f"the alternate exchange of '{visit.before.exchange.name}', {named}"
    if not exchange.name:
        return f"{named} routes by the name of the queue"
    if queue is None:
        return f"{named} has no binding that takes it"
    own = [each for each in visit.bindings if each.destination_type == "queue" and each.destination == queue]
    return f"{named}: binding {_binding(own[0])}" if own else named


def _binding(binding: Binding) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in binding.arguments.items())
    return f"'{binding.routing_key}'" + (f" with {arguments}" if arguments else "") + f" to '{binding.destination}'"
