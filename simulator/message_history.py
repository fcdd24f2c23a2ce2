"""The history of each message: what happened to it and why, kept by message and written in sentences.

``MessageHistories`` keeps the histories of the last messages; ``RecordingBroker`` is a
broker that records them. One history covers every copy of a message and its dead
letters, because they share the message's number.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any, NamedTuple, Self

import msgspec

from dlx.message import Message
from dlx.releases import DEFAULT, Release
from simulator.broker import Broker, NodeState, snapshots
from simulator.events import LOSSES, Event, Happened, copies_added, delays_added, losses
from simulator.message_location import locations
from simulator.time_spans import span

MESSAGES_MAX = 10_000
EVENTS_PER_MESSAGE_MAX = 500

_FIREHOSE = "amq.rabbitmq.trace"
_BEFORE_THE_END = frozenset({Event.PUBLISHED, Event.CONFIRMED})
# A history without any of these has lost no copy; see ``simulator.events.losses``.
MAY_LOSE = LOSSES | {Event.NACKED}
_SENTENCES = {
    Event.PUBLISHED: "it was published to {exchange} with {keys}",
    Event.ROUTED: "it entered the queue '{queue}'",
    Event.RETURNED: "no queue was bound for it, and it went back to its publisher",
    Event.DELAYED: "{detail}",
    Event.RELEASED: "its delay {detail} was over",
    Event.CONFIRMED: "the broker confirmed it",
    Event.NACKED: "the queue '{queue}' refused it",
    Event.DEFERRED: "the queue '{queue}' refused it for now: the dead letter is still held and will be sent again",
    Event.DELIVERED: "the queue '{queue}' handed it to a consumer",
    Event.EXTENDED: "the consumer of '{queue}' got longer for it",
    Event.ACKED: "the consumer of '{queue}' acknowledged it: that copy is done with",
    Event.REJECTED: "the consumer of '{queue}' rejected it for good",
    Event.REQUEUED: "it went back to the queue '{queue}'",
    Event.EXPIRED: "its time to live ran out in the queue '{queue}'",
    Event.LENGTH_DROPPED: "a length limit pushed it out of the queue '{queue}'",
    Event.LIMIT_DROPPED: "it exceeded the delivery limit of the queue '{queue}'",
    Event.DEAD_LETTERED: "it was dead-lettered from the queue '{queue}' ({reason}) {detail}",
    Event.CYCLE_DROPPED: "it was dropped: its dead letter from '{queue}' ({reason}) would have gone in a circle",
    Event.HELD: "the queue '{queue}' holds it ({reason}) until its dead letter has arrived",
    Event.DROPPED: "it was dropped: it died in the queue '{queue}' ({reason}) and went nowhere",
    Event.PURGED: "it was removed with what else was in the queue '{queue}'",
}
_EQUAL_WITHIN = 1.1  # rounds of real time are never quite equal
_GONE = "Nothing is left of it."
_UNBOUND = "no queue was bound for it: it is gone"
_UNBOUND_LATER = "it was dropped: {detail}"
_UNBOUND_LETTER = "no queue was bound for its dead letter from '{queue}' ({reason}): it is gone"


class MessageHistory(msgspec.Struct, kw_only=True):
    """One message and what happened to it, in order.

    Attributes:
        uid: the message's number.
        vhost: its virtual host.
        message_id: its ``message_id`` property, or ``None``.
        events: what happened, the oldest first.
        omitted: how many events after the first 500 were not kept. More of those that lose a copy are kept.
    """

    uid: int
    vhost: str
    message_id: str | None = None
    events: list[Happened] = []
    omitted: int = 0

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that hold a copy, as far as the events show; a queue that holds two copies is there twice."""
        holding: Counter[str] = Counter()
        before = None
        for event in self.events:
            if event.queue is not None:
                holding[event.queue] += copies_added(event, before)
            before = event
        return tuple(holding.elements())

    @property
    def delayed(self) -> int:
        """How many copies exchanges delay, as far as the events show."""
        return sum(map(delays_added, self.events))

    @property
    def ended(self) -> bool:
        """Whether no copy of it is left."""
        return not self.queues and not self.delayed and any(event.event not in _BEFORE_THE_END for event in self.events)

    @property
    def has_copies(self) -> bool:
        """Whether it had several copies: each is lost, removed, acknowledged, delayed, or in a queue."""
        return len(losses(self.events)) + len(self.queues) + self.delayed + self.acknowledged > 1

    @property
    def acknowledged(self) -> int:
        """How many copies consumers acknowledged."""
        return sum(event.event == Event.ACKED for event in self.events)

    @property
    def loss(self) -> str | None:
        """Sentences that say how each copy was lost, then how each was removed; ``None`` if none was."""
        lost = sorted(losses(self.events), key=lambda event: event.event == Event.PURGED)
        has_copies = len(lost) > 1 or self.has_copies
        return " ".join(sentence(event, has_copies) for event in lost) or None

    def sentences(self) -> list[str]:
        """Return the history in sentences, each with the time since the one before, and where the message is now."""
        return [*self.story(), self._outcome()]

    def _repr_html_(self) -> str:
        """Return the history as notebooks show it: the way of the message as a picture, and the sentences."""
        from simulator.pictures.html import life_fragment  # few look at it in a notebook

        return life_fragment(self.events, self.sentences())

    def story(self) -> list[str]:
        """Return the history in sentences, without where the message is now. What repeats itself is said once."""
        if not self.omitted:
            return list(_told(self.events, None, self.has_copies))
        first, others = self.events[:EVENTS_PER_MESSAGE_MAX], self.events[EVENTS_PER_MESSAGE_MAX:]
        omitted = f"{self.omitted} further events were not kept."
        copies = self.has_copies
        return [*_told(first, None, copies), omitted, *_told(others, first[-1].time_us, copies)]

    def last(self) -> str:
        """Say what happened last."""
        return sentence(self.events[-1], self.has_copies) if self.events else ""

    def _outcome(self) -> str:
        if self.omitted:
            return "Nothing more is known of it."
        if self.ended:
            return _GONE
        held = ", ".join(f"'{queue}'" for queue in self.queues)
        is_in = ("Copies are" if len(self.queues) > 1 else "One copy is") if self.has_copies else "It is"
        if held:
            return f"{is_in} in {held}."
        return "An exchange delays it." if self.delayed else "Nothing more is known of it."

    def to_json(self) -> list[dict[str, Any]]:
        """Return the events as JSON values."""
        return [msgspec.to_builtins(event) for event in self.events]


class LostCopies(NamedTuple):
    """A message with lost copies, and the events that lost them, the oldest first."""

    uid: int
    vhost: str
    message_id: str | None
    events: tuple[Happened, ...]


# What is kept of a message, in one flat list: its virtual host, then each event and the message as it was then.
# (Nothing else is as cheap to add to, and to collect.)
_FULL = 1 + EVENTS_PER_MESSAGE_MAX * 2
_FULL_OF_LOSSES = 2 * _FULL
_Kept = list[Any]


class MessageHistories:
    """The histories of the last messages.

    Attributes:
        limit: how many messages are kept.
        first_uid: the number of the first message that is kept.

    Args:
        limit: how many messages to keep; the oldest are forgotten first.
        first_uid: the number of the first message to keep; older ones are left out.

    Raises:
        ValueError: the limit is below 1.
    """

    def __init__(self, limit: int = MESSAGES_MAX, first_uid: int = 1) -> None:
        if limit < 1:
            raise ValueError(f"expected a limit of at least 1, got {limit}")
        self.limit = limit
        self.first_uid = first_uid
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._omitted: Counter[int] = Counter()
        # What ``lost`` has found in how much of a history.
        self._lost: dict[int, tuple[int, LostCopies | None]] = {}

    def saved(self) -> dict[str, Any]:
        """Return the histories as a dictionary, for ``restored``."""
        return {"limit": self.limit, "kept": dict(self._kept), "omitted": dict(self._omitted)}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> MessageHistories:
        """Return the histories that ``saved`` returned."""
        histories = cls(saved["limit"])
        histories._kept.update(saved["kept"])
        histories._omitted.update(saved["omitted"])
        return histories

    def keep(self, happened: Happened, message: Message) -> None:
        """Keep what happened to a copy of a message. Messages that the firehose publishes are left out."""
        kept = self._kept.get(happened.uid)
        if kept is None:
            if message.exchange == _FIREHOSE or happened.uid < self.first_uid:
                return
            kept = self._begin(happened.uid, happened.vhost)
        if len(kept) < _FULL or (len(kept) < _FULL_OF_LOSSES and happened.event in MAY_LOSE):
            kept += (happened, message)
        else:
            self._omitted[happened.uid] += 1

    def _begin(self, uid: int, vhost: str) -> _Kept:
        self._kept[uid] = kept = [vhost]
        if len(self._kept) > self.limit:
            self._omitted.pop(self._kept.popitem(last=False)[0], None)
        return kept

    def get(self, uid: int) -> MessageHistory | None:
        """Return the history of one message, or ``None`` if it has no history or its history is forgotten."""
        kept = self._kept.get(uid)
        return None if kept is None else self._history(uid, kept)

    def explain(self, uid: int) -> list[str]:
        """Return the history of one message in sentences; return an empty list if there is no history."""
        history = self.get(uid)
        return [] if history is None else history.sentences()

    def find(
        self,
        *,
        vhost: str | None = None,
        queue: str | None = None,
        message_id: str | None = None,
        ended: bool | None = None,
        lost: bool | None = None,
        newest_first: bool = False,
    ) -> Iterator[MessageHistory]:
        """Yield the histories that fit, oldest first unless ``newest_first``.

        Args:
            vhost: the message's virtual host.
            queue: a queue that the message has been in, or that refused it.
            message_id: its ``message_id`` property.
            ended: whether no copy is left.
            lost: whether a copy was lost (``simulator.events.losses``).
            newest_first: begin with the message that was published last.
        """
        found = self._kept.items()
        for uid, kept in reversed(found) if newest_first else found:
            if vhost is not None and kept[0] != vhost:
                continue
            if message_id is not None and _message_id(kept) != message_id:
                continue
            if queue is not None and all(happened.queue != queue for happened in kept[1::2]):
                continue
            if lost and MAY_LOSE.isdisjoint([happened.event for happened in kept[1::2]]):
                continue
            history = self._history(uid, kept)
            if ended in (None, history.ended) and lost in (None, bool(losses(history.events))):
                yield history

    def lost(self) -> list[LostCopies]:
        """Return the messages with lost copies, the newest first. Only events since the last call are read."""
        before, self._lost = self._lost, {}
        for uid, kept in reversed(self._kept.items()):
            known = before.get(uid)
            if known is None or known[0] != len(kept):
                known = len(kept), _lost_copies(uid, kept)
            self._lost[uid] = known
        return [found for _, found in self._lost.values() if found is not None]

    def called(self, text: str) -> Iterator[MessageHistory]:
        """Yield the messages of that id or number, else those whose id has the text in it; the newest first."""
        exact = [uid for uid, kept in self._kept.items() if text in (_message_id(kept), str(uid))]
        wanted = text.casefold()
        for uid in reversed(exact or self._kept):
            kept = self._kept[uid]
            if exact or wanted in str(_message_id(kept) or "").casefold():
                yield self._history(uid, kept)

    def last_message(self, uid: int) -> Message | None:
        """Return a message as it was when something last happened to it; ``None`` if it has no history."""
        kept = self._kept.get(uid)
        return None if kept is None else kept[-1]

    def last_in(self, vhost: str, queue: str, most: int = 1_000) -> Message | None:
        """Return the newest of the last messages that has entered a queue, as it was then; ``None`` if none has.

        ``most``: how many of them to look at.
        """
        for kept in islice(reversed(self._kept.values()), most):
            if kept[0] != vhost:
                continue
            for happened, message in zip(kept[-2::-2], kept[:1:-2], strict=False):
                if happened.event == Event.ROUTED and happened.queue == queue:
                    return message  # type: ignore[no-any-return]
        return None

    def _history(self, uid: int, kept: _Kept) -> MessageHistory:
        return MessageHistory(
            uid=uid, vhost=kept[0], message_id=_message_id(kept), events=kept[1::2], omitted=self._omitted[uid]
        )


def _lost_copies(uid: int, kept: _Kept) -> LostCopies | None:
    events = kept[1::2]
    found = () if MAY_LOSE.isdisjoint([happened.event for happened in events]) else losses(events)
    return LostCopies(uid, kept[0], _message_id(kept), tuple(found)) if found else None


def _message_id(kept: _Kept) -> str | None:
    found: str | None = kept[2].properties.get("message_id")
    return found


class RecordingBroker(Broker):
    """A broker that keeps the histories of its last messages.

    Attributes:
        histories: the histories of the last messages.
    """

    def __init__(
        self,
        of: Release | str = DEFAULT,
        *,
        watch: Iterable[Event] = (),
        node: str = "rabbit@localhost",
        histories: MessageHistories | None = None,
    ) -> None:
        super().__init__(of, watch=watch, node=node)
        self.histories = MessageHistories() if histories is None else histories

    @property
    def histories(self) -> MessageHistories:
        """The histories of the last messages. Others may be set, to record in from then on."""
        return self._histories

    @histories.setter
    def histories(self, histories: MessageHistories) -> None:
        self._histories = histories
        self.observe(histories.keep)

    @classmethod
    def over(cls, state: NodeState) -> Self:
        """Return a broker that goes on with a state, which no other broker may use from then on, and records."""
        recording = super().over(state)
        recording.histories = MessageHistories()
        return recording

    @classmethod
    def taking_over(cls, broker: Broker) -> RecordingBroker:
        """Return the broker, recording from now on; go on with the one that is returned, and with it alone."""
        return broker if isinstance(broker, cls) else cls.over(broker.state)

    def snapshot(self) -> bytes:
        """Return the whole state and the histories as bytes, for ``restore`` of the same version."""
        return snapshots.dumped(self.state, self.histories.saved())

    @classmethod
    def restore(cls, snapshot: bytes) -> Self:
        """Return a broker that goes on as the one did that ``snapshot`` was taken of, with its histories if it had any.

        Raises ``ValueError`` for bytes that are not a snapshot of this version, or whose release is unknown.
        """
        state, saved = snapshots.loaded(snapshot)
        recording = cls.over(state)
        if saved is not None:
            recording.histories = MessageHistories.restored(saved)
        return recording

    @classmethod
    def restore_any(cls, snapshot: bytes) -> Broker:
        """Return a recording broker where the snapshot was taken of one, else a plain one. Raises as ``restore``."""
        state, saved = snapshots.loaded(snapshot)
        return Broker.over(state) if saved is None else cls.restore(snapshot)

    def explain(self, uid: int) -> list[str]:
        """Return the history of one message and where it is now; return an empty list if there is no history."""
        history = self.histories.get(uid)
        if history is None:
            return []
        if not history.omitted:
            found = locations(self, uid, history.vhost, history.queues, history.has_copies)
            return [*history.story(), *found] if found else history.sentences()
        host = self.vhosts.get(history.vhost)  # a copy may be where no event that was kept shows it
        found = [] if host is None else locations(self, uid, history.vhost, host.queues, history.has_copies)
        return [*history.story(), *(found or [_GONE])]


def repeated(events: Sequence[Happened]) -> Iterator[tuple[Sequence[Happened], str, int]]:
    """Yield the events in parts, each with how often it comes in a row, in words (empty for once), and its end."""
    from simulator.pictures.repetitions import repeats  # pictures are loaded when somebody looks

    at, before_us = 0, events[0].time_us if events else 0
    for part, times in repeats([what_happened(event) for event in events]):
        size = len(part)
        found = events[at : at + size * times]
        at += size * times
        if size * times <= 2:  # told twice they are as short
            yield from (([event], "", event.time_us) for event in found)
            before_us = found[-1].time_us
            continue
        often = f"{times:,} times{_in_what_time([before_us, *(event.time_us for event in found[size - 1 :: size])])}."
        told = "" if times == 1 else f"These {size}, {often}" if size > 1 else often
        before_us = found[-1].time_us
        yield found[:size], told, before_us


def _in_what_time(ends_us: Sequence[int]) -> str:
    """Say in what time rounds passed, and what the shortest and the longest took; ``ends_us`` begins with the start."""
    spent_us = ends_us[-1] - ends_us[0]
    rounds_us = [end - start for start, end in pairwise(ends_us)]
    shortest_us, longest_us = min(rounds_us), max(rounds_us)
    differ = longest_us > shortest_us * _EQUAL_WITHIN
    each = f", {span(shortest_us)} to {span(longest_us)} each" * differ
    return f" in {span(spent_us)}{each}" if spent_us else ""


def _told(events: Sequence[Happened], before_us: int | None, has_copies: bool) -> Iterator[str]:
    """Yield the events in sentences; ``before_us`` is the time of the event before them."""
    for part, often, ended_us in repeated(events):
        for event in part:
            told = f"{_when(event.time_us, before_us)} {what_happened(event, has_copies)}."
            before_us = event.time_us
            yield f"{told} ({often})" if often and event is part[-1] else told
        before_us = ended_us


def sentence(event: Happened, of_a_copy: bool = False) -> str:
    """Return one event as a sentence; see ``what_happened``."""
    what = what_happened(event, of_a_copy)
    return f"{what[0].upper()}{what[1:]}."


def what_happened(event: Happened, of_a_copy: bool = False) -> str:
    """Return one event in words, without its time: a clause that begins with a small letter.

    ``of_a_copy``: whether the message has several copies, so that the clause names the one by its queue.
    """
    sentence = _SENTENCES.get(event.event)
    if event.event == Event.UNROUTABLE:
        sentence = _UNBOUND if event.queue is None else _UNBOUND_LETTER
    elif event.event == Event.DROPPED and event.queue is None:
        sentence = _UNBOUND_LATER
    told = (sentence or "{event}").format(
        event=event.event.value,
        queue=event.queue,
        reason=event.reason,
        detail=event.detail,
        exchange=f"the exchange '{event.exchange}'" if event.exchange else "the default exchange",
        keys=_keys(event.routing_keys),
    )
    if of_a_copy and event.queue is not None and told.startswith("it "):
        which = "one copy" if event.event == Event.ROUTED else f"the copy in '{event.queue}'"
        told = f"{which} {told.removeprefix('it ')}"
    return f"{told} ({event.detail})" if event.detail and event.detail not in told else told


def _keys(keys: tuple[str, ...]) -> str:
    named = ", ".join(f"'{key}'" for key in keys)
    return f"the routing key {named}" if len(keys) == 1 else f"the routing keys {named}"


def _when(time_us: int, before_us: int | None) -> str:
    if before_us is None:
        return f"At {datetime.fromtimestamp(time_us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    return "At once" if time_us == before_us else f"{span(time_us - before_us)} later"
