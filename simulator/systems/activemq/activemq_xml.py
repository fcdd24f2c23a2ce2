"""What ``activemq.xml`` says about dead letters: destinationPolicy, virtual destinations and the two plugins.

Names and values are checked first (``xml_check.py``), then the elements are read. Other
elements are skipped; those that change what happens to messages are in ``BrokerSettings.not_simulated``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec

from simulator.systems.activemq import plugins
from simulator.systems.activemq.dead_letter_strategies import NOWHERE, Discarding, Individual, Shared, Strategy
from simulator.systems.activemq.destinations import (
    KINDS,
    Destination,
    DestinationEntry,
    DestinationMap,
    Kind,
    entries,
    parts,
    split_options,
)
from simulator.systems.activemq.redelivery_policy import RedeliveryPolicy
from simulator.systems.activemq.selectors import SelectorError, parse_selector
from simulator.systems.activemq.settings import BrokerSettings, DestinationPolicy
from simulator.systems.activemq.virtual_destinations import (
    BY_DEFAULT,
    CompositeDestination,
    Forward,
    Virtual,
    VirtualTopic,
)
from simulator.systems.activemq.xml_check import Value, check, check_bean_names, check_namespace, values
from simulator.systems.activemq.xml_elements import ConfigurationError as ConfigurationError
from simulator.systems.activemq.xml_elements import Element, parse
from simulator.systems.activemq.xml_not_simulated import not_simulated

Record = TypeVar("Record", bound=msgspec.Struct)
Made = TypeVar("Made")

_STRATEGIES: dict[str, type[Shared | Individual | Discarding]] = {
    "sharedDeadLetterStrategy": Shared,
    "individualDeadLetterStrategy": Individual,
    "discarding": Discarding,
}
_KINDS: dict[str, Kind] = {"queue": "queue", "tempQueue": "temp-queue", "tempTopic": "temp-topic", "topic": "topic"}
"""What an entry may be for, in the order in which the broker reads it: of several the last counts."""
_PLUGINS = ("redeliveryPlugin", "discardingDLQBrokerPlugin")


def broker_settings(text: str | bytes) -> BrokerSettings:
    """Read an ``activemq.xml``.

    Raises ``ConfigurationError`` with the place and what would be right, for all that a broker does not start with,
    as far as names and values of the elements read here go. The text may be a fragment, without schemas.
    """
    root = parse(text)
    broker = _broker(root)
    check(broker)
    check_bean_names(root)
    _check_destinations(broker)
    given = values(broker)
    scheduler = _flag(broker, given, "schedulerSupport", default=False)
    return BrokerSettings(
        policies=_policies(broker),
        plugins=tuple(_plugin(each, scheduler=scheduler) for each in _installed(broker)),
        persistent=_flag(broker, given, "persistent", default=True),
        forgets_at_start=_flag(broker, given, "deleteAllMessagesOnStartup", default=False),
        scheduler=scheduler,
        repeat_max=int(given.get("maxSchedulerRepeatAllowed", 1000)),
        offline_timeout_ms=int(given.get("offlineDurableSubscriberTimeout", -1)),
        offline_period_ms=int(given.get("offlineDurableSubscriberTaskSchedule", 300_000)),
        advisories=_flag(broker, given, "advisorySupport", default=True),
        durable_consumers=not given.get("rejectDurableConsumers", False),
        virtual_destinations=_virtual_destinations(broker, topics=bool(given.get("useVirtualTopics", True))),
        not_simulated=not_simulated(broker),
    )


def broker_element(text: str | bytes) -> Element:
    """Return the broker of an ``activemq.xml``, unchecked. Raises ``ConfigurationError``."""
    return _broker(parse(text))


def _broker(root: Element) -> Element:
    brokers = list(root.everywhere("broker"))
    if len(brokers) != 1:
        raise ConfigurationError(f"line {root.line}: expected one <broker>, found {len(brokers)}")
    check_namespace(brokers[0])
    return brokers[0]


def _check_destinations(broker: Element) -> None:
    """Refuse a destination to create that has no name; ``name`` is that of the bean."""
    holder = broker.last("destinations")
    for each in holder.named(*_KINDS) if holder else ():
        if "physicalName" not in each.attributes:
            raise each.error("expected its name as physicalName; without it the broker does not start")


# -- policies ------------------------------------------------------------------------------------------------------


def _policies(broker: Element) -> DestinationMap[DestinationPolicy]:
    return _map(_policy_map(broker), "policyEntries", "policyEntry", _policy)


def _policy_map(broker: Element) -> Element | None:
    holder = broker.last("destinationPolicy")
    return holder.last("policyMap") if holder else None


def policies_with_places(
    broker: Element, settings: BrokerSettings
) -> Iterator[tuple[Element, tuple[Destination, ...], DestinationPolicy]]:
    """Yield each ``<policyEntry>`` that counts, what it is for (the default nothing by name), and what it says.

    ``settings`` are those that were read of this broker.
    """
    policy_map = _policy_map(broker)
    if policy_map is None:
        return
    found = iter(settings.policies.entries)
    for element in _listed(policy_map, "policyEntries"):
        mine = [next(found) for _ in parts(_destination(element))]
        if mine:  # a name of commas alone is of none
            yield element, tuple(entry.key for entry in mine), mine[0].value
    fallback = policy_map.last("defaultEntry")
    if fallback is not None and settings.policies.default is not None:
        yield fallback, (), settings.policies.default


def plugins_with_places(broker: Element, settings: BrokerSettings) -> Iterator[tuple[Element, plugins.Plugin]]:
    """Yield each of the two plugins that is installed, and what it says."""
    yield from zip(_installed(broker), settings.plugins, strict=True)


def _map(element: Element | None, listed: str, name: str, read: Callable[[Element], Made]) -> DestinationMap[Made]:
    """Return the values by destination of a map, and its default."""
    if element is None:
        return DestinationMap()
    found: list[DestinationEntry[Made]] = []
    fallback = element.last("defaultEntry")
    for each in _listed(element, listed):
        if not each.ours or each.name != name:
            raise each.error(f"expected <{name}> in <{listed}>; beans of Spring are not simulated")
        found += entries(_destination(each), read(each))
    default = fallback.last(name) if fallback else None
    return DestinationMap(tuple(found), read(default) if default else None)


def _listed(element: Element, listed: str) -> list[Element]:
    holder = element.last(listed)
    return holder.children if holder else []


def _policy(element: Element) -> DestinationPolicy:
    given = values(element)
    if "deadLetterStrategy" in given:
        raise element.error("expected <deadLetterStrategy> as an element; a reference to a bean is not simulated")
    holder = element.last("deadLetterStrategy")
    names = {
        "expireMessagesPeriod": "expire_period_ms",
        "enableAudit": "enable_audit",
        "maxQueueAuditDepth": "max_queue_audit_depth",
        "maxAuditDepth": "max_audit_depth",
        "maxProducersToAudit": "max_producers_to_audit",
        "allConsumersExclusiveByDefault": "all_exclusive",
        "maxPageSize": "max_page_size",
        "maxExpirePageSize": "max_expire_page_size",
        "maxBrowsePageSize": "max_browse_page_size",
    }
    fields = {names[name]: value for name, value in given.items() if name in names}
    return msgspec.convert({**fields, "strategy": _strategy(holder) if holder else None}, DestinationPolicy)


def _parse_name(element: Element, name: str, kind: Kind) -> Destination:
    """Return the destination of that name: ``queue://`` would be part of it, options behind a ``?`` are not."""
    if "${" in name and element.filled_in:
        raise element.error(f"expected the name of a destination, got the placeholder '{name}'")
    if not name.strip():
        raise element.error("expected the name of a destination, got ''")
    found = Destination(kind, split_options(name.strip())[0])
    try:
        parts(found)
    except ValueError as error:
        raise element.error(str(error)) from error
    return found


def _parsed(element: Element, name: str, kind: Kind) -> Destination:
    """Return the destination of that name, which may begin with ``queue://``, ``topic://`` or the like."""
    given, mark, rest = name.strip().partition("://")
    kinds = {each: each for each in KINDS}
    return _parse_name(element, rest, kinds[given]) if mark and given in kinds else _parse_name(element, name, kind)


def _destination(element: Element, named: Callable[[Element, str, Kind], Destination] = _parse_name) -> Destination:
    """Return the destination that an entry is for. ``tempQueue`` and ``tempTopic`` are switches for all of them."""
    given = [name for name in _KINDS if name in element.attributes]
    if given:
        names = {kind: ">" if kind.startswith("temp") else element.attributes[kind] for kind in given}
        return [named(element, name, _KINDS[kind]) for kind, name in names.items()][-1]
    holder = element.last("destination")
    for target in holder.named(*_KINDS) if holder else ():
        return _target(target)
    raise element.error(f"expected one of {', '.join(_KINDS)}, which the entry is for")


def _strategy(holder: Element) -> Strategy:
    for element in holder.children:
        if element.name in _STRATEGIES and element.ours:
            return _read_strategy(element, _STRATEGIES[element.name])
    if holder.children:
        raise holder.children[0].error("expected a strategy of ActiveMQ; beans of Spring are not simulated")
    raise holder.error(f"expected one of {', '.join(f'<{name}>' for name in _STRATEGIES)} in it")


def _read_strategy(element: Element, kind: type[Strategy]) -> Strategy:
    fields = values(element)
    if "deadLetterQueue" in fields:
        raise element.error(
            "expected the dead letter queue as an element: "
            '<deadLetterQueue><queue physicalName="..."/></deadLetterQueue>; no broker starts with the attribute'
        )
    holder = element.last("deadLetterQueue")
    if holder is not None:
        targets = list(holder.named(*_KINDS))
        if not targets:
            raise holder.error('expected <queue physicalName="..."/> in it')
        if kind is Shared:
            named = targets[0].attributes.get("physicalName")
            fields["deadLetterQueue"] = NOWHERE if named is None else str(_target(targets[0]))
    return _struct(element, fields, kind)


def _target(element: Element) -> Destination:
    """Return what ``<queue physicalName="..."/>`` names."""
    return _parse_name(element, element.attributes.get("physicalName", ""), _KINDS[element.name])


# -- virtual destinations ------------------------------------------------------------------------------------------


def _virtual_destinations(broker: Element, *, topics: bool) -> tuple[Virtual, ...]:
    interceptors = broker.last("destinationInterceptors")
    if interceptors is None or not interceptors.children:
        return BY_DEFAULT if topics else ()
    found: list[Virtual] = []
    for interceptor in interceptors.named("virtualDestinationInterceptor"):
        holder = interceptor.last("virtualDestinations")
        if holder is None:
            raise interceptor.error("expected <virtualDestinations> in it; without them the broker does not start")
        found += [_virtual(each) for each in holder.children if each.ours]
    return tuple(found)


def _virtual(element: Element) -> Virtual:
    given = values(element)
    if "name" in given:
        _parse_name(element, str(given["name"]), "topic")
    if element.name == "virtualTopic":
        names = {"name": "name", "prefix": "prefix", "postfix": "postfix", "selectorAware": "selector_aware"}
        return msgspec.convert({names[name]: each for name, each in given.items() if name in names}, VirtualTopic)
    holder = element.last("forwardTo")
    if holder is None or "name" not in given:
        raise element.error("expected a name, and <forwardTo> with the destinations that copies go to")
    forwards = [_forward(each) for each in holder.children if each.ours]
    return CompositeDestination(
        kind="queue" if element.name == "compositeQueue" else "topic",
        name=str(given["name"]),
        forward_to=tuple(each for each in forwards if each is not None),
        forward_only=bool(given.get("forwardOnly", True)),
        send_when_not_matched=bool(given.get("sendWhenNotMatched", False)),
    )


def _forward(element: Element) -> Forward | None:
    """Return where copies go; ``None`` for a filter without selector, which lets nothing through."""
    if element.name in _KINDS:
        return Forward(_target(element))
    if element.name != "filteredDestination":
        raise element.error("expected <queue>, <topic> or <filteredDestination>")
    to = _destination(element, named=_parsed)
    if not element.attributes.get("selector", "no").strip():
        raise element.error("expected a selector, got ''; no broker starts with an empty one")
    try:
        selector = parse_selector(element.attributes.get("selector"))
    except SelectorError as error:
        raise element.error(f"selector {error}") from error
    return None if selector is None else Forward(to, selector)


# -- plugins -------------------------------------------------------------------------------------------------------


def _installed(broker: Element) -> list[Element]:
    holder = broker.last("plugins")
    return list(holder.named(*_PLUGINS)) if holder else []


def _plugin(element: Element, *, scheduler: bool) -> plugins.Plugin:
    given = values(element)
    if element.name == "discardingDLQBrokerPlugin":
        return _made(
            element,
            plugins.Discarding,
            drop_all=bool(given.get("dropAll", True)),
            drop_temporary_topics=bool(given.get("dropTemporaryTopics", True)),
            drop_temporary_queues=bool(given.get("dropTemporaryQueues", True)),
            drop_only=str(given.get("dropOnly", "")),
        )
    if not scheduler:
        raise element.error('expected schedulerSupport="true" on the broker; without it the broker does not start')
    holder = element.last("redeliveryPolicyMap")
    policy_map = holder.last("redeliveryPolicyMap") if holder else None
    return _made(
        element,
        plugins.Redelivery,
        policies=_map(policy_map, "redeliveryPolicyEntries", "redeliveryPolicy", _redelivery_policy),
        fallback=bool(given.get("fallbackToDeadLetter", True)),
        dead_letter_when_exceeded=bool(given.get("sendToDlqIfMaxRetriesExceeded", True)),
    )


def _redelivery_policy(element: Element) -> RedeliveryPolicy:
    given = {name: value for name, value in values(element).items() if name not in ("tempQueue", "tempTopic")}
    if "queue" in given and "topic" in given:
        del given["queue"]  # the last counts
    return _struct(element, given, RedeliveryPolicy)


# -- values --------------------------------------------------------------------------------------------------------


def _flag(element: Element, given: Mapping[str, Value], name: str, *, default: bool) -> bool:
    """Return a switch that the schema takes as text, for a placeholder may be in its place."""
    text = str(given.get(name, default)).lower()  # with a blank beside it, it is neither
    if text not in ("true", "false"):
        raise element.error(f"expected true or false as {name}, got '{element.attributes[name]}'")
    return text == "true"


def _struct(element: Element, fields: Mapping[str, Value], to: type[Record]) -> Record:
    placeholders = [value for value in fields.values() if "${" in str(value)]
    if placeholders and element.filled_in:
        raise element.error(f"expected a value, got the placeholder '{placeholders[0]}'")
    try:
        return msgspec.convert({name: value for name, value in fields.items() if name != "id"}, to)
    except (msgspec.ValidationError, ValueError) as error:
        raise element.error(str(error)) from error


def _made(element: Element, kind: Callable[..., Made], **fields: object) -> Made:
    try:
        return kind(**fields)
    except ValueError as error:
        raise element.error(str(error)) from error
