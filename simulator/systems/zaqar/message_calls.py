"""The API's calls about messages."""

from __future__ import annotations

from typing import Any

from simulator.systems.zaqar import limits
from simulator.systems.zaqar.claims import Uncountable
from simulator.systems.zaqar.requests import (
    Call,
    Parameters,
    RequestError,
    ZaqarAnswer,
    an_array,
    bad_api,
    fields,
    formatted,
    not_found,
    query_text,
    read_json,
    unavailable,
)
from simulator.systems.zaqar.store import Claimed, ClaimMissing, Draft, Failed, NotClaimed, NotFoundError, PageQuery

_UNABLE = "Unable to delete"


def post(call: Call) -> ZaqarAnswer:
    """Post messages; a queue that is not there is created first, whatever the body holds."""
    call.store.create_queue(call.project, call.queue, {})
    metadata = call.store.metadata(call.project, call.queue)
    spec: list[tuple[str, type | None, Any]] = [
        ("ttl", int, metadata.get("_default_message_ttl") or limits.DEFAULT_MESSAGE_TTL_S),
        ("body", None, None),
    ]
    delay_s = metadata.get("_default_message_delay")
    if delay_s:
        spec.append(("delay", int, delay_s))
    _check_length(call.request.body, metadata.get("_max_messages_post_size"))
    document = read_json(call.request.body)
    if "messages" not in document:
        raise bad_api("No messages were found in the request body.")
    wanted = [fields(message, spec) for message in an_array(document["messages"])]
    if not wanted:
        raise bad_api("No messages to enqueu.")
    for message in wanted:
        limits.check_message_ttl(message["ttl"])
        limits.check_message_delay(message.get("delay", 0))
    drafts = [Draft(message["body"], message["ttl"], message.get("delay", 0)) for message in wanted]
    try:
        ids = call.store.post(call.project, call.queue, drafts, call.client, call.now_us)
    except Failed as error:
        raise unavailable("Messages could not be enqueued.") from error
    path = call.request.path
    return ZaqarAnswer(201, {"resources": [f"{path}/{id}" for id in ids]}, f"{path}?ids={','.join(ids)}")


def list_all(call: Call) -> ZaqarAnswer:
    """List messages of a queue: those with the given ids, or page by page."""
    asked = Parameters(call.request.query)
    ids = asked.list("ids")
    return _page(call, asked) if ids is None else _by_id(call, ids)


def get(call: Call) -> ZaqarAnswer:
    """Show one message."""
    message = call.store.get(call.project, call.queue, call.item, call.now_us)
    return ZaqarAnswer(200, formatted(message, call.request.path.rsplit("/", 2)[0], message["claim_id"]))


def delete(call: Call) -> ZaqarAnswer:
    """Delete one message; a claimed one needs the id of its claim."""
    try:
        claim_id = Parameters(call.request.query).text("claim_id")
        call.store.delete(call.project, call.queue, call.item, claim_id, call.now_us)
    except NotClaimed as error:
        text = "A claim was specified, but the message is not currently claimed."
        raise RequestError(400, _UNABLE, text) from error
    except ClaimMissing as error:
        raise RequestError(400, _UNABLE, "The specified claim does not exist or has expired.") from error
    except Claimed as error:
        text = "This message is claimed; it cannot be deleted without a valid claim ID."
        raise RequestError(403, _UNABLE, text) from error
    except (Failed, RequestError) as error:
        raise unavailable("Message could not be deleted.") from error
    return ZaqarAnswer(204)


def delete_many(call: Call) -> ZaqarAnswer:
    """Delete messages by their ids, or pop some."""
    asked = Parameters(call.request.query)
    ids, pop = asked.list("ids"), asked.integer("pop")
    limits.check_deletion(ids, pop)
    if ids is not None:
        call.store.delete_many(call.project, call.queue, ids, call.now_us)
        return ZaqarAnswer(204)
    assert pop is not None
    try:
        return ZaqarAnswer(200, {"messages": call.store.pop(call.project, call.queue, pop, call.now_us)})
    except (Failed, Uncountable) as error:
        raise unavailable("Messages could not be popped.") from error


def _page(call: Call, asked: Parameters) -> ZaqarAnswer:
    options: dict[str, Any] = {
        "marker": asked.text("marker"),
        "limit": asked.integer("limit"),
        "echo": asked.boolean("echo"),
        "include_claimed": asked.boolean("include_claimed"),
        "include_delayed": asked.boolean("include_delayed"),
    }
    link: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    limits.check_limit(asked.integer("limit"))
    try:
        if not call.store.metadata(call.project, call.queue).get("_default_message_delay"):
            link["include_delayed"] = True
        page = PageQuery(client=call.client, **link)
        messages, marker = call.store.page(call.project, call.queue, page, call.now_us)
    except NotFoundError:
        messages, marker = [], ""
    except Failed as error:
        raise unavailable("Messages could not be listed.") from error
    if not messages:
        return ZaqarAnswer(200, {"messages": [], "links": []})
    link["marker"] = marker
    return ZaqarAnswer(
        200,
        {
            "messages": _formatted(call, messages),
            "links": [{"rel": "next", "href": call.request.path + query_text(link)}],
        },
    )


def _by_id(call: Call, ids: list[str]) -> ZaqarAnswer:
    limits.check_limit(len(ids))
    messages = call.store.get_many(call.project, call.queue, ids, call.now_us)
    if not messages:
        where = f"found in the queue {call.queue} for project {call.project}."
        raise not_found(f"No messages with IDs: {ids} {where}")
    return ZaqarAnswer(200, {"messages": _formatted(call, messages)})


def _formatted(call: Call, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    base = call.request.path.rpartition("/")[0]
    return [formatted(message, base, message["claim_id"]) for message in messages]


def _check_length(body: bytes | None, of_queue: Any) -> None:
    most, size = limits.POST_BYTES_MAX, len(body or b"")
    if isinstance(of_queue, int) and of_queue and size > min(of_queue, most):
        raise bad_api(
            f"Message collection size is too large. The max size for current queue is {min(of_queue, most)}. "
            f"It is calculated by max size = min(max_messages_post_size_config: {most}, "
            f"max_messages_post_size_queue: {of_queue})."
        )
    if size > most:
        raise bad_api(f"Message collection size is too large. Max size {most}")
