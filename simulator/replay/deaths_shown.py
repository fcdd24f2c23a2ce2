"""What the ``x-death`` of a row says, read once for all who ask: how often a message died, where, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from dlx.recorded_deaths import death_counts, deaths_in_x_death

Kind = tuple[str, str]
"""The queue and the reason of a death."""
Address = tuple[Any, Any]
"""The exchange and the routing keys under which a message was in a queue."""


class DeathsShown(NamedTuple):
    """What an ``x-death`` says, by kind of death.

    Attributes:
        counts: how often the message died.
        reasons: for each queue, the reasons for which it died there.
        addresses: under which address it died first; empty for a header that no broker wrote.
        places: where the entry stands, if there is only one of its kind.
    """

    counts: Mapping[Kind, int]
    reasons: Mapping[str, list[str]]
    addresses: Mapping[Kind, Address]
    places: Mapping[Kind, int]


NO_DEATHS = DeathsShown({}, {}, {}, {})


def deaths_shown(x_death: str | None) -> DeathsShown:
    """Return what an ``x-death`` says, given as JSON; ``None``: the row has none."""
    return NO_DEATHS if x_death is None else _read(x_death)


@lru_cache(maxsize=10_000)
def _read(x_death: str) -> DeathsShown:
    decoded = msgspec.json.decode(x_death)
    entries = decoded if isinstance(decoded, list) else []
    tables = [entry for entry in entries if isinstance(entry, dict)]
    counts = death_counts(deaths_in_x_death(decoded))
    reasons: dict[str, list[str]] = {}
    for queue, reason in counts:
        reasons.setdefault(queue, []).append(reason)
    return DeathsShown(counts, reasons, addresses_in(map(death_in, tables)), _places(entries))


def addresses_in(deaths: Iterable[tuple[Kind, Address]]) -> Mapping[Kind, Address]:
    """Return the deaths by kind; nothing if two are of a kind, as only a client writes."""
    given = list(deaths)
    found = dict(given)
    return found if len(found) == len(given) else {}


def death_in(entry: Mapping[str, Any]) -> tuple[Kind, Address]:
    """Return the kind and the address of the death in an entry of ``x-death``."""
    keys = entry.get("routing-keys")
    address = entry.get("exchange"), tuple(keys) if isinstance(keys, list) else keys
    return (str(entry.get("queue")), str(entry.get("reason"))), address


def _places(entries: list[Any]) -> Mapping[Kind, int]:
    kinds = [(entry.get("queue"), entry.get("reason")) if isinstance(entry, dict) else None for entry in entries]
    return {
        (str(kind[0]), str(kind[1])): place
        for place, kind in enumerate(kinds)
        if kind is not None and kinds.count(kind) == 1
    }
