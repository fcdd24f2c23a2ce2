"""One client's connection by AMQP 1.0, without its socket; used as ``simulator.server.amqp.connection.Connection`` is.

Source: rabbit_amqp_reader.erl; the texts are those of live servers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import Any

from proton import symbol

from simulator.broker.commands import CloseConnection, Command, OpenConnection
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Reply
from simulator.server.amqp.connection import (
    AMQP_1_0,
    AMQP_1_0_SASL,
    CLOSED,
    DONE,
    EXTERNAL,
    OPENING,
    PRE_INIT,
    RESET,
    RUNNING,
    SILENT,
    STARTING,
    ServerSettings,
    logged_in,
    server_properties,
)
from simulator.server.amqp.protocol_errors import ProtocolError
from simulator.server.amqp10 import errors
from simulator.server.amqp10.errors import ConnectionFault, SessionFault
from simulator.server.amqp10.frames import (
    AMQP,
    EMPTY_FRAME,
    HEADER,
    SASL,
    Begin,
    Close,
    Codec,
    Composite,
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

CHANNEL_MAX = 63  # session_max_per_connection - 1
FRAME_MAX, FRAME_MAX_MIN = 131_072, 512
IDLE_TIMEOUT_MS = 30_000  # half of rabbit.heartbeat
CLOSING_S = 30  # rabbit_amqp_reader.erl CLOSING_TIMEOUT
CAPABILITIES = ("LINK_PAIR_V1_0", "ANONYMOUS-RELAY")
SASL_OK, SASL_AUTH = 0, 1
CONNECTION_FORCED = 320
_WRONG_TYPES = (AttributeError, TypeError, ValueError)  # what Python raises for a field of another type


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
        self.user = self.mechanism = ""
        self.container_id: str | None = ""
        self.client_properties: Mapping[str, Any] = {}
        self.channel_max = CHANNEL_MAX
        self.frame_max = FRAME_MAX
        self.heartbeat_s = 0
        self.patience_s = 3
        self.blocked = False
        self._publishers_wait = False
        self._settings = settings
        self._authenticate = authenticate
        self._external = external
        self._mechanisms = (*settings.release.amqp10_sasl_mechanisms, *([EXTERNAL] if external else ()))
        self._client_frame_max: int | None = None
        self._codec = Codec()
        self._messages = MessageCodec(settings.release, self._codec)
        self._sessions: dict[int, Session] = {}
        self._in_broker = False
        self._buffer = b""
        self._waiting: list[bytes] = []

    def sessions(self) -> list[dict[str, Any]]:
        """Return what the management API shows of the sessions."""
        return [session.facts() for _, session in sorted(self._sessions.items())]

    @property
    def publishers_wait(self) -> bool:
        """Whether sessions take no messages, because of an alarm: their windows are closed."""
        return self._publishers_wait

    @publishers_wait.setter
    def publishers_wait(self, wait: bool) -> None:
        if wait != self._publishers_wait:
            self._publishers_wait = wait
            for session in self._sessions.values():
                session.close_window(wait)

    # Bytes in, commands out

    def receive(self, data: bytes) -> Iterator[Command]:
        """Yield the commands in bytes from the client. Run each before asking for the next."""
        buffer = self._buffer + data if self._buffer else data
        offset = 0
        while len(buffer) - offset >= HEADER.size and not self.ending:
            if self.state == PRE_INIT or (self.state == STARTING and self.user):
                self._greet(buffer[offset : offset + 8])
                offset += 8
                continue
            size, words, kind, number = HEADER.unpack_from(buffer, offset)
            try:
                self._check_frame(size, words, kind)
                if len(buffer) - offset < size:
                    break
                body = buffer[offset + 4 * words : offset + size]
                offset += size
                if body:
                    yield from self._frame(number, body)
            except (ConnectionFault, *_WRONG_TYPES) as problem:
                fault = problem if isinstance(problem, ConnectionFault) else errors.reader(type(problem).__name__)
                offset = len(buffer)
                command = self.fail(fault)
                if command is not None:
                    yield command
        self._buffer = b"" if self.ending else buffer[offset:]

    def _check_frame(self, size: int, words: int, kind: int) -> None:
        expected = SASL if self.state == STARTING else AMQP
        if size < HEADER.size:
            raise errors.framing(f"frame size ({size} bytes) < minimum frame size (8 bytes)")
        if size > FRAME_MAX:
            raise errors.framing(f"frame size ({size} bytes) > maximum frame size ({FRAME_MAX} bytes)")
        if words < 2:
            raise errors.framing(f"data offset ({words}) < minimum data offset (2)")
        if 4 * words > size:
            raise errors.framing(f"data offset ({4 * words} bytes) > frame size ({size} bytes)")
        if kind != expected:
            mode = "sasl" if expected == SASL else "amqp"
            raise errors.framing(f"unexpected frame type {kind} in {mode} mode (expected {expected})")

    def _greet(self, header: bytes) -> None:
        if header == AMQP_1_0_SASL and self.state == PRE_INIT:
            self.state = STARTING
            self._waiting.append(header)
            self._send(0, SaslMechanisms(sasl_server_mechanisms=symbols(self._mechanisms)), kind=SASL)
        elif header == AMQP_1_0 and self.state == STARTING:
            self.state = OPENING
            self._waiting.append(header)
        elif self.state == PRE_INIT:
            self._waiting.append(AMQP_1_0_SASL)
            self.ending = RESET
        else:
            self.ending = SILENT

    def _frame(self, number: int, body: bytes) -> Iterator[Command]:
        if number > self.channel_max and self.state in (OPENING, RUNNING):
            raise errors.framing(f"channel number ({number}) exceeds maximum channel number ({self.channel_max})")
        try:
            performative, length = self._codec.decode(body)
        except UndecodableError as error:
            raise errors.reader(str(error)) from None
        if self.state == STARTING:
            if not isinstance(performative, SaslInit):
                raise errors.reader("unexpected_1_0_sasl_frame")
            self._log_in(performative)
        elif isinstance(performative, Close):
            command = self._close()
            if command is not None:
                yield command
        elif self.state == OPENING and isinstance(performative, Open):
            yield self._open(performative)
            self._opened(performative)
        elif self.state == RUNNING and not isinstance(performative, Open):
            yield from self._session_frame(number, performative, body[length:])
        elif self.state != CLOSED:
            raise errors.reader(f"unexpected {type(performative).__name__}")

    def _session_frame(self, number: int, performative: Any, payload: bytes) -> Iterator[Command]:
        session = self._sessions.get(number)
        if session is None:
            if not isinstance(performative, Begin):
                return
            session = self._sessions[number] = Session(
                (self.id, number), self._settings, self._codec, self._messages, partial(self._send, number)
            )
            session.frame_max = self._client_frame_max
            session.window_closed = self._publishers_wait
        try:
            yield from session.frame(performative, payload)
        except SessionFault as fault:
            yield session.fail(fault)
        except _WRONG_TYPES as error:  # as the server's session, which fails over a field of another type
            yield session.fail(SessionFault("amqp:internal-error", type(error).__name__))
        if session.ended:
            del self._sessions[number]

    def _send(self, number: int, performative: Composite, payload: bytes = b"", kind: int = AMQP) -> None:
        self._waiting.append(frame(self._codec, number, performative, payload, kind))

    # The connection's own performatives

    def _log_in(self, init: SaslInit) -> None:
        mechanism = str(init.mechanism)
        if mechanism not in self._mechanisms:
            raise errors.no_mechanism(mechanism)
        try:
            response = bytes(init.initial_response or b"")
            user = logged_in(mechanism, response, self._settings.release, self._authenticate, self._external)
        except ProtocolError:
            user = None
        self.mechanism = mechanism
        if user is not None:
            self._send(0, SaslOutcome(code=SASL_OK), kind=SASL)
            self.user = user
        else:
            self._send(0, SaslOutcome(code=SASL_AUTH), kind=SASL)
            self.ending = SILENT

    def _open(self, opened: Open) -> Command:
        if opened.container_id is None:
            raise errors.reader("function_clause")
        self.container_id = opened.container_id
        self.client_properties = {str(key): value for key, value in (opened.properties or {}).items()}
        hostname = opened.hostname or ""
        vhost = hostname.removeprefix("vhost:") if hostname.startswith("vhost:") else "/"
        self._in_broker = True
        return OpenConnection(self.id, vhost, self.user, self.name, self.client_properties)

    def _opened(self, opened: Open) -> None:
        if not self._in_broker:  # it was refused
            return
        frame_max, idle_ms = opened.max_frame_size, opened.idle_time_out
        if frame_max is not None and frame_max < FRAME_MAX_MIN:
            raise ConnectionFault(
                "amqp:frame-size-too-small",
                f"max_frame_size ({frame_max}) < minimum maximum frame size ({FRAME_MAX_MIN})",
            )
        if idle_ms is not None and 0 < idle_ms < 1_000:
            raise ConnectionFault("amqp:not-allowed", f"idle-time-out ({idle_ms} ms) < minimum idle-time-out (1000 ms)")
        self._client_frame_max = frame_max
        self.frame_max = FRAME_MAX if frame_max is None else int(frame_max)
        if opened.channel_max is not None:
            self.channel_max = min(int(opened.channel_max), CHANNEL_MAX)
        self.heartbeat_s = (idle_ms or 0) // 1_000
        self.patience_s = CLOSING_S
        self.state = RUNNING
        told = server_properties(self._settings.release, self._settings.cluster_name())
        del told["capabilities"]
        self._send(
            0,
            Open(
                container_id=self._settings.cluster_name(),
                max_frame_size=FRAME_MAX,
                channel_max=self.channel_max,
                idle_time_out=IDLE_TIMEOUT_MS,
                offered_capabilities=symbols(CAPABILITIES),
                properties={symbol(key): value for key, value in {"node": self._settings.broker.node, **told}.items()},
            ),
        )

    def _close(self) -> Command | None:
        if self.state != CLOSED:
            self._send(0, Close())
        self.ending = DONE
        return self.leave()

    # The end

    def fail(self, fault: ConnectionFault) -> Command | None:
        """Close the connection because of the client; without a word before it is open. Return as ``leave`` does."""
        if self.state == RUNNING:
            self._send(0, Close(error=Error(condition=fault.condition, description=fault.description)))
        elif self.state != CLOSED:
            self.ending = SILENT
        return self.leave()

    def close(self, code: int, text: str, method: str = "") -> Command | None:
        """Send close for a reply code of AMQP 0-9-1. Return as ``leave`` does."""
        reason = text.partition(" - ")[2] or "Session error"
        if code == CONNECTION_FORCED:
            return self.fail(ConnectionFault("amqp:internal-error", f'Connection forced: "{reason}"'))
        return self.fail(ConnectionFault(errors.condition_of(code), reason))

    def leave(self) -> Command | None:
        """Stop using the connection; return the command that informs the broker, if it knows the connection."""
        self.state = CLOSED
        self._sessions.clear()
        known, self._in_broker = self._in_broker, False
        return CloseConnection(self.id) if known else None

    # Replies in, bytes out

    def take(self) -> bytes:
        """Return all bytes that wait to be sent, and forget them."""
        self._send_what_waits()
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data

    def _send_what_waits(self) -> None:
        for session in self._sessions.values():
            session.send_what_waits()

    def follow_up(self) -> Iterator[Command]:
        """Yield the commands that follow from what ``take`` has returned."""
        for session in list(self._sessions.values()):
            yield from session.credit_for_queues()

    def reply(self, reply: Reply) -> None:
        """Send a reply of the broker."""
        if type(reply) is ConnectionClosed:
            self._in_broker = False
            self._send_what_waits()
            if reply.silent:
                self.ending = RESET
                self.leave()
            else:
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
        """Do nothing: the connection reads on, since its sessions have closed their windows."""

    def unblock(self) -> None:
        """Do nothing, likewise."""

    def heartbeat(self) -> None:
        """Send a heartbeat."""
        self._waiting.append(EMPTY_FRAME)
