"""Ask what can become of a message: the queues it enters, what can kill it there, and where its copies go then.

``MessageFlow`` is an automaton for one topology under one release. Its states are
messages in queues. A publish leads to one state for each queue it enters, a death to
one for each queue that the dead letter reaches; a copy that reaches none has an outcome
that says why. Every answer follows from the rules and is remembered:

    flow = MessageFlow(topology, release("4.3"))
    for state in flow.publish(published("orders", "eu", release=flow.release)):
        for death in flow.deaths(state):
            for copy in flow.copies(state, death.reason) if death.possible else ():
                print(state.queue, death.reason, copy.outcome, copy.queue, copy.rule)

The automaton knows nothing of order, counts, time or consumers. Its callers add those:
the broker plays them, a replay searches for them, a question quantifies over them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, takewhile
from typing import Any, NamedTuple

import msgspec

from dlx.binding_index import Choose, first
from dlx.dead_lettering import DeadLetter, dead_letter, forwarded, readdressed
from dlx.death_headers import QueueCrashError, stored_headers
from dlx.deaths import REASONS, REJECTED, X_DEATH, without_times
from dlx.delays import X_DELAY, Delay, routing_type
from dlx.field_values import plain
from dlx.letter_copies import LetterCopy, crashed, letter_copies
from dlx.message import Message, PublishRefusedError, without_expiration
from dlx.possible_deaths import PossibleDeath, possible_death, why_impossible
from dlx.recorded_deaths import death_counts, recorded_deaths
from dlx.releases import Release
from dlx.routing import (
    BY_KEY,
    Found,
    Routing,
    Visit,
    after_delay,
    each_choice,
    hashed_properties,
    headers_looked_at,
    route,
    routed,
    visits,
)
from dlx.server_plugins import AT_RANDOM, DELAYED
from dlx.settings import Settings, alternate_exchange, effective_settings
from dlx.topology import CLASSIC, STREAM, Topology


class State:
    """A message in a queue.

    Attributes:
        number: tells it apart from the other states of its ``MessageFlow``.
        queue: the queue's name.
        message: the message.
        counts: how often it died, by queue and reason, as its history says.
        total: their sum.
    """

    __slots__ = ("counts", "message", "number", "queue", "total")

    def __init__(self, number: int, queue: str, message: Message, release: Release) -> None:
        self.number = number
        self.queue = queue
        self.message = message
        self.counts = death_counts(recorded_deaths(message, release))
        self.total = sum(self.counts.values())

    def __repr__(self) -> str:
        return f"State({self.queue!r}, {self.message!r})"


class Hop(NamedTuple):
    """One death: where, why, through which dead-letter exchange, and to which queue."""

    queue: str
    reason: str
    exchange: str
    to_queue: str


class SentOn(NamedTuple):
    """A message under the address that its dead letters have, and the queues it is routed to."""

    message: Message
    queues: tuple[str, ...]


class _Letter(NamedTuple):
    """A dead letter, and for each of its delays the queues that it enters then."""

    letter: DeadLetter
    ends: tuple[tuple[str, ...], ...]


class _Death:
    """The outcome of one state's death for one reason; the copies are computed on first use.

    There are several letters where exchanges choose at random: one for each choice.
    """

    __slots__ = ("choices", "crash", "cycles", "delays_ms", "hops", "letters")

    def __init__(self, letters: Sequence[_Letter], crash: str = "") -> None:
        self.letters = letters
        self.crash = crash
        self.hops: tuple[tuple[Hop, State], ...] = ()
        self.cycles: tuple[tuple[Hop, State], ...] = ()
        self.delays_ms: dict[State, int] = {}
        self.choices: tuple[tuple[LetterCopy, ...], ...] | None = None


class MessageFlow:
    """Answers what can become of messages in one topology under one release.

    Args:
        topology: the virtual host's definitions. They must not change while the flow is in use.
        release: the rules to go by.
        settings_of: returns a queue's settings, if the caller has resolved them already and keeps them.

    Attributes:
        topology, release: as given.
    """

    __slots__ = (
        "_asked",
        "_compared",
        "_deaths",
        "_delays",
        "_draws",
        "_hashed",
        "_impossible",
        "_matters",
        "_onward",
        "_settings",
        "_settings_of",
        "_states",
        "_targets",
        "release",
        "topology",
    )

    def __init__(
        self, topology: Topology, release: Release, *, settings_of: Callable[[str], Settings] | None = None
    ) -> None:
        self.topology = topology
        self.release = release
        self._settings_of = settings_of
        self._settings: dict[str, Settings] = {}
        self._states: dict[Hashable, State] = {}
        self._targets: dict[tuple[str, str | None], frozenset[str]] = {}
        self._deaths: dict[tuple[int, str], _Death] = {}
        self._onward: dict[str, tuple[str, ...]] = {}
        self._impossible: dict[tuple[str, str, bool], str | None] = {}
        self._delays = any(exchange.type == DELAYED for exchange in topology.exchanges.values())
        self._draws = any(routing_type(each) in AT_RANDOM for each in topology.exchanges.values())
        self._compared = sorted(headers_looked_at(topology) | ({X_DELAY} if self._delays else set()))
        self._hashed = hashed_properties(topology)
        self._asked: Message | None = None
        self._matters: tuple[Hashable, Hashable] = (None, None)

    # Queues

    def settings(self, queue: str) -> Settings:
        """Return the effective settings of a queue that the topology has."""
        if self._settings_of is not None:
            return self._settings_of(queue)
        known = self._settings.get(queue)
        if known is None:
            known = effective_settings(self.topology.queues[queue], self.topology, self.release)
            self._settings[queue] = known
        return known

    def is_stream(self, queue: str) -> bool:
        """Return whether the queue is a stream."""
        return self.topology.queues[queue].type == STREAM

    def why_impossible(self, queue: str, reason: str, *, has_expiration: bool = False) -> str | None:
        """Return why no message can die in the queue for that reason; ``None`` when one can.

        ``has_expiration``: the message itself carries an expiration.
        """
        key = (queue, reason, has_expiration)
        if key not in self._impossible:
            settings = self.settings(queue)
            self._impossible[key] = why_impossible(reason, settings, self.release, has_expiration=has_expiration)
        return self._impossible[key]

    def why_never_routed(self, queue: str) -> str | None:
        """Return why no dead letter of the queue can reach any queue; ``None`` when one may, or none is sent.

        The answer holds for every message: it leaves out whatever a message's own keys and headers decide.
        """
        settings = self.settings(queue)
        dlx, key = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if dlx is None:
            return None
        exchange = self.topology.exchanges.get(dlx)
        if exchange is None:
            return f"dead-letter exchange '{dlx}' does not exist"
        if dlx == "":
            missing = key is not None and key not in self.topology.queues
            return f"dead-letter routing key '{key}' names no queue of the definitions" if missing else None
        if self.topology.bindings.get(dlx) or alternate_exchange(exchange, self.topology, self.release):
            return None
        return f"dead-letter exchange '{dlx}' has no bindings"

    def possible_targets(self, queue: str) -> frozenset[str]:
        """Return the queues that dead letters of the queue may enter, whatever their keys and headers are."""
        settings = self.settings(queue)
        if settings.dead_letter_exchange is None:
            return frozenset()
        address = settings.dead_letter_exchange, settings.dead_letter_routing_key
        if address not in self._targets:  # many queues share one
            self._targets[address] = self._entered(*address)
        return self._targets[address]

    def routes_by_key(self, exchange: str) -> bool:
        """Return whether nothing but its keys decides where a message goes from the exchange."""
        return all(self.topology.exchanges[name].type in BY_KEY for name in self.passed({exchange}))

    def _entered(self, exchange: str, key: str | None) -> frozenset[str]:
        if key is not None and self.routes_by_key(exchange):
            return frozenset(self.entries(Message(exchange=exchange, routing_keys=(key,))))
        passed = self.passed({exchange})
        if "" in passed:
            return frozenset(self.topology.queues if key is None else {key} & self.topology.queues.keys())
        bindings = [each for name in passed for each in self.topology.bindings.get(name, ())]
        return frozenset(each.destination for each in bindings if each.destination_type == "queue")

    def passed(self, first: Iterable[str]) -> set[str]:
        """Return exchanges, and those that they may hand messages on to."""
        found: set[str] = set()
        ahead = list(first)
        while ahead:
            name = ahead.pop()
            if name not in found and name in self.topology.exchanges:
                found.add(name)
                ahead += self._handed_on(name)
        return found

    def _handed_on(self, name: str) -> tuple[str, ...]:
        """Return the exchanges that one hands messages on to by itself."""
        if name not in self._onward:
            bindings = self.topology.bindings.get(name, ())
            bound = [each.destination for each in bindings if each.destination_type == "exchange"]
            other = alternate_exchange(self.topology.exchanges[name], self.topology, self.release)
            self._onward[name] = (*bound, other) if other else tuple(bound)
        return self._onward[name]

    # Messages

    def entries(self, message: Message) -> tuple[str, ...]:
        """Return the queues that a message enters: a publish, or a dead letter under its new address.

        Where exchanges choose at random, these are the queues that it may enter.
        """
        if not self._draws:
            return route(message, self.topology, self.release)
        found = each_choice(lambda choose: route(message, self.topology, self.release, choose))
        return tuple(dict.fromkeys(chain.from_iterable(found)))

    def entered_at_once(self, message: Message) -> tuple[str, ...] | None:
        """Return the queues that a publish enters before any delay; ``None`` where exchanges choose them at random."""
        found, *others = self._each(lambda choose: routed(message, self.topology, self.release, choose).queues)
        return None if others else found

    def visits(self, message: Message) -> tuple[Visit, ...]:
        """Return the exchanges that a message comes to on its way to the queues that it may enter."""
        each = self._each(lambda choose: tuple(visits(message, self.topology, self.release, choose)))
        return tuple(chain.from_iterable(each))

    def sent_on(self, queue: str, message: Message) -> SentOn | None:
        """Return the address under which the message leaves the queue after a death, and the queues it enters then.

        Return ``None`` where it has no exchange to go to. The death does not enter its history, so
        that the caller need not say why it died, and the cycle rule keeps it out of no queue.
        """
        settings = self.settings(queue)
        if settings.dead_letter_exchange not in self.topology.exchanges:
            return None
        letter = readdressed(message, settings, self.release)
        return SentOn(letter, self.entries(letter))

    def dead_letter(
        self, queue: str, message: Message, reason: str, *, time_s: int = 0, routing: Routing | None = None
    ) -> DeadLetter:
        """Return the dead letter of a message that dies in the queue, whether or not its settings allow it.

        ``time_s`` is the time of death in seconds since 1970. The answer is not remembered: for
        that, ask about a ``State``. Raises ``dlx.death_headers.QueueCrashError`` where a
        malformed ``x-death`` crashes the queue.
        """
        settings = self.settings(queue)
        return dead_letter(message, reason, settings, self.topology, self.release, time_s=time_s, routing=routing)

    def forwarded(self, queue: str, message: Message, reason: str, *, routing: Routing | None = None) -> DeadLetter:
        """Return the dead letter of a message whose history has its death in the queue already."""
        return forwarded(message, reason, self.settings(queue), self.topology, self.release, routing=routing)

    def situation(self, queue: str, message: Message) -> Hashable:
        """Return the facts that decide which ways a message can go from the queue.

        Messages in the same situation differ only in how often and when they died, and
        in properties that no queue or exchange ahead of them looks at.
        """
        settings = self.settings(queue)
        keeps_keys = settings.dead_letters and settings.dead_letter_routing_key is None
        keys = message.routing_keys if keeps_keys else None
        if self._asked is not message:  # one dead letter is asked about for each queue that it enters
            self._asked = message
            self._matters = self._deaths_that_matter(message), self._headers_that_matter(message)
        return queue, keys, *self._matters

    def _headers_that_matter(self, message: Message) -> Hashable:
        """Return the headers and properties that exchanges look at, those that the broker writes among them."""
        hashed = self._hashed_of(message)
        if not self._compared:
            return hashed or None
        headers = stored_headers(message)
        return repr([(name, headers[name]) for name in self._compared if name in headers]), hashed

    def _hashed_of(self, message: Message) -> tuple[str, ...]:
        return tuple([repr(message.properties.get(name)) for name in self._hashed])

    def _deaths_that_matter(self, message: Message) -> Hashable:
        """Return the deaths that the cycle rule needs: if the newest stands first, those since the last rejection."""
        deaths = [
            (str(death.queue), str(death.reason))
            for death in recorded_deaths(message, self.release)
            if death is not None
        ]
        if self.release.death_order != "recency":
            return tuple(deaths)
        since = takewhile(lambda death: death[1] != REJECTED, deaths)
        # The sender matters, too: a full queue tells apart publishes, dead letters, and dead letters sent again.
        return deaths[0][0] if deaths else None, frozenset(queue for queue, _ in since)

    # States

    def state(self, queue: str, message: Message) -> State:
        """Return the state of ``message`` in ``queue``; equal messages have the same state.

        Times in an ``x-death`` header do not tell messages apart, nor do types of numbers.
        """
        key = _state_key(queue, message), self._hashed_of(message)
        known = self._states.get(key)
        if known is None:
            known = self._states[key] = State(len(self._states), queue, message, self.release)
        return known

    @property
    def size(self) -> int:
        """How many states are remembered."""
        return len(self._states)

    def publish(self, message: Message) -> tuple[State, ...]:
        """Return the states that a published message enters, one for each queue."""
        return tuple(dict.fromkeys(state for state, _ in self.entering(message)))

    def entering(self, message: Message) -> tuple[tuple[State, int], ...]:
        """Return the states that a published message enters, and how long an exchange delays each, in ms.

        Where several exchanges delay it into one queue, that is in it several times.
        """
        if not self._delays:
            return tuple((self.state(queue, message), 0) for queue in self.entries(message))
        found = list(self._each(lambda choose: self._entered_by(message, choose)))
        return tuple(found[0]) if len(found) == 1 else tuple(dict.fromkeys(chain.from_iterable(found)))

    def _entered_by(self, message: Message, choose: Choose) -> list[tuple[State, int]]:
        at_once, delays = routed(message, self.topology, self.release, choose)
        entered = [(self.state(queue, message), 0) for queue in at_once]
        for delay in delays:
            entered += [(self.state(queue, delay.message), delay.delay_ms) for queue in self._ends(delay, choose)]
        return entered

    def _ends(self, delay: Delay, choose: Choose) -> tuple[str, ...]:
        return after_delay(delay, self.topology, self.release, choose)

    def _each(self, find: Callable[[Choose], Found]) -> Iterable[Found]:
        """Return what is found for each choice that exchanges can make at random."""
        return each_choice(find) if self._draws else (find(first),)

    def as_held(self, state: State) -> tuple[State, ...]:
        """Return how the queue may know the message when it dies: as it came, or also without its expiration.

        Which of both, the messages before it decided (``original_expiration`` in ``dlx.releases``).
        """
        message = state.message
        if self.release.original_expiration != "not behind another message" or message.expiration is None:
            return (state,)
        if message.bcc or self.topology.queues[state.queue].type != CLASSIC:
            return (state,)
        return state, self.state(state.queue, without_expiration(message))

    def deaths(self, state: State) -> tuple[PossibleDeath, ...]:
        """Return, for each reason of death, whether the settings allow it there and what decides that."""
        settings, expiration = self.settings(state.queue), state.message.expiration
        return tuple(possible_death(reason, settings, self.release, expiration) for reason in REASONS)

    def why_not(self, state: State, reason: str) -> str | None:
        """Return why the settings do not let the message die there for that reason; ``None`` when they do."""
        return self.why_impossible(state.queue, reason, has_expiration=state.message.expiration is not None)

    def hops(self, state: State, reason: str) -> tuple[tuple[Hop, State], ...]:
        """Return where a death for that reason leads, whether or not the settings allow it."""
        return self._died(state, reason).hops

    def cycles(self, state: State, reason: str) -> tuple[tuple[Hop, State], ...]:
        """Return where the death would lead without the cycle rule, which keeps the dead letter out."""
        return self._died(state, reason).cycles

    def delay_ms(self, state: State, reason: str, reached: State | None) -> int:
        """Return how long an exchange delays the dead letter on its way to a state, or to no queue, in ms."""
        if reached is None:
            letters = self._died(state, reason).letters
            return max((delay.delay_ms for each in letters for delay in each.letter.delays), default=0)
        known = (self._died(each, reason).delays_ms for each in self.as_held(state)) if self._delays else ()
        return next((delays[reached] for delays in known if reached in delays), 0)

    def copies(self, state: State, reason: str) -> tuple[LetterCopy, ...]:
        """Return the copies that a death for that reason makes, each with its outcome and the rule behind it.

        Where exchanges choose at random, these are the copies that it may make.
        """
        choices = self.choices(state, reason)
        return choices[0] if len(choices) == 1 else tuple(chain.from_iterable(choices))

    def choices(self, state: State, reason: str) -> tuple[tuple[LetterCopy, ...], ...]:
        """Return the same, for each choice that exchanges can make at random: the copies that there are together."""
        death = self._died(state, reason)
        if death.choices is None:
            settings = self.settings(state.queue)
            made = [tuple(letter_copies(each.letter, settings, self.settings, each.ends)) for each in death.letters]
            death.choices = tuple(made) or ((crashed(state.queue, death.crash),),)
        return death.choices

    def _died(self, state: State, reason: str) -> _Death:
        key = (state.number, reason)
        known = self._deaths.get(key)
        if known is None:
            known = self._deaths[key] = self._die(state, reason)
        return known

    def _die(self, state: State, reason: str) -> _Death:
        try:
            death = _Death(list(self._each(lambda choose: self._letter(state, reason, choose))))
        except (QueueCrashError, PublishRefusedError) as error:  # only a forged header leads here
            return _Death((), str(error))
        for letter, ends in death.letters:
            if letter.message is not None:
                death.hops += self._hops(state, reason, letter.message, letter.queues)
                for delay, queues in zip(letter.delays, ends, strict=True):
                    later = self._hops(state, reason, delay.message, queues)
                    death.hops += later
                    death.delays_ms |= dict.fromkeys((reached for _, reached in later), delay.delay_ms)
                death.cycles += self._hops(state, reason, letter.message, letter.cycles)
        return death

    def _letter(self, state: State, reason: str, choose: Choose) -> _Letter:
        routing = partial(routed, choose=choose)
        letter = self.dead_letter(state.queue, state.message, reason, routing=routing)
        return _Letter(letter, tuple([self._ends(delay, choose) for delay in letter.delays]))

    def _hops(
        self, state: State, reason: str, letter: Message, queues: tuple[str, ...]
    ) -> tuple[tuple[Hop, State], ...]:
        return tuple((Hop(state.queue, reason, letter.exchange, queue), self.state(queue, letter)) for queue in queues)


# No exchange tells types of numbers apart. msgpack refuses text that is not UTF-8 and integers beyond 64 bits.
_encode = msgspec.msgpack.Encoder(order="deterministic", enc_hook=plain).encode


def _state_key(queue: str, message: Message) -> Hashable:
    """Return the key that tells two states apart."""
    return (
        queue,
        message.exchange,
        message.routing_keys,
        message.bcc,
        message.expiration,
        message.headers_sent is None,
        message.deaths,
        message.first_death,
        message.last_death,
        message.delivery_count,
        None if message.headers is None else _packed(_untimed(message.headers)),
        _packed(message.properties) if message.properties else None,
    )


def _packed(table: Mapping[str, Any]) -> Hashable:
    try:
        return _encode(table)
    except (UnicodeEncodeError, OverflowError):
        return repr(sorted(table.items()))


def _untimed(headers: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**headers, X_DEATH: without_times(headers[X_DEATH])} if X_DEATH in headers else headers
