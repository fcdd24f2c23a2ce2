"""Frames and performatives of AMQP 1.0, to and from bytes.

Source: OASIS AMQP 1.0, parts 1 (types), 2 (transport), 3 (messaging) and 5 (security).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, ClassVar

import msgspec
from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, uint, ulong, ushort

HEADER = Struct(">IBBH")  # size, data offset in words, kind, channel
AMQP, SASL = 0, 1
EMPTY_FRAME = HEADER.pack(8, 2, AMQP, 0)  # which is a heartbeat

Type = Any
_AS_IT_IS = None


class UndecodableError(ValueError):
    """Bytes that are not a value of AMQP 1.0."""


class RawText(str):
    """A string of any bytes: surrogate escape keeps those that are not UTF-8, and they go out as they were."""

    def encode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> bytes:
        return super().encode(encoding, errors)


class _Values(Data):
    """Proton's codec, with binary as bytes."""

    get_mappings: dict[int, Any] = {**Data.get_mappings, Data.BINARY: lambda data: bytes(data.get_binary())}  # noqa: RUF012
    put_mappings: dict[type, Any] = {**Data.put_mappings, RawText: Data.put_string}  # noqa: RUF012


class Codec:
    """Encodes and decodes values of AMQP 1.0 as Proton's Python types. One thread uses it at a time."""

    def __init__(self) -> None:
        self._data = _Values()

    def encode(self, value: Any) -> bytes:
        """Return a value as bytes; a ``Composite`` becomes a described list."""
        data = self._data
        data.clear()
        data.put_object(_described(value))
        return bytes(data.encode())

    def decode(self, encoded: bytes) -> tuple[Any, int]:
        """Return the value at the start of the bytes, and its length. Raises ``UndecodableError``."""
        data = self._data
        data.clear()
        try:
            length = data.decode(encoded)
            data.rewind()
            data.next()
            return _composed(data.get_object()), length
        except Exception as error:  # Proton raises its own and those of Python's codecs
            raise UndecodableError(str(error)) from error


class Composite(msgspec.Struct, kw_only=True):
    """A described list: ``CODE`` is its descriptor, ``TYPES`` have the type of each field, in the fields' order."""

    CODE: ClassVar[int] = 0
    TYPES: ClassVar[tuple[Type, ...]] = ()


def _described(value: Any) -> Any:
    """Return a value as Proton knows it."""
    if not isinstance(value, Composite):
        return value
    fields: list[Any] = []
    for name, kind in zip(value.__struct_fields__, value.TYPES, strict=True):
        field = getattr(value, name)
        fields.append(field if field is None or kind is None else kind(field))
    while fields and fields[-1] is None:
        fields.pop()
    return Described(ulong(value.CODE), [_described(field) for field in fields])


def _composed(value: Any) -> Any:
    """Return a value of Proton with its descriptions as composites, and its binary as bytes."""
    if isinstance(value, Described):
        kind = _COMPOSITES.get(value.descriptor)
        inner = _composed(value.value)
        if kind is None or not isinstance(inner, list) or len(inner) > len(kind.__struct_fields__):
            return Described(value.descriptor, inner)
        return kind(**dict(zip(kind.__struct_fields__, inner, strict=False)))
    if type(value) is list:
        return [_composed(item) for item in value]
    if type(value) is dict:
        return {key: _composed(item) for key, item in value.items()}
    return value


# Performatives


class Open(Composite):
    CODE, TYPES = 0x10, (str, str, uint, ushort, uint, None, None, None, None, None)
    container_id: str | None = None
    hostname: str | None = None
    max_frame_size: int | None = None
    channel_max: int | None = None
    idle_time_out: int | None = None
    outgoing_locales: Any = None
    incoming_locales: Any = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


class Begin(Composite):
    CODE, TYPES = 0x11, (ushort, uint, uint, uint, uint, None, None, None)
    remote_channel: int | None = None
    next_outgoing_id: int | None = None
    incoming_window: int | None = None
    outgoing_window: int | None = None
    handle_max: int | None = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


class Attach(Composite):
    CODE, TYPES = 0x12, (str, uint, None, ubyte, ubyte, None, None, None, None, uint, ulong, None, None, None)
    name: str | None = None
    handle: int | None = None
    role: bool | None = None
    snd_settle_mode: int | None = None
    rcv_settle_mode: int | None = None
    source: Any = None
    target: Any = None
    unsettled: Any = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


class Flow(Composite):
    CODE, TYPES = 0x13, (uint, uint, uint, uint, uint, uint, uint, uint, None, None, None)
    next_incoming_id: int | None = None
    incoming_window: int | None = None
    next_outgoing_id: int | None = None
    outgoing_window: int | None = None
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: dict[Any, Any] | None = None


class Transfer(Composite):
    CODE, TYPES = 0x14, (uint, uint, None, uint, None, None, ubyte, None, None, None, None)
    handle: int | None = None
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: int | None = None
    state: Any = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


class Disposition(Composite):
    CODE, TYPES = 0x15, (None, uint, uint, None, None, None)
    role: bool | None = None
    first: int | None = None
    last: int | None = None
    settled: bool | None = None
    state: Any = None
    batchable: bool | None = None


class Detach(Composite):
    CODE, TYPES = 0x16, (uint, None, None)
    handle: int | None = None
    closed: bool | None = None
    error: Any = None


class End(Composite):
    CODE, TYPES = 0x17, (None,)
    error: Any = None


class Close(Composite):
    CODE, TYPES = 0x18, (None,)
    error: Any = None


class Error(Composite):
    CODE, TYPES = 0x1D, (symbol, str, None)
    condition: str | None = None
    description: str | None = None
    info: dict[Any, Any] | None = None


# Delivery states


class Received(Composite):
    CODE, TYPES = 0x23, (uint, ulong)
    section_number: int | None = None
    section_offset: int | None = None


class Accepted(Composite):
    CODE, TYPES = 0x24, ()


class Rejected(Composite):
    CODE, TYPES = 0x25, (None,)
    error: Any = None


class Released(Composite):
    CODE, TYPES = 0x26, ()


class Modified(Composite):
    CODE, TYPES = 0x27, (None, None, None)
    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: dict[Any, Any] | None = None


# Termini


class Source(Composite):
    CODE, TYPES = 0x28, (str, uint, symbol, uint, None, None, symbol, None, None, None, None)
    address: str | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Any, Any] | None = None
    distribution_mode: str | None = None
    filter: dict[Any, Any] | None = None
    default_outcome: Any = None
    outcomes: Any = None
    capabilities: Any = None


class Target(Composite):
    CODE, TYPES = 0x29, (str, uint, symbol, uint, None, None, None)
    address: str | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Any, Any] | None = None
    capabilities: Any = None


# SASL


class SaslMechanisms(Composite):
    CODE, TYPES = 0x40, (None,)
    sasl_server_mechanisms: Any = None


class SaslInit(Composite):
    CODE, TYPES = 0x41, (symbol, None, str)
    mechanism: str | None = None
    initial_response: bytes | None = None
    hostname: str | None = None


class SaslOutcome(Composite):
    CODE, TYPES = 0x44, (ubyte, None)
    code: int | None = None
    additional_data: bytes | None = None


# Sections of a message


class Header(Composite):
    CODE, TYPES = 0x70, (None, ubyte, uint, None, uint)
    durable: bool | None = None
    priority: int | None = None
    ttl: int | None = None
    first_acquirer: bool | None = None
    delivery_count: int | None = None


class Properties(Composite):
    CODE, TYPES = 0x73, (None, None, str, str, str, None, symbol, symbol, None, None, str, uint, str)
    message_id: Any = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: Any = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: Any = None
    creation_time: Any = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


_PERFORMATIVES: tuple[type[Composite], ...] = (Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close)
_OTHERS: tuple[type[Composite], ...] = (
    Error, Received, Accepted, Rejected, Released, Modified, Source, Target, SaslMechanisms, SaslInit, SaslOutcome,
    Header, Properties,
)  # fmt: skip
_COMPOSITES: dict[Any, type[Composite]] = {ulong(kind.CODE): kind for kind in (*_PERFORMATIVES, *_OTHERS)}


def array(kind: int, elements: Iterable[Any]) -> Any:
    """Return an array; ``kind`` is one of the types of Proton's ``Data``."""
    undescribed: Any = UNDESCRIBED
    return Array(undescribed, kind, *elements)


def symbols(names: Iterable[str]) -> Any:
    """Return an array of symbols."""
    return array(Data.SYMBOL, map(symbol, names))


def frame(codec: Codec, channel: int, performative: Composite, payload: bytes = b"", kind: int = AMQP) -> bytes:
    """Return a frame with a performative and what follows it."""
    body = codec.encode(performative) + payload
    return HEADER.pack(HEADER.size + len(body), 2, kind, channel) + body
