"""The filters of a source: which of them are in force, and what they ask of a stream.

Source: rabbit_amqp_session.erl parse_filters; rabbit_amqp_filter_prop.erl parse (4.1: rabbit_amqp_filtex.erl).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import msgspec
from proton import Described, symbol, timestamp, uint, ulong

from dlx.field_values import Long, Timestamp
from dlx.message_filters import PROPERTY_NAMES, Expression, SqlError, parse_sql, plain, reference
from dlx.releases import Release
from simulator.server.amqp10.errors import SessionFault

_MOST_FIELDS = 16  # rabbit_amqp_filter_prop.erl MAX_FILTER_FIELDS
_PROPERTIES = (symbol("amqp:properties-filter"), ulong(0x173))
_APPLICATION_PROPERTIES = (symbol("amqp:application-properties-filter"), ulong(0x174))
_SQL = (symbol("amqp:sql-filter"), ulong(0x120))
_TEXTS = ("to", "subject", "reply_to", "group_id", "reply_to_group_id")
_TYPES: dict[str, type] = {
    "user_id": bytes,
    "content_type": symbol,
    "content_encoding": symbol,
    "absolute_expiry_time": timestamp,
    "creation_time": timestamp,
    "group_sequence": uint,
}


class Filters(msgspec.Struct):
    """``in_force`` is the filter set that the attach answers; ``arguments`` and ``expression`` are the consumer's."""

    in_force: dict[Any, Any] | None = None
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    expression: Expression | None = None


def read_filters(wanted: dict[Any, Any] | None, release: Release) -> Filters:
    """Return what becomes of the filter set of a source. Raises ``SessionFault`` where the server fails over it."""
    if wanted is None:
        return Filters()
    filters, kept = Filters(), dict[Any, Any]()
    for name, value in reversed(wanted.items()):  # as the server folds them, from the last
        if isinstance(name, symbol) and _take(filters, name, value, release):
            kept[name] = value
    filters.in_force = dict(reversed(kept.items())) if release.filters_found_by == "descriptor" else wanted
    return filters


def _take(filters: Filters, name: symbol, value: Any, release: Release) -> bool:
    """Let a filter be in force, if the server takes it; return whether it does."""
    if not isinstance(value, Described):
        if not (release.plain_stream_filters and name.startswith("rabbitmq:stream-")):
            return False
        value = Described(name, value)
    if release.filters_found_by == "name" and value.descriptor != name:
        return False
    arguments = dict(_stream_arguments(value, release))
    if arguments:
        filters.arguments |= arguments
        return True
    if str(value.descriptor).startswith("rabbitmq:stream-"):
        return False
    if name == "sql-filter" and release.sql_filters:
        return _take_sql(filters, value)
    return release.property_filters and _take_properties(filters, value)


def _stream_arguments(value: Described, release: Release) -> Iterator[tuple[str, Any]]:
    given = value.value
    match str(value.descriptor):
        case "rabbitmq:stream-offset-spec":
            if isinstance(given, timestamp):
                yield "x-stream-offset", Timestamp(int(given) // 1_000)
            elif isinstance(given, symbol):
                if release.stream_offset_may_be_symbol:
                    yield "x-stream-offset", str(given)
            elif isinstance(given, str):
                yield "x-stream-offset", given
            elif isinstance(given, int) and not isinstance(given, bool) and given >= 0:
                yield "x-stream-offset", Long(given)
        case "rabbitmq:stream-filter":
            if isinstance(given, list):
                yield "x-stream-filter", [text for text in given if type(text) is str]
            elif type(given) is str:
                yield "x-stream-filter", given
        case "rabbitmq:stream-match-unfiltered":
            if isinstance(given, bool):
                yield "x-stream-match-unfiltered", given


def _take_sql(filters: Filters, value: Described) -> bool:
    if filters.expression is not None:
        return False
    if type(value.value) is not str:
        raise SessionFault("amqp:internal-error", "a filter by the name of sql-filter is not a string")
    if value.descriptor not in _SQL:
        return False
    try:
        filters.expression = ("sql", parse_sql(value.value))
    except SqlError:
        return False
    return True


def _take_properties(filters: Filters, value: Described) -> bool:
    fields = value.value
    if not isinstance(fields, dict) or not 0 < len(fields) <= _MOST_FIELDS:
        return False
    try:
        if value.descriptor in _PROPERTIES:
            parsed = "properties", tuple(_property(name, wanted) for name, wanted in fields.items())
        elif value.descriptor in _APPLICATION_PROPERTIES:
            parsed = "application", tuple(_application_property(name, wanted) for name, wanted in fields.items())
        else:
            return False
    except ValueError:
        return False
    kind, *others = filters.expression or ("property",)
    if kind == "sql" or any(section == parsed[0] for section, _ in others):
        return False
    filters.expression = ("property", *others, parsed)
    return True


def _property(name: Any, wanted: Any) -> tuple[str, str, Any]:
    """Return one field of a property filter. Raises ``ValueError``."""
    field = str(name).replace("-", "_")
    if not isinstance(name, symbol) or field not in PROPERTY_NAMES:
        raise ValueError(f"expected a property, found {name!r}")
    if field in _TEXTS or (field in ("message_id", "correlation_id") and type(wanted) is str):
        if type(wanted) is not str:
            raise ValueError(f"expected text for {name}")
        return (field, *reference(wanted))
    if not isinstance(wanted, _TYPES.get(field, ulong | UUID | bytes)):
        raise ValueError(f"expected another type for {name}")
    return field, "is", plain(wanted)


def _application_property(name: Any, wanted: Any) -> tuple[str, str, Any]:
    if type(name) is not str:
        raise ValueError(f"expected the name of an application property, found {name!r}")
    return (name, *reference(wanted)) if type(wanted) is str else (name, "is", plain(wanted))
