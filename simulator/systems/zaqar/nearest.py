"""Builds the queue metadata of Zaqar that comes closest to a topology of RabbitMQ."""

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
from simulator.systems.zaqar.limits import MESSAGE_TTL_S
from simulator.systems.zaqar.limits import NAME_MAX as NAME_MAX

SETS_TIME_TO_LIVE = "queue"
PLAYS = ("rejected", "rejected every time", "returned every time", "consumer dies", "expires", "full", "held")
ASSUMED = (
    "consumers of Zaqar claim one message at a time, poll, and release the claim of a message that fails",
    "the storage is redis; on mongodb a release forgets the claim, so that released messages are never dead",
)
WHY: Mapping[str, str] = {
    "rejected": "Zaqar has no reject: a message is dead only when it is claimed once more than _max_claim_count",
    "rejected every time": "claims alone are counted, and a released message can be claimed at once",
    "returned every time": "claims alone are counted, and the next claim after the last allowed one moves the message",
    "delays": "nothing waits between two claims, and one whose consumer does not end it lasts for its whole time",
    "consumer dies": "the server does not see it: the message comes back when its claim ends",
    "expires": "an expired message is deleted: only claims make dead letters; no message lives less than 60 s",
    "full": "a queue has no limit on the number of messages",
    "held": "the message comes back when its claim ends, and that counts as a claim",
}
ANSWERS: Mapping[str, Answer] = {
    "wait queue": Answer(
        "cannot be had",
        "there is no pause between two claims; a message can be posted with a delay of up to 15 min, which the"
        " consumer has to do itself",
    ),
    "exchange": NO_EXCHANGES,
    "fanout": Answer("cannot be had", "publishers post to each queue: nothing copies a message to several queues"),
    "unroutable": CREATED_BY_USE,
    "length in bytes": NO_SIZE,
    "single active consumer": Answer("cannot be had", "any client may claim messages"),
    "priorities": NO_PRIORITY,
    "queue expires": STAYS,
    "stream": NO_OFFSETS,
    "time in queue": Answer(
        "lost",
        "no message lives longer than 14 days, dead letters too: then it is deleted",
        "RabbitMQ keeps a message without a time to live for ever",
    ),
    "carries": Answer(
        "changes",
        "a dead letter says nothing of its death: no queue, no reason and no time",
        "consumers that read x-death find nothing; Zaqar stores the number of claims and does not show it",
    ),
}
_LONGEST_S = MESSAGE_TTL_S[-1]


def allowed(name: str) -> str:
    """Return the name without dots, at which Zaqar on redis cuts the name of a dead-letter queue."""
    return re.sub(r"[^a-zA-Z0-9_-]", "-", name) or "-"


def own(queue: WorkQueue, moved: Moved) -> dict[str, dict[str, Any]]:
    """Return the metadata of the queue and of its dead-letter queue, which has to be created first."""
    dead = moved.named(queue.dead_at)
    return {**({} if dead is None else {dead: _lasting()}), moved.names[queue.at]: _metadata(queue, dead)}


def files(moved: Moved) -> dict[str, str]:
    """Return the metadata by queue, in the order in which they have to be created: ``PUT /v2/queues/NAME``."""
    queues = {moved.names[at]: _lasting() for at in moved.others}
    queues |= {moved.names[queue.at]: _metadata(queue, moved.named(queue.dead_at)) for queue in moved.queues}
    return {"zaqar-queues.json": json.dumps(queues, indent=2) + "\n"}


def _lasting() -> dict[str, Any]:
    return {"_default_message_ttl": _LONGEST_S}


def _metadata(queue: WorkQueue, dead: str | None) -> dict[str, Any]:
    ttl_ms = queue.time_to_live_ms
    metadata: dict[str, Any] = _lasting()
    if ttl_ms is not None:
        metadata = {"_default_message_ttl": whole_seconds(ttl_ms, MESSAGE_TTL_S[0], _LONGEST_S)}
    if dead is not None and queue.attempts_max is not None:
        metadata |= {
            "_max_claim_count": queue.attempts_max,
            "_dead_letter_queue": dead,
            "_dead_letter_queue_messages_ttl": _LONGEST_S,
        }
    return metadata
