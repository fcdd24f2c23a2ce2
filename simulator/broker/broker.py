"""RabbitMQ as a state machine: a command and the time in, events out.

No sockets, no threads, no clock: ``handle`` is told the time, does what is due by
then and what was asked, and returns what came of it. The same commands give the
same events. ``next_due`` says when something will happen by itself.

A command runs to its end before anything it sets off: what queues send each other
(dead letters, traces) waits on an agenda, first come, first served, as messages
between RabbitMQ's processes do.
"""

from __future__ import annotations

import base64
import hashlib
import math
import random
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from dlx import amqp_errors
from dlx.releases import Release, release
from dlx.settings import effective_settings
from dlx.topology import QUORUM, STREAM, Queue
from simulator.broker import commands, snapshots
from simulator.broker.copies import Copy
from simulator.broker.operations import (
    access,
    ack_timeouts,
    acknowledgements,
    administration,
    connections,
    consuming,
    dead_letters,
    declaring,
    definitions_import,
    publishing,
    queues,
)
from simulator.broker.replies import ChannelClosed, ConnectionClosed, Reply
from simulator.broker.state import (
    Channel,
    Connection,
    Counters,
    Permissions,
    QueueState,
    User,
    VirtualHost,
)
from simulator.broker.stores.classic import ClassicStore
from simulator.broker.stores.quorum import QuorumStore
from simulator.broker.stores.store import Store
from simulator.broker.stores.stream import StreamStore
from simulator.broker.timers import Timers
from simulator.events import Event, Happened

# A loop of dead letters must not hang the caller: what is left of so many steps waits for the next millisecond,
# and what has gone on through so many milliseconds waits for the next call.
STEPS_IN_ONE_INSTANT = 100_000
STEPS_FOR_EACH = 10  # where more than that many messages die at once
INSTANTS_IN_ONE_CALL = 3
_FORMAT = "dlx broker snapshot 2"
_Handler = Callable[["Broker", Any], None]


class Broker:
    """One RabbitMQ node.

    Attributes:
        release: the release whose behaviour it has.
        vhosts, users, connections, channels: its state, to read.
        node: the node's name, as traces show it.
        cut_short: whether there was ever too much to do in one instant, so that some of it happened later.
        max_message_size: the largest body that a publish may carry, in bytes.
        hand_out_max: how many messages one ``handle`` hands to consumers at most; the rest are due at once, so that
            a driver can do something else between. No limit by default.

    Args:
        of: a release or its name.
        watch: the events about messages to report; unwatched ones cost nothing.
        node: the node's name.
    """

    def __init__(
        self, of: Release | str = "4.3", *, watch: Iterable[Event] = (), node: str = "rabbit@localhost"
    ) -> None:
        self.release = release(of) if isinstance(of, str) else of
        self.node = node
        self.max_message_size = self.release.max_message_size
        self.watched: frozenset[Event] = frozenset(watch)
        self.now_us = 0
        self.vhosts: dict[str, VirtualHost] = {}
        self.users: dict[str, User] = {}
        self.connections: dict[Hashable, Connection] = {}
        self.channels: dict[Hashable, Channel] = {}
        self.reply_keys: dict[str, Any] = {}
        self.hand_out_max: float = math.inf
        self.handed_out = 0
        self.timers = Timers()
        self.agenda: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._overruns = self._until_us = 0
        self.cut_short = False
        self._resting = False
        self.out: list[Reply | Happened] = []
        self.last_uid = 0
        self._serial = 0
        self._names = 0
        self.random = random.Random(0)
        self._furnish()

    def _furnish(self) -> None:
        """What a fresh server has: the user guest, and the virtual host ``/`` with all permissions for it."""
        self.users["guest"] = User("guest", "guest", ("administrator",))
        self.act(commands.AddVhost("/"))
        self.grant_everything("/")

    def grant_everything(self, vhost: str) -> None:
        """Let the administrators into a virtual host that has just come to be."""
        for user in self.users.values():
            if "administrator" in user.tags:
                user.permissions[vhost] = Permissions(".*", ".*", ".*")

    # The state machine

    def handle(self, command: commands.Command, now_us: int) -> list[Reply | Happened]:
        """Do what is due by ``now_us`` (microseconds since 1970), then the command; what came of it.

        A client's command that RabbitMQ refuses is answered by ``ChannelClosed`` or
        ``ConnectionClosed``. Raises ``simulator.broker.operator_errors.OperatorError`` for an
        operator's command that it refuses; what came of it and of the time that passed is reported
        by the next call, due at once. Time never goes back: an earlier ``now_us`` counts as the latest.
        """
        self._until_us = now_us
        self.handed_out = 0
        due = self.timers.next_due()
        if due is not None and due <= now_us:
            self._catch_up(now_us)
        if now_us > self.now_us:
            self.now_us = now_us
        try:
            HANDLERS[type(command)](self, command)
        except amqp_errors.Refusal as refusal:
            self._refuse(command, refusal)
        finally:
            if self.agenda:
                self._work_off()
        out, self.out = self.out, []
        return out

    def act(self, command: commands.Command) -> None:
        """Carry out a command as part of another."""
        HANDLERS[type(command)](self, command)

    def next_due(self) -> int | None:
        """When something will happen by itself, microseconds since 1970; ``None``: never."""
        return self.now_us if self.out else self.timers.next_due()

    def _catch_up(self, now_us: int) -> None:
        """Do all that is due, each thing at its own time."""
        while self.handed_out < self.hand_out_max and (deadline := self.timers.pop(now_us)) is not None:
            due_us, _, kind, subject = deadline
            if due_us > self.now_us:
                self.now_us = due_us
            TIMERS[kind](self, due_us, subject)
            if self.agenda:
                self._work_off()

    def _work_off(self) -> None:
        agenda = self.agenda
        if self._resting:
            return
        enough = 0 if self._overruns else STEPS_FOR_EACH * len(agenda)  # a loop that multiplies must not set it
        for _ in range(max(STEPS_IN_ONE_INSTANT, enough)):
            if not agenda:
                self._overruns = 0
                return
            step, arguments = agenda.popleft()
            step(self, *arguments)
        self.cut_short = True
        self._overruns += 1
        since_us = self.now_us if self._overruns < INSTANTS_IN_ONE_CALL else max(self.now_us, self._until_us)
        self._resting = True
        self.timers.set(since_us + 1_000, "agenda", None)

    def _refuse(self, command: Any, refusal: amqp_errors.Refusal) -> None:
        # An internal error is a crash: by then nobody knows the method any more.
        method = "" if refusal.code == 541 else METHODS.get(type(command), "")
        if isinstance(command, commands.OpenConnection):
            self.out.append(ConnectionClosed(command.connection, refusal.code, refusal.text, method))
            return
        connection, number = command.channel
        channel = self.channels.get(command.channel)
        if refusal.ends_connection or channel is None:
            self.out.append(ConnectionClosed(connection, refusal.code, refusal.text, method, number))
            connections.close_connection(self, commands.CloseConnection(connection))
        else:
            self.out.append(ChannelClosed(channel.id, refusal.code, refusal.text, method))
            connections.lose_channel(self, channel)

    # Snapshots

    def snapshot(self) -> bytes:
        """The whole state; opaque, for ``restore`` of the same version."""
        for channel in self.channels.values():
            channel.publishes.clear()
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                queue.letters.clear()
        return snapshots.dumped((_FORMAT, self))

    @classmethod
    def restore(cls, snapshot: bytes) -> Broker:
        """The broker that ``snapshot`` was taken of. Restore only what you saved yourself (it is a pickle).

        Raises ``ValueError`` for what is no snapshot of this version.
        """
        try:
            form, broker = snapshots.loaded(snapshot)
        except Exception as error:  # a pickle of anything raises anything
            raise ValueError(f"no snapshot of this version: {error}") from error
        if form != _FORMAT or not isinstance(broker, cls):
            raise ValueError(f"no snapshot of this version: it is {form!r}, not {_FORMAT!r}")
        return broker

    # Those who drive it

    def authenticated(self, user: str, password: str) -> bool:
        """Whether the user exists with that password."""
        known = self.users.get(user)
        return known is not None and known.password == password

    def watch(self, events: Iterable[Event]) -> None:
        """Report these events, too."""
        self.watched = self.watched | frozenset(events)

    def happened(
        self, event: Event, where: QueueState | VirtualHost, copy: Copy, *, reason: str | None = None, detail: str = ""
    ) -> None:
        """Report something that happened to a copy. Ask ``watched`` first: most events nobody wants."""
        queue = where if isinstance(where, QueueState) else None
        self.out.append(
            Happened(
                event=event,
                time_us=self.now_us,
                vhost=where.name if queue is None else queue.vhost.name,
                uid=copy.uid,
                queue=None if queue is None else queue.name,
                exchange=copy.message.exchange,
                routing_keys=copy.message.routing_keys,
                reason=reason,
                detail=detail,
            )
        )

    # What the broker's own modules share

    def channel(self, key: Any) -> Channel:
        """The open channel; a method on one that is not open ends the connection."""
        found = self.channels.get(key)
        if found is None:
            raise amqp_errors.Refusal(504, "expected 'channel.open'")
        return found

    def queue(self, channel: Channel, name: str) -> QueueState:
        """The queue, if it exists and is no other connection's."""
        vhost = channel.connection.vhost
        found = vhost.queues.get(name)
        if found is None:
            raise amqp_errors.no_queue(name, vhost.name)
        access.check_exclusive(found, channel.connection)
        return found

    def add_queue(self, vhost: VirtualHost, definition: Queue, owner: Connection | None) -> QueueState:
        """Create a queue; its settings follow from arguments and policies."""
        vhost.definitions[definition.name] = definition
        settings = effective_settings(definition, vhost.topology, self.release)
        queue = QueueState(definition, vhost, settings, _store(settings), owner)
        queue.single_active = definition.arguments.get("x-single-active-consumer") is True
        vhost.queues[definition.name] = queue
        vhost.generation += 1
        if owner is not None:
            owner.exclusive_queues[definition.name] = queue
        self.used(queue)
        return queue

    def delete_queue(self, queue: QueueState) -> None:
        """Delete a queue with what is in it; nothing of that is dead-lettered."""
        vhost = queue.vhost
        if queue.deleted:
            return
        queue.deleted = True
        del vhost.queues[queue.name], vhost.definitions[queue.name]
        if queue.owner is not None:
            queue.owner.exclusive_queues.pop(queue.name, None)
        declaring.forget_queue(vhost, queue.name)
        consuming.notify_gone(self, queue)
        if queue.definition.type != STREAM:
            queues.lose(self, queue, "the queue was deleted")

    def used(self, queue: QueueState) -> None:
        """The queue was used: x-expires counts from now, unless there are consumers."""
        queue.unused_since_us = self.now_us
        self.expire_unused(queue)

    def expire_unused(self, queue: QueueState) -> None:
        """Have the queue deleted when it has been unused for as long as x-expires says."""
        expires_ms = queue.settings.expires_ms
        if expires_ms is not None and not queue.in_use and not queue.deleted:
            due_us = max(queue.unused_since_us + expires_ms * 1_000, self.now_us)
            if queue.unused_due_us is None or due_us < queue.unused_due_us:
                queue.unused_due_us = due_us
                self.timers.set(due_us, "unused", queue)

    def look_after(self, queue: QueueState) -> None:
        """See to it that the queue is looked after when its next message expires or wakes."""
        due_us = queue.store.due_us()
        if due_us is not None and (queue.due_us is None or due_us < queue.due_us):
            queue.due_us = due_us = max(due_us, self.now_us)
            self.timers.set(due_us, "queue", queue)

    def exchange_counters(self, vhost: VirtualHost, name: str) -> Counters:
        """The counters of an exchange."""
        return vhost.exchange_counters.setdefault(name, Counters())

    def choose(self, count: int) -> int:
        """One of so many, at random; the same ones in every run."""
        return self.random.randrange(count)

    def next_serial(self) -> int:
        """A number for a channel or consumer; later ones are larger."""
        self._serial += 1
        return self._serial

    def generated_name(self, prefix: str) -> str:
        """A name such as ``amq.gen-JzTY20BRgKO-HjmUJj0wLg``; the same ones in every run."""
        self._names += 1
        digest = hashlib.blake2b(f"{prefix}{self._names}".encode(), digest_size=16).digest()
        return f"{prefix}-{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _store(settings: Any) -> Store:
    kinds: dict[str, type] = {QUORUM: QuorumStore, STREAM: StreamStore}
    store: Store = kinds.get(settings.queue.type, ClassicStore)(settings)
    return store


# Deadlines


def _queue_due(broker: Broker, due_us: int, queue: QueueState) -> None:
    if queue.due_us == due_us:
        queue.due_us = None
    if not queue.deleted:
        queue.store.awake(broker.now_us)
        queues.evaluate(broker, queue)
        broker.look_after(queue)


def _queue_unused(broker: Broker, due_us: int, queue: QueueState) -> None:
    if queue.unused_due_us != due_us:
        return
    queue.unused_due_us = None
    expires_ms = queue.settings.expires_ms
    if queue.deleted or queue.in_use or expires_ms is None:
        return
    if queue.unused_since_us + expires_ms * 1_000 <= due_us:
        broker.delete_queue(queue)
    else:
        broker.expire_unused(queue)


def _retry(broker: Broker, _due_us: int, queue: QueueState) -> None:
    queue.retrying = False
    if not queue.deleted:
        dead_letters.retry(broker, queue)


def _agenda_due(broker: Broker, _due_us: int, _subject: None) -> None:
    """What was left over is worked off after this."""
    broker._resting = False


TIMERS: dict[str, Callable[[Broker, int, Any], None]] = {
    "queue": _queue_due,
    "unused": _queue_unused,
    "retry": _retry,
    "acknowledgement": ack_timeouts.due,
    "agenda": _agenda_due,
}


def _pass_time(_broker: Broker, _command: commands.PassTime) -> None:
    """What was due has happened before any command."""


HANDLERS: dict[type, _Handler] = {
    commands.Publish: publishing.publish,
    commands.Ack: acknowledgements.ack,
    commands.Nack: acknowledgements.nack,
    commands.Reject: acknowledgements.reject,
    commands.Recover: acknowledgements.recover,
    commands.Get: consuming.get,
    commands.Consume: consuming.consume,
    commands.Cancel: consuming.cancel,
    commands.Qos: consuming.qos,
    commands.SetFlow: consuming.set_flow,
    commands.SelectConfirms: publishing.select_confirms,
    commands.SelectTransactions: publishing.select_transactions,
    commands.Commit: publishing.commit,
    commands.Rollback: publishing.rollback,
    commands.DeclareExchange: declaring.declare_exchange,
    commands.DeleteExchange: declaring.delete_exchange,
    commands.BindExchange: declaring.bind_exchange,
    commands.UnbindExchange: declaring.unbind_exchange,
    commands.DeclareQueue: declaring.declare_queue,
    commands.BindQueue: declaring.bind_queue,
    commands.UnbindQueue: declaring.unbind_queue,
    commands.PurgeQueue: declaring.purge_queue,
    commands.DeleteQueue: declaring.delete_queue,
    commands.OpenConnection: connections.open_connection,
    commands.CloseConnection: connections.close_connection,
    commands.OpenChannel: connections.open_channel,
    commands.CloseChannel: connections.close_channel,
    commands.PauseDeliveries: connections.pause,
    commands.ResumeDeliveries: connections.resume,
    commands.AddVhost: administration.add_vhost,
    commands.DeleteVhost: administration.delete_vhost,
    commands.AddUser: administration.add_user,
    commands.DeleteUser: administration.delete_user,
    commands.SetPermissions: administration.set_permissions,
    commands.ClearPermissions: administration.clear_permissions,
    commands.SetTopicPermissions: administration.set_topic_permissions,
    commands.ClearTopicPermissions: administration.clear_topic_permissions,
    commands.SetPolicy: administration.set_policy,
    commands.ClearPolicy: administration.clear_policy,
    commands.ImportDefinitions: definitions_import.import_definitions,
    commands.SetTracing: administration.set_tracing,
    commands.PassTime: _pass_time,
}

# The protocol's name of the method behind a command, as errors name it.
METHODS: dict[type, str] = {
    commands.Publish: "basic.publish",
    commands.Ack: "basic.ack",
    commands.Nack: "basic.nack",
    commands.Reject: "basic.reject",
    commands.Recover: "basic.recover",
    commands.Get: "basic.get",
    commands.Consume: "basic.consume",
    commands.Cancel: "basic.cancel",
    commands.Qos: "basic.qos",
    commands.SetFlow: "channel.flow",
    commands.SelectConfirms: "confirm.select",
    commands.SelectTransactions: "tx.select",
    commands.Commit: "tx.commit",
    commands.Rollback: "tx.rollback",
    commands.DeclareExchange: "exchange.declare",
    commands.DeleteExchange: "exchange.delete",
    commands.BindExchange: "exchange.bind",
    commands.UnbindExchange: "exchange.unbind",
    commands.DeclareQueue: "queue.declare",
    commands.BindQueue: "queue.bind",
    commands.UnbindQueue: "queue.unbind",
    commands.PurgeQueue: "queue.purge",
    commands.DeleteQueue: "queue.delete",
    commands.OpenConnection: "connection.open",
    commands.OpenChannel: "channel.open",
}
