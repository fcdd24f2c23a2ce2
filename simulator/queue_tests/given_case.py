"""A case that was read: its definitions, its steps, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dlx.topology import Topology
from simulator.queue_tests.file_format import CaseStep, Expect, Releases, SetFaults, Until
from simulator.queue_tests.times import milliseconds
from simulator.scenario.steps import Repeat, Wait
from simulator.server.faults.fault import RaiseAlarm


@dataclass(frozen=True)
class GivenCase:
    """One case, ready to be run.

    Attributes:
        name: its name in the file.
        source: the file.
        line: the line in it where the case begins.
        step_lines: the line of each step.
        document: its definitions, as the export of one virtual host.
        topology: the same as values.
        releases: the releases for which it is; ``None`` for all.
        steps: what happens and what is expected.
    """

    name: str
    source: str
    line: int
    step_lines: tuple[int, ...]
    document: dict[str, Any]
    topology: Topology
    releases: Releases | None
    steps: tuple[CaseStep, ...]

    @property
    def takes_ms(self) -> int:
        """How much time passes in it, milliseconds."""
        now = 0
        for step in self.steps:
            if isinstance(step, (Expect, Until)):
                now = max(now, 0 if step.at is None else milliseconds(step.at))
            else:
                now += waited_ms(step)
        return now

    @property
    def faults(self) -> list[str]:
        """The names of the faults that it asks for, each once."""
        asked = [fault.kind for step in self.steps if isinstance(step, SetFaults) for fault in step.set]
        return list(dict.fromkeys(asked))

    @property
    def raises_alarm(self) -> bool:
        """Whether it asks for an alarm, which stops every publisher of a server."""
        return RaiseAlarm.__struct_config__.tag in self.faults


def waited_ms(step: CaseStep) -> int:
    """Return how much time passes in a step by itself, milliseconds."""
    if isinstance(step, Repeat):
        return step.times * sum(map(waited_ms, step.steps))
    return step.ms if isinstance(step, Wait) else 0
