"""The ready messages of a classic queue.

Head is the oldest message of the highest priority; what is returned goes back to
where it was. Expiry and drop-head take the head, so that a message behind a
longer-lived one stays, and a full queue drops its highest priority first.

Source: rabbit_amqqueue_process.erl; rabbit_priority_queue.erl; rabbit_variable_queue.erl.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import inf

from dlx.delivery_counts import Return, failures
from dlx.message import payload_size
from dlx.settings import Settings
from simulator.broker.copies import Copy
from simulator.broker.stores.priority_queues import NOTHING, Levels, take_expired, time_to_live_us

_MOST_PRIORITIES = 255


class PriorityError(Exception):
    """A queue with priorities has no place for a message of that priority."""


class ClassicStore:
    """Implements ``simulator.broker.stores.store.Store``. The lists it returns are not to be changed.

    RabbitMQ looks for expired messages at the end of a publish, before it delivers what came back, after each delivery
    and when its timer fires, but not before a delivery.
    """

    __slots__ = (
        "_carried", "_discarded", "_discards_at_once", "_drops_once", "_forgets", "_looks", "_max_bytes", "_max_length",
        "_max_priority", "_messages", "_next_positions", "_refuses", "_timer_us", "_ttl_ms",
        "limited", "pending", "pending_bytes", "ready", "ready_bytes", "settings",
    )  # fmt: skip

    def __init__(self, settings: Settings) -> None:
        self.ready = self.ready_bytes = self.pending = self.pending_bytes = 0
        self.limited = False
        self._messages = Levels()
        self._max_priority = _max_priority(settings)
        self._next_positions = [0] * ((self._max_priority or 0) + 1)  # each priority counts its own
        self._carried = settings.release.delivery_count_carried == "from all queues"
        self._forgets = settings.release.original_expiration == "not behind another message"
        self._discarded: list[Copy] = []
        self._refuses = self._drops_once = False
        self._looks = False
        self._timer_us: int | None = None
        self.configure(settings)
        self._drops_once = False

    @property
    def total(self) -> int:
        """Everything ready: classic queues hold nothing back."""
        return self.ready

    def configure(self, settings: Settings) -> None:
        """Apply new effective settings.

        RabbitMQ applies new limits before a new overflow: a policy that brings a limit
        and reject-publish pushes out what is over the limit first.
        """
        self.settings = settings
        max_length, max_bytes = settings.max_length, settings.max_length_bytes
        self._max_length = inf if max_length is None else max_length
        self._max_bytes = inf if max_bytes is None else max_bytes
        self.limited = settings.has_length_limit
        refuses = settings.refuses_when_full
        self._drops_once = refuses and not self._refuses
        self._refuses = refuses
        self._ttl_ms = settings.message_ttl_ms
        self._discards_at_once = self._ttl_ms == 0 and settings.dead_letter_exchange is None
        self._looks = True

    def enter(self, copy: Copy, now_us: int) -> None:
        """Add a message at the end of its priority.

        With a queue TTL of 0 and no dead-letter exchange it does not enter a queue that
        has messages: no consumer could get it at once. Raises ``PriorityError`` for a negative priority.
        """
        message = copy.message
        copy.size = payload_size(message, copy.body)
        if self._max_priority is not None:
            copy.priority = min(message.properties.get("priority") or 0, self._max_priority)
            if copy.priority < 0:  # the management API publishes such
                raise PriorityError(f"it has no priority {copy.priority}")
        copy.position = self._next_positions[copy.priority]
        self._next_positions[copy.priority] += 1
        if message.delivery_count is not None:
            copy.failed = message.delivery_count
            copy.redelivered = self._carried
        if self._ttl_ms is not None or message.expiration is not None:
            copy.expires_us = now_us + (time_to_live_us(self._ttl_ms, message.expiration) or 0)
            copy.expiration_forgotten = self._forgets and not message.bcc and self._messages.holds(copy.priority)
        if self._discards_at_once and self.ready:
            self._discarded.append(copy)
            return
        self._messages.append(copy)
        self.ready += 1
        self.ready_bytes += copy.size
        self._looks = self.ready == 1 and copy.expires_us is not None

    def take_over(self, copies: Iterable[Copy]) -> None:
        """Hold what is left of a queue whose process crashed: it does not know what of that was never delivered."""
        for copy in copies:
            copy.position = self._next_positions[copy.priority]
            self._next_positions[copy.priority] += 1
            copy.redelivered = True
            self._messages.append(copy)
            self.ready += 1
            self.ready_bytes += copy.size
        self._looks = True

    def refuses(self, copy: Copy, *, internal: bool, publisher: Hashable = None) -> bool:
        """Return whether overflow reject-publish or reject-publish-dlx turns the message away, dead letters too."""
        if not self._refuses:
            return False
        size = payload_size(copy.message, copy.body)
        return self.ready + 1 > self._max_length or self.ready_bytes + size > self._max_bytes

    def know(self, publisher: Hashable) -> None:
        """Do nothing: classic queues refuse by message, whoever publishes."""

    def forget(self, publisher: Hashable) -> None:
        """Do nothing: there is nothing to forget."""

    def head(self) -> Copy | None:
        """Return the message that would be delivered next."""
        return self._messages.head()

    def waiting(self) -> Iterable[Copy]:
        """Yield all ready messages, the next one first."""
        return iter(self._messages)

    def take(self) -> Copy:
        """Remove and return the head. Raises ``IndexError`` when no message is ready."""
        copy = self._messages.popleft()
        self.ready -= 1
        self.ready_bytes -= copy.size
        self._looks = True
        return copy

    def give_back(self, copies: list[Copy], how: Return, now_us: int) -> list[Copy]:
        """Put deliveries back where they were. Classic queues have no delivery limit."""
        for copy in copies:
            copy.redelivered = True
            self.ready_bytes += copy.size
            if self._carried:
                copy.failed = failures(copy.failed, how, self.settings.release)
        self.ready += len(copies)
        self._messages.put_back(copies)
        self._looks = True
        return NOTHING

    def expired(self, now_us: int) -> list[Copy]:
        """Remove what expires by now, from the highest priority down to the first message that does not."""
        if self._max_priority is not None:
            return self._expired_by_priority(now_us)
        head = self._messages.head()
        if head is not None and head.expires_us is not None and head.expires_us <= now_us:
            return self._gone(take_expired(self._messages.top, now_us))
        return self._take_discarded() if self._discarded else NOTHING

    def overflowing(self) -> list[Copy]:
        """Remove heads until the queue is within its limits, if it drops at all."""
        if self.ready <= self._max_length and self.ready_bytes <= self._max_bytes:
            self._drops_once = False
            return NOTHING
        if self._refuses and not self._drops_once:
            return NOTHING
        self._drops_once = False
        dropped: list[Copy] = []
        while self.ready > self._max_length or self.ready_bytes > self._max_bytes:
            dropped.append(self.take())
        return dropped

    def due_us(self) -> int | None:
        """Return when the head expires; with priorities, the time that RabbitMQ's timer was last set to."""
        if self._max_priority is not None:
            return self._timer_us
        head = self._messages.head()
        return None if head is None else head.expires_us

    def awake(self, now_us: int) -> bool:
        """Return false: classic queues hold nothing back."""
        return False

    def purge(self) -> list[Copy]:
        """Remove all messages."""
        gone = list(self._messages)
        self._messages.clear()
        self.ready = self.ready_bytes = 0
        return gone

    def _expired_by_priority(self, now_us: int) -> list[Copy]:
        """Look as RabbitMQ does: not when a message enters a queue that has some, even if it becomes the head.

        A message with a TTL that overtakes others does not expire before the queue has
        another reason to look, and may be delivered after its time.
        """
        due = self._timer_us is not None and self._timer_us <= now_us
        if not due and not self._looks:
            return self._take_discarded() if self._discarded else NOTHING
        self._looks = False
        if due:
            self._timer_us = None
        dead: list[Copy] = []
        while (head := self._messages.head()) is not None:
            if head.expires_us is None or head.expires_us > now_us:
                break
            dead.append(self._messages.popleft())
        self._set_timer(head)
        return self._gone(dead)

    def _set_timer(self, head: Copy | None) -> None:
        """Keep a running timer unless the head expires more than a millisecond before it."""
        if head is None or head.expires_us is None:
            return
        if self._timer_us is None or head.expires_us + 1_000 < self._timer_us:
            self._timer_us = head.expires_us

    def _gone(self, dead: list[Copy]) -> list[Copy]:
        self.ready -= len(dead)
        self.ready_bytes -= sum(copy.size for copy in dead)
        return dead + self._take_discarded() if self._discarded else dead

    def _take_discarded(self) -> list[Copy]:
        discarded, self._discarded = self._discarded, []
        return discarded


def _max_priority(settings: Settings) -> int | None:
    """Return the highest priority that the queue tells apart; ``None`` for a queue without priorities."""
    wanted = settings.queue.arguments.get("x-max-priority")
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        return None
    return max(settings.release.classic_max_priority_min, min(wanted, _MOST_PRIORITIES))
