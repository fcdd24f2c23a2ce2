"""Finds the queues whose settings make messages vanish: a log cannot show that, the definitions can.

Only what holds for every message is found: a queue without dead-letter exchange
in which messages die by themselves, an exchange that is missing or has no route,
and automatic cycles. What keys and headers decide is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dlx.dead_lettering import DeadLetter
from dlx.death_headers import QueueCrashError
from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REASONS
from dlx.message import Message
from dlx.message_flow import MessageFlow
from dlx.recorded_deaths import recorded_deaths
from dlx.releases import Release
from dlx.settings import AT_LEAST_ONCE
from dlx.topology import Topology
from simulator.replay.search.graph import with_stand_ins

NO_EXCHANGE = "no dead-letter exchange: dead messages are dropped"
AUTOMATIC = (EXPIRED, MAXLEN, DELIVERY_LIMIT)
"""Deaths that need no consumer to reject."""
KEYS_MAX = 5
"""Binding keys of a queue with which its cycles are looked for."""
DEATHS_MAX = 10
"""Deaths in a row that are followed."""
LETTERS_MAX = 20
"""Dead letters that are followed at a time."""


class LossyQueue(msgspec.Struct, frozen=True):
    """A queue whose settings make messages vanish when they die there for one of ``reasons``."""

    vhost: str
    queue: str
    reasons: tuple[str, ...]
    why: str


def find_losses(topologies: Mapping[str | None, Topology], release: Release) -> tuple[LossyQueue, ...]:
    """Return the queues that lose messages, by virtual host and name; a host without a name is ``""``."""
    found: list[LossyQueue] = []
    for vhost, topology in topologies.items():
        finder = _Finder(with_stand_ins(topology), release)
        for queue in sorted(topology.queues):
            found += (LossyQueue(vhost or "", queue, reasons, why) for reasons, why in finder.of(queue))
    return tuple(found)


def never_routed(flow: MessageFlow, queue: str) -> str | None:
    """Say why no dead letter of the queue reaches any other, and what becomes of it; ``None`` when one may."""
    why = flow.why_never_routed(queue)
    if why is None:
        return None
    held = flow.settings(queue).dead_letter_strategy == AT_LEAST_ONCE
    return f"{why}: {'dead letters wait in the queue' if held else 'dead letters are lost'}"


class _Finder:
    """Looks through one virtual host."""

    def __init__(self, topology: Topology, release: Release) -> None:
        self._flow = MessageFlow(topology, release)
        self._keys: dict[str, set[str]] = {}
        for bindings in topology.bindings.values():
            for binding in bindings:
                if binding.destination_type == "queue":
                    self._keys.setdefault(binding.destination, set()).add(binding.routing_key)

    def of(self, queue: str) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the reasons for which messages vanish from the queue, and why."""
        settings = self._flow.settings(queue)
        automatic = self._possible(queue, AUTOMATIC)
        if settings.dead_letter_exchange is None:
            if automatic:
                yield automatic, NO_EXCHANGE
            return
        why = never_routed(self._flow, queue)
        if why is not None:
            yield self._possible(queue, REASONS), why
        elif automatic and (cycle := self._cycle(queue)) is not None:
            yield automatic, f"automatic cycle {' → '.join(cycle)}: the copy that closes it is dropped"

    def _cycle(self, start: str) -> list[str] | None:
        """Return the queues of a cycle from this queue back to it without a rejection."""
        probes = (start, *sorted(self._keys.get(start, ()))[:KEYS_MAX])
        letters = [
            letter for key in probes for letter in self._dead_letters(Message(exchange="", routing_keys=(key,)), start)
        ]
        for _ in range(DEATHS_MAX):
            for letter in letters:
                if start in letter.cycles and letter.message is not None:
                    died = recorded_deaths(letter.message, self._flow.release)
                    between = [death.queue for death in reversed(died) if death is not None and death.queue != start]
                    return [start, *between, start]
            letters = [onward for letter in letters for onward in self._onward(letter)][:LETTERS_MAX]
        return None

    def _onward(self, letter: DeadLetter) -> Iterator[DeadLetter]:
        if letter.message is not None:
            for queue in letter.queues:
                yield from self._dead_letters(letter.message, queue)

    def _dead_letters(self, message: Message, queue: str) -> Iterator[DeadLetter]:
        """Yield what becomes of the message in the queue, for each death that happens by itself."""
        for reason in self._possible(queue, AUTOMATIC):
            try:
                yield self._flow.dead_letter(queue, message, reason)
            except QueueCrashError:
                continue

    def _possible(self, queue: str, reasons: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(reason for reason in reasons if self._flow.why_impossible(queue, reason) is None)
