"""Which messages already had a dead letter, as far back as a strategy's audit remembers.

By producer, the last used ones, and of each a window of sequence numbers that goes
forward in steps of 64. A number behind the window counts as never seen.

Source: activemq-client, ActiveMQMessageAuditNoSync, BitArrayBin.
"""

from __future__ import annotations

from collections import OrderedDict

from simulator.systems.activemq.messages import Message

_STEP = 64


class Audit:
    """The memory of one strategy.

    Args:
        depth: the window of one producer, in messages.
        producers: of how many producers a window is kept.
    """

    def __init__(self, depth: int, producers: int) -> None:
        self._depth, self._producers = depth, producers
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def is_duplicate(self, message: Message) -> bool:
        """Return whether the audit has seen the message, and remember it from now on."""
        window = self._windows.get(message.producer)
        if window is None:
            window = self._windows[message.producer] = _Window(self._depth)
            if len(self._windows) > self._producers:
                self._windows.popitem(last=False)
        else:
            self._windows.move_to_end(message.producer)
        return window.note(message.sequence)

    def forget(self, message: Message) -> None:
        """Forget the message, as if it had never been seen."""
        window = self._windows.get(message.producer)
        if window is not None:
            window.seen.discard(message.sequence)


class _Window:
    def __init__(self, depth: int) -> None:
        self._size = max((depth + 1) // _STEP + 1, 1) * _STEP
        self._first: int | None = None
        self.seen: set[int] = set()

    def note(self, number: int) -> bool:
        """Note the number, and return whether it was noted before; a number behind the window never was."""
        if self._first is None:
            self._first = number - number % _STEP
        beyond = number - (self._first + self._size)
        if beyond >= 0:
            self._first += (beyond // _STEP + 1) * _STEP
            self.seen = {each for each in self.seen if each >= self._first}
        if number < self._first:
            return False
        known = number in self.seen
        self.seen.add(number)
        return known
