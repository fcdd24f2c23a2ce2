"""Zaqar's HTTP API v2 as a state machine: a request and the time in, an answer out.

It opens no socket and reads no clock. Queues, messages and claims are served; what else Zaqar
has is answered with 501, after the checks that all calls go through. Administrators' calls are
not there, as on a Zaqar that is not in their mode.
"""

from __future__ import annotations

import re
import uuid
from urllib.parse import urljoin

import msgspec

from simulator.systems.zaqar import claim_calls, limits, message_calls, queue_calls
from simulator.systems.zaqar.documents import DocumentStore
from simulator.systems.zaqar.limits import Invalid
from simulator.systems.zaqar.profiles import PROFILES
from simulator.systems.zaqar.redis import RedisStore
from simulator.systems.zaqar.requests import (
    JSON,
    Call,
    Handlers,
    Request,
    RequestError,
    ZaqarAnswer,
    accepts_json,
    bad_api,
    not_found,
    type_of_errors,
)
from simulator.systems.zaqar.store import Ids, NotFoundError, Store

_VERSION_2 = {
    "id": "2",
    "status": "CURRENT",
    "updated": "2014-9-24T04:06:47Z",
    "media-types": [{"base": "application/json", "type": "application/vnd.openstack.messaging-v2+json"}],
    "links": [{"href": "/v2/", "rel": "self"}],
}


def versions(call: Call) -> ZaqarAnswer:
    """List the versions: there is one."""
    return ZaqarAnswer(300, {"versions": [_VERSION_2]})


_SUBSCRIPTIONS = {
    r"subscriptions": "GET POST",
    r"subscriptions/(?P<item>[^/]*)": "DELETE GET PATCH",
    r"subscriptions/(?P<item>[^/]*)/confirm": "PUT",
}
_TOPICS = {
    r"/v2/topics": "GET",
    r"/v2/topics/(?P<topic>[^/]*)": "DELETE GET PATCH PUT",
    r"/v2/topics/(?P<topic>[^/]*)/stats": "GET",
    r"/v2/topics/(?P<topic>[^/]*)/purge": "POST",
    r"/v2/topics/(?P<topic>[^/]*)/messages": "DELETE GET POST",
    r"/v2/topics/(?P<topic>[^/]*)/messages/(?P<item>[^/]*)": "DELETE GET",
}


def _not_simulated(what: str, paths: dict[str, str]) -> list[tuple[re.Pattern[str], Handlers]]:
    """Return the routes of calls that Zaqar has and dlx has not, each with its methods: they are answered with 501."""

    def refuse(call: Call) -> ZaqarAnswer:
        text = f"Zaqar has {what}; dlx does not simulate them. docs/reference/zaqar.md lists what it simulates."
        raise RequestError(501, "Not simulated", text)

    return [(re.compile(path), dict.fromkeys(methods.split(), refuse)) for path, methods in paths.items()]


_FORM = "application/x-www-form-urlencoded"
_ABOUT_ACCEPT = {
    "text": "14.1 Accept, Hypertext Transfer Protocol -- HTTP/1.1",
    "href": "http://www.w3.org/Protocols/rfc2616/rfc2616-sec14.html",
    "rel": "help",
}
_VERSIONS = "/"
"""The one path that needs no headers."""
_ROUTES: list[tuple[re.Pattern[str], Handlers]] = [
    (re.compile(_VERSIONS), {"GET": versions}),
    (re.compile(r"/v2/ping"), {method: lambda _: ZaqarAnswer(204) for method in ("GET", "HEAD")}),
    (re.compile(r"/v2/queues"), {"GET": queue_calls.list_all}),
    (
        re.compile(r"/v2/queues/(?P<queue>[^/]*)"),
        {
            "GET": queue_calls.get,
            "PUT": queue_calls.put,
            "PATCH": queue_calls.patch,
            "DELETE": queue_calls.delete,
        },
    ),
    (re.compile(r"/v2/queues/(?P<queue>[^/]*)/stats"), {"GET": queue_calls.stats}),
    (re.compile(r"/v2/queues/(?P<queue>[^/]*)/purge"), {"POST": queue_calls.purge}),
    (
        re.compile(r"/v2/queues/(?P<queue>[^/]*)/messages"),
        {"GET": message_calls.list_all, "POST": message_calls.post, "DELETE": message_calls.delete_many},
    ),
    (
        re.compile(r"/v2/queues/(?P<queue>[^/]*)/messages/(?P<item>[^/]*)"),
        {"GET": message_calls.get, "DELETE": message_calls.delete},
    ),
    (re.compile(r"/v2/queues/(?P<queue>[^/]*)/claims"), {"POST": claim_calls.post}),
    (
        re.compile(r"/v2/queues/(?P<queue>[^/]*)/claims/(?P<item>[^/]*)"),
        {"GET": claim_calls.get, "PATCH": claim_calls.patch, "DELETE": claim_calls.delete},
    ),
    *_not_simulated("documents about itself", {"/v2/": "GET"}),
    *_not_simulated("signed URLs", {r"/v2/queues/(?P<queue>[^/]*)/share": "POST"}),
    *_not_simulated(
        "subscriptions", {rf"/v2/queues/(?P<queue>[^/]*)/{path}": methods for path, methods in _SUBSCRIPTIONS.items()}
    ),
    *_not_simulated("topics", _TOPICS),
    *_not_simulated(
        "topics", {rf"/v2/topics/(?P<topic>[^/]*)/{path}": methods for path, methods in _SUBSCRIPTIONS.items()}
    ),
]
# HTTP's methods and those of WebDAV: Zaqar takes no other as a method.
_METHODS = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE", "QUERY", "CHECKIN", "CHECKOUT"}
    | {"COPY", "LOCK", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "REPORT", "UNCHECKIN", "UNLOCK", "UPDATE"}
    | {"VERSION-CONTROL"}
)


class Zaqar:
    """A Zaqar of one profile.

    Args:
        profile: a name of ``simulator.systems.zaqar.profiles.PROFILES``.
        seed: for the ids of messages and claims.

    Attributes:
        store: the driver, with its journal of what happened to messages.
        ids: where ids come from.

    Raises ``ValueError`` for an unknown profile.
    """

    def __init__(self, profile: str = "redis", *, seed: int = 0) -> None:
        if profile not in PROFILES:
            raise ValueError(f"unknown profile {profile!r}: choose one of {', '.join(PROFILES)}")
        self.ids = Ids(seed)
        self.store: Store = RedisStore(self.ids) if profile == "redis" else DocumentStore(PROFILES[profile], self.ids)

    def pass_time(self, now_us: int) -> None:
        """Let everything happen that is due by ``now_us``, microseconds since 1970."""
        self.store.pass_time(now_us)

    def handle(self, request: Request, now_us: int) -> ZaqarAnswer:
        """Answer one request. ``now_us`` is microseconds since 1970, and never less than before."""
        self.pass_time(now_us)
        if request.path.startswith("//"):  # Python's server of HTTP takes them for one
            request = msgspec.structs.replace(request, path=f"/{request.path.lstrip('/')}")
        try:
            return self._answer(request, now_us)
        except RequestError as refused:
            if request.method == "OPTIONS":  # a browser that asks ahead learns nothing, and is not refused
                return ZaqarAnswer(200, bare=True)
            told_as = type_of_errors(request.headers.get("accept"))
            answer = msgspec.structs.replace(refused.answer, media_type=told_as or JSON)
            shown = request.method != "HEAD" and told_as is not None
            return answer if shown else msgspec.structs.replace(answer, document=None)

    def _answer(self, request: Request, now_us: int) -> ZaqarAnswer:
        handlers, names = _route(request)
        if request.body is not None and request.headers.get("content-type", "").lower() == _FORM:
            raise _form_refused()
        if not accepts_json(request.headers.get("accept")):
            raise _not_acceptable()
        open_to_all = request.path == _VERSIONS
        client, project = ("", "") if open_to_all else (_client(request), _project(request))
        for kind in ("queue", "topic"):
            if kind in names:
                _check_name(kind, names[kind], project)
        if request.method == "OPTIONS":
            return ZaqarAnswer(200, headers={"Allow": ", ".join(sorted(handlers))})
        if request.method not in handlers:
            raise _no_method(request.method, handlers)
        names.pop("topic", None)
        call = Call(store=self.store, request=request, project=project, client=client, now_us=now_us, **names)
        try:
            answer = handlers[request.method](call)
        except Invalid as error:
            raise bad_api(str(error)) from error
        except NotFoundError as error:
            raise not_found(str(error)) from error
        if answer.location is None:
            return answer
        return msgspec.structs.replace(answer, location=urljoin("/", answer.location))  # . and .. are resolved there


def _route(request: Request) -> tuple[Handlers, dict[str, str]]:
    for pattern, handlers in _ROUTES:
        match = pattern.fullmatch(request.path)
        if match:
            return handlers, match.groupdict()
    raise RequestError(404, "404 Not Found")


def _client(request: Request) -> str:
    client = request.headers.get("client-id")
    if client is None:
        raise RequestError(400, "Missing header value", 'The "Client-Id" header is required.')
    try:
        return str(uuid.UUID(client))
    except ValueError:
        raise RequestError(400, "Wrong UUID value", "Malformed hexadecimal UUID.") from None


def _project(request: Request) -> str:
    project = request.headers.get("x-project-id")
    if project is None:
        raise RequestError(400, "Project-Id Missing", "The header X-PROJECT-ID was missing")
    if not project:
        text = "X-PROJECT-ID cannot be an empty string. Specify the right header X-PROJECT-ID and retry."
        raise RequestError(400, "Empty project header not allowed", text)
    return project


def _check_name(kind: str, name: str, project: str) -> None:
    try:
        limits.check_name(kind, name, project)
    except Invalid as error:
        raise RequestError(400, f"Invalid {kind} identification", str(error)) from error


def _no_method(method: str, handlers: Handlers) -> RequestError:
    if method not in _METHODS:
        return RequestError(400, "Bad request", "Invalid HTTP method")
    return RequestError(405, "405 Method Not Allowed", headers={"Allow": ", ".join([*sorted(handlers), "OPTIONS"])})


def _not_acceptable() -> RequestError:
    text = 'Endpoint only serves `application/json`; specify client-side media type support with the "Accept" header.'
    return RequestError(406, "406 Not Acceptable", text, link=_ABOUT_ACCEPT)


def _form_refused() -> RequestError:
    text = (
        f"Endpoint does not accept `{_FORM}` content; currently supported media type is `application/json`; "
        'specify proper client-side media type with the "Content-Type" header.'
    )
    return RequestError(400, "Invalid Content-Type", text)
