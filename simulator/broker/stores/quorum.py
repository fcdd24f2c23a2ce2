"""The ready messages of a quorum queue.

Returned messages are served first, in the order in which they came back; then the
others, by priority where the release has priorities. Expiry (of each priority, in
later releases) and drop-head take the message that is served next. reject-publish
asks publishers to stop once the queue is over its limit, and to go on when it has
emptied to four fifths.

Source: rabbit_fifo.erl; rabbit_fifo_client.erl enqueue.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Hashable, Iterable
from itertools import chain, takewhile
from math import inf

from dlx.delivery_counts import Counts, Return, limit_exceeded, returned
from dlx.message import Message, payload_size, properties_size
from dlx.settings import Settings, expires_messages
from dlx.topology import QUORUM
from simulator.broker.copies import Copy
from simulator.broker.stores.priority_queues import NOTHING, Lanes, Levels, take_expired, time_to_live_us

_DEFAULT_PRIORITY, _MAX_PRIORITY = 4, 31
_MOST_NORMAL = 4  # the highest priority of the normal lane
_LOW_LIMIT = 0.8
DELIVERY_TIME = "x-opt-delivery-time"
"""The annotation of the outcome modified that says until when (ms since 1970) the message waits."""


class QuorumStore:
    """Implements ``simulator.broker.stores.store.Store``. The lists it returns are not to be changed.

    ``pending`` and ``pending_bytes`` are what at-least-once dead-lettering holds, kept
    by the caller: they count towards the limits. ``ready_bytes`` includes what a
    delayed retry keeps back, as RabbitMQ counts it.
    """

    __slots__ = (
        "_counted", "_delayed", "_delivery_limit", "_expires_each_priority", "_fell_unheard", "_has_limits", "_known",
        "_known_priority", "_known_size", "_max_bytes", "_max_length", "_messages", "_mortal", "_next_position",
        "_publishers", "_refused", "_rejects", "_requeues_at_back", "_retry", "_returns", "_ttl_known", "_ttl_ms",
        "limited", "pending", "pending_bytes", "ready", "ready_bytes", "settings",
    )  # fmt: skip

    def __init__(self, settings: Settings) -> None:
        release = settings.release
        self.ready = self.ready_bytes = self.pending = self.pending_bytes = 0
        self._returns: deque[Copy] = deque()
        self._messages: Levels | Lanes = Lanes() if release.quorum_priorities == "two lanes" else Levels()
        self._delayed: list[tuple[int, int, Copy]] = []
        self._next_position = 0
        self._mortal = False
        self._publishers: set[Hashable] = set()
        self._refused: set[Hashable] = set()
        self._fell_unheard = False  # whether it emptied while it dropped heads, of which the refused did not hear
        self._known: Message | None = None
        self._known_priority = self._known_size = 0
        self._ttl_known = expires_messages(QUORUM, release)
        self._expires_each_priority = release.quorum_expiry_looks_at == "head of every priority"
        self._counted = release.delivery_count_carried != "never"
        self.configure(settings)

    @property
    def total(self) -> int:
        """What is ready and what a delayed retry keeps back."""
        return self.ready + len(self._delayed)

    @property
    def returned(self) -> int:
        """How many ready messages are served before all others, since they came back."""
        return len(self._returns)

    @property
    def publishers(self) -> int:
        """How many channels have published to it, of those that are still open."""
        return len(self._publishers)

    def sizes(self) -> dict[int, int]:
        """Return how many of the other ready messages there are of each priority, or in each lane, that has some."""
        return self._messages.sizes()

    def configure(self, settings: Settings) -> None:
        """Apply new effective settings."""
        release = settings.release
        self.settings = settings
        max_length, max_bytes = settings.max_length, settings.max_length_bytes
        self._max_length = inf if max_length is None else max_length
        self._max_bytes = inf if max_bytes is None else max_bytes
        self._has_limits = settings.has_length_limit
        self._rejects = self._has_limits and settings.refuses_when_full
        if not self._has_limits and not release.quorum_refusal_outlives_limits:
            self._refused.clear()
        self.limited = self._has_limits or bool(self._refused)
        self._delivery_limit = settings.delivery_limit
        self._requeues_at_back = settings.requeues_at_back
        self._ttl_ms = settings.message_ttl_ms
        self._retry = settings.delayed_retry

    def enter(self, copy: Copy, now_us: int) -> None:
        """Add a message at the end of its priority."""
        message = copy.message
        if message is not self._known:
            self._read(message)
        copy.priority = self._known_priority
        copy.size = self._known_size + payload_size(message, copy.body)
        if self._counted and message.delivery_count is not None:
            copy.failed = message.delivery_count
            copy.redelivered = message.delivery_count > 0
        if self._ttl_ms is not None or message.expiration is not None:
            self._set_expiry(copy, now_us)
        self._append(copy)
        self.ready_bytes += copy.size

    def refuses(self, copy: Copy, *, internal: bool, publisher: Hashable = None) -> bool:
        """Return whether ``publisher``, any value that identifies a channel, has been asked to stop.

        A channel is asked when the queue goes over its limit, a new one at its first
        publish if the queue is over the limit just then. Dead letters are never refused.
        """
        if internal:
            return False
        if publisher not in self._publishers:
            self._publishers.add(publisher)
            if self._rejects and self._over():
                self._refused.add(publisher)
        return publisher in self._refused

    def know(self, publisher: Hashable) -> None:
        """Remember a channel that publishes: it is asked to stop when a policy brings a limit that is exceeded."""
        if publisher is not None:
            self._publishers.add(publisher)

    def forget(self, publisher: Hashable) -> None:
        """Forget a channel that is gone."""
        self._publishers.discard(publisher)
        self._refused.discard(publisher)

    def head(self) -> Copy | None:
        """Return the message that would be delivered next."""
        return self._returns[0] if self._returns else self._messages.head()

    def waiting(self) -> Iterable[Copy]:
        """Yield all ready messages, then those of a delayed retry."""
        return chain(self._returns, self._messages, (entry[2] for entry in self._delayed))

    def take(self) -> Copy:
        """Remove and return the head. Raises ``IndexError`` when no message is ready."""
        copy = self._returns.popleft() if self._returns else self._messages.popleft()
        self.ready -= 1
        self.ready_bytes -= copy.size
        return copy

    def takes_back_singly(self, how: Return) -> bool:
        """Return whether messages come back one after another, each by a command of its own, and at the end."""
        return self._requeues_at_back and how != "lost channel"

    def give_back(self, copies: list[Copy], how: Return, now_us: int) -> list[Copy]:
        """Take deliveries back, in the order of ``copies``; return those over the delivery limit, which stay out."""
        release, exceeded = self.settings.release, list[Copy]()
        for copy in copies:
            counts = returned(Counts(copy.acquired, copy.failed), how, release)
            copy.acquired, copy.failed = counts.acquired, counts.delivery
            if limit_exceeded(counts, self._delivery_limit, release):
                exceeded.append(copy)
                continue
            copy.redelivered = True
            self.ready_bytes += copy.size
            self._requeue(copy, how, now_us)
        return exceeded

    def expired(self, now_us: int) -> list[Copy]:
        """Remove what expires by now: the next message and those after it, or the head of each priority."""
        if not self._mortal:
            return NOTHING
        if self._expires_each_priority and isinstance(self._messages, Levels):
            dead = take_expired(self._returns, now_us) + self._messages.expired(now_us)
            self.ready -= len(dead)
            self.ready_bytes -= sum(copy.size for copy in dead)
            return dead
        dead = []
        while (head := self.head()) is not None and head.expires_us is not None and head.expires_us <= now_us:
            dead.append(self.take())
        return dead

    def overflowing(self) -> list[Copy]:
        """Remove heads until the queue is within its limits, or tell publishers to stop or to go on."""
        if self._rejects:
            self._tell_publishers()
            return NOTHING
        if not self._has_limits:
            return NOTHING
        dropped: list[Copy] = []
        while self.ready and self._over():
            dropped.append(self.take())
        self._fell_unheard |= bool(self._refused) and self._is_low()
        if self.settings.release.quorum_drop_head_order == "newest first":
            dropped.reverse()
        return dropped

    def due_us(self) -> int | None:
        """Return when the next message expires, or a delayed retry ends."""
        due_us = self._delayed[0][2].ready_us if self._delayed else None
        if not self._mortal:
            return due_us
        for head in self._heads():
            expires_us = head.expires_us
            if expires_us is not None and (due_us is None or expires_us < due_us):
                due_us = expires_us
        return due_us

    def awake(self, now_us: int) -> bool:
        """Let messages whose delayed retry has ended join the returned ones; return whether there were any."""
        awake = [copy for _, _, copy in takewhile(lambda entry: entry[0] * 1_000 <= now_us, self._delayed)]
        del self._delayed[: len(awake)]
        for copy in awake:
            copy.ready_us = None
        self._returns.extend(awake)
        self.ready += len(awake)
        return bool(awake)

    def purge(self) -> list[Copy]:
        """Remove all ready messages, and those of a delayed retry."""
        gone = [*self._returns, *self._messages, *(entry[2] for entry in self._delayed)]
        self._returns.clear()
        self._messages.clear()
        self._delayed.clear()
        self.ready = self.ready_bytes = 0
        return gone

    def _append(self, copy: Copy) -> None:
        copy.position = self._next_position
        self._next_position += 1
        self._messages.append(copy)
        self.ready += 1

    def _read(self, message: Message) -> None:
        """Remember what this queue makes of the message; most publishers send the same one again."""
        release = self.settings.release
        self._known = message
        self._known_size = properties_size(message) if release.quorum_message_size == "body and properties" else 0
        priority = message.properties.get("priority")
        if release.quorum_priorities == "two lanes":
            self._known_priority = int(priority is not None and priority > _MOST_NORMAL)
        elif release.quorum_priorities == "32 levels":
            self._known_priority = _DEFAULT_PRIORITY if priority is None else max(0, min(priority, _MAX_PRIORITY))

    def _set_expiry(self, copy: Copy, now_us: int) -> None:
        """Set the expiry. A TTL of 0 ends after a millisecond, so that a waiting consumer gets the message."""
        if self._ttl_known:
            ttl_us = time_to_live_us(self._ttl_ms, copy.message.expiration)
            copy.expires_us = now_us + (ttl_us or 1_000)
            self._mortal = True

    def _requeue(self, copy: Copy, how: Return, now_us: int) -> None:
        ready_ms = self._ready_ms(copy, how, now_us // 1_000)
        if ready_ms is not None:
            # RabbitMQ's clock for this counts milliseconds: those of the same one are ordered by age.
            copy.ready_us = ready_ms * 1_000
            self._delay((ready_ms, copy.position, copy))
        elif self.takes_back_singly(how):
            copy.priority = 0  # the normal lane, whatever it was
            self._append(copy)
        else:
            self._returns.append(copy)
            self.ready += 1

    def _delay(self, entry: tuple[int, int, Copy]) -> None:
        """Keep the entry in its place: they are in order, but the first stays the first until an earlier one comes."""
        delayed = self._delayed
        if delayed and entry[0] >= delayed[0][0]:
            insort(delayed, entry, lo=1)
            return
        former = delayed[:1]
        delayed[:1] = [entry]
        for later in former:
            insort(delayed, later, lo=1)

    def _ready_ms(self, copy: Copy, how: Return, now_ms: int) -> int | None:
        """Return when a message that comes back is ready again; ``None``: at once."""
        asked = (copy.message.annotations or {}).get(DELIVERY_TIME)
        if self.settings.release.delivery_time_asked and isinstance(asked, int) and asked > now_ms:
            return asked
        return now_ms + delay_ms if (delay_ms := self._delay_ms(copy, how)) else None

    def _delay_ms(self, copy: Copy, how: Return) -> int:
        retry = self._retry
        if retry is None:
            return 0
        failed = how in self.settings.release.returns_counted_as_failures
        if retry.type != "all" and failed != (retry.type == "failed"):
            return 0
        return min(retry.min_ms * max(1, copy.failed or 0), retry.max_ms)

    def _heads(self) -> list[Copy]:
        """Return the messages that may expire next."""
        if self._expires_each_priority and isinstance(self._messages, Levels):
            return [queue[0] for queue in (self._returns, *self._messages.levels()) if queue]
        head = self.head()
        return [] if head is None else [head]

    def _over(self) -> bool:
        length = self.ready + len(self._delayed) + self.pending
        return length > self._max_length or self.ready_bytes + self.pending_bytes > self._max_bytes

    def _tell_publishers(self) -> None:
        if not self._is_low():
            self._fell_unheard = False
        elif self._refused and not self._fell_unheard:  # else they do not hear of it before it has been full again
            self._refused.clear()
        if self._over():
            self._refused |= self._publishers

    def _is_low(self) -> bool:
        length = self.ready + len(self._delayed) + self.pending
        size = self.ready_bytes + self.pending_bytes
        return _low(length, self._max_length) and _low(size, self._max_bytes)


def _low(number: int, limit: float) -> bool:
    return limit == inf or number <= int(limit * _LOW_LIMIT)
