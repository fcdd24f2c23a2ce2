"""The contents of a transaction until its commit: publishes that were checked, deliveries that were settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from dlx.message import Message

if TYPE_CHECKING:
    from simulator.broker.state.clients import Unacked
    from simulator.broker.state.virtual_hosts import Counters

Settled = tuple[int, "Unacked"]
"""A delivery, with its delivery tag."""


class Route(msgspec.Struct, gc=False):
    """A checked publish: the message and the queues it goes to; ``properties`` keeps its identity alive."""

    generation: int
    properties: Mapping[str, Any]
    message: Message
    queues: tuple[str, ...]
    counters: Counters


class Publishing(msgspec.Struct):
    """One publish that waits for the commit of its transaction; ``types`` are those of the queues on its route."""

    route: Route
    types: tuple[str, ...]
    body: bytes
    uid: int
    mandatory: bool


class Settling(msgspec.Struct):
    """Deliveries that are settled together; ``how`` is ``ack`` or a kind of return."""

    how: str
    requeue: bool
    settled: list[Settled]
