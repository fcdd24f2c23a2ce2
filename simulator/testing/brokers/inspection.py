"""What the assertions ask of a broker, simulated or real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from dlx.consumer import DeathHistory

PATHS_SHOWN = 10
"""How many different paths of dead letters a failure shows."""


class Contents(msgspec.Struct):
    """What is in a queue: the histories of the messages that are ready, and how many are unacknowledged or held.

    ``others`` is ``None`` where nobody can tell.
    """

    histories: list[DeathHistory]
    others: int | None = None


class Inspection(Protocol):
    """A broker under inspection. All texts are lines for a failure's message."""

    def wait_until_right(self, wrong: Callable[[], list[str]], times: int | None) -> list[str]:
        """What ``wrong`` finds in the end, for what clients did may need a moment to show.

        ``times``: how many dead letters are expected; that none is has to last.
        """

    def queues(self) -> list[str]:
        """The names of the queues."""

    def contents(self, queue: str) -> Contents | None:
        """What is in a queue; ``None`` when there is no such queue."""

    def evidence(self) -> list[str]:
        """What became of the messages, as far as can be told."""

    def losses(self) -> list[str]:
        """The messages that were lost; none when none was."""

    def unrest(self, within_us: int) -> list[str]:
        """Let so much time pass; what still happens to messages after it, none when nothing does."""


def inspect(broker: Any) -> Inspection:
    """The inspection of what the assertions accept. Raises ``TypeError`` for anything else."""
    from simulator.testing.brokers.running_server import ServerBroker

    if isinstance(broker, ServerBroker):
        from simulator.testing.brokers.inspect_server import ServerInspection

        return ServerInspection(broker)
    from simulator.testing.brokers.inspect_simulator import SimulatorInspection, subject

    return SimulatorInspection(subject(broker))
