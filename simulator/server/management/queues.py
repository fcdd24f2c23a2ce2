"""``/api/queues``: list, declare, delete and purge queues.

Source: rabbit_mgmt_wm_queues.erl, _queue.erl, _queue_purge.erl, _queue_actions.erl.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from dlx.message import payload_size
from dlx.topology import CLASSIC, QUORUM, STREAM
from simulator.broker import Connection, QueueState, QuorumStore
from simulator.broker.commands import DeclareQueue, DeleteQueue, PurgeQueue
from simulator.json_values import plain
from simulator.server.management import access, listing, messages
from simulator.server.management.connections import UNKNOWN_GARBAGE, channel_details, consumer_json
from simulator.server.management.http_errors import HandlerCrash, bad_request, crashed, not_found
from simulator.server.management.internal_connections import declare
from simulator.server.management.management_releases import Api
from simulator.server.management.message_stats import queue_stats, with_rates
from simulator.server.management.policies import effective_definition
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists
from simulator.server.management.values import arguments_of, boolean, moment
from simulator.server.node import Node

_NAME_BYTES_MAX = 255
_NOT_LISTED = ("garbage_collection", "idle_since")
_Show = Callable[[QueueState, Request], dict[str, Any]]


def _found(request: Request) -> QueueState | None:
    return None if request.vhost is None else request.vhost.queues.get(request.name("queue"))


def _all(request: Request) -> Any:
    show = queue_json if "columns" in request.query else listed_queue
    return listing.paged([_shown(queue, request, show) for queue in _seen(request)], request)


def _all_detailed(request: Request) -> Any:
    return listing.paged([_shown(queue, request, queue_json) for queue in _seen(request)], request)


def _seen(request: Request) -> list[QueueState]:
    return [queue for vhost in access.visible_vhosts(request) for queue in vhost.queues.values()]


def _shown(queue: QueueState, request: Request, show: _Show) -> dict[str, Any]:
    if request.flag("disable_stats"):
        return queue_without_stats(queue, request, totals=request.flag("enable_queue_totals"))
    return show(queue, request)


def _one(request: Request) -> Any:
    listing.check_samples(request)
    return _shown(request.found, request, queue_details)


def _declare(request: Request) -> None:
    request.needed_vhost()
    _check_name(request)
    document = request.json()
    auto_delete, durable = boolean(document, "auto_delete"), boolean(document, "durable")
    arguments = arguments_of("queue", document, request.api)
    request.check_node(document)
    if not isinstance(document.get("exclusive", False), bool):
        raise crashed(request.broker.node, "exclusive that is neither true nor false")
    declare(
        request,
        lambda channel: DeclareQueue(
            channel=channel,
            queue=request.name("queue"),
            durable=durable,
            auto_delete=auto_delete,
            arguments=arguments,
        ),
    )


def _check_name(request: Request) -> None:
    size = len(request.name("queue").encode())
    if request.api.long_queue_names_refused and size > _NAME_BYTES_MAX:
        raise bad_request(f"queue should be less than 255 bytes, actually was {size}\n")


def _delete(request: Request) -> None:
    unused, empty = request.flag("if-unused"), request.flag("if-empty")
    declare(request, lambda channel: DeleteQueue(channel, request.name("queue"), unused, empty))


def _purge(request: Request) -> None:
    declare(request, lambda channel: PurgeQueue(channel, request.name("queue")))


def _act(request: Request) -> None:
    if request.api.missing_targets == "not found" and request.found is None:
        raise not_found("queue_not_found")
    action = request.json("action")["action"]
    if request.found is None:
        raise HandlerCrash
    if not (request.api.mirroring_actions and action in ("sync", "cancel_sync")):
        raise bad_request(["unknown", action])


RESOURCES = (
    Resource("/queues", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource("/queues/detailed", _all_detailed, allow=access.inhabitants, offered=lambda api: api.detailed_queues),
    Resource("/queues/:vhost", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource("/queues/:vhost/:queue", _one, put=_declare, delete=_delete, allow=access.inhabitants, exists=_found),
    Resource("/queues/:vhost/:queue/contents", delete=_purge, allow=access.inhabitants, exists=_found),
    Resource("/queues/:vhost/:queue/get", post=messages.get, allow=access.inhabitants),
    Resource("/queues/:vhost/:queue/actions", post=_act, allow=access.administrators, exists=_found),
)

# Describes a queue as the management API does.
#
# Fields that a simulator cannot measure have a neutral value if clients may rely on them
# (memory, reductions, garbage collection). Others are missing: docs/how-to/broker.md lists them.
#
# Source: rabbit_mgmt_format.erl queue; rabbit_amqqueue_process.erl, rabbit_quorum_queue.erl and
# rabbit_stream_queue.erl info; live servers.


def listed_queue(queue: QueueState, request: Request) -> dict[str, Any]:
    """Describe a queue for a list, briefly where the release does so."""
    shown = queue_json(queue, request)
    if not request.api.brief_lists:
        return shown
    return {name: value for name, value in shown.items() if value is not None and name not in _NOT_LISTED}


def queue_json(queue: QueueState, request: Request) -> dict[str, Any]:
    """Describe a queue, except for its consumers."""
    node, api = request.node, request.api
    shown = declaration(queue, api) | _policies(queue, node) | _counts(queue)
    shown |= {"consumers": len(queue.consumers), "memory": _bytes(queue), "node": node.broker.node}
    shown |= {"reductions": 0, "reductions_details": {"rate": 0.0}, "state": "running"}
    shown |= _OF_TYPE[queue.definition.type](queue, request)
    if stats := queue_stats(queue.counters, api):
        shown["message_stats"] = stats
    if queue.owner is not None:
        shown["owner_pid_details"] = _owner(queue.owner, node)
    return dict(sorted(shown.items()))


def queue_details(queue: QueueState, request: Request) -> dict[str, Any]:
    """Describe a queue that is asked for by itself, with its consumers."""
    node, api = request.node, request.api
    consumers = [
        consumer_json(consumer, api) | {"channel_details": channel_details(consumer.channel, node)}
        for consumer in queue.consumers
    ]
    details = {
        "consumer_details": consumers,
        "deliveries": [],
        "garbage_collection": UNKNOWN_GARBAGE,
        "incoming": [],
    }
    return dict(sorted({**queue_json(queue, request), **details}.items()))


def queue_without_stats(queue: QueueState, request: Request, *, totals: bool) -> dict[str, Any]:
    """Describe a queue for ``disable_stats=true``; ``totals``: with its numbers of messages."""
    node, api, kind = request.node, request.api, queue.definition.type
    shown = declaration(queue, api) | {"node": node.broker.node}
    shown["state"] = "running" if totals else api.state_without_stats
    policies = _policies(queue, node)
    if api.policies_without_stats:
        shown |= policies
    elif policies["policy"] is not None:
        shown["policy"] = policies["policy"]
    if kind != CLASSIC:
        shown |= _members(node)
    if kind == QUORUM and api.policies_without_stats:
        shown |= _delivery_limit(queue)
    if totals and kind != STREAM:
        shown |= _numbers(queue)
    return dict(sorted(shown.items()))


def declaration(queue: QueueState, api: Api) -> dict[str, Any]:
    """Describe the declaration of a queue."""
    definition = queue.definition
    shown = {
        "arguments": plain(definition.arguments),
        "auto_delete": definition.auto_delete,
        "durable": definition.durable,
        "exclusive": definition.exclusive,
        "name": definition.name,
        "type": definition.type,
        "vhost": queue.vhost.name,
    }
    return shown | ({"internal": False, "internal_owner": False} if api.internal_queues else {})


def _policies(queue: QueueState, node: Node) -> dict[str, Any]:
    policy, operator = queue.settings.in_force
    return {
        "effective_policy_definition": effective_definition(policy, operator, node.broker.release),
        "operator_policy": None if operator is None else operator.name,
        "policy": None if policy is None else policy.name,
    }


def _numbers(queue: QueueState) -> dict[str, int]:
    return {
        "messages": queue.messages,
        "messages_ready": queue.messages_ready,
        "messages_unacknowledged": queue.unacked,
    }


def _counts(queue: QueueState) -> dict[str, Any]:
    return with_rates(_numbers(queue))


def _bytes(queue: QueueState) -> int:
    return queue.store.ready_bytes + queue.unacked_bytes + queue.store.pending_bytes


def _message_bytes(queue: QueueState) -> dict[str, int]:
    return {
        "message_bytes": _bytes(queue),
        "message_bytes_ready": queue.store.ready_bytes,
        "message_bytes_unacknowledged": queue.unacked_bytes,
    }


def _persistent(queue: QueueState, request: Request) -> dict[str, int]:
    """Count the persistent messages of a classic queue; a queue that is not durable makes none persistent."""
    sizes: list[int] = []
    if queue.definition.durable:
        copies = chain(queue.store.waiting(), request.unacknowledged.get(queue, ()))
        sizes = [
            payload_size(copy.message, copy.body)
            for copy in copies
            if copy.message.properties.get("delivery_mode") == 2
        ]
    return {"messages_persistent": len(sizes), "message_bytes_persistent": sum(sizes)}


def _classic(queue: QueueState, request: Request) -> dict[str, Any]:
    api = request.api
    shown: dict[str, Any] = _message_bytes(queue) | {
        "exclusive_consumer_tag": _tag(queue.exclusive_consumer),
        "garbage_collection": UNKNOWN_GARBAGE,
        "head_message_timestamp": _head_timestamp(queue),
        "idle_since": moment(queue.unused_since_us, api),
        "message_bytes_ram": _bytes(queue),
        "messages_ram": queue.messages,
        "messages_ready_ram": queue.messages_ready,
        "messages_unacknowledged_ram": queue.unacked,
        "single_active_consumer_tag": _tag(queue.active_single),
    }
    shown |= _persistent(queue, request) | _utilisation(queue, api, api.idle_consumer_utilisation)
    if api.paged_out:
        shown |= {"message_bytes_paged_out": 0, "messages_paged_out": 0}
    if api.backing_queue_status:
        shown |= {"backing_queue_status": {"len": queue.messages_ready, "mode": "default"}}
        shown |= {"recoverable_slaves": None}
    if api.storage_version:
        shown["storage_version"] = 2
    return shown


def _quorum(queue: QueueState, request: Request) -> dict[str, Any]:
    node, api = request.node, request.api
    shown: dict[str, Any] = _message_bytes(queue) | _members(node) | _utilisation(queue, api, 0)
    shown |= {"messages_persistent": queue.messages, "message_bytes_persistent": _bytes(queue)}
    in_memory = api.quorum_in_memory
    shown["messages_ram"] = queue.messages if in_memory else 0
    shown["message_bytes_ram"] = _bytes(queue) if in_memory else 0
    shown["open_files"] = {node.broker.node: 0}
    shown[api.quorum_single_active_consumer] = _tag(queue.active_single)
    if api.quorum_publishers:
        shown |= _ready_in_parts(queue)
        if queue.active_single is None and queue.consumers and not queue.single_active:
            shown[api.quorum_single_active_consumer] = _tag(queue.consumers[0])
    if node.broker.release.quorum_at_least_once:
        shown |= {"messages_dlx": queue.store.pending, "message_bytes_dlx": queue.store.pending_bytes}
    if api.quorum_delivery_limit:
        shown |= _delivery_limit(queue)
    if node.broker.release.quorum_delayed_retry:
        shown["messages_delayed"] = queue.store.total - queue.store.ready
        shown["delayed_retry"] = _delayed_retry(queue)
    return shown


def _ready_in_parts(queue: QueueState) -> dict[str, Any]:
    """Count the publishers, and what is ready: what came back, and the rest by lane or by priority."""
    store = queue.store
    assert isinstance(store, QuorumStore)
    sizes = store.sizes()
    shown: dict[str, Any] = {"publishers": store.publishers, "messages_ready_returned": store.returned}
    if queue.settings.release.quorum_priorities == "two lanes":
        return shown | {"messages_ready_high": sizes.get(1, 0), "messages_ready_normal": sizes.get(0, 0)}
    return shown | {"messages_by_priority": sizes, "messages_active_priorities": len(sizes)}


def _delayed_retry(queue: QueueState) -> str:
    retry = queue.settings.delayed_retry
    return "disabled" if retry is None else f"{retry.type} (min: {retry.min_ms}ms, max: {retry.max_ms}ms)"


def _delivery_limit(queue: QueueState) -> dict[str, Any]:
    limit = queue.settings.delivery_limit
    return {"delivery_limit": "unlimited" if limit is None else limit}


def _stream(queue: QueueState, request: Request) -> dict[str, Any]:
    node, api = request.node, request.api
    shown = _members(node) | {"readers": {node.broker.node: len(queue.consumers)}}
    if not api.stream_leader:
        del shown["leader"]
    shown |= {"segments": 1} if api.stream_segments else {}
    return shown | ({"first_timestamp": 0} if api.stream_first_timestamp else {})


_OF_TYPE = {CLASSIC: _classic, QUORUM: _quorum, STREAM: _stream}


def _members(node: Node) -> dict[str, Any]:
    name = node.broker.node
    return {"leader": name, "members": [name], "online": [name]}


def _utilisation(queue: QueueState, api: Api, idle: int | None) -> dict[str, Any]:
    """Return the share of time in which consumers could take messages: 1.0 if any can now, else ``idle``."""
    share: float | None = 1.0 if queue.active else idle
    shown: dict[str, Any] = {"consumer_utilisation": share}
    return shown | ({"consumer_capacity": share or 0} if api.consumer_capacity else {})


def _tag(consumer: Any) -> str | None:
    return None if consumer is None else consumer.tag


def _head_timestamp(queue: QueueState) -> int | None:
    if not queue.store.ready:
        return None
    head = queue.store.head()
    timestamp = None if head is None else head.message.properties.get("timestamp")
    return None if timestamp is None else plain(timestamp)


def _owner(owner: Connection, node: Node) -> dict[str, Any]:
    client = node.connections.get(owner.id)
    if client is None:
        return {"name": owner.name}
    return {"name": owner.name, "peer_host": client.peer_host, "peer_port": client.peer_port}
