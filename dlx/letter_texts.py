"""Say in words where a dead letter goes, and why it goes no further."""

from __future__ import annotations

from dlx.message import Message


def routed(message: Message, queue: str | None) -> str:
    """Say that the message's exchange routes it to the queue, or, with ``None``, to no queue."""
    to = "no queue" if queue is None else f"'{queue}'"
    keys = ", ".join(f"'{key}'" for key in message.routing_keys)
    return f"exchange '{message.exchange}' routes {'key' if len(message.routing_keys) == 1 else 'keys'} {keys} to {to}"


def would_return(queue: str) -> str:
    """Say why the cycle rule keeps a dead letter out of a queue."""
    return f"would return to '{queue}' without a rejection on the way"


def stream_drops(stream: str) -> str:
    """Say why a stream does not get a dead letter."""
    return f"stream '{stream}' drops dead letters in this release"
