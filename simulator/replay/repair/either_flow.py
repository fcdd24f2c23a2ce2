"""What can become of a message while definitions change: what the old ones allow, or the new ones."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dlx.message import Message
from dlx.message_flow import Hop, MessageFlow, State
from dlx.settings import Settings

_Led = tuple[tuple[Hop, State], ...]


class EitherFlow(MessageFlow):
    """Answers for a time in which one of two definitions was in force, and nobody knows which.

    A message may go one step under the one, and the next step under the other. The states are
    those of ``one``, so that what it remembers serves many changes; ``other`` has states of its own.

    Args:
        one: answers under the definitions.
        other: answers under the changed ones; its topology has the queues of both.
        touched: the queues whose messages may go another way under those.
    """

    __slots__ = ("_led", "_one", "_other", "_touched")

    def __init__(self, one: MessageFlow, other: MessageFlow, touched: Collection[str]) -> None:
        super().__init__(other.topology, one.release)
        self._one = one
        self._other = other
        self._touched = touched
        self._led: dict[tuple[int, str, bool], _Led] = {}

    def settings(self, queue: str) -> Settings:
        """Return the settings under which more can happen: those with the larger delivery limit, or with none."""
        found = [flow.settings(queue) for flow in (self._one, self._other) if queue in flow.topology.queues]
        return max(found, key=lambda settings: float("inf") if (limit := settings.delivery_limit) is None else limit)

    def state(self, queue: str, message: Message) -> State:
        """Return the state of ``message`` in ``queue``."""
        return self._one.state(queue, message)

    def publish(self, message: Message) -> tuple[State, ...]:
        """Return the states that a publish enters under either."""
        queues = dict.fromkeys((*self._one.entries(message), *self._other.entries(message)))
        return tuple(self.state(queue, message) for queue in queues)

    def why_not(self, state: State, reason: str) -> str | None:
        """Tell why neither lets the message die there for that reason; ``None`` when one does."""
        if state.queue not in self._one.topology.queues:
            return self._other.why_not(state, reason)
        why = self._one.why_not(state, reason)
        return None if why is None or self._other.why_not(state, reason) is None else why

    def hops(self, state: State, reason: str) -> _Led:
        """Return where a death leads under those that allow it; if neither does, under both."""
        if state.queue not in self._touched:
            return self._one.hops(state, reason)
        key = (state.number, reason, False)
        if key not in self._led:
            self._led[key] = self._either(state, reason, MessageFlow.hops)
        return self._led[key]

    def cycles(self, state: State, reason: str) -> _Led:
        """Return where the death would lead without the cycle rule."""
        key = (state.number, reason, True)
        if key not in self._led:
            self._led[key] = self._either(state, reason, MessageFlow.cycles)
        return self._led[key]

    def _either(self, state: State, reason: str, ask: Callable[[MessageFlow, State, str], _Led]) -> _Led:
        allowing = [flow for flow in self._flows(state) if flow.why_not(state, reason) is None]
        found: dict[tuple[Hop, State], None] = {}
        for flow in allowing or self._flows(state):
            own = state if flow is self._one else flow.state(state.queue, state.message)
            found.update(dict.fromkeys((hop, self._own(reached)) for hop, reached in ask(flow, own, reason)))
        return tuple(found)

    def _own(self, reached: State) -> State:
        return self.state(reached.queue, reached.message)

    def _flows(self, state: State) -> list[MessageFlow]:
        """Return those that have the state's queue."""
        return [flow for flow in (self._one, self._other) if state.queue in flow.topology.queues]
