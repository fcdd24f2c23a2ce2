"""A broker as bytes and back.

Queues, consumers, channels and connections refer to each other in circles and long
chains, too long for a pickle that follows them. They are therefore pickled one by
one, by number where others refer to them.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import fields
from typing import Any

from simulator.broker.state import Channel, Connection, Consumer, QueueState, VirtualHost

_NUMBERED: tuple[type, ...] = (VirtualHost, QueueState, Connection, Channel, Consumer)
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in _NUMBERED}


def dumped(root: Any) -> bytes:
    """``root`` and all that it refers to."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(root)
    for found in pickler.found:  # which finds more
        pickler.dump([getattr(found, name) for name in _FIELDS[type(found)]])
    return file.getvalue()


def loaded(data: bytes) -> Any:
    """What ``dumped`` was given. Raises anything for what it did not make."""
    unpickler = _Unpickler(io.BytesIO(data))
    root = unpickler.load()
    for shell in unpickler.found:
        for name, value in zip(_FIELDS[type(shell)], unpickler.load(), strict=True):
            setattr(shell, name, value)
    return root


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.found: list[Any] = []
        self._numbers: dict[int, int] = {}

    def persistent_id(self, value: Any) -> tuple[int, int] | None:
        """Which of the numbered ones it is: its kind and its number."""
        if type(value) not in _FIELDS:
            return None
        number = self._numbers.setdefault(id(value), len(self.found))
        if number == len(self.found):
            self.found.append(value)
        return _NUMBERED.index(type(value)), number


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.found: list[Any] = []

    def persistent_load(self, reference: tuple[int, int]) -> Any:
        """The one of that number; they are met in the order of their numbers."""
        kind, number = reference
        if number == len(self.found):
            self.found.append(object.__new__(_NUMBERED[kind]))
        return self.found[number]
