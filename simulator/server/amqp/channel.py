"""One channel of a connection: puts frames together to methods with their content, and makes commands of them.

Source: rabbit_command_assembler.erl; rabbit_channel.erl handle_method (states starting, running, closing).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeVar

from dlx import amqp_errors
from dlx.amqp_errors import Refusal
from dlx.bounded_cache import BoundedCache
from dlx.releases import Release
from simulator.broker.commands import (
    METHODS,
    Ack,
    ChannelId,
    CloseChannel,
    Command,
    Nack,
    OpenChannel,
    OpenConnection,
    Publish,
    Recover,
    Reject,
)
from simulator.server.amqp.frames import CONTENT_HEADER
from simulator.server.amqp.methods import (
    CONTENT_METHODS,
    INDEX,
    NAMES,
    decode_fields,
    decode_properties,
    decode_publish,
)
from simulator.server.amqp.outbox import ChannelOutput, Outbox
from simulator.server.amqp.protocol_errors import (
    CannotDecodeError,
    CrashError,
    MalformedError,
    NotUtf8Error,
    ProtocolError,
    cannot_decode,
)

STARTING, RUNNING, CLOSING, CLOSED = "starting", "running", "closing", "closed"
_BASIC = 60  # the only class whose methods have content
_TAG_AND_BITS = Struct(">QB")
_PUBLISH = INDEX.pack(60, 40)

LENGTH_MAX = 1024  # longer payloads are decoded every time: they rarely come back

Value = TypeVar("Value")


class DecodedCache(BoundedCache[bytes, Value]):
    """Decodes by indexing, ``cache[payload]``: equal payloads give the same object as long as it is remembered."""

    def __init__(self, decode: Callable[[bytes], Value]) -> None:
        super().__init__()
        self._decode: Callable[[bytes], Value] = decode

    def __missing__(self, payload: bytes) -> Value:
        value = self._decode(payload)
        if len(payload) <= LENGTH_MAX:
            self[payload] = value
        return value


_properties = DecodedCache(decode_properties)
_publish_fields = DecodedCache(decode_publish)


class Channel:
    """Makes commands of the frames of one channel.

    Attributes:
        id: of the channel in the broker; ``number`` is the second half of it.
        state: ``starting`` until opened, ``closing`` from the server's channel.close until the client's close-ok.
        output: what the outbox keeps for the channel.

    Args:
        outbox: takes the methods that the channel sends.
        message_max_bytes: longer bodies are read but not kept, and close the channel.
        release: the release to behave like.
    """

    def __init__(self, channel: ChannelId, outbox: Outbox, message_max_bytes: int, release: Release) -> None:
        self.id = channel
        self.number = channel[1]
        self.state = STARTING
        self.output = ChannelOutput(self.number)
        self._outbox = outbox
        self._message_max_bytes = message_max_bytes
        self._release = release
        self._method = ""  # whose content is awaited
        self._fields: dict[str, Any] = {}
        self._properties = b""
        self._size = 0
        self._remaining: int | None = None  # bytes of the body; None while its header is awaited
        self._body: list[bytes] = []

    # Frames

    def method(self, payload: bytes) -> Command | None:
        """Take a method frame; return the command that it completes. Raises ``ProtocolError`` and ``CrashError``."""
        if self._method:
            raise self._misplaced()
        index = payload[:4]
        if index == _PUBLISH:
            name = "basic.publish"
        else:
            settle = _SETTLE.get(index)
            if settle is not None and self.state == RUNNING and len(payload) == 13:
                return settle(self.id, *_TAG_AND_BITS.unpack_from(payload, 4))
            name = NAMES.get(INDEX.unpack(index), "")
            if not name:
                raise CrashError("a method that does not exist")
        fields = decoded(name, payload, self._release)
        if name not in CONTENT_METHODS:
            return self._whole(name, fields)
        self._method, self._fields, self._remaining = name, fields, None
        return None

    def header(self, payload: bytes) -> Command | None:
        """Take a content header frame; return the command that it completes. Raises ``ProtocolError``."""
        class_id, weight, size = CONTENT_HEADER.unpack_from(payload)
        if not self._method or self._remaining is not None or weight:
            raise self._misplaced()
        if class_id != _BASIC:
            raise ProtocolError(amqp_errors.content_header_of_another_class(_BASIC, class_id), self._method)
        if self._release.content_size_checked and size > amqp_errors.MAX_MESSAGE_SIZE:
            raise ProtocolError(amqp_errors.content_too_large(size), self._method)
        self._properties, self._size, self._remaining = payload[12:], size, size
        return None if size else self._content(b"")

    def body(self, payload: bytes) -> Command | None:
        """Take a content body frame; return the command that it completes. Raises ``ProtocolError``."""
        if not self._method or self._remaining is None:
            raise self._misplaced()
        self._remaining = remaining = self._remaining - len(payload)
        if remaining == 0 and not self._body:
            return self._content(payload)
        if remaining < 0:
            self._body.clear()
            if self._release.content_size_checked:
                raise ProtocolError(amqp_errors.content_longer_than_announced(), self._method)
        elif self._size <= self._message_max_bytes:
            self._body.append(payload)
        return self._content(b"".join(self._body)) if remaining == 0 else None

    def _misplaced(self) -> ProtocolError:
        """Return the fault of a frame that the channel does not wait for."""
        if not self._method:
            return ProtocolError(amqp_errors.no_method_frame())
        if self._remaining is not None:
            return ProtocolError(amqp_errors.no_content_body(), self._method)
        return ProtocolError(amqp_errors.no_content_header(_BASIC), self._method)

    # Whole methods

    def _content(self, body: bytes) -> Command | None:
        method, fields, self._method = self._method, self._fields, ""
        if self._body:
            self._body = []
        if self.state != RUNNING or method != "basic.publish":
            return self._whole(method, fields)
        if self._size > self._message_max_bytes:
            return self.close(amqp_errors.message_too_large(self._size, self._message_max_bytes), method)
        try:
            properties = _properties[self._properties]
        except MalformedError:
            raise ProtocolError(amqp_errors.internal_error()) from None
        return Publish(
            self.id,
            fields["exchange"],
            fields["routing_key"],
            properties,
            body,
            fields["mandatory"],
            fields["immediate"],
        )

    def _whole(self, name: str, fields: dict[str, Any]) -> Command | None:
        if name == "channel.open":
            if self.state != STARTING:
                raise ProtocolError(amqp_errors.channel_open_already(), name)
            self.state = RUNNING
            return OpenChannel(self.id)
        if self.state == STARTING:
            raise ProtocolError(amqp_errors.channel_not_open(), name)
        if self.state == CLOSING:
            self._closing(name)
            return None
        if name == "channel.close":
            return CloseChannel(self.id)
        if name == "access.request":
            self._outbox.send(self.number, "access.request-ok", {"ticket": 1})
            return None
        self.output.muted = bool(fields.get("nowait")) or name == "basic.recover-async"
        command = command_for(name, self.id, fields)
        if command is None:
            raise ProtocolError(amqp_errors.unimplemented_method(), name)
        if name == "basic.recover-async" and not fields["requeue"]:
            raise ProtocolError(amqp_errors.recover_without_requeue(), name)
        return command

    def _closing(self, name: str) -> None:
        if name == "channel.close":
            self._outbox.send(self.number, "channel.close-ok", {})
        elif name == "channel.close-ok":
            self.state = CLOSED

    def close(self, refusal: Refusal, method: str) -> Command:
        """Close the channel without being asked by the broker; return the command that informs the broker."""
        self.closing(refusal.code, refusal.text, method)
        return CloseChannel(self.id)

    def closing(self, code: int, text: str, method: str) -> None:
        """Send channel.close. Until the client's close-ok, everything else from it is ignored."""
        self._outbox.send_close(self.number, "channel.close", code, text, method)
        self.state = CLOSING


_SETTLE: dict[bytes, Callable[[ChannelId, int, int], Command]] = {
    INDEX.pack(60, 80): lambda channel, tag, bits: Ack(channel, tag, bits & 1 == 1),
    INDEX.pack(60, 90): lambda channel, tag, bits: Reject(channel, tag, bits & 1 == 1),
    INDEX.pack(60, 120): lambda channel, tag, bits: Nack(channel, tag, bits & 1 == 1, bits & 2 == 2),
}


def decoded(name: str, payload: bytes, release: Release) -> dict[str, Any]:
    """Decode the fields of a method. Raises ``ProtocolError`` or ``CrashError`` where RabbitMQ refuses or crashes."""
    try:
        if name == "basic.publish":
            return _publish_fields[payload]
        return decode_fields(name, payload, surrogates=release.surrogates_are_utf_8)
    except CannotDecodeError:
        raise cannot_decode(payload[4:], name) from None
    except NotUtf8Error:
        raise ProtocolError(amqp_errors.malformed_utf_8()) from None
    except MalformedError as error:
        raise CrashError(str(error)) from None


# Turns the methods that clients send into commands of the broker.


# Method -> the command, whose fields have the protocol's names unless renamed here.
_COMMANDS: dict[str, Callable[..., Command]] = {
    **{method: command for command, method in METHODS.items() if command is not OpenConnection},
    "basic.recover-async": Recover,
}
_NOT_THE_BROKERS = frozenset({"ticket", "nowait"})
_RENAMED = {"global": "global_"}


def command_for(method: str, channel: ChannelId, fields: dict[str, Any]) -> Command | None:
    """Return the command of a method; ``None`` for a method that no client may send."""
    make = _COMMANDS.get(method)
    if make is None:
        return None
    values = {_RENAMED.get(name, name): value for name, value in fields.items() if name not in _NOT_THE_BROKERS}
    return make(channel=channel, **values)
