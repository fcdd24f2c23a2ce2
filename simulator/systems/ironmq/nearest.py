"""Builds the queue definitions of IronMQ that come closest to a topology of RabbitMQ."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from simulator.systems.compare.nearest import (
    CREATED_BY_USE,
    NO_EXCHANGES,
    NO_OFFSETS,
    NO_PRIORITY,
    NO_SIZE,
    STAYS,
    Answer,
    Moved,
    WorkQueue,
)
from simulator.systems.compare.neutral_scenario import whole_seconds
from simulator.systems.ironmq.settings import EXPIRATION_MAX_S, MAX_RESERVATIONS_MAX, TIMEOUT_MAX_S

NAME_MAX: int | None = None
SETS_TIME_TO_LIVE = "queue"
PLAYS = ("rejected", "rejected every time", "returned every time", "consumer dies", "expires", "full", "held")
ASSUMED = (
    "consumers of IronMQ reserve one message at a time, poll, and release a message that fails, with"
    " the delay that RabbitMQ's topology has",
)
WHY: Mapping[str, str] = {
    "rejected": "IronMQ has no reject: a message is dead only when it would be reserved more often than"
    " max_reservations",
    "rejected every time": "reservations are counted, and each consumer gives the delay of a release itself",
    "returned every time": "reservations are counted, and the next one after the last allowed moves the message",
    "delays": "a consumer gives one delay with each release; a reservation that nobody ends lasts for its whole time",
    "consumer dies": "the server does not see it: the message comes back when its reservation ends",
    "expires": "an expired message is deleted: only reservations make dead letters; all messages of a queue live"
    " equally long",
    "full": "a queue has no limit on the number of messages",
    "held": "the message comes back when its reservation ends, and that counts as a reservation",
}
ANSWERS: Mapping[str, Answer] = {
    "wait queue": Answer(
        "changes",
        "there is no queue for the pause: the consumer gives it as the delay of the release, whole seconds",
        "the pause moves from the topology into each consumer",
    ),
    "exchange": NO_EXCHANGES,
    "fanout": Answer("cannot be had", "publishers post to each queue: only a multicast push queue copies, and to URLs"),
    "unroutable": CREATED_BY_USE,
    "length in bytes": NO_SIZE,
    "single active consumer": Answer("cannot be had", "any client may reserve messages"),
    "priorities": NO_PRIORITY,
    "queue expires": STAYS,
    "stream": NO_OFFSETS,
    "time in queue": Answer(
        "lost",
        "no message lives longer than 30 days, dead letters too: then it is deleted",
        "RabbitMQ keeps a message without a time to live for ever",
    ),
    "carries": Answer(
        "changes",
        "a dead letter has its reserved_count, and says nothing else of its death: no queue, no reason and no time",
        "consumers that read x-death find nothing",
    ),
}


def allowed(name: str) -> str:
    """Return the name without the characters that a URL has a use for."""
    return re.sub(r"[^\w.~-]", "_", name) or "_"


def own(queue: WorkQueue, moved: Moved) -> dict[str, dict[str, Any]]:
    """Return the settings of the queue and of its dead-letter queue."""
    dead = moved.named(queue.dead_at)
    return {moved.names[queue.at]: _settings(queue, dead), **({} if dead is None else {dead: _lasting()})}


def files(moved: Moved) -> dict[str, str]:
    """Return the definitions by queue: each is the body of ``PUT /3/projects/ID/queues/NAME``."""
    queues = {moved.names[queue.at]: _settings(queue, moved.named(queue.dead_at)) for queue in moved.queues}
    queues |= {moved.names[at]: _lasting() for at in moved.others}
    return {"ironmq-queues.json": json.dumps({name: {"queue": each} for name, each in queues.items()}, indent=2) + "\n"}


def _lasting() -> dict[str, Any]:
    return {"message_expiration": EXPIRATION_MAX_S}


def _settings(queue: WorkQueue, dead: str | None) -> dict[str, Any]:
    settings = _lasting()
    if queue.time_to_live_ms is not None:
        settings["message_expiration"] = whole_seconds(queue.time_to_live_ms, 1, EXPIRATION_MAX_S)
    if queue.consumer_timeout_ms is not None:
        settings["message_timeout"] = whole_seconds(queue.consumer_timeout_ms, 30, TIMEOUT_MAX_S)
    if dead is not None and queue.attempts_max is not None:
        settings["dead_letter"] = {
            "queue_name": dead,
            "max_reservations": min(queue.attempts_max, MAX_RESERVATIONS_MAX),
        }
    return settings
