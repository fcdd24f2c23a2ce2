"""Where a broker keeps messages for consumers, a queue or one subscription to a topic, and which consumer gets one.

Consumers of a queue get messages in turn, by priority, the exclusive one, or the owner of a message group.

Source: activemq-broker, Queue.doActualDispatch, addSubscription, removeSubscription, assignMessageGroup,
orderedCompare; QueueDispatchSelector.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

import msgspec

from simulator.systems.activemq.dead_letter_strategies import Audit
from simulator.systems.activemq.destinations import Destination
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.selectors import Selector
from simulator.systems.activemq.settings import DestinationPolicy


class HeldMessage(msgspec.Struct, eq=False):
    """A message in one store, with what the broker knows of it.

    Attributes:
        sequence: the broker's number of it.
        counter: how often it was delivered again.
        read: its number in the order in which the broker read messages of queues.
        given: the number of its last dispatch, in the order of those of all queues.
        gone: whether it expired while a consumer had it, who does not know.
        acked: whether a transaction acknowledged it that has not ended: no other consumer and no browser gets it.
    """

    message: Message
    sequence: int
    counter: int = 0
    read: int = 0
    given: int = 0
    gone: bool = False
    acked: bool = False

    def as_counted(self) -> Message:
        """Return the message as selectors see it: delivered again as often as it was by now."""
        if self.counter == self.message.redelivery_counter:
            return self.message
        return msgspec.structs.replace(self.message, redelivery_counter=self.counter)


class Receiver(Protocol):
    """A consumer, as the broker sees it."""

    name: str
    destination: Destination
    prefetch: int
    selector: Selector | None
    exclusive: bool
    priority: int

    def dispatched(self, held: HeldMessage, store: Store) -> None:
        """Take a message."""


class Window(msgspec.Struct, eq=False):
    """How many messages a consumer may have that it has not acknowledged.

    ``extension``: how many above its prefetch, for those that it said it has read. It shrinks with every
    acknowledgement, and with every message that a transaction gave back; a consumer that reads them again does not
    say so again, and waits for the commit with what it has.

    Source: activemq-broker, PrefetchSubscription.isFull, expandPrefetchExtension, contractPrefetchExtension.
    """

    prefetch: int
    extension: int = 0
    attachments: list[Attached] = []

    @property
    def full(self) -> bool:
        """Whether it gets no more for now. One of prefetch 0 gets what it asks for, a message at a time."""
        if self.prefetch == 0:
            return self.extension == 0
        return sum(len(each.dispatched) for each in self.attachments) - self.extension >= self.prefetch

    def expand(self, count: int) -> None:
        """Let it have that many more."""
        if self.prefetch:
            self.extension += count

    def contract(self, count: int) -> None:
        """Take that many of the additional ones back."""
        if self.prefetch:
            self.extension = max(self.extension - count, 0)

    def given(self) -> None:
        """Record that it got a message."""
        if not self.prefetch:
            self.extension = max(self.extension - 1, 0)


class Attached(msgspec.Struct, eq=False):
    """A consumer of a store, and what the broker has given it and not had back, in that order.

    ``groups``: how many message groups it was given.
    """

    receiver: Receiver
    window: Window
    dispatched: list[HeldMessage] = []
    groups: int = 0

    def __post_init__(self) -> None:
        self.window.attachments.append(self)


class Unread:
    """What came to a queue and the broker has not read into memory yet.

    It is read by kind: all that is persistent, then all that is not, or the other way round. Reading goes on with the
    kind that it ended with.

    Where the broker started with ``stored`` messages, what is persistent is no longer read at once: it is fetched as
    many at a time as a page has, and the other kind is read before the next are fetched. That ends when a message
    comes and no other persistent one is left.

    Source: activemq-broker, StoreQueueCursor, AbstractStoreCursor.
    """

    def __init__(self, stored: Iterable[HeldMessage] = ()) -> None:
        self._stored = deque(stored)
        self._by_kind: dict[bool, deque[HeldMessage]] = {True: deque(), False: deque()}
        self._fetches, self._persistent = bool(self._stored), True

    def __len__(self) -> int:
        """Return how many messages there are."""
        return sum(map(len, self._all))

    def __iter__(self) -> Iterator[HeldMessage]:
        """Return them, those of the kind that is read now first."""
        persistent, others = (*self._by_kind[True], *self._stored), self._by_kind[False]
        return chain(persistent, others) if self._persistent else chain(others, persistent)

    @property
    def last(self) -> HeldMessage:
        """The message that came last; there is one."""
        return max((messages[-1] for messages in self._all if messages), key=lambda held: held.sequence)

    def add(self, held: HeldMessage) -> None:
        """Take a message."""
        if held.message.persistent:
            self._fetches = self._fetches and bool(self._stored or self._by_kind[True])
        stays = held.message.persistent and self._fetches
        (self._stored if stays else self._by_kind[held.message.persistent]).append(held)

    def read(self, page: int) -> Iterator[HeldMessage]:
        """Take the messages out one after the other, for a page of this size."""
        self._fetch(page)
        while self:
            if not self._by_kind[self._persistent] and (self._by_kind[False] or not self._persistent):
                self._persistent = not self._persistent
            if self._persistent:
                self._fetch(page)
            yield self._by_kind[self._persistent].popleft()

    def keep(self, stays: Callable[[HeldMessage], bool]) -> None:
        """Take the messages out that do not stay."""
        self._stored = deque(held for held in self._stored if stays(held))
        for kind, messages in self._by_kind.items():
            self._by_kind[kind] = deque(held for held in messages if stays(held))

    @property
    def _all(self) -> tuple[deque[HeldMessage], ...]:
        return (*self._by_kind.values(), self._stored)

    def _fetch(self, count: int) -> None:
        """Fetch ``count`` of the stored messages, unless some are left of those that were fetched before."""
        if not self._by_kind[True]:
            self._by_kind[True].extend(self._stored.popleft() for _ in range(min(count, len(self._stored))))


class Store(msgspec.Struct, eq=False, kw_only=True):
    """A queue; or, with a ``topic_subscriber``, one subscription to a topic.

    Attributes:
        destination: the queue, or what the subscription is to, which may be a pattern.
        policy: of the destination.
        created_ms: since when the broker looks for expired messages.
        durable_key: ``clientId:subscription`` of a durable subscription.
        topic_subscriber: whether it is a subscription.
        selector: of a subscription: it has only the messages that this selects.
        audit: which messages it has had; it takes none twice. ``None`` where it does not look.
        returned: messages that consumers gave back, the next ones to be given out.
        waiting: the others that the broker has read and that no consumer has, in the order in which they are given out.
        unread: what came to a queue and waits until the broker reads another page.
        offline_ms: since when a durable subscription is without a consumer; ``None`` where it has one.
        attached: its consumers; the next message goes to the first that has room, who then comes last.
        exclusive: the only one of them that gets any.
        groups: which of them owns a message group, by its JMSXGroupID.
        dispatching: whether messages are being given out right now.
        turns: how often the broker is still to look whether it has something to give out.
        again: whether it looks once more after these turns.
        sweep_due_ms: when the broker next looks for expired messages.
    """

    destination: Destination
    policy: DestinationPolicy
    created_ms: int
    durable_key: str | None = None
    topic_subscriber: bool = False
    selector: Selector | None = None
    audit: Audit | None = None
    returned: deque[HeldMessage] = msgspec.field(default_factory=deque)
    waiting: deque[HeldMessage] = msgspec.field(default_factory=deque)
    unread: Unread = msgspec.field(default_factory=Unread)
    offline_ms: int | None = None
    attached: list[Attached] = []
    exclusive: Attached | None = None
    groups: dict[str, Attached] = {}
    dispatching: bool = False
    turns: int = 0
    again: bool = False
    sweep_due_ms: int | None = None

    def attachment(self, receiver: Receiver) -> Attached | None:
        """Return what the broker knows of a consumer here; ``None`` if it is not attached."""
        return next((each for each in self.attached if each.receiver is receiver), None)

    def selects(self, message: Message) -> bool:
        """Return whether a subscription has the message."""
        return self.selector is None or self.selector.selects(message)

    def has_had(self, message: Message) -> bool:
        """Return whether the message is here or was, by its identifier; it was from now on.

        An audit remembers those that were taken out, too. Without one a queue still keeps no message twice, because
        its storage does not.
        """
        if self.audit is not None:
            return self.audit.is_duplicate(message)
        if self.topic_subscriber or not message.persistent:
            return False
        return any(held.message.message_id == message.message_id for held in self.held)

    def forget(self, message: Message) -> None:
        """Let the message come again, as after its death in a queue; a subscription never forgets."""
        if self.audit is not None and not self.topic_subscriber:
            self.audit.forget(message)

    @property
    def ready(self) -> int:
        """How many messages the broker has read that no consumer has."""
        return len(self.returned) + len(self.waiting)

    @property
    def in_memory(self) -> list[HeldMessage]:
        """What the broker has read, also for consumers, in that order."""
        given = [held for each in self.attached for held in each.dispatched if not held.gone]
        return sorted([*self.returned, *self.waiting, *given], key=lambda held: held.read)

    def remove(self, held: HeldMessage) -> None:
        """Take out a message that no consumer has."""
        (self.returned if held in self.returned else self.waiting).remove(held)

    def keep(self, stays: Callable[[HeldMessage], bool]) -> list[HeldMessage]:
        """Take out the messages that no consumer has and that do not stay. Return them."""
        gone = [held for held in (*self.returned, *self.waiting, *self.unread) if not stays(held)]
        self.returned = deque(held for held in self.returned if stays(held))
        self.waiting = deque(held for held in self.waiting if stays(held))
        self.unread.keep(stays)
        return gone

    @property
    def held(self) -> list[HeldMessage]:
        """All that it holds, in the order in which the broker took it."""
        return sorted([*self.in_memory, *self.unread], key=lambda held: held.sequence)


_FIRST = 1
"""The number of a group's first message: who gets it owns the group, whoever did before."""


def takes(receiver: Receiver, message: Message) -> bool:
    """Return whether a consumer's selector selects the message."""
    return receiver.selector is None or receiver.selector.selects(message)


def join(store: Store, attached: Attached) -> None:
    """Let a consumer come to a store. The first that is to be exclusive is, or one of a higher priority."""
    store.attached.append(attached)
    _in_order(store)
    exclusive = store.exclusive
    if _is_exclusive(store, attached) and (
        exclusive is None or attached.receiver.priority > exclusive.receiver.priority
    ):
        store.exclusive = attached


def leave(store: Store, leaving: Sequence[Attached]) -> None:
    """Let consumers go away, one after the other: another is exclusive, and their groups are free."""
    store.groups = {name: owner for name, owner in store.groups.items() if owner not in leaving}
    for each in leaving:
        store.attached.remove(each)
        _elect_after(store, each)


def visit(store: Store) -> None:
    """Let a browser come to a queue and go: where all consumers are to be exclusive, another may be from then on."""
    _in_order(store)
    if store.policy.all_exclusive:
        _elect(store, store.attached)


def choose(store: Store, held: HeldMessage) -> Attached | None:
    """Return the consumer that gets a message, which then comes last; ``None`` where none may have it now.

    One that a transaction has acknowledged gives its group to a consumer, which does not get it yet.
    """
    for attached in store.attached:
        if not attached.window.full and _may_have(store, attached, held):
            _assign_group(store, attached, held.message)
            if held.acked:
                continue
            if store.exclusive is not attached:
                store.attached.remove(attached)
                store.attached.append(attached)
                _in_order(store)
            return attached
    return None


def takers(store: Store, held: HeldMessage) -> list[Receiver]:
    """Return the consumers that have room for a message, and may have it."""
    return [each.receiver for each in store.attached if not each.window.full and _may_have(store, each, held)]


def _elect_after(store: Store, gone: Attached) -> None:
    """Let another be exclusive; after one that asked for it itself nobody is who did not ask."""
    if gone.receiver.exclusive:
        if store.exclusive is gone:
            _elect(store, [each for each in store.attached if each.receiver.exclusive])
    elif store.policy.all_exclusive and not store.topic_subscriber:
        _elect(store, store.attached)


def _elect(store: Store, candidates: Sequence[Attached]) -> None:
    store.exclusive = max(candidates, key=lambda each: each.receiver.priority, default=None)


def _is_exclusive(store: Store, attached: Attached) -> bool:
    return not store.topic_subscriber and (attached.receiver.exclusive or store.policy.all_exclusive)


def _in_order(store: Store) -> None:
    """Those of a higher priority first; where there are groups, then those that own fewer."""
    if not store.topic_subscriber:
        store.attached.sort(key=lambda each: (-each.receiver.priority, each.groups))


def _may_have(store: Store, attached: Attached, held: HeldMessage) -> bool:
    message = held.message
    taken = takes(attached.receiver, held.as_counted())
    if not taken or store.topic_subscriber:
        return taken
    if store.exclusive not in (None, attached):
        return False
    owner = store.groups.get(message.group or "")
    return owner in (None, attached) or message.group_sequence == _FIRST


def _assign_group(store: Store, attached: Attached, message: Message) -> None:
    """Let a consumer own the group of a message that it gets; a negative number ends the group."""
    if message.group is None or store.topic_subscriber:
        return
    if message.group not in store.groups or message.group_sequence == _FIRST:
        store.groups[message.group] = attached
        attached.groups += 1
    elif message.group_sequence < 0:
        del store.groups[message.group]
        attached.groups -= 1
