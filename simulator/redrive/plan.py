"""Plans what is brought back from a dead-letter queue: for each message where to, with what, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dlx.message import PublishRefusedError, published
from dlx.message_flow import MessageFlow
from simulator.redrive.address import Address, Origin, address_of
from simulator.redrive.carried import Headers, carried
from simulator.redrive.fate import Fate, Fates, Kind
from simulator.redrive.journal import Asked
from simulator.redrive.waiting import Waiting


class Planned(msgspec.Struct, frozen=True):
    """What is planned for one message.

    Attributes:
        message: as it waits.
        address: where it is published to; ``None`` where no header tells.
        headers: what it carries.
        fate: what becomes of it.
        goes: whether it is brought back: it arrives, or whatever else becomes of it is allowed.
    """

    message: Waiting
    address: Address | None
    headers: Mapping[str, Any]
    fate: Fate
    goes: bool


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for.

    Attributes:
        to: where messages go.
        headers: what they carry.
        only: which of them are brought back.
        allowed: what may become of a message besides that it arrives.
    """

    to: Origin | Address = "origin"
    headers: Headers = "strip"
    only: Callable[[Waiting], bool] = lambda message: True
    allowed: frozenset[Kind] = frozenset()

    def asked(self, server: str, vhost: str, queue: str) -> Asked:
        """Return what a journal says of this."""
        return Asked(server, vhost, queue, str(self.to), self.headers)


class Planner:
    """Plans message by message, from the head of the queue on: what was planned before fills the queues.

    Args:
        flow: what can become of messages in the virtual host.
        ready: how many messages are ready in each queue now.
        wanted: what is asked for.
    """

    def __init__(self, flow: MessageFlow, ready: Mapping[str, int], wanted: Wanted) -> None:
        self._flow, self._wanted = flow, wanted
        self._fates = Fates(flow, ready)
        self._counts_carried = flow.release.delivery_count_carried != "never"

    def planned(self, message: Waiting) -> Planned:
        """Return what is planned for the next message."""
        headers = carried(message.headers, self._wanted.headers, counts_carried=self._counts_carried)
        address = address_of(message, self._wanted.to)
        fate = self._fate(message, address, headers)
        goes = address is not None and (fate.kind == Kind.ARRIVES or fate.kind in self._wanted.allowed)
        return Planned(message, address, headers, fate, goes)

    def _fate(self, message: Waiting, address: Address | None, headers: Mapping[str, Any]) -> Fate:
        if not self._wanted.only(message):
            return Fate(Kind.NOT_ASKED_FOR)
        if address is None:
            return Fate(Kind.UNKNOWN_ORIGIN, why="it has no x-death of its first death")
        if address.exchange not in self._flow.topology.exchanges:
            return Fate(Kind.UNROUTABLE, why=f"there is no exchange '{address.exchange}'")
        try:
            copy = published(address.exchange, address.routing_key, headers=headers or None, release=self._flow.release)
        except PublishRefusedError as error:
            return Fate(Kind.REFUSED_PUBLISH, why=str(error))
        return self._fates.of(copy)
