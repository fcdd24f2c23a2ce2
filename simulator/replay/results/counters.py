"""Balances what the broker counted with what a replay reconstructed, and says what the balance means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dlx.deaths import DELIVERY_LIMIT, EXPIRED, MAXLEN, REASONS, REJECTED
from dlx.global_counters import (
    CONFIRMED,
    COUNTED_AT_LEAST_ONCE,
    COUNTED_AT_MOST_ONCE,
    DISABLED,
    Account,
    account_of,
    accounts,
    counted_strategy,
)
from dlx.message_flow import MessageFlow
from dlx.releases import Release
from dlx.releases.versions import known_release
from dlx.topology import CLASSIC, QUORUM, Topology
from simulator.capture.counters import CounterReadings, NodeReadings
from simulator.events import Event
from simulator.replay.coverage.totals import Place
from simulator.replay.results.summary import hops
from simulator.replay.rows.tables import Table, rows
from simulator.replay.rows.verdict_words import IS_LACKING
from simulator.replay.search.graph import with_stand_ins
from simulator.replay.search.losses import NO_EXCHANGE, find_losses, never_routed
from simulator.time_spans import moment

# Counts, queue by queue, what a replayed log shows: copies that came in, deliveries, and deaths reconstructed.


class LogCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a replayed log shows of each queue.

    Attributes:
        published: how many publishes the log has.
        arrived: copies that publishes and dead letters put into a queue.
        expiring: copies that publishes put into a queue with an expiration of their own.
        delivered: deliveries from a queue.
        deaths: deaths in a queue, by reason, that the replay reconstructed.
        unexplained: deliveries from a queue that the replay does not explain, or of which the log lacks the beginning.
        ambiguous: deliveries with several explanations; ``deaths`` are those of the first.
        vhosts: the virtual hosts that the log names.
        first_us, last_us: the times of its first and last rows, ``None`` without rows.
    """

    published: int = 0
    arrived: Mapping[Place, int] = {}
    expiring: Mapping[Place, int] = {}
    delivered: Mapping[Place, int] = {}
    deaths: Mapping[tuple[str, str, str], int] = {}
    unexplained: Mapping[Place, int] = {}
    ambiguous: int = 0
    vhosts: frozenset[str] = frozenset()
    first_us: int | None = None
    last_us: int | None = None


_BY_QUEUE = f"""
    SELECT vhost, queue, count(*) AS count, count(expiration) AS expiring
    FROM (
        SELECT vhost, expiration, explode(routed_queues) AS queue
        FROM {{captured}} WHERE event = '{Event.PUBLISHED.value}'
    )
    GROUP BY 1, 2"""
_BY_VERDICT = f"""
    SELECT vhost, queue, event, CASE WHEN {IS_LACKING} THEN 'unexplained' ELSE verdict END AS verdict,
        count(*) AS count, min(time_us) AS first_us, max(time_us) AS last_us
    FROM {{replayed}} GROUP BY 1, 2, 3, 4"""
_BY_DEATH = """
    SELECT vhost, queue, reason, to_queue, count(*) AS count, count_if(first_copy) AS deaths
    FROM {hops} GROUP BY 1, 2, 3, 4"""


def log_counts(replayed: Table, captured: Table) -> LogCounts:
    """Count; ``captured`` are the rows of which ``replayed`` is the replay."""
    by_queue, by_verdict = rows(_BY_QUEUE, captured=captured), rows(_BY_VERDICT, replayed=replayed)
    arrived: Counter[Place] = Counter()
    delivered: Counter[Place] = Counter()
    deaths: Counter[tuple[str, str, str]] = Counter()
    unexplained: Counter[Place] = Counter()
    for row in by_queue:
        arrived[row["vhost"], row["queue"]] += row["count"]
    for row in rows(_BY_DEATH, hops=hops(replayed)):
        arrived[row["vhost"], row["to_queue"]] += row["count"]
        deaths[row["vhost"], row["queue"], row["reason"]] += row["deaths"]
    deliveries = [row for row in by_verdict if row["event"] == Event.DELIVERED]
    for row in deliveries:
        delivered[row["vhost"], row["queue"]] += row["count"]
        unexplained[row["vhost"], row["queue"]] += row["count"] * (row["verdict"] == "unexplained")
    return LogCounts(
        published=sum(row["count"] for row in by_verdict if row["event"] == Event.PUBLISHED),
        arrived=arrived,
        expiring={(row["vhost"], row["queue"]): row["expiring"] for row in by_queue},
        delivered=delivered,
        deaths=deaths,
        unexplained=+unexplained,
        ambiguous=sum(row["count"] for row in deliveries if row["verdict"] == "ambiguous"),
        vhosts=frozenset(row["vhost"] for row in by_verdict),
        first_us=min((row["first_us"] for row in by_verdict), default=None),
        last_us=max((row["last_us"] for row in by_verdict), default=None),
    )


# Holds the readings of the broker's counters against the log that they are said to belong to: by times and release.


class ReadingsFit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether readings can be those of a log.

    Attributes:
        other_time: why they are not of the time of the log, in words; empty if they are.
        doubts: what else does not fit, in words.
        until_us: until when the trace went on, as the last reading tells; 0 if it does not.
    """

    other_time: str = ""
    doubts: tuple[str, ...] = ()
    until_us: int = 0


UNCHECKED_FIT = ReadingsFit()
"""That of readings that were not checked."""


def readings_fit(readings: CounterReadings, log: LogCounts, rules: Release, tolerance_us: int) -> ReadingsFit:
    """Hold readings against the first and the last row of a log, and against the release of the rules."""
    releases = tuple(_release_doubts(readings, rules))
    if log.first_us is None or log.last_us is None:
        return ReadingsFit(doubts=releases)
    first_us, last_us = log.first_us, log.last_us
    for node in readings.nodes:
        if node.before.time_us > last_us + tolerance_us or node.after.time_us < first_us - tolerance_us:
            return ReadingsFit(other_time=_other_time(node, first_us, last_us), doubts=releases)
    times = tuple(_time_doubts(readings, first_us + tolerance_us, last_us - tolerance_us))
    known = not times and not readings.cut
    until_us = min(node.after.time_us for node in readings.nodes) if known else 0
    return ReadingsFit(doubts=(*times, *releases), until_us=until_us)


def _other_time(node: NodeReadings, first_us: int, last_us: int) -> str:
    read, rows = (
        f"from {moment(begin)} to {moment(end)}"
        for begin, end in ((node.before.time_us, node.after.time_us), (first_us, last_us))
    )
    return (
        f"The counters of {node.node} were read {read}, and the log is {rows}: they are not of this log, unless the"
        " clocks of broker and capture differ by as much (--tolerance-ms)"
    )


def _time_doubts(readings: CounterReadings, begin_us: int, end_us: int) -> Iterator[str]:
    for node in readings.nodes:
        if node.before.time_us > begin_us:
            yield (
                f"The counters of {node.node} were first read at {moment(node.before.time_us)}, after the log began:"
                " what died before that is not among what it counted"
            )
        if node.after.time_us < end_us:
            yield (
                f"The counters of {node.node} were last read at {moment(node.after.time_us)}, before the log ended:"
                " what died after that is not among what it counted"
            )


def _release_doubts(readings: CounterReadings, rules: Release) -> Iterator[str]:
    for node in readings.nodes:
        if known_release(node.release) != rules.name:
            yield f"The counters are of RabbitMQ {node.release} ({node.node}), and the rules are those of {rules.name}"


# Balances what the broker counted with what a replay reconstructed: each dead letter more needs a place to have died.
#
# A trace shows no death. The replay reconstructs those that a later delivery has in its history; the broker counts
# all of them. The difference, the residual, is named: by the queues that can do it, and by what the log shows of
# them. A residual beyond what the messages of the log can have done is unexplained.


UNKNOWN = "?"
"""The type of a queue that the log names and the definitions lack."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in which messages may have died without a trace.

    Attributes:
        vhost, queue: its name.
        most: how many messages of the log can have died there so, at most.
        why: what becomes of its dead letters, in words.
        sends: whether it is to send dead letters: it has a dead-letter exchange, though maybe a missing one.
    """

    vhost: str
    queue: str
    most: int
    why: str
    sends: bool = False


class BalanceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One account of the books: the dead letters of one reason, queue type and strategy.

    Attributes:
        reason, queue_type, strategy: as in ``dlx.global_counters``.
        counted: how many the broker counted.
        reconstructed: how many the replay found behind the deliveries of the log.
        residual: how many it did not find; negative: how many more it found.
        suspects: the queues that can have done it.
        unexplained: the part of the residual that nothing explains.
    """

    reason: str
    queue_type: str
    strategy: str
    counted: int
    reconstructed: int
    residual: int
    suspects: tuple[Suspect, ...] = ()
    unexplained: int = 0

    @property
    def lost(self) -> bool:
        """Whether what is not reconstructed is gone for certain: no dead letter was sent."""
        return self.strategy == DISABLED

    @property
    def astray(self) -> int:
        """How many of them are gone that were to be sent: the queues that drop messages cannot have had that many."""
        if not self.lost:
            return 0
        dropped = sum(each.most for each in self.suspects if not each.sends)
        sent = sum(each.most for each in self.suspects if each.sends)
        return min(sent, max(0, self.residual - self.unexplained - dropped))


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """The books of one replay.

    Attributes:
        nodes: the nodes whose counters were read.
        vhost: the virtual host that was captured.
        entries: the accounts in which there is anything, losses first.
        held: at-least-once dead letters that were counted, and not confirmed by the queues that they are for.
        overconfirmed: how many more of them were confirmed than counted.
        unconfirmed: how many more of them the replay found delivered than were confirmed.
        received, published: messages that the nodes received, and publishes that the log has.
        cut: why the log lacks some of what was counted.
        vhosts: other virtual hosts of the definitions, which the nodes count as well and the log does not show.
        unexplained_deliveries: deliveries without explanation, whose deaths are not among the reconstructed.
        ambiguous: deliveries with several explanations, of which the first one is counted.
        other_time: as in ``ReadingsFit``.
        doubts: those of ``ReadingsFit``, and counters that the readings lack.
    """

    nodes: tuple[str, ...]
    vhost: str
    entries: tuple[BalanceEntry, ...]
    held: int = 0
    overconfirmed: int = 0
    unconfirmed: int = 0
    received: int = 0
    published: int = 0
    cut: tuple[str, ...] = ()
    vhosts: tuple[str, ...] = ()
    unexplained_deliveries: int = 0
    ambiguous: int = 0
    other_time: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        """How many messages died without a dead letter."""
        return sum(entry.residual - entry.unexplained for entry in self.entries if entry.lost and entry.residual > 0)

    @property
    def astray(self) -> int:
        """How many of these were certainly to be dead letters; none where the log lacks some of what was counted."""
        return 0 if self.cut or self.vhosts else sum(entry.astray for entry in self.entries)

    @property
    def unexplained(self) -> int:
        """How many dead letters nothing explains."""
        return sum(entry.unexplained for entry in self.entries)

    @property
    def unseen(self) -> int:
        """How many dead letters were sent that no later delivery shows, though nothing speaks against them."""
        sent = (entry for entry in self.entries if not entry.lost and entry.residual > 0)
        return sum(entry.residual - entry.unexplained for entry in sent)

    @property
    def explained(self) -> bool:
        """Whether the counters are of the log, and the log explains what they count."""
        return not self.unexplained and not self.other_time

    @property
    def misfits(self) -> tuple[str, ...]:
        """What in the counters does not fit the log or each other, in words; not what the log cannot explain."""
        found = [*self.doubts]
        if self.overconfirmed:
            found.append(
                f"{self.overconfirmed:,} more at-least-once dead letters were confirmed than counted: their messages"
                " died before the counters were first read, or these are not the counters of this log"
            )
        if self.unconfirmed:
            found.append(
                f"{self.unconfirmed:,} more at-least-once dead letters were delivered than confirmed: other queues that"
                " they are for have not taken them, or these are not the counters of this log"
            )
        return tuple(found)


def balance(
    readings: CounterReadings,
    log: LogCounts,
    topologies: Mapping[str | None, Topology],
    release: Release,
    fit: ReadingsFit = UNCHECKED_FIT,
) -> Balance:
    """Return the books of a replay under the rules of ``release``; ``fit`` is that of ``readings_fit``.

    Raises ``ValueError`` if a node was restarted between its readings.
    """
    risen = readings.counted()
    counted = {account: count for series, count in risen.items() if (account := account_of(series))}
    received = sum(count for series, count in risen.items() if series.name == "messages_received")
    confirmed = sum(counted.pop(account) for account in list(counted) if account.reason == CONFIRMED)
    queues = _CountedQueues(topologies, release, log)
    lacking = queues.reconstructed().keys() & {*accounts(release)} - counted.keys()
    entries = tuple(_entries(counted, queues, lacking, cut=bool(readings.cut)))
    reliable = [entry for entry in entries if entry.strategy == COUNTED_AT_LEAST_ONCE]
    at_least_once = sum(entry.counted for entry in reliable)
    known = {vhost for vhost in topologies if vhost is not None}
    return Balance(
        nodes=readings.names,
        vhost=readings.vhost,
        entries=tuple(sorted(entries, key=_rank)),
        held=max(0, at_least_once - confirmed),
        overconfirmed=max(0, confirmed - at_least_once),
        unconfirmed=max(0, sum(entry.reconstructed for entry in reliable) - confirmed),
        received=received,
        published=log.published,
        cut=readings.cut,
        vhosts=tuple(sorted(known - log.vhosts)),
        unexplained_deliveries=sum(log.unexplained.values()),
        ambiguous=log.ambiguous,
        other_time=fit.other_time,
        doubts=(*fit.doubts, *(f"The counters lack {account.series}" for account in sorted(lacking))),
    )


def _rank(entry: BalanceEntry) -> tuple[bool, int, int, str, str, str]:
    """Losses first, then what was not seen again, then what balances."""
    strategies = (DISABLED, COUNTED_AT_MOST_ONCE, COUNTED_AT_LEAST_ONCE)
    strategy = strategies.index(entry.strategy) if entry.strategy in strategies else len(strategies)
    return entry.residual == 0, strategy, -abs(entry.residual), entry.queue_type, entry.reason, entry.strategy


def _entries(
    counted: Mapping[Account, int], queues: _CountedQueues, lacking: Collection[Account], *, cut: bool
) -> Iterator[BalanceEntry]:
    """Yield an entry for each account in which anything was counted or reconstructed, but those without a counter."""
    found = {account: count for account, count in queues.reconstructed().items() if account not in lacking}
    residual = {account: count - found.get(account, 0) for account, count in counted.items()}
    residual |= {account: -count for account, count in found.items() if account not in counted}
    unseen = {account: count for account, count in residual.items() if count > 0 and account.strategy != DISABLED}
    for account, rest in residual.items():
        if not counted.get(account) and not found.get(account):
            continue
        suspects = tuple(queues.suspects(account, unseen)) if rest > 0 else ()
        named = rest if cut or account.queue_type not in (CLASSIC, QUORUM) else sum(each.most for each in suspects)
        yield BalanceEntry(
            reason=account.reason,
            queue_type=account.queue_type,
            strategy=account.strategy,
            counted=counted.get(account, 0),
            reconstructed=found.get(account, 0),
            residual=rest,
            suspects=suspects,
            unexplained=max(0, rest - named) if rest > 0 else -rest,
        )


class _CountedQueues:
    """The queues of all virtual hosts, what is counted of them, and what the log shows."""

    def __init__(self, topologies: Mapping[str | None, Topology], release: Release, log: LogCounts) -> None:
        self._log = log
        self._flows: dict[str, MessageFlow] = {}
        vhosts = log.vhosts if None in topologies else {vhost for vhost in topologies if vhost is not None}
        for vhost in sorted(vhosts):
            topology = topologies.get(vhost) or topologies.get(None)
            if topology is not None:
                self._flows[vhost] = MessageFlow(with_stand_ins(topology), release)
        losses = find_losses({vhost: flow.topology for vhost, flow in self._flows.items()}, release)
        self._losses = {(each.vhost, each.queue, reason): each.why for each in losses for reason in each.reasons}

    def reconstructed(self) -> dict[Account, int]:
        """Return how many deaths the replay found, by account."""
        found: dict[Account, int] = {}
        for (vhost, queue, reason), count in self._log.deaths.items():
            account = Account(reason, self._type(vhost, queue), self._strategies(vhost, queue)[-1])
            found[account] = found.get(account, 0) + count
        return found

    def suspects(self, account: Account, unseen: Mapping[Account, int]) -> Iterator[Suspect]:
        """Yield the queues that can have residuals in an account, those with the most messages first."""
        places = {*self._log.arrived, *self._log.delivered}
        places |= {(vhost, queue) for vhost, flow in self._flows.items() for queue in flow.topology.queues}
        found = [self._suspect(place, account, unseen) for place in places]
        yield from sorted(
            (each for each in found if each is not None), key=lambda each: (-each.most, each.vhost, each.queue)
        )

    def _suspect(self, place: Place, account: Account, unseen: Mapping[Account, int]) -> Suspect | None:
        vhost, queue = place
        if not self._is_in(account, vhost, queue):
            return None
        most = self._most(place, account.reason, unseen)
        why = self._why(vhost, queue, account)
        return Suspect(vhost=vhost, queue=queue, most=most, why=why, sends=self._sends(place)) if most > 0 else None

    def _sends(self, place: Place) -> bool:
        """Return whether the queue has a dead-letter exchange, as far as the definitions know."""
        vhost, queue = place
        flow = self._flows.get(vhost)
        known = flow is not None and queue in flow.topology.queues
        return flow is not None and known and flow.settings(queue).dead_letter_exchange is not None

    def _is_in(self, account: Account, vhost: str, queue: str) -> bool:
        """Return whether deaths in the queue can be counted there; of an unknown queue nothing rules it out."""
        kind = self._type(vhost, queue)
        if kind == UNKNOWN:
            return True
        if kind != account.queue_type or account.strategy not in self._strategies(vhost, queue):
            return False
        expiring = bool(self._log.expiring.get((vhost, queue)))
        return self._flows[vhost].why_impossible(queue, account.reason, has_expiration=expiring) is None

    def _most(self, place: Place, reason: str, unseen: Mapping[Account, int]) -> int:
        """Return how many messages of the log can have died in the queue without a trace, for that reason."""
        log = self._log
        came = log.arrived.get(place, 0) + log.unexplained.get(place, 0) + self._unseen_into(place, unseen)
        left = came - sum(log.deaths.get((*place, each), 0) for each in REASONS)
        if reason == REJECTED:
            return min(left, log.delivered.get(place, 0) - log.deaths.get((*place, REJECTED), 0))
        if reason == EXPIRED and not self._expires(place):
            return min(left, log.expiring.get(place, 0))
        return left

    def _expires(self, place: Place) -> bool:
        vhost, queue = place
        return self._type(vhost, queue) == UNKNOWN or (
            self._flows[vhost].why_impossible(queue, EXPIRED, has_expiration=False) is None
        )

    def _unseen_into(self, place: Place, unseen: Mapping[Account, int]) -> int:
        """Return how many dead letters may have come into the queue that no delivery shows."""
        vhost, queue = place
        flow = self._flows.get(vhost)
        if flow is None:
            return 0
        return sum(
            count
            for account, count in unseen.items()
            if any(
                self._is_in(account, vhost, source) and queue in flow.possible_targets(source)
                for source in flow.topology.queues
            )
        )

    def _type(self, vhost: str, queue: str) -> str:
        flow = self._flows.get(vhost)
        found = flow.topology.queues.get(queue) if flow is not None else None
        return UNKNOWN if found is None else found.type

    def _strategies(self, vhost: str, queue: str) -> tuple[str, ...]:
        """Return the strategies under which deaths in the queue may be counted.

        Exports may lack an internal exchange, so a dead-letter exchange that they lack may exist.
        """
        flow = self._flows.get(vhost)
        if flow is None or queue not in flow.topology.queues:
            return (UNKNOWN,)
        settings = flow.settings(queue)
        strategy = counted_strategy(settings, flow.topology.exchanges)
        lacking = strategy == DISABLED and settings.dead_letter_exchange is not None
        return (strategy, COUNTED_AT_MOST_ONCE) if lacking else (strategy,)

    def _why(self, vhost: str, queue: str, account: Account) -> str:
        """Say why the queue loses messages that die there so, or where their dead letters go."""
        flow = self._flows.get(vhost)
        if flow is None or queue not in flow.topology.queues:
            return "the definitions do not have it"
        exchange = flow.settings(queue).dead_letter_exchange
        if exchange is None:
            return NO_EXCHANGE
        if exchange not in flow.topology.exchanges and account.strategy == COUNTED_AT_MOST_ONCE:
            return f"dead-letter exchange '{exchange}' is not in the definitions, which may lack internal ones"
        lost = never_routed(flow, queue) or self._losses.get((vhost, queue, account.reason))
        return lost or _to(flow.possible_targets(queue), len(flow.topology.queues))


def _to(targets: Iterable[str], queues: int) -> str:
    names = sorted(targets)
    if len(names) == queues and queues > 1:
        return "its dead letters go where their routing key says"
    shown = ", ".join(f"'{name}'" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"its dead letters go to {shown}" if shown else "its dead letters reach no queue"


# Says what a balance means: a sentence for each residual, and what was not checked.


SUSPECTS_SHOWN = 5
_DIED = {
    EXPIRED: ("expired", "expired"),
    REJECTED: ("was rejected", "were rejected"),
    MAXLEN: ("was one too many", "were too many"),
    DELIVERY_LIMIT: ("exceeded the delivery limit", "exceeded the delivery limit"),
}
_BECAME: dict[str, str] = {
    DISABLED: "without a dead-letter exchange to go to: no trace shows these, and they are gone",
    COUNTED_AT_MOST_ONCE: (
        "with a dead letter sent at most once that no later delivery shows: dropped on the way, or still in a queue"
    ),
    COUNTED_AT_LEAST_ONCE: (
        "with a dead letter sent at least once that no later delivery shows: their queue holds them, or they are"
        " still in another"
    ),
}


def sentences(entry: BalanceEntry, balance: Balance) -> Iterator[str]:
    """Yield what there is to say of an account that does not balance."""
    named = entry.residual - entry.unexplained
    if entry.residual < 0:
        yield f"{_messages(-entry.residual, entry)}, and the broker did not count them: unexplained: {-entry.residual}"
        return
    if named and entry.suspects:
        yield f"{_messages(named, entry)} {_BECAME.get(entry.strategy, '')}; {_suspects(entry.suspects, balance)}"
    elif named and entry.queue_type not in (CLASSIC, QUORUM):
        yield f"{_messages(named, entry)}: a replay knows nothing of such queues"
    elif named:
        yield f"{_messages(named, entry)}, and no trace shows them"
    if named and balance.cut:
        yield f"the log is cut: {'; '.join(balance.cut)}"
    if entry.unexplained:
        yield f"{_messages(entry.unexplained, entry)} {_BECAME.get(entry.strategy, '')}; {_unexplained(entry, balance)}"


def _messages(count: int, entry: BalanceEntry) -> str:
    died = _DIED.get(entry.reason, (entry.reason, entry.reason))[count != 1]
    return f"{count:,} {'message' if count == 1 else 'messages'} {died} in {entry.queue_type} queues"


def _suspects(suspects: tuple[Suspect, ...], balance: Balance) -> str:
    several = len({each.vhost for each in suspects}) > 1
    shown = [
        f"'{each.queue}'{f' in {each.vhost}' if several else ''} ({each.why}; at most {each.most:,})"
        for each in suspects[:SUSPECTS_SHOWN]
    ]
    more = len(suspects) - len(shown)
    return f"queues that can do it: {', '.join(shown)}{f' and {more} more' if more else ''}"


def _unexplained(entry: BalanceEntry, balance: Balance) -> str:
    beyond = "more than the messages of the log can have done" if entry.suspects else "no queue of the log can do it"
    perhaps = "they were in their queues before the log began, or in another virtual host"
    if balance.unexplained_deliveries:
        perhaps += f", or behind one of the {balance.unexplained_deliveries:,} unexplained deliveries"
    return f"{beyond} (perhaps {perhaps}): unexplained: {entry.unexplained:,}"


def remarks(balance: Balance) -> Iterator[str]:
    """Yield what the balance takes for granted, or cannot know."""
    yield from (f"{doubt}." for doubt in (balance.other_time, *balance.misfits) if doubt)
    nodes = ", ".join(balance.nodes)
    yield (
        f"The counters are of {'node' if len(balance.nodes) == 1 else 'nodes'} {nodes} and of all virtual hosts there;"
        f" the log is of {balance.vhost}. What other nodes of a cluster counted is not among them."
    )
    if balance.vhosts:
        yield f"The log shows nothing of virtual host {', '.join(balance.vhosts)}, which the nodes count as well."
    yield "What died between a reading and the first or last trace is counted, and the log does not show it."
    if balance.received != balance.published:
        yield (
            f"The nodes received {balance.received:,} messages, and the log has {balance.published:,} publishes: the"
            " others were refused, went to another virtual host, or came before or after the log."
        )
    if balance.held:
        yield f"{balance.held:,} at-least-once dead letters were not confirmed by the end: their queues hold them."
    if balance.ambiguous:
        yield f"{balance.ambiguous:,} deliveries are ambiguous: the deaths of their first explanation are counted."


def as_json(balance: Balance) -> dict[str, Any]:
    """Return the balance with its sentences, as JSON values."""
    document: dict[str, Any] = msgspec.to_builtins(balance)
    for entry, shown in zip(balance.entries, document["entries"], strict=True):
        shown["says"] = list(sentences(entry, balance)) if entry.residual else []
    return {**document, "lost": balance.lost, "unexplained": balance.unexplained, "unchecked": [*remarks(balance)]}
