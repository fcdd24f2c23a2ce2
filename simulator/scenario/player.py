"""Plays a history: gives its steps to a broker's clients, without I/O, and shows what happened.

    player = Player("definitions.json", release="4.3")
    player.do(Publish("", "orders"))
    player.events                           # what that step did to messages

The same definitions and steps give the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dlx.message import Message
from dlx.releases import DEFAULT
from dlx.topology import Topology
from simulator.bootstrap import DefinitionsSource, import_definitions
from simulator.broker import Broker, Copy, OperatorError, QueueState
from simulator.events import Happened
from simulator.scenario import steps
from simulator.scenario.clients import Clients
from simulator.scenario.steps import AnyStep

START_US = 1_767_225_600_000_000  # 2026-01-01: the same for every player, so that histories repeat

Seen = tuple[Happened, Message]
"""An event, and the message as it was then."""


class Player:
    """Plays steps on one broker.

    Attributes:
        definitions, release: as given.
        broker: the broker; read it, but give it commands through the steps.
        history: the steps so far, without those that were refused.
        events: what happened in the last step.

    Args:
        definitions: an export of RabbitMQ's definitions, or the path of the file that holds one.
        release: the RabbitMQ release.
        start_us: when it begins, microseconds since 1970.

    Raises:
        DefinitionsError: the definitions cannot be used.
    """

    def __init__(self, definitions: DefinitionsSource, *, release: str = DEFAULT, start_us: int = START_US) -> None:
        self.definitions, self.release = definitions, release
        self._seen: list[Seen] = []
        self.broker = Broker(release, observer=self._observe)
        self.history: list[AnyStep] = []
        self.events: list[Seen] = []
        import_definitions(self.broker, definitions, start_us)
        self._clients = Clients(self.broker, start_us)

    @property
    def now_us(self) -> int:
        """The time, microseconds since 1970."""
        return self._clients.now_us

    @property
    def refusal(self) -> str:
        """Why the broker refused a publish in the last step; empty if it refused none."""
        return self._clients.refusal

    def play(self, history: Iterable[AnyStep]) -> None:
        """Do all the steps."""
        for step in history:
            self.do(step)

    def do(self, step: AnyStep) -> None:
        """Do one step. One that finds nothing to do, such as one for a queue that is gone, does nothing.

        Raises ``OperatorError`` for a policy that RabbitMQ refuses.
        """
        self.history.append(steps.checked(step))
        self.events = []
        self._clients.refusal = ""
        try:
            self._do(step)
        except OperatorError:
            self.history.pop()
            raise

    def _do(self, step: AnyStep) -> None:
        if isinstance(step, steps.Repeat):
            for _ in range(step.times):
                for each in step.steps:
                    self._do(each)
            return
        for _ in range(getattr(step, "times", 1) if not isinstance(step, steps.Hold) else 1):
            self._clients.act(step)
            seen, self._seen = self._seen, []
            self.acted(seen)

    def _observe(self, happened: Happened, message: Message) -> None:
        self._seen.append((happened, message))

    def acted(self, seen: Sequence[Seen]) -> None:
        """Note what happened in one action: a step has as many of them as its ``times`` say."""
        self.events += seen

    # What is where

    def topologies(self) -> dict[str, Topology]:
        """Return the virtual hosts by name, as they are now."""
        return {name: vhost.topology for name, vhost in self.broker.vhosts.items()}

    def queues(self) -> Iterator[QueueState]:
        """Yield the queues that exist now."""
        for vhost in self.broker.vhosts.values():
            yield from vhost.queues.values()

    def queue(self, name: str, vhost: str = "/") -> QueueState | None:
        """Return one queue, or ``None`` when it is gone."""
        return self.broker.queue(name, vhost)

    def copies(self) -> Iterator[tuple[QueueState, Copy]]:
        """Yield all messages in queues, as ``Broker.copies`` does."""
        return self.broker.copies()

    def has_consumer(self, queue: str, vhost: str = "/") -> bool:
        """Return whether the queue has a consumer."""
        return self._clients.has_consumer(queue, vhost)
