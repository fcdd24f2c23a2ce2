"""Numbers for routing keys that nothing in a virtual host tells apart, as the keys of different orders mostly are."""

from __future__ import annotations

from collections.abc import Iterable

from dlx.key_classes import KeyClasses
from dlx.message_flow import MessageFlow

KEYS_MAX = 200_000
"""Keys remembered; beyond that they are looked up again."""


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
        self._known: dict[str, int | None] = {}

    def reads(self, header: str) -> bool:
        """Tell whether the virtual host may look at that header of a message."""
        return header in ("CC", "BCC") or self._classes.matters(header)

    def number(self, key: str) -> int | None:
        """Return the number that a key shares with those like it; ``None`` for one that is unlike all others.

        Such are the names of queues, and keys that a queue gives to its dead letters.
        """
        if key in self._known:
            return self._known[key]
        if len(self._known) >= KEYS_MAX:
            self._known.clear()
        found = key if key in self._set else self._classes.key_class(key)
        number = self._known[key] = found if isinstance(found, int) else None
        return number
