"""What is remembered because that saves work, and may be forgotten at any time."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(dict[Key, Value]):
    """A dict that forgets everything when one entry more than ``entries_max`` is put into it by ``cache[key] = value``.

    For what belongs to an object, and is emptied when that changes; ``functools.lru_cache`` is for functions. Not many
    more than 1,000: where no two messages are alike, they would keep the memory of a flood from coming back.
    """

    __slots__ = ("_entries_max",)

    def __init__(self, entries_max: int = 1_000) -> None:
        super().__init__()
        self._entries_max = entries_max

    def __setitem__(self, key: Key, value: Value) -> None:
        if len(self) >= self._entries_max:
            self.clear()
        super().__setitem__(key, value)
