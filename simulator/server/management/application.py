"""The management API as an ASGI application: find the resource, let the user in, call the handler, show its answer.

The steps are those of RabbitMQ's HTTP server, in its order: no such method (405), who asks
(401), whether the object exists (404), whether the method takes such a body (415), then the
method. A path that no resource has is taken for that of a file, which anybody may ask for.

Source: rabbit_mgmt_dispatcher.erl, rabbit_mgmt_wm_static.erl; cowboy_rest.erl, cowboy_static.erl.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request as HTTPRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dlx.operator_errors import OperatorError, UnforeseenError
from simulator.server.management import (
    access,
    bindings,
    connections,
    definitions,
    exchanges,
    listing,
    overview,
    parameters,
    policies,
    queues,
    shovels,
    simulation,
    traces,
    users,
    vhosts,
)
from simulator.server.management.http_errors import (
    ApiError,
    HandlerCrash,
    MalformedRequest,
    NoCredentials,
    TooDeepError,
    bad_request,
    json_form,
    json_response,
    object_not_found,
    told,
)
from simulator.server.management.page.pages import PAGE, PARTS
from simulator.server.management.request import ManagementState, Request
from simulator.server.management.resources import MalformedPathError, Resource, Router, segments_of
from simulator.server.node import Node

_BODY_BYTES_MAX = 20_000_000
_PATH_BYTES_MAX = 8_000
_PREFIX = "api"
_RESERVED = re.compile(r"[/\\\0]")


class Application:
    """The management API of one node, as an ASGI application.

    Args:
        node: the node that is managed.
    """

    def __init__(self, node: Node) -> None:
        self._state = ManagementState(node)
        self._router = Router([resource for resource in RESOURCES if resource.offered(self._state.api)])
        self._page = Router(PARTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        received = HTTPRequest(scope, receive)
        try:
            body = await _body(received)
        except ApiError as error:
            response = _refusal(error)
        else:
            response = await self._respond(received, body)
        await response(scope, receive, send)

    async def _respond(self, received: HTTPRequest, body: bytes) -> Response:
        path = received.scope.get("raw_path", received.scope["path"].encode()).decode("latin-1").partition("?")[0]
        try:
            segments = segments_of(path)
        except MalformedPathError:
            return Response(status_code=400)
        if segments in ([_PREFIX], ["cli"]):
            return Response(status_code=301, headers={"Location": f"/{segments[0]}/index.html"})
        resource, names = (self._found(segments) if len(path) <= _PATH_BYTES_MAX else None) or (_FILE, {})
        headers = {name.lower(): value for name, value in received.headers.items()}
        peer = received.client.host if received.client else "127.0.0.1"
        query = dict(received.query_params)
        request = Request(self._state, received.method, segments, names, query, headers, body, peer)
        return self._shown(await self._answer(resource, request), resource)

    def _found(self, segments: list[str]) -> tuple[Resource, Mapping[str, str]] | None:
        if not segments:
            return PAGE, {}
        routers = {_PREFIX: self._router, "page": self._page}
        return routers[segments[0]].find(segments[1:]) if segments[0] in routers else None

    async def _answer(self, resource: Resource, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(headers={"Allow": resource.allowed})
        handler = resource.methods.get(request.method)
        if handler is None:
            return Response(status_code=405, headers={"Allow": resource.allowed})
        try:
            if resource.allow is not None:
                request.user = access.authenticate(request)
                resource.allow(request, request.user)
            request.found = resource.exists(request)
            existed = bool(request.found)
            if not existed and request.method in ("GET", "HEAD", "DELETE"):
                raise object_not_found()
            if request.method in ("PUT", "POST") and not resource.takes_type(request):
                return Response(status_code=415)
            answer = handler(request)
            if inspect.isawaitable(answer):
                answer = await answer
            return _success(request, answer, existed)
        except RecursionError:  # a value that was read, but is too deep to be printed
            return _refusal(TooDeepError())
        except (UnforeseenError, HandlerCrash):
            return Response(status_code=500)
        except MalformedRequest:
            return Response(status_code=400)
        except OperatorError as error:
            return _refusal(told(_as_api_error(error), request.api))
        except ApiError as error:
            return _refusal(error)
        except NoCredentials:
            return Response(status_code=401, headers={"WWW-Authenticate": access.REALM})

    def _shown(self, response: Response, resource: Resource) -> Response:
        if self._state.api.allow_header == "always":
            response.headers["Allow"] = resource.allowed
        return response


def _no_file(request: Request) -> Response:
    """Answer for a path without a resource: there are no files."""
    reserved = any(map(_RESERVED.search, request.segments))
    if reserved and request.api.paths_with_reserved_characters == "refused":
        return Response(status_code=400)
    raise object_not_found()


_FILE = Resource("", _no_file, allow=None)


def _success(request: Request, answer: Any, existed: bool) -> Response:
    if isinstance(answer, Response):
        return answer
    if request.method in ("GET", "HEAD") or answer is not None:
        return json_response(listing.shown(answer, request))
    return Response(status_code=201 if request.method == "PUT" and not existed else 204)


def _refusal(error: ApiError | HandlerCrash) -> Response:
    if isinstance(error, HandlerCrash):
        return Response(status_code=500)
    return json_response({"error": error.error, "reason": error.reason}, error.status, error.headers)


def _as_api_error(error: OperatorError) -> ApiError:
    reason = error.text if error.term is None else json_form(error.term)
    return ApiError(error.status, _ERRORS.get(error.status, "bad_request"), reason)


_ERRORS = {404: "not_found", 412: "precondition_failed"}


async def _body(received: HTTPRequest) -> bytes:
    """Return the request's body. Raises ``ApiError`` when it is too long."""
    parts, size = [], 0
    async for part in received.stream():
        size += len(part)
        if size > _BODY_BYTES_MAX:
            raise bad_request("Exceeded HTTP request body size limit")
        parts.append(part)
    return b"".join(parts)


async def _live(receive: Receive, send: Send) -> None:
    """Confirm start and stop to the server; neither needs any work."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return


# All resources of the management API, collected from the modules that describe them.


RESOURCES = (
    *overview.RESOURCES,
    *definitions.RESOURCES,
    *vhosts.RESOURCES,
    *users.RESOURCES,
    *policies.RESOURCES,
    *parameters.RESOURCES,
    *shovels.RESOURCES,
    *exchanges.RESOURCES,
    *queues.RESOURCES,
    *bindings.RESOURCES,
    *connections.RESOURCES,
    *traces.RESOURCES,
    *simulation.RESOURCES,
)
