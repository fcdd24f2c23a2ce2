"""Explains what a log shows of one message: its publishes, its deliveries, the deaths between them, and the verdicts.

Only the rows of that message are replayed, by the kernel of every replay; what can have
come into full queues is counted from the whole log.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dlx.delays import X_DELAY
from dlx.message import Message, PublishRefusedError
from dlx.message_flow import Hop, MessageFlow
from dlx.possible_deaths import possible_death
from dlx.releases import DEFAULT, Release, release
from dlx.server_plugins import DELAYED
from dlx.settings import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY
from dlx.topology import Topology
from simulator.definitions import Definitions
from simulator.events import Event, Happened, Outcome
from simulator.replay.engines.local import replay_files
from simulator.replay.results.held_up import HoldingQueue, hold_up_text, holding_queues, is_over, with_true_ends
from simulator.replay.results.late_rows import lateness
from simulator.replay.rows.assumptions import DEFAULT_ASSUMPTIONS, Assumptions, is_gapless, lost_rows
from simulator.replay.rows.periods import Period, in_force, periods_of
from simulator.replay.rows.tables import LocalTable, rows, text
from simulator.replay.rows.topologies import topologies
from simulator.replay.rows.verdict_words import BAD, LACKING, VERDICTS
from simulator.replay.search.copies import Fate
from simulator.replay.search.graph import with_stand_ins
from simulator.rule_sources import sources, with_origin
from simulator.time_spans import span

NEAREST_MAX = 3
_EVENTS = {event.value: event for event in Event}
_FATES: dict[str, Outcome | Event] = {
    Event.ACKED: Outcome.ACKNOWLEDGED,
    Event.REJECTED: Event.REJECTED,
    Event.PUBLISHED: Event.PUBLISHED,
}


class NoSuchMessageError(LookupError):
    """The log has no such message; the text names the nearest."""


class SeenStep(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the log, or a death that the replay found between rows.

    Attributes:
        at_ms: when, milliseconds after the first row; of a death, at the latest.
        event: a name of ``simulator.events.Event``.
        queue: where, if in a queue.
        text: what happened, in words.
        because: the setting behind a death; of a delivery, the verdict.
        source: how the rule is known; of a row, its file and line.
    """

    at_ms: float
    event: str
    queue: str | None
    text: str
    because: str = ""
    source: str = ""


class SeenLife(msgspec.Struct, frozen=True, kw_only=True):
    """What a log shows of one message.

    Attributes:
        release: the RabbitMQ release whose rules were applied.
        message: its identity in the log.
        steps: what was seen and found, in order.
        verdict: the worst of its deliveries; ``None`` if it was never delivered.
        fate: its outcome, ``LOST`` if it died, by the rules, where no dead letter reaches a queue, ``HELD`` if it died
            there and its queue holds it; where that is not known, how it was last seen.
        missing: what the log does not tell, in sentences.
        assumed: what was not checked, in sentences.
        events: the same as events, for pictures.
    """

    release: str
    message: str
    steps: tuple[SeenStep, ...]
    verdict: str | None
    fate: Outcome | Event
    missing: tuple[str, ...]
    assumed: tuple[str, ...]
    events: tuple[Happened, ...]

    @property
    def is_sound(self) -> bool:
        """Whether it is not lost, and every delivery is as predicted."""
        return self.fate != Outcome.LOST and self.verdict not in ("differ", "unexplained")

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, without the events."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        del told["events"]
        return told


def seen_life(
    captured: LocalTable,
    definitions: Definitions,
    message: str,
    rules: str = DEFAULT,
    assumptions: Assumptions = DEFAULT_ASSUMPTIONS,
    changes: Sequence[tuple[int, Definitions]] = (),
) -> SeenLife:
    """Return what a capture shows of the message of that ``message_id``, or identity.

    ``changes``: other definitions, each with the moment from which they hold, in microseconds since 1970.

    Raises ``NoSuchMessageError``.
    """
    name = _identities(captured, message)[0]
    periods = periods_of(definitions, changes)
    holding: tuple[HoldingQueue, ...] = ()
    with tempfile.TemporaryDirectory() as folder:

        def replayed(only: str | None = None) -> LocalTable:
            """Return the rows of a message, or of the whole capture."""
            work = Path(tempfile.mkdtemp(dir=folder))
            parts = [
                replay_files(captured, each.definitions, rules, assumptions, verdicts=work / str(number), message=only)
                for number, each in enumerate(periods)
            ]
            return in_force(parts, periods, assumptions.slack_us, since=True)

        own = replayed(name)
        if any(row["verdict"] in BAD for row in own.rows()):  # rows may be late, or lost
            whole = replayed()
            late, lost = lateness(captured, whole), lost_rows(whole, captured)
            assumptions = msgspec.structs.replace(assumptions, lateness=late, lost_rows=lost)
            own = replayed(name)
        if any(row["dead_ends"] for row in own.rows()):
            whole = replayed()
            assumptions = msgspec.structs.replace(assumptions, gapless=is_gapless(whole, captured))
            holding = holding_queues(whole, _until_us(captured, assumptions))
            own = with_true_ends(own, holding)
        found = _with_verdicts(captured, name, own.to_list())
    return _SeenRows(periods, release(rules), found, holding).life(name, _until_us(captured, assumptions))


def _identities(captured: LocalTable, message: str) -> list[str]:
    asked = text(message)
    having = f"SELECT DISTINCT message FROM {{captured}} WHERE message = {asked} OR message_id = {asked}"
    found = [row["message"] for row in rows(f"{having} ORDER BY message", captured=captured)]
    if not found:
        near = f"SELECT DISTINCT message, levenshtein(message, {asked}) AS far FROM {{captured}} ORDER BY far, message"
        names = [row["message"] for row in rows(f"{near} LIMIT {NEAREST_MAX}", captured=captured)]
        raise NoSuchMessageError(f"no message {message!r} in the log; the nearest are {', '.join(map(repr, names))}")
    return found


def _with_verdicts(captured: LocalTable, message: str, replayed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the message in their order, each with what the replay says of it."""
    query = f"""
        SELECT time_us, file, line, event, vhost, queue, exchange, routing_keys, routed_queues, headers, broker_headers
        FROM {{captured}} WHERE message = {text(message)} ORDER BY time_us, file, line"""
    verdicts = {(row["file"], row["line"], row["time_us"]): row for row in replayed}
    found = rows(query, captured=captured)
    return [{**verdicts[row["file"], row["line"], row["time_us"]], **row} for row in found]


def _until_us(captured: LocalTable, assumptions: Assumptions) -> int:
    (ends,) = rows("SELECT max(time_us) AS until_us FROM {captured}", captured=captured)
    return assumptions.traced_until_us(ends["until_us"])


class Flows:
    """The flow of each virtual host of the definitions."""

    def __init__(self, definitions: Definitions, rules: Release) -> None:
        hosts = topologies(definitions)
        self._flows = {vhost: MessageFlow(with_stand_ins(topology), rules) for vhost, topology in hosts.items()}
        self._other = MessageFlow(Topology.of(), rules)

    def of(self, vhost: str) -> MessageFlow:
        """Return the flow of a virtual host: an empty one if the definitions have none of that name."""
        return self._flows.get(vhost, self._flows.get(None, self._other))


class _At(NamedTuple):
    """A row and the flow of its virtual host."""

    row: Mapping[str, Any]
    flow: MessageFlow


class _SeenRows:
    """The rows of one message, explained one after the other."""

    def __init__(
        self,
        periods: Sequence[Period],
        rules: Release,
        found: Sequence[Mapping[str, Any]],
        holding: Sequence[HoldingQueue],
    ) -> None:
        self._rules = rules
        self._holding = holding
        flows = {period.from_us: Flows(period.definitions, rules) for period in periods}
        self._rows = [_At(row, flows[row.get("from_us", periods[0].from_us)].of(row["vhost"])) for row in found]
        self._first_us: int = found[0]["time_us"]
        self._events: list[Happened] = []
        self._to_wait_ms = 0  # for the first exchange that delays the message

    def life(self, message: str, until_us: int) -> SeenLife:
        steps = tuple(step for at in self._rows for step in (*self._told(at), *self._delays(at)))
        verdicts = [at.row["verdict"] for at in self._rows if at.row["verdict"] is not None]
        last = self._rows[-1].row
        fates = {end["fate"] for end in last["dead_ends"] or () if is_over(end, last, until_us)}
        fate = _FATES.get(last["event"], Event.DELIVERED)
        if any(end_us > until_us for _, _, end_us in _delays(self._rows[-1])):
            fate = Event.DELAYED
        if fates:
            fate = Outcome.LOST if Fate.LOST in fates else Event.HELD
        return SeenLife(
            release=self._rules.name,
            message=message,
            steps=steps,
            verdict=max(verdicts, key=VERDICTS.index, default=None),
            fate=fate,
            missing=tuple(self._missing(last, fate, until_us)),
            assumed=tuple(dict.fromkeys(each for at in self._rows for each in unchecked_texts(at.row))),
            events=tuple(self._events),
        )

    def _missing(self, last: Mapping[str, Any], fate: Outcome | Event, until_us: int) -> Iterator[str]:
        for exchange, _, end_us in _delays(self._rows[-1]):
            if end_us > until_us:
                until = span(end_us - self._first_us)
                yield f"what came of it: the log ends while it waits in the exchange '{exchange}', until {until}"
        where = f"'{last['queue']}'" if last["queue"] else "the queues that it was routed to"
        if fate not in (Outcome.ACKNOWLEDGED, Outcome.LOST, Event.HELD, Event.DELAYED):
            yield f"what happened to it in {where} after the last row"
        for end in last["dead_ends"] or ():
            after = f", {span(end['after_ms'] * 1_000)} later" if end["after_ms"] else ""
            over = is_over(end, last, until_us)
            ends = "is held" if end["fate"] != Fate.LOST else "was lost" if over else "is lost"
            doubt = "" if over else " if it died there"
            yield f"it {ends} in '{end['queue']}'{doubt}{after}: {end['why']}"
        held_in = {(last["vhost"], end["queue"]) for end in last["dead_ends"] or () if end["fate"] != Fate.LOST}
        yield from hold_up_text([each for each in self._holding if (each.vhost, each.queue) in held_in])

    # The rows

    def _told(self, at: _At) -> Iterator[SeenStep]:
        yield from self._deaths(at)
        row = at.row
        event, queue = _EVENTS[row["event"]], row["queue"]
        keys = ", ".join(map(repr, row["routing_keys"]))
        if event == Event.PUBLISHED:
            told = f"it was published to {_exchange(row['exchange'])} with {keys}"
            routed = row["routed_queues"]
            told += "" if routed is None else f", and routed to {', '.join(map(repr, routed)) or 'no queue'}"
        elif event == Event.DELIVERED:
            told = f"the queue '{queue}' handed it to a consumer"
            if not row["hops"] and not any(each.queue == queue for each in self._events):
                self._note(at, Event.ROUTED, queue)
        else:
            told = f"the consumer of '{queue}' {_DONE[event]}"
        self._note(at, event, queue)
        yield SeenStep(
            at_ms=self._since(row["time_us"]),
            event=event.value,
            queue=queue,
            text=told,
            because=verdict_text(row),
            source=f"{row['file']}:{row['line']}",
        )

    def _delays(self, at: _At) -> Iterator[SeenStep]:
        """Yield the waits in exchanges that a publish begins."""
        if at.row["event"] == Event.PUBLISHED:  # until 3.13 a delivery may show the header as it was published
            self._to_wait_ms = max(_x_delay(at.row), 0)
        for exchange, wait_ms, end_us in _delays(at):
            self._to_wait_ms = 0
            self._note(at, Event.DELAYED, None)
            yield SeenStep(
                at_ms=self._since(at.row["time_us"]),
                event=Event.DELAYED.value,
                queue=None,
                text=f"the exchange '{exchange}' keeps it until {span(end_us - self._first_us)} after the first row",
                because=f"{X_DELAY} {wait_ms}",
                source=sources(["dlx.delays"]),
            )

    def _deaths(self, at: _At) -> Iterator[SeenStep]:
        """Yield the deaths before a delivery that no row shows, without those that an earlier one has shown."""
        found = at.row["hops"] or []
        new = at.row["new_hops"] or 0
        for place, hop in enumerate(found[len(found) - new :]):
            one = Hop(hop["queue"], hop["reason"], hop["exchange"], hop["to_queue"])
            told = f"it died in '{one.queue}' ({one.reason}){self._between(hop)}, and was dead-lettered"
            if not place and at.row["new_deaths"] < new:
                told = f"its death in '{one.queue}' ({one.reason}) sent another copy"
            if not any(each.queue == one.queue for each in self._events):
                self._note(at, Event.ROUTED, one.queue)
            self._note(at, Event.DEAD_LETTERED, one.queue, one)
            self._note(at, Event.ROUTED, one.to_queue, one)
            wait = self._wait(at, one)
            latest = hop["latest_us"] if hop["latest_us"] is not None else at.row["time_us"]
            yield SeenStep(
                at_ms=self._since(latest),
                event=Event.DEAD_LETTERED.value,
                queue=one.queue,
                text=f"{told} through {_exchange(one.exchange)} to '{one.to_queue}'{wait}: no row shows it",
                because=_because(one, at.flow),
                source=sources(["dlx.dead_lettering"]),
            )

    def _wait(self, at: _At, hop: Hop) -> str:
        """Say how long an exchange delayed a dead letter: the first that it came to, if x-delay is negative since."""
        passed = (at.flow.topology.exchanges[name] for name in at.flow.passed({hop.exchange}))
        wait_ms = self._to_wait_ms
        if not wait_ms or _x_delay(at.row) != -wait_ms or not any(each.type == DELAYED for each in passed):
            return ""
        self._to_wait_ms = 0
        return f" after a delay of {span(wait_ms * 1_000)} ({X_DELAY})"

    def _between(self, hop: Mapping[str, Any]) -> str:
        """Say when a death was, as far as that is known."""
        times = [each for each in (hop["earliest_us"], hop["latest_us"]) if each is not None]
        if len(times) < 2:
            return ""
        first, last = (span(max(each - self._first_us, 0)) for each in times)
        return f" {first} after the first row" if first == last else f" between {first} and {last} after the first row"

    def _since(self, time_us: int) -> float:
        return max(time_us - self._first_us, 0) / 1_000

    def _note(self, at: _At, event: Event, queue: str | None, hop: Hop | None = None) -> None:
        row = at.row
        self._events.append(
            Happened(
                event=event,
                time_us=row["time_us"],
                vhost=row["vhost"],
                uid=1,
                queue=queue,
                exchange=row["exchange"] if hop is None else hop.exchange,
                routing_keys=tuple(row["routing_keys"]),
                reason=None if hop is None else hop.reason,
            )
        )


_DONE = {
    Event.ACKED: "acknowledged it",
    Event.REJECTED: "rejected it for good",
    Event.REQUEUED: "returned it to the queue",
}


def _x_delay(row: Mapping[str, Any]) -> int:
    """Return the x-delay that a row shows; 0 without one that is an integer."""
    delay = msgspec.json.decode(row["broker_headers"]).get(X_DELAY)
    return delay if isinstance(delay, int) else 0


def _delays(at: _At) -> Iterator[tuple[str, int, int]]:
    """Yield the exchanges that delay what a row publishes, for how many ms, and when each delay ends."""
    row = at.row
    if row["event"] != Event.PUBLISHED:
        return
    headers = msgspec.json.decode(row["headers"]) | msgspec.json.decode(row["broker_headers"])
    message = Message(exchange=row["exchange"], routing_keys=tuple(row["routing_keys"]), headers=headers)
    try:
        visits = at.flow.visits(message)
    except PublishRefusedError:
        return
    for visit in visits:
        if visit.delay_ms:
            yield visit.exchange.name, visit.delay_ms, row["time_us"] + visit.delay_ms * 1_000


def _exchange(name: str) -> str:
    return f"the exchange '{name}'" if name else "the default exchange"


def _because(hop: Hop, flow: MessageFlow) -> str:
    """Name the settings behind a death and the way of its dead letter."""
    if hop.queue not in flow.topology.queues:
        return f"the definitions have no queue '{hop.queue}'"
    settings = flow.settings(hop.queue)
    decides = possible_death(hop.reason, settings, flow.release).rule.setting
    address = (settings.values.get(key) for key in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY))
    return "; ".join(with_origin(each) for each in (decides, *address) if each is not None)


def verdict_text(row: Mapping[str, Any]) -> str:
    """Say the verdict on a row: as predicted, or why not."""
    name = row["verdict"]
    if name is None:
        return ""
    if name == "ambiguous":
        return f"ambiguous: it came by {', or by '.join(row['alternatives'])}"
    if name == "unexplained":
        return f"unexplained: {row['why']}"
    if name == "differ":
        parts = (f"{each['field']}: expected {each['expected']}, seen {each['seen']}" for each in row["differences"])
        return f"not as predicted: {'; '.join(parts)}"
    if any(each["what"] in LACKING for each in row["unchecked"]):
        return "not checked"
    return "as predicted"


def unchecked_texts(row: Mapping[str, Any]) -> Iterator[str]:
    for each in row["unchecked"] or ():
        yield f"not checked: {each['what']} of {each['name']}: {each['why']}"
