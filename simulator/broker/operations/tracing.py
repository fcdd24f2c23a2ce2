"""The firehose: copies of what is published and delivered in a virtual host, while tracing is on.

They go to the exchange ``amq.rabbitmq.trace`` under ``publish.EXCHANGE`` and
``deliver.QUEUE``, with all there is to know in their headers.

Source: rabbit_trace.erl tap_in, tap_out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dlx.deaths import seconds
from dlx.message import Message
from simulator.broker.copies import Copy
from simulator.broker.effects import Traced
from simulator.broker.replies import PROPERTIES, delivered_properties
from simulator.broker.state import Channel, NodeState, QueueState

EXCHANGE = "amq.rabbitmq.trace"


def published(
    node: NodeState, channel: Channel, message: Message, body: bytes, queues: tuple[str, ...], exchange: str
) -> None:
    """Trace a publish, with the queues it was routed to."""
    if exchange == EXCHANGE:
        return
    if not exchange:  # the default exchange reports its routing key, whether or not there is such a queue
        queues = tuple(dict.fromkeys(message.routing_keys))
    _emit(node, channel, message, body, f"publish.{exchange}", {"routed_queues": list(queues)}, None)


def delivered(
    node: NodeState, queue: QueueState, copy: Copy, channel: Channel, added: Mapping[str, Any] | None
) -> None:
    """Trace a delivery to a consumer or to basic.get, unless it is one of a trace."""
    if copy.message.exchange != EXCHANGE:
        extra = {"redelivered": int(copy.redelivered)}
        _emit(node, channel, copy.message, copy.body, f"deliver.{queue.name}", extra, added)


def _emit(
    node: NodeState,
    channel: Channel,
    message: Message,
    body: bytes,
    key: str,
    extra: Mapping[str, Any],
    added: Mapping[str, Any] | None,
) -> None:
    vhost = channel.connection.vhost
    headers: dict[str, Any] = {
        "exchange_name": message.exchange,
        "routing_keys": list(message.routing_keys),
        "properties": _table(delivered_properties(message, node.release, added)),
        "node": node.name,
        **({} if "routed_queues" in extra else extra),
        "vhost": vhost.name,
        "connection": channel.connection.name,
        "channel": channel.number,
        "user": channel.connection.user.name,
        **(extra if "routed_queues" in extra else {}),
    }
    trace = Message(exchange=EXCHANGE, routing_keys=(key,), headers=headers)
    node.agenda.append(Traced(vhost.name, trace, body))


def _table(properties: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: properties[name] for name in PROPERTIES if name in properties}
    if isinstance(shown.get("timestamp"), datetime):
        shown["timestamp"] = seconds(shown["timestamp"])
    return shown
