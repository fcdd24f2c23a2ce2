"""``/api/histories``, which RabbitMQ does not have: what happened to each message, and why.

``GET /api/histories`` lists messages, ``GET /api/histories/NUMBER`` explains one
(``simulator.message_history``). Filters: ``vhost``, ``queue``, ``message_id``; ``ended``: whether
nothing is left of it, and ``lost``: whether a copy was lost (true or false). ``/api/lives`` is
the older name of the same resources.
"""

from __future__ import annotations

from typing import Any

from simulator.message_history import MessageHistory, RecordingBroker
from simulator.server.management import access, listing
from simulator.server.management.http_errors import ApiError, bad_request, object_not_found
from simulator.server.management.request import Request
from simulator.server.management.resources import Resource

_FLAGS = {"true": True, "false": False}


def _recorder(request: Request) -> RecordingBroker:
    recorder = request.management.recorder
    if recorder is None:
        raise ApiError(404, "not_found", "the server does not record what happens to messages")
    return recorder


def _histories(request: Request) -> Any:
    ended, lost = (_FLAGS.get(request.query.get(name, "")) for name in ("ended", "lost"))
    found = _recorder(request).histories.find(
        vhost=request.query.get("vhost"),
        queue=request.query.get("queue"),
        message_id=request.query.get("message_id"),
        ended=ended,
        lost=lost,
    )
    seen = (history for history in found if access.sees_vhost(request, history.vhost))
    return listing.listed([_summary(history) for history in seen], request, ("uid",))


def _summary(history: MessageHistory) -> dict[str, Any]:
    return {
        "uid": history.uid,
        "vhost": history.vhost,
        "message_id": history.message_id,
        "ended": history.ended,
        "queues": list(history.queues),
        "last": history.last(),
        "loss": history.loss,
    }


def _history(request: Request) -> Any:
    recorder = _recorder(request)
    try:
        history = recorder.histories.get(int(request.name("uid")))
    except ValueError as error:
        raise bad_request(f"expected a number of a message, got {request.name('uid')!r:.60}") from error
    if history is None or not access.sees_vhost(request, history.vhost):
        raise object_not_found()
    return {**_summary(history), "sentences": recorder.explain(history.uid), "events": history.to_json()}


RESOURCES = (
    Resource("/histories", _histories),
    Resource("/histories/:uid", _history),
    Resource("/lives", _histories),  # the paths of older versions
    Resource("/lives/:uid", _history),
)
