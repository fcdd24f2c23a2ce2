"""Serves AMQP clients over asyncio: sockets, turns, heartbeats, and limits for slow or greedy clients.

A turn runs one client's commands, up to a number and a time; their effects are sent when it
ends, in one write per client. A client that does not read gets no more deliveries, and
is not read either once its backlog is large; one that takes nothing for too long is reset,
whether it sends heartbeats or not. Heartbeats and these limits are in wall time, whatever
the broker's clock says.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from dlx import amqp_errors
from simulator.broker.commands import Command, PauseDeliveries, ResumeDeliveries
from simulator.broker.replies import ConnectionClosed, Reply
from simulator.extras import is_installed
from simulator.server.amqp import connection as protocol
from simulator.server.amqp.connection import Connection, ServerSettings, is_loopback
from simulator.server.amqp.contents import DeliveryEncoder
from simulator.server.amqp.protocol_errors import ProtocolError
from simulator.server.node import Node
from simulator.server.tls import Handshakes, Secured, TlsFacts

if TYPE_CHECKING:
    from simulator.server.amqp10.connection import Connection as Amqp10Connection

COMMANDS_PER_TURN = 250
TURN_S = 0.02  # of wall time, for commands that take long each
HANDSHAKE_S = 10  # rabbit.handshake_timeout
SILENT_CLOSE_S = 3  # rabbit_reader.erl SILENT_CLOSE_DELAY
WRITE_HIGH_BYTES, WRITE_LOW_BYTES = 1 << 20, 1 << 18  # unsent bytes at which deliveries pause, and resume
BACKLOG_BYTES = 1 << 26  # unsent bytes at which the client is no longer read
LOOKS_AT_SENDING = 10  # in the time that a client may take nothing
_HEADER_BYTES = 8
_BACKLOG = 1024  # connections that wait to be accepted
_log = logging.getLogger(__name__)


def client_maker(node: Node) -> Callable[[Secured | None], AmqpClient]:
    """Return what makes the protocol of each new client of a node; with what is known of its TLS, if it uses it."""
    broker = node.broker
    speaks_amqp10 = broker.release.speaks_amqp_1_0 and is_installed("proton")
    settings = ServerSettings(
        release=broker.release,
        cluster_name=lambda: broker.cluster_name,
        message_max_bytes=broker.max_message_size,
        contents=DeliveryEncoder(broker.release),
        broker=broker,
        amqp10_headers=(protocol.AMQP_1_0, protocol.AMQP_1_0_SASL) if speaks_amqp10 else (),
    )
    numbers = count(1)
    return lambda secured: AmqpClient(node, settings, next(numbers), secured)


async def listen(
    client: Callable[[Secured | None], AmqpClient], host: str, port: int, handshakes: Handshakes | None = None
) -> asyncio.Server:
    """Serve AMQP on the address, with TLS if there are ``handshakes``; port 0 takes a free one. Raises ``OSError``."""
    loop = asyncio.get_running_loop()

    def protocol() -> asyncio.Protocol:
        return client(None) if handshakes is None else handshakes.protocol(client)

    return await loop.create_server(protocol, host, port, backlog=_BACKLOG)


class AmqpClient(asyncio.Protocol):
    """One client's socket; a ``simulator.server.node.Client``, where its attributes are documented."""

    protocol = "AMQP 0-9-1"

    def __init__(self, node: Node, settings: ServerSettings, number: int, secured: Secured | None = None) -> None:
        self.id = number
        self.name = self.peer_host = self.host = ""
        self.peer_port = self.port = 0
        self.connected_us = node.clock.now_us()
        self.received_bytes = self.received_packets = self.sent_bytes = self.sent_packets = 0
        self._node = node
        self._settings = settings
        self._secured = secured
        self._loop = asyncio.get_running_loop()
        self._work: Iterator[Command] | None = None
        self._header = b""
        self._unread = b""
        self._unread_because: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._heard = self._said = self._silent_ticks = 0
        self._taken_bytes = self._stuck_looks = 0

    # What the management API asks

    @property
    def state(self) -> str:
        """The state, by RabbitMQ's name."""
        return "blocked" if "alarm" in self._unread_because else self._connection.state

    @property
    def auth_mechanism(self) -> str:
        """Such as ``PLAIN``."""
        return self._connection.mechanism

    @property
    def user(self) -> str:
        """The user who logged in."""
        return self._connection.user

    @property
    def client_properties(self) -> Mapping[str, Any]:
        """The properties that the client gave of itself."""
        return self._connection.client_properties

    @property
    def container_id(self) -> str | None:
        """The container's name that a client of AMQP 1.0 gave; ``None`` for others."""
        return self._connection.container_id

    def sessions(self) -> list[dict[str, Any]] | None:
        """What the management API shows of the sessions of AMQP 1.0; ``None`` for other clients."""
        return self._connection.sessions()

    @property
    def channel_max(self) -> int:
        """As negotiated."""
        return self._connection.channel_max

    @property
    def frame_max(self) -> int:
        """As negotiated, in bytes."""
        return self._connection.frame_max

    @property
    def heartbeat_s(self) -> int:
        """As negotiated, in seconds."""
        return self._connection.heartbeat_s

    @property
    def pending_bytes(self) -> int:
        """The number of bytes that wait to be sent."""
        beneath = 0 if self._secured is None else self._secured.beneath.get_write_buffer_size()
        return self._transport.get_write_buffer_size() + beneath

    @property
    def tls(self) -> TlsFacts | None:
        """What is known of the connection's TLS; ``None`` without."""
        return None if self._secured is None else self._secured.facts

    @property
    def busy(self) -> bool:
        """Whether commands of the client wait to be run."""
        return self._work is not None

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving a client that connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        self.peer_host, self.peer_port = transport.get_extra_info("peername", ("", 0))[:2]
        self.host, self.port = transport.get_extra_info("sockname", ("", 0))[:2]
        self.name = f"{_address(self.peer_host, self.peer_port)} -> {_address(self.host, self.port)}"
        tls = self._node.tls
        self._external = self._certified if self.tls is not None and tls is not None and tls.login_from else None
        self._connection: Connection | Amqp10Connection = Connection(
            self.id, self.name, self._settings, self._authenticate, self._external
        )
        self._connection.publishers_wait = self._node.alarm.active
        self._node.connections[self.id] = self
        self._after(HANDSHAKE_S, "handshake", self._reset)

    def data_received(self, data: bytes) -> None:
        """Run the commands in bytes from the client, a turn at a time."""
        self.received_bytes += len(data)
        self.received_packets += 1
        self._node.alarm.received(len(data))
        if self._connection.state == protocol.PRE_INIT:
            data = self._choose_protocol(data)
        if self._work is None:
            self._work = self._connection.receive(data)
            self._turn()
        else:
            self._unread += data

    def _choose_protocol(self, data: bytes) -> bytes:
        """Speak the protocol whose header the client has sent; return the bytes that wait to be read."""
        self._header += data
        if len(self._header) >= _HEADER_BYTES and self._header[:_HEADER_BYTES] in self._settings.amqp10_headers:
            from simulator.server.amqp10.connection import Connection as Amqp10Connection

            self.protocol = "AMQP 1-0"
            self._connection = Amqp10Connection(self.id, self.name, self._settings, self._authenticate, self._external)
            self._connection.publishers_wait = self._node.alarm.active
            return self._header
        return data

    def pause_writing(self) -> None:
        """Pause deliveries to a client that does not read."""
        if self._connection.state == protocol.RUNNING:
            self._node.execute(PauseDeliveries(self.id))

    def resume_writing(self) -> None:
        """Resume deliveries to a client that reads again."""
        self._read_again("backlog")
        if self._connection.state == protocol.RUNNING:
            self._node.handle(ResumeDeliveries(self.id))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the broker and the node that the socket is closed, from either side."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._work = None
        self._node.connections.pop(self.id, None)
        self._tell_broker(self._connection.leave())
        self._node.settle()

    # Turns

    def _go_on(self) -> None:
        """Run the commands that came in before an alarm."""
        if self._work is None:
            data, self._unread = self._unread, b""
            self._work = self._connection.receive(data)
            self._turn()

    def _turn(self) -> None:
        """Run the next commands of the client."""
        if self._work is None:
            return
        execute, over = self._node.execute, False
        until_s = time.perf_counter() + TURN_S
        try:
            for done, command in enumerate(self._work, 1):
                execute(command)
                over = done == COMMANDS_PER_TURN or time.perf_counter() >= until_s
                if over:
                    break
        except Exception:
            _log.exception("connection %s: internal error", self.name)
            self._give_up()
        if over:
            self._do_not_read("turn")
            self._loop.call_soon(self._turn)
        elif self._unread and not self._connection.blocked:
            data, self._unread = self._unread, b""
            self._work = self._connection.receive(data)
            self._loop.call_soon(self._turn)
        else:
            self._work = None
            self._read_again("turn")
        self._node.has_output(self)
        self._node.settle()
        self._look()

    def _look(self) -> None:
        """Act on changes of the connection in a turn: its state, its end, publishing during an alarm."""
        connection = self._connection
        if connection.ending:
            self._end(connection.ending)
        elif connection.state == protocol.CLOSED:
            self._await_goodbye()
        elif "handshake" in self._timers and connection.state == protocol.RUNNING:
            self._timers.pop("handshake").cancel()
            if connection.heartbeat_s:
                self._after(connection.heartbeat_s / 2, "heartbeat", self._heartbeat)
        if connection.blocked and self._node.alarm.active:
            self._block()
        elif connection.blocked:  # the alarm has ended in the same turn
            connection.blocked = False
            self._loop.call_soon(self._go_on)

    def _end(self, how: str) -> None:
        if how == protocol.DONE:
            if not self._transport.is_closing():
                self._transport.close()
        elif how == protocol.RESET:
            self._reset()
        else:
            self._do_not_read("end")
            self._after(SILENT_CLOSE_S, "closing", self._reset)

    # What the node reports

    def reply(self, reply: Reply) -> None:
        """Encode a reply of the broker; ``flush`` sends it."""
        try:
            self._connection.reply(reply)
            if type(reply) is ConnectionClosed:
                self._loop.call_soon(self._look)
        except Exception:
            _log.exception("connection %s: cannot send %s", self.name, type(reply).__name__)
            self._loop.call_soon(self._give_up)

    def flush(self) -> None:
        """Send the bytes that wait."""
        data = self._connection.take()
        if not data or self._transport.is_closing():
            return
        self.sent_bytes += len(data)
        self.sent_packets += 1
        self._transport.write(data)
        for command in self._connection.follow_up():
            self._node.execute(command)
        if self.pending_bytes:
            if self.pending_bytes > BACKLOG_BYTES:
                self._do_not_read("backlog")
            if "sending" not in self._timers:
                self._stuck_looks = 0
                self._look_at_sending()

    def close(self, reason: str) -> None:
        """Close the connection as an operator does."""
        if self._connection.state == protocol.RUNNING:
            forced = amqp_errors.connection_closed_by_operator(reason)
            self._tell_broker(self._connection.close(forced.code, forced.text))
            self._node.has_output(self)
            self._await_goodbye()
            self._connection.blocked = False
            self._read_again("alarm")
            self._loop.call_soon(self._go_on)
        else:
            self._reset()

    def abort(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    def alarm_changed(self, active: bool) -> None:
        """Read blocked publishers again when the alarm ends. When it begins, each is blocked as it next publishes."""
        self._connection.publishers_wait = active
        blocked = not active and "alarm" in self._unread_because
        if blocked:
            self._connection.unblock()
        self.flush()
        if blocked:
            self._read_again("alarm")
            self._loop.call_soon(self._go_on)

    # Small things

    def _authenticate(self, user: str, password: str | None) -> bool:
        if password is None:
            fails = self._settings.release.amqplain_password_that_is_no_text == "drops the connection"
            if fails and user in self._node.broker.users:  # it looks for the user first
                raise ProtocolError(amqp_errors.unreadable_response())
            return False
        allowed = self._may_come_from_here(user) and self._node.broker.authenticated(user, password)
        if not allowed and self._node.recorder is not None:
            self._node.recorder.login_refused(user)
        return allowed

    def _certified(self) -> str | None:
        """Return the user whom the client's certificate names, if that user may log in; else the log says why not."""
        facts = self.tls
        assert facts is not None
        if facts.subject is None:
            why = "the client shows no certificate"
        elif facts.user is None:
            why = f"the certificate of {facts.subject} has no common name"
        elif facts.user not in self._node.broker.users:
            why = f"there is no user '{facts.user}'"
        elif not self._may_come_from_here(facts.user):
            why = f"user '{facts.user}' can only connect via localhost"
        else:
            return facts.user
        _log.warning("connection %s: EXTERNAL login refused: %s", self.name, why)
        return None

    def _may_come_from_here(self, user: str) -> bool:
        return user not in self._node.loopback_users or is_loopback(self.peer_host)

    def _block(self) -> None:
        if "alarm" not in self._unread_because:
            self._connection.block(f"low on {' & '.join(self._node.alarm.resources)}")
            self.flush()
            self._do_not_read("alarm")

    def _heartbeat(self) -> None:
        """Send a heartbeat each half interval if nothing else was sent; drop a client silent for two intervals."""
        self._after(self._connection.heartbeat_s / 2, "heartbeat", self._heartbeat)
        if self.sent_bytes == self._said:
            self._connection.heartbeat()
            self.flush()
        self._said = self.sent_bytes
        silent = self.received_bytes == self._heard and not self._unread_because
        self._heard, self._silent_ticks = self.received_bytes, self._silent_ticks + 1 if silent else 0
        if self._silent_ticks > 4 and self._connection.state == protocol.RUNNING:
            self._reset()

    def _look_at_sending(self) -> None:
        """Look as long as bytes wait whether the client takes any, and reset one that takes none for the send timeout.

        RabbitMQ leaves the bound to its socket library. Source: ranch_tcp.erl listen (send_timeout).
        """
        taken_bytes = self.sent_bytes - self.pending_bytes
        self._stuck_looks = self._stuck_looks + 1 if taken_bytes == self._taken_bytes else 0
        self._taken_bytes = taken_bytes
        if not self.pending_bytes:
            del self._timers["sending"]
        elif self._stuck_looks > LOOKS_AT_SENDING:
            self._reset()
        else:
            self._after(self._node.send_timeout_s / LOOKS_AT_SENDING, "sending", self._look_at_sending)

    def _give_up(self) -> None:
        """Close the connection after an error of our own, as RabbitMQ does when a process of its own crashes."""
        failure = amqp_errors.internal_error()
        self._tell_broker(self._connection.close(failure.code, failure.text))
        self._node.has_output(self)
        self._node.settle()
        self._look()

    def _tell_broker(self, command: Command | None) -> None:
        if command is None:
            return
        try:
            self._node.execute(command)
        except Exception:
            _log.exception("connection %s: cannot be closed in the broker", self.name)

    def _reset(self) -> None:
        """Drop the connection so that the client sees a reset, as RabbitMQ's do."""
        if self._transport.is_closing() and not self.pending_bytes:
            return
        connected: socket.socket | None = self._transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _await_goodbye(self) -> None:
        if "closing" not in self._timers:
            self._after(self._connection.patience_s, "closing", self._reset)

    def _after(self, seconds: float, name: str, act: Callable[[], None]) -> None:
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._loop.call_later(seconds, act)

    def _do_not_read(self, reason: str) -> None:
        self._unread_because.add(reason)
        self._transport.pause_reading()

    def _read_again(self, reason: str) -> None:
        if reason in self._unread_because:
            self._unread_because.remove(reason)
            if not self._unread_because:
                self._transport.resume_reading()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
