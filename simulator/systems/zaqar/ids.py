"""Ids of messages and claims: random ones from a seed, or such as were asked for."""

from __future__ import annotations

import contextlib
import random
import uuid
from collections import deque
from collections.abc import Iterable, Iterator


class Ids:
    """A source of ids.

    Args:
        seed: equal seeds give equal ids.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._asked: dict[str, deque[str | None]] = {"message": deque(), "claim": deque()}

    @contextlib.contextmanager
    def asked(self, kind: str, ids: Iterable[str | None]) -> Iterator[None]:
        """Use these as the next ids of that kind (``message``, ``claim``) while the context lasts; ``None`` is any."""
        self._asked[kind].extend(ids)
        try:
            yield
        finally:
            self._asked[kind].clear()

    def message(self) -> str:
        """Return the id of a new message."""
        return self._next("message")

    def claim(self) -> str:
        """Return the id of a new claim."""
        return self._next("claim")

    def _next(self, kind: str) -> str:
        asked = self._asked[kind].popleft() if self._asked[kind] else None
        return asked or str(uuid.UUID(int=self._random.getrandbits(128), version=4))
