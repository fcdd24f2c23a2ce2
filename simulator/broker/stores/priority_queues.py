"""The ready messages of a queue in the order in which they are served.

``Levels`` serves the highest priority first and, with one priority only, is a plain
queue: the common case costs one deque. ``Lanes`` serves two priorities in turns.

Source: rabbit_priority_queue.erl; rabbit_fifo_pq.erl (4.3.5); rabbit_fifo_q.erl (4.0.5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter

from simulator.broker.copies import Copy

# A store returns this list when nothing died, so that looking costs nothing. Never add to it.
NOTHING: list[Copy] = []

_by_position = attrgetter("position")
_MANY = 1_000  # this many messages are sorted in together: inserting each costs time by the length of the queue


def time_to_live_us(queue_ttl_ms: int | None, expiration: str | None) -> int | None:
    """Return how long a message lives in a queue: the shorter of the queue's TTL and its own ``expiration``."""
    if expiration is None:
        return None if queue_ttl_ms is None else queue_ttl_ms * 1_000
    own_ms = int(expiration)
    return (own_ms if queue_ttl_ms is None else min(own_ms, queue_ttl_ms)) * 1_000


def take_expired(queue: deque[Copy], now_us: int) -> list[Copy]:
    """Remove what expires by now at the head of ``queue``; what is behind a longer-lived message stays."""
    dead: list[Copy] = []
    while queue:
        expires_us = queue[0].expires_us
        if expires_us is None or expires_us > now_us:
            break
        dead.append(queue.popleft())
    return dead


class Levels:
    """Messages by priority, the highest first, those of one priority in their order.

    ``top`` is the highest priority that has messages; all ``_lower`` ones have some.
    """

    __slots__ = ("_lower", "_priority", "top")

    def __init__(self) -> None:
        self.top: deque[Copy] = deque()
        self._priority = 0
        self._lower: dict[int, deque[Copy]] = {}

    def __iter__(self) -> Iterator[Copy]:
        for level in self.levels():
            yield from level

    def levels(self) -> list[deque[Copy]]:
        """Return the messages of each priority, the highest first."""
        return [self.top, *(self._lower[priority] for priority in sorted(self._lower, reverse=True))]

    def sizes(self) -> dict[int, int]:
        """Return how many messages there are of each priority that has some."""
        sizes = {self._priority: len(self.top), **{each: len(level) for each, level in self._lower.items()}}
        return {priority: size for priority, size in sorted(sizes.items()) if size}

    def head(self) -> Copy | None:
        """Return the message that is served next."""
        return self.top[0] if self.top else None

    def holds(self, priority: int) -> bool:
        """Return whether there are messages of that priority."""
        return bool(self.top if priority == self._priority else self._lower.get(priority))

    def append(self, copy: Copy) -> None:
        """Add a message behind those of its priority."""
        if copy.priority == self._priority:
            self.top.append(copy)
        else:
            self._level(copy.priority).append(copy)

    def popleft(self) -> Copy:
        """Remove and return the message that is served next."""
        copy = self.top.popleft()
        if self._lower and not self.top:
            self._tidy()
        return copy

    def put_back(self, copies: Iterable[Copy]) -> None:
        """Insert messages where they were, by their positions."""
        ordered = sorted(copies, key=_by_position, reverse=True)
        if len(ordered) > _MANY:
            self._merge(ordered)
            return
        for copy in ordered:
            level = self._level(copy.priority)
            if not level or copy.position < level[0].position:
                level.appendleft(copy)
            else:
                level.insert(bisect_left(level, copy.position, key=_by_position), copy)

    def _merge(self, copies: list[Copy]) -> None:
        by_priority: dict[int, list[Copy]] = {}
        for copy in copies:
            by_priority.setdefault(copy.priority, []).append(copy)
        for priority, own in by_priority.items():
            level = self._level(priority)
            merged = sorted((*reversed(own), *level), key=_by_position)
            level.clear()
            level.extend(merged)

    def expired(self, now_us: int) -> list[Copy]:
        """Remove what expires by now at the head of each priority, the highest first."""
        if not self._lower:
            return take_expired(self.top, now_us)
        dead = [copy for level in self.levels() for copy in take_expired(level, now_us)]
        if dead:
            self._tidy()
        return dead

    def clear(self) -> None:
        """Remove everything."""
        self.top.clear()
        self._lower.clear()

    def _level(self, priority: int) -> deque[Copy]:
        """Return the messages of a priority, to add to."""
        if priority == self._priority:
            return self.top
        if not self.top:
            self._priority = priority
            return self.top
        if priority > self._priority:
            self._lower[self._priority] = self.top
            self.top, self._priority = deque(), priority
            return self.top
        level = self._lower.get(priority)
        if level is None:
            level = self._lower[priority] = deque()
        return level

    def _tidy(self) -> None:
        """Forget the priorities that have run empty."""
        self._lower = {priority: level for priority, level in self._lower.items() if level}
        if not self.top and self._lower:
            self._priority = max(self._lower)
            self.top = self._lower.pop(self._priority)


class Lanes:
    """Two lanes, served two high (priority 1) to one normal (priority 0).

    The third turn is the normal lane's only if its message is the older one, and a
    turn counts whichever lane it went to.
    """

    __slots__ = ("_high", "_normal", "_turn")

    def __init__(self) -> None:
        self._high: deque[Copy] = deque()
        self._normal: deque[Copy] = deque()
        self._turn = 0

    def __iter__(self) -> Iterator[Copy]:
        yield from self._high
        yield from self._normal

    def sizes(self) -> dict[int, int]:
        """Return how many messages there are in each lane that has some."""
        sizes = {0: len(self._normal), 1: len(self._high)}
        return {lane: size for lane, size in sizes.items() if size}

    def head(self) -> Copy | None:
        """Return the message that is served next."""
        lane = self._next()
        return lane[0] if lane else None

    def append(self, copy: Copy) -> None:
        """Add a message behind those of its lane."""
        (self._high if copy.priority else self._normal).append(copy)

    def popleft(self) -> Copy:
        """Remove and return the message that is served next."""
        copy = self._next().popleft()
        self._turn = 0 if self._turn == 2 else self._turn + 1
        return copy

    def clear(self) -> None:
        """Remove everything, and begin with the first turn."""
        self._high.clear()
        self._normal.clear()
        self._turn = 0

    def _next(self) -> deque[Copy]:
        high, normal = self._high, self._normal
        if not high:
            return normal
        if self._turn == 2 and normal and normal[0].position < high[0].position:
            return normal
        return high
