"""One running node: the broker, its clock and its clients, in the thread of one event loop.

The AMQP server and the management API both drive the broker through ``Node.handle``,
so the effects of a command reach the right client, whoever gave it. Call nothing here
from another thread; ``simulator.server.in_process.Server`` is for that.

Long work is done in slices: what is due and what commands set off goes on from slice to
slice in the event loop, and ``carry_out`` and ``pass_time`` wait for its end without
holding up anybody. Between two slices clients' commands are carried out, as on a server
whose queues are busy; what was set off first is done first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

from simulator.broker import Broker, Channel, Connection, VirtualHost, replies
from simulator.broker.commands import Command, PassTime
from simulator.broker.replies import Reply
from simulator.clock import Clock, VirtualClock
from simulator.events import Happened
from simulator.server.alarm import Alarm
from simulator.server.faults.fault import Fault
from simulator.server.faults.striking import Faults, SetFault
from simulator.server.tls import Tls, TlsFacts

MEMORY_LIMIT_BYTES = 1 << 30
SEND_TIMEOUT_S: float = 30  # tcp_listen_options.send_timeout, as ranch sets it for RabbitMQ
HAND_OUT_MAX = 1_000  # then other clients have their turn
SLICE_S = 0.01  # of wall time; the answer to a request takes a few turns of the event loop
STEPS_WITH_A_COMMAND_MAX = 100
YEAR_10000_US = 253_402_300_800_000_000
_SHUTDOWN = "broker forced connection closure with reason 'shutdown'"


class Client(Protocol):
    """A network client, as the node and the management API see it.

    Attributes:
        id: of its connection in the broker (``broker.connections[id]``).
        name: such as ``127.0.0.1:50000 -> 127.0.0.1:5672``.
        protocol: such as ``AMQP 0-9-1``.
        peer_host, peer_port: the client's end.
        host, port: the server's end.
        connected_us: microseconds since 1970, by the node's clock.
        state: ``starting``, ``running``, ``blocked``, ``closing`` ...: RabbitMQ's names.
        auth_mechanism: such as ``PLAIN``.
        user: the authenticated user, "" before.
        client_properties: as the client gave them.
        container_id: of a client of AMQP 1.0, whose ``sessions()`` are described; ``None`` for others.
        channel_max, frame_max, heartbeat_s: as negotiated.
        received_bytes, received_packets, sent_bytes, sent_packets: counters.
        pending_bytes: bytes that wait to be sent.
        busy: whether commands of the client wait to be run.
        tls: what is known of the connection's TLS; ``None`` without.
    """

    id: int
    name: str
    protocol: str
    peer_host: str
    peer_port: int
    host: str
    port: int
    connected_us: int
    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int

    @property
    def state(self) -> str: ...

    @property
    def auth_mechanism(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def client_properties(self) -> Mapping[str, Any]: ...

    @property
    def container_id(self) -> str | None: ...

    def sessions(self) -> list[dict[str, Any]] | None: ...

    @property
    def channel_max(self) -> int: ...

    @property
    def frame_max(self) -> int: ...

    @property
    def heartbeat_s(self) -> int: ...

    @property
    def pending_bytes(self) -> int: ...

    @property
    def busy(self) -> bool: ...

    @property
    def tls(self) -> TlsFacts | None: ...

    def reply(self, reply: Reply) -> None:
        """Take a reply of the broker; the bytes wait for ``flush``."""

    def flush(self) -> None:
        """Hand the waiting bytes to the transport."""

    def alarm_changed(self, active: bool) -> None:
        """Act on an alarm, which began or ended."""

    def close(self, reason: str) -> None:
        """Close the connection for an operator (320 CONNECTION_FORCED)."""

    def abort(self) -> None:
        """Drop the connection."""


class ClientObserver(Protocol):
    """Sees what clients and operators do with a node."""

    def command(self, command: Command) -> None:
        """See a command that the broker is about to carry out."""

    def reply(self, reply: Reply) -> None:
        """See a reply before its client gets it."""

    def login_refused(self, user: str) -> None:
        """See that a client could not log in."""


class Node:
    """A broker with its clock and clients.

    Attributes:
        broker: the state machine, to read; commands go through ``handle``.
        clock: tells the time.
        connections: the clients by the ``id`` of their connections.
        started_us: when the node started, by its clock.
        amqp_port, management_port, metrics_port: the ports of these listeners without TLS; 0 without one.
        tls: how the node uses TLS, with the ports of the listeners that do; ``None`` without.
        alarm: whether publishers must wait.
        faults: what goes wrong on request.
        changes: tells when something may have changed.
        loopback_users: the users who may log in from this machine only.
        recorder: sees all that clients do, if there is one.
        operator: name and password of who operates the node from this machine, as rabbitmqctl does; no user of the
            broker. Nobody without a password.
        send_timeout_s: how long, in seconds of wall time, a client may take none of the bytes sent to it.
        slice_s: how long, in seconds of wall time, work goes on before others have their turn.

    Args:
        loop: runs what becomes due by itself; without it, that waits for the next ``handle``.
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
        send_timeout_s: float = SEND_TIMEOUT_S,
    ) -> None:
        if send_timeout_s <= 0:
            raise ValueError(f"expected a send timeout of more than 0 seconds, got {send_timeout_s}")
        self.broker = broker
        broker.hand_out_max = HAND_OUT_MAX
        self.clock = clock
        self.connections: dict[Hashable, Client] = {}
        self.started_us = clock.now_us()
        self.amqp_port = self.management_port = self.metrics_port = 0
        self.tls: Tls | None = None
        self.alarm = Alarm(broker, memory_limit_bytes)
        self.faults = Faults(broker, self.alarm)
        self.changes = Changes()
        self.recorder: ClientObserver | None = None
        self.loopback_users: frozenset[str] = frozenset({"guest"})
        self.operator = ("", "")
        self.send_timeout_s = send_timeout_s
        self.slice_s = SLICE_S
        self._work: Iterator[None] | None = None
        self._time_passes = asyncio.Lock()
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due_us: int | None = None
        self._dirty: dict[Client, None] = {}

    def handle(self, command: Command) -> list[Reply | Happened]:
        """Run a command at the clock's time and send its effects to the AMQP clients.

        Returns the rest: replies on channels that belong to no AMQP client (the caller
        opened them), and the events about messages that the broker is asked to watch.
        Raises ``OperatorError`` as ``Broker.handle`` does.
        """
        try:
            return self.execute(command)
        finally:
            self.settle()

    def execute(self, command: Command) -> list[Reply | Happened]:
        """Do as ``handle``, but send nothing yet: call ``settle`` after the last of several commands."""
        agenda = self.broker.state.agenda
        if not self.busy:
            self._go_on()
        before = len(agenda)
        if self.recorder is not None:
            self.recorder.command(command)
        try:
            refusal = self.faults.refusal(command) if self.faults.active else None
            if refusal is not None:
                self.broker.refuse(command, refusal)
            else:
                rest = self.broker.start(command, self.clock.now_us())
                if rest is not None:
                    for _ in rest:
                        pass
        finally:
            if self._work is None:
                self._go_on()
            else:  # the more a client sets off, the more of what waits is done: it must not pile up
                for _ in islice(self._work, min(max(len(agenda) - before, 0), STEPS_WITH_A_COMMAND_MAX)):
                    pass
        return self._hand_out()

    async def carry_out(self, command: Command) -> list[Reply | Happened]:
        """Do as ``handle``, in slices: return when the command and all that it set off is done."""
        others: list[Reply | Happened] = []
        self._go_on()
        if self.recorder is not None:
            self.recorder.command(command)
        try:
            rest = self.broker.start(command, self.clock.now_us())
            while rest is not None and self._is_cut_short(rest):
                others += self._hand_out()
                self.settle()
                await asyncio.sleep(0)
        finally:
            self._go_on()
            others += self._hand_out()
            self.settle()
        await self.caught_up()
        return others

    @property
    def busy(self) -> bool:
        """Whether work that was begun waits for its next slice."""
        return self._work is not None

    async def caught_up(self) -> None:
        """Return when nothing waits for its next slice."""
        while self.busy:
            await asyncio.sleep(0)

    def _go_on(self, *, whole: bool = False) -> None:
        """Do what is due and what commands set off, for one slice, or the whole of it."""
        if self._work is None:
            now_us = self.clock.now_us()
            if not self.broker.overdue(now_us):
                return
            self._work = self.broker.catching_up(now_us)
        if not self._is_cut_short(self._work, whole=whole or self._loop is None):
            self._work = None
        if isinstance(self.clock, VirtualClock):
            self.clock.jump(self.broker.now_us)  # while time is made to pass, the broker is ahead

    def _is_cut_short(self, steps: Iterator[None], *, whole: bool = False) -> bool:
        """Take steps for a slice, or all; return whether any may be left."""
        until_s = time.perf_counter() + self.slice_s
        return any(not whole and time.perf_counter() >= until_s for _ in steps)

    def _hand_out(self) -> list[Reply | Happened]:
        """Give the broker's replies to the clients, and return the others."""
        connections, dirty, recorder = self.connections, self._dirty, self.recorder
        others: list[Reply | Happened] = []
        for event in self._taken():
            kind = type(event)
            if recorder is not None and kind in _REPLIES:
                recorder.reply(event)  # type: ignore[arg-type]
            if kind in _OF_CHANNELS:
                client = connections.get(event.channel[0])  # type: ignore[union-attr]
            else:
                client = connections.get(event.connection) if kind in _OF_CONNECTIONS else None  # type: ignore[union-attr]
            if client is None:
                if kind is not replies.Reminded:
                    others.append(event)
            else:
                client.reply(event)  # type: ignore[arg-type]
                dirty[client] = None
        return others

    def _taken(self) -> Iterator[Reply | Happened]:
        """Yield the broker's replies and events, as faults leave them."""
        while taken := self.broker.taken():
            yield from self.faults.passed(taken) if self.faults.active else taken

    def set_fault(self, fault: Fault) -> SetFault:
        """Have something go wrong from now on."""
        found = self.faults.set(fault)
        self.settle()
        return found

    def clear_faults(self, number: int | None = None) -> None:
        """Have nothing more go wrong, or not the fault of that number."""
        self.faults.clear(number)
        self.settle()

    def has_output(self, client: Client) -> None:
        """Note that the client has something to send at the next ``settle``."""
        self._dirty[client] = None

    def settle(self) -> None:
        """Send the bytes that wait, and set the timer for the next thing that is due."""
        dirty = self._dirty
        while dirty:
            dirty.popitem()[0].flush()
        if self.alarm.check():
            for client in list(self.connections.values()):
                client.alarm_changed(self.alarm.active)
        self.changes.note()
        self._arm()

    def close_connection(self, connection: Hashable, reason: str) -> bool:
        """Close a client's connection for an operator; return whether there is a connection of that ``id``."""
        client = self.connections.get(connection)
        if client is None:
            return False
        client.close(reason)
        self.settle()
        return True

    def advance(self, us: int) -> int:
        """Move a virtual clock forward by microseconds, do all that became due, and return the new time.

        Raises ``TypeError`` if the clock is not virtual, and ``ValueError`` beyond the year 9999.
        """
        until_us = self.later_us(us)
        while self.faults.active and self.advance_to_output(until_us):
            pass
        self._virtual().jump(until_us)
        self._catch_up()
        return self.clock.now_us()

    async def pass_time(self, us: int) -> int:
        """Do as ``advance``, in slices: meanwhile it is as late for everybody as what was due has been done."""
        async with self._time_passes:
            await self._pass_until(self.later_us(us))
        return self.clock.now_us()

    async def _pass_until(self, until_us: int) -> None:
        await self.caught_up()
        while (due_us := self.broker.next_due()) is not None and due_us <= until_us:
            # A fault counts from when something is sent: all that happens in one instant is sent before the next.
            self._work = self.broker.catching_up(due_us if self.faults.active else until_us)
            self._wake()
            await self.caught_up()
        self._virtual().jump(until_us)
        self._wake()
        await self.caught_up()

    def advance_to_output(self, until_us: int, stop: Callable[[Node], bool] = lambda _: False) -> bool:
        """Advance from deadline to deadline, until something is sent to clients, ``stop``, or it is ``until_us``.

        Returns whether it is earlier than that; call this again when clients had their turn.
        """
        clock, sent = self._virtual(), self._sent_packets()
        until_s = time.perf_counter() + self.slice_s
        while (due_us := self.broker.next_due()) is not None and due_us <= until_us:
            clock.jump(due_us)
            self._catch_up()
            if self._sent_packets() != sent or stop(self) or time.perf_counter() >= until_s:
                return True
        clock.jump(until_us)
        self._catch_up()
        return False

    def later_us(self, us: int) -> int:
        """Return the virtual time that many microseconds later. Raises ``ValueError`` beyond the year 9999."""
        later_us = self._virtual().now_us() + us
        if later_us >= YEAR_10000_US:
            raise ValueError("time can be moved up to the end of the year 9999, which would have passed")
        return later_us

    def _sent_packets(self) -> int:
        return sum(client.sent_packets for client in self.connections.values())

    def jump(self) -> bool:
        """Move a virtual clock to the next thing that happens by itself; return whether there was one."""
        jumped = self._virtual().jump(self.broker.next_due())
        self._catch_up()
        return jumped

    async def pass_to_next(self) -> bool:
        """Do as ``jump``, in slices."""
        async with self._time_passes:
            clock, due_us = self._virtual(), self.broker.next_due()
            ahead = due_us is not None and due_us > clock.now_us()
            await self._pass_until(clock.now_us() if due_us is None else due_us)
        return ahead

    def _catch_up(self) -> None:
        """Do everything that is due."""
        self._disarm()  # a running clock is nearer to its deadline than the timer knows
        self._go_on(whole=True)
        self.handle(PassTime())
        while (due_us := self.broker.next_due()) is not None and due_us <= self.clock.now_us():
            self._go_on(whole=True)
            self.handle(PassTime())

    def run_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let this event loop run what becomes due, from now on."""
        self._loop = loop
        self._arm()

    def stop(self) -> None:
        """Close the connections of all clients; nothing happens by itself any more."""
        self.changes.end()
        self._loop = None
        self._disarm()
        for client in list(self.connections.values()):
            client.close(_SHUTDOWN)
        self.settle()
        for client in list(self.connections.values()):
            client.abort()

    def _virtual(self) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise TypeError("wall time cannot be moved: serve with a virtual clock")
        return self.clock

    def _arm(self) -> None:
        due_us = self.broker.now_us if self.busy else self.broker.next_due()
        if due_us == self._due_us:
            return
        self._disarm()
        wait_s = None if due_us is None or self._loop is None else self.clock.wait_s(due_us)
        if wait_s is not None and self._loop is not None:
            self._due_us = due_us
            self._timer = self._loop.call_later(wait_s, self._wake)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._due_us = None

    def _wake(self) -> None:
        """Do what is due, for one slice."""
        self._disarm()
        self._go_on()
        self.broker.start(PassTime(), self.clock.now_us())
        self._hand_out()
        self.settle()


_REPLIES = frozenset(Reply.__subclasses__())
_OF_CONNECTIONS = frozenset({replies.ConnectionClosed})
_OF_CHANNELS = _REPLIES - _OF_CONNECTIONS - {replies.Reminded}

# Notifies waiting threads that something may have changed on a node, or that the node has stopped.


class Changes:
    """Counts what may have been changes. All of it is called in the node's event loop.

    Attributes:
        number: how many there were.
        followers: how many are waiting for the next, again and again.
        ended: whether the node has stopped, so that there will be no more.
    """

    def __init__(self) -> None:
        self.number = 0
        self.followers = 0
        self.ended = False
        self._next: asyncio.Future[None] | None = None

    def note(self) -> None:
        """Count one, and wake those who wait for it."""
        self.number += 1
        waited, self._next = self._next, None
        if waited is not None and not waited.done():
            waited.set_result(None)

    def end(self) -> None:
        """Release all that wait, for good."""
        self.ended = True
        self.note()

    async def after(self, number: int, timeout_s: float) -> bool:
        """Return whether there are more than ``number``; wait for that, but no longer than the seconds of wall time."""
        if self.number == number and not self.ended:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._next], timeout=timeout_s)
        return self.number != number


# How many messages and objects a node has, as the management API and the metrics show them.


def is_network_client(client: Client) -> bool:
    """Return whether lists and counts show the client; they leave out the management API's own connections."""
    return client.protocol.startswith("AMQP")


def channels_of(client: Client, connection: Connection) -> list[Channel]:
    """Return the channels of a connection; the sessions of AMQP 1.0 are none."""
    return list(connection.channels.values()) if client.container_id is None else []


def message_totals(vhosts: Collection[VirtualHost]) -> dict[str, int]:
    """Return how many messages are in the queues, by RabbitMQ's names; empty where there are no queues."""
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    if not queues:
        return {}
    not_empty = [queue for queue in queues if queue.messages or queue.unacked]
    return {
        "messages": sum(queue.messages for queue in not_empty),
        "messages_ready": sum(queue.messages_ready for queue in not_empty),
        "messages_unacknowledged": sum(queue.unacked for queue in not_empty),
    }


def object_totals(vhosts: Collection[VirtualHost], node: Node) -> dict[str, int]:
    """Return how many exchanges, queues and consumers the virtual hosts have, and how many clients the node."""
    connections = [
        node.broker.connections[key]
        for key, client in node.connections.items()
        if key in node.broker.connections and is_network_client(client)
    ]
    return {
        "channels": sum(len(channels_of(node.connections[each.id], each)) for each in connections),
        "connections": len(connections),
        "consumers": sum(len(queue.consumers) for vhost in vhosts for queue in vhost.queues.values()),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
    }
