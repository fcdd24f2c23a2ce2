"""Runs cases on the simulator of a release, in virtual time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from dlx.field_values import plain
from simulator.broker import Broker, OperatorError
from simulator.broker import commands as amqp
from simulator.broker.commands import ChannelId, Command, PassTime, Publish, SelectConfirms
from simulator.broker.replies import Confirmed, Got, Refused, delivered_properties
from simulator.events import Event, losses
from simulator.message_history import MessageHistories, MessageHistory
from simulator.message_location import locations
from simulator.scenario.player import START_US, USER, Player, Seen
from simulator.scenario.steps import AnyStep, Wait
from simulator.server.alarm import Alarm
from simulator.server.faults.fault import Fault
from simulator.server.faults.striking import Event as FaultEvent
from simulator.server.faults.striking import Faults
from simulator.testing.cases.file_format import SetFaults
from simulator.testing.cases.given_case import GivenCase
from simulator.testing.cases.stage import FoundLoss, FoundMessage, StepRefusedError

STORIES_MAX = 3
HISTORIES_MAX = 1_000_000
_VHOST = "/"
_LOOKING = "the one who looks"


class SimulatedStage(Player):
    """The simulator with the definitions of a case."""

    real = False

    def __init__(self, definitions: Mapping[str, Any], release: str, *, faults: bool = False) -> None:
        self.histories = MessageHistories(HISTORIES_MAX)
        super().__init__(definitions, release=release)
        self._under_faults = BrokerUnderFaults(self.broker) if faults else None
        if self._under_faults is not None:
            self._clients.handle = self._under_faults.handle

    def acted(self, seen: Sequence[Seen]) -> None:
        """Keep what happened."""
        for happened, message in seen:
            self.histories.keep(happened, message)

    def do(self, step: AnyStep) -> None:
        """Do one step. Raises ``StepRefusedError``."""
        try:
            super().do(step)
        except OperatorError as error:
            raise StepRefusedError(error.text) from error
        if self.refusal:
            raise StepRefusedError(self.refusal)

    def set_faults(self, step: SetFaults) -> None:
        """Have faults strike, or none any more."""
        assert self._under_faults is not None, "the case has faults"
        if step.clear:
            self._under_faults.clear()
        for fault in step.set:
            self._under_faults.set(fault)

    def pass_until(self, ms: int) -> None:
        """Let time pass."""
        self.do(Wait(max(0, ms - (self.now_us - START_US) // 1_000)))

    @property
    def unroutable(self) -> int:
        """How many publishes reached no queue."""
        return sum(
            any(event.event == Event.UNROUTABLE and event.queue is None for event in history.events)
            for history in self.histories.find()
        )

    @property
    def refused(self) -> int:
        """How many publishes a full queue refused."""
        return sum(
            any(event.event == Event.NACKED and event.reason is None for event in history.events)
            for history in self.histories.find()
        )

    @property
    def unconfirmed(self) -> int:
        """How many publishes had no answer so far; it takes faults to have any."""
        return 0 if self._under_faults is None else self._under_faults.unconfirmed

    def depths(self) -> dict[str, int]:
        """Return how many messages are ready in each queue."""
        return {queue.name: queue.store.ready for queue in self.queues()}

    def messages(self, queue: str) -> list[FoundMessage]:
        """Return the ready messages of a queue, as a consumer gets them who takes them from a copy of the broker."""
        copy = Broker.restore(self.broker.snapshot())
        looked_at = copy.queue(queue, _VHOST)
        if looked_at is not None:
            looked_at.single_active = False  # a quorum queue would let nobody look
        channel = (_LOOKING, 1)
        copy.handle(amqp.OpenConnection(_LOOKING, _VHOST, USER), self.now_us)
        copy.handle(amqp.OpenChannel(channel), self.now_us)
        found = []
        while got := _got(copy, channel, queue, self.now_us):
            properties = msgspec.to_builtins(delivered_properties(got.message, copy.release, got.added), enc_hook=plain)
            found.append(FoundMessage(got.message.exchange, got.message.routing_key, got.redelivered, properties))
        return found

    def losses(self) -> list[FoundLoss]:
        """Return the copies that were lost, besides unroutable and refused publishes."""
        return [
            FoundLoss(event.queue, event.reason, event.event.value)
            for history in self.histories.find(lost=True)
            for event in losses(history.events)
            if event.queue is not None and not (event.event == Event.NACKED and event.reason is None)
        ]

    def stories(self, queues: list[str]) -> list[str]:
        """Return the histories of a few messages, first of those that were in these queues."""
        near = [history for queue in queues for history in self.histories.find(queue=queue)]
        chosen = list({history.uid: history for history in (*near, *self.histories.find())}.values())
        lines = [line for history in chosen[:STORIES_MAX] for line in self._story(history)]
        more = len(chosen) - STORIES_MAX
        return lines + [f"and {more:,} more messages"] * (more > 0)

    def _story(self, history: MessageHistory) -> Iterator[str]:
        named = "" if history.message_id is None else f" ({history.message_id})"
        yield f"message {history.uid}{named}:"
        found = locations(self.broker, history.uid, history.vhost, history.queues, history.has_copies)
        yield from (f"  {line}" for line in ([*history.story(), *found] if found else history.sentences()))


def _got(broker: Broker, channel: amqp.ChannelId, queue: str, now_us: int) -> Got | None:
    replies = broker.handle(amqp.Get(channel, queue, no_ack=True), now_us)
    return next((reply for reply in replies if isinstance(reply, Got) and reply.channel == channel), None)


class OnSimulator:
    """Runs cases on the simulator of a release.

    Attributes:
        release: the release.
        name: what it is called in answers.
        longest_ms: how much time a case may take; ``None`` for any.
        at_a_time: how many cases may run at once.
    """

    longest_ms: int | None = None
    at_a_time = 1

    def __init__(self, release: str) -> None:
        self.release = release
        self.name = f"simulator {release}"

    def why_not(self, case: GivenCase) -> str:
        """Return nothing: any case can be run here."""
        return ""

    @contextmanager
    def stage(self, case: GivenCase) -> Iterator[SimulatedStage]:
        """Yield a broker with the definitions of the case. Raises ``DefinitionsError`` if it refuses them."""
        yield SimulatedStage(case.document, self.release, faults=bool(case.faults))


# The broker of a case as its clients meet it while faults strike (``simulator.server.faults``), without sockets.


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

    def handle(self, command: Command, now_us: int) -> list[FaultEvent]:
        """Do as ``Broker.handle``."""
        events = [*self._passed_until(now_us), *self._unblocked(now_us)]
        if isinstance(command, Publish) and self._alarm.raised and not self._is_read(command):
            self._blocked.append(command)
            return events
        return [*events, *self._carried_out(command, now_us)]

    def _passed_until(self, now_us: int) -> Iterator[FaultEvent]:
        """Let time pass from deadline to deadline: a fault counts from when something is sent."""
        while (due_us := self._broker.next_due()) is not None and due_us <= now_us:
            yield from self._told(PassTime(), due_us)
            yield from self._unblocked(due_us)

    def _is_read(self, command: Publish) -> bool:
        """Return whether a publish during an alarm comes in anyway, and let none come in after it."""
        connection = command.channel[0]
        read = connection not in self._unread and not command.body
        self._unread.add(connection)
        return read

    def _unblocked(self, now_us: int) -> Iterator[FaultEvent]:
        if not self._alarm.raised:
            self._unread.clear()
        while self._blocked and not self._alarm.raised:
            yield from self._carried_out(self._blocked.pop(0), now_us)

    def _carried_out(self, command: Command, now_us: int) -> Iterator[FaultEvent]:
        if isinstance(command, Publish):
            if command.channel not in self._published:
                yield from self._told(SelectConfirms(command.channel), now_us)
            number = self._published[command.channel] = self._published.get(command.channel, 0) + 1
            self._waiting.add((command.channel, number))
        self._faults.refusal(command)  # it notes what the replies are about; no step of a case declares anything
        yield from self._told(command, now_us)
        yield from self._passed_until(now_us)  # what a fault has ended sets off more

    def _told(self, command: Command, now_us: int) -> Iterator[FaultEvent]:
        for event in self._faults.passed(self._broker.handle(command, now_us)):
            if isinstance(event, (Confirmed, Refused)):
                self._answered(event)
            yield event

    def _answered(self, event: Confirmed | Refused) -> None:
        last = event.delivery_tag
        numbers = range(1, last + 1) if event.multiple else (last,)
        self._waiting.difference_update((event.channel, number) for number in numbers)
