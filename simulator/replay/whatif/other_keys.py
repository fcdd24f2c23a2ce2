"""What deliveries of a message show when it is published with another routing key that no exchange tells apart."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from simulator.json_values import canonical_json
from simulator.replay.whatif.stories import Shown

_MARK = "\ue000"


class AnyKey:
    """Deliveries of a message in which its routing key may be another one.

    The key must be no queue's, and none that a queue gives to its dead letters: it stands where it was published only.

    Attributes:
        key: the routing key.
    """

    def __init__(self, deliveries: Sequence[Shown], key: str) -> None:
        self.key, self._own = key, tuple(deliveries)
        self._parts: list[list[str]] | None = None

    def at(self, key: str) -> tuple[Shown, ...]:
        """Return what they show of a message with this key."""
        if key == self.key:
            return self._own
        if self._parts is None:
            self._parts = [_parts(each.x_death, self.key) for each in self._own]
        quoted = canonical_json(key)
        return tuple([
            Shown(each.queue, each.exchange, self._keys(each, key), quoted.join(parts))
            for each, parts in zip(self._own, self._parts, strict=True)
        ])  # fmt: skip

    def _keys(self, shown: Shown, key: str) -> tuple[str, ...]:
        return tuple([key if each == self.key else each for each in shown.routing_keys])


def _parts(x_death: str, key: str) -> list[str]:
    """Return what stands around the key in the routing keys of deaths."""
    if not x_death:
        return [""]
    deaths, mark = msgspec.json.decode(x_death), _MARK
    while mark in x_death:
        mark += _MARK
    for death in deaths:
        death["routing-keys"] = [mark if each == key else each for each in death["routing-keys"]]
    return canonical_json(deaths).split(canonical_json(mark))
