"""``/api/exchanges``: exchanges are listed, declared, deleted, published to.

Source: rabbit_mgmt_wm_exchanges.erl, _exchange.erl; rabbit_exchange.erl info.
"""

from __future__ import annotations

from typing import Any

from dlx.policies import choose_policy
from dlx.topology import Exchange
from simulator.broker.commands import DeclareExchange, DeleteExchange
from simulator.broker.state import VirtualHost
from simulator.json_values import plain
from simulator.server.management import access, listing, messages
from simulator.server.management.http_errors import Crash, object_not_found
from simulator.server.management.internal_connections import declare
from simulator.server.management.queues import check_node, flag, vhost_exists
from simulator.server.management.request import Call
from simulator.server.management.resources import Resource
from simulator.server.management.stats import exchange_stats
from simulator.server.management.values import amqp_table


def _found(call: Call) -> Exchange | None:
    return None if call.vhost is None else call.vhost.exchanges.get(call.id("exchange"))


def _exists(call: Call) -> bool:
    return _found(call) is not None


def _facts(exchange: Exchange, vhost: VirtualHost, call: Call) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "arguments": plain(exchange.arguments),
        "auto_delete": exchange.auto_delete,
        "durable": exchange.durable,
        "internal": exchange.internal,
        "name": exchange.name,
        "type": exchange.type,
        "user_who_performed_action": "guest",
        "vhost": vhost.name,
    }
    policy = choose_policy(exchange, vhost.topology.policies, call.broker.release).policy
    if policy is not None:
        facts["policy"] = policy.name
    if stats := exchange_stats(vhost.exchange_counters.get(exchange.name)):
        facts["message_stats"] = stats
    return dict(sorted(facts.items()))


def _all(call: Call) -> Any:
    vhosts = call.broker.vhosts.values() if call.vhost is None else [call.vhost]
    seen = [vhost for vhost in vhosts if access.sees_vhost(call, vhost.name)]
    return listing.listed([_facts(x, vhost, call) for vhost in seen for x in vhost.exchanges.values()], call)


def _one(call: Call) -> Any:
    exchange = _found(call)
    if exchange is None:
        raise object_not_found()
    details = _facts(exchange, call.needed_vhost(), call) | {"incoming": [], "outgoing": []}
    return listing.chosen(dict(sorted(details.items())), call)


def _declare(call: Call) -> None:
    call.needed_vhost()
    document = call.json()
    kind = document.get("type", "direct")
    if not isinstance(kind, str):
        raise Crash
    arguments = amqp_table(document.get("arguments", {}))
    durable, auto_delete, internal = (flag(document, key) for key in ("durable", "auto_delete", "internal"))
    check_node(call, document)
    declare(
        call,
        lambda channel: DeclareExchange(
            channel=channel,
            exchange=call.id("exchange"),
            type=kind,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        ),
    )


def _delete(call: Call) -> None:
    declare(call, lambda channel: DeleteExchange(channel, call.id("exchange"), call.flag("if-unused")))


RESOURCES = (
    Resource("/exchanges", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource("/exchanges/:vhost", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource(
        "/exchanges/:vhost/:exchange",
        _one,
        put=_declare,
        delete=_delete,
        allow=access.inhabitants,
        exists=_exists,
    ),
    Resource("/exchanges/:vhost/:exchange/publish", post=messages.publish, allow=access.inhabitants, exists=_exists),
)
