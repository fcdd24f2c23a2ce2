"""The properties that come with the simulator: promises of a topology, and invariants of any broker.

Promises are for a topology to keep or break:

- ``lossless``: no copy that was routed ends otherwise than acknowledged or still in a queue;
- ``settles``: no message comes back again and again without time passing;
- ``punctual``: a message leaves its queue when its time to live ends;
- ``accepts``: no queue refuses a publish.

Invariants hold whatever the topology: messages are conserved,
``x-death`` counts each death, settings are what the rules make of the definitions,
and the broker comes to rest. A broken one is a fault of the simulator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlx.deaths import DELIVERY_LIMIT, REJECTED, Death
from dlx.message import Message
from dlx.recorded_deaths import recorded_deaths
from dlx.settings import effective_settings
from dlx.topology import STREAM
from simulator.events import Event, Happened, sender_knows
from simulator.scenario.properties.conservation import Ledger
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

    def __init__(self) -> None:
        self._last: Happened | None = None

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Look for the end of a copy that nobody acknowledged."""
        before, self._last = self._last, event
        why = _LOSSES.get(event.event)
        if why is None or event.queue is None or sender_knows(event, before):
            return
        if not _discarded(trial, event):
            told = why.format(queue=event.queue, reason=event.reason)
            raise self.broken(f"{told} ({event.detail})" if event.detail else told, event)


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


class ComesToRest(Property):
    """Cycle detection keeps dead letters from going round by themselves."""

    name = "rest"
    promise = "left alone, the broker came to rest"
    policies_change = True

    def check(self, trial: Trial) -> None:
        """Look for something that the broker still has to do by itself."""
        if trial.broker.state.agenda:
            raise self.broken("the broker sends dead letters in a circle and does not come to rest")


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
        deaths = _deaths(trial, message)
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
        """Look for a message that is ready and should have expired."""
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
        """Look for a refused publish."""
        if event.event == Event.NACKED and event.reason is None:
            raise self.broken(f"'{event.queue}' is full and refused a publish: only confirms tell its publisher", event)


class Conservation(Property):
    """Every message is in a queue, acknowledged, or gone with a named reason."""

    name = "conservation"
    promise = "every message is in a queue, acknowledged, or gone with a named reason"
    policies_change = True

    def __init__(self) -> None:
        self._ledger = Ledger()

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Book the event."""
        self._ledger.observe(event)

    def check(self, trial: Trial) -> None:
        """Compare the books with the queues."""
        expected = self._ledger.expected(trial.broker)
        found = {
            (queue.vhost.name, queue.name): queue.messages
            for queue in trial.queues()
            if queue.messages and queue.definition.type != STREAM
        }
        if expected != found:
            wrong = sorted(expected.items() ^ found.items())
            raise self.broken(f"messages appeared or vanished without an event: {wrong}")


class DeathCounts(Property):
    """A dead letter's ``x-death`` is that of the message that died, and one death more, at the front."""

    name = "x-death"
    promise = "x-death is well-formed, and every death added one to its counts"
    policies_change = True

    def __init__(self) -> None:
        self._died: dict[tuple[str, int], dict[tuple[str | None, str | None, int], int | None]] = {}
        self._claimed: set[tuple[str, int]] = set()

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Compare a message that enters a queue with those of its number that died just now, or were held."""
        deaths = _deaths(trial, message)
        if event.event == Event.PUBLISHED and deaths:  # their publisher says so: nobody saw them
            self._claimed.add((event.vhost, event.uid))
        if (event.vhost, event.uid) in self._claimed:
            return
        total = sum(death.count for death in deaths)
        died = self._died.setdefault((event.vhost, event.uid), {})
        if event.reason is not None and event.queue is not None:
            death = event.queue, event.reason, total
            held = event.event == Event.HELD or died.get(death, 0) is None  # what is held is sent again and again
            died[death] = None if held else event.time_us
        if event.event != Event.ROUTED or not deaths:
            return
        if len({death.key for death in deaths}) < len(deaths):
            raise self.broken(f"two entries are of one queue and reason: {deaths}", event)
        last = deaths[0].key
        at_us = died.get((*last, total - 1), -1)
        late = trial.broker.cut_short and at_us is not None and 0 <= at_us < event.time_us
        if at_us not in (event.time_us, None) and not late:
            why = f"x-death says {total} deaths, the last in '{last[0]}' ({last[1]}); that was not so"
            raise self.broken(why, event)


def _deaths(trial: Trial, message: Message) -> Sequence[Death]:
    """Return the deaths that the message's history tells, without those that no broker can have written."""
    if message.deaths is not None:  # as they are: this is asked at every event
        return message.deaths
    return [
        Death(queue=death.queue, reason=death.reason, count=death.times, exchange="", routing_keys=())
        for death in recorded_deaths(message, trial.broker.release)
        if death and isinstance(death.queue, str) and isinstance(death.reason, str)
    ]


class SettingsFixpoint(Property):
    """Live queues have the settings that the rules make of their arguments and the policies."""

    name = "settings"
    promise = "every queue has the settings that its arguments and the policies give it"
    policies_change = True

    def __init__(self) -> None:
        self._checked: dict[str, int] = {}

    def check(self, trial: Trial) -> None:
        """Resolve them again, after anything changed that they depend on."""
        for vhost in trial.broker.vhosts.values():
            if self._checked.get(vhost.name) == vhost.generation:
                continue
            self._checked[vhost.name] = vhost.generation
            for queue in vhost.queues.values():
                resolved = effective_settings(queue.definition, vhost.topology, trial.broker.release)
                if resolved.values != queue.settings.values:
                    raise self.broken(f"'{queue.name}' has other settings than its arguments and policies give")
