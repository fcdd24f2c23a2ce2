"""The properties: invariants, promises, all by name, and those that a trial or a machine is given, checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from dlx.deaths import DELIVERY_LIMIT, REJECTED, Death
from dlx.message import Message
from dlx.recorded_deaths import recorded_deaths
from dlx.settings import effective_settings
from dlx.topology import STREAM
from simulator.broker import WORKER_PREFETCH, Broker, Pending, QueueState
from simulator.events import Event, Happened, copies_added, delays_added, silent_loss
from simulator.message_location import is_held_for_ever, why_held
from simulator.scenario.properties.property import Property

if TYPE_CHECKING:
    from simulator.scenario.trial import Trial


# Invariants, which hold whatever the topology: a broken one is a fault of the simulator.


class Conservation(Property):
    """Every message is in a queue, delayed in an exchange, acknowledged, or gone with a named reason."""

    name = "conservation"
    promise = "every message is in a queue, delayed, acknowledged, or gone with a named reason"

    def __init__(self) -> None:
        self._ledger = QueueBalance()

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
        delayed = sum(1 for _ in trial.broker.delayed())
        if delayed != self._ledger.delayed:
            raise self.broken(f"exchanges delay {delayed} messages, and by the events {self._ledger.delayed}")


class DeathCounts(Property):
    """A dead letter's ``x-death`` is that of the message that died, and one death more, at the front."""

    name = "x-death"
    promise = "x-death is well-formed, and every death added one to its counts"

    def __init__(self) -> None:
        self._died: dict[tuple[str, int], dict[tuple[str | None, str | None, int], int | None]] = {}
        self._claimed: set[tuple[str, int]] = set()

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Compare a message that enters a queue with those of its number that died just now, or were held."""
        deaths = deaths_of(trial, message)
        if event.event == Event.PUBLISHED and deaths:  # their publisher says so: no consumer saw them
            self._claimed.add((event.vhost, event.uid))
        if (event.vhost, event.uid) in self._claimed:
            return
        total = sum(death.count for death in deaths)
        died = self._died.setdefault((event.vhost, event.uid), {})
        if event.reason is not None and event.queue is not None:
            death = event.queue, event.reason, total
            held = event.event == Event.HELD or died.get(death, 0) is None  # a held dead letter is sent again and again
            died[death] = None if held else event.time_us
        if event.event == Event.DELAYED and deaths:
            died[*deaths[0].key, total - 1] = None  # it enters a queue later
        if event.event != Event.ROUTED or not deaths:
            return
        if len({death.key for death in deaths}) < len(deaths):
            raise self.broken(f"two entries have the same queue and reason: {deaths}", event)
        last = deaths[0].key
        at_us = died.get((*last, total - 1), -1)
        late = trial.broker.cut_short and at_us is not None and 0 <= at_us < event.time_us
        if at_us not in (event.time_us, None) and not late:
            why = f"x-death says {total} deaths, the last in '{last[0]}' ({last[1]}); that is wrong"
            raise self.broken(why, event)


def deaths_of(trial: Trial, message: Message) -> Sequence[Death]:
    """Return the deaths in the message's history, without those that no broker can have written."""
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

    def check(self, trial: Trial) -> None:
        """Check that the broker has nothing left to do by itself."""
        if trial.broker.state.agenda:
            raise self.broken("the broker sends dead letters in a circle and does not come to rest")


# Messages are conserved: every copy that entered a queue is in it, or left it with an event that says why.


class QueueBalance:
    """How many messages each queue must have, and how many exchanges delay, by the events.

    Streams are left out: consumers do not remove messages from them.
    """

    def __init__(self) -> None:
        self.balance: Counter[tuple[str, str]] = Counter()
        self.delayed = 0
        self._last: Happened | None = None
        self._streams: set[tuple[str, str]] = set()

    def observe(self, event: Happened) -> None:
        """Note what happened."""
        if event.queue is not None:
            self.balance[event.vhost, event.queue] += copies_added(event, self._last)
        self.delayed += delays_added(event)
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


# The promises that a topology may keep or break.
#
# - ``lossless``: every routed message is acknowledged or still in a queue;
# - ``arrives``: no dead letter is held for ever in the queue it died in;
# - ``settles``: no message comes back again and again without time passing;
# - ``punctual``: a message leaves its queue when its time to live ends;
# - ``accepts``: no queue refuses a publish.


RETURNS_MAX = 10
"""So often may a message come back at the same instant to a queue that it died in."""


class Lossless(Property):
    """A refused or unroutable publish is not a loss, because its publisher can know of it.

    Nor is a final rejection in a queue without a dead-letter exchange: the consumer
    discards the message.
    """

    name = "lossless"
    promise = "every routed message was acknowledged or is still in a queue"
    policies_change = False

    def __init__(self, *, spared: AbstractSet[tuple[str, str]] | None = None) -> None:
        """Make the promise.

        Args:
            spared: the queues where what consumers discard is not lost, as pairs of a virtual host and a name; all
                of them without it.
        """
        self._last: Happened | None = None
        self._spared = spared

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Check that the event does not silently lose a copy, except one that a consumer discarded."""
        before, self._last = self._last, event
        if silent_loss(event, before) and not self._may_discard(trial, event):
            told = _LOSSES[event.event] if event.queue else "a message that an exchange had delayed was dropped"
            told = told.format(queue=event.queue, reason=event.reason)
            raise self.broken(f"{told} ({event.detail})" if event.detail else told, event)

    def _may_discard(self, trial: Trial, event: Happened) -> bool:
        spared = self._spared is None or (event.vhost, event.queue) in self._spared
        return spared and _discarded(trial, event)


_LOSSES = {
    Event.CYCLE_DROPPED: "a message that died in '{queue}' ({reason}) was dropped as a cycle",
    Event.DROPPED: "a message that died in '{queue}' ({reason}) was dropped",
    Event.UNROUTABLE: "no queue was bound for a message that died in '{queue}' ({reason})",
    Event.PURGED: "a message was removed with the queue '{queue}'",
}


def _discarded(trial: Trial, event: Happened) -> bool:
    """Return whether a consumer threw the message away: it rejected it in a queue without a dead-letter exchange."""
    queue = trial.queue(event.queue or "", event.vhost)
    return event.reason == REJECTED and queue is not None and queue.settings.dead_letter_exchange is None


class Arrives(Property):
    """A dead letter that at-least-once dead-lettering cannot deliver is not lost, but nobody gets it.

    One that a full queue refuses is only held until that queue has room.
    """

    name = "arrives"
    promise = "every dead letter arrived, or can still arrive"
    policies_change = False

    def __init__(self) -> None:
        self._just_held = False

    def observe(self, trial: Trial, event: Happened, message: Message) -> None:
        """Note that a dead message is held: it is judged once the action is over."""
        self._just_held = self._just_held or event.event == Event.HELD

    def check(self, trial: Trial) -> None:
        """Check that every held dead letter can still arrive."""
        just_held, self._just_held = self._just_held, False
        for queue in trial.queues() if just_held else ():
            for pending in queue.in_hand:
                if is_held_for_ever(trial.broker, queue, pending):
                    self._report(trial, queue, pending)

    def _report(self, trial: Trial, queue: QueueState, pending: Pending) -> None:
        event = Happened(
            event=Event.HELD,
            time_us=trial.now_us,
            vhost=queue.vhost.name,
            uid=pending.copy.uid,
            queue=queue.name,
            reason=pending.reason,
        )
        broken = self.broken(
            f"a message that died in '{queue.name}' ({pending.reason}) is held there for ever "
            f"({why_held(trial.broker, queue, pending)}); {WORKER_PREFETCH} such messages hold up all others that die "
            "there",
            event,
        )
        if broken.cause not in self.known:  # else it would hide the others
            raise broken


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
    """Return whether messages leave the queue by themselves, after a time."""
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
            raise self.broken(f"'{event.queue}' is full and refused a publish: only confirms show that", event)


Maker = str | Callable[[], Property]

PROMISES: dict[str, type[Property]] = {each.name: each for each in (Lossless, Arrives, Settles, Punctual, Accepts)}
"""What a topology may keep or break."""
INVARIANTS: dict[str, type[Property]] = {
    each.name: each for each in (Conservation, DeathCounts, SettingsFixpoint, ComesToRest)
}
"""What holds whatever the topology."""
BUILT_IN = PROMISES | INVARIANTS


def named(name: str) -> Property:
    """Return a new property of that name. Raises ``ValueError`` if it does not exist."""
    if name not in BUILT_IN:
        raise ValueError(f"no property {name!r}; there are {', '.join(BUILT_IN)}")
    return BUILT_IN[name]()


def instances(given: Iterable[str | Property]) -> list[Property]:
    """Return the properties of a trial, which are given by name or as they are.

    Raises:
        TypeError: something is neither a name nor a property.
        ValueError: there is no property of a name, or a property has no name.
    """
    return [_checked(named(each) if isinstance(each, str) else each) for each in listed(given)]


def made(maker: Maker) -> Property:
    """Return a new property, by its name or by the callable that makes it.

    Raises:
        TypeError: the callable makes something else.
        ValueError: there is no property of that name, or the property has no name.
    """
    if isinstance(maker, str):
        return named(maker)
    if isinstance(maker, Property) or not callable(maker):
        raise TypeError(
            f"properties: got {maker!r}; a machine takes names, and what makes a new Property for each "
            "example, such as its class"
        )
    return _checked(maker())


def listed(given: Any) -> list[Any]:
    """Return the properties one by one. Raises ``TypeError`` for one property in place of a list."""
    if isinstance(given, (str, type, Property)):
        raise TypeError(f"properties: got {given!r}; expected a list, such as [{given!r}]")
    return list(given)


def _checked(property: Any) -> Property:
    if isinstance(property, type) and issubclass(property, Property):
        raise TypeError(f"properties: got the class {property.__name__}; expected a property: {property.__name__}()")
    if not isinstance(property, Property):
        raise TypeError(f"properties: got {property!r}; expected names of properties, or a subclass of Property")
    if not property.name:
        name = type(property).__name__
        raise ValueError(f'{name} has no name; give the class one: name = "{name.lower()}"')
    return property
