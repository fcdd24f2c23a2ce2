"""The API's calls about claims."""

from __future__ import annotations

from typing import Any

from simulator.systems.zaqar import limits
from simulator.systems.zaqar.claims import Terms, Uncountable
from simulator.systems.zaqar.requests import (
    Call,
    Parameters,
    ZaqarAnswer,
    an_object,
    fields,
    formatted,
    read_json,
    unavailable,
)
from simulator.systems.zaqar.store import Failed

_SPEC: list[tuple[str, type | None, Any]] = [
    ("ttl", int, limits.DEFAULT_CLAIM_TTL_S),
    ("grace", int, limits.DEFAULT_CLAIM_GRACE_S),
]


def post(call: Call) -> ZaqarAnswer:
    """Claim messages: 201 with those that are handed out, 204 if no message is free."""
    limit = Parameters(call.request.query).integer("limit")
    wanted = fields(an_object(read_json(call.request.body)) if call.request.body else {}, _SPEC)
    terms = Terms(wanted["ttl"], wanted["grace"])
    limits.check_claim(terms.ttl_s, terms.grace_s, limit)
    most = limit or limits.DEFAULT_ITEMS
    try:
        claim_id, messages = call.store.claim(call.project, call.queue, terms, most, call.now_us)
    except (Failed, Uncountable) as error:
        raise unavailable("Claim could not be created.") from error
    if not messages:
        return ZaqarAnswer(204)
    path = call.request.path
    found = [formatted(message, path.rpartition("/")[0], claim_id) for message in messages]
    return ZaqarAnswer(201, {"messages": found}, f"{path}/{claim_id}")


def get(call: Call) -> ZaqarAnswer:
    """Show a claim and its messages."""
    try:
        found = call.store.claim_info(call.project, call.queue, call.item, call.now_us)
    except Failed as error:
        raise unavailable("Claim could not be queried.") from error
    base = call.request.path.rsplit("/", 2)[0]
    messages = [formatted(message, base, call.item) for message in found["messages"]]
    return ZaqarAnswer(200, {**found, "messages": messages, "href": call.request.path})


def patch(call: Call) -> ZaqarAnswer:
    """Renew a claim."""
    wanted = fields(an_object(read_json(call.request.body)), _SPEC)
    limits.check_claim_ttl(wanted["ttl"])
    terms = Terms(wanted["ttl"], wanted["grace"])
    try:
        call.store.renew(call.project, call.queue, call.item, terms, call.now_us)
    except Failed as error:
        raise unavailable("Claim could not be updated.") from error
    return ZaqarAnswer(204)


def delete(call: Call) -> ZaqarAnswer:
    """Release a claim."""
    try:
        call.store.release(call.project, call.queue, call.item, call.now_us)
    except Failed as error:
        raise unavailable("Claim could not be deleted.") from error
    return ZaqarAnswer(204)
