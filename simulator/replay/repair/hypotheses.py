"""Hypotheses: what may have happened that the log or the definitions do not show."""

from __future__ import annotations

import msgspec

from simulator.replay.repair.changes import Change
from simulator.replay.repair.costs import Kind


class Hypothesis(msgspec.Struct, frozen=True):
    """Something that would explain deliveries; two messages may have the same one.

    Attributes:
        kind: what sort of thing.
        vhost: the virtual host.
        change: of ``other definitions``, what they said otherwise.
        exchange, routing_keys: of an unseen publish, where it went to.
        queue: the queue that the copy entered, or, of a missing delivery, the one that made it.
        headers: of ``forged headers``, those that the client wrote or left out.
        remarks: what makes it less likely than others of its kind (``costs.REMARKS``); one may stand there twice.
    """

    kind: Kind
    vhost: str
    change: Change = frozenset()
    exchange: str | None = None
    routing_keys: tuple[str, ...] = ()
    queue: str | None = None
    headers: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
