"""The rows that a broker traces: what it published and delivered, in the columns of a capture."""

from __future__ import annotations

from typing import Any

from dlx.message import Message
from dlx.message_flow import MessageFlow
from simulator.broker import delivered_properties
from simulator.capture.observe import split_properties
from simulator.capture.schema import Observation
from simulator.events import Event, Happened
from simulator.json_values import plain

FILE = "trace.log"
TRACED = (Event.PUBLISHED, Event.DELIVERED)


def observation(happened: Happened, message: Message, flow: MessageFlow, *, prefix: str = "m") -> Observation:
    """Return the row that a broker traces for a publish or a delivery; ``message`` is the message as it was then.

    ``flow`` is that of the virtual host. The message's identity is its number after ``prefix``.
    """
    is_publish = happened.event == Event.PUBLISHED
    # The firehose names every key of a publish to the default exchange, whether or not there is such a queue.
    keys = tuple(dict.fromkeys(message.routing_keys))
    at_once = flow.entered_at_once(message) if message.exchange and is_publish else keys
    shown = {**delivered_properties(message, flow.release, happened.more), "message_id": f"{prefix}{happened.uid}"}
    return trace_row(
        properties=plain(shown),
        time_us=happened.time_us,
        vhost=happened.vhost,
        exchange=message.exchange,
        queue=None if is_publish else happened.queue,
        routed_queues=list(at_once) if is_publish and at_once is not None else None,
        routing_keys=list(message.routing_keys),
    )


def trace_row(
    *,
    properties: dict[str, Any],
    time_us: int,
    vhost: str,
    exchange: str,
    queue: str | None,
    routed_queues: list[str] | None,
    routing_keys: list[str],
    payload: bytes = b"",
) -> Observation:
    """Return a row of plain JSON properties; its line is not known yet."""
    event = Event.PUBLISHED if queue is None else Event.DELIVERED
    return Observation(
        time_us, FILE, 0, event.value, "rabbit@localhost", "127.0.0.1:50000 -> 127.0.0.1:5672", vhost, "guest", 1,
        exchange, queue, routed_queues, routing_keys, None, *split_properties(properties, payload), payload,
    )  # fmt: skip
