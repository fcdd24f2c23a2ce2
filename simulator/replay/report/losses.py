"""Queues whose settings make messages vanish: what a log cannot show, the definitions can.

Only what holds for every message is found: a queue without dead-letter exchange
in which messages die by themselves, an exchange that is missing or has no route,
and automatic cycles. What keys and headers decide is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlx.dead_lettering import DeadLetter, dead_letter, death_keys
from dlx.death_headers import QueueCrashError
from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REASONS
from dlx.message import Message
from dlx.possible_deaths import why_impossible
from dlx.releases import Release
from dlx.settings import AT_LEAST_ONCE, Settings, alternate_exchange, effective_settings
from dlx.topology import Topology
from simulator.replay.graph import with_stand_ins
from simulator.replay.report.data import Loss

AUTOMATIC = (EXPIRED, MAXLEN, DELIVERY_LIMIT)
"""Deaths that need no consumer to reject."""
KEYS_MAX = 5
"""Binding keys of a queue with which its cycles are looked for."""
DEATHS_MAX = 10
"""Deaths in a row that are followed."""
LETTERS_MAX = 20
"""Dead letters that are followed at a time."""


def find_losses(topologies: Mapping[str | None, Topology], release: Release) -> tuple[Loss, ...]:
    """The queues that lose messages, by virtual host and name; a host without a name is ``""``."""
    found: list[Loss] = []
    for vhost, topology in topologies.items():
        finder = _Finder(with_stand_ins(topology), release)
        for queue in sorted(topology.queues):
            found += (Loss(vhost or "", queue, reasons, why) for reasons, why in finder.of(queue))
    return tuple(found)


class _Finder:
    """Looks through one virtual host."""

    def __init__(self, topology: Topology, release: Release) -> None:
        self._topology = topology
        self._release = release
        self._keys: dict[str, set[str]] = {}
        for bindings in topology.bindings.values():
            for binding in bindings:
                if binding.destination_type == "queue":
                    self._keys.setdefault(binding.destination, set()).add(binding.routing_key)

    def of(self, queue: str) -> Iterator[tuple[tuple[str, ...], str]]:
        """The reasons for which messages vanish from the queue, and why."""
        settings = self._settings(queue)
        automatic = self._possible(settings, AUTOMATIC)
        exchange = settings.dead_letter_exchange
        if exchange is None:
            if automatic:
                yield automatic, "no dead-letter exchange: what dies is gone"
            return
        why = self._why_no_route(exchange, settings)
        if why is not None:
            held = settings.dead_letter_strategy == AT_LEAST_ONCE
            then = "dead letters wait in the queue" if held else "dead letters are gone"
            yield self._possible(settings, REASONS), f"{why}: {then}"
        elif automatic and (cycle := self._cycle(settings)) is not None:
            yield automatic, f"automatic cycle {' → '.join(cycle)}: the copy that closes it is gone"

    def _why_no_route(self, exchange: str, settings: Settings) -> str | None:
        """Why no dead letter of the queue can be routed; ``None`` when one may be."""
        known = self._topology.exchanges.get(exchange)
        if known is None:
            return f"dead-letter exchange '{exchange}' does not exist"
        if exchange == "":
            key = settings.dead_letter_routing_key
            missing = key is not None and key not in self._topology.queues
            return f"dead-letter routing key '{key}' names no queue of the definitions" if missing else None
        if self._topology.bindings.get(exchange) or alternate_exchange(known, self._topology, self._release):
            return None
        return f"dead-letter exchange '{exchange}' has no bindings"

    def _cycle(self, settings: Settings) -> list[str] | None:
        """The queues of a cycle from this queue back to it in which nobody rejects."""
        start = settings.queue.name
        probes = (start, *sorted(self._keys.get(start, ()))[:KEYS_MAX])
        letters = [
            letter for key in probes for letter in self._dead_letters(Message(exchange="", routing_keys=(key,)), start)
        ]
        for _ in range(DEATHS_MAX):
            for letter in letters:
                if start in letter.cycles and letter.message is not None:
                    died = [key[0] for key in reversed(death_keys(letter.message)) if key is not None]
                    return [start, *(queue for queue in died if queue != start), start]
            letters = [onward for letter in letters for onward in self._onward(letter)][:LETTERS_MAX]
        return None

    def _onward(self, letter: DeadLetter) -> Iterator[DeadLetter]:
        if letter.message is not None:
            for queue in letter.queues:
                yield from self._dead_letters(letter.message, queue)

    def _dead_letters(self, message: Message, queue: str) -> Iterator[DeadLetter]:
        """What becomes of the message in the queue, for each death that happens by itself."""
        settings = self._settings(queue)
        for reason in self._possible(settings, AUTOMATIC):
            try:
                yield dead_letter(message, reason, settings, self._topology, self._release)
            except QueueCrashError:
                continue

    def _possible(self, settings: Settings, reasons: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(reason for reason in reasons if why_impossible(reason, settings, self._release) is None)

    def _settings(self, queue: str) -> Settings:
        return effective_settings(self._topology.queues[queue], self._topology, self._release)
