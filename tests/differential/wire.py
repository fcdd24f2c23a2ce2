"""AMQP 0-9-1 on the wire, with the type of every field value kept.

A codec of the tests' own: client libraries lose the width of integers and the order of tables, and the server under
test must not be judged by its own codec. Field values are ``tests.vectors.amqp.Field``. A table that has a field twice
is a dict whose second name ends with ``AGAIN``.

Source: amqp-rabbitmq-0.9.1.json; rabbit_binary_parser.erl for the tags of field values.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from tests.vectors.amqp import Field, field

# class id, method id, name, fields in order; ``_`` is a reserved field. Bits that follow one another share an octet.
_TABLE = """
10 10 connection.start major:octet minor:octet server_properties:table mechanisms:longstr locales:longstr
10 11 connection.start-ok client_properties:table mechanism:shortstr response:longstr locale:shortstr
10 30 connection.tune channel_max:short frame_max:long heartbeat:short
10 31 connection.tune-ok channel_max:short frame_max:long heartbeat:short
10 40 connection.open vhost:shortstr _:shortstr _:bit
10 41 connection.open-ok _:shortstr
10 50 connection.close code:short text:shortstr class_id:short method_id:short
10 51 connection.close-ok
10 60 connection.blocked reason:shortstr
10 61 connection.unblocked
20 10 channel.open _:shortstr
20 11 channel.open-ok _:longstr
20 20 channel.flow active:bit
20 21 channel.flow-ok active:bit
20 40 channel.close code:short text:shortstr class_id:short method_id:short
20 41 channel.close-ok
40 10 exchange.declare _:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit no_wait:bit arguments:table
40 11 exchange.declare-ok
40 20 exchange.delete _:short exchange:shortstr if_unused:bit no_wait:bit
40 21 exchange.delete-ok
40 30 exchange.bind _:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table
40 31 exchange.bind-ok
40 40 exchange.unbind _:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table
40 51 exchange.unbind-ok
50 10 queue.declare _:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit no_wait:bit arguments:table
50 11 queue.declare-ok queue:shortstr messages:long consumers:long
50 20 queue.bind _:short queue:shortstr exchange:shortstr routing_key:shortstr no_wait:bit arguments:table
50 21 queue.bind-ok
50 30 queue.purge _:short queue:shortstr no_wait:bit
50 31 queue.purge-ok messages:long
50 40 queue.delete _:short queue:shortstr if_unused:bit if_empty:bit no_wait:bit
50 41 queue.delete-ok messages:long
50 50 queue.unbind _:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
50 51 queue.unbind-ok
60 10 basic.qos prefetch_size:long prefetch_count:short global_:bit
60 11 basic.qos-ok
60 20 basic.consume _:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit no_wait:bit arguments:table
60 21 basic.consume-ok consumer_tag:shortstr
60 30 basic.cancel consumer_tag:shortstr no_wait:bit
60 31 basic.cancel-ok consumer_tag:shortstr
60 40 basic.publish _:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
60 50 basic.return code:short text:shortstr exchange:shortstr routing_key:shortstr
60 60 basic.deliver consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
60 70 basic.get _:short queue:shortstr no_ack:bit
60 71 basic.get-ok delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr messages:long
60 72 basic.get-empty _:shortstr
60 80 basic.ack delivery_tag:longlong multiple:bit
60 90 basic.reject delivery_tag:longlong requeue:bit
60 100 basic.recover-async requeue:bit
60 110 basic.recover requeue:bit
60 111 basic.recover-ok
60 120 basic.nack delivery_tag:longlong multiple:bit requeue:bit
85 10 confirm.select no_wait:bit
85 11 confirm.select-ok
90 10 tx.select
90 11 tx.select-ok
90 20 tx.commit
90 21 tx.commit-ok
90 30 tx.rollback
90 31 tx.rollback-ok
"""  # noqa: E501

PROPERTIES = {  # name -> type, in the order of their flags from bit 15 down
    "content_type": "shortstr",
    "content_encoding": "shortstr",
    "headers": "table",
    "delivery_mode": "octet",
    "priority": "octet",
    "correlation_id": "shortstr",
    "reply_to": "shortstr",
    "expiration": "shortstr",
    "message_id": "shortstr",
    "timestamp": "longlong",
    "type": "shortstr",
    "user_id": "shortstr",
    "app_id": "shortstr",
    "cluster_id": "shortstr",
}
_NUMBERS = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}
_TAGGED = {
    **{"b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q"},
    **{"T": ">Q", "f": ">f", "d": ">d"},
}
AGAIN = " (again)"
_EMPTY = {"bit": False, "shortstr": "", "longstr": "", "table": {}}


class Method(NamedTuple):
    """A method of the protocol: its ids, and its fields as (name, type)."""

    class_id: int
    method_id: int
    name: str
    fields: tuple[tuple[str, str], ...]


def _read_table() -> list[Method]:
    found = []
    for line in _TABLE.strip().splitlines():
        class_id, method_id, name, *fields = line.split()
        pairs = tuple((given.partition(":")[0], given.partition(":")[2]) for given in fields)
        found.append(Method(int(class_id), int(method_id), name, pairs))
    return found


_METHODS = _read_table()
METHODS = {method.name: method for method in _METHODS}
_BY_ID = {(method.class_id, method.method_id): method for method in _METHODS}


def method_name(class_id: int, method_id: int) -> str:
    """``queue.declare`` for (50, 10); empty for ids that are none."""
    found = _BY_ID.get((class_id, method_id))
    return found.name if found else ""


# -- methods and properties


def encode_method(name: str, values: dict[str, Any]) -> bytes:
    """The payload of a method frame; fields not given are empty. Raises ``TypeError`` for an unknown one."""
    method = METHODS[name]
    unknown = values.keys() - {field_name for field_name, _ in method.fields}
    if unknown:
        raise TypeError(f"{name} has no field {', '.join(sorted(unknown))}")
    given = [(kind, values.get(field_name, _EMPTY.get(kind, 0))) for field_name, kind in method.fields]
    return struct.pack(">HH", method.class_id, method.method_id) + _encode_fields(given)


def _encode_fields(given: list[tuple[str, Any]]) -> bytes:
    pieces: list[bytes] = []
    bits = 0  # how many bits the last octet holds
    for kind, value in given:
        if kind != "bit":
            bits = 0
            pieces.append(_encode_plain(kind, value))
        elif bits:
            pieces[-1] = bytes([pieces[-1][0] | bool(value) << bits])
            bits += 1
        else:
            pieces.append(bytes([bool(value)]))
            bits = 1
    return b"".join(pieces)


def decode_method(payload: bytes) -> tuple[str, dict[str, Any]]:
    """The name and the fields of a method frame's payload."""
    class_id, method_id = struct.unpack_from(">HH", payload)
    method = _BY_ID[class_id, method_id]
    values = {}
    at, bits = 4, 0
    for name, kind in method.fields:
        if kind == "bit":
            at -= bits > 0  # the octet of the bit before
            values[name] = bool(payload[at] >> bits & 1)
            at, bits = at + 1, bits + 1
        else:
            bits = 0
            values[name], at = _decode_plain(kind, payload, at)
    values.pop("_", None)
    return method.name, values


def encode_properties(properties: dict[str, Any]) -> bytes:
    """The flags and the properties of a content header."""
    flags, pieces = 0, []
    for bit, (name, kind) in enumerate(PROPERTIES.items()):
        if properties.get(name) is not None:
            flags |= 1 << (15 - bit)
            pieces.append(_encode_plain(kind, properties[name]))
    return struct.pack(">H", flags) + b"".join(pieces)


def decode_properties(payload: bytes, at: int) -> dict[str, Any]:
    """The properties of a content header whose flags are at ``at``."""
    (flags,) = struct.unpack_from(">H", payload, at)
    at += 2
    found = {}
    for bit, (name, kind) in enumerate(PROPERTIES.items()):
        if flags & 1 << (15 - bit):
            found[name], at = _decode_plain(kind, payload, at)
    return found


def _encode_plain(kind: str, value: Any) -> bytes:
    match kind:
        case "shortstr":
            return _short(value)
        case "longstr":
            return _sized(_octets(value))
        case "table":
            return _sized(_encode_table(value))
    return struct.pack(_NUMBERS[kind], value)


def _decode_plain(kind: str, data: bytes, at: int) -> tuple[Any, int]:
    match kind:
        case "shortstr":
            end = at + 1 + data[at]
            return _text(data[at + 1 : end]), end
        case "longstr":
            end = at + 4 + struct.unpack_from(">I", data, at)[0]
            return _text(data[at + 4 : end]), end
        case "table":
            return _decode_table(data, at)
    return struct.unpack_from(_NUMBERS[kind], data, at)[0], at + struct.calcsize(_NUMBERS[kind])


# -- field values


def _encode_table(values: dict[str, Any]) -> bytes:
    return b"".join(_short(name.removesuffix(AGAIN)) + _encode(field(value)) for name, value in values.items())


def _encode(value: Field) -> bytes:
    tag, content = value
    match tag:
        case "V":
            body = b""
        case "t":
            body = bytes([content])
        case "S" | "x":
            body = _sized(_octets(content))
        case "A":
            body = _sized(b"".join(_encode(field(item)) for item in content))
        case "F":
            body = _sized(_encode_table(content))
        case "D":
            body = struct.pack(">BI", *content)
        case _:
            body = struct.pack(_TAGGED[tag], content)
    return tag.encode() + body


def _decode(data: bytes, at: int) -> tuple[Field, int]:
    tag = chr(data[at])
    at += 1
    if tag in _TAGGED:
        return Field(tag, struct.unpack_from(_TAGGED[tag], data, at)[0]), at + struct.calcsize(_TAGGED[tag])
    match tag:
        case "V":
            return Field(tag, None), at
        case "t":
            return Field(tag, bool(data[at])), at + 1
        case "D":
            return Field(tag, list(struct.unpack_from(">BI", data, at))), at + 5
        case "F":
            fields, at = _decode_table(data, at)
            return Field(tag, fields), at
    end = at + 4 + struct.unpack_from(">I", data, at)[0]
    at += 4
    match tag:
        case "S":
            return Field(tag, _text(data[at:end])), end
        case "x":
            return Field(tag, data[at:end]), end
        case "A":
            items = []
            while at < end:
                item, at = _decode(data, at)
                items.append(item)
            return Field(tag, items), end
    raise ValueError(f"unknown field type {tag!r}")


def _decode_table(data: bytes, at: int) -> tuple[dict[str, Field], int]:
    end = at + 4 + struct.unpack_from(">I", data, at)[0]
    at += 4
    fields = {}
    while at < end:
        start = at + 1 + data[at]
        name = _text(data[at + 1 : start])
        while name in fields:
            name += AGAIN
        fields[name], at = _decode(data, start)
    return fields, end


def _octets(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode(errors="surrogateescape")


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _sized(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def _short(text: str) -> bytes:
    body = _octets(text)
    return bytes([len(body)]) + body
