"""IronMQ in time: the projects, a clock, and the clients that wait for messages.

A client that waits is answered at the moment at which a message comes, also when a virtual clock is
moved past that moment. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from simulator.clock import Clock, VirtualClock
from simulator.events import Happened
from simulator.systems.ironmq import operations, requests
from simulator.systems.ironmq.http_errors import Refusal
from simulator.systems.ironmq.operations import Answer, Call, Operation
from simulator.systems.ironmq.project import Project

_US = 1_000_000


@dataclass(eq=False)
class _Waiting:
    project: Project
    call: Call
    until_us: int
    answer: asyncio.Future[Answer]


class Service:
    """All projects of one server.

    Args:
        clock: the time.
        seed: of the reservation ids.
        tell: is called with everything that happens to a message.

    Attributes:
        clock: as given.
    """

    def __init__(self, clock: Clock, *, seed: int = 0, tell: Callable[[Happened], None] | None = None) -> None:
        self.clock = clock
        self._seed = seed
        self._tell = tell
        self._projects: dict[str, Project] = {}
        self._waiting: list[_Waiting] = []
        self._alarm: asyncio.TimerHandle | None = None

    def project(self, name: str) -> Project:
        """Return the project of that name; every name has one."""
        if name not in self._projects:
            self._projects[name] = Project(name, seed=self._seed, tell=self._tell)
        return self._projects[name]

    async def answer(self, operation: Operation, project: str, call: Call) -> Answer:
        """Make a call, waiting for messages if it asks for that. Raises ``Refusal``."""
        call = replace(call, now_us=self.clock.now_us())
        answer = operation(self.project(project), call)
        if operation is operations.reserve:
            wait_s = requests.reserve(call.request).wait_s
            if wait_s and not answer[1]["messages"]:
                return await self._wait(self.project(project), call, wait_s)
        self.look()
        return answer

    async def _wait(self, project: Project, call: Call, wait_s: int) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(project, call, call.now_us + wait_s * _US, answer)
        self._waiting.append(waiting)
        try:
            self.look()
            return await answer
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def look(self) -> None:
        """Do what is due, and answer those who need not wait any longer."""
        now_us = self.clock.now_us()
        for project in self._projects.values():
            project.settle(now_us)
        self._waiting = [waiting for waiting in self._waiting if not self._served(waiting, now_us)]
        self._set_alarm()

    def _served(self, waiting: _Waiting, now_us: int) -> bool:
        if waiting.answer.done():  # the client has gone
            return True
        try:
            answer = operations.reserve(waiting.project, replace(waiting.call, now_us=now_us))
        except Refusal as refusal:
            waiting.answer.set_exception(refusal)
            return True
        if not answer[1]["messages"] and now_us < waiting.until_us:
            return False
        waiting.answer.set_result(answer)
        return True

    def _set_alarm(self) -> None:
        """Look again, on a clock that runs, when something is due for those who wait."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due_us = self.next_due_us() if self._waiting else None
        seconds = None if due_us is None else self.clock.wait_s(due_us)
        if seconds is not None:
            self._alarm = asyncio.get_running_loop().call_later(seconds, self.look)

    def next_due_us(self) -> int | None:
        """Return when something next happens by itself; ``None`` if nothing will."""
        dues = [due for project in self._projects.values() if (due := project.next_due_us()) is not None]
        return min(dues + [waiting.until_us for waiting in self._waiting], default=None)

    def advance(self, span_us: int) -> None:
        """Move virtual time forward; everything that becomes due happens at its own time.

        Raises:
            TypeError: time is real.
        """
        if not isinstance(self.clock, VirtualClock):
            raise TypeError("wall time cannot be moved: serve with a virtual clock")
        until_us = self.clock.now_us() + span_us
        while (due_us := self.next_due_us()) is not None and due_us <= until_us:
            self.clock.jump(due_us)
            self.look()
        self.clock.jump(until_us)
        self.look()
