"""``/api/connections``, ``/api/channels``, ``/api/consumers``: who is connected, and closing a connection.

Only network clients are shown; the API's own private connections are not.

Source: rabbit_mgmt_wm_connections.erl, _connection.erl, _channels.erl, _consumers.erl.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from simulator.broker.state import Channel
from simulator.server.management import access, listing
from simulator.server.management.connection_json import (
    channel_details,
    channel_facts,
    channel_name,
    connection_facts,
    consumer_facts,
)
from simulator.server.management.http_errors import Crash, object_not_found
from simulator.server.management.queues import vhost_exists
from simulator.server.management.request import Call
from simulator.server.management.resources import Resource
from simulator.server.node import Client

_CLOSED_BY_US = "Closed via management plugin"


def _clients(call: Call) -> list[tuple[Hashable, Client]]:
    """The network clients that have got as far as a virtual host."""
    return [(key, client) for key, client in call.node.connections.items() if _is_network(client)]


def _is_network(client: Client) -> bool:
    return client.protocol.startswith("AMQP")


def _facts(call: Call, key: Hashable, client: Client) -> dict[str, Any]:
    return connection_facts(client, call.broker.connections.get(key), call.node, call.api)


def _is_visible(facts: dict[str, Any], call: Call) -> bool:
    if call.vhost is not None and facts["vhost"] != call.vhost.name:
        return False
    return access.is_monitor(call.user) or facts["user"] == call.user.name


def _all(call: Call) -> Any:
    facts = [_facts(call, key, client) for key, client in _clients(call)]
    return listing.listed([f for f in facts if _is_visible(f, call)], call)


def _of_user(call: Call) -> Any:
    facts = [_facts(call, key, client) for key, client in _clients(call)]
    return listing.listed([f for f in facts if f["user"] == call.id("user")], call)


def _found(call: Call) -> tuple[Hashable, Client] | None:
    return next(((k, client) for k, client in _clients(call) if client.name == call.id("connection")), None)


def _exists(call: Call) -> bool:
    return _found(call) is not None


def _owner(call: Call) -> str | None:
    found = _found(call)
    return None if found is None else found[1].user


def _one(call: Call) -> Any:
    found = _found(call)
    if found is None:
        raise object_not_found()
    return listing.chosen(_facts(call, *found), call)


def _close(call: Call) -> None:
    found = _found(call)
    if found is not None:
        call.node.close_connection(found[0], call.headers.get("x-reason", _CLOSED_BY_US))


def _close_of_user(call: Call) -> None:
    for key, client in _clients(call):
        if client.user == call.id("user"):
            call.node.close_connection(key, call.headers.get("x-reason", _CLOSED_BY_US))


# Channels


def _channels(call: Call) -> list[Channel]:
    connections = [call.broker.connections.get(key) for key, _ in _clients(call)]
    return [channel for c in connections if c is not None for channel in c.channels.values()]


def _all_channels(call: Call) -> Any:
    facts = [channel_facts(channel, call.node, call.api) for channel in _channels(call)]
    return listing.listed([f for f in facts if _is_visible(f, call)], call)


def _channels_of_connection(call: Call) -> Any:
    found = _found(call)
    if found is None:
        raise Crash
    connection = call.broker.connections.get(found[0])
    channels = [] if connection is None else connection.channels.values()
    return listing.listed([channel_facts(channel, call.node, call.api) for channel in channels], call)


def _channel(call: Call) -> Channel | None:
    return next((c for c in _channels(call) if channel_name(c) == call.id("channel")), None)


def _channel_owner(call: Call) -> str | None:
    channel = _channel(call)
    return None if channel is None else channel.connection.user.name


def _one_channel(call: Call) -> Any:
    channel = _channel(call)
    if channel is None:
        raise object_not_found()
    details = channel_details(channel, call.node)
    consumers = [consumer_facts(c, call.api) | {"channel_details": details} for c in channel.consumers.values()]
    facts = channel_facts(channel, call.node, call.api)
    return listing.chosen(facts | {"consumer_details": consumers, "deliveries": [], "publishes": []}, call)


# Consumers


def _consumers(call: Call) -> Any:
    facts = []
    for channel in _channels(call):
        vhost, user = channel.connection.vhost.name, channel.connection.user.name
        if _is_visible({"vhost": vhost, "user": user}, call):
            details = {"channel_details": channel_details(channel, call.node)}
            facts += [consumer_facts(consumer, call.api) | details for consumer in channel.consumers.values()]
    return listing.listed(facts, call, ("consumer_tag",))


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
        exists=lambda call: _channel(call) is not None,
    ),
    Resource("/consumers", _consumers),
    Resource("/consumers/:vhost", _consumers, allow=access.inhabitants, exists=vhost_exists),
    Resource("/vhosts/:vhost/connections", _all, allow=access.observers, exists=vhost_exists),
    Resource("/vhosts/:vhost/channels", _all_channels, allow=access.observers, exists=vhost_exists),
)
