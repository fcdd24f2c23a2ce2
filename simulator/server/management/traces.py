"""``/api/traces`` and ``/api/trace-files``: start and stop traces, and read their logs.

Source: rabbit_tracing_wm_*.erl.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from simulator.server.management import access
from simulator.server.management.http_errors import HandlerCrash, bad_request
from simulator.server.management.queues import queue_json
from simulator.server.management.request import Request
from simulator.server.management.resources import JSON_ALONE, Resource
from simulator.server.management.running_traces import START_FAILED, Trace


def _trace_json(trace: Trace, request: Request) -> dict[str, Any]:
    vhost = request.broker.vhosts.get(trace.vhost)
    queue = None if vhost is None else vhost.queues.get(trace.queue)
    shown: dict[str, Any] = {} if queue is None else {"queue": queue_json(queue, request)}
    return shown | {"vhost": trace.vhost, "name": trace.name, **trace.settings}


def _all(request: Request) -> Any:
    _check_node(request)
    return [_trace_json(trace, request) for trace in request.management.traces.running.values()]


def _found(request: Request) -> Trace | None:
    return request.management.traces.running.get((request.name("vhost"), request.name("name")))


def _one(request: Request) -> Any:
    _check_node(request)
    return _trace_json(request.found, request)


def _put(request: Request) -> None:
    _check_node(request)
    if request.vhost is None:
        raise HandlerCrash
    document = request.json("format", "pattern")
    if type(document.get("max_payload_bytes", 0)) is not int:
        raise bad_request("max_payload_bytes not integer")
    if document["format"] not in ("json", "text"):
        raise bad_request("format not json or text")
    if not isinstance(document["pattern"], str):
        raise bad_request(START_FAILED)
    hidden = {name: value for name, value in document.items() if name != "tracer_connection_password"}
    request.management.traces.start(request.vhost.name, request.name("name"), hidden, request.user.name)


def _delete(request: Request) -> None:
    request.management.traces.stop(request.name("vhost"), request.name("name"))


def _check_node(request: Request) -> None:
    name = request.names.get("node", request.broker.node)
    if name == request.broker.node:
        return
    if request.api.unknown_node_in_path == "not a member":
        raise bad_request("Node is not a cluster member")
    raise bad_request(f"Node {name} could not be contacted: {{badrpc,nodedown}}")


# Their logs


def _logs(request: Request) -> Any:
    _check_node(request)
    return [{"name": log.name, "size": log.size} for log in request.management.traces.logs.values()]


def _has_log(request: Request) -> bool:
    return request.name("name") in request.management.traces.logs


def _log(request: Request) -> Response:
    _check_node(request)
    return Response(request.management.traces.logs[request.name("name")].content(), media_type="text/plain")


def _delete_log(request: Request) -> None:
    del request.management.traces.logs[request.name("name")]


_ADMIN = access.administrators


def _trace_resources(prefix: str) -> tuple[Resource, ...]:
    return (
        Resource(f"/traces{prefix}", _all, allow=_ADMIN),
        Resource(f"/traces{prefix}/:vhost", _all, allow=_ADMIN),
        Resource(
            f"/traces{prefix}/:vhost/:name",
            _one,
            put=_put,
            delete=_delete,
            allow=_ADMIN,
            exists=_found,
            takes=(JSON_ALONE,),
        ),
        Resource(f"/trace-files{prefix}", _logs, allow=_ADMIN),
        Resource(f"/trace-files{prefix}/:name", _log, delete=_delete_log, allow=_ADMIN, exists=_has_log),
    )


RESOURCES = (*_trace_resources(""), *_trace_resources("/node/:node"))
