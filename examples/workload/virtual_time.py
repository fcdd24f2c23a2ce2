"""The same scenarios on ``dlx serve --clock virtual``: time passes only when nobody has anything left to do.

Nothing waits, and no message expires because the machine is slow.
"""

from __future__ import annotations

import json
from typing import ClassVar

from examples.workload.broker import Unavailable
from examples.workload.stage import Stage


class VirtualStage(Stage):
    """A stage whose server's clock is moved from here. One at a time: the clock is everybody's."""

    at_once: ClassVar[int] = 1

    def pump(self) -> None:
        """Handle all that has been published and answered until now."""
        self.channel.basic_qos()  # is answered when the server has dealt with what was sent before
        for worker in self.workers:
            worker.channel.basic_qos(prefetch_count=worker.prefetch)
            worker.pump(0)

    def drain(self) -> None:
        """Let the consumers work, and time pass when they are idle, until all queues are empty."""
        left = self.queues
        while left:
            before = self.received()
            self.pump()
            if self.received() > before:
                continue
            left = [queue for queue in self.queues if self.ready(queue)]
            if left and not self.pass_time():
                raise Unavailable(f"{self.name}: nothing will happen to the messages in {left}")

    def pass_time(self) -> bool:
        """Move the clock to when something next happens by itself; whether there is such a time."""
        answer = self.broker.management.call("POST", "clock", "advance", body={"to_next_deadline": True})
        return bool(json.loads(answer)["moved"])
