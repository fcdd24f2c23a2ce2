"""``/api/connections``, ``/api/channels``, ``/api/consumers``: list clients and close connections.

Only network clients are shown; the API's own internal connections are not.

Source: rabbit_mgmt_wm_connections.erl, _connection.erl, _channels.erl, _consumers.erl.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from simulator.broker import Channel
from simulator.server.management import access, listing
from simulator.server.management.connection_json import (
    channel_details,
    channel_json,
    channel_name,
    connection_json,
    consumer_json,
)
from simulator.server.management.http_errors import Crash, object_not_found
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists
from simulator.server.node import Client
from simulator.server.totals import is_network_client

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


def _exists(request: Request) -> bool:
    return _found(request) is not None


def _owner(request: Request) -> str | None:
    found = _found(request)
    return None if found is None else found[1].user


def _one(request: Request) -> Any:
    found = _found(request)
    if found is None:
        raise object_not_found()
    return _connection_json(request, *found)


def _close(request: Request) -> None:
    found = _found(request)
    if found is not None:
        request.node.close_connection(found[0], request.headers.get("x-reason", _CLOSED_BY_US))


def _close_of_user(request: Request) -> None:
    for key, client in _clients(request):
        if client.user == request.name("user"):
            request.node.close_connection(key, request.headers.get("x-reason", _CLOSED_BY_US))


# Channels


def _channels(request: Request) -> list[Channel]:
    connections = [request.broker.connections.get(key) for key, _ in _clients(request)]
    return [channel for c in connections if c is not None for channel in c.channels.values()]


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
        raise Crash
    connection = request.broker.connections.get(found[0])
    channels = [] if connection is None else connection.channels.values()
    listing.check_samples(request)
    return listing.listed([channel_json(channel, request.node, request.api) for channel in channels], request)


def _channel(request: Request) -> Channel | None:
    return next((c for c in _channels(request) if channel_name(c) == request.name("channel")), None)


def _channel_owner(request: Request) -> str | None:
    channel = _channel(request)
    return None if channel is None else channel.connection.user.name


def _one_channel(request: Request) -> Any:
    channel = _channel(request)
    if channel is None:
        raise object_not_found()
    details = channel_details(channel, request.node)
    consumers = [consumer_json(c, request.api) | {"channel_details": details} for c in channel.consumers.values()]
    facts = channel_json(channel, request.node, request.api)
    return facts | {"consumer_details": consumers, "deliveries": [], "publishes": []}


# Consumers


def _consumers(request: Request) -> Any:
    facts = []
    for channel in _channels(request):
        vhost, user = channel.connection.vhost.name, channel.connection.user.name
        if _is_visible({"vhost": vhost, "user": user}, request):
            details = {"channel_details": channel_details(channel, request.node)}
            facts += [consumer_json(consumer, request.api) | details for consumer in channel.consumers.values()]
    return listing.listed(facts, request, ("consumer_tag",))


_CONNECTION = access.owners(_owner)

RESOURCES = (
    Resource("/connections", _all),
    Resource("/connections/:connection", _one, delete=_close, allow=_CONNECTION, exists=_exists),
    Resource("/connections/username/:user", _of_user, delete=_close_of_user, allow=access.administrators),
    Resource("/connections/:connection/channels", _channels_of_connection, allow=_CONNECTION),
    Resource("/channels", _all_channels),
    Resource(
        "/channels/:channel",
        _one_channel,
        allow=access.owners(_channel_owner),
        exists=lambda request: _channel(request) is not None,
    ),
    Resource("/consumers", _consumers),
    Resource("/consumers/:vhost", _consumers, allow=access.inhabitants, exists=vhost_exists),
    Resource("/vhosts/:vhost/connections", _of_vhost, allow=access.observers, exists=vhost_exists),
    Resource("/vhosts/:vhost/channels", _channels_of_vhost, allow=access.observers, exists=vhost_exists),
)
