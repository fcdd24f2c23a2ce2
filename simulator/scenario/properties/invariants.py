"""Invariants, which hold whatever the topology: a broken one is a fault of the simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlx.deaths import Death
from dlx.message import Message
from dlx.recorded_deaths import recorded_deaths
from dlx.settings import effective_settings
from dlx.topology import STREAM
from simulator.broker import Broker
from simulator.events import Event, Happened, copies_added
from simulator.scenario.properties.property import Property

if TYPE_CHECKING:
    from simulator.scenario.trial import Trial


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
        deaths = deaths_of(trial, message)
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


def deaths_of(trial: Trial, message: Message) -> Sequence[Death]:
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
        """Resolve the settings again, after anything changed that they depend on."""
        for vhost in trial.broker.vhosts.values():
            if self._checked.get(vhost.name) == vhost.generation:
                continue
            self._checked[vhost.name] = vhost.generation
            for queue in vhost.queues.values():
                resolved = effective_settings(
                    queue.definition, vhost.topology, trial.broker.release, at_declaration=queue.policies_as_declared
                )
                if resolved.values != queue.settings.values:
                    raise self.broken(f"'{queue.name}' has other settings than its arguments and policies give")


class ComesToRest(Property):
    """Cycle detection keeps dead letters from going round by themselves."""

    name = "rest"
    promise = "left alone, the broker came to rest"
    policies_change = True

    def check(self, trial: Trial) -> None:
        """Check that the broker has nothing left to do by itself."""
        if trial.broker.state.agenda:
            raise self.broken("the broker sends dead letters in a circle and does not come to rest")


# Messages are conserved: every copy that entered a queue is in it, or left it with an event that says why.


class Ledger:
    """How many messages each queue must have, by the events.

    Streams are left out: what is read from them stays.
    """

    def __init__(self) -> None:
        self.balance: Counter[tuple[str, str]] = Counter()
        self._last: Happened | None = None
        self._streams: set[tuple[str, str]] = set()

    def observe(self, event: Happened) -> None:
        """Note what happened."""
        if event.queue is not None:
            self.balance[event.vhost, event.queue] += copies_added(event, self._last)
        self._last = event

    def expected(self, broker: Broker) -> dict[tuple[str, str], int]:
        """Return how many messages each queue must have now, without the queues that must be empty."""
        here = {
            (vhost.name, queue.name)
            for vhost in broker.vhosts.values()
            for queue in vhost.queues.values()
            if queue.definition.type == STREAM
        }
        for key in self._streams | here:
            self.balance.pop(key, None)
        self._streams = here
        return {key: count for key, count in self.balance.items() if count}
