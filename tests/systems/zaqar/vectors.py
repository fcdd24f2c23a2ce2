"""Recorded traces of Zaqar as scenarios, and what the simulator must do in them.

Two forms: requests to a running server with the state of redis between them, and the
MongoDB driver driven in a process. A recording says nothing of

* where in a second of the server's clock it began. Zaqar keeps whole seconds, so it
  matters; any beginning under which all comes out as recorded will do;
* the ids of claims that no answer shows: they are compared up to renaming, as are all;
* the content type of a PATCH: it was another where the answer is 415;
* that claims were ended by hand in the database, where a note does not say so. A claimed
  message that can be deleted a moment after it could not be shows it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

from simulator.systems.zaqar import metadata, zaqar_scenario
from simulator.systems.zaqar.claims import Terms
from simulator.systems.zaqar.service import Zaqar
from simulator.systems.zaqar.store import SECOND_US, Draft

_ALIAS = re.compile(r"<((?:msg|claim):[^<>]*)>")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT(\d\d):(\d\d):(\d\d)Z")
_ROUNDED_S = 0.005  # by so much a time may have been rounded
_STATE = {
    "exists": "exists",
    "ttl_field_t": "ttl",
    "expires_minus_now": "expires_in_s",
    "age": "age_s",
    "claim": "claim",
    "claim_expires_minus_now": "claim_ends_in_s",
    "claim_count": "claim_count",
    "redis_key_ttl": "key_life_s",
    "member_of": "queues",
}


def recognises(document: Any) -> bool:
    """Whether this is a recorded trace of Zaqar."""
    return isinstance(document, dict) and (_is_http(document) or _is_mongodb(document))


def check(document: Any, name: str) -> None:
    """Assert that the simulator does what was recorded."""
    nearest: list[str] | None = None
    for part in _beginnings(document):
        problems = _differences(document, part)
        if not problems:
            return
        if nearest is None or len(problems) < len(nearest):
            nearest = problems
    raise AssertionError(f"{name}: " + "\n".join(nearest or ["nothing is recorded"]))


def _is_http(document: dict[str, Any]) -> bool:
    trace = document.get("trace")
    return isinstance(trace, list) and any(
        isinstance(event, dict) and str(event.get("path", "")).startswith("/v2/queues") and "status" in event
        for event in trace
    )


def _is_mongodb(document: dict[str, Any]) -> bool:
    results = document.get("results")
    return (
        isinstance(results, list)
        and bool(results)
        and all(
            isinstance(one, dict) and any("c.c" in message for step in one.get("steps", []) for message in _raw(step))
            for one in results
        )
    )


def _beginnings(document: dict[str, Any]) -> Iterator[float]:
    """Parts of a second at which the recording may have begun: each places another event first in its second."""
    yield 0.0
    if not _is_http(document):
        yield 0.75  # the other side of what rounding makes of the times
        return
    firsts = {1 - _at_s(number, event) % 1 for number, event in enumerate(document["trace"])}
    yield from sorted((first + shift) % 1 for first in firsts for shift in (0, -_ROUNDED_S, _ROUNDED_S))


def _differences(document: dict[str, Any], part: float) -> list[str]:
    if _is_http(document):
        return _http_differences(document, part)
    return [problem for one in document["results"] for problem in _mongodb_differences(one, part)]


# Requests to a server


def _http_differences(document: dict[str, Any], part: float) -> list[str]:
    trace = _with_ids(document["trace"])
    steps = list(_steps(trace))
    result = zaqar_scenario.simulate(
        {
            "project": document["project"],
            "start_us": zaqar_scenario.START_US + round(part * SECOND_US),
            "steps": [step for _, step in steps],
        }
    )
    answers = {answer["step"]: answer for answer in result["answers"]}
    ours, theirs, problems = Names(), Names(), []
    for number, (event, _) in enumerate(steps):
        if event is None or number not in answers:
            continue
        seen, expected = ours.replaced(_seen(answers[number])), theirs.replaced(_expected(event))
        if seen != expected:
            what = event.get("redis_state_of") or f"{event['method']} {event['path']}"
            problems.append(f"at {event['t_s']} s, {what}:\n  recorded  {expected}\n  simulated {seen}")
    return problems


def _steps(trace: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any]]]:
    """Steps of the scenario, each with the event that it stands for."""
    refused: dict[str, float] = {}
    for number, event in enumerate(trace):
        at_s = _at_s(number, event)
        if "note" in event:
            yield (
                None,
                {"at_s": at_s} | ({"do": "end_claims"} if "forced c.e" in event["note"] else {"do": "wait", "s": 0}),
            )
        elif "redis_state_of" in event:
            yield event, {"at_s": at_s, "do": "look", "message": event["redis_state_of"]}
        else:
            if event["method"] == "DELETE" and "/claims/" in event["path"]:
                refused.clear()  # a release may be why a message can be deleted that could not be before
            if event["method"] == "DELETE" and event["status"] == 403:
                refused[event["path"]] = event["t_s"]
            elif event["status"] == 204 and event["t_s"] - refused.get(event["path"], -60) < 60:
                yield None, {"at_s": at_s, "do": "end_claims"}
            yield event, {"at_s": at_s, "do": "request", **_request(event)}


def _request(event: dict[str, Any]) -> dict[str, Any]:
    patches_queue = event["method"] == "PATCH" and "/claims/" not in event["path"] and event["status"] != 415
    return {
        "method": event["method"],
        "path": event["path"],
        "body": event["request"],
        "headers": {"Content-Type": metadata.PATCH_CONTENT_TYPE} if patches_queue else {},
        "creates": _created(event),
    }


def _created(event: dict[str, Any]) -> list[str]:
    """The ids of what a request created, as the answer shows them."""
    if event["method"] != "POST" or event["status"] != 201:
        return []
    created = event["response"].get("resources") or [event["location"]]
    return [path.rpartition("/")[2] for path in created]


def _expected(event: dict[str, Any]) -> dict[str, Any]:
    if "redis_state_of" in event:
        return event["state"]
    return {"status": event["status"], "document": event["response"], "location": event.get("location")}


def _seen(answer: dict[str, Any]) -> dict[str, Any]:
    if "status" not in answer:
        state = {theirs: answer[ours] for theirs, ours in _STATE.items() if ours in answer}
        return {**state, "claim": state["claim"] or ""} if "claim" in state else state
    return {name: answer[name] for name in ("status", "document", "location")}


def _at_s(number: int, event: dict[str, Any]) -> float:
    """When it was, and after those that were written down for the same hundredth of a second."""
    return event["t_s"] + number / 1_000_000


def _with_ids(value: Any) -> Any:
    """The value, with ids instead of what the recorder wrote for them."""
    if isinstance(value, dict):
        return {_with_ids(key): _with_ids(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_ids(one) for one in value]
    if isinstance(value, str):
        return _ALIAS.sub(lambda match: str(uuid.uuid5(uuid.NAMESPACE_URL, match[1])), value)
    return value


class Names:
    """Ids by the order in which they turn up, and moments by their distance from the first."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._first_s: int | None = None

    def replaced(self, value: Any) -> Any:
        """The value with those instead."""
        if isinstance(value, dict):
            return {key: self.replaced(value[key]) for key in sorted(value)}
        if isinstance(value, list):
            return [self.replaced(one) for one in value]
        if isinstance(value, str):
            return _MOMENT.sub(self._moment, _UUID.sub(self._id, value))
        return value

    def _id(self, match: re.Match[str]) -> str:
        return self._ids.setdefault(match[0], f"id {len(self._ids) + 1}")

    def _moment(self, match: re.Match[str]) -> str:
        hours, minutes, seconds = map(int, match.groups())
        at_s = (hours * 60 + minutes) * 60 + seconds
        if self._first_s is None:
            self._first_s = at_s
        return f"{(at_s - self._first_s) % 86_400} s after the first"


# The MongoDB driver in a process. What it was asked is read off from what it did.


def _mongodb_differences(result: dict[str, Any], part: float) -> list[str]:
    steps, setting = result["steps"], _Setting(result["steps"], part)
    store = Zaqar("mongodb").store
    store.create_queue("p", setting.source, setting.metadata)
    now_us, claim_id, problems = zaqar_scenario.START_US + round(part * SECOND_US), None, []
    posted = store.post("p", setting.source, setting.drafts, "recorder", now_us)
    before: list[dict[str, Any]] = []
    for step in steps:
        raw = _raw(step)
        kind = next(iter(step))
        if kind == "claim":  # a renewal or release follows at once
            now_us += _elapsed_s(before, step) * SECOND_US
            store.pass_time(now_us)
        if kind == "claim":
            claim_id, found = store.claim("p", setting.source, _terms(raw), 10, now_us)
            seen: Any = [[one["body"], one["claim_count"], one["ttl"]] for one in found]
            if seen != step["claim"]:
                problems.append(f"{result['scenario']}: recorded claim {step['claim']}, simulated {seen}")
        elif kind == "after_renew":
            store.renew("p", setting.source, claim_id or "", _terms(raw), now_us)
        elif claim_id is not None:
            store.release("p", setting.source, claim_id, now_us)
        states = [
            _mongodb_state(store.look("p", id, now_us), draft, part) for id, draft in _with_drafts(posted, setting)
        ]
        if states != raw:
            problems.append(f"{result['scenario']}, {kind}:\n  recorded  {raw}\n  simulated {states}")
        before = raw
    return problems


def _with_drafts(ids: list[str], setting: _Setting) -> Iterator[tuple[str, Draft]]:
    """The posted messages: id and what was posted."""
    return zip(ids, setting.drafts, strict=True)


class _Setting:
    """The queues and messages that a recording begins with."""

    def __init__(self, steps: list[dict[str, Any]], part: float) -> None:
        raws = [_raw(step) for step in steps]
        names = [message["queue"].partition("/")[2] for raw in raws for message in raw]
        counts = [count for step in steps for _, count, _ in step.get("claim", [])]
        moved_first = not steps[0].get("claim")
        self.source = "src" if moved_first else names[0]
        target = next((name for name in names if name != self.source), "dlq")
        self.metadata: dict[str, Any] = {"_max_claim_count": max(counts, default=0), "_dead_letter_queue": target}
        # What ends a message is as it was posted, if the claim did not prolong it; the shown time to live is not.
        lives = [message["e_minus_now"] + (part > 0.5) for message in raws[0]]
        self.drafts = [Draft(message["body"], life) for message, life in zip(raws[0], lives, strict=True)]
        shown = [message["t"] for raw in raws for message in raw if message["queue"].endswith(f"/{target}")]
        if shown and shown[0] != (lives[0] if moved_first else raws[0][0]["t"]):
            self.metadata["_dead_letter_queue_messages_ttl"] = shown[0]


def _raw(step: dict[str, Any]) -> list[dict[str, Any]]:
    """The stored messages after a step."""
    return next((value for key, value in step.items() if key == "raw" or key.startswith("after_")), [])


def _elapsed_s(before: list[dict[str, Any]], step: dict[str, Any]) -> int:
    """The time until a claim, from the states before and after it: by so much less have the messages to live."""
    after = _raw(step)
    if not before or not after:
        return 0
    was, now = before[0], after[0]
    passed_s = was["e_minus_now"] - now["e_minus_now"]
    taken = bool(step["claim"]) or was["queue"] != now["queue"]
    if taken and was["claim_set"] and passed_s < was["claim_e_minus_now"]:
        # The claim has prolonged their life: the one before had run out, and their life would not have lasted.
        passed_s = max(was["claim_e_minus_now"], was["e_minus_now"] - now["claim_e_minus_now"] + 1)
    return passed_s


def _terms(after: list[dict[str, Any]]) -> Terms:
    """What was asked of the claim. A grace that prolonged no life cannot be told, and does not matter."""
    ttl_s = max([message["claim_e_minus_now"] for message in after if message["claim_set"]] + [1])
    lives = [message["t"] - ttl_s for message in after if message["claim_set"] and message["t"] > ttl_s]
    return Terms(ttl_s, min(lives, default=60))


def _mongodb_state(state: dict[str, Any], draft: Draft, part: float) -> dict[str, Any]:
    if not state["exists"]:
        return {"body": draft.body, "gone": True}
    return {
        "queue": f"p/{state['queues'][0]}",
        "body": draft.body,
        "t": state["ttl"],
        "e_minus_now": round(state["expires_in_s"] - part),
        "claim_set": state["claim"] is not None,
        "claim_e_minus_now": state["claim_ends_in_s"],
        "c.c": state["claim_count"],
    }
