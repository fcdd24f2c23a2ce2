"""Messages of AMQP 1.0: read as the broker takes them, written as a client of AMQP 1.0 gets them.

The broker knows what a client of AMQP 0-9-1 would see (properties, headers, body). Beside it, a message that came
by AMQP 1.0 keeps its sections (``dlx.message.Amqp10``), which go out as they came in.

Source: mc_amqp.erl, mc_amqpl.erl convert_to, convert_from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from proton import Described, symbol, ulong

from dlx.message import Amqp10
from dlx.message_filters import plain
from dlx.releases import Release
from simulator.broker.replies import Delivered, delivered_properties
from simulator.server.amqp10.errors import LinkFault
from simulator.server.amqp10.frames import Codec, Header, Properties, UndecodableError

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES = 0x70, 0x71, 0x72, 0x73
APPLICATION_PROPERTIES, DATA, SEQUENCE, VALUE, FOOTER = 0x74, 0x75, 0x76, 0x77, 0x78


class ReadMessage(msgspec.Struct, kw_only=True):
    """A message that a client sent: what the broker takes, and ``to``, the address that it names itself."""

    properties: Mapping[str, Any]
    body: bytes
    to: str | None
    amqp10: Amqp10


class MessageCodec:
    """Reads and writes messages for one connection."""

    def __init__(self, release: Release, codec: Codec) -> None:
        self._release = release
        self._codec = codec

    def read(self, encoded: bytes) -> ReadMessage:
        """Return a message that a client sent. Raises ``LinkFault``."""
        header, annotations, properties = Header(), dict[Any, Any](), Properties()
        body, application, bare_from, offset = b"", dict[Any, Any](), None, 0
        while offset < len(encoded):
            try:
                section, length = self._codec.decode(encoded[offset:])
            except UndecodableError as error:
                raise LinkFault("amqp:decode-error", f"failed to parse message: {error}") from None
            code = getattr(section, "descriptor", None)
            if isinstance(section, Header):
                header = section
            elif code == MESSAGE_ANNOTATIONS:
                annotations = section.value
            elif code != DELIVERY_ANNOTATIONS:
                bare_from = offset if bare_from is None else bare_from
                if isinstance(section, Properties):
                    properties = section
                elif code == APPLICATION_PROPERTIES:
                    application = section.value
                elif code == DATA:
                    body += section.value
            offset += length
        return ReadMessage(
            properties=_basic_properties(header, annotations, properties, application),
            body=body,
            to=properties.to,
            amqp10=Amqp10(
                annotations=self._codec.encode(annotations) if annotations else b"",
                bare=encoded[bare_from:] if bare_from is not None else b"",
                properties={name: plain(value) for name, value in msgspec.structs.asdict(properties).items()},
                application_properties={str(name): plain(value) for name, value in application.items()},
            ),
        )

    def write(self, reply: Delivered) -> bytes:
        """Return a delivery's message as its sections."""
        message = reply.message
        basic = delivered_properties(message, self._release, reply.added)
        header = Header(
            durable=basic.get("delivery_mode") == 2,
            priority=basic.get("priority"),
            ttl=None if message.expiration is None else int(message.expiration),
            first_acquirer=not reply.redelivered,
            delivery_count=int((reply.added or {}).get("x-delivery-count", 0)),
        )
        annotations: dict[Any, Any] = {
            symbol("x-exchange"): message.exchange,
            symbol("x-routing-key"): message.routing_key,
        }
        if message.amqp10 is not None and message.amqp10.annotations:
            annotations = self._codec.decode(message.amqp10.annotations)[0] | annotations
        sections = self._codec.encode(header) + self._section(MESSAGE_ANNOTATIONS, annotations)
        if message.amqp10 is not None:
            return sections + message.amqp10.bare
        return sections + self._section(DATA, reply.body)

    def annotations(self, modified: dict[Any, Any] | None) -> dict[str, Any]:
        """Return the annotations of the outcome modified by their names."""
        return {str(key): value for key, value in (modified or {}).items()}

    def _section(self, code: int, value: Any) -> bytes:
        return self._codec.encode(Described(ulong(code), value))


def _basic_properties(
    header: Header, annotations: dict[Any, Any], properties: Properties, application: dict[Any, Any]
) -> dict[str, Any]:
    """Return the properties that a client of AMQP 0-9-1 sees."""
    found: dict[str, Any] = {"delivery_mode": 2 if header.durable else 1}
    if header.priority is not None:
        found["priority"] = int(header.priority)
    if header.ttl is not None:
        found["expiration"] = str(int(header.ttl))
    headers = {str(key): value for key, value in application.items()}
    headers |= {str(key): value for key, value in annotations.items() if str(key).startswith("x-")}
    if headers:
        found["headers"] = headers
    return found
