"""RabbitMQ as a state machine: a command and the time in, events out.

No sockets, no threads, no clock: ``handle`` gets the time, does what is due by
then and what the command asks, and returns the result. The same commands give the
same events. ``next_due`` says when something will happen by itself.

A command runs to its end before anything it sets off: what queues send each other
(dead letters, traces) waits on an agenda, first come, first served, as messages
between RabbitMQ's processes do.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Self

from dlx import passwords
from dlx.amqp_errors import Refusal
from dlx.global_counters import Series, accounts, by_protocol, of_queues
from dlx.releases import DEFAULT, Release, release
from dlx.server_plugins import PLUGINS
from simulator.broker import agenda, commands
from simulator.broker.copies import Copy
from simulator.broker.dispatch import OPERATIONS, Steps, end, refuse
from simulator.broker.operations import administration, delayed_exchanges, exchanges, users
from simulator.broker.replies import Reply
from simulator.broker.state import (
    Channel,
    Connection,
    Counters,
    DelayedMessage,
    NodeState,
    Observer,
    QueueState,
    User,
    VirtualHost,
)
from simulator.events import Event, Happened

_ALL = frozenset(Event)


class Broker:
    """One RabbitMQ node.

    Attributes:
        state: all that it remembers, to read.

    Args:
        of: a release or its name.
        watch: the events about messages to report; unwatched ones cost nothing.
        node: the node's name.
        plugins: the plugins that are enabled, by RabbitMQ's names (``dlx.server_plugins``).
        peers: the other servers that shovels reach, as ``HOST:PORT``. Who drives the broker moves the messages of these
            shovels and reports on them (``ReportShovel``).
        observer: takes each event as it comes, with the message as it was then, whatever ``watch`` says.
            It must not raise: the step that it interrupts would be left half done.
    """

    def __init__(
        self,
        of: Release | str = DEFAULT,
        *,
        watch: Iterable[Event] = (),
        node: str = "rabbit@localhost",
        plugins: frozenset[str] = frozenset(),
        peers: frozenset[str] = frozenset(),
        observer: Observer | None = None,
    ) -> None:
        rules = release(of) if isinstance(of, str) else of
        self.state = NodeState(rules, node, rules.max_message_size, plugins, peers)
        self.watch(watch)
        self.observe(observer)
        self._begin()

    def _begin(self) -> None:
        """Create what a fresh server has: the user guest, and the virtual host ``/`` with all permissions for it."""
        users.add_user(self.state, commands.AddUser("guest", "guest", ("administrator",)))
        administration.add_vhost(self.state, commands.AddVhost("/"))
        if PLUGINS["event"].name in self.plugins:
            exchanges.add_event_exchange(self.vhosts["/"])
        self.state.grant_everything("/")
        self.state.global_parameters.update(self.state.release.initial_global_parameters)

    @classmethod
    def over(cls, state: NodeState) -> Self:
        """Return the broker that goes on with a state, which no other broker may use from then on."""
        broker = cls.__new__(cls)
        broker.state = state
        broker.observe(None)
        return broker

    # The state machine

    def handle(self, command: commands.Command, now_us: int) -> list[Reply | Happened]:
        """Do what is due by ``now_us`` (microseconds since 1970), then the command; return what came of it.

        A client's command that RabbitMQ refuses is answered by ``ChannelClosed`` or
        ``ConnectionClosed``. Raises ``simulator.OperatorError`` for an
        operator's command that it refuses; what came of it and of the time that passed is reported
        by the next call, due at once. Time never goes back: an earlier ``now_us`` counts as the latest.
        """
        state = self.state
        due = state.timers.next_due()
        if (due is not None and due <= now_us) or state.agenda:
            _whole(self.catching_up(now_us))
        try:
            rest = self.start(command, now_us)
            if rest is not None:
                _whole(rest)
        finally:
            if state.agenda:
                _whole(agenda.work_off(state))
        return self.taken()

    def next_due(self) -> int | None:
        """Return when something will happen by itself, microseconds since 1970; ``None``: never."""
        state = self.state
        return state.now_us if state.out or self._unfinished else state.timers.next_due()

    @property
    def only_retries(self) -> bool:
        """Whether nothing will happen by itself but that at-least-once queues and shovels try again."""
        return not self._unfinished and self.state.timers.kinds() <= {"retry", "shovel"}

    # The same in steps, for a driver that does other things between them

    def overdue(self, now_us: int) -> bool:
        """Return whether ``catching_up`` has anything to do."""
        due = self.state.timers.next_due()
        return self._unfinished or (due is not None and due <= now_us)

    def catching_up(self, now_us: int) -> Steps:
        """Do what is due by ``now_us`` and what that and commands have set off; pause after each step.

        Commands that ``start`` between two steps come between them in the broker's time, too.
        """
        state = self.state
        state.until_us = max(state.until_us, now_us)
        state.handed_out = 0
        if state.agenda:
            yield from agenda.work_off(state)
        yield from agenda.catch_up(state)

    def start(self, command: commands.Command, now_us: int) -> Steps | None:
        """Do a command, and nothing of what is due before it or set off by it.

        Returns what is left to do of a long one: it is done once that is iterated over.
        Raises ``OperatorError`` as ``handle`` does, and so does the iteration.
        """
        state = self.state
        state.until_us = max(state.until_us, now_us)
        state.handed_out = 0
        if now_us > state.now_us:
            state.now_us = now_us
        try:
            return OPERATIONS[type(command)](state, command)
        except Refusal as refusal:
            refuse(state, command, refusal)
        return None

    def refuse(self, command: commands.Command, refusal: Refusal) -> None:
        """Refuse a client's command instead of doing it, as RabbitMQ refuses one."""
        refuse(self.state, command, refusal)

    def end(self, channel: commands.ChannelId, refusal: Refusal) -> None:
        """End a client's channel, or its connection where the refusal is of that kind."""
        end(self.state, channel, refusal)

    def remind(self, at_us: int) -> int:
        """Have ``Reminded`` among the replies at a time, in one order with what happens by itself; return its number.

        For drivers that have deadlines of their own. No number comes twice, nor in a broker that is restored.
        """
        number = self.state.next_serial()
        self.state.timers.set(max(at_us, self.state.now_us), "driver", number)
        return number

    def taken(self) -> list[Reply | Happened]:
        """Return the replies and events since the last call."""
        out, self.state.out = self.state.out, []
        return out

    @property
    def _unfinished(self) -> bool:
        """Whether the agenda waits for nothing but its turn."""
        return bool(self.state.agenda) and not self.state.resting

    # Snapshots

    def snapshot(self) -> bytes:
        """Return the whole state as bytes, for ``restore`` of the same version, in any process.

        Raises ``TypeError`` for the identity of a connection that is neither text, a number nor a tuple of such.
        """
        from simulator.broker import snapshots  # few brokers need it, and it takes milliseconds to load

        return snapshots.dumped(self.state)

    @classmethod
    def restore(cls, snapshot: bytes) -> Self:
        """Return a broker that goes on from the ``snapshot`` of another; it has no observer.

        Raises ``ValueError`` for bytes that are not a snapshot of this version, or whose release is unknown.
        """
        from simulator.broker import snapshots

        state, _ = snapshots.loaded(snapshot)
        return cls.over(state)

    # Those who drive it

    def authenticated(self, user: str, password: str) -> bool:
        """Return whether the user exists with that password."""
        known = self.users.get(user)
        return known is not None and passwords.is_password(password, known.password_hash, known.hashing_algorithm)

    def grant_everything(self, vhost: str) -> None:
        """Give the administrators all permissions in a virtual host that has just been created."""
        self.state.grant_everything(vhost)

    def enable(self, plugins: frozenset[str]) -> None:
        """Have these plugins enabled from now on, by RabbitMQ's names, and no others: without its plugin, an exchange
        stays but cannot route.
        """
        self.state.plugins = plugins
        for vhost in self.vhosts.values():
            exchanges.follow_plugins(vhost, self.state.exchange_types)
            vhost.changed()

    def watch(self, events: Iterable[Event]) -> None:
        """Report these events, too."""
        self.state.reported = self.state.reported | frozenset(events)
        self.state.watched = self.state.watched | self.state.reported

    def observe(self, observer: Observer | None) -> None:
        """Call ``observer`` with each event, and the message as it was then; ``None``: call nothing."""
        self.state.observer = observer
        self.state.watched = self.state.reported if observer is None else _ALL

    # What it is and has, to read

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins that are enabled, by RabbitMQ's names."""
        return self.state.plugins

    @property
    def exchange_types(self) -> frozenset[str]:
        """The types that exchanges may have: the release's and those of the plugins that are enabled."""
        return self.state.exchange_types

    @property
    def release(self) -> Release:
        """The release whose behaviour it has."""
        return self.state.release

    def global_counters(self) -> dict[Series, int]:
        """Return what the node has counted since it started; empty in a release without global counters."""
        return global_counters(self.state)

    @property
    def node(self) -> str:
        """The node's name, as traces show it."""
        return self.state.name

    @property
    def vhosts(self) -> dict[str, VirtualHost]:
        """The virtual hosts by name."""
        return self.state.vhosts

    @property
    def users(self) -> dict[str, User]:
        """The users by name."""
        return self.state.users

    @property
    def global_parameters(self) -> dict[str, Any]:
        """The parameters of the whole cluster, by name."""
        return self.state.global_parameters

    @property
    def cluster_name(self) -> str:
        """The name of the cluster: the node's, unless an operator gave it one."""
        return self.state.cluster_name

    def queue(self, name: str, vhost: str) -> QueueState | None:
        """Return one queue, or ``None`` if it does not exist."""
        return self.state.queue(vhost, name)

    def messages_delayed(self, vhost: VirtualHost, exchange: str) -> int:
        """Return how many messages the management API says that an exchange delays."""
        return delayed_exchanges.messages_delayed(self.state, vhost, exchange)

    def delayed(self) -> Iterator[DelayedMessage]:
        """Yield all messages that exchanges delay, in no order of time."""
        for waiting in self.state.delayed.values():
            yield from waiting

    def copies(self) -> Iterator[tuple[QueueState, Copy]]:
        """Yield all messages in queues: ready, waiting for a delayed retry, delivered, or held by at-least-once."""
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                yield from ((queue, copy) for copy in queue.held())
        for channel in self.channels.values():
            for _, unacked in (*channel.unacked.items(), *channel.uncommitted()):
                if not unacked.timed_out and not unacked.queue.deleted:
                    yield unacked.queue, unacked.copy

    @property
    def connections(self) -> dict[Hashable, Connection]:
        """The open connections by identity."""
        return self.state.connections

    @property
    def channels(self) -> dict[commands.ChannelId, Channel]:
        """The open channels by connection and number."""
        return self.state.channels

    @property
    def now_us(self) -> int:
        """The latest time that it got, microseconds since 1970."""
        return self.state.now_us

    @property
    def last_uid(self) -> int:
        """The number of the last message that was published; the first is 1."""
        return self.state.last_uid

    @property
    def watched(self) -> frozenset[Event]:
        """The events that it reports."""
        return self.state.reported

    @property
    def cut_short(self) -> bool:
        """Whether there was ever too much to do in one instant, so that some of it happened later."""
        return self.state.cut_short

    @property
    def max_message_size(self) -> int:
        """The largest body that a publish may carry, in bytes. It may be set."""
        return self.state.max_message_size

    @max_message_size.setter
    def max_message_size(self, size: int) -> None:
        self.state.max_message_size = size

    @property
    def hand_out_max(self) -> float:
        """How many messages one ``handle`` hands to consumers at most. It may be set; no limit by default.

        The rest are due at once, so that a driver can do something else between.
        """
        return self.state.hand_out_max

    @hand_out_max.setter
    def hand_out_max(self, count: float) -> None:
        self.state.hand_out_max = count


def _whole(steps: Steps) -> None:
    """Take all steps."""
    for _ in steps:
        pass


# Reads the global counters of a node: what it has received, delivered and dead-lettered since it started.


PROTOCOL = "amqp091"
"""The protocol that clients speak here."""
_OF_NODE = (
    "received", "received_confirm", "routed", "unroutable_dropped", "unroutable_returned", "confirmed",
)  # fmt: skip


def global_counters(node: NodeState) -> dict[Series, int]:
    """Return all global counters of the node's release; those that have counted nothing are 0."""
    numbers = dict.fromkeys(by_protocol(node.release), 0)
    if not numbers:
        return {}
    counted = node.counters
    numbers |= {Series(f"messages_{name}", (("protocol", PROTOCOL),)): getattr(counted, name) for name in _OF_NODE}
    for kind, counters in _by_queue_type(node):
        for name, count in _of_queues(counters).items():
            numbers[of_queues(name, kind, PROTOCOL)] += count
    for account in accounts(node.release):
        numbers[account.series] = counted.dead_letters.get(account, 0)
    return numbers


def _by_queue_type(node: NodeState) -> Iterator[tuple[str, Counters]]:
    yield from node.counters.gone.items()
    for vhost in node.vhosts.values():
        for queue in vhost.queues.values():
            yield queue.definition.type, queue.counters


def _of_queues(counters: Counters) -> dict[str, int]:
    """Return the counts under their names in RabbitMQ's global counters."""
    consumed = counters.deliver + counters.deliver_no_ack
    return {
        "delivered": consumed + counters.get + counters.get_no_ack,
        "delivered_consume_manual_ack": counters.deliver,
        "delivered_consume_auto_ack": counters.deliver_no_ack,
        "delivered_get_manual_ack": counters.get,
        "delivered_get_auto_ack": counters.get_no_ack,
        "get_empty": counters.get_empty,
        "redelivered": counters.redeliver,
        "acknowledged": counters.ack,
    }
