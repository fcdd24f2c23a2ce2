"""Folders of recordings as ``dlx record`` writes them, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.record.recording import (
    FORMAT,
    ClientConnection,
    Declaration,
    Kind,
    RecordedLoss,
    RecordedPublishes,
    RecordedQueue,
    RecordedRefusal,
    Recording,
    binding_name,
    document_of,
    write_recording,
)

CELERY = ClientConnection(number=1, name="worker@host", product="py-amqp", version="5.2.0")
WEB = ClientConnection(number=2, name="web", product="py-amqp", version="5.2.0")


def queue(name: str, vhost: str = "/", **arguments: Any) -> dict[str, Any]:
    kind = {} if "type" not in arguments else {"x-queue-type": arguments.pop("type")}
    told = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()} | kind
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": told}


def exchange(name: str, kind: str, vhost: str = "/") -> dict[str, Any]:
    flags = {"durable": True, "auto_delete": False, "internal": False}
    return {"name": name, "vhost": vhost, "type": kind, **flags, "arguments": {}}


def binding(source: str, destination: str, key: str, vhost: str = "/") -> dict[str, Any]:
    return {
        "source": source, "vhost": vhost, "destination": destination, "destination_type": "queue",
        "routing_key": key, "arguments": {},
    }  # fmt: skip


def declared(kind: Kind, item: dict[str, Any], gone_us: int | None = None) -> Declaration:
    name = binding_name(item) if kind == "binding" else item["name"]
    return Declaration(
        kind=kind, vhost=item["vhost"], name=name, item=item, first_us=1_000_000, times=1, connections=[1],
        gone_us=gone_us,
    )  # fmt: skip


def write(
    folder: Path,
    *,
    queues: tuple[dict[str, Any], ...] = (),
    exchanges: tuple[dict[str, Any], ...] = (),
    bindings: tuple[dict[str, Any], ...] = (),
    release: str = "4.3.0",
    gone_us: int | None = None,
    **rest: Any,
) -> str:
    """Write a recording of the broker's ``release`` into a folder, and return its path.

    ``gone_us``: when its queues were deleted; they were declared at 1,000,000.
    """
    declarations = [
        *(declared("exchange", each) for each in exchanges),
        *(declared("queue", each, gone_us) for each in queues),
        *(declared("binding", each) for each in bindings),
    ]
    recording = Recording(
        format=FORMAT,
        release=release, declarations=declarations, began_us=1_000_000, ended_us=61_000_000,
        command=["celery", "worker"], **({"connections": [CELERY, WEB]} | rest),
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    server = {"rabbitmq_version": release, "vhosts": [{"name": "/"}]}
    write_recording(folder, recording, document_of(recording, server))
    return str(folder)


def celery(folder: Path) -> str:
    """Write what a worker of Celery does: it acknowledges late, retries by publishing again, and sends events."""
    return write(
        folder,
        exchanges=(exchange("celery", "direct"), exchange("celeryev", "topic"), exchange("dead", "direct")),
        queues=(
            queue("celery", dead_letter_exchange="dead"),
            queue("emails", message_ttl=5_000),
            queue("reports", type="quorum", delivery_limit=5),
            queue("failed"),
        ),
        bindings=(
            binding("celery", "celery", "celery"),
            binding("celery", "emails", "emails"),
            binding("celery", "reports", "reports"),
            binding("dead", "failed", "failed"),
        ),
        published=[
            RecordedPublishes(vhost="/", exchange="celery", routing_key="celery", times=140, persistent=140,
                              republished=8, counters={"retries": 8}, connections=[2]),
            RecordedPublishes(vhost="/", exchange="celery", routing_key="emails", times=20, connections=[2]),
            RecordedPublishes(vhost="/", exchange="celery", routing_key="reports", times=6, connections=[2]),
            RecordedPublishes(vhost="/", exchange="celeryev", routing_key="worker.heartbeat", times=30, unroutable=30,
                      connections=[1]),
        ],
        consumed=[
            RecordedQueue(vhost="/", queue="celery", entered=140, consumers=1, consumers_max=1, prefetch=[4],
                     deliveries=140, acked=132, rejected=4, republished=8, abandoned=0, connections=[1]),
            RecordedQueue(vhost="/", queue="emails", entered=20, consumers=1, consumers_max=1, deliveries=17, acked=17,
                     connections=[1]),
            RecordedQueue(vhost="/", queue="reports", entered=6, declared_before=6, consumers=1, deliveries=6, acked=6,
                     connections=[1]),
        ],
        lost=[
            RecordedLoss(vhost="/", event="dropped", queue="emails", reason="expired", exchange="celery",
                 routing_key="emails", times=3, story=["published to 'celery'", "expired in 'emails'"]),
        ],
        refusals=[
            RecordedRefusal(vhost="/", method="queue.declare", code=406, connections=[1], times=2,
                    text="PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'emails'"),
        ],
        not_seen=["what other brokers got"],
    )  # fmt: skip
