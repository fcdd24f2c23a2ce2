"""Tells those who wait that something may have changed on a node, or that the node has stopped."""

from __future__ import annotations

import asyncio


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
        """Let nobody wait any more."""
        self.ended = True
        self.note()

    async def after(self, number: int, timeout_s: float) -> bool:
        """Return whether there are more than ``number``; wait for that, but no longer than the seconds of wall time."""
        if self.number == number and not self.ended:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._next], timeout=timeout_s)
        return self.number != number
