"""``/api/vhosts``: virtual hosts, and what belongs to one of them.

Source: rabbit_mgmt_wm_vhosts.erl, _vhost.erl; rabbit_vhost.erl info, put_vhost.
"""

from __future__ import annotations

from typing import Any

from simulator.broker.commands import AddVhost, DeleteVhost, SetPermissions, SetTracing
from simulator.broker.state import VirtualHost
from simulator.server.management import access, listing
from simulator.server.management.http_errors import Crash, bad_request
from simulator.server.management.queues import flag
from simulator.server.management.request import Call
from simulator.server.management.resources import Resource
from simulator.server.management.stats import overall_stats, with_rates

_QUEUE_TYPES = ("classic", "quorum", "stream")


def metadata(vhost: VirtualHost, call: Call) -> dict[str, Any]:
    """Description, tags and default queue type, as far as the release keeps them."""
    facts: dict[str, Any] = {"description": vhost.description, "tags": list(vhost.tags)}
    if call.api.vhost_default_queue_type == "shown" or vhost.default_queue_type is not None:
        facts["default_queue_type"] = vhost.default_queue_type or "classic"
    return facts


def _facts(vhost: VirtualHost, call: Call) -> dict[str, Any]:
    kept = metadata(vhost, call)
    facts: dict[str, Any] = {"name": vhost.name, "description": vhost.description, "tags": list(vhost.tags)}
    if call.api.vhost_default_queue_type != "not shown":
        facts["default_queue_type"] = kept.get("default_queue_type", "undefined")
    if call.api.vhost_deletion_protection:
        facts["protected_from_deletion"] = False
    facts |= {"metadata": kept, "tracing": vhost.tracing, "cluster_state": {call.broker.node: "running"}}
    return facts | _stats(vhost)


def _stats(vhost: VirtualHost) -> dict[str, Any]:
    """Numbers of messages, once there were any."""
    stats = overall_stats([vhost])
    if not stats:
        return {}
    queues = vhost.queues.values()
    numbers = {
        "messages": sum(queue.messages for queue in queues),
        "messages_ready": sum(queue.messages_ready for queue in queues),
        "messages_unacknowledged": sum(queue.unacked for queue in queues),
    }
    return {"message_stats": stats, **with_rates(numbers)}


def _all(call: Call) -> Any:
    visible = [
        vhost
        for vhost in call.broker.vhosts.values()
        if access.is_monitor(call.user) or vhost.name in call.user.permissions
    ]
    return listing.listed([_facts(vhost, call) for vhost in visible], call, ("name",))


def exists(call: Call) -> bool:
    """Whether the virtual host in the path exists."""
    return call.vhost is not None


def _one(call: Call) -> Any:
    return listing.chosen(_facts(call.needed_vhost(), call), call)


def _put(call: Call) -> None:
    document = call.json()
    tracing = flag(document, "tracing") if "tracing" in document else None
    description, tags = str(document.get("description", "")), _tags(document.get("tags", ""))
    name, is_new = call.id("vhost"), call.vhost is None
    if is_new or call.api.vhost_metadata:
        call.do(AddVhost(name, _default_queue_type(document, call), description, tags))
    if is_new:  # whoever creates a virtual host over HTTP may do everything in it
        call.do(SetPermissions(call.user.name, name, ".*", ".*", ".*"))
    if tracing is not None:
        call.do(SetTracing(name, tracing))


def _default_queue_type(document: dict[str, Any], call: Call) -> str | None:
    kind = document.get("default_queue_type", document.get("defaultqueuetype"))
    handling = call.api.unknown_default_queue_type
    if handling == "all are ignored" or kind in (None, "undefined"):
        return None
    if kind in _QUEUE_TYPES:
        return str(kind)
    raise bad_request(f"{kind} is not a valid queue type") if handling == "refused" else Crash


def _tags(given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
        raise Crash
    return tuple(tag.strip() for tag in given if tag.strip())


def _delete(call: Call) -> None:
    name = call.id("vhost")
    call.management.traces.forget_vhost(name)
    call.do(DeleteVhost(name))


def _started(call: Call) -> None:
    if call.id("node") != call.broker.node:
        raise bad_request(f"node {call.id('node')} is not running")


RESOURCES = (
    Resource("/vhosts", _all),
    Resource("/vhosts/:vhost", _one, put=_put, delete=_delete, allow=access.administrators, exists=exists),
    Resource("/vhosts/:vhost/start/:node", post=_started, allow=access.administrators, exists=exists),
)
