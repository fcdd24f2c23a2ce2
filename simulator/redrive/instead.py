"""Finds another address for a message that would be lost if it died again: one that keeps the key it had at first."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dlx.message_flow import MessageFlow
from simulator.questions.reachability import message_of, unclear_exchanges
from simulator.redrive.address import Address, address_of
from simulator.redrive.future import Future
from simulator.redrive.waiting import Waiting
from simulator.scenario.steps import Publish


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


FutureOf = Callable[[Waiting, Address, Mapping[str, Any]], Future]


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

    def instead_of(self, address: Address, message: Waiting, headers: Mapping[str, Any]) -> Instead:
        """Return what to do instead of publishing a message to an address with these headers."""
        first, entry = address_of(message, "published"), message.first_entry
        if first is None or entry is None:
            return Instead(why_none="no header tells how it was published")
        wanted = self._reached(address, headers)
        against = self._against(first, wanted, message, headers)
        if not against:
            return Instead("--to published")
        for name in self._flow.topology.exchanges:
            other = Address(name, first.routing_key)
            if name and other != address and not self._against(other, wanted, message, headers):
                return Instead(f"--to {shlex.quote(name)} {shlex.quote(first.routing_key)}")
        queues = _named(wanted)
        none = f"--to published {against}, and no exchange routes {first.routing_key!r} to {queues} alone"
        if wanted == {entry.queue} and len(entry.routing_keys) == 1:
            none += f" (a new one that is bound to {queues} by this key would)"
        return Instead(why_none=none)

    def _reached(self, address: Address, headers: Mapping[str, Any]) -> set[str]:
        publish = Publish(address.exchange, address.routing_key, headers=headers)
        return set(self._flow.entries(message_of(publish, self._flow.release)))

    def _against(self, address: Address, wanted: set[str], message: Waiting, headers: Mapping[str, Any]) -> str:
        """Return what speaks against an address; empty where nothing does."""
        exchange = self._flow.topology.exchanges.get(address.exchange)
        if exchange is None or exchange.internal:
            why = "is internal" if exchange else "does not exist"
            return f"needs the exchange '{address.exchange}', which {why}"
        if self._unclear & self._flow.passed({address.exchange}):
            return "goes through an exchange that chooses at random, or as a plugin does"
        reached = self._reached(address, headers)
        if reached != wanted:
            return f"reaches {_named(reached) or 'no queue'}"
        worse = self._future_of(message, address, headers).worse
        return f"does not help: {worse[0]}" if worse else ""


def _named(queues: set[str]) -> str:
    return " and ".join(f"'{queue}'" for queue in sorted(queues))
