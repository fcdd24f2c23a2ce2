"""``/api/queues``: list, declare, delete and purge queues.

Source: rabbit_mgmt_wm_queues.erl, _queue.erl, _queue_purge.erl, _queue_actions.erl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.broker import QueueState
from simulator.broker.commands import DeclareQueue, DeleteQueue, PurgeQueue
from simulator.server.management import access, listing, messages
from simulator.server.management.http_errors import Crash, bad_request, crashed, not_found, object_not_found
from simulator.server.management.internal_connections import declare
from simulator.server.management.queue_json import (
    listed_queue,
    queue_details,
    queue_json,
    queue_without_stats,
)
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists
from simulator.server.management.values import arguments_of, boolean

_NAME_BYTES_MAX = 255
_Show = Callable[[QueueState, Request], dict[str, Any]]


def found(request: Request) -> QueueState | None:
    """Return the queue that the path names; ``None`` when it does not exist."""
    return None if request.vhost is None else request.vhost.queues.get(request.name("queue"))


def exists(request: Request) -> bool:
    """Return whether the queue that the path names exists."""
    return found(request) is not None


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
    return _shown(_needed(request), request, queue_details)


def _needed(request: Request) -> QueueState:
    queue = found(request)
    if queue is None:
        raise object_not_found()
    return queue


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
    if request.api.missing_targets == "not found" and not exists(request):
        raise not_found("queue_not_found")
    action = request.json("action")["action"]
    if not exists(request):
        raise Crash
    if not (request.api.mirroring_actions and action in ("sync", "cancel_sync")):
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
