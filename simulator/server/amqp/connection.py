"""One client's connection without its socket: bytes in, commands out; replies in, bytes out.

The driver feeds ``receive`` and runs each command it yields before it asks for the
next, hands the broker's replies to ``reply`` and sends the bytes that ``take`` returns.
When ``ending`` is set, the driver ends the connection that way.

Source: rabbit_reader.erl; the texts are those of live servers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from dlx import amqp_errors
from dlx.field_values import Binary
from dlx.releases import Release
from dlx.releases.rows import changed, rows_of, subjects_of, with_behaviours
from simulator.broker import Broker
from simulator.broker.commands import CloseConnection, Command, OpenConnection
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Delivered, Done, Reply
from simulator.server.amqp import channel as channels
from simulator.server.amqp.channel import Channel
from simulator.server.amqp.contents import DeliveryEncoder
from simulator.server.amqp.frames import (
    BODY,
    CONTENT_HEADER,
    END,
    ENVELOPE,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    OVERHEAD,
    frame,
)
from simulator.server.amqp.methods import INDEX, NAMES, decode_fields, encode_method
from simulator.server.amqp.outbox import Outbox
from simulator.server.amqp.protocol_errors import (
    CrashError,
    FatalFault,
    MalformedError,
    NotUtf8Error,
    ProtocolError,
    frame_too_large,
    misplaced,
    no_frame_end,
    unexpected_frame,
)
from simulator.server.amqp.tables import decode_table
from simulator.server.tls import TLS_RECORD

_GREETED = (b"AMQP\0\0\x09\x01", b"AMQP\x01\x01\0\x09")  # 0-9-1, and 0-9, which is close enough
_AMQP_0_8 = b"AMQP\x01\x01\x08\0"
AMQP_1_0, AMQP_1_0_SASL = b"AMQP\0\1\0\0", b"AMQP\3\1\0\0"
EXTERNAL = "EXTERNAL"
CHANNEL_MAX = 2047
FRAME_MAX = 131_072
HEARTBEAT_S = 60
PATIENCE_MAX_S = 30  # rabbit_reader.erl CLOSING_TIMEOUT
_log = logging.getLogger(__name__)

# States, by RabbitMQ's names. In `closed` the server has said goodbye and awaits the client's.
PRE_INIT, STARTING, TUNING, OPENING, RUNNING, CLOSED = "pre_init", "starting", "tuning", "opening", "running", "closed"
# How a connection ends.
RESET = "reset"  # at once, without a word
SILENT = "silent"  # reset, but only after a while in which nothing is read: a brake on those who guess
DONE = "done"  # both sides said goodbye


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that all clients of a server share. ``contents`` encodes its messages.

    ``amqp10_headers``: the headers with which a client may ask for AMQP 1.0; ``broker``: to read.
    """

    release: Release
    cluster_name: Callable[[], str]
    message_max_bytes: int
    contents: DeliveryEncoder
    amqp10_headers: tuple[bytes, ...] = ()
    broker: Broker


class Connection:
    """Speaks the protocol on one connection.

    Attributes:
        id: of the connection in the broker.
        state: ``pre_init``, ``starting``, ``tuning``, ``opening``, ``running`` or ``closed``.
        ending: how the driver has to end the connection: ``""`` (not), ``reset``, ``silent`` or ``done``.
        user, mechanism, client_properties, capabilities: as the client gave them.
        container_id: ``None``, since only clients of AMQP 1.0 give one.
        channel_max, frame_max, heartbeat_s: as negotiated.
        patience_s: how long the server waits for the client's goodbye, in seconds.
        publishers_wait: whether a frame of content has the connection read no further.
        blocked: whether it reads no further; what came in waits for ``unblock``.

    Args:
        connection: its ``id``.
        name: such as ``127.0.0.1:50000 -> 127.0.0.1:5672``.
        settings: what is the same for all clients.
        authenticate: returns whether a user with that password may log in from the client's address; raises
            ``ProtocolError`` where the server fails at a password that is ``None``, no text.
        external: offers the mechanism EXTERNAL: returns the user of the client's certificate, if that user may log in.
    """

    def __init__(
        self,
        connection: Hashable,
        name: str,
        settings: ServerSettings,
        authenticate: Callable[[str, str | None], bool],
        external: Callable[[], str | None] | None = None,
    ) -> None:
        self.id = connection
        self.name = name
        self.state = PRE_INIT
        self.ending = ""
        self.user = self.mechanism = ""
        self.client_properties: Mapping[str, Any] = {}
        self.capabilities: Mapping[str, Any] = {}
        self.container_id: str | None = None
        self.channel_max = CHANNEL_MAX
        self.frame_max = settings.release.frame_max_min
        self.heartbeat_s = 0
        self.patience_s = 3  # rabbit_reader.erl NORMAL_TIMEOUT
        self.publishers_wait = self.blocked = False
        self._settings = settings
        self._authenticate = authenticate
        self._external = external
        self._mechanisms = (*settings.release.sasl_mechanisms, *([EXTERNAL] if external else ()))
        self._in_broker = False
        self._buffer = b""
        self._channels: dict[int, Channel] = {}
        self._leaving: list[Channel] = []
        in_latin_1 = settings.release.error_text_encoding == "Latin-1"
        self._outbox = Outbox(settings.contents, self.frame_max, latin_1_errors=in_latin_1)
        self.take = self._outbox.take

    def sessions(self) -> None:
        """Have none: AMQP 0-9-1 knows channels alone."""

    # Bytes in, commands out

    def receive(self, data: bytes) -> Iterator[Command]:
        """Yield the commands in bytes from the client. Run each before asking for the next."""
        buffer = self._buffer + data if self._buffer else data
        offset = 0
        if self.state == PRE_INIT and len(buffer) >= len(_AMQP_0_8):
            offset = len(_AMQP_0_8)
            self._greet(buffer[:offset])
        try:
            offset = yield from self._frames(buffer, offset)
        except FatalFault as problem:
            command = self.fail(problem)
            self.ending = SILENT
            if command is not None:
                yield command
        except CrashError:
            self.ending = RESET
        self._buffer = b"" if self.ending else buffer[offset:]
        self._let_go()

    def _frames(self, buffer: bytes, offset: int) -> Generator[Command, None, int]:
        """Yield the commands of the whole frames from ``offset`` on; return where the rest begins."""
        end = len(buffer)
        while end - offset >= ENVELOPE.size and not self.ending and not self.blocked and self.state != PRE_INIT:
            kind, number, size = ENVELOPE.unpack_from(buffer, offset)
            if size > self.frame_max:  # by its overhead more than a frame may have: some clients err by that
                raise frame_too_large(kind, size, self.frame_max - OVERHEAD, self._settings.release)
            stop = offset + 7 + size
            if stop >= end:
                break
            payload = buffer[offset + 7 : stop]
            if buffer[stop] != END:
                raise no_frame_end(kind, payload, buffer[stop], self._settings.release)
            offset = stop + 1
            self.blocked = self.publishers_wait and kind != METHOD and number != 0 and self.state == RUNNING
            try:
                command = self._frame(kind, number, payload)
            except ProtocolError as problem:
                command = self.fail(problem)
            if command is not None:
                yield command
                if type(command) is OpenConnection:
                    self._opened()
        return offset

    def _greet(self, header: bytes) -> None:
        release = self._settings.release
        if header in _GREETED or (header == _AMQP_0_8 and release.accepts_amqp_0_8):
            self.state = STARTING
            self._outbox.raw(frame(METHOD, 0, start(release, self._settings.cluster_name(), self._mechanisms)))
            return
        if header[:2] == TLS_RECORD:
            _log.warning("connection %s: the client uses TLS, and this port takes amqp:// without TLS", self.name)
        if header[:4] == b"AMQP" and header[5:] == b"\1\0\0" and release.speaks_amqp_1_0:
            _log.warning("connection %s: the client speaks AMQP 1.0, which needs the extra amqp10", self.name)
        near_miss = header[:6] == b"AMQP\0\0" and header[6] >= 9
        offer = AMQP_1_0_SASL if release.speaks_amqp_1_0 and not near_miss else b"AMQP\0\0\x09\x01"
        self._outbox.raw(offer)
        self.ending = RESET

    def _frame(self, kind: int, number: int, payload: bytes) -> Command | None:
        if number == 0 or self.state != RUNNING:
            return self._frame_of_connection(kind, number, payload)
        channel = self._channels.get(number) or self._new_channel(number)
        if kind == METHOD and len(payload) >= INDEX.size:
            command = channel.method(payload)
            if command is None and channel.state == channels.CLOSED:
                self._forget(channel)
            return command
        if kind == BODY:
            return channel.body(payload)
        if kind == HEADER and len(payload) >= CONTENT_HEADER.size:
            return channel.header(payload)
        raise misplaced(kind, payload, self._settings.release)

    def _new_channel(self, number: int) -> Channel:
        count, settings = len(self._channels), self._settings
        if count >= self.channel_max:
            raise ProtocolError(amqp_errors.too_many_channels(count, self.channel_max))
        self._channels[number] = channel = Channel(
            (self.id, number), self._outbox, settings.message_max_bytes, settings.release
        )
        return channel

    def _let_go(self) -> None:
        """Answer channel.close last: whatever the client sent after it without waiting is ignored."""
        for channel in self._leaving:
            if self._channels.get(channel.number) is channel:
                self._outbox.send(channel.number, "channel.close-ok", {})
                self._forget(channel)
        self._leaving.clear()

    def _forget(self, channel: Channel) -> None:
        del self._channels[channel.number]
        self._outbox.forget(channel.output)

    # The connection's own methods

    def _frame_of_connection(self, kind: int, number: int, payload: bytes) -> Command | None:
        is_method = kind == METHOD and len(payload) >= INDEX.size
        if self.state == CLOSED and (number or not is_method):
            return None
        if number:
            raise unexpected_frame(kind, payload, self._settings.release)
        if is_method:
            return self._method(payload)
        if kind == HEARTBEAT and not payload:
            return None
        raise misplaced(kind, payload, self._settings.release)

    def _method(self, payload: bytes) -> Command | None:
        name = NAMES.get(INDEX.unpack_from(payload))
        if name is None:
            raise CrashError("a method that does not exist")
        try:
            fields = decode_fields(name, payload)
        except NotUtf8Error:
            raise ProtocolError(amqp_errors.malformed_utf_8(), name) from None
        except MalformedError:
            raise ProtocolError(amqp_errors.internal_error()) from None
        act = _METHODS.get((self.state, name))
        if act is None:  # in the state closed, no client hears it
            raise ProtocolError(amqp_errors.method_in_wrong_state(self.state), name)
        return act(self, fields)

    def _start_ok(self, fields: Mapping[str, Any]) -> None:
        mechanism = fields["mechanism"]
        if mechanism not in self._mechanisms:
            raise ProtocolError(amqp_errors.unknown_mechanism(mechanism))
        self.client_properties = fields["client_properties"]
        capabilities = self.client_properties.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self._outbox.told_of_cancels = self.capabilities.get("consumer_cancel_notify") is True
        user = logged_in(mechanism, fields["response"], self._settings.release, self._authenticate, self._external)
        if user is None:
            self._refuse_login(mechanism)
            return
        self.user, self.mechanism, self.state = user, mechanism, TUNING
        offer = {"channel_max": CHANNEL_MAX, "frame_max": FRAME_MAX, "heartbeat": HEARTBEAT_S}
        self._outbox.send(0, "connection.tune", offer)

    def _refuse_login(self, mechanism: str) -> None:
        if self.capabilities.get("authentication_failure_close") is True:
            refusal = amqp_errors.login_refused(mechanism)
            self.close(refusal.code, refusal.text)
        else:
            self.ending = SILENT

    def _tune_ok(self, fields: Mapping[str, Any]) -> None:
        channel_max, frame_max = fields["channel_max"], fields["frame_max"]
        if not 1 <= channel_max <= CHANNEL_MAX:
            raise ProtocolError(amqp_errors.not_offered("channel_max"))
        if not self._settings.release.frame_max_min <= frame_max <= FRAME_MAX:
            raise ProtocolError(amqp_errors.not_offered("frame_max"))
        self.channel_max, self.frame_max, self.heartbeat_s = channel_max, frame_max, fields["heartbeat"]
        self.patience_s = min(self.heartbeat_s or PATIENCE_MAX_S, PATIENCE_MAX_S)
        self._outbox.frame_max = frame_max
        self.state = OPENING

    def _open(self, fields: Mapping[str, Any]) -> Command:
        self._in_broker = True
        return OpenConnection(self.id, fields["virtual_host"], self.user, self.name, self.client_properties)

    def _opened(self) -> None:
        if self._in_broker:  # else it was refused
            self.state = RUNNING
            self._outbox.send(0, "connection.open-ok", {})

    def _update_secret(self, _fields: Mapping[str, Any]) -> None:
        self._outbox.send(0, "connection.update-secret-ok", {})

    def _close(self, _fields: Mapping[str, Any]) -> Command | None:
        self._outbox.send(0, "connection.close-ok", {})
        return self.leave()

    def _close_ok(self, _fields: Mapping[str, Any]) -> None:
        self.ending = DONE

    # The end

    def fail(self, problem: ProtocolError) -> Command | None:
        """Close the connection because of the client; without a word before it is let in. Return as ``leave`` does."""
        refusal = amqp_errors.as_told(problem.refusal, self._settings.release)
        if self.state == RUNNING or (self.state == OPENING and refusal.code != 541):
            return self.close(refusal.code, refusal.text, problem.method)
        if self.state != CLOSED:
            self.ending = SILENT
        return None

    def close(self, code: int, text: str, method: str = "") -> Command | None:
        """Send connection.close. Return as ``leave`` does."""
        self._outbox.send_close(0, "connection.close", code, text, method)
        return self.leave()

    def leave(self) -> Command | None:
        """Stop using the connection; return the command that informs the broker, if it knows the connection."""
        self.state = CLOSED
        self._channels.clear()
        known, self._in_broker = self._in_broker, False
        return CloseConnection(self.id) if known else None

    # Replies in, bytes out

    def reply(self, reply: Reply) -> None:
        """Send a reply of the broker. Raises ``ValueError`` for a message that AMQP cannot hold."""
        if type(reply) is ConnectionClosed:
            self._in_broker = False
            if reply.silent:
                self.ending = RESET
                self.leave()
            else:
                self.close(reply.code, reply.text, reply.method)
            return
        channel = self._channels.get(reply.channel[1])  # type: ignore[attr-defined]
        if channel is None or channel.state == channels.CLOSING:
            return
        if type(reply) is Delivered:
            self._outbox.deliver(reply)
        elif type(reply) is ChannelClosed:
            channel.closing(reply.code, reply.text, reply.method)
        elif type(reply) is Done and reply.method == "channel.close-ok":
            channel.state = channels.CLOSING
            self._leaving.append(channel)
        else:
            self._outbox.reply(channel.output, reply)

    def follow_up(self) -> Iterable[Command]:
        """Return no commands: none follow from what ``take`` has returned."""
        return ()

    def block(self, reason: str) -> None:
        """Tell the client that the server reads no more publishes."""
        if self.capabilities.get("connection.blocked") is True:
            self._outbox.send(0, "connection.blocked", {"reason": reason})

    def unblock(self) -> None:
        """Tell the client that the server reads publishes again."""
        self.blocked = False
        if self.capabilities.get("connection.blocked") is True:
            self._outbox.send(0, "connection.unblocked", {})

    def heartbeat(self) -> None:
        """Send a heartbeat."""
        self._outbox.raw(HEARTBEAT_FRAME)


_METHODS: dict[tuple[str, str], Callable[[Connection, Mapping[str, Any]], Command | None]] = {
    (STARTING, "connection.start-ok"): Connection._start_ok,
    (TUNING, "connection.tune-ok"): Connection._tune_ok,
    (OPENING, "connection.open"): Connection._open,
    (RUNNING, "connection.update-secret"): Connection._update_secret,
    (RUNNING, "connection.close"): Connection._close,
    (CLOSED, "connection.close"): Connection._close,
    (CLOSED, "connection.close-ok"): Connection._close_ok,
}

# Reads user and password from a client's SASL response.
#
# Source: rabbit_auth_mechanism_plain.erl, _amqplain.erl, _anonymous.erl.


ANONYMOUS = ("guest", "guest")


def logged_in(
    mechanism: str,
    response: bytes,
    release: Release,
    authenticate: Callable[[str, str | None], bool],
    external: Callable[[], str | None] | None,
) -> str | None:
    """Return the user; ``None`` if the login is refused. ``authenticate`` and ``external`` are those of ``Connection``.

    Raises ``ProtocolError`` for a response that cannot be read, and as ``authenticate`` does.
    """
    if mechanism == EXTERNAL and external is not None:
        return external()
    found = credentials(mechanism, response, release)
    if found is None:
        raise ProtocolError(amqp_errors.unreadable_response())
    user, password = found
    return user if authenticate(user, password) else None


def credentials(mechanism: str, response: bytes, release: Release) -> tuple[str, str | None] | None:
    """Return user and password from the response of that mechanism; ``None`` if it cannot be read.

    A password of ``None`` is not text, and matches no user.
    """
    if mechanism == "ANONYMOUS":
        return ANONYMOUS
    return _plain(response) if mechanism == "PLAIN" else _amqplain(response, release)


def _plain(response: bytes) -> tuple[str, str] | None:
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        return None
    return _text(parts[1]), _text(parts[2])


def _amqplain(response: bytes, release: Release) -> tuple[str, str | None] | None:
    try:
        table = decode_table(response)
        user, password = table["LOGIN"], table["PASSWORD"]
    except (MalformedError, KeyError):
        return None
    if not isinstance(user, (str, bytes)):
        return None
    if isinstance(password, (str, bytes)):
        both = isinstance(user, Binary) and isinstance(password, Binary)
        return None if both and not release.amqplain_takes_byte_arrays else (_text(user), _text(password))
    return None if isinstance(user, Binary) else (_text(user), None)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="surrogateescape")


def is_loopback(address: str) -> bool:
    """Return whether a numeric address is a loopback address of this machine."""
    return address == "::1" or address.removeprefix("::ffff:").startswith("127.")


# How each release introduces itself: as servers of 3.8, 3.10, 4.0 and 4.3 do; the others from their source.
#
# None of this decides anything, so it is here and not in the table of releases.


class ServerProperties:
    """The server properties that differ between releases."""

    copyright: str = changed(
        {
            "3.9": "Copyright (c) 2007-2023 VMware, Inc. or its affiliates.",
            "3.10": "Copyright (c) 2007-2022 VMware, Inc. or its affiliates.",
            "3.11": "Copyright (c) 2007-2023 Broadcom Inc and/or its subsidiaries",
            "3.12": "Copyright (c) 2007-2024 Broadcom Inc and/or its subsidiaries",
            "4.1": "Copyright (c) 2007-2026 Broadcom Inc and/or its subsidiaries",
        },
        before="Copyright (c) 2007-2020 VMware, Inc. or its affiliates.",
        meaning="Whose RabbitMQ it is.",
        evidence="live for 3.8, 3.10, 4.0 and 4.3; rabbit.hrl COPYRIGHT_MESSAGE",
    )
    platform: str = changed(
        {
            "3.9": "Erlang/OTP 25.2.3",
            "3.13": "Erlang/OTP 26.2.5",
            "4.0": "Erlang/OTP 27.3.4.1",
            "4.3": "Erlang/OTP 29.1.2",
        },
        before="Erlang/OTP 23.2.6",
        meaning="The Erlang/OTP that the server runs on. Each release runs on several.",
        evidence="live for 3.8, 3.10, 4.0 and 4.3; elsewhere one that the release supports",
    )


@with_behaviours
class Introduction(ServerProperties, msgspec.Struct, frozen=True, kw_only=True):
    """How the server of one release introduces itself; ``TABLE`` says what each field means and how it is known."""


TABLE = rows_of(*subjects_of(Introduction))
_CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


@cache
def introduction_of(version: str) -> Introduction:
    """Return how the server of a full version such as ``4.3.6`` introduces itself."""
    return Introduction(**{row.name: row.value_in(version) for row in TABLE})


def server_properties(release: Release, cluster_name: str) -> dict[str, Any]:
    """Return what the server of a release says of itself in ``connection.start``."""
    introduction = introduction_of(release.version)
    return {
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
        "cluster_name": cluster_name,
        "copyright": introduction.copyright,
        "information": "Licensed under the MPL 2.0. Website: https://rabbitmq.com",
        "platform": introduction.platform,
        "product": "RabbitMQ",
        "version": release.version,
    }


def start(release: Release, cluster_name: str, mechanisms: Iterable[str]) -> bytes:
    """Encode the method ``connection.start``, which is the same for a client of 0-9 as for one of 0-9-1."""
    fields = {
        "version_major": 0,
        "version_minor": 9,
        "server_properties": server_properties(release, cluster_name),
        "mechanisms": " ".join(mechanisms),
        "locales": "en_US",
    }
    return encode_method("connection.start", fields)
