"""The dead-letter part of ``activemq.xml``: destinationPolicy and the two plugins.

Other elements and attributes are passed over. The file is not trusted: documents
with a DTD, entities or external references are refused, and so are very large or
very deep ones.
"""

from __future__ import annotations

import xml.sax.handler
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from xml.sax import SAXException, SAXParseException
from xml.sax.xmlreader import AttributesImpl, Locator

import msgspec

from dlx.activemq import plugins
from dlx.activemq.dead_letter_strategies import Discarding, Individual, Shared, Strategy
from dlx.activemq.destination_map import DestinationMap, Entry, entries
from dlx.activemq.destinations import Destination, parse_destination
from dlx.activemq.redelivery_policy import RedeliveryPolicy
from dlx.activemq.settings import EXPIRE_PERIOD_MS, BrokerSettings, DestinationPolicy

BYTES_MAX = 1_000_000
DEPTH_MAX = 50
Record = TypeVar("Record", bound=msgspec.Struct)
Value = TypeVar("Value")

_STRATEGIES: dict[str, type[Shared | Individual | Discarding]] = {
    "sharedDeadLetterStrategy": Shared,
    "individualDeadLetterStrategy": Individual,
    "discarding": Discarding,
    "discardingDeadLetterStrategy": Discarding,
}
_KINDS = {"queue": "queue", "topic": "topic", "tempQueue": "temp-queue", "tempTopic": "temp-topic"}
# What Spring's beans may carry anywhere, and says nothing about dead letters.
_ANYWHERE = frozenset({"id", "name", "xmlns", "class"})


class ConfigurationError(ValueError):
    """An ``activemq.xml`` that cannot be read; the text begins with the line."""


class Element:
    """One element, with the line it is on."""

    def __init__(self, name: str, attributes: dict[str, str], line: int) -> None:
        self.name, self.attributes, self.line = name, attributes, line
        self.children: list[Element] = []

    def named(self, *names: str) -> Iterator[Element]:
        """Return the children with these names."""
        return (child for child in self.children if child.name in names)

    def everywhere(self, name: str) -> Iterator[Element]:
        """Yield every element of that name: this one, and those at any depth below it."""
        if self.name == name:
            yield self
        for child in self.children:
            yield from child.everywhere(name)

    def error(self, problem: str) -> ConfigurationError:
        """Return the error for a problem with this element, with its line and name."""
        return ConfigurationError(f"line {self.line}, <{self.name}>: {problem}")


def broker_settings(text: str | bytes) -> BrokerSettings:
    """Read an ``activemq.xml``. Raises ``ConfigurationError`` with the line and what would be right."""
    root = _parse(text)
    brokers = list(root.everywhere("broker"))
    if len(brokers) != 1:
        raise ConfigurationError(f"line {root.line}: expected one <broker>, found {len(brokers)}")
    broker = brokers[0]
    return BrokerSettings(
        policies=_policies(broker),
        plugins=tuple(
            _plugin(each, broker)
            for part in broker.named("plugins")
            for each in part.named("redeliveryPlugin", "discardingDLQBrokerPlugin")
        ),
    )


# -- policies ------------------------------------------------------------------------------------------------------


def _policies(broker: Element) -> DestinationMap[DestinationPolicy]:
    found: list[Entry[DestinationPolicy]] = []
    default: DestinationPolicy | None = None
    for part in broker.named("destinationPolicy"):
        for policy_map in part.named("policyMap"):
            for listed in policy_map.named("policyEntries"):
                for element in listed.named("policyEntry"):
                    found += entries(_destination(element), _policy(element))
            for holder in policy_map.named("defaultEntry"):
                for element in holder.named("policyEntry"):
                    default = _policy(element)
    return DestinationMap(tuple(found), default)


def _policy(element: Element) -> DestinationPolicy:
    strategies = [_strategy(each) for holder in element.named("deadLetterStrategy") for each in holder.children]
    if len(strategies) > 1:
        raise element.error("expected one dead letter strategy")
    period = element.attributes.get("expireMessagesPeriod", str(EXPIRE_PERIOD_MS))
    return DestinationPolicy(
        strategy=strategies[0] if strategies else None,
        expire_period_ms=_read(element, period, int, "expireMessagesPeriod"),
    )


def _destination(element: Element) -> Destination:
    """Return the destination that an entry is for. ``tempQueue`` and ``tempTopic`` are switches for all of them."""
    given = [(kind, element.attributes[kind]) for kind in _KINDS if kind in element.attributes]
    if len(given) != 1:
        raise element.error(f"expected one of {', '.join(_KINDS)}, which the entry is for")
    kind, name = given[0]
    return _parse_destination(element, ">" if kind.startswith("temp") else name, _KINDS[kind])


def _strategy(element: Element) -> Strategy:
    kind = _STRATEGIES.get(element.name)
    if kind is None:
        raise element.error(f"expected one of {', '.join(f'<{name}>' for name in _STRATEGIES)}")
    fields: dict[str, str] = {name: value for name, value in element.attributes.items() if name not in _ANYWHERE}
    for holder in element.named("deadLetterQueue"):
        for target in holder.named("queue", "topic"):
            name = target.attributes.get("physicalName")
            if name is None:
                raise target.error("expected a physicalName")
            fields["deadLetterQueue"] = f"{target.name}://{name}"
    return _struct(element, fields, kind)


# -- plugins -------------------------------------------------------------------------------------------------------


def _plugin(element: Element, broker: Element) -> plugins.Plugin:
    if element.name == "discardingDLQBrokerPlugin":
        return _made(
            element,
            plugins.Discarding,
            drop_all=_flag(element, "dropAll"),
            drop_temporary_topics=_flag(element, "dropTemporaryTopics"),
            drop_temporary_queues=_flag(element, "dropTemporaryQueues"),
            drop_only=element.attributes.get("dropOnly", ""),
        )
    if not _flag(broker, "schedulerSupport", default=False):
        raise element.error('expected schedulerSupport="true" on the broker; without it the broker does not start')
    return _made(
        element,
        plugins.Redelivery,
        policies=_redelivery_policies(element),
        fallback=_flag(element, "fallbackToDeadLetter"),
        dead_letter_when_exceeded=_flag(element, "sendToDlqIfMaxRetriesExceeded"),
    )


def _redelivery_policies(plugin: Element) -> DestinationMap[RedeliveryPolicy]:
    found: list[Entry[RedeliveryPolicy]] = []
    default: RedeliveryPolicy | None = None
    for property_ in plugin.named("redeliveryPolicyMap"):
        for policy_map in property_.named("redeliveryPolicyMap"):
            for listed in policy_map.named("redeliveryPolicyEntries"):
                for element in listed.named("redeliveryPolicy"):
                    found += entries(_destination(element), _redelivery_policy(element))
            for holder in policy_map.named("defaultEntry"):
                for element in holder.named("redeliveryPolicy"):
                    default = _redelivery_policy(element)
    return DestinationMap(tuple(found), default)


def _redelivery_policy(element: Element) -> RedeliveryPolicy:
    fields = {name: value for name, value in element.attributes.items() if name not in _ANYWHERE}
    return _struct(element, fields, RedeliveryPolicy)


# -- values --------------------------------------------------------------------------------------------------------


def _flag(element: Element, name: str, *, default: bool = True) -> bool:
    return bool(_read(element, element.attributes.get(name, str(default).lower()), bool, name))


def _read(element: Element, value: str, to: type, name: str) -> Any:
    try:
        return msgspec.convert(value.strip(), to, strict=False)
    except msgspec.ValidationError as error:
        expected = "true or false" if to is bool else "a whole number"
        raise element.error(f"expected {expected} as {name}, got '{value}'") from error


def _struct(element: Element, fields: dict[str, str], to: type[Record]) -> Record:
    """Build a value from attributes. Raises ``ConfigurationError`` for one that it does not have."""
    known = {field.encode_name for field in msgspec.structs.fields(to)}
    for name, value in fields.items():
        if name not in known:
            raise element.error(f"expected one of {', '.join(sorted(known))}, got '{name}'")
        if "${" in value:
            raise element.error(f"expected a value as {name}, got the placeholder '{value}'")
    try:
        return msgspec.convert(fields, to, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise element.error(str(error)) from error


def _made(element: Element, kind: Callable[..., Value], **fields: Any) -> Value:
    try:
        return kind(**fields)
    except ValueError as error:
        raise element.error(str(error)) from error


def _parse_destination(element: Element, name: str, kind: Any) -> Destination:
    if "${" in name:
        raise element.error(f"expected the name of a destination, got the placeholder '{name}'")
    try:
        return parse_destination(name, kind)
    except ValueError as error:
        raise element.error(str(error)) from error


# -- XML -----------------------------------------------------------------------------------------------------------


class _Builder(xml.sax.handler.ContentHandler):
    """Builds the elements. Prefixes of names are dropped: ``amq:broker`` is ``broker``."""

    def __init__(self) -> None:
        super().__init__()
        self.root: Element | None = None
        self._open: list[Element] = []
        self._locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:
        """Keep the locator, which knows the lines."""
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        """Begin an element."""
        line = 0 if self._locator is None else self._locator.getLineNumber() or 0
        element = Element(name.rpartition(":")[2], dict(attrs.items()), line)
        if len(self._open) >= DEPTH_MAX:
            raise element.error(f"expected at most {DEPTH_MAX} elements inside each other")
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElement(self, name: str) -> None:
        """End an element."""
        self._open.pop()


def _parse(text: str | bytes) -> Element:
    # Imported here: only brokers that are described by a file need it.
    import defusedxml.sax  # type: ignore[import-untyped]
    from defusedxml.common import DefusedXmlException  # type: ignore[import-untyped]

    content = text.encode() if isinstance(text, str) else text
    if len(content) > BYTES_MAX:
        raise ConfigurationError(f"line 1: expected at most {BYTES_MAX:,} bytes, got {len(content):,}")
    builder = _Builder()
    try:
        defusedxml.sax.parseString(content, builder, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ConfigurationError(
            f"line 1: expected a document without DTD, entities and external references: {type(error).__name__}"
        ) from error
    except SAXParseException as error:
        raise ConfigurationError(f"line {error.getLineNumber()}: not well-formed XML: {error.getMessage()}") from error
    except SAXException as error:
        raise ConfigurationError(f"line 1: not XML: {error}") from error
    if builder.root is None:
        raise ConfigurationError("line 1: expected an element")
    return builder.root
