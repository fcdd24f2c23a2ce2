"""Writes the lives of messages as OpenTelemetry traces, in OTLP's JSON: a line for each message.

``MessageTrace`` has the spans of one message and the names of their attributes: those of OpenTelemetry's semantic
conventions for messaging, and our own under ``dlx.``. Who knows a life (a replay, a simulated broker) adds its spans.
The same life makes the same bytes: trace and span ids are hashes.

Source: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding,
https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/ and
https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status, TracesData

from dlx import __version__
from dlx.possible_deaths import DeathRule
from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, Settings
from simulator.rule_sources import with_origin

TRACEPARENT = "traceparent"
"""The header of a message that names the span which published it: W3C Trace Context."""
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
_IDS = ("traceId", "spanId", "parentSpanId")
_EPOCH = datetime.fromtimestamp(0, UTC)

Value = str | bool | int | float | Sequence[str] | None
Facts = Mapping[str, Value]
"""Attributes of a span by name; those that are ``None`` or empty are left out."""


class SpanContext(NamedTuple):
    """Which span it is: the ids of its trace and its own."""

    trace_id: bytes
    span_id: bytes


class Moment(NamedTuple):
    """When something happened, in microseconds since 1970, and between which moments that was; ``None``: not known."""

    at_us: int
    earliest_us: int | None
    latest_us: int | None

    @classmethod
    def exactly(cls, at_us: int) -> Moment:
        """Return a moment that is known."""
        return cls(at_us, at_us, at_us)

    def bounds(self, name: str) -> Facts:
        """Return the facts that say between which moments it was; none where it is known."""
        if self.earliest_us == self.latest_us == self.at_us:
            return {}
        return {f"dlx.{name}.earliest": _iso(self.earliest_us), f"dlx.{name}.latest": _iso(self.latest_us)}


def context_of(traceparent: object) -> SpanContext | None:
    """Return the span that a header ``traceparent`` names; ``None`` if it names none."""
    found = _TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    context = None if found is None else SpanContext(bytes.fromhex(found[1]), bytes.fromhex(found[2]))
    return context if context is not None and any(context.trace_id) and any(context.span_id) else None


class MessageTrace:
    """The trace of one message. Spans are added in the order of their ids.

    Args:
        name: what distinguishes the message from all others; its ids are made of it.
        facts: what all of its spans say.
        traceparent: the header of its first publish. The trace is then that of this span, and continues it.
        release: the RabbitMQ release whose rules are behind what no row shows.
    """

    def __init__(self, name: str, facts: Facts, traceparent: object, release: str) -> None:
        self._name = name.encode(errors="surrogatepass")
        self._remote = context_of(traceparent)
        self._creation = self._remote or SpanContext(self._hash("trace", 16), b"")
        self._release = release
        self._spans: list[Span] = []
        self._every: Facts = {"messaging.system": "rabbitmq", **facts}

    def published(
        self,
        at_us: int,
        exchange: str,
        keys: Sequence[str],
        facts: Facts,
        *,
        traceparent: object = None,
        error: str = "",
    ) -> Span:
        """Add a publish. ``traceparent``: its header, which it is linked to."""
        creation = context_of(traceparent)
        span = self._add(
            f"publish {_destination(exchange, keys)}".rstrip(),
            Moment.exactly(at_us),
            Moment.exactly(at_us),
            {
                "messaging.operation.name": "publish",
                "messaging.operation.type": "send",
                "messaging.destination.name": _destination(exchange, keys) or "amq.default",
                **_keys(keys),
                "dlx.exchange": exchange,
                **facts,
            },
            links=() if creation is None else (creation,),
            kind=Span.SPAN_KIND_INTERNAL if creation else Span.SPAN_KIND_PRODUCER,
            error=error,
        )
        if not self._creation.span_id:
            self._creation = _context(span)
        return span

    def stayed(
        self,
        queue: str,
        start: Moment,
        end: Moment,
        facts: Facts,
        *,
        previous: Span | None,
        exchange: str | None = None,
        keys: Sequence[str] = (),
    ) -> Span:
        """Add a stay in a queue, from arrival to delivery or death."""
        destination = queue if exchange is None else _destination(exchange, keys, queue)
        return self._add(
            f"queue {queue}",
            start,
            end,
            {"messaging.operation.name": "queue", "messaging.destination.name": destination, **_keys(keys)}
            | {"dlx.queue": queue, "dlx.exchange": exchange, **facts},
            links=self._links(previous),
        )

    def died(
        self,
        queue: str,
        reason: str,
        at: Moment,
        facts: Facts,
        *,
        stay: Span | None,
        error: str = "",
    ) -> Span:
        """Add a death in a queue, at the end of a stay there if that is known."""
        return self._add(
            f"dead-letter {queue}",
            at,
            at,
            {
                "messaging.operation.name": "dead-letter",
                "messaging.destination.name": queue,
                "dlx.queue": queue,
                "dlx.death.reason": reason,
                **facts,
            },
            links=self._links(stay),
            parent=stay,
            error=error,
        )

    def settled(self, queue: str, did: str, at_us: int, facts: Facts, *, stay: Span) -> Span:
        """Add what a consumer did with a delivery: ``ack``, ``reject`` or ``requeue``."""
        return self._add(
            f"{did} {queue}",
            Moment.exactly(at_us),
            Moment.exactly(at_us),
            {
                "messaging.operation.name": did,
                "messaging.operation.type": "settle",
                "messaging.destination.name": queue,
                "dlx.queue": queue,
                **facts,
            },
            links=self._links(stay),
            parent=stay,
            kind=Span.SPAN_KIND_CLIENT,
        )

    def line(self) -> bytes:
        """Return the trace as a line of OTLP's JSON, with its end of line."""
        resource = Resource(attributes=_attributes({"service.name": "rabbitmq", "dlx.release": self._release}))
        scope = ScopeSpans(scope=InstrumentationScope(name="dlx", version=__version__), spans=self._spans)
        traces = TracesData(resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])])
        document = MessageToDict(traces, use_integers_for_enums=True)
        for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for holder in (span, *span.get("links", ())):
                holder |= {name: base64.b64decode(holder[name]).hex() for name in _IDS if name in holder}
        return msgspec.json.encode(document) + b"\n"

    def _add(
        self,
        name: str,
        start: Moment,
        end: Moment,
        facts: Facts,
        *,
        links: Iterable[SpanContext] = (),
        parent: Span | None = None,
        kind: Span.SpanKind.ValueType = Span.SPAN_KIND_INTERNAL,
        error: str = "",
    ) -> Span:
        above = self._remote if not self._spans else _context(parent or self._spans[0])
        start_us = max(min(start.at_us, end.at_us), 0)  # clocks may differ by a little
        bounds = start.bounds("at") if start is end else {**start.bounds("start"), **end.bounds("end")}
        span = Span(
            trace_id=self._creation.trace_id,
            span_id=self._hash(str(len(self._spans)), 8),
            parent_span_id=b"" if above is None else above.span_id,
            name=_text(name),
            kind=kind,
            start_time_unix_nano=start_us * 1_000,
            end_time_unix_nano=max(end.at_us, start_us) * 1_000,
            attributes=_attributes({**self._every, **facts, "error.type": error, **bounds}),
            links=[Span.Link(trace_id=each.trace_id, span_id=each.span_id) for each in dict.fromkeys(links)],
            status=Status(code=Status.STATUS_CODE_ERROR, message=error) if error else None,
        )
        self._spans.append(span)
        return span

    def _links(self, previous: Span | None) -> Iterable[SpanContext]:
        """Return the context in which the message was created, and the hop before."""
        creation = (self._creation,) if self._creation.span_id else ()
        return creation if previous is None else (*creation, _context(previous))

    def _hash(self, of: str, size: int) -> bytes:
        return hashlib.blake2b(self._name + b"\0" + of.encode(), digest_size=size).digest()


def add_facts(span: Span, facts: Facts) -> None:
    """Add facts to a span that was added before."""
    span.attributes.extend(_attributes(facts))


def add_error(span: Span, error: str, facts: Facts) -> None:
    """Make an error of a span that was added before."""
    span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=error))
    add_facts(span, {"error.type": error, **facts})


def death_facts(rule: DeathRule, settings: Settings) -> Facts:
    """Return what decided a death, who set that, and the settings that decide the way of the dead letter."""
    by, values = rule.setting, settings.values
    address = [values[key] for key in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY) if key in values]
    return {
        "dlx.death.rule": rule.text,
        "dlx.death.setting": None if by is None else by.key,
        "dlx.death.setting.value": None if by is None else str(by.value),
        "dlx.death.setting.origin": None if by is None else str(by.origin),
        "dlx.death.address": list(map(with_origin, address)),
    }


def _context(span: Span) -> SpanContext:
    return SpanContext(span.trace_id, span.span_id)


def _attributes(facts: Facts) -> list[KeyValue]:
    given = ((name, value) for name, value in facts.items() if value is not None and value not in ("", (), []))
    return [KeyValue(key=name, value=_value(value)) for name, value in given]


def _value(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=_text(value))
    return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value or ()]))


def _text(text: str) -> str:
    """Return a text as UTF-8 can have it: names may hold half a character."""
    return text.encode(errors="replace").decode()


def _destination(exchange: str, keys: Sequence[str], queue: str = "") -> str:
    """Return the name that the conventions give a destination in RabbitMQ: exchange, key and the consumer's queue."""
    return ":".join(dict.fromkeys(filter(None, (exchange, *keys[:1], queue))))


def _keys(keys: Sequence[str]) -> Facts:
    return {
        "messaging.rabbitmq.destination.routing_key": keys[0] if keys else None,
        "dlx.routing_keys": list(keys) if len(keys) > 1 else None,
    }


def _iso(time_us: int | None) -> str | None:
    return None if time_us is None else (_EPOCH + timedelta(microseconds=time_us)).isoformat()
