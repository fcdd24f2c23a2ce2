"""Remembers what was encoded or decoded: equal keys give the same object as long as it is remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key", bytes, str)
Value = TypeVar("Value")

REMEMBERED_MAX = 1024
LENGTH_MAX = 1024  # longer keys are coded every time: they rarely come back


class CodecCache(dict[Key, Value]):
    """Encodes or decodes by indexing, ``cache[key]``. Forgets everything when it is full."""

    def __init__(self, code: Callable[[Key], Value]) -> None:
        super().__init__()
        self._code: Callable[[Key], Value] = code

    def __missing__(self, key: Key) -> Value:
        value = self._code(key)
        if len(key) <= LENGTH_MAX:
            if len(self) >= REMEMBERED_MAX:
                self.clear()
            self[key] = value
        return value
