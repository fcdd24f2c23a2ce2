"""The API's calls about queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.systems.zaqar import limits, metadata
from simulator.systems.zaqar.claims import Uncountable
from simulator.systems.zaqar.limits import Invalid
from simulator.systems.zaqar.metadata import DEAD_LETTER_QUEUE
from simulator.systems.zaqar.requests import (
    Call,
    Parameters,
    RequestError,
    ZaqarAnswer,
    an_object,
    bad_api,
    bad_body,
    query_text,
    read_json,
    unavailable,
    unforeseen,
    unreadable,
)
from simulator.systems.zaqar.store import Failed, NotFoundError

_MEDIA_TYPE = f"Accepted media type for PATCH: {{'Accept-Patch': '{metadata.PATCH_CONTENT_TYPE}'}}."
_RESOURCES = ("messages", "subscriptions")
_LISTING = ("marker", "limit", "detailed", "name", "with_count")
_PURGE_AT_ONCE = 100


def put(call: Call) -> ZaqarAnswer:
    """Create a queue, or change nothing if it exists."""
    body = call.request.body
    try:
        _check_length(body)
        wanted = an_object(read_json(body)) if body else {}
        metadata.check(wanted)
        _check_target(call, wanted)
    except TypeError as error:
        raise unforeseen(error) from error
    try:
        made = call.store.create_queue(call.project, call.queue, wanted)
    except Failed as error:
        raise unavailable("Queue could not be created.") from error
    return ZaqarAnswer(201 if made else 204, location=call.request.path)


def get(call: Call) -> ZaqarAnswer:
    """Show the metadata; the defaults for a queue that was never created."""
    known = call.store.queue_exists(call.project, call.queue)
    return ZaqarAnswer(200, metadata.shown(call.store.metadata(call.project, call.queue) if known else {}))


def patch(call: Call) -> ZaqarAnswer:
    """Change the metadata."""
    body = call.request.body
    try:
        _check_length(body)
    except Invalid as error:
        raise bad_body(str(error)) from error
    if call.request.headers.get("content-type") != metadata.PATCH_CONTENT_TYPE:
        raise RequestError(415, "415 Unsupported Media Type", _MEDIA_TYPE)
    if not body:
        raise bad_body("PATCH body could not be empty for update.")
    document = read_json(body)
    if not isinstance(document, list):
        raise unreadable()
    try:
        changes = metadata.read_changes(document)
        changed = metadata.patched(call.store.metadata(call.project, call.queue), changes)
        _check_target(call, changed)
        call.store.set_metadata(call.project, call.queue, changed)
    except metadata.Conflict as error:
        raise RequestError(409, "Resource conflict", str(error)) from error
    except Invalid as error:
        raise bad_body(str(error)) from error
    except (TypeError, Failed) as error:
        raise unavailable("Queue could not be updated.") from error
    return ZaqarAnswer(200, metadata.shown(changed))


def delete(call: Call) -> ZaqarAnswer:
    """Delete a queue with its messages."""
    call.store.delete_queue(call.project, call.queue, call.now_us)
    return ZaqarAnswer(204)


def list_all(call: Call) -> ZaqarAnswer:
    """List the queues of the project, page by page."""
    asked = Parameters(call.request.query)
    asked.check_filters(known=_LISTING)
    marker, limit = asked.text("marker"), asked.integer("limit")
    detailed, name, counted = asked.boolean("detailed"), asked.text("name"), asked.boolean("with_count")
    options = {"marker": marker, "limit": limit, "detailed": detailed, "name": name, "with_count": counted}
    link = {key: value for key, value in options.items() if value is not None}
    limits.check_queues_limit(limit)
    page = call.store.queues(call.project, marker, limit or limits.DEFAULT_ITEMS)
    queues = [_listed(call.request.path, name, found, bool(detailed)) for name, found in page]
    answer: dict[str, Any] = {"queues": queues, "links": []}
    if queues:
        link["marker"] = queues[-1]["name"] or marker or ""  # an empty name is none, and the page comes again
        answer["links"] = [{"rel": "next", "href": call.request.path + query_text(link)}]
    total = len(call.store.queues(call.project, None, 1 << 62)) if counted else 0
    return ZaqarAnswer(200, answer | ({"count": total} if total else {}))


def stats(call: Call) -> ZaqarAnswer:
    """Show how many messages there are, and the oldest and newest."""
    try:
        found = call.store.stats(call.project, call.queue, call.now_us)
    except NotFoundError:
        found = {"claimed": 0, "free": 0, "total": 0}
    except Failed as error:
        raise unavailable("Queue stats could not be read.") from error
    base = call.request.path.rpartition("/")[0] + "/messages/"
    for name in {"newest", "oldest"} & set(found):
        found[name]["href"] = base + found[name].pop("id")
    return ZaqarAnswer(200, {"messages": found})


def purge(call: Call) -> ZaqarAnswer:
    """Pop all messages that can be popped. Zaqar's subscriptions are not simulated."""
    kinds: Any = _RESOURCES
    if call.request.body:
        document = read_json(call.request.body)
        if "resource_types" not in document:
            raise bad_api('Post body must contain key "resource_types".')
        try:
            kinds = document["resource_types"]
            known = set(kinds) <= set(_RESOURCES)
        except TypeError as error:
            raise unforeseen(error) from error
        if not known:
            # Zaqar prints a set, in whatever order that has.
            raise bad_api("Resource types must be a sub set of {'messages', 'subscriptions'}.")
    try:
        while "messages" in kinds and call.store.pop(call.project, call.queue, _PURGE_AT_ONCE, call.now_us):
            pass
    except (Failed, Uncountable) as error:
        raise unavailable("Queue could not be purged.") from error
    return ZaqarAnswer(204)


def _check_length(body: bytes | None) -> None:
    if body is not None and len(body) > limits.METADATA_BYTES_MAX:
        raise Invalid(f"Queue metadata is too large. Max size: {limits.METADATA_BYTES_MAX}")


def _check_target(call: Call, wanted: Mapping[str, Any]) -> None:
    """Only the document wants the dead-letter queue to be there; these words are ours."""
    name = wanted.get(DEAD_LETTER_QUEUE)
    if name is None or not call.store.profile.checks_dead_letter_queue:
        return
    if not isinstance(name, str) or not call.store.queue_exists(call.project, name):
        raise Invalid("_dead_letter_queue must be the name of a queue that exists.")


def _listed(path: str, name: str, found: Mapping[str, Any], detailed: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "href": f"{path}/{name}"}
    return entry | ({"metadata": metadata.shown(found)} if detailed else {})
