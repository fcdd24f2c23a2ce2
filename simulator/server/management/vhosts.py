"""``/api/vhosts``: list, create, change and delete virtual hosts.

Source: rabbit_mgmt_wm_vhosts.erl, _vhost.erl; rabbit_vhost.erl info, put_vhost.
"""

from __future__ import annotations

from typing import Any

from dlx import operator_errors
from simulator.broker import VirtualHost, vhost_tags
from simulator.broker.commands import AddVhost, DeleteVhost, ProtectVhost, SetTracing
from simulator.server.management import access, listing
from simulator.server.management.http_errors import ApiError, HandlerCrash, bad_request
from simulator.server.management.management_releases import Api
from simulator.server.management.message_stats import overall_stats, with_rates
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource, vhost_exists
from simulator.server.management.values import boolean

_QUEUE_TYPES = ("classic", "quorum", "stream")
_FAILED = list(b"Error occured while adding vhost")  # RabbitMQ shows this text as the numbers of its characters


def metadata(vhost: VirtualHost, request: Request) -> dict[str, Any]:
    """Return description, tags, default queue type and protection, as far as the release keeps them."""
    facts: dict[str, Any] = {"description": vhost.description, "tags": list(vhost.tags)}
    kind = vhost.default_queue_type
    if kind is None and request.api.vhost_default_queue_type == "shown":
        kind = "classic"
    if kind is None and vhost.name in request.management.vhosts_put_again:
        kind = "undefined"
    facts |= {} if kind is None else {"default_queue_type": kind}
    protected = vhost.protected_from_deletion
    return facts | ({} if protected is None else {"protected_from_deletion": protected})


def _vhost_json(vhost: VirtualHost, request: Request) -> dict[str, Any]:
    kept = metadata(vhost, request)
    facts: dict[str, Any] = {"name": vhost.name, "description": vhost.description, "tags": list(vhost.tags)}
    if request.api.vhost_default_queue_type != "not shown":
        facts["default_queue_type"] = kept.get("default_queue_type", "undefined")
    if _can_be_protected(request.api):
        facts["protected_from_deletion"] = bool(vhost.protected_from_deletion)
    facts |= {"metadata": kept, "tracing": vhost.tracing, "cluster_state": {request.broker.node: "running"}}
    return facts | _stats(vhost, request.api)


def _stats(vhost: VirtualHost, api: Api) -> dict[str, Any]:
    """Return the numbers of messages, once there were any."""
    stats = overall_stats([vhost], api)
    if not stats:
        return {}
    queues = vhost.queues.values()
    numbers = {
        "messages": sum(queue.messages for queue in queues),
        "messages_ready": sum(queue.messages_ready for queue in queues),
        "messages_unacknowledged": sum(queue.unacked for queue in queues),
    }
    return {"message_stats": stats, **with_rates(numbers)}


def _all(request: Request) -> Any:
    visible = [
        vhost
        for vhost in request.broker.vhosts.values()
        if access.is_monitor(request.user) or vhost.name in request.user.permissions
    ]
    answer = listing.paged([_vhost_json(vhost, request) for vhost in visible], request, ("name",))
    if request.api.vhosts_listed == "as asked for":
        return answer
    return listing.whole(answer, request)


def _one(request: Request) -> Any:
    listing.check_samples(request)
    return _vhost_json(request.needed_vhost(), request)


def _put(request: Request) -> None:
    document = request.json()
    tracing = boolean(document, "tracing") if "tracing" in document else None
    description, tags = str(document.get("description", "")), vhost_tags(document.get("tags", ""))
    name, is_new = request.name("vhost"), request.vhost is None
    if is_new or request.api.vhost_metadata:
        request.run(AddVhost(name, _default_queue_type(document, request), description, tags, request.user.name))
    if not is_new and request.api.default_queue_type_set == "by every PUT":
        request.management.vhosts_put_again.add(name)
    if tracing is not None:
        request.run(SetTracing(name, tracing))


def _default_queue_type(document: dict[str, Any], request: Request) -> str | None:
    """Return the default queue type that a virtual host has after a PUT; ``None`` for none."""
    api, known = request.api, request.vhost
    if known is not None and api.default_queue_type_set == "when created":
        return known.default_queue_type
    kind = next((document[key] for key in api.default_queue_type_keys if key in document), None)
    if kind is None and known is not None and api.default_queue_type_set == "when named":
        return known.default_queue_type
    if kind in (None, "undefined"):
        return None
    if kind in _QUEUE_TYPES:
        return str(kind)
    if api.unknown_default_queue_type == "fails":
        raise ApiError(500, _FAILED, "invalid_queue_type")
    raise operator_errors.unknown_queue_type(str(kind)) if api.unknown_default_queue_type == "refused" else HandlerCrash


def _delete(request: Request) -> None:
    name = request.name("vhost")
    request.management.traces.forget_vhost(name)
    request.management.vhosts_put_again.discard(name)
    request.run(DeleteVhost(name))


def _can_be_protected(api: Api) -> bool:
    return api.broker.vhost_deletion_protection


def _protect(request: Request) -> None:
    if request.vhost is None:
        raise operator_errors.no_vhost_to_protect(request.name("vhost"))
    request.run(ProtectVhost(request.vhost.name, True))


def _unprotect(request: Request) -> None:
    request.run(ProtectVhost(request.name("vhost"), False))


def _crash(_request: Request) -> None:
    raise HandlerCrash


def _started(request: Request) -> None:
    if request.name("node") != request.broker.node:
        raise bad_request(f"node {request.name('node')} is not running")


RESOURCES = (
    Resource("/vhosts", _all),
    Resource("/vhosts/:vhost", _one, put=_put, delete=_delete, allow=access.administrators, exists=vhost_exists),
    Resource(
        "/vhosts/:vhost/deletion/protection",
        _crash,
        post=_protect,
        delete=_unprotect,
        allow=access.administrators,
        exists=vhost_exists,
        offered=_can_be_protected,
    ),
    Resource("/vhosts/:vhost/start/:node", post=_started, allow=access.administrators),
)
