"""Plans what is brought back from a dead-letter queue: for each message where to, with what, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dlx.message import Message, PublishRefusedError, published
from dlx.message_flow import MessageFlow
from dlx.property_size import properties_size
from simulator.redrive.address import Address, Origin, address_of
from simulator.redrive.carried import Headers, carried
from simulator.redrive.fate import APART_US, ARRIVING, Fate, Fates, Kind
from simulator.redrive.future import Future, Futures
from simulator.redrive.held import Held
from simulator.redrive.instead import Instead, OtherAddresses
from simulator.redrive.journal import Asked
from simulator.redrive.waiting import Waiting


class Planned(msgspec.Struct, frozen=True):
    """What is planned for one message.

    Attributes:
        message: as it waits.
        address: where it is published to; ``None`` where no header tells.
        headers: what it carries.
        leaves_behind: headers and properties that it does not carry: its names, and what they hold.
        fate: what becomes of it.
        goes: whether it is brought back: it arrives, or whatever else becomes of it is allowed.
    """

    message: Waiting
    address: Address | None
    headers: Mapping[str, Any]
    leaves_behind: Mapping[str, Any]
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
        held: what each queue holds now.
        wanted: what is asked for.
        rate: messages that are sent in a second, at most.
        of_plugins: the exchanges of which only a plugin knows how they route.
    """

    def __init__(
        self,
        flow: MessageFlow,
        held: Mapping[str, Held],
        wanted: Wanted,
        rate: float | None = None,
        *,
        of_plugins: frozenset[str] = frozenset(),
    ) -> None:
        self._flow, self._wanted = flow, wanted
        self._fates = Fates(flow, held, APART_US if rate is None else max(APART_US, 1_000_000 / rate))
        self._futures = Futures(flow, of_plugins)
        self._other_addresses = OtherAddresses(flow, self._future_of, of_plugins)
        self._counts_bytes = any(flow.settings(queue).max_length_bytes is not None for queue in flow.topology.queues)
        self._counts_carried = flow.release.delivery_count_carried != "never"

    def planned(self, message: Waiting, *, exceeds_limit: bool = False) -> Planned:
        """Return what is planned for the next message.

        ``exceeds_limit``: it would die if it were given back to its queue, and it should be asked about that.
        """
        headers = self._carried(message, self._wanted.headers)
        address = address_of(message, self._wanted.to)
        fate = self._fate(message, address, headers)
        if exceeds_limit and fate.kind != Kind.NOT_ASKED_FOR and Kind.EXCEEDS_LIMIT not in self._wanted.allowed:
            fate = Fate(Kind.EXCEEDS_LIMIT, fate.queues, "its delivery count is near the delivery limit")
        goes = address is not None and (fate.kind == Kind.ARRIVES or fate.kind in self._wanted.allowed)
        return Planned(message, address, headers, left_behind(message, headers), fate, goes)

    def instead_of(self, planned: Planned) -> Instead | None:
        """Return what to do instead where a message would be lost later since it is brought back; else ``None``."""
        if planned.address is None or planned.fate.kind != Kind.LOST_LATER:
            return None
        return self._other_addresses.instead_of(planned.address, planned.message, planned.headers)

    def _fate(self, message: Waiting, address: Address | None, headers: Mapping[str, Any]) -> Fate:
        if not self._wanted.only(message):
            return Fate(Kind.NOT_ASKED_FOR)
        if address is None:
            return Fate(Kind.UNKNOWN_ORIGIN, why="it has no x-death of its first death")
        exchange = self._flow.topology.exchanges.get(address.exchange)
        if exchange is None:
            return Fate(Kind.UNROUTABLE, why=f"there is no exchange '{address.exchange}'")
        if exchange.internal:
            return Fate(
                Kind.REFUSED_PUBLISH, why=f"the exchange '{address.exchange}' is internal: nobody publishes to it"
            )
        try:
            copy = published(address.exchange, address.routing_key, headers=headers or None, release=self._flow.release)
        except PublishRefusedError as error:
            return Fate(Kind.REFUSED_PUBLISH, why=str(error))
        properties = _properties_size(copy, message) if self._counts_bytes else 0
        return self._foreseen(self._fates.of(copy, len(message.row.payload), properties), message, address, headers)

    def _foreseen(self, fate: Fate, message: Waiting, address: Address, headers: Mapping[str, Any]) -> Fate:
        """Return the fate with what may follow; another one where that is a loss which the redrive brings about."""
        if fate.kind not in ARRIVING:
            return fate
        future = self._future_of(message, address, headers)
        kind = Kind.LOST_LATER if future.worse and fate.kind != Kind.CYCLE else fate.kind
        return msgspec.structs.replace(fate, kind=kind, future=future)

    def _future_of(self, message: Waiting, address: Address, headers: Mapping[str, Any]) -> Future:
        return self._futures.of(message, address, headers, self._carried(message, "strip"))

    def _carried(self, message: Waiting, how: Headers) -> dict[str, Any]:
        return carried(message.headers, how, message.deaths, counts_carried=self._counts_carried)


_NOT_CARRIED = ("user_id",)


def _properties_size(copy: Message, message: Waiting) -> int:
    """Return how many bytes the properties take. They are no part of the copy: most have some of their own."""
    own = msgspec.json.decode(message.row.properties) | {"message_id": message.row.message_id}
    kept = {name: value for name, value in own.items() if name not in _NOT_CARRIED}
    return properties_size(msgspec.structs.replace(copy, properties=kept))


def left_behind(message: Waiting, headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a message does not carry that keeps these headers: its name, and what it holds."""
    kept = {name: value for name, value in message.headers.items() if name not in headers}
    properties = msgspec.json.decode(message.row.properties)
    if message.row.expiration is not None:
        kept["expiration"] = message.row.expiration
    return kept | {name: properties[name] for name in _NOT_CARRIED if name in properties}
