"""Describes connections, channels and consumers as the management API does.

Source: rabbit_reader.erl, rabbit_channel.erl and rabbit_amqqueue.erl info; live servers.
"""

from __future__ import annotations

from typing import Any

from simulator.broker import Channel, Connection, Consumer, QueueState
from simulator.json_values import plain
from simulator.server.management.management_releases import Api
from simulator.server.management.message_stats import channel_stats
from simulator.server.node import Client, Node

UNKNOWN_GARBAGE = dict.fromkeys(
    ("fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"), -1
)
_NO_TLS = {f"peer_cert_{name}": None for name in ("issuer", "subject", "validity")} | {
    f"ssl_{name}": None for name in ("cipher", "hash", "key_exchange", "protocol")
}


def connection_json(client: Client, connection: Connection | None, node: Node, api: Api) -> dict[str, Any]:
    """Describe a client's connection; ``connection`` is ``None`` before the client enters a virtual host."""
    shown = _network(client) | _traffic(client) | _NO_TLS | {
        "auth_mechanism": client.auth_mechanism,
        "channel_max": client.channel_max,
        "channels": 0 if connection is None else len(connection.channels),
        "client_properties": plain(client.client_properties),
        "connected_at": client.connected_us // 1000,
        "frame_max": client.frame_max,
        "garbage_collection": UNKNOWN_GARBAGE,
        "node": node.broker.node,
        "ssl": False,
        "state": client.state,
        "timeout": client.heartbeat_s,
        "type": "network",
        "user": client.user,
        "user_who_performed_action": client.user,
        "vhost": "" if connection is None else connection.vhost.name,
    }  # fmt: skip
    if api.peer_certificate_serial:
        shown["peer_cert_serial_number"] = None
    return dict(sorted(shown.items()))


def _network(client: Client) -> dict[str, Any]:
    return {
        "host": client.host,
        "name": client.name,
        "peer_host": client.peer_host,
        "peer_port": client.peer_port,
        "port": client.port,
        "protocol": client.protocol,
    }


def _traffic(client: Client) -> dict[str, Any]:
    return {
        "recv_cnt": client.received_packets,
        "recv_oct": client.received_bytes,
        "recv_oct_details": {"rate": 0.0},
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "send_cnt": client.sent_packets,
        "send_oct": client.sent_bytes,
        "send_oct_details": {"rate": 0.0},
        "send_pend": client.pending_bytes,
    }


def channel_name(channel: Channel) -> str:
    """Return a name such as ``127.0.0.1:50000 -> 127.0.0.1:5672 (1)``."""
    return f"{channel.connection.name} ({channel.number})"


def channel_json(channel: Channel, node: Node, api: Api) -> dict[str, Any]:
    """Describe a channel."""
    connection = channel.connection
    shown = {
        "acks_uncommitted": 0,
        "confirm": channel.confirms,
        "connection_details": _peer(connection, node) | {"name": connection.name},
        "consumer_count": len(channel.consumers),
        "garbage_collection": UNKNOWN_GARBAGE,
        "messages_unacknowledged": len(channel.unacked),
        "messages_uncommitted": len(channel.pending_tx),
        "messages_unconfirmed": 0,
        "name": channel_name(channel),
        "node": node.broker.node,
        "number": channel.number,
        "pending_raft_commands": 0,
        "prefetch_count": channel.prefetch,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "state": "running",
        "transactional": channel.transactional,
        "user": connection.user.name,
        "user_who_performed_action": connection.user.name,
        "vhost": connection.vhost.name,
    }
    shown |= {"global_prefetch_count": channel.global_prefetch} if api.global_prefetch_shown else {}
    shown |= {"cached_segments": 0} if api.cached_segments_shown else {}
    if stats := channel_stats(channel):
        shown["message_stats"] = stats
    return dict(sorted(shown.items()))


def channel_details(channel: Channel, node: Node) -> dict[str, Any]:
    """Describe the channel of a consumer."""
    return {
        "connection_name": channel.connection.name,
        "name": channel_name(channel),
        "node": node.broker.node,
        "number": channel.number,
        **_peer(channel.connection, node),
        "user": channel.connection.user.name,
    }


def _peer(connection: Connection, node: Node) -> dict[str, Any]:
    client = node.connections.get(connection.id)
    return {} if client is None else {"peer_host": client.peer_host, "peer_port": client.peer_port}


def consumer_json(consumer: Consumer, api: Api) -> dict[str, Any]:
    """Describe a consumer, without its channel."""
    queue = consumer.queue
    shown = {
        "ack_required": not consumer.no_ack,
        "active": not queue.single_active or queue.active_single is consumer,
        "activity_status": _activity(consumer),
        "arguments": plain(consumer.arguments),
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "queue": {"name": queue.name, "vhost": queue.vhost.name},
    }
    if api.consumer_timeout_shown:
        shown["consumer_timeout"] = _timeout_ms(queue)
    return shown


def _timeout_ms(queue: QueueState) -> int | None:
    own = queue.settings.consumer_timeout_ms
    return queue.settings.release.consumer_timeout_ms if own is None else own


def _activity(consumer: Consumer) -> str:
    if not consumer.queue.single_active:
        return "up"
    return "single_active" if consumer.queue.active_single is consumer else "waiting"
