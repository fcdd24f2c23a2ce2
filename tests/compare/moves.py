"""Topologies that move to another system, and what is said of each: ``python -m tests.compare.moves`` says it again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
ANSWERS = Path(__file__).parent / "answers"
EXAMPLES = Path("examples/topologies")


class MoveCase(msgspec.Struct, frozen=True):
    """A source and the system that it moves to."""

    source: str
    to: str

    @property
    def arguments(self) -> list[str]:
        """The arguments of the command."""
        return ["compare", "--from", "rabbitmq", self.source, "--to", self.to]


def services() -> dict[str, Any]:
    """Return a hundred services, each with the same ladder: rejected, five seconds later again, without end."""
    queues: list[dict[str, Any]] = []
    for number in range(100):
        name = f"service-{number:02}.work"
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.retry"}
        back = {"x-message-ttl": 5000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
        for each, given in ((name, arguments), (f"{name}.retry", back)):
            queues.append({"name": each, "vhost": "/", "durable": True, "auto_delete": False, "arguments": given})
    return {"vhosts": [{"name": "/"}], "queues": queues, "exchanges": [], "bindings": []}


MOVES = {
    "a plain dead-letter queue": MoveCase(f"{EXAMPLES}/sound/plain-dead-letter-queue.json", "activemq"),
    "a delivery limit": MoveCase(f"{EXAMPLES}/sound/quorum-with-parking.json", "activemq"),
    "a delayed retry": MoveCase(f"{EXAMPLES}/sound/delayed-retry.json", "activemq"),
    "a ladder": MoveCase(f"{EXAMPLES}/sound/three-delays-and-parking.json", "activemq"),
    "a length limit": MoveCase(f"{EXAMPLES}/sound/length-limit-keeps-everything.json", "activemq"),
    "a framework": MoveCase(f"{EXAMPLES}/frameworks/spring-cloud-stream.json", "activemq"),
    "a hundred services": MoveCase("-", "activemq"),
    "dead letters by policy": MoveCase(f"{EXAMPLES}/sound/by-policy-alone.json", "zaqar"),
    "a retry queue that expires": MoveCase(f"{EXAMPLES}/broken/retry-queue-expires.json", "zaqar"),
    "a loop": MoveCase(f"{EXAMPLES}/sound/reject-then-ttl.json", "ironmq"),
    "a folder for Kubernetes": MoveCase(f"{EXAMPLES}/kubernetes", "ironmq"),
    "two dead-letter queues": MoveCase(f"{EXAMPLES}/sound/topic-with-dead-letter-key.json", "ibm_mq"),
}


def file_of(name: str) -> Path:
    """Return where the answer is kept."""
    return ANSWERS / f"{name.replace(' ', '-').lower()}.txt"


def main() -> None:
    """Write what is said now; to be read before it is kept."""
    ANSWERS.mkdir(exist_ok=True)
    for name, case in MOVES.items():
        command = [sys.executable, "-m", "simulator.cli.main", *case.arguments]
        environment = {**os.environ, "COLUMNS": "110"}
        told = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            input=json.dumps(services()),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        file_of(name).write_text(told.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
