"""Plans what is brought back from a dead-letter queue: for each message where to, with what, and with what result."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dlx.consumer import ATTEMPTS_HEADER, DeathHistory
from dlx.message import Message, PublishRefusedError, properties_size, published
from dlx.message_flow import MessageFlow
from dlx.retries import republish_headers
from simulator.analysis.slices import message_of, unclear_exchanges
from simulator.redrive.future import Future, Futures
from simulator.redrive.journal import RedriveRequest
from simulator.redrive.prediction import APART_US, ARRIVING, Held, Kind, Prediction, Predictor
from simulator.redrive.waiting import Address, Origin, OwnKeys, WaitingMessage, address_of
from simulator.scenario.steps import Publish

if TYPE_CHECKING:
    from pika.spec import BasicProperties


# What a message carries that is brought back: its headers, and whether it may expire again.


Headers = Literal["strip", "attempts", "keep"]
"""``strip``: its publisher's own headers alone. ``attempts``: also how many attempts failed, in ``x-failed-attempts``,
which ``dlx.death_history`` reads. ``keep``: all, also what the broker wrote."""

_COPIES = ("CC", "BCC")
_NO_X_DEATH = "it has no x-death: give --to EXCHANGE KEY"
_FIRST_DEATH_UNKNOWN = "its x-death does not have its first death"


def carried(
    headers: Mapping[str, Any],
    how: Headers,
    history: DeathHistory,
    *,
    counts_carried: bool,
    copies: bool = False,
) -> dict[str, Any]:
    """Return the headers that the message takes along.

    The keys in CC and BCC stay behind, or their queues would get the message, too, unless ``copies``. The expiration
    is not a header; all of them leave it out, for a dead letter has lost its own.

    Args:
        headers: as it was delivered.
        how: which of them it keeps.
        history: its deaths.
        counts_carried: whether ``x-delivery-count`` may hold rejections (``Release.delivery_count_carried``).
        copies: whether ``keep`` keeps the keys in CC, too.
    """
    if how == "keep":
        return {name: value for name, value in headers.items() if copies or name not in _COPIES}
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


class Planned(msgspec.Struct, frozen=True):
    """The plan for one message.

    Attributes:
        message: as it waits.
        address: where it is published to; ``None`` where no header tells.
        headers: what it carries.
        leaves_behind: headers and properties that it does not carry: its names, and what they hold.
        fate: what becomes of it.
        goes: whether it is brought back: it arrives, or whatever else becomes of it is allowed.
    """

    message: WaitingMessage
    address: Address | None
    headers: Mapping[str, Any]
    leaves_behind: Mapping[str, Any]
    fate: Prediction
    goes: bool


class RedriveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for.

    Attributes:
        to: where messages go.
        headers: what they carry.
        only: which of them are brought back.
        allowed: what may become of a message besides that it arrives.
        discards: whether they go nowhere but into an archive.
    """

    to: Origin | Address | OwnKeys = "origin"
    headers: Headers = "strip"
    only: Callable[[WaitingMessage], bool] = lambda message: True
    allowed: frozenset[Kind] = frozenset()
    discards: bool = False

    def asked(self, server: str, vhost: str, queue: str) -> RedriveRequest:
        """Return what a journal says of this."""
        return RedriveRequest(server, vhost, queue, "archive" if self.discards else str(self.to), self.headers)


class RedrivePlanner:
    """Plans message by message, from the head of the queue on: earlier plans fill the queues.

    Args:
        flow: what can become of messages in the virtual host.
        held: what each queue holds now.
        wanted: what is asked for.
        rate: messages that are sent in a second, at most.
        of_plugins: the exchanges of which only a plugin knows how they route.
        why_refused: returns why the user may not publish to an exchange; empty if the user may.
    """

    def __init__(
        self,
        flow: MessageFlow,
        held: Mapping[str, Held],
        wanted: RedriveOptions,
        rate: float | None = None,
        *,
        of_plugins: frozenset[str] = frozenset(),
        why_refused: Callable[[str], str] = lambda exchange: "",
    ) -> None:
        self._flow, self._wanted, self._why_refused = flow, wanted, cache(why_refused)
        self._fates = Predictor(flow, held, APART_US if rate is None else max(APART_US, 1_000_000 / rate))
        self._futures = Futures(flow, of_plugins)
        self._other_addresses = OtherAddresses(flow, self._future_of, of_plugins)
        self._counts_bytes = any(flow.settings(queue).max_length_bytes is not None for queue in flow.topology.queues)
        self._counts_carried = flow.release.delivery_count_carried != "never"

    def planned(self, message: WaitingMessage, *, exceeds_limit: bool = False) -> Planned:
        """Return what is planned for the next message.

        ``exceeds_limit``: it would die if it were given back to its queue, and the user has to allow that.
        """
        headers = self._carried(message, self._wanted.headers)
        address = address_of(message, self._wanted.to)
        fate = self._fate(message, address, headers)
        if exceeds_limit and fate.kind != Kind.NOT_SELECTED and Kind.EXCEEDS_LIMIT not in self._wanted.allowed:
            fate = Prediction(Kind.EXCEEDS_LIMIT, fate.queues, "its delivery count is near the delivery limit")
        allowed = {Kind.ARRIVES, *self._wanted.allowed}
        allowed |= {Kind.HELD_LATER} if Kind.LOST_LATER in allowed else set()
        goes = address is not None and fate.kind in allowed
        return Planned(message, address, headers, left_behind(message, headers), fate, goes)

    def instead_of(self, planned: Planned) -> Instead | None:
        """Return what to do instead where a message would be lost or held later since it came back; else ``None``."""
        if planned.address is None or planned.fate.kind not in (Kind.LOST_LATER, Kind.HELD_LATER):
            return None
        return self._other_addresses.instead_of(planned.address, planned.message, planned.headers)

    def _fate(self, message: WaitingMessage, address: Address | None, headers: Mapping[str, Any]) -> Prediction:
        if not self._wanted.only(message):
            return Prediction(Kind.NOT_SELECTED)
        if address is None:
            return Prediction(Kind.UNKNOWN_ORIGIN, why=_FIRST_DEATH_UNKNOWN if message.deaths else _NO_X_DEATH)
        exchange = self._flow.topology.exchanges.get(address.exchange)
        if exchange is None:
            return Prediction(Kind.UNROUTABLE, why=f"there is no exchange '{address.exchange}'")
        if exchange.internal:
            return Prediction(
                Kind.REFUSED_PUBLISH, why=f"the exchange '{address.exchange}' is internal: clients cannot publish to it"
            )
        if refused := self._why_refused(address.exchange):
            return Prediction(Kind.REFUSED_PUBLISH, why=refused)
        try:
            copy = published(address.exchange, address.routing_key, headers=headers or None, release=self._flow.release)
            properties = _properties_size(copy, message) if self._counts_bytes else 0
            fate = self._fates.of(copy, len(message.row.payload), properties)
        except PublishRefusedError as error:
            why = error.explanation or "an exchange fails over its headers, which ends the connection"
            return Prediction(Kind.REFUSED_PUBLISH, why=why)
        return self._foreseen(fate, message, address, headers)

    def _foreseen(
        self, fate: Prediction, message: WaitingMessage, address: Address, headers: Mapping[str, Any]
    ) -> Prediction:
        """Return the fate with what may follow; another one where it is then lost or held because of the redrive."""
        if fate.kind not in ARRIVING:
            return fate
        future = self._future_of(message, address, headers)
        kind = fate.kind
        if future.worse and kind != Kind.CYCLE:
            kind = Kind.HELD_LATER if all(each.held for each in future.worse) else Kind.LOST_LATER
        return msgspec.structs.replace(fate, kind=kind, future=future)

    def _future_of(self, message: WaitingMessage, address: Address, headers: Mapping[str, Any]) -> Future:
        return self._futures.of(message, address, headers, self._carried(message, "strip"))

    def _carried(self, message: WaitingMessage, how: Headers) -> dict[str, Any]:
        copies = isinstance(self._wanted.to, OwnKeys)
        return carried(message.headers, how, message.deaths, counts_carried=self._counts_carried, copies=copies)


_NOT_CARRIED = ("user_id",)


def _properties_size(copy: Message, message: WaitingMessage) -> int:
    """Return how many bytes the properties take. They are not part of the copy: most have some of their own."""
    own = msgspec.json.decode(message.row.properties) | {"message_id": message.row.message_id}
    kept = {name: value for name, value in own.items() if name not in _NOT_CARRIED}
    return properties_size(msgspec.structs.replace(copy, properties=kept))


def left_behind(message: WaitingMessage, headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a message does not carry that keeps these headers: its name, and what it holds."""
    kept = {name: value for name, value in message.headers.items() if name not in headers}
    properties = msgspec.json.decode(message.row.properties)
    if message.row.expiration is not None:
        kept["expiration"] = message.row.expiration
    return kept | {name: properties[name] for name in _NOT_CARRIED if name in properties}


# Finds another address for a message that would be lost if it died again: one that keeps the key it had at first.


class Instead(msgspec.Struct, frozen=True):
    """Where to bring a message back to instead.

    Attributes:
        option: of ``dlx redrive``: an address with the routing key that the message was first published with, which
            reaches the same queues and no others, and from which no later death loses it that would not have before.
        why_none: what speaks against all others, where there is no such address.
    """

    option: str = ""
    why_none: str = ""

    def __str__(self) -> str:
        if self.option:
            return f"instead: {self.option} keeps its first routing key, and reaches no other queue"
        return f"no other address keeps its first routing key and reaches no other queue: {self.why_none}"


FutureOf = Callable[[WaitingMessage, Address, Mapping[str, Any]], Future]


class OtherAddresses:
    """Looks for other addresses in one virtual host.

    Args:
        flow: what can become of messages there.
        future_of: returns the future of a message at an address, with the headers that it carries.
        of_plugins: the exchanges of which only a plugin knows how they route.
    """

    def __init__(self, flow: MessageFlow, future_of: FutureOf, of_plugins: frozenset[str] = frozenset()) -> None:
        self._flow, self._future_of = flow, future_of
        self._unclear = unclear_exchanges(flow.topology) | of_plugins

    def instead_of(self, address: Address, message: WaitingMessage, headers: Mapping[str, Any]) -> Instead:
        """Return what to do instead of publishing a message to an address with these headers."""
        first, entry = address_of(message, "published"), message.first_entry
        if first is None or entry is None:
            return Instead(why_none="no header says how it was published")
        wanted = self._reached(address, headers)
        against = self._against(first, wanted, message, headers)
        if not against:
            return Instead("--to published")
        for name in self._flow.topology.exchanges:
            other = Address(name, first.routing_key)
            if name and other != address and not self._against(other, wanted, message, headers):
                return Instead(f"--to {shlex.quote(name)} {shlex.quote(first.routing_key)}")
        queues = _join_names(wanted)
        none = f"--to published {against}, and no exchange routes {first.routing_key!r} to {queues} alone"
        if wanted == {entry.queue} and len(entry.routing_keys) == 1:
            none += f" (a new one that is bound to {queues} by this key would)"
        return Instead(why_none=none)

    def _reached(self, address: Address, headers: Mapping[str, Any]) -> set[str]:
        publish = Publish(address.exchange, address.routing_key, headers=headers)
        return set(self._flow.entries(message_of(publish, self._flow.release)))

    def _against(self, address: Address, wanted: set[str], message: WaitingMessage, headers: Mapping[str, Any]) -> str:
        """Return what speaks against an address; empty where nothing does."""
        exchange = self._flow.topology.exchanges.get(address.exchange)
        if exchange is None or exchange.internal:
            why = "is internal" if exchange else "does not exist"
            return f"needs the exchange '{address.exchange}', which {why}"
        if self._unclear & self._flow.passed({address.exchange}):
            return "goes through an exchange that chooses at random, or as a plugin does"
        reached = self._reached(address, headers)
        if reached != wanted:
            return f"reaches {_join_names(reached) or 'no queue'}"
        worse = self._future_of(message, address, headers).worse
        return f"does not help: {worse[0]}" if worse else ""


def _join_names(queues: set[str]) -> str:
    return " and ".join(f"'{queue}'" for queue in sorted(queues))
