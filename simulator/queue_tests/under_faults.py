"""The broker of a case as its clients meet it while faults strike (``simulator.server.faults``), without sockets."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from simulator.broker import Broker
from simulator.broker.commands import ChannelId, Command, PassTime, Publish, SelectConfirms
from simulator.broker.replies import Confirmed, Refused
from simulator.server.alarm import Alarm
from simulator.server.faults.fault import Fault
from simulator.server.faults.striking import Event, Faults

_NO_LIMIT_BYTES = 1 << 62  # a case has an alarm on request alone


class BrokerUnderFaults:
    """Carries out commands, and returns what faults leave of the replies. Publishers wait for confirms.

    During an alarm publishes wait, as they do for clients that a server does not read. It reads the first frame of
    content, so that an empty message with which the waiting begins comes in.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._alarm = Alarm(broker, _NO_LIMIT_BYTES)
        self._faults = Faults(broker, self._alarm)
        self._blocked: list[Publish] = []
        self._unread: set[Hashable] = set()
        self._published: dict[ChannelId, int] = {}
        self._waiting: set[tuple[ChannelId, int]] = set()

    @property
    def unconfirmed(self) -> int:
        """How many publishes were neither confirmed nor refused so far, those that wait for an alarm included."""
        return len(self._waiting) + len(self._blocked)

    def set(self, fault: Fault) -> None:
        """Have a fault strike from now on."""
        self._faults.set(fault)

    def clear(self) -> None:
        """Forget all faults; publishes that waited for an alarm go on with the next command."""
        self._faults.clear()

    def handle(self, command: Command, now_us: int) -> list[Event]:
        """Do as ``Broker.handle``."""
        events = [*self._passed_until(now_us), *self._unblocked(now_us)]
        if isinstance(command, Publish) and self._alarm.raised and not self._is_read(command):
            self._blocked.append(command)
            return events
        return [*events, *self._carried_out(command, now_us)]

    def _passed_until(self, now_us: int) -> Iterator[Event]:
        """Let time pass from deadline to deadline: a fault counts from when something is sent."""
        while (due_us := self._broker.next_due()) is not None and due_us <= now_us:
            yield from self._told(PassTime(), due_us)
            yield from self._unblocked(due_us)

    def _is_read(self, command: Publish) -> bool:
        """Return whether a publish during an alarm comes in all the same, and have none come in after it."""
        connection = command.channel[0]
        read = connection not in self._unread and not command.body
        self._unread.add(connection)
        return read

    def _unblocked(self, now_us: int) -> Iterator[Event]:
        if not self._alarm.raised:
            self._unread.clear()
        while self._blocked and not self._alarm.raised:
            yield from self._carried_out(self._blocked.pop(0), now_us)

    def _carried_out(self, command: Command, now_us: int) -> Iterator[Event]:
        if isinstance(command, Publish):
            if command.channel not in self._published:
                yield from self._told(SelectConfirms(command.channel), now_us)
            number = self._published[command.channel] = self._published.get(command.channel, 0) + 1
            self._waiting.add((command.channel, number))
        self._faults.refusal(command)  # it notes what the replies are about; no step of a case declares anything
        yield from self._told(command, now_us)
        yield from self._passed_until(now_us)  # what a fault has ended sets off more

    def _told(self, command: Command, now_us: int) -> Iterator[Event]:
        for event in self._faults.passed(self._broker.handle(command, now_us)):
            if isinstance(event, (Confirmed, Refused)):
                self._answered(event)
            yield event

    def _answered(self, event: Confirmed | Refused) -> None:
        last = event.delivery_tag
        numbers = range(1, last + 1) if event.multiple else (last,)
        self._waiting.difference_update((event.channel, number) for number in numbers)
