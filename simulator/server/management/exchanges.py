"""``/api/exchanges``: list, declare and delete exchanges, and publish to them.

Source: rabbit_mgmt_wm_exchanges.erl, _exchange.erl; rabbit_exchange.erl info.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dlx.policies import choose_policy
from dlx.server_plugins import DELAYED
from dlx.topology import Exchange
from simulator.broker import VirtualHost
from simulator.broker.commands import DeclareExchange, DeleteExchange
from simulator.json_values import plain
from simulator.server.management import access, listing, messages
from simulator.server.management.http_errors import crashed
from simulator.server.management.internal_connections import declare
from simulator.server.management.message_stats import exchange_stats
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists
from simulator.server.management.values import arguments_of, boolean


def _found(request: Request) -> Exchange | None:
    return None if request.vhost is None else request.vhost.exchanges.get(request.name("exchange"))


def declaration(exchange: Exchange, vhost: VirtualHost) -> dict[str, Any]:
    """Describe the declaration of an exchange, in the order of exports."""
    return {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
    }


def _exchange_json(exchange: Exchange, vhost: VirtualHost, request: Request) -> dict[str, Any]:
    shown = declaration(exchange, vhost) | {"user_who_performed_action": "guest"}
    policy = choose_policy(exchange, vhost.topology.policies, request.broker.release).policy
    if policy is not None:
        shown["policy"] = policy.name
    if exchange.type == DELAYED and DELAYED in request.broker.exchange_types:
        shown["messages_delayed"] = request.broker.messages_delayed(vhost, exchange.name)
    if stats := exchange_stats(vhost.exchange_counters.get(exchange.name)):
        shown["message_stats"] = stats
    return dict(sorted(shown.items()))


def _all(request: Request) -> Any:
    seen = [(x, vhost) for vhost in access.visible_vhosts(request) for x in vhost.exchanges.values()]
    return listing.paged([_exchange_json(x, vhost, request) for x, vhost in seen], request)


def _one(request: Request) -> Any:
    listing.check_samples(request)
    details = _exchange_json(request.found, request.needed_vhost(), request) | {"incoming": [], "outgoing": []}
    return dict(sorted(details.items()))


def _declare(request: Request) -> None:
    request.needed_vhost()
    document = request.json()
    auto_delete, durable, internal = (boolean(document, key) for key in ("auto_delete", "durable", "internal"))
    arguments = arguments_of("exchange", document, request.api)
    request.check_node(document)
    kind = _type(document, request)
    declare(
        request,
        lambda channel: DeclareExchange(
            channel=channel,
            exchange=request.name("exchange"),
            type=kind,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        ),
    )


def _type(document: Mapping[str, Any], request: Request) -> str:
    """Return the exchange type in a document; to RabbitMQ, true, false and null are names. Raises ``ApiError``."""
    kind = document.get("type", "direct")
    if isinstance(kind, bool) or kind is None:
        return json.dumps(kind)
    if kind == []:
        return ""
    if not isinstance(kind, str):
        raise crashed(request.broker.node, "an exchange type that is not a string")
    return kind


def _delete(request: Request) -> None:
    declare(request, lambda channel: DeleteExchange(channel, request.name("exchange"), request.flag("if-unused")))


RESOURCES = (
    Resource("/exchanges", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource("/exchanges/:vhost", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource(
        "/exchanges/:vhost/:exchange",
        _one,
        put=_declare,
        delete=_delete,
        allow=access.inhabitants,
        exists=_found,
    ),
    Resource("/exchanges/:vhost/:exchange/publish", post=messages.publish, allow=access.inhabitants),
)
