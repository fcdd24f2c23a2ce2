"""What a message carries that is brought back: its headers, and whether it may expire again."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

from dlx.consumer import ATTEMPTS_HEADER, DeathHistory
from dlx.retries import republish_headers

if TYPE_CHECKING:
    from pika.spec import BasicProperties

Headers = Literal["strip", "attempts", "keep"]
"""``strip``: its publisher's own headers alone. ``attempts``: also how many attempts failed, in ``x-failed-attempts``,
which ``dlx.death_history`` reads. ``keep``: all, also what the broker wrote."""

_COPIES = ("CC", "BCC")


def carried(headers: Mapping[str, Any], how: Headers, history: DeathHistory, *, counts_carried: bool) -> dict[str, Any]:
    """Return the headers that the message takes along.

    The keys in CC and BCC stay behind, or their queues would get the message, too. The expiration
    is no header; it is left out by all of them, for a dead letter has lost its own.

    Args:
        headers: as it was delivered.
        how: which of them it keeps.
        history: its deaths.
        counts_carried: whether ``x-delivery-count`` may hold rejections (``Release.delivery_count_carried``).
    """
    if how == "keep":
        return {name: value for name, value in headers.items() if name not in _COPIES}
    failed = history.failures(counts_carried=counts_carried)
    kept = republish_headers(dict(headers), attempts=failed)
    if how == "strip":
        kept.pop(ATTEMPTS_HEADER)
    return kept


def properties_carried(came: BasicProperties, headers: Mapping[str, Any]) -> BasicProperties:
    """Return the properties that a message takes along; of its headers those named, with the types that they came with.

    Without the expiration, and without the user: a broker refuses a publish in the name of another one.
    """
    carried = copy(came)
    typed = came.headers or {}
    carried.headers = {name: typed.get(name, value) for name, value in headers.items()} or None
    carried.expiration = carried.user_id = None
    return carried
