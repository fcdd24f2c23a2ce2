"""The promises that a topology may keep or break.

- ``lossless``: every routed message is acknowledged or still in a queue;
- ``settles``: no message comes back again and again without time passing;
- ``punctual``: a message leaves its queue when its time to live ends;
- ``accepts``: no queue refuses a publish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from dlx.deaths import DELIVERY_LIMIT, REJECTED, Death
from dlx.message import Message
from dlx.topology import STREAM
from simulator.events import Event, Happened, silent_loss
from simulator.scenario.properties.invariants import ComesToRest, deaths_of
from simulator.scenario.properties.property import Property

if TYPE_CHECKING:
    from simulator.scenario.trial import Trial

RETURNS_MAX = 10
"""So often may a message come back at the same instant to a queue that it died in."""


class Lossless(Property):
    """A refused or unroutable publish is no loss, because its publisher can know of it.

    Nor is a final rejection in a queue without a dead-letter exchange: the consumer
    discards the message.
    """

    name = "lossless"
    promise = "every routed message was acknowledged or is still in a queue"
    policies_change = False

    def __init__(self, *, discards_count: bool = False, parking: AbstractSet[tuple[str, str]] = frozenset()) -> None:
        """Make the promise.

        Args:
            discards_count: whether what consumers discard is lost, too.
            parking: queues where it never is, as pairs of a virtual host and a name.
        """
        self._last: Happened | None = None
        self._discards_count, self._parking = discards_count, parking

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Check that the event does not silently lose a copy, except one that a consumer discarded."""
        before, self._last = self._last, event
        if silent_loss(event, before) and not self._may_discard(trial, event):
            told = _LOSSES[event.event].format(queue=event.queue, reason=event.reason)
            raise self.broken(f"{told} ({event.detail})" if event.detail else told, event)

    def _may_discard(self, trial: Trial, event: Happened) -> bool:
        counts = self._discards_count and (event.vhost, event.queue) not in self._parking
        return _discarded(trial, event) and not counts


_LOSSES = {
    Event.CYCLE_DROPPED: "a message that died in '{queue}' ({reason}) was dropped as a cycle",
    Event.DROPPED: "a message that died in '{queue}' ({reason}) was dropped",
    Event.UNROUTABLE: "no queue was bound for a message that died in '{queue}' ({reason})",
    Event.PURGED: "a message was removed with the queue '{queue}'",
}


def _discarded(trial: Trial, event: Happened) -> bool:
    """Tell whether a consumer threw the message away: it rejected it in a queue without a dead-letter exchange."""
    queue = trial.queue(event.queue or "", event.vhost)
    return event.reason == REJECTED and queue is not None and queue.settings.dead_letter_exchange is None


class Settles(ComesToRest):
    """A retry without a pause is a loop that burns the broker for as long as the consumer fails.

    A queue whose own TTL sends its messages on to another queue is where they pause: a
    consumer who fails a message there at once starts the count again.
    """

    name = "settles"
    promise = "no message returned to a queue over and over at one instant"
    policies_change = False

    def __init__(self) -> None:
        self._at_us = 0
        # Of each copy, by where it is and how often it died: where it came back to at this instant, and how often;
        # and the queue whose pause was cut short, until another one has let the copy in.
        self._returns: dict[tuple[str, int, str | None, int], tuple[Counter[str | None], str | None]] = {}

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Count how often a copy enters a queue at this instant."""
        if event.time_us != self._at_us:
            self._at_us = event.time_us
            self._returns.clear()
        if event.event != Event.ROUTED and event.reason is None:
            return
        deaths = deaths_of(trial, message)
        died = sum(death.count for death in deaths)
        here = event.vhost, event.uid, event.queue, died
        returns, cut_short = self._before(trial, event, deaths, died)
        if event.event != Event.ROUTED:  # a death, also of what a full queue did not let in
            self._returns.setdefault(here, (returns, cut_short))
            return
        if cut_short not in (None, event.queue):
            returns.clear()
        self._returns[here] = returns, None
        returns[event.queue] += any(death.queue == event.queue for death in deaths)
        times = returns[event.queue]
        if times > RETURNS_MAX:
            raise self.broken(f"a message came back to '{event.queue}' {times} times without time passing", event)

    def _before(
        self, trial: Trial, event: Happened, deaths: Sequence[Death], died: int
    ) -> tuple[Counter[str | None], str | None]:
        """Return the returns, and the pause cut short, of the copy that died last, from which this one comes."""
        if not deaths:
            return Counter(), None
        last = deaths[0]
        returns, cut_short = self._returns.get((event.vhost, event.uid, last.queue, died - 1), ((), None))
        if last.reason in (REJECTED, DELIVERY_LIMIT) and _pauses(trial, last.queue, event.vhost):
            cut_short = last.queue
        return Counter(returns), cut_short


def _pauses(trial: Trial, name: str, vhost: str) -> bool:
    """Tell whether messages leave the queue by themselves, after a time."""
    queue = trial.queue(name, vhost)
    return queue is not None and queue.settings.dead_letters and bool(queue.settings.message_ttl_ms)


class Punctual(Property):
    """Queues expire messages at their head only: one that lives longer keeps those behind it."""

    name = "punctual"
    promise = "every message left its queue when its time to live ended"
    policies_change = False
    expirations_ms = (60_000, 1_000)

    def check(self, trial: Trial) -> None:
        """Check that no message that should have expired still waits in a queue."""
        now_us = trial.now_us
        for queue in trial.queues():
            if queue.definition.type == STREAM:
                continue
            for copy in queue.store.waiting():
                if copy.expires_us is not None and copy.expires_us < now_us:
                    late_ms = (now_us - copy.expires_us) // 1_000
                    why = f"a message in '{queue.name}' should have expired {late_ms} ms ago, and waits behind another"
                    raise self.broken(why, vhost=queue.vhost.name, uid=copy.uid)


class Accepts(Property):
    """A publisher without confirms never learns that a queue refused its message."""

    name = "accepts"
    promise = "every queue accepted every publish"
    policies_change = False

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Check that no publish was refused."""
        if event.event == Event.NACKED and event.reason is None:
            raise self.broken(f"'{event.queue}' is full and refused a publish: only confirms tell its publisher", event)
