"""Messages of AMQP 1.0: read as the broker takes them, written as a client of AMQP 1.0 gets them.

The broker knows what a client of AMQP 0-9-1 would see (properties, headers, body). Beside it, a message that came
by AMQP 1.0 keeps its sections (``dlx.message.Amqp10``), which go out as they came in.

Source: mc_amqp.erl, mc_amqpl.erl convert_to, convert_from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

import msgspec
from proton import Data, Described, char, symbol, timestamp, uint, ulong

from dlx.bounded_cache import BoundedCache
from dlx.deaths import FIRST_DEATH_HEADERS, LAST_DEATH_HEADERS, X_DEATH, X_OPT_DEATHS, Death
from dlx.erlang_printing import Atom, printed
from dlx.field_values import Binary, Long
from dlx.message import Amqp10, Message, published_expiration
from dlx.message_filters import URN_OF_UUID, is_application_property, plain
from dlx.releases import Release
from simulator.broker.replies import Delivered
from simulator.server.amqp.tables import text_or_bytes
from simulator.server.amqp10.errors import SessionFault, bad_x_cc, unparsed
from simulator.server.amqp10.frames import Codec, Header, Properties, RawText, UndecodableError, array
from simulator.server.amqp10.values import (
    NoSuchValueError,
    erlang_term,
    field_value,
    is_opaque,
    seconds_of,
    value_of,
)

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES = 0x70, 0x71, 0x72, 0x73
APPLICATION_PROPERTIES, DATA, SEQUENCE, VALUE, FOOTER = 0x74, 0x75, 0x76, 0x77, 0x78
AMQP10_TYPE = "amqp-1.0"  # the type of a message whose body is not of data sections alone

_BODY = (DATA, SEQUENCE, VALUE)
_SMALL = b"\x00\x53"  # what a section's descriptor begins with, but for rare clients
_SHORT_DATA, _LONG_DATA = b"\x00\x53\x75\xa0", b"\x00\x53\x75\xb0"
_SHORT, _SHORTSTR_MAX = 256, 255
_QUEUES = "/queues/"
_URN = "urn:uuid:"
_ENCODED = "x-amqp-1.0-"  # headers that bring a section along, as 3.13 wrote them
_RECEIVED_TIME = "x-opt-rabbitmq-received-time"
_CC = "x-cc"
_INTERNAL = frozenset({"x-routing-key", "x-exchange", X_DEATH, _CC, X_OPT_DEATHS})


class Sections(msgspec.Struct, frozen=True):
    """A message that a client sent, without its body: what the broker takes, and its ``to`` and ``subject``."""

    properties: Mapping[str, Any]
    to: str | None
    subject: str | None
    amqp10: Amqp10


class MessageCodec:
    """Reads and writes messages for one connection.

    What stands before the body is read once for all messages that have the same, and written once for all deliveries
    that look the same: the broker shares one message object among them, so its bytes are remembered by ``id()``,
    together with the message, which keeps the ``id()`` valid.
    """

    def __init__(self, release: Release, codec: Codec) -> None:
        self._release = release
        self._codec = codec
        self._read: BoundedCache[bytes, Sections] = BoundedCache()
        self._written: BoundedCache[Any, tuple[Message, bytes]] = BoundedCache()

    def read(self, encoded: bytes) -> tuple[Sections, bytes]:
        """Return a message that a client sent, and its body as the broker takes it. Raises ``LinkFault``."""
        try:
            start = self._body_start(encoded)
            head, content = encoded[:start], _only_data(encoded, start)
            if content is None:
                content, rest = self._body(encoded, start)
                found = self._sections(head, rest, data=content is not rest)
            else:
                known = self._read.get(head)
                found = self._sections(head, None, data=True) if known is None else known
                if known is None:
                    self._read[head] = found
        except (UndecodableError, IndexError) as error:
            raise unparsed(str(error)) from None
        return found, content

    def _body_start(self, encoded: bytes) -> int:
        """Return where the body starts."""
        offset = 0
        while offset < len(encoded):
            code, end = self._section_end(encoded, offset)
            if code in _BODY:
                return offset
            offset = end
        raise unparsed("missing_amqp_message_body")

    def _section_end(self, encoded: bytes, offset: int) -> tuple[int, int]:
        """Return a section's code and its end, without looking at what is in it."""
        start = offset + 3
        if encoded[offset : offset + 2] == _SMALL:
            code, kind = encoded[offset + 2], encoded[start]
            if kind in (0xC0, 0xC1, 0xA0):
                return code, start + 2 + encoded[start + 1]
            if kind in (0xD0, 0xD1, 0xB0):
                return code, start + 5 + int.from_bytes(encoded[start + 1 : start + 5])
        section, length = self._codec.decode(encoded[offset:])
        return _code(section), offset + length

    def _body(self, encoded: bytes, start: int) -> tuple[bytes, bytes]:
        """Return the body as a client of AMQP 0-9-1 gets it, and as it came: the same but for data sections."""
        rest = encoded[start:]
        if self._section_end(encoded, start)[0] != DATA:
            return rest, rest
        parts, offset = [], 0
        while offset < len(rest):
            section, length = self._codec.decode(rest[offset:])
            if _code(section) == DATA:
                parts.append(section.value)
            offset += length
        return b"".join(parts), rest

    def _sections(self, head: bytes, rest: bytes | None, *, data: bool) -> Sections:
        """Return what stands before the body. Raises ``LinkFault``."""
        header, annotations, properties = Header(), dict[Any, Any](), Properties()
        application, bare_from, offset = dict[Any, Any](), len(head), 0
        while offset < len(head):
            section, length = self._codec.decode(head[offset:])
            code = _code(section)
            if code == HEADER:
                header = section
            elif code in (DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS):
                _check_annotations(section.value)
                if code == MESSAGE_ANNOTATIONS:
                    annotations = section.value
            else:
                bare_from = min(bare_from, offset)
                if code == PROPERTIES:
                    properties = section
                elif code == APPLICATION_PROPERTIES:
                    application = section.value
            offset += length
        cc = _cc(annotations) if self._release.amqp10_x_cc else ()
        basic = _basic_properties(header, annotations, properties, self._release)
        if not data:
            basic["type"] = AMQP10_TYPE
        headers, readable = self._headers(annotations, properties, application, basic)
        if headers:
            basic["headers"] = headers
        amqp10 = Amqp10(
            annotations=self._codec.encode(annotations) if annotations else b"",
            head=head[bare_from:],
            rest=rest,
            cc=cc,
            routing_headers=_routing_headers(annotations, application),
            readable=readable,
            properties={name: plain(value) for name, value in msgspec.structs.asdict(properties).items()},
            application_properties={str(name): plain(value) for name, value in application.items()},
        )
        return Sections(basic, properties.to, properties.subject, amqp10)

    def _headers(
        self,
        annotations: Mapping[Any, Any],
        properties: Properties,
        application: Mapping[Any, Any],
        basic: dict[str, Any],
    ) -> tuple[dict[str, Any], bool]:
        """Return the headers for AMQP 0-9-1, and whether the server can write them; set the ids in ``basic``."""
        headers: dict[str, Any] = {}
        readable = all(len(basic.get(name, "")) <= _SHORTSTR_MAX for name in ("content_type", "content_encoding"))
        opaque_fails = self._release.amqp10_opaque_values == "end the connection"
        shown = [(str(key), value) for key, value in application.items() if type(key) is str]
        ids = {"message_id": properties.message_id, "correlation_id": properties.correlation_id}
        for name, value in ids.items():
            readable &= _set_id(name, value, basic, headers)
        ids_shown, headers = headers, {}
        for name, value in shown:
            readable &= _put(headers, name, value, opaque_fails)
        headers |= ids_shown
        for key, value in annotations.items():
            name = str(key)
            if name == _RECEIVED_TIME and isinstance(value, timestamp):
                headers["timestamp_in_ms"] = Long(value)
            elif name == _CC:
                readable &= _put(headers, "CC", value, opaque_fails)
            elif name not in _INTERNAL and not name.startswith("x-basic-"):
                readable &= _put(headers, name, value, opaque_fails)
        return headers, readable

    def write(self, reply: Delivered) -> bytes:
        """Return a delivery's message as its sections. Raises ``NoSuchValueError``."""
        message, added = reply.message, reply.added
        key = (id(message), reply.redelivered, reply.failed, *(added.items() if added else ()))
        found = self._written.get(key)
        if found is None:
            found = self._written[key] = message, self._head(reply)
        sent = message.amqp10
        if sent is not None and sent.rest is not None:
            return found[1] + sent.rest
        as_it_is = sent is None and message.properties.get("type") == AMQP10_TYPE
        body = found[1] + (reply.body if as_it_is else _data(reply.body))
        footer = None if sent is not None else self._brought(message, "footer")
        return body if footer is None else body + self._codec.encode(footer)

    def _head(self, reply: Delivered) -> bytes:
        """Return what stands before the body."""
        message, sent = reply.message, reply.message.amqp10
        failed = message.delivery_count if reply.failed is None else reply.failed
        expiration = message.expiration if sent is not None else published_expiration(message)
        priority = message.properties.get("priority")
        header = Header(
            durable=message.properties.get("delivery_mode") == 2,
            priority=None if priority is None else priority & 0xFF,
            ttl=None if expiration is None else int(expiration),
            first_acquirer=not reply.redelivered and not failed and message.deaths is None,
            delivery_count=failed or 0,
        )
        annotations: dict[Any, Any] = {}
        if sent is None:
            brought = self._brought(message, "message-annotations")
            annotations = _annotations(message) if brought is None else brought.value
        elif sent.annotations:
            annotations = self._codec.decode(sent.annotations)[0]
        annotations |= _broker_annotations(message)
        annotations |= {symbol(name): int(value) for name, value in (reply.added or {}).items()}
        sections = self._codec.encode(header) + self._section(MESSAGE_ANNOTATIONS, annotations)
        return sections + (self._bare_head(message) if sent is None else sent.head)

    def _bare_head(self, message: Message) -> bytes:
        """Return properties and application-properties of a message that came by AMQP 0-9-1."""
        properties = self._brought(message, "properties") or _properties(message, self._release)
        brought = self._brought(message, "app-properties")
        application = _application_properties(message) if brought is None else brought.value
        encoded = b"" if properties == Properties() else self._codec.encode(properties)
        return encoded + self._section(APPLICATION_PROPERTIES, application) if application else encoded

    def _brought(self, message: Message, name: str) -> Any:
        """Return the section that a header brings along; ``None`` without one."""
        encoded = _own_headers(message).get(_ENCODED + name)
        if not isinstance(encoded, (str, bytes)):
            return None
        return self._codec.decode(encoded.encode() if isinstance(encoded, str) else bytes(encoded))[0]

    def annotations(self, modified: Mapping[Any, Any] | None) -> dict[str, Any]:
        """Return the annotations of the outcome modified as headers. Raises ``SessionFault`` for other names."""
        for key in modified or ():
            if not (isinstance(key, symbol) and key.startswith("x-")):
                raise SessionFault("amqp:internal-error", "function_clause")
        return {str(key): field_value(_untyped(value)) for key, value in (modified or {}).items()}

    def _section(self, code: int, value: Any) -> bytes:
        return self._codec.encode(Described(ulong(code), value))


def _untyped(value: Any) -> Any:
    """Return an annotation of an outcome as the server keeps it: some types it takes for a number or a text."""
    if isinstance(value, char):
        return ord(value)
    if isinstance(value, timestamp):
        return int(value)
    return value.bytes if isinstance(value, UUID) else value


# Sections


def _code(section: Any) -> int:
    if isinstance(section, Described):
        descriptor: Any = section.descriptor
        return _CODES.get(descriptor, 0) or int(descriptor)
    return section.CODE if isinstance(section, (Header, Properties)) else 0


_CODES: dict[Any, int] = {
    symbol(f"amqp:{name}"): code
    for name, code in {
        "delivery-annotations:map": DELIVERY_ANNOTATIONS,
        "message-annotations:map": MESSAGE_ANNOTATIONS,
        "application-properties:map": APPLICATION_PROPERTIES,
        "data:binary": DATA,
        "amqp-sequence:list": SEQUENCE,
        "amqp-value:*": VALUE,
        "footer:map": FOOTER,
    }.items()
}


def _only_data(encoded: bytes, start: int) -> bytes | None:
    """Return the content of a body that is one data section, as most servers and clients encode it, and no footer."""
    size = len(encoded) - start
    if encoded[start : start + 4] == _SHORT_DATA and size == 5 + encoded[start + 4]:
        return encoded[start + 5 :]
    if encoded[start : start + 4] == _LONG_DATA and size >= 8 + _SHORT:
        length = int.from_bytes(encoded[start + 4 : start + 8])
        return encoded[start + 8 :] if size == 8 + length else None
    return None


def _data(body: bytes) -> bytes:
    """Return a body as one data section."""
    size = len(body)
    return (_SHORT_DATA + bytes((size,)) if size < _SHORT else _LONG_DATA + size.to_bytes(4)) + body


def _check_annotations(annotations: Mapping[Any, Any]) -> None:
    for key in annotations:
        if not (isinstance(key, symbol) and key.startswith("x-")):
            raise unparsed(printed((Atom("reserved_annotation_key"), erlang_term(key))))


def _cc(annotations: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the keys of ``x-cc``. Raises ``LinkFault`` where it is no list of texts."""
    keys = annotations.get(_CC, [])
    if type(keys) is not list or any(type(key) is not str for key in keys):
        raise bad_x_cc(printed(erlang_term(keys)))
    return tuple(keys)


# From AMQP 1.0 to AMQP 0-9-1


def _basic_properties(
    header: Header, annotations: Mapping[Any, Any], properties: Properties, release: Release
) -> dict[str, Any]:
    """Return the properties that a client of AMQP 0-9-1 sees, without ids and headers.

    A message that is not persistent has no delivery mode there.
    """
    durable, mode = header.durable, annotations.get("x-basic-delivery-mode")
    if durable is None:
        durable = mode != 1 if release.amqp10_durable_default else mode == 2
    priority = header.priority if header.priority is not None else annotations.get("x-basic-priority")
    ttl = header.ttl if header.ttl is not None else annotations.get("x-basic-expiration")
    user = None if properties.user_id is None else text_or_bytes(bytes(properties.user_id))
    found = {
        "delivery_mode": 2 if durable else mode,
        "priority": None if priority is None else int(priority),
        "expiration": None if ttl is None else str(int(ttl)),
        "type": annotations.get("x-basic-type"),
        "user_id": user if isinstance(user, str) and len(user.encode()) <= _SHORTSTR_MAX and "\0" not in user else None,
        "reply_to": _reply_to(properties.reply_to, release),
        "app_id": _short(properties.group_id),
        "content_type": _plain(properties.content_type),
        "content_encoding": _plain(properties.content_encoding),
        "timestamp": None if properties.creation_time is None else seconds_of(properties.creation_time),
    }
    return {name: value for name, value in found.items() if value is not None}


def _plain(text: str | None) -> str | None:
    return None if text is None else str(text)


def _short(text: str | None) -> str | None:
    return text if text is not None and len(text.encode()) <= _SHORTSTR_MAX else None


def _reply_to(address: str | None, release: Release) -> str | None:
    short = _short(address)
    if short is not None and release.amqp10_reply_to == "an address" and short.startswith(_QUEUES):
        return unquote(short.removeprefix(_QUEUES))
    return short


def _set_id(name: str, value: Any, basic: dict[str, Any], headers: dict[str, Any]) -> bool:
    """Set an id as a property, or as a header where it is none; return whether the server can."""
    header = "x-" + name.replace("_", "-")
    if value is None:
        return True
    if isinstance(value, UUID):
        basic[name] = f"{_URN}{value}"
    elif isinstance(value, ulong):
        basic[name] = str(int(value))
    elif isinstance(value, bytes):
        headers[header] = Binary(value)
    elif type(value) is str:
        if len(value.encode()) <= _SHORTSTR_MAX:
            basic[name] = value
        else:
            headers[header] = value
    else:
        return False
    return True


def _routing_headers(annotations: Mapping[Any, Any], application: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what an exchange of type headers sees: neither lists and tables nor what AMQP 0-9-1 has otherwise."""
    found = {key: _simple(value) for key, value in application.items() if type(key) is str}
    found |= {str(key): _simple(value) for key, value in annotations.items() if value is not None}
    return {key: value for key, value in found.items() if value is not _NOT_SIMPLE}


_NOT_SIMPLE: Any = object()


def _simple(value: Any) -> Any:
    if isinstance(value, char):
        return ord(value)
    if isinstance(value, (bytes, UUID)):
        return text_or_bytes(value.bytes if isinstance(value, UUID) else value)
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, (int, float)) or is_opaque(value):
        return _NOT_SIMPLE
    return int(value) if isinstance(value, int) else float(value)


def _put(headers: dict[str, Any], name: str, value: Any, opaque_fails: bool) -> bool:
    """Set a header, unless its name is too long or the server leaves it out; return whether the server can."""
    if len(name.encode()) > _SHORTSTR_MAX:
        return True
    if is_opaque(value):
        return not opaque_fails
    try:
        headers[name] = field_value(value)
    except NoSuchValueError:
        return False
    return True


# From AMQP 0-9-1 to AMQP 1.0


def _own_headers(message: Message) -> Mapping[str, Any]:
    """Return the headers as their publisher sent them."""
    return (message.headers if message.headers_sent is None else message.headers_sent) or {}


def _application_properties(message: Message) -> dict[str, Any]:
    return {
        name: value_of(field) for name, field in _own_headers(message).items() if is_application_property(name, field)
    }


def _properties(message: Message, release: Release) -> Properties:
    basic = message.properties
    user, replies, time_s = basic.get("user_id"), basic.get("reply_to"), basic.get("timestamp")
    if replies is not None and release.amqp10_reply_to == "an address":
        replies = _QUEUES + quote(replies, safe="")
    return Properties(
        message_id=_id(basic.get("message_id")),
        user_id=None if user is None else user.encode(errors="surrogateescape"),
        reply_to=replies,
        correlation_id=_id(basic.get("correlation_id")),
        content_type=basic.get("content_type"),
        content_encoding=basic.get("content_encoding"),
        creation_time=None if time_s is None else timestamp(time_s * 1_000),
        group_id=basic.get("app_id"),
    )


def _id(text: str | None) -> str | UUID | None:
    if text is None or not text.startswith(_URN) or len(text) != len(_URN) + 36:
        return text
    if URN_OF_UUID.fullmatch(text) is None:
        raise NoSuchValueError(f"no UUID: {text}")
    return UUID(text.removeprefix(_URN))


def _annotations(message: Message) -> dict[Any, Any]:
    """Return the message annotations that stand for headers and the type."""
    found: dict[Any, Any] = {}
    kind = message.properties.get("type")
    if kind is not None:
        found[symbol("x-basic-type")] = kind
    for name, field in _own_headers(message).items():
        if name.startswith("x-"):
            found[symbol(name)] = value_of(field)
        elif name == "CC":
            found[symbol(_CC)] = value_of(field)
    return found


def _broker_annotations(message: Message) -> dict[Any, Any]:
    """Return the message annotations that the broker adds to every message: its address and its deaths."""
    found: dict[Any, Any] = {
        symbol("x-exchange"): message.exchange,
        symbol("x-routing-key"): message.routing_key,
    }
    for point, names in ((message.first_death, FIRST_DEATH_HEADERS), (message.last_death, LAST_DEATH_HEADERS)):
        if point is not None:
            found |= {symbol(name): value for name, value in point.as_headers(names).items()}
    found |= {symbol(name): _added(value) for name, value in (message.annotations or {}).items()}
    if message.deaths is not None:
        found[symbol(X_OPT_DEATHS)] = array(Data.MAP, map(_death, message.deaths))
    return found


def _added(value: Any) -> Any:
    """Return an annotation of the outcome modified as a server sends it: bytes as a string, whatever they are."""
    if isinstance(value, bytes):
        return RawText(value.decode(errors="surrogateescape"))
    return RawText(value) if isinstance(value, str) else _annotation(value)


def _annotation(value: Any) -> Any:
    """Return what is in such an annotation; the keys of maps are strings."""
    if isinstance(value, Mapping):
        return {name: _annotation(each) for name, each in value.items()}
    return [_annotation(each) for each in value] if isinstance(value, list) else value_of(value)


def _death(death: Death) -> dict[Any, Any]:
    last_time_s = death.time_s if death.last_time_s is None else death.last_time_s
    found: dict[str, Any] = {} if death.original_expiration is None else {"ttl": uint(int(death.original_expiration))}
    found |= {
        "queue": death.queue,
        "reason": symbol(death.reason),
        "count": ulong(death.count),
        "first-time": timestamp(death.time_s * 1_000),
        "last-time": timestamp(last_time_s * 1_000),
        "exchange": death.exchange,
        "routing-keys": array(Data.STRING, death.routing_keys),
    }
    return {symbol(name): value for name, value in found.items()}
