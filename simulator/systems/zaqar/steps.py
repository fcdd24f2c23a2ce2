"""The steps of a scenario: each is one request to the API, or something that the test does from outside.

``docs/reference/zaqar.md`` describes them. Fields of the API have the API's names and units
(seconds); whether they are in range is Zaqar's to say, in its answers.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Meta

from simulator.systems.zaqar import patching

Seconds = Annotated[float, Meta(ge=0, le=10 * 365 * 86_400)]
Name = Annotated[str, Meta(min_length=1)]


class StepRequest(msgspec.Struct, kw_only=True):
    """A request as a step asks it.

    Attributes:
        body: a text is sent as it is, ``None`` is no body, and any other value is sent as JSON.
        ids: what the messages or the claim that it creates are to be called (``None``: anything).
    """

    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = {}
    ids: list[str | None] = []


class Step(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    """One step. ``at_s`` is when, seconds from the start; without it, at the time of the step before."""

    at_s: Seconds | None = None

    def asked(self) -> StepRequest | None:
        """Return the request that the step makes; ``None`` if it makes none."""
        return None

    def ids(self) -> list[str]:
        """Return the ids that the step gives."""
        asked = self.asked()
        return [id for id in asked.ids if id is not None] if asked else []


class Create(Step, tag="create"):
    """Create a queue (PUT)."""

    queue: Name
    metadata: dict[str, Any] = {}

    def asked(self) -> StepRequest:
        return StepRequest(method="PUT", path=_path(self.queue), body=self.metadata)


class Configure(Step, tag="configure"):
    """Set attributes of a queue, or remove those that are null (PATCH)."""

    queue: Name
    metadata: dict[str, Any]

    def asked(self) -> StepRequest:
        changes = [
            {"op": "remove", "path": f"/metadata/{name}"}
            if value is None
            else {"op": "add", "path": f"/metadata/{name}", "value": value}
            for name, value in self.metadata.items()
        ]
        headers = {"Content-Type": patching.CONTENT_TYPE}
        return StepRequest(method="PATCH", path=_path(self.queue), body=changes, headers=headers)


class Remove(Step, tag="remove"):
    """Delete a queue."""

    queue: Name

    def asked(self) -> StepRequest:
        return StepRequest(method="DELETE", path=_path(self.queue))


class NewMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A message that is posted: the id it gets, and what is sent."""

    id: Name | None = None
    body: Any = {}
    ttl: Any = UNSET
    delay: Any = UNSET


class Post(Step, tag="post"):
    """Post messages."""

    queue: Name
    messages: list[NewMessage]

    def asked(self) -> StepRequest:
        messages = [{"body": one.body, **_given(ttl=one.ttl, delay=one.delay)} for one in self.messages]
        ids = [one.id for one in self.messages]
        return StepRequest(method="POST", path=_path(self.queue, "messages"), body={"messages": messages}, ids=ids)


class Claim(Step, tag="claim"):
    """Claim messages. ``claim`` is the id that the claim gets."""

    queue: Name
    claim: Name | None = None
    ttl: Any = UNSET
    grace: Any = UNSET
    limit: Any = UNSET

    def asked(self) -> StepRequest:
        limit = "" if self.limit is UNSET else f"?limit={self.limit}"
        body = _given(ttl=self.ttl, grace=self.grace) or None
        return StepRequest(method="POST", path=_path(self.queue, "claims") + limit, body=body, ids=[self.claim])


class Renew(Step, tag="renew"):
    """Let a claim last for ``ttl`` seconds from now."""

    queue: Name
    claim: Name
    ttl: Any = UNSET
    grace: Any = UNSET

    def asked(self) -> StepRequest:
        body = _given(ttl=self.ttl, grace=self.grace)
        return StepRequest(method="PATCH", path=_path(self.queue, "claims", self.claim), body=body)


class Release(Step, tag="release"):
    """Give the messages of a claim back."""

    queue: Name
    claim: Name

    def asked(self) -> StepRequest:
        return StepRequest(method="DELETE", path=_path(self.queue, "claims", self.claim))


class GetClaim(Step, tag="get_claim"):
    """Look at a claim."""

    queue: Name
    claim: Name

    def asked(self) -> StepRequest:
        return StepRequest(method="GET", path=_path(self.queue, "claims", self.claim))


class Delete(Step, tag="delete"):
    """Delete a message: by its claim where it has one."""

    queue: Name
    message: Name
    claim: Name | None = None

    def asked(self) -> StepRequest:
        claim = f"?claim_id={quote(self.claim, safe='')}" if self.claim else ""
        return StepRequest(method="DELETE", path=_path(self.queue, "messages", self.message) + claim)


class Get(Step, tag="get"):
    """Look at a message."""

    queue: Name
    message: Name

    def asked(self) -> StepRequest:
        return StepRequest(method="GET", path=_path(self.queue, "messages", self.message))


class Pop(Step, tag="pop"):
    """Take messages out of a queue without a claim of one's own."""

    queue: Name
    limit: Any = 1

    def asked(self) -> StepRequest:
        return StepRequest(method="DELETE", path=f"{_path(self.queue, 'messages')}?pop={self.limit}")


class List(Step, tag="list"):
    """Look at the messages of a queue that are free."""

    queue: Name

    def asked(self) -> StepRequest:
        return StepRequest(method="GET", path=_path(self.queue, "messages") + "?echo=true")


class Stats(Step, tag="stats"):
    """Count the messages of a queue."""

    queue: Name

    def asked(self) -> StepRequest:
        return StepRequest(method="GET", path=_path(self.queue, "stats"))


class AnyRequest(Step, tag="request"):
    """Any request to the API; ``creates`` names the messages or the claim that it creates."""

    method: Name
    path: Name
    body: Any = None
    headers: dict[str, str] = {}
    creates: list[str | None] = []

    def asked(self) -> StepRequest:
        return StepRequest(method=self.method, path=self.path, body=self.body, headers=self.headers, ids=self.creates)


class Look(Step, tag="look"):
    """Look at a message as the driver stores it, which no request can."""

    message: Name


class EndClaims(Step, tag="end_claims"):
    """End all claims on messages by hand, in the database."""


class Wait(Step, tag="wait"):
    """Let time pass."""

    s: Seconds


AnyStep = (
    Create
    | Configure
    | Remove
    | Post
    | Claim
    | Renew
    | Release
    | GetClaim
    | Delete
    | Get
    | Pop
    | List
    | Stats
    | AnyRequest
    | Look
    | EndClaims
    | Wait
)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not UNSET}


def _path(queue: str, *rest: str) -> str:
    return "/".join(["/v2/queues", *(quote(part, safe="") for part in (queue, *rest))])
