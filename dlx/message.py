"""A message as the broker holds it, and how a publish becomes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dlx.amqp_errors import Refusal, explained, wrong_sender_selected_type
from dlx.claimed_deaths import NO_CLAIM, claimed_deaths
from dlx.deaths import Death, DeathPoint
from dlx.erlang_printing import Atom
from dlx.field_values import type_name, wire_type
from dlx.releases import Release

Headers = Mapping[str, Any]


class PublishRefusedError(Refusal, ValueError):
    """A publish that RabbitMQ refuses: it closes the channel with 406 PRECONDITION_FAILED and this text.

    Where it fails over the publish, with 541 and no text, the connection ends.
    """

    def __init__(self, explanation: str = "", code: int = 406) -> None:
        super().__init__(code, explanation)


class Amqp10(msgspec.Struct, frozen=True, kw_only=True):
    """What a message that came by AMQP 1.0 keeps of it, encoded.

    ``annotations`` are the message annotations, a map, and ``head`` is the message from its properties up to its body.
    ``rest`` are body and footer where they are more than one data section with the message's body; that is ``None``
    for most messages, so that those that differ in the body alone are alike. ``cc`` are the keys of ``x-cc``.
    ``routing_headers`` are those that an exchange of type headers sees.
    ``readable`` is false where no client of AMQP 0-9-1 can get it: one that does loses its connection. Filters look at
    ``properties``, by names such as ``message_id``, and at ``application_properties``, as plain values.
    """

    annotations: bytes = b""
    head: bytes = b""
    rest: bytes | None = None
    cc: tuple[str, ...] = ()
    routing_headers: Headers = {}
    readable: bool = True
    properties: Mapping[str, Any] = {}
    application_properties: Mapping[str, Any] = {}


_SHORT_DATA, _LONG_DATA = 5, 8  # bytes before the content of a data section of up to 255 bytes, or more


def payload_size(message: Message, body: bytes) -> int:
    """Count the bytes that a queue counts as a message's body: by AMQP 1.0, all from its properties on."""
    sent = message.amqp10
    if sent is None:
        return len(body)
    if sent.rest is not None:
        return len(sent.head) + len(sent.rest)
    return len(sent.head) + len(body) + (_SHORT_DATA if len(body) < 256 else _LONG_DATA)


class Message(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One copy of a message.

    ``routing_keys`` are the publish key, then CC, then BCC, until a dead-letter
    routing key replaces them. ``headers`` are those that the message itself carries
    (without BCC): on releases that keep the death history in headers, ``x-death``
    is among them; on the others the history is in ``deaths``, ``first_death`` and
    ``last_death`` and is rendered over the headers on delivery. ``deaths`` is
    ``None`` for a message without a history; an empty tuple is a history without entries.

    ``delivery_count`` is the count of failed deliveries that a dead letter brings
    along, ``None`` where it brings no count. ``writable`` is false where a client has
    claimed deaths that no channel can write, or sent by AMQP 1.0 what AMQP 0-9-1 has not: a client that gets the
    message by AMQP 0-9-1 loses its connection.

    ``expiration_padding`` is how many bytes longer the expiration was when the client
    sent it, such as the two of "+0" in "+060000", where the release keeps the number alone.

    ``headers_sent`` are the publisher's headers where the broker has others but still the bytes of these, which
    a classic queue delivers (``delay_header_after``).

    ``amqp10``: what a client of AMQP 1.0 sent; ``None`` for a message that came by AMQP 0-9-1. ``annotations`` are
    those that consumers of AMQP 1.0 gave it since (the outcome modified), which both protocols show.
    """

    exchange: str
    routing_keys: tuple[str, ...]
    headers: Headers | None = None
    properties: Mapping[str, Any] = {}
    expiration: str | None = None
    bcc: tuple[str, ...] = ()
    deaths: tuple[Death, ...] | None = None
    first_death: DeathPoint | None = None
    last_death: DeathPoint | None = None
    delivery_count: int | None = None
    writable: bool = True
    expiration_padding: int = 0
    headers_sent: Headers | None = None
    amqp10: Amqp10 | None = None
    annotations: Mapping[str, Any] | None = None

    @property
    def routing_key(self) -> str:
        """Return the key that a delivery shows: always the first."""
        return self.routing_keys[0]


def published(
    exchange: str,
    routing_key: str,
    *,
    headers: Headers | None = None,
    properties: Mapping[str, Any] | None = None,
    expiration: str | None = None,
    release: Release,
    amqp10: Amqp10 | None = None,
) -> Message:
    """Return the message that ``basic.publish`` makes.

    ``properties`` are the basic properties other than ``headers`` and
    ``expiration`` (a string of milliseconds). Raises ``PublishRefusedError`` with
    RabbitMQ's text for what a broker of that release refuses.

    Source: rabbit_basic.erl header_routes, parse_expiration; mc_amqpl.erl message.
    """
    if amqp10 is not None:
        return Message(
            exchange=exchange,
            routing_keys=(routing_key, *amqp10.cc),
            headers=headers,
            properties=properties or {},
            expiration=expiration,
            amqp10=amqp10,
            writable=amqp10.readable,
        )
    if headers is None and expiration is None:  # as in most publishes
        return Message(exchange=exchange, routing_keys=(routing_key,), properties=properties or {})
    wanted_expiration = checked_expiration(expiration, release)
    cc = sender_selected_keys(headers, "CC")
    bcc = sender_selected_keys(headers, "BCC")
    kept = headers
    if headers is not None and "BCC" in headers:
        kept = {key: value for key, value in headers.items() if key != "BCC"}
    continued = release.client_deaths_continued and release.death_history == "annotations"
    claim = claimed_deaths(headers) if continued else NO_CLAIM
    if not claim.readable:
        raise PublishRefusedError(code=541)
    return Message(
        exchange=exchange,
        routing_keys=(routing_key, *cc, *bcc),
        headers=kept,
        properties=properties or {},
        expiration=wanted_expiration,
        bcc=bcc,
        deaths=claim.deaths,
        writable=claim.writable,
        expiration_padding=len(expiration or "") - len(wanted_expiration or ""),
    )


def annotated(message: Message, annotations: Mapping[str, Any]) -> Message:
    """Return the message with annotations that a consumer gave it."""
    return msgspec.structs.replace(message, annotations={**(message.annotations or {}), **annotations})


def can_be_sent(message: Message, *, as_amqp10: bool) -> bool:
    """Return whether a server can send the message to a client; otherwise the client's connection ends.

    By AMQP 1.0 it fails over a number with a fraction and over null, where a consumer added one as an annotation.
    """
    if as_amqp10:
        return not any(value is None or isinstance(value, float) for value in (message.annotations or {}).values())
    return message.writable


def sender_selected_keys(headers: Headers | None, name: str) -> tuple[str, ...]:
    """Return the keys in a CC or BCC header; elements that are not strings are ignored."""
    if headers is None or name not in headers:
        return ()
    value = headers[name]
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise PublishRefusedError(wrong_sender_selected_type(name, type_name(value)).explanation)
    return tuple(key for key in value if isinstance(key, str))


def recorded_routing_keys(message: Message, release: Release) -> tuple[str, ...]:
    """Return the routing keys that a death records: CC included, BCC not.

    Where BCC keys are subtracted, it is one for one and by value, and they are
    remembered for good: a dead-letter routing key that equals one disappears too.
    """
    if release.death_routing_keys == "first key and CC header":
        return (message.routing_key, *sender_selected_keys(message.headers, "CC"))
    keys = list(message.routing_keys)
    for hidden in message.bcc:
        if hidden in keys:
            keys.remove(hidden)
    return tuple(keys)


def without_expiration(message: Message) -> Message:
    """Return the message as a queue knows it that has lost sight of its expiration: no death records one."""
    return message if message.expiration is None else msgspec.structs.replace(message, expiration=None)


def published_expiration(message: Message) -> str | None:
    """Return the expiration that the message was published with, where the entry of its first death remembers it."""
    if message.expiration is not None or not message.deaths:
        return message.expiration
    return next((death.original_expiration for death in message.deaths if death.original_expiration), None)


def checked_expiration(expiration: str | None, release: Release) -> str | None:
    """Return the expiration as the release holds it, in ms as a string.

    Raises:
        PublishRefusedError: the release refuses the expiration.
    """
    if expiration is None:
        return None
    number, rest = _leading_integer(expiration)
    wrong = _wrong_expiration(number, rest, release)
    if wrong is not None:
        text = f"invalid expiration '{expiration}': "
        raise PublishRefusedError(explained(text, wrong, release))
    return str(number) if release.expiration_form == "normalised" else expiration


def _wrong_expiration(number: int | None, rest: str, release: Release) -> Any:
    """Return the term that says why it is not an expiration; ``None`` if it is one."""
    longest = release.expiration_max_ms
    if number is None:
        return Atom("no_integer")
    if rest:
        return Atom("leftover_string"), list(rest.encode(errors="surrogateescape"))
    if number < 0:
        return Atom("value_negative"), number
    return (Atom("value_too_large"), number) if longest is not None and number > longest else None


def _leading_integer(text: str) -> tuple[int | None, str]:
    end = 1 if text[:1] in ("+", "-") else 0
    digits = end
    while digits < len(text) and text[digits] in "0123456789":
        digits += 1
    if digits == end:
        return None, text
    return int(text[:digits]), text[digits:]


# Counts the bytes that a message's properties take on the wire, as quorum queues of some releases charge for them.
#
# Two bytes of flags, then each property that is set. They are counted as the publisher
# sent them: BCC is not among the headers any more, and a dead letter is charged for
# the expiration that it no longer has, but not for its deaths.
#
# Source: rabbit_binary_generator.erl; mc_amqpl.erl size; live servers.


_FLAGS = 2
_ANNOTATIONS = 100  # what the server takes those of AMQP 1.0 for: mc_amqp.erl size
_PROPERTIES = {"delivery_mode": 1, "priority": 1, "timestamp": 8}  # the others are short strings
_VALUES = {"t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "l": 8, "f": 4, "d": 8, "D": 5, "T": 8, "V": 0}


def properties_size(message: Message) -> int:
    """Count the bytes that the properties of ``message`` took when they were published."""
    if message.amqp10 is not None:
        return _ANNOTATIONS if message.amqp10.annotations else 0
    size = _FLAGS
    for name, value in message.properties.items():
        if value is not None:
            size += _PROPERTIES.get(name) or 1 + _length(value)
    expiration = published_expiration(message)
    if expiration is not None:
        size += 1 + len(expiration) + message.expiration_padding
    return size if message.headers is None else size + _table_size(message.headers)


def _table_size(table: Mapping[str, Any]) -> int:
    return 4 + sum(2 + _length(key) + _value_size(value) for key, value in table.items())


def _value_size(value: Any) -> int:
    """Count the bytes of a field value, without its type's tag."""
    tag = wire_type(value)[0]
    if tag == "F":
        return _table_size(value)
    if tag == "A":
        return 4 + _array_size(value)
    return _VALUES[tag] if tag in _VALUES else 4 + _length(value)


def _array_size(values: Sequence[Any]) -> int:
    return sum(1 + _value_size(value) for value in values)


def _length(text: str | bytes) -> int:
    return len(text.encode(errors="surrogateescape")) if isinstance(text, str) else len(text)
