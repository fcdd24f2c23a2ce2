"""Checks the log of an ActiveMQ broker with its loggingBrokerPlugin for events that its rules exclude.

The plugin logs every message that is sent, and every one that is to be dead-lettered.
What must happen to such a message by the broker's configuration is compared with what
was sent next under its identifier. A log does not show what clients asked for, nor what
the broker had in its audits before, so only the impossible is a finding:

* a dead letter in another queue than the strategy names, one that strategy or plugins
  rule out, or none where nothing prevents it;
* a delivery count that does not exceed the limit that the dead letter names;
* a dead letter whose time to live is not that of the strategy, or that says to have expired and has not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from simulator.systems.activemq.dead_letter_strategies import (
    Discarding,
    Individual,
    Shared,
    Strategy,
    keeps_nothing,
    refusal,
    target,
)
from simulator.systems.activemq.destinations import ADVISORY, Destination, UndefinedError, parse_destination, parts
from simulator.systems.activemq.messages import Message
from simulator.systems.activemq.plugins import Again, Lost, Verdict, judge
from simulator.systems.activemq.settings import DEFAULT_STRATEGY, BrokerSettings
from simulator.systems.checked_log import Checked, LogProblem

SENT, TO_DIE = "Sending message", "Sending to DLQ"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3}")
_HEAD = re.compile(rf"\b({SENT}|{TO_DIE}): ActiveMQ\w*Message\b")
_LINE = re.compile(
    rf"\b(?P<what>{SENT}|{TO_DIE}): ActiveMQ\w*Message "
    r"\{.*?\bmessageId = (?P<id>[^,]+), originalDestination = (?P<original>\S.*?), originalTransactionId = .*?"
    r" destination = (?P<destination>\S.*?), transactionId = .*? expiration = (?P<expiration>\d+), .*?"
    r" brokerInTime = (?P<taken>\d+), .*? persistent = (?P<persistent>true|false), .*?"
    r" redeliveryCounter = (?P<counter>\d+), (?P<rest>.*)"
)
_LIMIT = re.compile(
    r"dlqDeliveryFailureCause=java\.lang\.Throwable: Delivery\[(\d+)\] exceeds .*?maximumRedeliveries = (-?\d+)"
)
_EXPIRATION = re.compile(r"dlqDeliveryFailureCause=java\.lang\.Throwable: Message Expired\. Expiration:(\d+)")
_LETTER = "dlqDeliveryFailureCause="
_QUARTER_MS = 900_000
_LATE_MS = 1_000
"""How much later a line may be than the event that it reports."""


class Logged(msgspec.Struct, frozen=True):
    """One line of the plugin.

    Attributes:
        line: its number in the log, from 1.
        what: ``SENT`` or ``TO_DIE``.
        time_ms: when it was written, by the clock on the broker's wall, as if that were UTC.
        taken_ms: when the broker took the message, since 1970; 0 if it just does.
        message: as the line tells it.
        rest: the properties of the message, and more.
    """

    line: int
    what: str
    time_ms: int
    taken_ms: int
    message: Message
    rest: str

    @property
    def is_letter(self) -> bool:
        """Whether a dead letter is sent."""
        return self.what == SENT and _LETTER in self.rest


class Passed(msgspec.Struct, frozen=True):
    """A line without a message: its time."""

    time_ms: int


class Unread(msgspec.Struct, frozen=True):
    """A line about a message that cannot be read: cut, or with another time; its number."""

    line: int


class CheckedBrokerLog(Checked, kw_only=True):
    """The same of a broker's log.

    Attributes:
        messages: how many lines told of a message.
        first_unread: the number of the first that did and could not be read; 0 where all could.
    """

    messages: int = 0
    first_unread: int = 0


def read_log(lines: Iterable[str]) -> Iterator[Logged | Passed | Unread]:
    """Yield the plugin's lines about messages; of other lines, and those of advisories, the time alone."""
    for number, text in enumerate(lines, 1):
        time_ms, found = _time_ms(text), _LINE.search(text)
        if _HEAD.search(text) and (time_ms is None or found is None):
            yield Unread(number)
        if time_ms is None:
            continue
        if found is None or ADVISORY in found["destination"]:
            yield Passed(time_ms)
            continue
        original = None if found["original"] == "null" else parse_destination(found["original"])
        message = Message(
            message_id=found["id"],
            destination=parse_destination(found["destination"]),
            persistent=found["persistent"] == "true",
            expiration_ms=int(found["expiration"]),
            original_destination=original,
            redelivery_counter=int(found["counter"]),
        )
        yield Logged(number, found["what"], time_ms, int(found["taken"]), message, found["rest"])


def _time_ms(text: str) -> int | None:
    """Return the time at the head of a line; ``None`` if it has none, as lines of a traceback."""
    found = _TIME.search(text)
    if found is None:
        return None
    try:
        time = datetime.fromisoformat(found[0].replace(",", ".") + "+00:00")
    except ValueError:  # no time of day: another kind of line
        return None
    return round(time.timestamp() * 1000)


def check_broker_log(log: Iterable[Logged | Passed | Unread], settings: BrokerSettings | None) -> CheckedBrokerLog:
    """Check the plugin's lines, in their order. Without ``settings``, what depends on them is not checked."""
    reading = _BrokerLogReader(settings)
    for each in log:
        if isinstance(each, Unread):
            reading.skip(each)
            continue
        reading.until(each.time_ms)
        if isinstance(each, Logged):
            reading.take(each)
    reading.end()
    return reading.checked


class _BrokerLogReader:
    """What is known of messages so far."""

    def __init__(self, settings: BrokerSettings | None) -> None:
        self.checked = CheckedBrokerLog(found=[], looked_at=Counter(), not_checked=Counter())
        self._settings = settings
        self._dying: dict[tuple[str, Destination], Logged] = {}
        self._had_letter: set[str] = set()
        # How a retry of the management sends each dead letter back: with the same cause, and from the queue it was in.
        self._ways_back: set[tuple[str, Destination, Destination]] = set()
        self._ahead_ms: int | None = None
        self._skipped = 0

    def skip(self, unread: Unread) -> None:
        """Pass over a line: it may be the dead letter of any message that is to die."""
        self.checked.not_checked["lines of messages that are cut, or not as ActiveMQ 5.17 writes them"] += 1
        self.checked.first_unread = self.checked.first_unread or unread.line
        self._skipped = unread.line

    def until(self, time_ms: int) -> None:
        """Record the time: what was to die long before has no dead letter."""
        for each in [each for each in self._dying.values() if time_ms > each.time_ms + _LATE_MS]:
            self._nothing_followed(each)

    def take(self, logged: Logged) -> None:
        """Take the next line about a message."""
        self.checked.messages += 1
        message = logged.message
        if self._ahead_ms is None and logged.taken_ms:
            self._ahead_ms = round((logged.time_ms - logged.taken_ms) / _QUARTER_MS) * _QUARTER_MS
        if logged.what == TO_DIE:
            before = self._dying.get((message.message_id, message.destination))
            if before is not None:
                self._nothing_followed(before)
            self._dying[message.message_id, message.destination] = logged
        elif logged.is_letter and message.original_destination is not None:
            died = self._dying.pop((message.message_id, message.original_destination), None)
            way = (message.message_id, message.original_destination, message.destination)
            if died is None and way in self._ways_back:
                self._had_letter.discard(message.message_id)  # a retry: the audit forgets it
                return
            self._letter(logged, died)
            self._had_letter.add(message.message_id)
            self._ways_back.add((message.message_id, message.destination, message.original_destination))
        elif (died := self._dying.get((message.message_id, message.destination))) is not None:
            del self._dying[message.message_id, message.destination]
            self._again(died)

    def end(self) -> None:
        """Take the end of the log: the log may lack the end of what was to die just before."""
        if self._dying:
            self.checked.not_checked["dead letters: the log ends"] += len(self._dying)

    def _find(self, logged: Logged, problem: str) -> None:
        self.checked.found.append(LogProblem(logged.line, logged.message.message_id, problem))

    def _letter(self, logged: Logged, died: Logged | None) -> None:
        """Check a dead letter, and whether there may be one."""
        self._count(logged)
        self._age(logged)
        source = logged.message.original_destination
        assert source is not None
        strategy = self._strategy(source)
        if strategy is None:
            return
        self.checked.looked_at["destinations"] += 1
        prevented = None if died is None else self._prevented(died, strategy)
        to = logged.message.destination
        if prevented is not None:
            self._find(logged, f"it has a dead letter in {to}; {prevented}")
        elif isinstance(strategy, Discarding) or keeps_nothing(strategy) is not None:
            self._find(logged, f"it has a dead letter in {to}; {keeps_nothing(strategy)}")
        elif not _may_go(strategy, source, to):
            expected = target(strategy, source)
            self._find(logged, f"its dead letter went to {to}; the strategy of {source} sends it to {expected}")
        else:
            self._time_to_live(logged, strategy)

    def _again(self, died: Logged) -> None:
        """Check a message that was sent again to where it was to die, which the redelivery plugin does."""
        if self._settings is None:
            return
        self.checked.looked_at["deliveries by the plugin"] += 1
        if not isinstance(self._verdict(died), Again):
            text = "it is sent again instead of dying; no policy of the redelivery plugin allows another attempt"
            self._find(died, text)

    def _nothing_followed(self, died: Logged) -> None:
        """Check a message that was to die and had no dead letter."""
        del self._dying[died.message.message_id, died.message.destination]
        strategy = self._strategy(died.message.destination)
        if strategy is None:
            return
        if self._skipped > died.line:
            self.checked.not_checked["messages without a dead letter: an unreadable line may be the dead letter"] += 1
            return
        self.checked.looked_at["messages without a dead letter"] += 1
        if self._prevented(died, strategy) is None and not self._may_be_known(died, strategy):
            self._find(died, f"it has no dead letter; the strategy of {died.message.destination} makes one")

    def _prevented(self, died: Logged, strategy: Strategy) -> str | None:
        """Return why a message must not have a dead letter; ``None`` if it may."""
        verdict = self._verdict(died)
        if isinstance(verdict, Lost):
            return verdict.reason
        if isinstance(verdict, Again):
            return "the redelivery plugin delivers it again"
        return refusal(strategy, died.message, self._now_ms(died), duplicate=False)

    def _may_be_known(self, died: Logged, strategy: Strategy) -> bool:
        """Return whether a dead letter may be left out since there was one, or would be where the message is."""
        if isinstance(strategy, Discarding) or _may_go(strategy, died.message.destination, died.message.destination):
            return True
        return strategy.enable_audit and died.message.message_id in self._had_letter

    def _verdict(self, died: Logged) -> Verdict:
        expired = died.message.expired(self._now_ms(died))
        for plugin in reversed(self._settings.plugins if self._settings else ()):
            verdict = judge(plugin, died.message.destination, died.message.redelivery_counter, expired=expired)
            if verdict is not None:
                return verdict
        return None

    def _count(self, logged: Logged) -> None:
        told = _LIMIT.search(logged.rest)
        if told is None:
            return
        self.checked.looked_at["counts"] += 1
        delivery, limit = int(told[1]), int(told[2])
        if delivery <= limit:
            self._find(logged, f"it died of delivery {delivery}; the client's policy allows {limit} redeliveries")

    def _age(self, logged: Logged) -> None:
        told = _EXPIRATION.search(logged.rest)
        if told is None:
            return
        self.checked.looked_at["ages"] += 1
        early_ms = int(told[1]) - self._now_ms(logged)
        if early_ms > _LATE_MS:
            self._find(logged, f"it has expired {early_ms} ms before its time")

    def _time_to_live(self, logged: Logged, strategy: Strategy) -> None:
        self.checked.looked_at["times to live"] += 1
        lives_ms = logged.message.expiration_ms and logged.message.expiration_ms - self._now_ms(logged)
        if not strategy.expiration_ms - _LATE_MS <= lives_ms <= strategy.expiration_ms:
            text = f"its dead letter lives for {lives_ms} ms; the strategy says {strategy.expiration_ms} (0: forever)"
            self._find(logged, text)

    def _strategy(self, source: Destination) -> Strategy | None:
        """Return the strategy of a destination; ``None`` where nothing says it."""
        if self._settings is None:
            self.checked.not_checked["destinations: no --definitions with the broker's activemq.xml"] += 1
            return None
        try:
            policy = self._settings.policies.lookup(source)
        except UndefinedError as error:
            self.checked.not_checked[f"destinations: {error}"] += 1
            return None
        return (policy.strategy if policy else None) or DEFAULT_STRATEGY

    def _now_ms(self, logged: Logged) -> int:
        """Return when a line was written, in milliseconds since 1970."""
        return logged.time_ms - (self._ahead_ms or 0)


def _may_go(strategy: Shared | Individual, source: Destination, to: Destination) -> bool:
    """Return whether the dead letters of a destination may go there; no log shows whose subscription it was."""
    expected = target(strategy, source)
    if to == expected or to in parts(expected):
        return True
    if source.is_queue or not isinstance(strategy, Individual) or not strategy.destination_per_durable_subscriber:
        return False
    head = expected.name.removesuffix(strategy.topic_suffix)
    return to.kind == expected.kind and to.name.startswith(f"{head}.") and to.name.endswith(strategy.topic_suffix)
