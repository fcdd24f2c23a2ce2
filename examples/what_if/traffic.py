"""What is published, and what consumers do: it depends on the seed, the message, the queue and the attempt alone."""

from __future__ import annotations

import hashlib
import random
from typing import Literal, NamedTuple

from examples.what_if.topology import BURST, JOBS, MAILS

Outcome = Literal["ack", "reject", "requeue"]
FAILURES_MAX = 6
"""Attempts after which every message is acknowledged, so that a run ends."""


class Planned(NamedTuple):
    """One publish."""

    message_id: str
    exchange: str
    routing_key: str
    body: bytes


def planned(seed: int, messages: int) -> list[Planned]:
    """Return the publishes in order: jobs and mails mixed. A third of the messages, the burst, comes at once."""
    choice = random.Random(f"what if {seed}")
    mixed = [choice.choice((JOBS, MAILS)) for _ in range(messages - messages // 3)]
    queues = [*mixed, *[BURST] * (messages // 3)]
    return [
        Planned(f"{queue}-{number}", "work", queue, b"x" * choice.randint(1, 40)) for number, queue in enumerate(queues)
    ]


def outcome(seed: int, message_id: str, queue: str, attempt: int) -> Outcome:
    """Return what the consumer of a queue does with a message at its attempt, from 1."""
    if attempt > FAILURES_MAX:
        return "ack"
    drawn = hashlib.sha256(f"{seed} {message_id} {queue} {attempt}".encode()).digest()[0]
    if queue == JOBS:
        return "ack" if drawn < 90 else "reject" if drawn < 170 else "requeue"
    return "ack" if drawn < 200 else "reject"
