"""``/api/definitions``: export and import everything, or one virtual host.

Source: rabbit_mgmt_wm_definitions.erl; rabbit_definitions.erl.
"""

from __future__ import annotations

import re
from email import message_from_bytes
from typing import Any

import msgspec
from starlette.responses import Response

from dlx.topology import STOCK_EXCHANGES, Exchange
from simulator.broker import OperatorError, QueueState, VirtualHost
from simulator.broker.commands import ImportDefinitions
from simulator.json_reading import UTF8_MARK, NestedTooDeeplyError, read_json_as
from simulator.json_values import plain
from simulator.server.management import access, exchanges, listing
from simulator.server.management.bindings import all_bindings, exported_binding
from simulator.server.management.http_errors import (
    ApiError,
    HandlerCrash,
    MalformedRequest,
    TooDeepError,
    bad_request,
    json_form,
    json_response,
    told,
)
from simulator.server.management.parameters import global_parameters, parameters
from simulator.server.management.policies import policy_json
from simulator.server.management.request import ManagementState, Request
from simulator.server.management.resources import FORM, JSON, Resource
from simulator.server.management.users import permissions, topic_permissions, user_json
from simulator.server.management.vhosts import metadata
from simulator.server.node import Node

_STOCK = frozenset(exchange.name for exchange in STOCK_EXCHANGES)
_INTERNAL = "internal"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


# Export


def _export(request: Request) -> Response:
    if request.vhost_name is None:
        document = _whole(request)
    elif request.vhost is None:
        raise bad_request("vhost_not_found")
    else:
        document = _single(request, request.vhost)
    name = request.query.get("download")
    headers = {} if name is None else {"Content-Disposition": f"attachment; filename={_file_name(name, request)}"}
    if request.api.definitions_by_columns:
        document = listing.shown(document, request)
    return json_response(document, headers=headers)


def _file_name(name: str, request: Request) -> str:
    """Return the name as a header has it: in UTF-8, and without control characters, of which RabbitMQ keeps some."""
    if request.api.download_names == "tokens" and not _TOKEN.fullmatch(name):
        raise MalformedRequest
    return _CONTROL.sub("", name).encode(errors="replace").decode("latin-1")


class Export:
    """What the management API of a node exports, asked in the process of the node."""

    def __init__(self, node: Node) -> None:
        self._request = Request(ManagementState(node), "GET", (), {}, {}, {}, b"")

    def whole(self) -> dict[str, Any]:
        """Return the export of everything."""
        return _whole(self._request)

    def queue(self, queue: QueueState) -> dict[str, Any]:
        """Return the item of a queue, exclusive ones too, which an export leaves out."""
        return _queue_json(queue, self._request)

    def exchange(self, exchange: Exchange, vhost: VirtualHost) -> dict[str, Any]:
        """Return the item of an exchange."""
        return _exchange_json(exchange, vhost, self._request)


def _version(request: Request) -> dict[str, str]:
    version = request.broker.release.version
    whole = {"rabbit_version": version, "rabbitmq_version": version}
    return whole | {"product_name": "RabbitMQ", "product_version": version}


def _whole(request: Request) -> dict[str, Any]:
    users, vhosts = list(request.broker.users.values()), list(request.broker.vhosts.values())
    document: dict[str, Any] = dict(_version(request))
    if request.api.definitions_say_of_what:
        cluster = request.broker.cluster_name
        document |= {"rabbitmq_definition_format": "cluster", "original_cluster_name": cluster}
        document["explanation"] = f"Definitions of cluster '{cluster}'"
    document |= {
        "users": [user_json(user, request.api) for user in users],
        "vhosts": [_vhost_json(vhost, request) for vhost in vhosts],
        "permissions": list(permissions(users)),
        "topic_permissions": list(topic_permissions(users)),
        "parameters": [parameter for vhost in vhosts for parameter in parameters(vhost)],
        "global_parameters": _global_parameters(request),
    }
    sections = [_sections(vhost, request) for vhost in vhosts]
    for name in ("policies", "queues", "exchanges", "bindings"):
        document[name] = [item for section in sections for item in section[name]]
    return document


def _global_parameters(request: Request) -> list[dict[str, Any]]:
    found = global_parameters(request)
    if request.api.definitions_internal_parameters:
        return found
    return [parameter for parameter in found if not parameter["name"].startswith(_INTERNAL)]


def _single(request: Request, vhost: VirtualHost) -> dict[str, Any]:
    document: dict[str, Any] = {"rabbit_version": request.broker.release.version}
    if request.api.definitions_say_of_what:
        document = dict(_version(request))
        document |= {"rabbitmq_definition_format": "single_virtual_host", "original_vhost_name": vhost.name}
        document["explanation"] = f"Definitions of virtual host '{vhost.name}'"
        kept = metadata(vhost, request)
        document |= {"metadata": kept, "description": vhost.description}
        document["limits"] = vhost.limits or request.api.single_vhost_definitions_no_limits
        if request.api.single_vhost_definitions_default_queue_type:
            document["default_queue_type"] = kept.get("default_queue_type", "undefined")
    document["parameters"] = list(parameters(vhost))
    document |= _sections(vhost, request)
    named = ("parameters", "policies") if request.api.single_vhost_definitions_name_it else ()
    for section, items in document.items():
        if isinstance(items, list) and section not in named:
            document[section] = [{k: v for k, v in item.items() if k != "vhost"} for item in items]
    return document


def _vhost_json(vhost: VirtualHost, request: Request) -> dict[str, Any]:
    kept = metadata(vhost, request)
    facts = {"name": vhost.name, "metadata": kept, "limits": vhost.limits or {}, **kept}
    return {name: facts[name] for name in request.api.definitions_vhost_fields if name in facts}


def _sections(vhost: VirtualHost, request: Request) -> dict[str, list[dict[str, Any]]]:
    """Return what a virtual host declares, without exclusive queues and the exchanges that every one has."""
    queues = [queue for queue in vhost.queues.values() if queue.owner is None]
    own = [x for x in vhost.exchanges.values() if x.name not in _STOCK]
    if not request.api.broker.definitions_internal_exchanges:
        own = [x for x in own if not x.internal]
    return {
        "policies": [policy_json(policy, vhost.name) for policy in vhost.policies.values()],
        "queues": [_queue_json(queue, request) for queue in queues],
        "exchanges": [_exchange_json(exchange, vhost, request) for exchange in own],
        "bindings": _bindings(vhost, request),
    }


def _queue_json(queue: QueueState, request: Request) -> dict[str, Any]:
    definition = queue.definition
    facts = {"name": definition.name, "vhost": queue.vhost.name}
    facts |= {"type": definition.type} if request.api.definitions_queue_type else {}
    return facts | {
        "durable": definition.durable,
        "auto_delete": definition.auto_delete,
        "arguments": plain(definition.arguments),
    }


def _exchange_json(exchange: Exchange, vhost: VirtualHost, request: Request) -> dict[str, Any]:
    facts = exchanges.declaration(exchange, vhost)
    if not request.api.broker.definitions_internal_exchanges:
        del facts["internal"]
    return facts


def _bindings(vhost: VirtualHost, request: Request) -> list[dict[str, Any]]:
    exclusive = {queue.name for queue in vhost.queues.values() if queue.owner is not None}
    left_out = set() if request.api.broker.definitions_exclusive_bindings else exclusive
    return [
        exported_binding(binding, vhost.name)
        for binding in all_bindings(vhost)
        if binding.source and not (binding.destination_type == "queue" and binding.destination in left_out)
    ]


# Import


async def _import(request: Request) -> None:
    body = _uploaded(request) if FORM.fullmatch(request.headers["content-type"]) else request.body
    release = request.api.broker
    if release.definitions_byte_order_mark == "taken":
        body = body.removeprefix(UTF8_MARK) or body
    try:
        document = read_json_as(body, release) if body else {}
    except NestedTooDeeplyError as error:
        raise TooDeepError from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request("failed_to_parse_json") from error
    if not isinstance(document, dict):
        raise bad_request("failed_to_parse_json")
    vhost = request.needed_vhost().name if request.vhost_name is not None else None
    try:
        await request.carry_out(ImportDefinitions(document, vhost, request.user.name))
    except OperatorError as error:
        raise _refusal(error, request, whole=vhost is None) from error


def _refusal(error: OperatorError, request: Request, *, whole: bool) -> ApiError | HandlerCrash:
    if error.status == 500:
        return HandlerCrash()
    as_term = whole and request.api.whole_import_refusals == "terms" and error.term is not None
    return bad_request(json_form(error.term)) if as_term else told(bad_request(error.text), request.api)


def _uploaded(request: Request) -> bytes:
    """Return the field ``file`` of a form."""
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode("latin-1")
    for part in message_from_bytes(head + request.body).walk():
        if part.get_param("name", header="content-disposition") == "file":
            payload = part.get_payload(decode=True)
            return payload if isinstance(payload, bytes) else b""
    raise bad_request("failed_to_parse_json")


RESOURCES = tuple(
    Resource(path, _export, post=_import, allow=access.administrators, takes=(JSON, FORM))
    for path in ("/definitions", "/definitions/:vhost", "/all-configuration")
)
