"""Lints an ``activemq.xml``: what a broker may be configured with, and loses messages, each with its place.

An error loses messages that the store keeps; a warning those that are not persistent or
have expired, or is a choice that a broker makes one way or the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from simulator.systems.activemq.activemq_xml import (
    broker_element,
    broker_settings,
    plugins_with_places,
    policies_with_places,
)
from simulator.systems.activemq.dead_letter_strategies import (
    NOWHERE,
    Discarding,
    Individual,
    Shared,
    Strategy,
    keeps_nothing,
    target,
)
from simulator.systems.activemq.destinations import Destination, UndefinedError, meets
from simulator.systems.activemq.plugins import Discarding as DiscardingPlugin
from simulator.systems.activemq.plugins import Plugin
from simulator.systems.activemq.redelivery_policy import UNLIMITED, RedeliveryPolicy
from simulator.systems.activemq.settings import DEFAULT_STRATEGY, BrokerSettings, DestinationPolicy
from simulator.systems.activemq.virtual_destinations import CompositeDestination
from simulator.systems.activemq.xml_check import check_schemas
from simulator.systems.activemq.xml_elements import Element, parse

Severity = Literal["error", "warning"]
_BY_DEFAULT = (
    "the broker's own strategy is meant: ActiveMQ.DLQ has the dead letters of persistent messages, and there are none "
    "of others"
)
ANY_QUEUE, ANY_TOPIC = Destination("queue", ">"), Destination("topic", ">")


class Doubt(msgspec.Struct, frozen=True):
    """What is lost, and what would keep it."""

    severity: Severity
    text: str
    fix: str


def strategy_doubts(
    strategy: Strategy, keys: Sequence[Destination], settings: BrokerSettings, *, of: str = ""
) -> Iterator[Doubt]:
    """Yield the ways in which a strategy loses messages of its destinations.

    Args:
        strategy: as it is in the settings.
        keys: the patterns of its destinations.
        settings: the whole configuration, which also says what becomes of the dead letters.
        of: the destinations in words; by default the keys.
    """
    whose = f"of {of or ', '.join(map(str, keys))}"
    if isinstance(strategy, Discarding):
        yield Doubt("error", f"all dead letters {whose} are lost", "a shared or individual strategy keeps them")
        return
    if isinstance(strategy, Shared) and strategy.dead_letter_queue == NOWHERE:
        yield Doubt("error", f"all dead letters {whose} are lost: the queue has no name", "give it a physicalName")
        return
    yield from _goes_where_it_is(strategy, keys)
    yield from _goes_to_topics(strategy, keys)
    yield from _filtered_away(strategy, keys, settings)
    if not strategy.enable_audit:
        yield from _second_letters(strategy, keys, settings)
    if not strategy.process_non_persistent:
        text = f"messages {whose} that are not persistent have no dead letter"
        yield Doubt("warning", text, 'processNonPersistent="true" on the strategy makes one')
    if not strategy.process_expired:
        text = f"messages {whose} that expire have no dead letter"
        yield Doubt("warning", text, 'processExpired="true" on the strategy makes one')
    if strategy.expiration_ms > 0:
        yield from _letters_expire(strategy, keys, settings)


def plugin_doubts(plugin: Plugin) -> Iterator[Doubt]:
    """Yield what a plugin loses."""
    if isinstance(plugin, DiscardingPlugin):
        yield from _discarded(plugin)
        return
    policies = plugin.policies
    given = (*(entry.value for entry in policies.entries), policies.default)
    yield from _both_redeliver([each for each in given if each is not None])
    if policies.default is not None or any(not entry.key.is_queue for entry in policies.entries):
        text = "what a durable subscriber rejects is lost: the copy that the plugin sends has the same identifier"
        yield Doubt("error", text, "policies for queues alone leave subscribers their dead letters")
    if not plugin.fallback and policies.default is None:
        text = "what is rejected on destinations that have no policy here is lost"
        yield Doubt("error", text, 'fallbackToDeadLetter="true" makes dead letters')
    if not plugin.dead_letter_when_exceeded:
        text = "what is rejected more often than its policy allows is lost"
        yield Doubt("error", text, 'sendToDlqIfMaxRetriesExceeded="true" makes dead letters')


def broker_doubts(settings: BrokerSettings) -> Iterator[Doubt]:
    """Yield what is lost by what the configuration leaves to the broker."""
    if not settings.persistent:
        text = "all messages are lost when the broker stops"
        yield Doubt("warning", text, 'persistent="true" keeps those that are persistent')
    if settings.forgets_at_start:
        text = "all messages and durable subscriptions are lost when the broker starts (deleteAllMessagesOnStartup)"
        yield Doubt("warning", text, "without it the persistent ones stay")
    if settings.offline_timeout_ms >= 0 and settings.offline_period_ms > 0:
        away = f"stay away for {settings.offline_timeout_ms} ms is lost (offlineDurableSubscriberTimeout)"
        yield Doubt("warning", f"what waits for durable subscribers that {away}", "without it subscriptions stay")
    keys = (ANY_QUEUE, ANY_TOPIC)
    if all(_has_strategy(key, settings) for key in keys):
        return
    for doubt in strategy_doubts(DEFAULT_STRATEGY, keys, settings, of="destinations without a strategy of their own"):
        if doubt.severity == "error" or not default_alone(settings):
            yield doubt


def default_alone(settings: BrokerSettings) -> bool:
    """Return whether the configuration names no strategy, and leaves all dead letters to the broker's default."""
    given = [entry.value for entry in settings.policies.entries]
    given += [] if settings.policies.default is None else [settings.policies.default]
    return all(each.strategy is None for each in given)


def page_doubts(keys: Sequence[Destination], policy: DestinationPolicy) -> Iterator[Doubt]:
    """Yield what pages that are smaller than the broker's default keep from consumers, browsers and dead letters."""
    usual, whose = DestinationPolicy(), f"of {', '.join(map(str, keys)) or 'destinations without an entry'}"
    size = policy.max_page_size
    if size < usual.max_page_size:
        what = f"a consumer {whose} with a selector, or of a message group, starves behind {size} messages for others"
        yield Doubt("warning", f"{what} (maxPageSize)", f'maxPageSize="{usual.max_page_size}" is the default')
    size = policy.max_expire_page_size
    if size < usual.max_expire_page_size and policy.expire_period_ms > 0:
        what = f"messages {whose} that expire behind {size} others have no dead letter before those are gone"
        fix = f'maxExpirePageSize="{usual.max_expire_page_size}" is the default'
        yield Doubt("warning", f"{what} (maxExpirePageSize)", fix)
    size = policy.max_browse_page_size
    if size < usual.max_browse_page_size:
        seen = f"the first {size} messages" if size > 0 else "what consumers made the broker read, and nothing else"
        fix = f'maxBrowsePageSize="{usual.max_browse_page_size}" is the default'
        yield Doubt("warning", f"a browser {whose} sees {seen} (maxBrowsePageSize)", fix)


def undefined_doubts(keys: Iterable[Destination], settings: BrokerSettings) -> Iterator[Doubt]:
    """Yield where nothing says which of two policies under one key applies."""
    for key in keys:
        try:
            settings.policies.lookup(key)
        except UndefinedError as error:
            yield Doubt("warning", str(error), "leave one of them")


def _both_redeliver(policies: Iterable[RedeliveryPolicy]) -> Iterator[Doubt]:
    """Yield how often a message is delivered that clients of the default policy reject.

    With each retry of the plugin it comes to them with one redelivery less to go, and is delivered once at least.
    """
    limits = [each.maximum_redeliveries for each in policies]
    if not any(limits):
        return
    own = RedeliveryPolicy().maximum_redeliveries
    most = UNLIMITED if UNLIMITED in limits else max(limits)
    count = "without end" if most < 0 else f"{sum(max(own - retry, 0) + 1 for retry in range(most + 1))} times"
    text = (
        f"a message that a client with the default policy ({own} redeliveries) rejects each time is delivered {count}"
    )
    fix = 'maximumRedeliveries="0" in the clients leaves redelivery to the plugin'
    yield Doubt("warning", f"{text}: first the client redelivers, then the plugin, and the client again", fix)


def _has_strategy(key: Destination, settings: BrokerSettings) -> bool:
    """Return whether all destinations of a kind have a strategy of their own: no entry, and no gap, is without."""
    entries, default = settings.policies.entries, settings.policies.default
    if any(entry.value.strategy is None for entry in entries if entry.key.is_queue == key.is_queue):
        return False
    return any(entry.key == key for entry in entries) or (default is not None and default.strategy is not None)


def _goes_where_it_is(strategy: Shared | Individual, keys: Iterable[Destination]) -> Iterator[Doubt]:
    for key in keys:
        if target(strategy, key) == key:
            text = f"all dead letters of {key} are lost: they would go to the queue in which the messages are"
            yield Doubt("error", text, "a dead-letter queue of another name keeps them")


def _filtered_away(
    strategy: Shared | Individual, keys: Iterable[Destination], settings: BrokerSettings
) -> Iterator[Doubt]:
    """Yield the dead-letter queues that copy their messages elsewhere by filters alone, and keep none."""
    composites = [each for each in settings.virtual_destinations if isinstance(each, CompositeDestination)]
    filters = [each for each in composites if each.forward_only and not each.send_when_not_matched]
    for queue in dict.fromkeys(target(strategy, key) for key in keys):
        for each in filters:
            if meets(each.destination, queue) and all(forward.selector is not None for forward in each.forward_to):
                text = f"dead letters in {queue} that no filteredDestination of {each.destination} selects are lost"
                yield Doubt("error", text, 'forwardOnly="false" on the composite destination keeps them')


def _goes_to_topics(strategy: Shared | Individual, keys: Iterable[Destination]) -> Iterator[Doubt]:
    for topic in dict.fromkeys(target(strategy, key) for key in keys):
        if not topic.is_queue:
            text = f"dead letters go to {topic} and are lost unless it has subscribers"
            yield Doubt("error", text, "send them to a queue")


def _second_letters(
    strategy: Shared | Individual, keys: Iterable[Destination], settings: BrokerSettings
) -> Iterator[Doubt]:
    """Yield the queues that take one dead letter of two with one identifier, although the audit lets both through."""
    for key in keys:
        queue, split = target(strategy, key), isinstance(strategy, Individual)
        apart = isinstance(strategy, Individual) and (key.is_queue or strategy.destination_per_durable_subscriber)
        if apart or not queue.is_queue or _only_source(key, keys, queue, settings):
            continue
        who = "consumers of a send to several queues" if key.is_queue else "durable subscribers"
        until = "while the first is there" if _takes_twice(queue, settings) else "audit or not"
        text = f"of a message that two {who} reject, {queue} takes one dead letter, {until}"
        each = "" if key.is_queue else ' with destinationPerDurableSubscriber="true"'
        strategy_text = "the strategy" if split else "an individual strategy"
        yield Doubt("error", text, f"{strategy_text}{each} keeps both")


def _only_source(
    source: Destination, keys: Iterable[Destination], queue: Destination, settings: BrokerSettings
) -> bool:
    """Return whether dead letters of one queue alone come to ``queue``: a message dies there once."""
    if source.is_pattern or not source.is_queue or set(keys) != {source}:
        return False
    default = settings.policies.default
    others = [entry.value.strategy for entry in settings.policies.entries if entry.key != source]
    others += [DEFAULT_STRATEGY, default.strategy if default else None]
    return not any(each is not None and _may_come_to(queue, each) for each in others)


def _may_come_to(queue: Destination, strategy: Strategy) -> bool:
    """Return whether a strategy may send dead letters to a queue; an individual one counts for any queue."""
    return isinstance(strategy, Individual) or (
        keeps_nothing(strategy) is None
        and not isinstance(strategy, Discarding)
        and target(strategy, ANY_QUEUE) == queue
    )


def _takes_twice(queue: Destination, settings: BrokerSettings) -> bool:
    """Return whether a queue takes an identifier again, once the first message of it is gone."""
    try:
        policy = settings.policies.lookup(queue)
    except UndefinedError:
        return False
    return policy is not None and not policy.enable_audit


def _letters_expire(
    strategy: Shared | Individual, keys: Iterable[Destination], settings: BrokerSettings
) -> Iterator[Doubt]:
    for queue in dict.fromkeys(target(strategy, key) for key in keys):
        try:
            policy = settings.policies.lookup(queue)
        except UndefinedError:
            continue
        own = (policy.strategy if policy else None) or DEFAULT_STRATEGY
        audited = own is strategy and own.enable_audit  # the audit knows them since they became dead letters
        if audited or isinstance(own, Discarding) or keeps_nothing(own) or target(own, queue) == queue:
            text = f"dead letters in {queue} expire after {strategy.expiration_ms} ms and are lost"
            yield Doubt("warning", text, 'expiration="0" keeps them')


def _discarded(plugin: DiscardingPlugin) -> Iterator[Doubt]:
    if plugin.drop_all:
        yield Doubt("error", "all dead letters are lost (dropAll)", 'dropAll="false" with dropOnly names some')
        return
    for pattern in plugin.drop_only.split():
        text = f"dead letters of destinations that match {pattern} are lost (dropOnly)"
        yield Doubt("error", text, "without the pattern they are kept")
    kinds = [
        name
        for name, drops in (("queues", plugin.drop_temporary_queues), ("topics", plugin.drop_temporary_topics))
        if drops
    ]
    if kinds:
        text = f"dead letters of temporary {' and '.join(kinds)} are lost"
        switches = " ".join(f'dropTemporary{each.title()}="false"' for each in kinds)
        yield Doubt("warning", text, f"{switches} keeps them")


class LossyElement(msgspec.Struct, frozen=True):
    """One thing that loses messages: its place in the file, from line 1 and column 1, and what would keep them."""

    line: int
    column: int
    severity: Severity
    text: str
    fix: str


class LintedConfiguration(msgspec.Struct, frozen=True):
    """What was found, from the top of the file down.

    Attributes:
        findings: what loses messages.
        policies: the number of entries that were read.
        not_simulated: what the configuration asks for and nobody looked at, in words.
        assumed: what it leaves to the broker, in words.
    """

    findings: tuple[LossyElement, ...]
    policies: int
    not_simulated: tuple[str, ...]
    assumed: tuple[str, ...]


def lint(text: str | bytes) -> LintedConfiguration:
    """Lint an ``activemq.xml``, a whole one. Raises ``ConfigurationError`` for one that no broker starts with."""
    settings, broker = broker_settings(text), broker_element(text)
    check_schemas(parse(text))
    found = dict.fromkeys(_findings(broker, settings))
    policies = sum(1 for _ in policies_with_places(broker, settings))
    return LintedConfiguration(
        tuple(sorted(found, key=lambda each: (each.line, each.column))),
        policies,
        settings.not_simulated,
        (_BY_DEFAULT,) if default_alone(settings) else (),
    )


def _findings(broker: Element, settings: BrokerSettings) -> Iterator[LossyElement]:
    yield from _at(broker, broker_doubts(settings))
    for element, keys, policy in policies_with_places(broker, settings):
        yield from _at(element, undefined_doubts(keys, settings))
        yield from _at(element, page_doubts(keys, policy))
        if policy.strategy is not None:
            of = "" if keys else "destinations without an entry"
            doubts = strategy_doubts(policy.strategy, keys or (ANY_QUEUE, ANY_TOPIC), settings, of=of)
            yield from _at(_strategy_of(element), doubts)
    for element, plugin in plugins_with_places(broker, settings):
        yield from _at(element, plugin_doubts(plugin))


def _strategy_of(element: Element) -> Element:
    """Return the strategy of an entry, or of the one in a ``<defaultEntry>``, if it has a place of its own."""
    entry = element.last("policyEntry") or element
    holder = entry.last("deadLetterStrategy")
    return holder.children[0] if holder and holder.children else entry


def _at(element: Element, doubts: Iterable[Doubt]) -> Iterator[LossyElement]:
    for each in doubts:
        yield LossyElement(element.line, element.column, each.severity, each.text, each.fix)
