"""The calls of IronMQ's API: a project, a request and the time in, status and body out.

The HTTP server and the scenarios both make their calls here.

Source: API reference, Queues and Messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from simulator.systems.ironmq import requests, settings
from simulator.systems.ironmq.fields import text, whole
from simulator.systems.ironmq.project import Project
from simulator.systems.ironmq.queues import Message, Queue, QueuedMessage
from simulator.systems.ironmq.settings import Settings

_PAGE = 30


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call.

    Attributes:
        now_us: when, microseconds since 1970.
        queue, message: the names in the path.
        request: the JSON object in the body, or the query.
    """

    now_us: int
    queue: str = ""
    message: str = ""
    request: Mapping[str, Any] = {}


Answer = tuple[int, dict[str, Any]]
Operation = Callable[[Project, Call], Answer]


# Queues


def create(project: Project, call: Call) -> Answer:
    """Create a queue, or update it."""
    queue = project.configure(call.queue, call.request.get("queue"), call.now_us)
    return 200, {"queue": _configuration(project, queue)}


def update(project: Project, call: Call) -> Answer:
    """Update a queue."""
    queue = project.update(call.queue, call.request.get("queue"), call.now_us)
    return 200, {"queue": _information(project, queue)}


def info(project: Project, call: Call) -> Answer:
    """Describe a queue."""
    return 200, {"queue": _information(project, project.queue(call.queue, call.now_us))}


def remove(project: Project, call: Call) -> Answer:
    """Delete a queue."""
    project.delete_queue(call.queue, call.now_us)
    return 200, {"msg": "Deleted"}


def names(project: Project, call: Call) -> Answer:
    """List a page of queues, in alphabetical order."""
    per_page = whole(call.request, "per_page", 1, 100, _PAGE)
    prefix = text(call.request, "prefix") or ""
    previous = text(call.request, "previous") or ""
    listed = [name for name in sorted(project.queues) if name.startswith(prefix) and name > previous]
    return 200, {"queues": [{"name": name} for name in listed[:per_page]]}


def _subscribers(change: Callable[[Settings, object], Settings], project: Project, call: Call) -> Answer:
    wanted = call.request.get("subscribers")
    project.change(call.queue, lambda before: change(before, wanted), call.now_us)
    return 200, {"msg": "Updated"}


def _configuration(project: Project, queue: Queue) -> dict[str, Any]:
    return {"project_id": project.name, "name": queue.name, **queue.settings.shown()}


def _information(project: Project, queue: Queue) -> dict[str, Any]:
    counts = {"size": len(queue.messages), "total_messages": queue.total_messages}
    return _configuration(project, queue) | counts


# Messages


def post(project: Project, call: Call) -> Answer:
    """Put messages on a queue."""
    ids = project.post(call.queue, requests.posts(call.request), call.now_us)
    return 201, {"ids": ids, "msg": "Messages put on queue."}


def reserve(project: Project, call: Call) -> Answer:
    """Reserve messages. Does not wait: the caller may call again."""
    found = project.reserve(call.queue, requests.reserve(call.request), call.now_us)
    return 200, {"messages": [_reservation(stored) for stored in found]}


def get(project: Project, call: Call) -> Answer:
    """Return one message."""
    return 200, {"message": _shown(project.message(call.queue, call.message, call.now_us))}


def peek(project: Project, call: Call) -> Answer:
    """Return the next messages, without reserving them."""
    n = whole(call.request, "n", 1, requests.BATCH_MAX, 1)
    return 200, {"messages": [_shown(message) for message in project.peek(call.queue, n, call.now_us)]}


def push_statuses(project: Project, call: Call) -> Answer:
    """Show what the subscribers of a push queue answered to a message."""
    return 200, {"subscribers": project.statuses(call.queue, call.message, call.now_us)}


def touch(project: Project, call: Call) -> Answer:
    """Extend a reservation."""
    reservation_id = project.touch(call.queue, call.message, requests.touch(call.request), call.now_us)
    return 200, {"reservation_id": reservation_id, "msg": "Touched"}


def release(project: Project, call: Call) -> Answer:
    """Give up a reservation."""
    project.release(call.queue, call.message, requests.release(call.request), call.now_us)
    return 200, {"msg": "Released"}


def delete(project: Project, call: Call) -> Answer:
    """Delete one message."""
    project.delete(call.queue, requests.deletes({"ids": [{**call.request, "id": call.message}]}), call.now_us)
    return 200, {"msg": "Deleted"}


def delete_several(project: Project, call: Call) -> Answer:
    """Delete the messages that are named; with an empty body, all of the queue."""
    if not call.request:
        return clear(project, call)
    project.delete(call.queue, requests.deletes(call.request), call.now_us)
    return 200, {"msg": "Deleted"}


def clear(project: Project, call: Call) -> Answer:
    """Delete all messages of a queue."""
    project.clear(call.queue, call.now_us)
    return 200, {"msg": "Cleared"}


def _shown(message: Message) -> dict[str, Any]:
    return {"id": message.id, "body": message.body, "reserved_count": message.reserved_count}


def _reservation(stored: QueuedMessage) -> dict[str, Any]:
    return {**_shown(stored.message), "reservation_id": stored.reservation_id}


add_subscribers: Operation = partial(_subscribers, settings.subscribers_added)
replace_subscribers: Operation = partial(_subscribers, settings.subscribers_replaced)
remove_subscribers: Operation = partial(_subscribers, settings.subscribers_removed)
