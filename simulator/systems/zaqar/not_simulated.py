"""The calls that Zaqar has and dlx has not: they are answered with 501, after the checks that all calls go through."""

from __future__ import annotations

import re

from simulator.systems.zaqar.calls import Call, Handlers
from simulator.systems.zaqar.requests import RequestError, ZaqarAnswer

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


def _handlers(what: str, methods: str) -> Handlers:
    def refuse(call: Call) -> ZaqarAnswer:
        text = f"Zaqar has {what}; dlx does not simulate them. docs/reference/zaqar.md lists what it simulates."
        raise RequestError(501, "Not simulated", text)

    return dict.fromkeys(methods.split(), refuse)


def _routes(what: str, paths: dict[str, str]) -> list[tuple[re.Pattern[str], Handlers]]:
    return [(re.compile(path), _handlers(what, methods)) for path, methods in paths.items()]


ROUTES: list[tuple[re.Pattern[str], Handlers]] = [
    *_routes("documents about itself", {"/v2/": "GET"}),
    *_routes("signed URLs", {r"/v2/queues/(?P<queue>[^/]*)/share": "POST"}),
    *_routes(
        "subscriptions", {rf"/v2/queues/(?P<queue>[^/]*)/{path}": methods for path, methods in _SUBSCRIPTIONS.items()}
    ),
    *_routes("topics", _TOPICS),
    *_routes("topics", {rf"/v2/topics/(?P<topic>[^/]*)/{path}": methods for path, methods in _SUBSCRIPTIONS.items()}),
]
"""Path, and the methods that Zaqar answers there."""
