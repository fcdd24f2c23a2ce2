"""Decides whether a fault strikes: all that passes between the broker and its clients passes through here.

It sees a command before the broker carries it out, a reply before a client gets it.
The broker knows of no fault. It ends channels and keeps the time, so that faults happen in
one order with everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple, TypeVar

import msgspec

from dlx.amqp_errors import Refusal
from dlx.nearest_names import suggestion
from simulator.broker import Broker, Channel
from simulator.broker.commands import ChannelId, Command, DeclareExchange, DeclareQueue, Get, Publish
from simulator.broker.replies import (
    Cancelled,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    Got,
    Refused,
    Reminded,
    Reply,
)
from simulator.events import Happened
from simulator.server.alarm import Alarm
from simulator.server.faults.fault import (
    CloseConnection,
    Closing,
    DelayConfirm,
    DelayDelivery,
    DropConfirm,
    Fault,
    OfConfirms,
    OfDeliveries,
    RaiseAlarm,
    RefuseDeclare,
    Repeated,
)

Event = Reply | Happened
Wanted = TypeVar("Wanted", bound=Repeated)


class SetFault:
    """A fault that was set.

    Attributes:
        number: by which it is shown and cleared.
        fault: what was asked for.
        seen: how many occasions there were while it could strike.
        struck: how often it struck.
    """

    def __init__(self, number: int, fault: Fault) -> None:
        self.number = number
        self.fault = fault
        self.seen = self.struck = 0
        self._dice = Random(fault.seed) if isinstance(fault, Repeated) else None

    @property
    def left(self) -> int | None:
        """How often it may still strike; ``None``: without end."""
        times = self.fault.times if isinstance(self.fault, Repeated) else 1
        return None if times is None else times - self.struck

    def strikes(self) -> bool:
        """Count an occasion, and return whether it strikes there."""
        fault = self.fault
        if self.left == 0 or self._dice is None or not isinstance(fault, Repeated):
            return False
        self.seen += 1
        if self.seen % fault.nth or (fault.probability < 1 and self._dice.random() >= fault.probability):
            return False
        self.struck += 1
        return True


class ShownFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as it is now, to look at.

    Attributes:
        id: its number.
        fault: its name.
        fields: what was asked for.
        seen: how many occasions there were while it could strike.
        struck: how often it struck.
        left: how often it may still strike; ``None``: without end.
        note: what may be wrong with it; empty: nothing.
    """

    id: int
    fault: str
    fields: dict[str, object]
    seen: int
    struck: int
    left: int | None
    note: str = ""

    def document(self) -> dict[str, object]:
        """Return it as the management API shows it: a flat object."""
        told = {"note": self.note} if self.note else {}
        counts = {"seen": self.seen, "struck": self.struck, "left": self.left}
        return {"id": self.id, "fault": self.fault, **self.fields, **counts, **told}


class _Late(NamedTuple):
    """A reply that waits; ``channel`` is the one it belongs to, which may be gone when its time has come."""

    channel: Channel
    reply: Delivered | Confirmed


class Faults:
    """The faults of one node; ``known`` are those that are set, by their numbers."""

    def __init__(self, broker: Broker, alarm: Alarm) -> None:
        self._broker = broker
        self._alarm = alarm
        self.known: dict[int, SetFault] = {}
        self._count = 0
        self._late: dict[int, _Late] = {}
        self._closing: dict[int, tuple[Channel, Refusal]] = {}
        self._ending: dict[int, int] = {}  # alarms, by the numbers of their reminders as those above
        self._withheld: set[Channel] = set()
        self._due_us: dict[Channel, int] = {}
        self._exchange = self._queue = ""

    @property
    def active(self) -> bool:
        """Whether there is anything to look at; most nodes have no faults, and lose no time."""
        return bool(self.known or self._late or self._closing or self._ending)

    # Setting and clearing

    def set(self, fault: Fault) -> SetFault:
        """Have a fault strike from now on. An alarm is raised at once."""
        self._forget_gone()
        self._count += 1
        found = self.known[self._count] = SetFault(self._count, fault)
        if isinstance(fault, RaiseAlarm):
            found.seen = found.struck = 1
            self._alarm.raised[found.number] = "disk" if fault.resource == "disk" else "memory"
            if fault.for_ms is not None:
                self._ending[self._broker.remind(self._later_us(fault.for_ms))] = found.number
        return found

    def clear(self, number: int | None = None) -> None:
        """Forget the fault of a number, or all. What they have delayed comes when it was to come.

        Raises ``KeyError`` for a number that no fault has.
        """
        for each in [number] if number is not None else list(self.known):
            del self.known[each]
            self._alarm.raised.pop(each, None)

    def shown(self) -> list[ShownFault]:
        """Return the faults as they are now, in the order in which they were set."""
        return [self.shown_one(each) for each in self.known.values()]

    def shown_one(self, each: SetFault) -> ShownFault:
        """Return one fault as it is now."""
        fields = {name: getattr(each.fault, name) for name in each.fault.__struct_fields__}
        return ShownFault(
            id=each.number, fault=each.fault.kind, fields=fields,
            seen=each.seen, struck=each.struck, left=each.left, note=self._note(each.fault),
        )  # fmt: skip

    def _note(self, fault: Fault) -> str:
        """Say that a queue or exchange is not there, which may be a misspelt name, or not yet be declared."""
        vhosts = [v for v in self._broker.vhosts.values() if getattr(fault, "vhost", None) in (None, v.name)]
        if isinstance(fault, OfDeliveries) and fault.queue is not None:
            kind, name, known = "queue", fault.queue, {queue for vhost in vhosts for queue in vhost.queues}
        elif isinstance(fault, OfConfirms) and fault.exchange:
            kind, name, known = "exchange", fault.exchange, {each for vhost in vhosts for each in vhost.exchanges}
        else:
            return ""
        return "" if name in known else f"there is no {kind} {name!r} now; {suggestion(name, known)}"

    # What a client asks for

    def refusal(self, command: Command) -> Refusal | None:
        """Look at a command; return the refusal of a declaration that is to fail."""
        if isinstance(command, Publish):
            self._exchange = command.exchange
        elif isinstance(command, Get):
            channel = self._broker.channels.get(command.channel)
            self._queue = command.queue or (channel.last_queue if channel is not None else "")
        elif isinstance(command, DeclareQueue | DeclareExchange):
            return self._refused(command)
        return None

    def _refused(self, command: DeclareQueue | DeclareExchange) -> Refusal | None:
        of_queue = isinstance(command, DeclareQueue)
        name = command.queue if isinstance(command, DeclareQueue) else command.exchange
        vhost = self._vhost(command.channel)
        for each, fault in self._those(RefuseDeclare, vhost):
            if name == (fault.queue if of_queue else fault.exchange) and each.strikes():
                return _refusal(fault.code, fault.text, each)
        return None

    # What a client gets

    def passed(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield what clients get of the broker's replies: without those that are lost or late, and with those due."""
        ended: list[ChannelId] = []
        for event in events:
            if isinstance(event, Delivered) and not _is_in(event.channel, ended):
                yield from self._delivered(event, ended)
            elif isinstance(event, Got):
                yield event
                self._close_after(event.channel, self._queue, ended)
            elif isinstance(event, Confirmed):
                yield from self._confirmed(event)
            elif isinstance(event, Refused):
                yield self._refused_publish(event)
            elif isinstance(event, Cancelled | ConsumerCancelled):
                yield from self._in_time(event)
                yield event
            elif isinstance(event, Reminded):
                yield from self._reminded(event.number, ended)
            elif not isinstance(event, Delivered):
                yield event

    def _delivered(self, event: Delivered, ended: list[ChannelId]) -> Iterator[Event]:
        channel = self._broker.channels.get(event.channel)
        queue = _queue_of(channel, event.consumer_tag)
        if channel is None or queue is None:
            yield event
            return
        delays = [
            fault.delay_ms
            for each, fault in self._those(DelayDelivery, self._vhost(event.channel))
            if fault.queue in (None, queue) and each.strikes()
        ]
        before_us = self._due_us.get(channel, -1)
        if not delays and before_us < self._broker.now_us:
            yield event
            self._close_after(event.channel, queue, ended)
            return
        due_us = max(before_us, self._later_us(max(delays, default=0)))
        self._due_us[channel] = due_us
        self._late[self._broker.remind(due_us)] = _Late(channel, event)

    def _close_after(self, channel: ChannelId, queue: str | None, ended: list[ChannelId]) -> None:
        """End the channel of a delivery, or its connection, if a fault wants it."""
        for each, closing in self._those(Closing, self._vhost(channel)):
            if closing.queue in (None, queue) and each.strikes():
                refusal = _refusal(closing.code, closing.text, each)
                refusal.silent = isinstance(closing, CloseConnection) and closing.silent
                if closing.delay_ms:
                    found = self._broker.channels[channel]
                    self._closing[self._broker.remind(self._later_us(closing.delay_ms))] = found, refusal
                else:
                    self._end(channel, refusal, ended)
                return

    def _end(self, channel: ChannelId, refusal: Refusal, ended: list[ChannelId]) -> None:
        self._broker.end(channel, refusal)
        ended.append((channel[0], 0) if refusal.ends_connection else channel)

    def _confirmed(self, event: Confirmed) -> Iterator[Event]:
        channel, vhost = self._broker.channels.get(event.channel), self._vhost(event.channel)
        if channel is None:
            return
        for dropping, drop in self._those(DropConfirm, vhost):
            if drop.exchange in (None, self._exchange) and dropping.strikes():
                self._withheld.add(channel)
                return
        for delaying, delay in self._those(DelayConfirm, vhost):
            if delay.exchange in (None, self._exchange) and delaying.strikes():
                self._withheld.add(channel)
                self._late[self._broker.remind(self._later_us(delay.delay_ms))] = _Late(channel, event)
                return
        yield event

    def _refused_publish(self, event: Refused) -> Refused:
        """Return a refusal that does not speak for confirms that were withheld before it."""
        withheld = self._broker.channels.get(event.channel) in self._withheld
        return msgspec.structs.replace(event, multiple=False) if withheld else event

    def _reminded(self, number: int, ended: list[ChannelId]) -> Iterator[Event]:
        """Yield the reply whose time has come, unless its channel has gone; or end an alarm, or a channel."""
        self._forget_gone()
        self._alarm.raised.pop(self._ending.pop(number, 0), None)
        closing, late = self._closing.pop(number, None), self._late.pop(number, None)
        if closing is not None and self._is_open(closing[0]):
            self._end(closing[0].id, closing[1], ended)
        if late is None or not self._is_open(late.channel):
            return
        if isinstance(late.reply, Confirmed):
            yield late.reply
        elif not _is_in(late.channel.id, ended):
            yield late.reply
            self._close_after(late.channel.id, _queue_of(late.channel, late.reply.consumer_tag), ended)

    def _in_time(self, event: Cancelled | ConsumerCancelled) -> Iterator[Event]:
        """Yield the deliveries that wait on a channel: after the end of its consumer none may come."""
        for number, late in list(self._late.items()):
            if late.channel.id == event.channel and isinstance(late.reply, Delivered):
                del self._late[number]
                self._due_us.pop(late.channel, None)
                yield late.reply

    # Small things

    def _is_open(self, channel: Channel) -> bool:
        return self._broker.channels.get(channel.id) is channel

    def _forget_gone(self) -> None:
        """Forget channels that have closed."""
        self._withheld = {channel for channel in self._withheld if self._is_open(channel)}
        self._due_us = {channel: due_us for channel, due_us in self._due_us.items() if self._is_open(channel)}

    def _those(self, kind: type[Wanted], vhost: str | None) -> list[tuple[SetFault, Wanted]]:
        return [
            (each, each.fault)
            for each in self.known.values()
            if isinstance(each.fault, kind) and each.fault.vhost in (None, vhost)
        ]

    def _vhost(self, channel: ChannelId) -> str | None:
        connection = self._broker.connections.get(channel[0])
        return None if connection is None else connection.vhost.name

    def _later_us(self, milliseconds: int) -> int:
        return self._broker.now_us + milliseconds * 1_000


def _is_in(channel: ChannelId, ended: list[ChannelId]) -> bool:
    return channel in ended or (channel[0], 0) in ended


def _queue_of(channel: Channel | None, tag: str) -> str | None:
    """Return the name of the queue that a consumer is subscribed to."""
    consumer = None if channel is None else channel.consumers.get(tag)
    return None if consumer is None else consumer.queue.definition.name


def _refusal(code: int, text: str, each: SetFault) -> Refusal:
    return Refusal(code, text or f"fault {each.number} on request: {each.fault.kind}")
