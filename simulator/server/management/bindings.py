"""``/api/bindings``: list, add and remove bindings.

One binding is named by its ``properties_key``: the quoted routing key, or ``~`` for an
empty one, and behind a ``~`` the hash of its arguments where it has any.

Source: rabbit_mgmt_wm_bindings.erl, _binding.erl; rabbit_mgmt_format.erl pack_binding_props, tokenise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from starlette.responses import Response

from dlx import amqp_errors
from dlx.erlang_hash import arguments_hash, properties_key
from dlx.topology import Binding
from simulator.broker import VirtualHost
from simulator.broker.commands import BindExchange, BindQueue, UnbindExchange, UnbindQueue
from simulator.json_values import plain
from simulator.server.management import access, listing
from simulator.server.management.http_errors import (
    ApiError,
    HandlerCrash,
    TooDeepError,
    bad_request,
    not_authorised,
    not_found,
)
from simulator.server.management.internal_connections import declare
from simulator.server.management.request import Request
from simulator.server.management.resources import Handler, Resource, vhost_exists
from simulator.server.management.values import arguments_of

_BODY_BYTES_MAX = 5_000
_SORT = ("vhost", "source", "type", "destination", "routing_key", "properties_key")
_TYPES = {"q": "queue", "e": "exchange"}


def all_bindings(vhost: VirtualHost) -> Iterator[Binding]:
    """Yield the bindings of a virtual host, with those of every queue to the default exchange."""
    for queue in vhost.queues:
        yield _by_default(queue)
    for bound in vhost.bindings.values():
        yield from bound


def _by_default(queue: str) -> Binding:
    """Return the binding of a queue to the default exchange; RabbitMQ may show it without looking for the queue."""
    return Binding(source="", destination=queue, routing_key=queue)


def exported_binding(binding: Binding, vhost: str) -> dict[str, Any]:
    """Describe a binding as an export does."""
    return {
        "source": binding.source,
        "vhost": vhost,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": plain(binding.arguments),
    }


def _binding_json(binding: Binding, vhost: VirtualHost) -> dict[str, Any]:
    return exported_binding(binding, vhost.name) | {"properties_key": properties_key(binding)}


# Lists


def _all(request: Request) -> Any:
    seen = access.visible_vhosts(request)
    return listing.listed([_binding_json(b, vhost) for vhost in seen for b in all_bindings(vhost)], request, _SORT)


def _of(key: str, kind: str, end: str) -> Handler:
    """Return a handler that lists the bindings whose ``source`` or ``destination`` the path names under ``key``."""

    def handler(request: Request) -> Any:
        name, vhost = request.name(key), request.needed_vhost()
        bindings = [b for b in all_bindings(vhost) if getattr(b, end) == name]
        if end == "destination":
            bindings = [b for b in bindings if b.destination_type == kind]
            if kind == "queue" and name not in vhost.queues:
                bindings.insert(0, _by_default(name))
        return listing.listed([_binding_json(b, vhost) for b in bindings], request, _SORT)

    return handler


def _between(request: Request) -> Any:
    vhost = request.needed_vhost()
    source, kind, destination = _ends(request)
    found = [_by_default(destination)] if (source, kind) == ("", "queue") else _candidates(request)
    return listing.listed([_binding_json(b, vhost) for b in found], request, _SORT)


def _candidates(request: Request) -> list[Binding]:
    vhost = request.vhost
    if vhost is None:
        return []
    ends = _ends(request)
    return [b for b in all_bindings(vhost) if (b.source, b.destination_type, b.destination) == ends]


def _ends(request: Request) -> tuple[str, str, str]:
    """Return the source, the type of the destination, and the destination that the path names."""
    return request.name("source"), _destination_type(request), request.name("destination")


def _destination_type(request: Request) -> str:
    kind = _TYPES.get(request.name("type"))
    if kind is None:
        raise HandlerCrash
    return kind


# One binding


def _found(request: Request) -> Binding | None:
    """Return the binding that the path names, by its arguments' hash, or without one by its routing key."""
    key, tilde, digest = request.name("properties").partition("~")
    routing_key, candidates = unquote_plus(key), _candidates(request)
    if not tilde or not digest:
        return next((b for b in candidates if b.routing_key == routing_key and not b.arguments), None)
    if "~" in digest:
        return None
    hashed = unquote_plus(digest)
    arguments = next((b.arguments for b in candidates if arguments_hash(b.arguments) == hashed), None)
    return next((b for b in candidates if b.routing_key == routing_key and b.arguments == arguments), None)


def _one(request: Request) -> Any:
    return _binding_json(request.found, request.needed_vhost())


def _bind(request: Request) -> Response:
    if len(request.body) > _BODY_BYTES_MAX:
        raise bad_request("Payload size limit exceeded")
    source, kind, destination = _ends(request)
    try:
        document = request.json()
        arguments = arguments_of("binding", document, request.api)
    except TooDeepError:
        raise
    except ApiError as error:
        raise HandlerCrash from error
    key = document.get("routing_key", "")
    if not isinstance(key, str):
        _check_ends(request)
        raise HandlerCrash
    bind = BindQueue if kind == "queue" else BindExchange
    declare(request, lambda channel: bind(channel, destination, source, key, arguments))
    added = Binding(
        source=source,
        destination=destination,
        destination_type=kind,
        routing_key=key,
        arguments=arguments,
    )
    place = f"{quote_plus(request.names['destination'])}/{quote_plus(properties_key(added))}"
    return Response(status_code=201, headers={"Location": place})


def _check_ends(request: Request) -> None:
    """Refuse ends that cannot be bound, which RabbitMQ sees before it uses the key. Raises ``ApiError`` 401 or 404."""
    vhost = request.needed_vhost()
    source, kind, destination = _ends(request)
    if not source or (kind == "exchange" and not destination):
        raise not_authorised("Access refused.")
    if source not in vhost.exchanges:
        raise not_found(amqp_errors.no_exchange(source, vhost.name).explanation)
    if kind == "exchange" and destination not in vhost.exchanges:
        raise not_found(amqp_errors.no_exchange(destination, vhost.name).explanation)
    if kind == "queue" and destination not in vhost.queues:
        raise not_found(amqp_errors.no_queue(destination, vhost.name).explanation)


def _unbind(request: Request) -> None:
    binding: Binding = request.found
    unbind = UnbindQueue if binding.destination_type == "queue" else UnbindExchange
    declare(
        request,
        lambda channel: unbind(channel, binding.destination, binding.source, binding.routing_key, binding.arguments),
    )


_BETWEEN = "/bindings/:vhost/e/:source/:type/:destination"

RESOURCES = (
    Resource("/bindings", _all, allow=access.inhabitants),
    Resource("/bindings/:vhost", _all, allow=access.inhabitants, exists=vhost_exists),
    Resource(_BETWEEN, _between, post=_bind, allow=access.inhabitants, exists=vhost_exists),
    Resource(f"{_BETWEEN}/:properties", _one, delete=_unbind, allow=access.inhabitants, exists=_found),
    Resource(
        "/exchanges/:vhost/:exchange/bindings/source",
        _of("exchange", "exchange", "source"),
        allow=access.inhabitants,
        exists=vhost_exists,
    ),
    Resource(
        "/exchanges/:vhost/:exchange/bindings/destination",
        _of("exchange", "exchange", "destination"),
        allow=access.inhabitants,
        exists=vhost_exists,
    ),
    Resource(
        "/queues/:vhost/:queue/bindings",
        _of("queue", "queue", "destination"),
        allow=access.inhabitants,
        exists=vhost_exists,
    ),
)
