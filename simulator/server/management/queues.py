"""``/api/queues``: queues are listed, declared, deleted, purged.

Source: rabbit_mgmt_wm_queues.erl, _queue.erl, _queue_purge.erl, _queue_actions.erl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.broker.commands import DeclareQueue, DeleteQueue, PurgeQueue
from simulator.broker.state import QueueState
from simulator.server.management import access, listing, messages
from simulator.server.management.http_errors import Crash, bad_request, not_found, object_not_found
from simulator.server.management.internal_connections import declare
from simulator.server.management.management_releases import Api
from simulator.server.management.queue_json import (
    listed_queue,
    queue_details,
    queue_facts,
    queue_without_stats,
)
from simulator.server.management.request import Call
from simulator.server.management.resources import Resource
from simulator.server.management.values import amqp_table
from simulator.server.node import Node

_NAME_BYTES_MAX = 255


def found(call: Call) -> QueueState | None:
    """The queue that the path names."""
    return None if call.vhost is None else call.vhost.queues.get(call.id("queue"))


def exists(call: Call) -> bool:
    """Whether that queue exists."""
    return found(call) is not None


def flag(document: dict[str, Any], name: str) -> bool:
    """A true or false in a request, which may be given as a string. Raises ``ApiError``."""
    value = document.get(name, False)
    if value in (True, False):
        return bool(value)
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(["not_boolean", value])


def check_node(call: Call, document: dict[str, Any]) -> None:
    """Refuse to declare on a node other than this one."""
    name = document.get("node", call.broker.node)
    if name == call.broker.node:
        return
    if call.api.unknown_node == "not a member":
        raise bad_request(f"Node {name} is not a cluster member")
    raise bad_request(f"Node {name} could not be contacted")


def vhost_exists(call: Call) -> bool:
    """Whether the virtual host that is asked about exists; all of them do."""
    return call.vhost_name is None or call.vhost is not None


def _all(call: Call) -> Any:
    show = queue_facts if "columns" in call.query else listed_queue
    return listing.listed([_facts(queue, call, show) for queue in _seen(call)], call)


def _all_detailed(call: Call) -> Any:
    return listing.listed([_facts(queue, call, queue_facts) for queue in _seen(call)], call)


def _seen(call: Call) -> list[QueueState]:
    vhosts = call.broker.vhosts.values() if call.vhost is None else [call.vhost]
    return [q for vhost in vhosts if access.sees_vhost(call, vhost.name) for q in vhost.queues.values()]


def _facts(queue: QueueState, call: Call, show: Callable[[QueueState, Node, Api], dict[str, Any]]) -> dict[str, Any]:
    if call.flag("disable_stats"):
        return queue_without_stats(queue, call.node, call.api, totals=call.flag("enable_queue_totals"))
    return show(queue, call.node, call.api)


def _one(call: Call) -> Any:
    listing.check_samples(call)
    return listing.chosen(_facts(_needed(call), call, queue_details), call)


def _needed(call: Call) -> QueueState:
    queue = found(call)
    if queue is None:
        raise object_not_found()
    return queue


def _declare(call: Call) -> None:
    call.needed_vhost()
    _check_name(call)
    document = call.json()
    arguments = amqp_table(document.get("arguments", {}))
    durable, auto_delete = flag(document, "durable"), flag(document, "auto_delete")
    check_node(call, document)
    declare(
        call,
        lambda channel: DeclareQueue(
            channel=channel,
            queue=call.id("queue"),
            durable=durable,
            auto_delete=auto_delete,
            arguments=arguments,
        ),
    )


def _check_name(call: Call) -> None:
    size = len(call.id("queue").encode())
    if call.api.long_queue_names_refused and size > _NAME_BYTES_MAX:
        raise bad_request(f"queue should be less than 255 bytes, actually was {size}\n")


def _delete(call: Call) -> None:
    unused, empty = call.flag("if-unused"), call.flag("if-empty")
    declare(call, lambda channel: DeleteQueue(channel, call.id("queue"), unused, empty))


def _purge(call: Call) -> None:
    declare(call, lambda channel: PurgeQueue(channel, call.id("queue")))


def _act(call: Call) -> None:
    if not exists(call):
        raise not_found("queue_not_found") if call.api.missing_targets == "not found" else Crash
    action = call.json("action")["action"]
    if not (call.api.mirroring_actions and action in ("sync", "cancel_sync")):
        raise bad_request(["unknown", action])


RESOURCES = (
    Resource("/queues", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource("/queues/detailed", _all_detailed, allow=access.inhabitants, offered=lambda api: api.detailed_queues),
    Resource("/queues/:vhost", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource("/queues/:vhost/:queue", _one, put=_declare, delete=_delete, allow=access.inhabitants, exists=exists),
    Resource("/queues/:vhost/:queue/contents", delete=_purge, allow=access.inhabitants, exists=exists),
    Resource("/queues/:vhost/:queue/get", post=messages.get, allow=access.inhabitants, exists=exists),
    Resource("/queues/:vhost/:queue/actions", post=_act, allow=access.administrators, exists=exists),
)
