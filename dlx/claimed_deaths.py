"""Read the history that a client claims in ``x-death``, as 3.13 does: it takes it over at the publish.

Entries that lack a field, or have no time, are skipped, and a header that is not an
array is ignored. A whole entry is taken as it is: its reason and its original expiration
are read at the publish, the other fields written to each consumer, whatever they are. So
a field of a wrong type makes the server fail then, and the connection ends with 541.

Not modelled here: a reason may be any text that Erlang's machine has met before.

Source: mc_amqpl.erl headers_to_deaths, recover_deaths, death_table (3.13.7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

from dlx.deaths import X_DEATH, Death, seconds

_FIELDS = ("exchange", "queue", "routing-keys", "reason", "count", "time")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")

Entry = Mapping[str, Any]


class DeathClaim(NamedTuple):
    """What the server makes of a claim.

    ``deaths`` are those it takes over; ``None``: there was no history to take.
    ``readable``: it does not fail at the publish; ``writable``: nor at the delivery.
    """

    deaths: tuple[Death, ...] | None
    readable: bool = True
    writable: bool = True


NO_CLAIM = DeathClaim(None)


def claimed_deaths(headers: Mapping[str, Any] | None) -> DeathClaim:
    """Return what 3.13 makes of the ``x-death`` among a client's headers."""
    value = None if headers is None else headers.get(X_DEATH)
    if not isinstance(value, (list, tuple)):
        return NO_CLAIM
    entries = [entry for entry in value if _is_whole(entry)]
    readable, writable = all(map(_is_readable, entries)), all(map(_is_writable, entries))
    taken = (_death(entry) for entry in entries if _is_readable(entry) and _is_writable(entry))
    return DeathClaim(tuple(taken), readable, writable)


def _is_whole(entry: Any) -> bool:
    whole = isinstance(entry, Mapping) and all(field in entry for field in _FIELDS)
    return whole and seconds(entry["time"]) is not None


def _is_readable(entry: Entry) -> bool:
    return _is_text(entry["reason"]) and ("original-expiration" not in entry or _expiration(entry) is not None)


def _is_writable(entry: Entry) -> bool:
    keys = entry["routing-keys"]
    if not isinstance(keys, (list, tuple)) or seconds(entry["count"]) is None:
        return False
    return all(map(_is_text, (entry["queue"], entry["exchange"], *keys)))


def _death(entry: Entry) -> Death:
    return Death(
        queue=_text(entry["queue"]),
        reason=_text(entry["reason"]),
        count=seconds(entry["count"]) or 0,
        exchange=_text(entry["exchange"]),
        routing_keys=tuple(map(_text, entry["routing-keys"])),
        time_s=seconds(entry["time"]) or 0,
        original_expiration=_expiration(entry),
    )


def _expiration(entry: Entry) -> str | None:
    """Return the original expiration as the server shows it; ``None`` if it is not a whole number."""
    value = entry.get("original-expiration")
    text = _text(value) if _is_text(value) else ""
    return str(int(text)) if _WHOLE_NUMBER.fullmatch(text) else None


def _is_text(value: Any) -> TypeGuard[str | bytes]:
    return isinstance(value, (str, bytes))


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="surrogateescape")
