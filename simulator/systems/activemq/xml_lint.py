"""Lints an ``activemq.xml``: what loses messages there, each with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from simulator.systems.activemq.activemq_xml import (
    broker_element,
    broker_settings,
    plugins_with_places,
    policies_with_places,
)
from simulator.systems.activemq.lint import (
    ANY_QUEUE,
    ANY_TOPIC,
    Doubt,
    Severity,
    broker_doubts,
    plugin_doubts,
    strategy_doubts,
    undefined_doubts,
)
from simulator.systems.activemq.settings import BrokerSettings
from simulator.systems.activemq.xml_elements import Element, parse
from simulator.systems.activemq.xml_schemas import check_schemas


class Found(msgspec.Struct, frozen=True):
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
    """

    findings: tuple[Found, ...]
    policies: int
    not_simulated: tuple[str, ...]


def lint(text: str | bytes) -> LintedConfiguration:
    """Lint an ``activemq.xml``, a whole one. Raises ``ConfigurationError`` for one that no broker starts with."""
    settings, broker = broker_settings(text), broker_element(text)
    check_schemas(parse(text))
    found = dict.fromkeys(_findings(broker, settings))
    policies = sum(1 for _ in policies_with_places(broker, settings))
    return LintedConfiguration(
        tuple(sorted(found, key=lambda each: (each.line, each.column))), policies, settings.not_simulated
    )


def _findings(broker: Element, settings: BrokerSettings) -> Iterator[Found]:
    yield from _at(broker, broker_doubts(settings))
    for element, keys, policy in policies_with_places(broker, settings):
        yield from _at(element, undefined_doubts(keys, settings))
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


def _at(element: Element, doubts: Iterable[Doubt]) -> Iterator[Found]:
    for each in doubts:
        yield Found(element.line, element.column, each.severity, each.text, each.fix)
