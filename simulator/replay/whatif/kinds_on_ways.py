"""Takes what is known of messages on one way over to those on another one that is the same but for names.

Sixty ladders that differ in names alone need one example of each kind, not sixty (``alike_ways``): rows of messages are
compared with the names on their way numbered, and a kind that is known on one way gets the names of the other. A way
is what both sides say of it, so that holds of second plays, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import msgspec

from simulator.replay.whatif.alike_ways import OnWay, OtherNames
from simulator.replay.whatif.both_ends import Way as WayOfChange
from simulator.replay.whatif.fates import Fate
from simulator.replay.whatif.kinds import Found, Kind, Kinds, Unknown
from simulator.replay.whatif.other_keys import AnyKey


class KindsOnWays:
    """The kinds that are known of messages whose rows are the same but for names, in the order they became known.

    Args:
        kinds: the kinds of messages on all ways, by keys of their own.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._known: dict[Hashable, list[tuple[Kind, OnWay] | None]] = {}

    def add(
        self,
        key: Hashable,
        key_on_way: Hashable,
        kind: Kind | None,
        on: OnWay | None,
        *,
        tells_of_others: bool = True,
    ) -> None:
        """Take note of what a message of a kind taught.

        Args:
            key: what those have that are alike.
            key_on_way: what is equal for keys that are the same but for the names on a way.
            kind: their kind; ``None`` if this message is to be looked at by itself,
            on: their way; ``None`` if more decides.
            tells_of_others: whether, without a kind, all others are to be looked at by themselves, too.
        """
        nth = len(self._kinds.numbers(key))
        if on is not None and len(known := self._known.setdefault(key_on_way, [])) == nth:
            known.append((kind, on) if kind is not None and _holds_elsewhere(kind) else None)
        if kind is None:
            self._kinds.add_single(key, tells_of_others=tells_of_others)
        else:
            self._kinds.add(key, kind)

    def take_over(self, key: Hashable, key_on_way: Hashable, on: OnWay | None) -> bool:
        """Take over the next kind that is known on another way; tell whether there is one."""
        kind = None if on is None else self._on(key_on_way, len(self._kinds.numbers(key)), on)
        if kind is not None:
            self._kinds.add(key, kind)
        return kind is not None

    def _on(self, key_on_way: Hashable, nth: int, on: OnWay) -> Kind | None:
        """Return the ``nth`` kind, with the names of another way; nothing if it does not hold there."""
        known = self._known.get(key_on_way, ())
        if len(known) <= nth or (there := known[nth]) is None:
            return None
        kind, other = there
        return kind if other.way.names == on.way.names else _renamed(kind, other, on)


def _holds_elsewhere(kind: Kind) -> bool:
    """Tell whether nothing but the way of a message decides what becomes of it, and nothing of it is said in words."""
    told = kind.told
    return told.only_way and not told.ends.assumed if isinstance(told, Found) else told.timed.play.only_way


def _renamed(kind: Kind, one: OnWay, other: OnWay) -> Kind:
    told, names = kind.told, OtherNames(one.way, other.way)
    told = _found_on(told, names, one, other) if isinstance(told, Found) else told._replace(on=other)
    stays = [each._replace(queue=(each.queue[0], names.of(each.queue[1]))) for each in kind.stays]
    return kind._replace(told=told, stays=stays)


def _found_on(found: Found, names: OtherNames, one: OnWay, other: OnWay) -> Found:
    """Return what becomes of messages under other names."""
    own_key = names.of(one.routing_key)

    def under(fate: Fate) -> Fate:
        fate = names.fate(fate)
        if own_key != one.routing_key:
            return fate
        return msgspec.structs.replace(fate, deliveries=AnyKey(fate.deliveries, own_key).at(other.routing_key))

    before = under(found.fates.before)
    after = before if found.fates.other is None else under(found.fates.other)
    fates = msgspec.structs.replace(found.fates, before=before, other=None if found.fates.other is None else after)
    way = None if found.ends.way is None else WayOfChange(before.ends, after.ends, before.path, after.path)
    return found._replace(fates=fates, ends=found.ends._replace(before=before.ends, after=after.ends, way=way))


Key = TypeVar("Key", bound=Hashable)


def learn(
    unknown: Unknown[Key],
    key_on_way: Callable[[Key], Hashable],
    take_over: Callable[[Key], bool],
    play: Callable[[Unknown[Key]], object],
) -> None:
    """Learn a kind for each key: by taking it over if that is possible, or by a play.

    Args:
        unknown: the keys, with a message for each.
        key_on_way: returns what is equal for keys of messages that are the same but for the names on their way.
        take_over: takes over the next kind that is known on another way; tells whether there is one.
        play: plays messages.
    """
    left = [key for key in unknown if not take_over(key)]
    one_of_each = {key_on_way(key): key for key in reversed(left)}.values()
    play({key: unknown[key] for key in one_of_each})
    played = set(one_of_each)
    play({key: unknown[key] for key in left if key not in played and not take_over(key)})
