"""What a broker makes of a message that is poison or has expired: a dead letter, another delivery, or nothing.

Source: activemq-broker, RegionBroker.sendToDeadLetterQueue, RedeliveryPlugin, DiscardingDLQBroker, AdvisoryBroker.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random

import msgspec

from simulator.events import Event
from simulator.systems.activemq import plugins
from simulator.systems.activemq.broker_state import BrokerState
from simulator.systems.activemq.dead_letter_strategies import Audit, Discarding, Individual, Strategy, refusal, target
from simulator.systems.activemq.destinations import Destination, matches
from simulator.systems.activemq.messages import (
    AdvisoryKind,
    Message,
    advisory,
    advisory_topic,
    dead_letter,
    expiry_cause,
    rescheduled,
)
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy, delay_by_counter_ms
from simulator.systems.activemq.scheduling import Schedule, Scheduler
from simulator.systems.activemq.settings import DEFAULT_STRATEGY, DestinationPolicy
from simulator.systems.activemq.stores import HeldMessage, Store

EXPIRED = "expired"
_NOT_DURABLE = "a subscription that is not durable has no dead letters"
POISON = "poison"


class _Place(msgspec.Struct, frozen=True):
    """Where a message dies: the policy there, the durable subscription, and the broker's count if it has one there."""

    policy: DestinationPolicy
    durable_key: str | None = None
    counter: int | None = None


class DeadLetterMaker:
    """Makes dead letters.

    Args:
        state: what the broker has.
        scheduler: sends what the redelivery plugin delivers again.
        arrive: takes a dead letter.
    """

    def __init__(self, state: BrokerState, scheduler: Scheduler, arrive: Callable[[Message], None]) -> None:
        self._state, self._scheduler, self._arrive = state, scheduler, arrive
        self._audits: dict[tuple[int, Destination | None], Audit] = {}
        self._advisories = count(1)

    def expire(self, held: HeldMessage, store: Store) -> None:
        """Let a message die whose time is up. The store no longer has it.

        A subscription that is not durable has no dead letters.
        """
        self._state.trace.add(Event.EXPIRED, held.message)
        if store.topic_subscriber and store.durable_key is None:
            self._state.trace.add(Event.DROPPED, held.message, reason=EXPIRED, detail=_NOT_DURABLE)
        else:
            self.die(held, store, expiry_cause(held.message), EXPIRED)
            self._advise("Expired", held.message)
        store.forget(held.message)

    def expire_at_arrival(self, message: Message) -> None:
        """Let a message die that has expired before it came into any store."""
        self._state.trace.add(Event.EXPIRED, message)
        self._decide(message, _Place(self._state.policy(message.destination)), expiry_cause(message), EXPIRED)
        self._advise("Expired", message)

    def die(self, held: HeldMessage, store: Store, cause: str | None, reason: str) -> None:
        """Dead-letter a message, unless a plugin or the strategy decides otherwise. The store no longer has it."""
        if store.topic_subscriber:
            place = _Place(self._state.policy(held.message.destination), store.durable_key)
        else:
            place = _Place(store.policy, counter=held.counter)
        self._decide(held.message, place, cause, reason)

    def _decide(self, message: Message, place: _Place, cause: str | None, reason: str) -> None:
        trace = self._state.trace
        counter = message.redelivery_counter if place.counter is None else place.counter
        for plugin in reversed(self._state.settings.plugins):
            verdict = plugins.judge(plugin, message.destination, counter, expired=message.expired(trace.now_ms))
            if isinstance(verdict, plugins.Again):
                self._deliver_later(message, verdict)
                return
            if isinstance(verdict, plugins.Lost):
                trace.add(Event.DROPPED, message, reason=reason, detail=verdict.reason)
                return
        self._dead_letter(message, place, cause, reason)

    def retried(self, message: Message, destination: Destination) -> None:
        """Record that a dead letter goes back to a destination: the audit there forgets it."""
        audit = self._audit(self._state.policy(destination).strategy or DEFAULT_STRATEGY, destination)
        if audit is not None:
            audit.forget(message)

    def restart(self) -> None:
        """Forget all audits, and which queues have dead letters."""
        self._audits.clear()
        self._state.dead_letter_queues.clear()

    def _dead_letter(self, message: Message, place: _Place, cause: str | None, reason: str) -> None:
        strategy: Strategy = DEFAULT_STRATEGY if place.policy.strategy is None else place.policy.strategy
        trace = self._state.trace
        refused = refusal(strategy, message, trace.now_ms, duplicate=self._audited(strategy, message))
        if refused is not None or isinstance(strategy, Discarding):
            trace.add(Event.DROPPED, message, reason=reason, detail=refused)
            return
        to = target(strategy, message.destination, place.durable_key)
        if to == message.destination:
            trace.add(Event.DROPPED, message, reason=reason, detail="its dead letter would go where it is")
            return
        trace.add(Event.DEAD_LETTERED, message, reason=reason, detail=cause, to=str(to))
        self._state.dead_letter_queues.add(to)
        self._arrive(dead_letter(message, to, expiration_ms=strategy.expiration_ms, cause=cause, now_ms=trace.now_ms))
        self._advise("MessageDLQd", message)

    def _advise(self, kind: AdvisoryKind, message: Message) -> None:
        """Tell consumers of the advisory topic what became of a message; nothing of an advisory message."""
        state, topic = self._state, advisory_topic(kind, message.destination)
        if not state.settings.advisories or message.about is not None:
            return
        if any(matches(each.destination, topic) for each in state.subscriptions):
            self._arrive(advisory(kind, message, number=next(self._advisories), now_ms=state.trace.now_ms))

    def _audited(self, strategy: Strategy, message: Message) -> bool:
        """Return whether the strategy's audit knows the message, which it does from now on."""
        audit = self._audit(strategy, message.destination)
        return audit is not None and audit.is_duplicate(message)

    def _audit(self, strategy: Strategy, destination: Destination) -> Audit | None:
        """Return the audit of a strategy for the messages of a destination; ``None`` if it keeps no audit."""
        if not strategy.enable_audit or isinstance(strategy, Discarding):
            return None
        each = self._state.profile.audit_per_destination and isinstance(strategy, Individual)
        key = (id(strategy), destination if each else None)
        if key not in self._audits:
            self._audits[key] = Audit(strategy.max_audit_depth, strategy.max_producers_to_audit)
        return self._audits[key]

    def _deliver_later(self, message: Message, again: plugins.Again) -> None:
        delay_ms = redelivery_delay_ms(again.policy, again.counter, self._state.random)
        copy = rescheduled(message, counter=again.counter, delay_ms=delay_ms)
        self._state.trace.add(Event.REQUEUED, message, detail="redeliveryPlugin", delay_ms=delay_ms)
        self._scheduler.send(copy, Schedule(delay_ms=delay_ms))


def redelivery_delay_ms(policy: RedeliveryPolicy, counter: int, random: Random) -> int:
    """Return how long to wait before redelivery number ``counter``, where the message's own count decides."""
    drawn = counter - 1 if policy.use_collision_avoidance else 0
    return delay_by_counter_ms(policy, counter, tuple(draw_share(random) for _ in range(drawn)))


def draw_share(random: Random) -> float:
    """Draw how far collision avoidance goes: a coin for the direction, then the distance."""
    sign = 1 if random.random() < 0.5 else -1
    return sign * random.random()
