"""Which topologies lose messages and which do not settle, by looking at them: no broker plays anything here.

Written from the rules in words (docs/evidence/named-cases.md, the meanings in ``dlx.releases``),
and from nothing that the simulator runs. A message that dies leaves its queue for the
queue's target; what it leaves for is a ``Way``. Who loses what:

- no dead-letter exchange: all but what a consumer rejects, which is its own decision;
- an exchange that is missing or routes nowhere: all, but at-least-once holds it;
- a full classic queue with reject-publish refuses dead letters, which at-least-once
  sends again; reject-publish-dlx sends them on;
- a dead letter that would come back to a queue without a rejection on the way is
  dropped; at-least-once holds it.

A loop does not settle when each queue on it can be left without time passing, and none
is left by a consumer who cuts a pause short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from dlx.releases import Release
from dlx.settings import DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX
from dlx.topology import CLASSIC
from tests.enumeration.space import MISSING, NOWHERE, UNBOUND, Kind

NO_EXCHANGE = "no dead-letter exchange"
EXCHANGE_MISSING = "the dead-letter exchange does not exist"
NO_BINDING = "the dead-letter exchange routes nowhere"
FULL = "the dead letter's queue is full"
CYCLE = "a cycle without a rejection"
LOOP = "a loop that takes no time"


class Queue(NamedTuple):
    """A queue and the number of its target."""

    kind: Kind
    target: int


Deaths = tuple[tuple[int, str], ...]
"""Queues and reasons, in the order that the release keeps."""
Place = tuple[int, Deaths]
"""A queue, and the deaths of the message in it."""


class Oracle:
    """What can be said of a topology in a release."""

    def __init__(self, queues: Sequence[Queue], release: Release) -> None:
        self.queues, self.release = queues, release

    def losses(self) -> set[str]:
        """Why messages are lost; empty where none is."""
        why = set()
        for number, queue in enumerate(self.queues):
            if queue.kind.at_least_once:
                continue
            if queue.target == MISSING:
                why.add(EXCHANGE_MISSING)
            elif queue.target == UNBOUND:
                why.add(NO_BINDING)
            elif queue.target == NOWHERE and self._discards(number):
                why.add(NO_EXCHANGE)
            elif queue.target >= 0 and self._refuses(queue.target):
                why.add(FULL)
        if any(self._drops(place) for place in self._places()):
            why.add(CYCLE)
        return why

    def restless(self) -> set[str]:
        """Why a message comes back again and again at once; empty where none does."""
        done: set[Place] = set()
        return {LOOP} if any(self._comes_back(place, done) for place in self._places()) else set()

    # Reasons

    def automatic(self, number: int) -> list[str]:
        """The reasons for which messages that are in a queue can die there, but for a rejection."""
        kind = self.queues[number].kind
        reasons = []
        if kind.ttl_ms is not None:
            reasons.append(EXPIRED)
        if kind.overflow == DROP_HEAD:
            reasons.append(MAXLEN)
        if kind.limits_deliveries(self.release):
            reasons.append(DELIVERY_LIMIT)
        return reasons

    def _discards(self, number: int) -> bool:
        """Whether a queue without a dead-letter exchange loses anything."""
        if self._sends_refused_on(number):
            letters = any(queue.target == number and not queue.kind.at_least_once for queue in self.queues)
            return letters or bool(self.automatic(number))
        return bool(self.automatic(number))

    def _refuses(self, number: int) -> bool:
        kind = self.queues[number].kind
        return kind.type == CLASSIC and kind.overflow == REJECT_PUBLISH

    def _sends_refused_on(self, number: int) -> bool:
        return self.queues[number].kind.overflow == REJECT_PUBLISH_DLX

    # Ways of a message

    def _places(self) -> list[Place]:
        """All that a message can come to: published to any queue, then dying in every way there is."""
        found: dict[Place, None] = {(number, ()): None for number in range(len(self.queues))}
        ahead = list(found)
        while ahead:
            for _, place in self._ways(ahead.pop()):
                if place not in found:
                    found[place] = None
                    ahead.append(place)
        return list(found)

    def _ways(self, place: Place) -> Iterator[tuple[str, Place]]:
        """The reasons for which a message can leave a place for another one, and that place."""
        number, deaths = place
        target = self.queues[number].target
        if target < 0:
            return
        for reason in self._reasons(number):
            after = self._after(deaths, number, reason)
            if reason == REJECTED or not _returned(target, after):
                yield reason, (target, after)

    def _reasons(self, number: int) -> list[str]:
        refused = [MAXLEN] if self._sends_refused_on(number) else []
        return [REJECTED, *self.automatic(number), *refused]

    def _drops(self, place: Place) -> bool:
        """Whether a message can be dropped as a cycle there, or where its dead letter is refused and sent on."""
        number, deaths = place
        queue = self.queues[number]
        if queue.target < 0 or queue.kind.at_least_once:
            return False
        if any(_returned(queue.target, self._after(deaths, number, reason)) for reason in self.automatic(number)):
            return True
        if not self._sends_refused_on(queue.target):
            return False
        return any(self._drops_refused(following) for _, following in self._ways(place))

    def _drops_refused(self, place: Place) -> bool:
        """Whether a dead letter is dropped that the queue of a place, being full, sends on."""
        number, deaths = place
        return _returned(self.queues[number].target, self._after(deaths, number, MAXLEN))

    def _after(self, deaths: Deaths, number: int, reason: str) -> Deaths:
        """The deaths after one more: it is first, and those of one queue and reason are one.

        In the order of recency, what is behind a rejection never decides anything again,
        and of a queue only the last death does.
        """
        death = (number, reason)
        if self.release.death_order != "recency":
            known = deaths[::-1] if len(deaths) > 1 else deaths
            return death, *(each for each in known if each != death)
        if reason == REJECTED:
            return ()
        return tuple(sorted({*((queue, "") for queue, _ in deaths), (number, "")}))

    # Loops

    def _comes_back(self, place: Place, done: set[Place]) -> bool:
        """Whether a loop that takes no time goes through a place; ``done`` are those known to be on none."""
        path = [place]
        ahead = [self._at_once(place)]
        while ahead:
            following = next(ahead[-1], None)
            if following is None:
                ahead.pop()
                done.add(path.pop())
            elif following in path:
                return True
            elif following not in done:
                path.append(following)
                ahead.append(self._at_once(following))
        return False

    def _at_once(self, place: Place) -> Iterator[Place]:
        """Where a message can go from a place without time passing, and without cutting a pause short."""
        pauses = self._pauses(place[0])
        for reason, following in self._ways(place):
            cut_short = reason in (REJECTED, DELIVERY_LIMIT) and pauses
            if reason != EXPIRED and not cut_short:
                yield following

    def _pauses(self, number: int) -> bool:
        """Whether messages leave a queue for another one after a time; one that is full may send them right back."""
        kind, target = self.queues[number]
        passed: set[int] = set()
        while target >= 0 and target not in passed and target != number and self._sends_refused_on(target):
            passed.add(target)
            target = self.queues[target].target
        return kind.ttl_ms is not None and target != number


def _returned(target: int, deaths: Deaths) -> bool:
    """Whether the last death in the target was no rejection, and none after it was."""
    for queue, reason in deaths:
        if reason == REJECTED:
            return False
        if queue == target:
            return True
    return False
