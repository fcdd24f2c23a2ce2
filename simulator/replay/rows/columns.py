"""Numbers what is alike in columns, so that Python looks once at rows, or messages, of which there are many."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dlx.bounded_cache import BoundedCache
from dlx.key_classes import KeyClasses
from dlx.message_flow import MessageFlow

Ints = npt.NDArray[np.int64]
_MOST = 2**62


def alike_rows(*columns: npt.NDArray[np.signedinteger]) -> Ints:
    """Return a number for each row, in the order of their first; rows equal in all columns have the same."""
    numbers, width = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        if not (column != column[:1]).any():
            continue
        # Columns share an integer, each with as many values as it may have, until it is full.
        least, most = int(column.min()), int(column.max())
        if width * (most - least + 1) > _MOST:
            numbers, column = _numbered(numbers), _numbered(column)
            least, most, width = 0, len(column), len(column)
        numbers = numbers * (most - least + 1) + (column - least)
        width *= most - least + 1
    return numbers if width == 1 else _numbered(numbers)


def alike_sequences(values: Ints, lengths: Ints) -> Ints:
    """Return a number for each sequence, in the order of their first; equal ones have the same.

    ``values``, which are numbers below 2^32, are those of all sequences, one after the other.
    """
    starts = np.cumsum(lengths) - lengths
    numbers = _numbered(lengths)
    most = len(numbers)
    for place in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > place)
        # Those that ended before keep their numbers, so these get others.
        numbers[longer] = most + _numbered(numbers[longer] << 32 | values[starts[longer] + place])
        most += len(longer)
    return _numbered(numbers)


def firsts(numbers: Ints) -> Ints:
    """Return where each number stands first."""
    first = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of those that are equal, the last one stays
    return first


def alike_within(groups: Ints, values: Ints) -> Ints:
    """Return a number for each value, from 0 in each group, in the order of their first; equal ones have the same.

    The values of a group follow each other.
    """
    if not len(values):
        return values
    numbers = alike_rows(groups, values)
    begins = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    return numbers - np.repeat(numbers[begins], np.diff(begins, append=len(values)))


def places_of(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return the places from each start on, that many each, and the distance of each of them from its start."""
    behind = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(starts, lengths) + behind, behind


def _numbered(values: npt.NDArray[np.signedinteger]) -> Ints:
    """Return numbers for values, in the order of their first."""
    found: Ints = pa.array(values).dictionary_encode().indices.to_numpy().astype(np.int64)
    return found


# Numbers for routing keys that nothing in a virtual host distinguishes, as the keys of different orders mostly are.


class AlikeKeys:
    """Numbers the routing keys of one virtual host under one release.

    Args:
        flow: the virtual host.
        others: the numbers of others, which may route the same: what is known of the keys there holds here.
    """

    def __init__(self, flow: MessageFlow, others: Iterable[AlikeKeys] = ()) -> None:
        known = (each._classes for each in others if each._classes.are_those_of(flow.topology, flow.release))
        self._classes: KeyClasses = next(known, None) or KeyClasses(flow.topology, flow.release)
        settings = (flow.settings(queue) for queue in flow.topology.queues)
        self._set = frozenset(each.dead_letter_routing_key for each in settings)
        self._known: BoundedCache[str, int | None] = BoundedCache(200_000)

    def reads(self, header: str) -> bool:
        """Return whether the virtual host may look at that header of a message."""
        return header in ("CC", "BCC") or self._classes.matters(header)

    def number(self, key: str) -> int | None:
        """Return the number that a key shares with those like it; ``None`` for one that is unlike all others.

        Such are the names of queues, and keys that a queue gives to its dead letters.
        """
        if key in self._known:
            return self._known[key]
        found = key if key in self._set else self._classes.key_class(key)
        number = self._known[key] = found if isinstance(found, int) else None
        return number
