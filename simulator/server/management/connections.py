"""``/api/connections``, ``/api/channels``, ``/api/consumers``: list clients and close connections.

Only network clients are shown; the API's own internal connections are not.

Source: rabbit_mgmt_wm_connections.erl, _connection.erl, _channels.erl, _consumers.erl.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from dlx.topology import QUORUM, STREAM
from simulator.broker import Channel, Connection, Consumer, QueueState
from simulator.json_values import plain
from simulator.server.management import access, listing
from simulator.server.management.http_errors import HandlerCrash, bad_request
from simulator.server.management.management_releases import Api
from simulator.server.management.message_stats import channel_stats
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists
from simulator.server.node import Client, Node, channels_of, is_network_client

_CLOSED_BY_US = "Closed via management plugin"


def _clients(request: Request) -> list[tuple[Hashable, Client]]:
    """Return the network clients, with the ``id`` of their connections."""
    return [(key, client) for key, client in request.node.connections.items() if is_network_client(client)]


def _connection_json(request: Request, key: Hashable, client: Client) -> dict[str, Any]:
    return connection_json(client, request.broker.connections.get(key), request.node, request.api)


def _is_visible(facts: dict[str, Any], request: Request) -> bool:
    if request.vhost is not None and facts["vhost"] != request.vhost.name:
        return False
    return access.is_monitor(request.user) or facts["user"] == request.user.name


def _all(request: Request) -> Any:
    return listing.paged(_visible(request), request)


def _of_vhost(request: Request) -> Any:
    listing.check_samples(request)
    return listing.listed(_visible(request), request)


def _visible(request: Request) -> list[dict[str, Any]]:
    facts = [_connection_json(request, key, client) for key, client in _clients(request)]
    return [f for f in facts if _is_visible(f, request)]


def _of_user(request: Request) -> Any:
    facts = [_connection_json(request, key, client) for key, client in _clients(request)]
    return listing.listed([f for f in facts if f["user"] == request.name("user")], request)


def _found(request: Request) -> tuple[Hashable, Client] | None:
    return next(((k, client) for k, client in _clients(request) if client.name == request.name("connection")), None)


def _owner(request: Request) -> str | None:
    found = _found(request)
    return None if found is None else found[1].user


def _one(request: Request) -> Any:
    facts = _connection_json(request, *request.found)
    return {name: "" if value is None else value for name, value in facts.items()}  # null is for lists alone


def _close(request: Request) -> None:
    request.node.close_connection(request.found[0], request.headers.get("x-reason", _CLOSED_BY_US))


def _close_of_user(request: Request) -> None:
    for key, client in _clients(request):
        if client.user == request.name("user"):
            request.node.close_connection(key, request.headers.get("x-reason", _CLOSED_BY_US))


# Channels


def _channels(request: Request) -> list[Channel]:
    found = [(client, request.broker.connections.get(key)) for key, client in _clients(request)]
    return [channel for client, connection in found for channel in _channels_of(client, connection)]


def _channels_and_sessions(request: Request) -> list[Channel]:
    connections = [request.broker.connections.get(key) for key, _ in _clients(request)]
    return [channel for each in connections if each is not None for channel in each.channels.values()]


def _channels_of(client: Client, connection: Connection | None) -> list[Channel]:
    return [] if connection is None else channels_of(client, connection)


def _all_channels(request: Request) -> Any:
    return listing.paged(_visible_channels(request), request)


def _channels_of_vhost(request: Request) -> Any:
    listing.check_samples(request)
    return listing.listed(_visible_channels(request), request)


def _visible_channels(request: Request) -> list[dict[str, Any]]:
    facts = [channel_json(channel, request.node, request.api) for channel in _channels(request)]
    return [f for f in facts if _is_visible(f, request)]


def _channels_of_connection(request: Request) -> Any:
    found = _found(request)
    if found is None:
        raise HandlerCrash
    connection = request.broker.connections.get(found[0])
    channels = _channels_of(found[1], connection)
    listing.check_samples(request)
    return listing.listed([channel_json(channel, request.node, request.api) for channel in channels], request)


def _channel(request: Request) -> Channel | None:
    return next((c for c in _channels(request) if channel_name(c) == request.name("channel")), None)


def _channel_owner(request: Request) -> str | None:
    channel = _channel(request)
    return None if channel is None else channel.connection.user.name


def _one_channel(request: Request) -> Any:
    channel: Channel = request.found
    details = channel_details(channel, request.node)
    consumers = [consumer_json(c, request.api) | {"channel_details": details} for c in channel.consumers.values()]
    facts = channel_json(channel, request.node, request.api)
    return facts | {"consumer_details": consumers, "deliveries": [], "publishes": []}


def _sessions_of_connection(request: Request) -> Any:
    """List the sessions of a connection. Source: rabbit_mgmt_wm_connection_sessions.erl."""
    _, client = request.found
    sessions = client.sessions()
    if sessions is None:
        raise bad_request("connection does not use AMQP 1.0")
    for link in [link for session in sessions for link in session["outgoing_links"]]:
        for field in _FIELDS_OF_LINKS - request.api.fields_of_links:
            del link[field]
    return listing.listed(sessions, request, ("channel_number",))


# Consumers


def _consumers(request: Request) -> Any:
    facts = []
    for channel in _channels_and_sessions(request):
        vhost, user = channel.connection.vhost.name, channel.connection.user.name
        if _is_visible({"vhost": vhost, "user": user}, request):
            missing: Any = {} if request.api.missing_channels_are_objects else []
            details = {"channel_details": channel_details(channel, request.node) or missing}
            facts += [consumer_json(consumer, request.api) | details for consumer in channel.consumers.values()]
    return listing.listed(facts, request, ("consumer_tag",))


_FIELDS_OF_LINKS = frozenset({"filter", "consumer_timeout"})
_CONNECTION = access.owners(_owner)

RESOURCES = (
    Resource("/connections", _all),
    Resource("/connections/:connection", _one, delete=_close, allow=_CONNECTION, exists=_found),
    Resource("/connections/username/:user", _of_user, delete=_close_of_user, allow=access.administrators),
    Resource("/connections/:connection/channels", _channels_of_connection, allow=_CONNECTION),
    Resource(
        "/connections/:connection/sessions",
        _sessions_of_connection,
        allow=_CONNECTION,
        exists=_found,
        offered=lambda api: api.sessions_endpoint,
    ),
    Resource("/channels", _all_channels),
    Resource(
        "/channels/:channel",
        _one_channel,
        allow=access.owners(_channel_owner),
        exists=_channel,
    ),
    Resource("/consumers", _consumers),
    Resource("/consumers/:vhost", _consumers, allow=access.inhabitants, exists=vhost_exists),
    Resource("/vhosts/:vhost/connections", _of_vhost, allow=access.observers, exists=vhost_exists),
    Resource("/vhosts/:vhost/channels", _channels_of_vhost, allow=access.observers, exists=vhost_exists),
)

# Describes connections, channels and consumers as the management API does.
#
# Source: rabbit_reader.erl, rabbit_channel.erl and rabbit_amqqueue.erl info; live servers.


UNKNOWN_GARBAGE = dict.fromkeys(
    ("fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"), -1
)
_TIMEOUT_S = 60  # of AMQP 1.0: the server's own heartbeat
_TLS = {f"peer_cert_{name}": name for name in ("issuer", "subject", "validity")} | {
    f"ssl_{name}": name for name in ("cipher", "hash", "key_exchange", "protocol")
}


def connection_json(client: Client, connection: Connection | None, node: Node, api: Api) -> dict[str, Any]:
    """Describe a client's connection; ``connection`` is ``None`` before the client enters a virtual host."""
    shown = _network(client) | _traffic(client) | {
        "auth_mechanism": client.auth_mechanism,
        "channel_max": client.channel_max,
        "channels": len(_channels_of(client, connection)),
        "client_properties": plain(client.client_properties),
        "connected_at": client.connected_us // 1000,
        "frame_max": client.frame_max,
        "garbage_collection": UNKNOWN_GARBAGE,
        "node": node.broker.node,
        "ssl": client.tls is not None,
        "state": client.state,
        "timeout": client.heartbeat_s,
        "type": "network",
        "user": client.user,
        "user_who_performed_action": client.user,
        "vhost": "" if connection is None else connection.vhost.name,
    }  # fmt: skip
    if client.container_id is not None:
        shown |= {"channels": len(client.sessions() or ()), "container_id": client.container_id, "timeout": _TIMEOUT_S}
        hidden = {"user_who_performed_action", *api.hidden_of_amqp10_connections}
        shown = {name: each for name, each in shown.items() if name not in hidden}
    of_tls = _TLS | {"peer_cert_serial_number": "serial"} if api.peer_certificate_serial else _TLS
    shown |= {name: None if client.tls is None else getattr(client.tls, field) for name, field in of_tls.items()}
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
    """Describe the channel of a consumer; a link of AMQP 1.0 has none."""
    if _is_session(channel, node):
        return {}
    return {
        "connection_name": channel.connection.name,
        "name": channel_name(channel),
        "node": node.broker.node,
        "number": channel.number,
        **_peer(channel.connection, node),
        "user": channel.connection.user.name,
    }


def _is_session(channel: Channel, node: Node) -> bool:
    client = node.connections.get(channel.connection.id)
    return client is not None and client.container_id is not None


def _peer(connection: Connection, node: Node) -> dict[str, Any]:
    client = node.connections.get(connection.id)
    return {} if client is None else {"peer_host": client.peer_host, "peer_port": client.peer_port}


def consumer_json(consumer: Consumer, api: Api) -> dict[str, Any]:
    """Describe a consumer, without its channel."""
    queue = consumer.queue
    shown = {
        "ack_required": not consumer.no_ack,
        "active": _is_active(consumer, api),
        "activity_status": _activity(consumer),
        "arguments": plain(consumer.arguments),
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "prefetch_count": 0 if consumer.credit is not None and queue.definition.type == QUORUM else consumer.prefetch,
        "queue": {"name": queue.name, "vhost": queue.vhost.name},
    }
    if api.consumer_timeout_shown:
        shown["consumer_timeout"] = _timeout_ms(queue)
    return shown


def _timeout_ms(queue: QueueState) -> int | None:
    own = queue.settings.consumer_timeout_ms
    return queue.settings.release.consumer_timeout_ms if own is None else own


def _is_active(consumer: Consumer, api: Api) -> bool:
    queue = consumer.queue
    if queue.definition.type == STREAM:
        return api.stream_consumers_active
    return not queue.single_active or queue.active_single is consumer


def _activity(consumer: Consumer) -> str:
    if not consumer.queue.single_active:
        return "up"
    return "single_active" if consumer.queue.active_single is consumer else "waiting"
