"""A scenario of what an application does with Zaqar and when: read from plain values and run in virtual time.

``docs/reference/zaqar.md`` describes the form. Each step is one request to the API, or something that the test does
from outside. Fields of the API have the API's names and units (seconds); whether they are in range is Zaqar's to say,
in its answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET, Meta

from simulator.events import Happened
from simulator.scenario.scenario_errors import ScenarioError, convert_part
from simulator.systems.zaqar.metadata import PATCH_CONTENT_TYPE
from simulator.systems.zaqar.profiles import PROFILES
from simulator.systems.zaqar.requests import Request, ZaqarAnswer
from simulator.systems.zaqar.service import Zaqar
from simulator.systems.zaqar.store import SECOND_US

SYSTEM = "zaqar"
START_US = 1_767_225_600 * SECOND_US
"""When a scenario begins that does not say: the start of 2026, a whole second."""

_CONSUMER = "00000000-0000-4000-8000-000000000001"
_PRODUCER = "00000000-0000-4000-8000-000000000002"

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
        headers = {"Content-Type": PATCH_CONTENT_TYPE}
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


class Scenario(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario.

    Attributes:
        steps: what the application does.
        queues: the metadata of the queues that are created first, by name, in their order.
        profile: which Zaqar.
        project: whose queues.
        seed: of the ids that the scenario does not give.
        start_us: when it begins, microseconds since 1970.
        until_s: how long it goes on at least, seconds from the start.
    """

    steps: list[AnyStep]
    queues: dict[str, dict[str, Any]] = {}
    system: Annotated[str, Meta(extra_json_schema={"const": SYSTEM})] = SYSTEM
    profile: Annotated[str, Meta(extra_json_schema={"enum": list(PROFILES)})] = "redis"
    project: str = "project"
    seed: int = 0
    start_us: int = START_US
    until_s: Seconds = 0


def read(document: Mapping[str, Any]) -> Scenario:
    """Read a scenario from a document. Raises ``ScenarioError``."""
    scenario = convert_part(dict(document), Scenario)
    if scenario.system != SYSTEM:
        raise ScenarioError("system", f"{scenario.system!r}; expected {SYSTEM!r}")
    if scenario.profile not in PROFILES:
        raise ScenarioError("profile", f"{scenario.profile!r}; expected one of {', '.join(PROFILES)}")
    used: set[str] = set()
    for number, step in enumerate(scenario.steps):
        for id in step.ids():
            if id in used:
                raise ScenarioError(f"steps[{number}]", f"the id {id!r} is taken already; expected one of its own")
            used.add(id)
    return scenario


def simulate(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Run a scenario in virtual time and return the trace as plain JSON values. Raises ``ScenarioError``."""
    run = _Run(read(scenario))
    run.run()
    return run.trace()


class _Run:
    """A scenario as it runs."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._zaqar = Zaqar(scenario.profile, seed=scenario.seed)
        self._now_us = scenario.start_us
        self._answers: list[dict[str, Any]] = []

    def run(self) -> None:
        """Run all steps of the scenario."""
        for name, metadata in self._scenario.queues.items():
            answer = self._ask(Create(queue=name, metadata=metadata).asked())
            if answer.status != 201:
                problem = (answer.document or {}).get("description", "")
                raise ScenarioError(f"queues.{name}", problem or f"the queue cannot be created: {answer.status}")
        for number, step in enumerate(self._scenario.steps):
            if step.at_s is not None:
                self._to(step.at_s, f"steps[{number}].at_s")
            seen = self._take(step)
            if seen is not None:
                self._answers.append({"step": number, "time_ms": self._ms(self._now_us), **seen})
        if self._scenario.until_s:
            self._to(self._scenario.until_s, "until_s")

    def trace(self) -> dict[str, Any]:
        """Return what happened, the answers, and what is left."""
        contents = self._zaqar.store.contents(self._now_us)
        own = f"{self._scenario.project}/"
        return {
            "system": SYSTEM,
            "profile": self._scenario.profile,
            "events": [self._told(happened) for happened in self._zaqar.store.journal],
            "answers": self._answers,
            "queues": {place.removeprefix(own): messages for place, messages in contents.items()},
        }

    def _to(self, at_s: float, where: str) -> None:
        at_us = self._scenario.start_us + round(at_s * SECOND_US)
        if at_us < self._now_us:
            now_s = (self._now_us - self._scenario.start_us) / SECOND_US
            raise ScenarioError(where, f"{at_s} is before the last step; expected {now_s:g} or later")
        self._pass_time(at_us)

    def _pass_time(self, at_us: int) -> None:
        self._now_us = at_us
        self._zaqar.pass_time(at_us)

    def _take(self, step: AnyStep) -> dict[str, Any] | None:
        """Do a step, and return what was answered or seen."""
        match step:
            case Wait(s=wait_s):
                self._pass_time(self._now_us + round(wait_s * SECOND_US))
            case EndClaims():
                self._zaqar.store.end_claims(self._now_us)
            case Look(message=id):
                return {"message": id, **self._zaqar.store.look(self._scenario.project, id, self._now_us)}
            case _:
                asked = step.asked()
                assert asked is not None
                answer = self._ask(asked)
                return {"status": answer.status, "document": answer.document, "location": answer.location}
        return None

    def _ask(self, asked: StepRequest) -> ZaqarAnswer:
        path, _, query = asked.path.partition("?")
        posts = asked.method == "POST" and path.endswith("/messages")
        headers = {
            "x-project-id": self._scenario.project,
            "client-id": _PRODUCER if posts else _CONSUMER,
            "content-type": "application/json",
        }
        headers |= {name.lower(): value for name, value in asked.headers.items()}
        text = asked.body if asked.body is None or isinstance(asked.body, str) else json.dumps(asked.body)
        body = None if text is None else text.encode()
        request = Request(method=asked.method, path=unquote(path), query=query, headers=headers, body=body)
        with self._zaqar.ids.asked("message" if posts else "claim", asked.ids):
            return self._zaqar.handle(request, self._now_us)

    def _told(self, happened: Happened) -> dict[str, Any]:
        return {
            "event": str(happened.event),
            "time_ms": self._ms(happened.time_us),
            "message": happened.message,
            "queue": happened.queue,
            **(happened.more or {}),
            "detail": happened.detail,
        }

    def _ms(self, at_us: int) -> float | int:
        ms = (at_us - self._scenario.start_us) / 1000
        return int(ms) if ms.is_integer() else ms
