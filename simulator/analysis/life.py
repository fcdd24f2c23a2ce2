"""Plays the life of one message step by step: what happens to it, by which rule, and whose setting decides."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import msgspec

from dlx import deaths, settings
from dlx.binding_index import not_compared
from dlx.deaths import DELIVERY_LIMIT, EXPIRED, REJECTED
from dlx.delays import routing_type
from dlx.delivery_counts import Return
from dlx.letter_copies import CopyOutcome, LetterCopy
from dlx.message import Message
from dlx.message_flow import MessageFlow, State
from dlx.nearest_names import suggestion
from dlx.releases import DEFAULT, Release
from dlx.routing import Visit
from dlx.server_plugins import AT_RANDOM, CHOOSING
from dlx.settings import Settings
from dlx.topology import QUORUM, STREAM, Binding, Topology
from simulator.analysis.next_steps import DEADLINES_MAX, pause
from simulator.bootstrap import DefinitionsSource
from simulator.broker import Copy, QueueState
from simulator.events import REFUSALS, Event, Happened, Outcome, losses
from simulator.json_values import fields_shown
from simulator.message_history import MAY_LOSE, what_happened
from simulator.message_location import locations
from simulator.rule_sources import sources, with_origin
from simulator.scenario import steps
from simulator.scenario.player import START_US, Player, Seen
from simulator.scenario.steps import AnyStep, History, Publish
from simulator.time_spans import span

# Names the rule behind each event of a message, whose setting decided it, and how the rule is known.
#
# The rules themselves are asked of ``dlx.message_flow``.


ARRIVES: frozenset[CopyOutcome] = frozenset({"dead-lettered", "may be refused"})
"""Outcomes of copies that reach a queue."""
REASONS: dict[Event, str] = {
    Event.REJECTED: deaths.REJECTED,
    Event.EXPIRED: deaths.EXPIRED,
    Event.LENGTH_DROPPED: deaths.MAXLEN,
    Event.LIMIT_DROPPED: deaths.DELIVERY_LIMIT,
}
"""The reason of each event in which a copy dies."""
_ROUTED_BY = {"topic": "dlx.binding_index", "headers": "dlx.binding_index"}


class Reason(NamedTuple):
    """Why something happened: the rule with the setting that decides, and how the rule is known; both may be empty."""

    because: str = ""
    source: str = ""


class Reasons:
    """Gives the reasons of events in the topology of one flow."""

    def __init__(self, flow: MessageFlow) -> None:
        self._flow = flow

    def of(self, event: Happened, message: Message, before: Happened | None) -> Reason:
        """Return why the event happened; ``message`` is as it was then, ``before`` the event just before."""
        queue = event.queue
        if event.event == Event.ROUTED or (event.event == Event.UNROUTABLE and queue is None):
            return self._routed(message, queue)
        if queue is None or queue not in self._flow.topology.queues:
            return Reason()
        found = self._flow.settings(queue)
        match event.event:
            case Event.EXPIRED | Event.LENGTH_DROPPED | Event.LIMIT_DROPPED:
                return self._death(queue, message, REASONS[event.event])
            case Event.DEAD_LETTERED:
                return Reason(_address(found), sources(["dlx.dead_lettering"]))
            case Event.HELD:
                strategy = _with_origins(found, settings.DEAD_LETTER_STRATEGY)
                return Reason(strategy, sources(["dlx.dead_lettering"], ["quorum_at_least_once"]))
            case Event.REQUEUED if found.queue.type == QUORUM:
                rows = ["returns_counted_as_failures", "quorum_delivery_limit_counts"]
                return Reason(_with_origins(found, settings.DELIVERY_LIMIT), sources(["dlx.delivery_counts"], rows))
            case Event.PURGED:
                return Reason(_with_origins(found, settings.EXPIRES), sources(["dlx.settings"]))
            case Event.DROPPED | Event.NACKED | Event.DEFERRED if _was_full(event, before):
                limits = (settings.OVERFLOW, settings.MAX_LENGTH, settings.MAX_LENGTH_BYTES)
                return Reason(_with_origins(found, *limits), sources(["dlx.settings"]))
            case Event.CYCLE_DROPPED | Event.DROPPED | Event.UNROUTABLE:
                copies = self._flow.copies(self._flow.state(queue, message), event.reason or deaths.REJECTED)
                return copy_reason(next((copy for copy in copies if copy.outcome not in ARRIVES), copies[0]))
        return Reason()

    def not_sent(self, event: Happened, message: Message) -> list[LetterCopy]:
        """Return the copies of a dead letter that reached no queue, though others did: RabbitMQ does not report it."""
        if event.event != Event.DEAD_LETTERED or event.queue is None or event.queue not in self._flow.topology.queues:
            return []
        copies = self._flow.copies(self._flow.state(event.queue, message), event.reason or deaths.REJECTED)
        return [copy for copy in copies if copy.queue is not None and copy.outcome not in ARRIVES]

    def _death(self, queue: str, message: Message, reason: str) -> Reason:
        state = self._flow.state(queue, message)
        rule = next(death.rule for death in self._flow.deaths(state) if death.reason == reason)
        rows, modules = [], ["dlx.settings"]
        if reason == deaths.DELIVERY_LIMIT:
            modules = ["dlx.delivery_counts"]
            rows = ["quorum_delivery_limit_counts"]
            if rule.setting is not None and rule.setting.origin == settings.SERVER_DEFAULT:
                rows.append("quorum_default_delivery_limit")
        elif reason == deaths.EXPIRED and self._flow.settings(queue).queue.type == QUORUM:
            rows = ["quorum_message_ttl"]
        return Reason(
            with_origin(rule.setting) if rule.setting else rule.text.partition(": ")[2], sources(modules, rows)
        )

    def _routed(self, message: Message, queue: str | None) -> Reason:
        visits = self._flow.visits(message)
        leading = [visit for visit in visits if queue is None or queue in visit.queues]
        if not leading:
            return Reason()
        last = leading[0]
        ways = ", then ".join(_way(visit, queue, self._flow.release) for visit in _way_to(last))
        if queue is None and not last.exchange.name:
            missing = (f"no queue '{key}', {suggestion(key, self._flow.topology.queues)}" for key in last.queues)
            ways = f"{ways}, and there is {' and '.join(missing)}"
        modules = ["dlx.routing", *([_ROUTED_BY[last.exchange.type]] if last.exchange.type in _ROUTED_BY else [])]
        return Reason(ways, sources(modules))


def copy_reason(copy: LetterCopy) -> Reason:
    """Return why a copy of a dead letter has the outcome that it has."""
    by = copy.rule.setting
    because = copy.rule.text if by is None else f"{copy.rule.text} ({with_origin(by)})"
    if copy.outcome == "cycle":
        return Reason(because, sources(["dlx.cycles"], ["death_order"]))
    rows = ["stream_takes_dead_letters"] if copy.outcome == "lost in a stream" else []
    return Reason(because, sources(["dlx.dead_lettering"], rows))


def _was_full(event: Happened, before: Happened | None) -> bool:
    if event.event in REFUSALS:
        return True
    return before is not None and before.event in REFUSALS and before.queue == event.queue


def _address(found: Settings) -> str:
    keys = _with_origins(found, settings.DEAD_LETTER_ROUTING_KEY) or "no dead-letter-routing-key: it keeps its keys"
    return f"{_with_origins(found, settings.DEAD_LETTER_EXCHANGE)}; {keys}"


def _with_origins(found: Settings, *keys: str) -> str:
    return "; ".join(with_origin(found.values[key]) for key in keys if key in found.values)


def _way_to(visit: Visit) -> Iterator[Visit]:
    if visit.before is not None:
        yield from _way_to(visit.before)
    yield visit


def _way(visit: Visit, queue: str | None, release: Release) -> str:
    """Say how a message came to the exchange, and which bindings lead it to the queue."""
    exchange = visit.exchange
    named = f"{exchange.type} exchange '{exchange.name}'" if exchange.name else "the default exchange"
    if visit.is_alternate and visit.before is not None:
        named = f"the alternate exchange of '{visit.before.exchange.name}', {named}"
    if not exchange.name:
        return f"{named} routes by the name of the queue"
    if queue is None:
        return f"{named} has no binding that takes it"
    if visit.delay_ms:
        return f"{named} keeps it for {visit.delay_ms:,} ms"
    own = [each for each in visit.bindings if each.destination_type == "queue" and each.destination == queue]
    if not own:
        return named
    passed_over = not_compared(own[0].arguments, release) if exchange.type == "headers" else ""
    if routing_type(exchange) in CHOOSING:
        by = "at random" if routing_type(exchange) in AT_RANDOM else "by a hash"
        return f"{named} chose, {by}, the binding {_binding(own[0])}"
    return f"{named}: binding {_binding(own[0])}" + f", which {passed_over}" * bool(passed_over)


def _binding(binding: Binding) -> str:
    arguments = ", ".join(fields_shown(binding.arguments))
    return f"'{binding.routing_key}'" + (f" with {arguments}" if arguments else "") + f" to '{binding.destination}'"


# Plays the life of one message, step by step: what happens to it, by which rule, and where that is not known.
#
#     life = live(definitions.document, Publish("orders", "eu"), {"orders": ["reject", "ack"]}, release="4.3")
#     life.fate, [step.text for step in life.steps]
#
# A broker in virtual time plays it, with this one message. What consumers do is stated for each queue; where nothing
# is stated, it is not guessed: the life stops there, and ``missing`` says what would follow. Only where time alone
# sends a message on, from a queue of which nothing is stated, the life goes on, and ``assumed`` says so.


StatedOutcome = Literal["ack", "reject", "requeue", "nack", "crash", "expire"]
"""What happens to a message in a queue: its consumer does it, or, with ``expire``, none takes it and time passes."""

OUTCOMES: dict[str, StatedOutcome] = {
    "ack": "ack",
    "reject": "reject",
    "requeue": "requeue",
    "nack": "nack",
    "crash": "crash",
    "expire": "expire",
    "wait": "expire",
}
"""The outcomes by the names that they may be given."""

EVENTS_MAX = 1_000
"""Events after which a life is not followed further; of what happens in the same instant, losses still count."""


class LifeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened.

    Attributes:
        at_ms: when, milliseconds after the publish.
        event: what, a name of ``simulator.events.Event``.
        queue: where, if in a queue.
        text: what happened, in words.
        because: the rule, with the setting that decides and who set it; empty where nothing decides.
        source: how the rule is known: RabbitMQ's files, and the evidence of release rows.
    """

    at_ms: float
    event: str
    queue: str | None
    text: str
    because: str = ""
    source: str = ""


class Possibility(msgspec.Struct, frozen=True, omit_defaults=True):
    """What may come next, and what follows from it; in a recording, ``seen`` says how often consumers did it."""

    outcome: str
    then: str
    seen: int | None = None


class OpenQuestion(msgspec.Struct, frozen=True):
    """What was not stated of a queue and decides what comes next."""

    queue: str
    what: str
    possibilities: tuple[Possibility, ...] = ()


class PredictedLife(msgspec.Struct, frozen=True, kw_only=True):
    """The life of one message.

    Attributes:
        release: the RabbitMQ release.
        publish: the publish that it begins with.
        steps: what happened, in order.
        fate: what has become of it; ``lost`` if any copy was.
        where: a sentence for each copy that is left.
        missing: what would have to be stated for the life to go on.
        assumed: what was taken to be so, in sentences.
        unused: outcomes that were stated and did not come to pass, in sentences.
        history: the steps that play it.
        events: what the broker told of it.
    """

    release: str
    publish: Publish
    steps: tuple[LifeStep, ...]
    fate: Outcome
    where: tuple[str, ...]
    missing: tuple[OpenQuestion, ...]
    assumed: tuple[str, ...]
    unused: tuple[str, ...]
    history: History
    events: tuple[Happened, ...]

    @property
    def is_lost(self) -> bool:
        """Whether a copy of the message is gone although no consumer acknowledged it."""
        return self.fate in (Outcome.LOST, Outcome.UNROUTABLE, Outcome.REFUSED)

    def as_json(self) -> dict[str, Any]:
        """Return the life as plain JSON values."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        told["publish"] = steps.to_builtins([self.publish])[0]
        told["history"] = steps.to_builtins(self.history)
        del told["events"]
        return told


def live(
    definitions: DefinitionsSource,
    publish: Publish,
    outcomes: Mapping[str, Sequence[StatedOutcome]],
    *,
    release: str = DEFAULT,
) -> PredictedLife:
    """Return the life of the message of a publish.

    Args:
        definitions: an export of RabbitMQ's definitions, or the path of the file that holds one.
        publish: what is published, once.
        outcomes: by queue, what becomes of the message there: first, second, third time.
        release: the RabbitMQ release.

    Raises:
        DefinitionsError: the definitions cannot be used.
    """
    return _Living(Player(definitions, release=release), publish, outcomes).life()


class _Held(NamedTuple):
    """A copy of the message in a queue."""

    queue: QueueState
    copy: Copy
    pending: bool


_STEPS: dict[StatedOutcome, tuple[str, dict[str, str]]] = {
    "ack": ("ack", {}),
    "reject": ("reject", {}),
    "requeue": ("requeue", {"method": "reject"}),
    "nack": ("requeue", {"method": "nack"}),
    "crash": ("crash", {}),
}


_RETURNS: dict[StatedOutcome, Return] = {"requeue": "reject", "nack": "nack", "crash": "lost channel"}
"""The outcomes that return a message, as ``dlx.delivery_counts`` has them."""


class _Living:
    """Plays one life."""

    def __init__(self, player: Player, publish: Publish, outcomes: Mapping[str, Sequence[StatedOutcome]]) -> None:
        self._player = player
        self._publish = publish
        self._vhost = publish.vhost
        self._outcomes = outcomes
        self._left = {queue: deque(stated) for queue, stated in outcomes.items()}
        self._reasons = Reasons(MessageFlow(_kept(player.topologies()[publish.vhost]), player.broker.release))
        self._uid = 0
        self._seen: list[Seen] = []
        self._steps: list[LifeStep] = []
        self._assumed: dict[str, None] = {}
        self._missing: list[OpenQuestion] = []

    def life(self) -> PredictedLife:
        self._do(self._publish)
        while self._uid and len(self._seen) < EVENTS_MAX and (self._next_outcome() or self._time()):
            pass
        events = tuple(event for event, _ in self._seen)
        held = self._copies()
        fate = self._fate(events, held)
        if fate == Outcome.REFUSED and self._player.refusal:
            text = f"the broker refused the publish: {self._player.refusal}"
            self._steps.append(LifeStep(at_ms=0, event="refused", queue=None, text=text))
        self._name_what_is_missing(held)
        return PredictedLife(
            release=self._player.release,
            publish=self._publish,
            steps=tuple(self._steps),
            fate=fate,
            where=tuple(locations(self._player.broker, self._uid, self._vhost, self._host.queues)),
            missing=tuple(self._missing),
            assumed=(*self._assumed, *self._alone(events)),
            unused=tuple(_unused(queue, left, self._outcomes[queue]) for queue, left in self._left.items() if left),
            history=tuple(self._player.history),
            events=events,
        )

    @property
    def _host(self) -> Any:
        return self._player.broker.vhosts[self._vhost]

    @property
    def _flow(self) -> MessageFlow:
        """What can become of messages, as the virtual host is now."""
        flow: MessageFlow = self._host.flow(self._player.broker.release)
        return flow

    # What is played

    def _do(self, step: AnyStep, stated: str = "") -> None:
        self._player.do(step)
        self._told(self._player.events, stated)

    def _told(self, seen: Sequence[Seen], stated: str = "") -> bool:
        """Note what happened to the message, and return whether anything did."""
        if not self._uid and seen:
            self._uid = seen[0][0].uid
        own = [(event, message) for event, message in seen if event.uid == self._uid]
        for event, message in own:
            if len(self._seen) >= EVENTS_MAX and event.event not in MAY_LOSE:
                continue
            before = self._seen[-1][0] if self._seen else None
            self._steps += self._step(event, message, before, stated)
            self._seen.append((event, message))
        return bool(own)

    def _step(self, event: Happened, message: Message, before: Happened | None, stated: str) -> Iterator[LifeStep]:
        because, source = self._reasons.of(event, message, before)
        if event.event in (Event.ACKED, Event.REJECTED, Event.REQUEUED):
            because = "; ".join(filter(None, [stated, because]))
        at_ms = (event.time_us - START_US) / 1_000
        kind, queue = event.event.value, event.queue
        text = what_happened(event) + self._by_way_of(event, message)
        yield LifeStep(at_ms=at_ms, event=kind, queue=queue, text=text, because=because, source=source)
        for copy in self._reasons.not_sent(event, message):
            because, source = copy_reason(copy)
            text = f"its copy for the queue '{copy.queue}' was not sent: {copy.outcome}"
            kind = Event.CYCLE_DROPPED.value if copy.outcome == "cycle" else Event.DROPPED.value
            yield LifeStep(at_ms=at_ms, event=kind, queue=queue, text=text, because=because, source=source)

    def _by_way_of(self, event: Happened, message: Message) -> str:
        """Name the exchange and the keys of a dead letter."""
        if event.event != Event.DEAD_LETTERED or event.queue is None or event.queue not in self._host.queues:
            return ""
        sent = self._flow.sent_on(event.queue, message)
        if sent is None:
            return ""
        exchange = f"the exchange '{sent.message.exchange}'" if sent.message.exchange else "the default exchange"
        return f", through {exchange} with {', '.join(map(repr, sent.message.routing_keys))}"

    def _copies(self) -> list[_Held]:
        """Return the copies of the message that are left."""
        dead = {id(each.copy) for queue in self._player.queues() for each in (*queue.in_hand, *queue.discards)}
        found = ((queue, copy) for queue, copy in self._player.copies() if copy.uid == self._uid)
        return [_Held(queue, copy, id(copy) in dead) for queue, copy in found if queue.vhost.name == self._vhost]

    def _next_outcome(self) -> bool:
        """Have a consumer do what is stated next of a queue that has a copy; return whether there is one."""
        for queue, copy, pending in self._copies():
            left = self._left.get(queue.name)
            if pending or not left or left[0] == "expire" or copy.ready_us is not None:
                continue
            outcome = left.popleft()
            do, fields = _STEPS[outcome]
            if "expire" in self._outcomes[queue.name] and queue.definition.type != STREAM:
                self._do(steps.Get(queue.name, vhost=self._vhost))  # who subscribes would have the next one at once
            already = len(self._seen)
            self._do(steps.made(do, queue=queue.name, vhost=self._vhost, **fields), f"stated: {queue.name}={outcome}")
            return len(self._seen) > already
        return False

    def _time(self) -> bool:
        """Let time pass until something happens, if it is time alone that decides; return whether it did."""
        moving = [each for each in self._copies() if self._goes_on_by_time(each)]
        names = {each.queue.name for each in moving}
        delayed = any((each.vhost, each.uid) == (self._vhost, self._uid) for each in self._player.broker.delayed())
        if not (moving or delayed) or not self._comes_to_pass_in(names):
            return False
        already = len(self._seen)
        for _ in range(DEADLINES_MAX):
            if not pause(self._player):
                return False
            if self._told(self._player.events):
                for event, _ in self._seen[already:]:
                    self._settle_time(event)
                return True
        return False

    def _settle_time(self, event: Happened) -> None:
        """Note that time has passed in a queue as stated, or that this was assumed."""
        if event.event not in (Event.EXPIRED, Event.PURGED) or event.queue is None:
            return
        left = self._left.get(event.queue)
        if left and left[0] == "expire":
            left.popleft()
        elif event.queue not in self._outcomes:
            self._assumed[f"no consumer reads from '{event.queue}'"] = None

    def _goes_on_by_time(self, held: _Held) -> bool:
        left = self._left.get(held.queue.name)
        if held.pending:
            return False
        if left:
            return left[0] == "expire" or held.copy.ready_us is not None
        if held.queue.name in self._outcomes:
            return False
        state = self._flow.state(held.queue.name, held.copy.message)
        if self._flow.why_not(state, EXPIRED) is not None:
            return False
        return any(copy.outcome in ARRIVES for copy in self._flow.copies(state, EXPIRED))

    def _comes_to_pass_in(self, queues: set[str]) -> bool:
        """Return whether what time brings next happens in these queues, and not where nothing is stated of it."""
        if {held.queue.name for held in self._copies()} <= queues:
            return True
        ahead = Player(self._player.definitions, release=self._player.release)
        ahead.play(self._player.history)
        for _ in range(DEADLINES_MAX):
            if not pause(ahead):
                return False
            own = [event for event, _ in ahead.events if event.uid == self._uid]
            if own:
                return own[0].queue in queues or own[0].event == Event.RELEASED
        return False

    # The end of the answer

    def _fate(self, events: Sequence[Happened], held: Sequence[_Held]) -> Outcome:
        if not events:
            return Outcome.REFUSED
        lost = losses(events)
        if lost and lost[0].event == Event.UNROUTABLE and lost[0].queue is None:
            return Outcome.UNROUTABLE
        if lost:
            return Outcome.REFUSED if lost[-1].event == Event.NACKED else Outcome.LOST
        if held:
            return Outcome.HELD if all(each.pending for each in held) else Outcome.WAITING
        return Outcome.ACKNOWLEDGED

    def _alone(self, events: Sequence[Happened]) -> Iterator[str]:
        names = dict.fromkeys(event.queue for event in events if event.queue in self._host.queues)
        limited = [name for name in names if name and self._flow.settings(name).has_length_limit]
        if limited:
            named = ", ".join(f"'{name}'" for name in limited)
            yield f"no other message is in {named}, so no length limit is reached"

    def _name_what_is_missing(self, held: Sequence[_Held]) -> None:
        if len(self._seen) >= EVENTS_MAX:
            self._missing.append(OpenQuestion(self._seen[-1][0].queue or "", f"what comes after {EVENTS_MAX:,} events"))
            return
        told = set()
        for each in held:
            if not each.pending and each.queue.name not in told:
                told.add(each.queue.name)
                self._missing.append(self._missing_of(each))

    def _missing_of(self, held: _Held) -> OpenQuestion:
        name = held.queue.name
        state = self._flow.state(name, held.copy.message)
        expires = self._flow.why_not(state, EXPIRED) is None
        after = self._ttl(held)
        stated = len(self._outcomes.get(name, ()))
        what = f"what a consumer of '{name}' does"
        if stated:
            what += f" with delivery {stated + 1}"
        elif expires:
            what = f"whether '{name}' has a consumer: if not, the message expires{after}"
        return OpenQuestion(name, what, tuple(self._possibilities(state, held, expires, after)))

    def _ttl(self, held: _Held) -> str:
        if held.copy.expires_us is None:
            return ""
        left_us = held.copy.expires_us - self._player.now_us
        return f" after {span(left_us)}" if left_us > 0 else " at once"

    def _possibilities(self, state: State, held: _Held, expires: bool, after: str) -> Iterator[Possibility]:
        if held.queue.definition.type == STREAM:
            yield Possibility("ack", "the stream keeps it")
            return
        yield Possibility("ack", "it is done with")
        yield Possibility("reject", self._then(state, REJECTED))
        yield from self._returns(state, held.queue.settings.delivery_limit)
        if expires:
            yield Possibility("expire", f"it dies{after}: {self._then(state, EXPIRED)}")

    def _returns(self, state: State, limit: int | None) -> Iterator[Possibility]:
        """Yield what follows from returns, those apart that count towards the delivery limit."""
        release, back = self._flow.release, f"it goes back to '{state.queue}'"
        failures = release.quorum_delivery_limit_counts == "failures"
        counted = [
            name
            for name, how in _RETURNS.items()
            if limit is not None and (not failures or how in release.returns_counted_as_failures)
        ]
        if counted:
            then = f"{back}; more than {limit} {'failures' if failures else 'returns'}"
            yield Possibility(_either(counted), f"{then}: {self._then(state, DELIVERY_LIMIT)}")
        others = [name for name in _RETURNS if name not in counted]
        if others:
            that = "; that is not a failure, and" if counted else ";"
            yield Possibility(_either(others), f"{back}{that} nothing limits how often")

    def _then(self, state: State, reason: str) -> str:
        return "; ".join(map(_in_words, self._flow.copies(state, reason)))


def _either(names: Sequence[str]) -> str:
    """Return the names with ``or`` before the last."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _kept(topology: Topology) -> Topology:
    """Return the topology as it is now: that of a broker changes with it."""
    parts = {name: dict(getattr(topology, name)) for name in ("exchanges", "queues")}
    return msgspec.structs.replace(
        topology, **parts, bindings={source: tuple(bound) for source, bound in topology.bindings.items()}
    )


def _in_words(copy: LetterCopy) -> str:
    if copy.outcome in ARRIVES:
        return f"dead-lettered to '{copy.queue}': {copy.rule}"
    if copy.outcome == "held":
        return f"held in its queue: {copy.rule}"
    return f"lost ({copy.outcome}): {copy.rule}"


def _unused(queue: str, left: Sequence[str], stated: Sequence[str]) -> str:
    counted = [(outcome, len(list(alike))) for outcome, alike in groupby(left)]
    named = ",".join(outcome if times == 1 else f"{outcome}*{times}" for outcome, times in counted)
    if len(left) == len(stated):
        return f"none of the outcomes stated for '{queue}' happened: {named}"
    return f"the last outcomes stated for '{queue}' did not happen: {named}"
