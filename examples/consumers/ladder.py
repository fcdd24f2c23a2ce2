"""A retry ladder: its queues, its plan, and the work. What is the same whichever client consumes.

    orders.try.1 --rejected--> orders.wait.1 --after 1 s--> orders.try.2 --rejected--> orders.wait.2 --after 5 s-->
    orders.try.3 --rejected--> orders.wait.3 --after 30 s--> orders.try.4 --published by the consumer--> orders.parking

Each attempt has a queue of its own, so that each wait can be longer than the one
before. The broker moves the message all the way: a consumer that rejects cannot
lose it. Runs on RabbitMQ 3.10 and later (quorum queues with a TTL).
"""

from __future__ import annotations

from typing import Any

import dlx

DELAYS_MS = (1_000, 5_000, 30_000)
PARKING = "orders.parking"
TRY_QUEUES = tuple(f"orders.try.{step}" for step in range(1, len(DELAYS_MS) + 2))
WAIT_QUEUES = tuple(f"orders.wait.{step}" for step in range(1, len(DELAYS_MS) + 1))

PLAN = dlx.RetryPlan(delays_ms=DELAYS_MS, wait_queues=WAIT_QUEUES, parking=PARKING)


def queue_arguments() -> dict[str, dict[str, Any]]:
    """The queues to declare, each with its arguments. All are durable."""
    queues: dict[str, dict[str, Any]] = {PARKING: {}, TRY_QUEUES[-1]: _dead_letters_to(PARKING)}
    for here, wait, onward, delay_ms in zip(TRY_QUEUES, WAIT_QUEUES, TRY_QUEUES[1:], DELAYS_MS, strict=False):
        queues[here] = _dead_letters_to(wait)
        queues[wait] = {"x-message-ttl": delay_ms, **_dead_letters_to(onward)}
    return {name: {"x-queue-type": "quorum", **arguments} for name, arguments in queues.items()}


def _dead_letters_to(queue: str) -> dict[str, Any]:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def parked_headers(source: Any, decision: dlx.Park) -> dict[str, Any]:
    """The headers of a parked message: its own, how often it failed, and why it is here."""
    return {**dlx.republish_headers(source, attempts=decision.attempt), "parked-because": decision.reason}


def work(body: bytes) -> None:
    """Handle an order. Raises ``ValueError`` for one that cannot be handled."""
    if b"broken" in body:
        raise ValueError("this order cannot be handled")
    print("handled", body.decode())
