"""How many messages and objects a node has, as the management API and the metrics show them."""

from __future__ import annotations

from collections.abc import Collection

from simulator.broker import VirtualHost
from simulator.server.node import Client, Node


def is_network_client(client: Client) -> bool:
    """Return whether lists and counts show the client; they leave out the management API's own connections."""
    return client.protocol.startswith("AMQP")


def message_totals(vhosts: Collection[VirtualHost]) -> dict[str, int]:
    """Return how many messages are in the queues, by RabbitMQ's names; empty where there are no queues."""
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    if not queues:
        return {}
    not_empty = [queue for queue in queues if queue.messages or queue.unacked]
    return {
        "messages": sum(queue.messages for queue in not_empty),
        "messages_ready": sum(queue.messages_ready for queue in not_empty),
        "messages_unacknowledged": sum(queue.unacked for queue in not_empty),
    }


def object_totals(vhosts: Collection[VirtualHost], node: Node) -> dict[str, int]:
    """Return how many exchanges, queues and consumers the virtual hosts have, and how many clients the node."""
    connections = [
        node.broker.connections[key]
        for key, client in node.connections.items()
        if key in node.broker.connections and is_network_client(client)
    ]
    return {
        "channels": sum(len(connection.channels) for connection in connections),
        "connections": len(connections),
        "consumers": sum(len(queue.consumers) for vhost in vhosts for queue in vhost.queues.values()),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
    }
