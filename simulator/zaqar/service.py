"""Zaqar's HTTP API v2 as a state machine: a request and the time in, an answer out.

It opens no socket and reads no clock. Queues, messages and claims are served; topics,
subscriptions, signed URLs and the administrator's calls are not.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from dlx.zaqar import PROFILES, limits
from dlx.zaqar.limits import Invalid
from simulator.zaqar import claim_calls, message_calls, queue_calls
from simulator.zaqar.calls import Call
from simulator.zaqar.documents import DocumentStore
from simulator.zaqar.ids import Ids
from simulator.zaqar.redis import RedisStore
from simulator.zaqar.requests import Answer, Refused, Request
from simulator.zaqar.store import Store

_FORM = "application/x-www-form-urlencoded"
_ROUTES: list[tuple[re.Pattern[str], dict[str, Callable[[Call], Answer]]]] = [
    (re.compile(r"/v2/ping"), {method: lambda _: Answer(204) for method in ("GET", "HEAD")}),
    (re.compile(r"/v2/queues"), {"GET": queue_calls.list_all}),
    (
        re.compile(r"/v2/queues/(?P<queue>[^/]+)"),
        {
            "GET": queue_calls.get,
            "PUT": queue_calls.put,
            "PATCH": queue_calls.patch,
            "DELETE": queue_calls.delete,
        },
    ),
    (re.compile(r"/v2/queues/(?P<queue>[^/]+)/stats"), {"GET": queue_calls.stats}),
    (re.compile(r"/v2/queues/(?P<queue>[^/]+)/purge"), {"POST": queue_calls.purge}),
    (
        re.compile(r"/v2/queues/(?P<queue>[^/]+)/messages"),
        {"GET": message_calls.list_all, "POST": message_calls.post, "DELETE": message_calls.delete_many},
    ),
    (
        re.compile(r"/v2/queues/(?P<queue>[^/]+)/messages/(?P<item>[^/]+)"),
        {"GET": message_calls.get, "DELETE": message_calls.delete},
    ),
    (re.compile(r"/v2/queues/(?P<queue>[^/]+)/claims"), {"POST": claim_calls.post}),
    (
        re.compile(r"/v2/queues/(?P<queue>[^/]+)/claims/(?P<item>[^/]+)"),
        {"GET": claim_calls.get, "PATCH": claim_calls.patch, "DELETE": claim_calls.delete},
    ),
]


class Zaqar:
    """A Zaqar of one profile.

    Args:
        profile: a name of ``dlx.zaqar.PROFILES``.
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

    def handle(self, request: Request, now_us: int) -> Answer:
        """Answer one request. ``now_us`` is microseconds since 1970, and never less than before."""
        self.pass_time(now_us)
        try:
            handlers, names = _route(request)
            if request.body is not None and request.headers.get("content-type", "").lower() == _FORM:
                raise _form_refused()
            client, project = _client(request), _project(request)
            if "queue" in names:
                _check_name(names["queue"], project)
            if request.method not in handlers:
                raise Refused(405, "405 Method Not Allowed")
            call = Call(store=self.store, request=request, project=project, client=client, now_us=now_us, **names)
            return handlers[request.method](call)
        except Refused as refused:
            return refused.answer


def _route(request: Request) -> tuple[dict[str, Callable[[Call], Answer]], dict[str, str]]:
    for pattern, handlers in _ROUTES:
        match = pattern.fullmatch(request.path)
        if match:
            return handlers, match.groupdict()
    raise Refused(404, "404 Not Found")


def _client(request: Request) -> str:
    client = request.headers.get("client-id")
    if client is None:
        raise Refused(400, "Missing header value", 'The "Client-Id" header is required.')
    try:
        return str(uuid.UUID(client))
    except ValueError:
        raise Refused(400, "Wrong UUID value", "Malformed hexadecimal UUID.") from None


def _project(request: Request) -> str:
    project = request.headers.get("x-project-id")
    if project is None:
        raise Refused(400, "Project-Id Missing", "The header X-PROJECT-ID was missing")
    if not project:
        text = "X-PROJECT-ID cannot be an empty string. Specify the right header X-PROJECT-ID and retry."
        raise Refused(400, "Empty project header not allowed", text)
    return project


def _check_name(queue: str, project: str) -> None:
    try:
        limits.check_queue_name(queue, project)
    except Invalid as error:
        raise Refused(400, "Invalid queue identification", str(error)) from error


def _form_refused() -> Refused:
    text = (
        f"Endpoint does not accept `{_FORM}` content; currently supported media type is `application/json`; "
        'specify proper client-side media type with the "Content-Type" header.'
    )
    return Refused(400, "Invalid Content-Type", text)
