"""What became of each message, and why: the events of a broker, kept by message and told in sentences.

``Lives`` keeps the lives of the last messages; ``RecordingBroker`` is a broker that
feeds one. A life holds every copy of a message and its dead letters, for they share
the message's number.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from dlx.message import Message
from dlx.releases import Release
from simulator.broker.broker import Broker
from simulator.events import Event, Happened
from simulator.message_location import whereabouts

MESSAGES_MAX = 10_000
EVENTS_PER_MESSAGE_MAX = 500

_FIREHOSE = "amq.rabbitmq.trace"
# What ends a copy in the queue where it happens.
_ENDS = frozenset(
    {Event.ACKED, Event.DEAD_LETTERED, Event.CYCLE_DROPPED, Event.DROPPED, Event.PURGED, Event.UNROUTABLE}
)
_BEFORE_THE_END = frozenset({Event.PUBLISHED, Event.CONFIRMED})
# What loses a copy although nobody took it; a message that is returned is its publisher's again.
_LOSSES = frozenset({Event.CYCLE_DROPPED, Event.DROPPED, Event.NACKED, Event.PURGED, Event.UNROUTABLE})
_SENTENCES = {
    Event.PUBLISHED: "it was published to {exchange} with {keys}",
    Event.ROUTED: "it entered the queue '{queue}'",
    Event.RETURNED: "no queue was bound for it, and it went back to its publisher",
    Event.CONFIRMED: "the broker confirmed it",
    Event.NACKED: "the queue '{queue}' refused it",
    Event.DELIVERED: "the queue '{queue}' handed it to a consumer",
    Event.EXTENDED: "the consumer of '{queue}' got longer for it",
    Event.ACKED: "the consumer acknowledged it: that copy is done with",
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
_GONE = "Nothing is left of it."
_UNBOUND = "no queue was bound for it: it is gone"
_UNBOUND_LETTER = "no queue was bound for its dead letter from '{queue}' ({reason}): it is gone"


class Life(msgspec.Struct, kw_only=True):
    """One message and what happened to it, in order.

    Attributes:
        uid: its number.
        vhost: its virtual host.
        message_id: the property of that name, where it has one.
        events: what happened, the oldest first.
        unkept: how many events were too many to keep, after the first 500. Of what loses a copy more are kept.
    """

    uid: int
    vhost: str
    message_id: str | None = None
    events: list[Happened] = []
    unkept: int = 0

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that hold a copy of it, as far as its events tell; a queue twice for two copies."""
        holding: Counter[str] = Counter()
        for event in self.events:
            if event.queue is None:
                continue
            if event.event == Event.ROUTED:
                holding[event.queue] += 1
            elif event.event in _ENDS and holding[event.queue]:
                holding[event.queue] -= 1
        return tuple(holding.elements())

    @property
    def ended(self) -> bool:
        """Whether no copy of it is left."""
        return not self.queues and any(event.event not in _BEFORE_THE_END for event in self.events)

    @property
    def loss(self) -> str | None:
        """What happened when a copy of it was last lost; ``None`` when none was."""
        lost = next((event for event in reversed(self.events) if event.event in _LOSSES), None)
        return None if lost is None else _sentence(lost)

    def sentences(self) -> list[str]:
        """The life in sentences, each with the time since the one before, and what is left of it."""
        return [*self.story(), self._outcome()]

    def story(self) -> list[str]:
        """The life in sentences, without what is left of it."""
        told, before = [], None
        for event in self.events:
            told.append(f"{_when(event.time_us, before)} {_what(event)}.")
            before = event.time_us
        if self.unkept:
            told.insert(EVENTS_PER_MESSAGE_MAX, f"{self.unkept} further events were not kept.")
        return told

    def last(self) -> str:
        """What happened last."""
        return _sentence(self.events[-1]) if self.events else ""

    def _outcome(self) -> str:
        if self.unkept:
            return "Nothing more is known of it."
        if self.ended:
            return _GONE
        held = ", ".join(f"'{queue}'" for queue in self.queues)
        return f"It is in {held}." if held else "Nothing more is known of it."

    def to_json(self) -> list[dict[str, Any]]:
        """The events as JSON values."""
        return [msgspec.to_builtins(event) for event in self.events]


# What is kept of a message: its virtual host, and of each event these, one after the other in one flat list:
# event, message as it was, time, queue, reason, detail. (Nothing else is as cheap to add to, and to collect.)
_EVENT_SLOTS = 6
_FULL = 1 + EVENTS_PER_MESSAGE_MAX * _EVENT_SLOTS
_FULL_OF_LOSSES = 2 * _FULL
_Kept = list[Any]


class Lives:
    """The lives of the last messages.

    Args:
        limit: how many messages; older ones are forgotten.
    """

    def __init__(self, limit: int = MESSAGES_MAX) -> None:
        if limit < 1:
            raise ValueError(f"expected a limit of at least 1, got {limit}")
        self._limit = limit
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._unkept: Counter[int] = Counter()

    def keep(self, happened: Happened, message: Message) -> None:
        """Keep what happened to a copy of a message. Those that the firehose makes have no life."""
        kept = self._kept.get(happened.uid)
        if kept is None:
            if message.exchange == _FIREHOSE:
                return
            kept = self._begin(happened.uid, happened.vhost)
        event, reason = happened.event, happened.reason
        if len(kept) < _FULL or (len(kept) < _FULL_OF_LOSSES and _loses(event, reason)):
            kept += (event, message, happened.time_us, happened.queue, reason, happened.detail)
        else:
            self._unkept[happened.uid] += 1

    def _begin(self, uid: int, vhost: str) -> _Kept:
        self._kept[uid] = kept = [vhost]
        if len(self._kept) > self._limit:
            self._unkept.pop(self._kept.popitem(last=False)[0], None)
        return kept

    def life(self, uid: int) -> Life | None:
        """The life of one message; ``None`` when it is not known, or forgotten."""
        kept = self._kept.get(uid)
        return None if kept is None else self._life(uid, kept)

    def explain(self, uid: int) -> list[str]:
        """The life of one message in sentences; none when it is not known."""
        life = self.life(uid)
        return [] if life is None else life.sentences()

    def find(
        self,
        *,
        vhost: str | None = None,
        queue: str | None = None,
        message_id: str | None = None,
        ended: bool | None = None,
        lost: bool | None = None,
        newest_first: bool = False,
    ) -> Iterator[Life]:
        """The lives that fit, oldest first unless ``newest_first``.

        ``queue``: one that it was ever in; ``ended``: whether nothing is left; ``lost``: whether a copy was lost.
        """
        found = self._kept.items()
        for uid, kept in reversed(found) if newest_first else found:
            if vhost is not None and kept[0] != vhost:
                continue
            if message_id is not None and _message_id(kept) != message_id:
                continue
            if queue is not None and queue not in kept[4::_EVENT_SLOTS]:
                continue
            if lost is not None and lost == _LOSSES.isdisjoint(kept[1::_EVENT_SLOTS]):
                continue
            life = self._life(uid, kept)
            if ended in (None, life.ended):
                yield life

    def _life(self, uid: int, kept: _Kept) -> Life:
        vhost, events = kept[0], []
        for at in range(1, len(kept), _EVENT_SLOTS):
            event, message, time_us, queue, reason, detail = kept[at : at + _EVENT_SLOTS]
            events.append(
                Happened(
                    event=event,
                    time_us=time_us,
                    vhost=vhost,
                    uid=uid,
                    queue=queue,
                    exchange=message.exchange,
                    routing_keys=message.routing_keys,
                    reason=reason,
                    detail=detail,
                )
            )
        return Life(uid=uid, vhost=vhost, message_id=_message_id(kept), events=events, unkept=self._unkept[uid])


def _loses(event: Event, reason: str | None) -> bool:
    """Whether it tells a loss. A dead letter that is refused is tried again, and only a publish has no reason."""
    return event in _LOSSES and (event != Event.NACKED or reason is None)


def _message_id(kept: _Kept) -> str | None:
    found: str | None = kept[2].properties.get("message_id")
    return found


class RecordingBroker(Broker):
    """A broker that keeps the lives of its last messages.

    Attributes:
        lives: what became of them.
    """

    def __init__(
        self,
        of: Release | str = "4.3",
        *,
        watch: Iterable[Event] = (),
        node: str = "rabbit@localhost",
        lives: Lives | None = None,
    ) -> None:
        self.lives = Lives() if lives is None else lives
        super().__init__(of, watch=watch, node=node, observer=self._record)

    @classmethod
    def taking_over(cls, broker: Broker) -> RecordingBroker:
        """The broker, recording from now on; go on with the one that is returned, and with it alone."""
        if isinstance(broker, cls):
            return broker
        recording = cls.over(broker.state)
        recording.lives = Lives()
        recording.observe(recording._record)
        return recording

    def _record(self, happened: Happened, message: Message) -> None:
        self.lives.keep(happened, message)

    def explain(self, uid: int) -> list[str]:
        """The life of one message in sentences, with where it is now; none when it is not known."""
        life = self.lives.life(uid)
        if life is None:
            return []
        if not life.unkept:
            found = whereabouts(self, uid, life.vhost, life.queues)
            return [*life.story(), *found] if found else life.sentences()
        host = self.vhosts.get(life.vhost)  # a copy may be where no event that was kept tells
        found = [] if host is None else whereabouts(self, uid, life.vhost, host.queues)
        return [*life.story(), *(found or [_GONE])]


def _sentence(event: Happened) -> str:
    what = _what(event)
    return f"{what[0].upper()}{what[1:]}."


def _what(event: Happened) -> str:
    sentence = _SENTENCES.get(event.event)
    if event.event == Event.UNROUTABLE:
        sentence = _UNBOUND if event.queue is None else _UNBOUND_LETTER
    told = (sentence or "{event}").format(
        event=event.event.value,
        queue=event.queue,
        reason=event.reason,
        detail=event.detail,
        exchange=f"the exchange '{event.exchange}'" if event.exchange else "the default exchange",
        keys=_keys(event.routing_keys),
    )
    return f"{told} ({event.detail})" if event.detail and event.detail not in told else told


def _keys(keys: tuple[str, ...]) -> str:
    named = ", ".join(f"'{key}'" for key in keys)
    return f"the routing key {named}" if len(keys) == 1 else f"the routing keys {named}"


def _when(time_us: int, before_us: int | None) -> str:
    if before_us is None:
        return f"At {datetime.fromtimestamp(time_us / 1_000_000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    return "At once" if time_us == before_us else f"{_span(time_us - before_us)} later"


def _span(us: int) -> str:
    """A time span in its two largest units: ``1 h 30 min``, ``2 s 500 ms``."""
    parts = []
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000)):
        count, us = divmod(us, size)
        if count:
            parts.append(f"{count} {unit}")
    if us:
        parts.append(f"{us / 1000:g} ms")
    return " ".join(parts[:2])
