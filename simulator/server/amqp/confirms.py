"""Publisher confirms of one channel: several acknowledgements that wait to be sent become one."""

from __future__ import annotations


class Confirms:
    """Gathers ``basic.ack`` to a publisher until they are sent.

    ``multiple`` covers every number below, so it is used only up to where all have
    been answered. Refusals are not gathered: they are sent at once, before the
    acknowledgements that may cover their number.
    """

    __slots__ = ("_answered", "_early", "_first", "_last")

    def __init__(self) -> None:
        self._answered = 0
        self._early: set[int] = set()
        self._first = 0
        self._last = 0

    def confirm(self, number: int) -> bool:
        """Take an acknowledgement and return whether it can wait; otherwise it must be sent by itself."""
        if number != self._answered + 1:
            self._early.add(number)
            return False
        self._advance()
        self._first = self._first or number
        self._last = number
        return True

    def refuse(self, number: int) -> None:
        """Note that a number was refused."""
        if number == self._answered + 1:
            self._advance()
        else:
            self._early.add(number)

    def answered_up_to(self, number: int) -> None:
        """Note that all numbers up to this one have been answered in another way."""
        self._answered = max(self._answered, number)
        self._early = {early for early in self._early if early > self._answered}

    def take(self) -> tuple[int, bool] | None:
        """Return the number to acknowledge now and whether it stands for several; ``None`` if no number waits."""
        if not self._last:
            return None
        found = self._last, self._last > self._first
        self._first = self._last = 0
        return found

    def _advance(self) -> None:
        self._answered += 1
        while self._early and self._answered + 1 in self._early:
            self._answered += 1
            self._early.remove(self._answered)
