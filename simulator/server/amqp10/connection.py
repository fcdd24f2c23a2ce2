"""One client's connection by AMQP 1.0, without its socket; used as ``simulator.server.amqp.connection.Connection`` is.

Source: rabbit_amqp_reader.erl; the texts are those of live servers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from functools import partial
from typing import Any

from proton import symbol

from dlx.amqp_errors import Refusal
from simulator.broker.commands import CloseConnection, Command, OpenConnection
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Reply
from simulator.server.amqp.connection import (
    CLOSED,
    DONE,
    OPENING,
    PRE_INIT,
    RESET,
    RUNNING,
    STARTING,
    ServerSettings,
    credentials,
    server_properties,
)
from simulator.server.amqp.protocol_errors import ProtocolError
from simulator.server.amqp10.errors import ConnectionFault, SessionFault, condition_of
from simulator.server.amqp10.frames import (
    AMQP,
    EMPTY_FRAME,
    HEADER,
    SASL,
    Begin,
    Close,
    Codec,
    Composite,
    End,
    Error,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    UndecodableError,
    frame,
    symbols,
)
from simulator.server.amqp10.management import CHANNELS
from simulator.server.amqp10.messages import MessageCodec
from simulator.server.amqp10.session import Session

AMQP_HEADER, SASL_HEADER = b"AMQP\0\1\0\0", b"AMQP\3\1\0\0"
CHANNEL_MAX = 63  # sessions - 1; rabbit.hrl session_max_per_connection
FRAME_MAX = 131_072
IDLE_TIMEOUT_MS = 60_000
_EXTERNAL = "EXTERNAL"


class Connection:
    """Speaks AMQP 1.0 on one connection.

    Attributes and arguments are those of ``simulator.server.amqp.connection.Connection``; its channels are sessions.
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
        self.user = self.mechanism = self.container_id = ""
        self.client_properties: Mapping[str, Any] = {}
        self.channel_max = CHANNEL_MAX
        self.frame_max = FRAME_MAX
        self.heartbeat_s = 0
        self.patience_s = 3
        self.publishers_wait = self.blocked = False
        self._settings = settings
        self._authenticate = authenticate
        self._external = external
        self._codec = Codec()
        self._messages = MessageCodec(settings.release, self._codec)
        self._sessions: dict[int, Session] = {}
        self._in_broker = False
        self._buffer = b""
        self._waiting: list[bytes] = []

    # Bytes in, commands out

    def receive(self, data: bytes) -> Iterator[Command]:
        """Yield the commands in bytes from the client. Run each before asking for the next."""
        buffer = self._buffer + data if self._buffer else data
        offset = 0
        try:
            offset = yield from self._frames(buffer, offset)
        except ConnectionFault as fault:
            command = self._fail(fault)
            if command is not None:
                yield command
        self._buffer = b"" if self.ending else buffer[offset:]

    def _frames(self, buffer: bytes, offset: int) -> Generator[Command, None, int]:
        """Yield the commands of the whole frames from ``offset`` on; return where the rest begins."""
        end = len(buffer)
        while end - offset >= HEADER.size and not self.ending:
            if self.state == PRE_INIT or (self.state == STARTING and self.user):
                self._greet(buffer[offset : offset + 8])
                offset += 8
                continue
            size, words, kind, number = HEADER.unpack_from(buffer, offset)
            if size < HEADER.size or words < 2 or size > self.frame_max:
                raise ConnectionFault("amqp:connection:framing-error", f"frame size ({size} bytes)")
            if end - offset < size:
                break
            body = buffer[offset + 4 * words : offset + size]
            offset += size
            if body:
                yield from self._frame(kind, number, body)
        return offset

    def _greet(self, header: bytes) -> None:
        if header == SASL_HEADER and self.state == PRE_INIT:
            self.state = STARTING
            self._waiting.append(header)
            names = (*self._settings.release.sasl_mechanisms, *([_EXTERNAL] if self._external else ()))
            names = tuple(name for name in names if name != "AMQPLAIN")
            offered = symbols(names)
            self._send(0, SaslMechanisms(sasl_server_mechanisms=offered), kind=SASL)
        elif header == AMQP_HEADER and self.state == STARTING:
            self.state = OPENING
            self._waiting.append(header)
        else:
            self._waiting.append(SASL_HEADER)
            self.ending = RESET

    def _frame(self, kind: int, number: int, body: bytes) -> Iterator[Command]:
        try:
            performative, length = self._codec.decode(body)
        except UndecodableError as error:
            raise ConnectionFault("amqp:decode-error", str(error)) from None
        if kind == SASL and isinstance(performative, SaslInit) and self.state == STARTING:
            self._log_in(performative)
        elif kind == AMQP and isinstance(performative, Open) and self.state == OPENING:
            yield self._open(performative)
            self._opened()
        elif kind == AMQP and isinstance(performative, Close):
            command = self._close()
            if command is not None:
                yield command
        elif kind == AMQP and self.state == RUNNING and isinstance(performative, Composite):
            yield from self._session_frame(number, performative, body[length:])

    def _session_frame(self, number: int, performative: Composite, payload: bytes) -> Iterator[Command]:
        session = self._sessions.get(number)
        if isinstance(performative, Begin):
            if session is not None:
                raise ConnectionFault("amqp:connection:framing-error", f"session {number} was already begun")
            session = self._sessions[number] = Session(
                (self.id, number), self._settings, self._codec, self._messages, partial(self._send, number)
            )
        if session is None:
            return
        try:
            yield from session.frame(performative, payload)
        except SessionFault as fault:
            command = session.fail(fault)
            if command is not None:
                yield command
        if session.ended and isinstance(performative, End):
            del self._sessions[number]

    def _send(self, number: int, performative: Composite, payload: bytes = b"", kind: int = AMQP) -> None:
        self._waiting.append(frame(self._codec, number, performative, payload, kind))

    # The connection's own performatives

    def _log_in(self, init: SaslInit) -> None:
        mechanism = str(init.mechanism)
        try:
            user = self._logged_in(mechanism, bytes(init.initial_response or b""))
        except ProtocolError:
            user = None
        self.mechanism = mechanism
        self._send(0, SaslOutcome(code=0 if user is not None else 1), kind=SASL)
        if user is None:
            self.ending = DONE
        else:
            self.user = user

    def _logged_in(self, mechanism: str, response: bytes) -> str | None:
        if mechanism == _EXTERNAL and self._external is not None:
            return self._external()
        found = credentials(mechanism, response, self._settings.release)
        return found[0] if found is not None and self._authenticate(*found) else None

    def _open(self, opened: Open) -> Command:
        self.container_id = opened.container_id or ""
        self.client_properties = {str(key): value for key, value in (opened.properties or {}).items()}
        self.frame_max = FRAME_MAX
        self.channel_max = min(CHANNEL_MAX if opened.channel_max is None else opened.channel_max, CHANNEL_MAX)
        self.heartbeat_s = (opened.idle_time_out or 0) // 1_000
        hostname = opened.hostname or ""
        vhost = hostname.removeprefix("vhost:") if hostname.startswith("vhost:") else "/"
        self._in_broker = True
        return OpenConnection(self.id, vhost, self.user, self.name, self.client_properties)

    def _opened(self) -> None:
        if not self._in_broker:  # it was refused
            return
        self.state = RUNNING
        told = server_properties(self._settings.release, self._settings.cluster_name())
        told.pop("capabilities")
        self._send(
            0,
            Open(
                container_id=self._settings.cluster_name(),
                max_frame_size=self.frame_max,
                channel_max=self.channel_max,
                idle_time_out=IDLE_TIMEOUT_MS,
                properties={symbol(key): value for key, value in told.items()},
            ),
        )

    def _close(self) -> Command | None:
        if self.state != CLOSED:
            self._send(0, Close())
        self.ending = DONE
        return self.leave()

    # The end

    def _fail(self, fault: ConnectionFault) -> Command | None:
        self._send(0, Close(error=Error(condition=fault.condition, description=fault.description)))
        return self.leave()

    def close(self, code: int, text: str, method: str = "") -> Command | None:
        """Send close, with the condition of a reply code of AMQP 0-9-1. Return as ``leave`` does."""
        return self._fail(ConnectionFault(*condition_of(Refusal(code, text.partition(" - ")[2]))))

    def leave(self) -> Command | None:
        """Stop using the connection; return the command that informs the broker, if it knows the connection."""
        self.state = CLOSED
        self._sessions.clear()
        known, self._in_broker = self._in_broker, False
        return CloseConnection(self.id) if known else None

    # Replies in, bytes out

    def take(self) -> bytes:
        """Return all bytes that wait to be sent, and forget them."""
        for session in self._sessions.values():
            session.send_what_waits()
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data

    def reply(self, reply: Reply) -> None:
        """Send a reply of the broker."""
        if type(reply) is ConnectionClosed:
            self._in_broker = False
            self.close(reply.code, reply.text, reply.method)
            return
        number = reply.channel[1]  # type: ignore[attr-defined]
        session = self._sessions.get(number % CHANNELS)
        if session is None or session.ended:
            return
        if number >= CHANNELS:
            session.management.take(reply)
            return
        if type(reply) is ChannelClosed:
            session.refused(reply)
        else:
            session.reply(reply)

    def block(self, reason: str) -> None:
        """Take no more messages: each session closes its window."""

    def unblock(self) -> None:
        """Take messages again."""
        self.blocked = False

    def heartbeat(self) -> None:
        """Send a heartbeat."""
        self._waiting.append(EMPTY_FRAME)
