"""Scenarios that are played on a running Zaqar and on the simulator."""

from __future__ import annotations

from typing import Any

_RULE = {"_max_claim_count": 1, "_dead_letter_queue": "dead"}
_TWO = {"jobs": _RULE, "dead": {}}


def do(what: str, queue: str | None = None, **fields: Any) -> dict[str, Any]:
    """A step."""
    return {"do": what, **({} if queue is None else {"queue": queue}), **fields}


def post(queue: str, *ids: str, ttl: int = 300, **fields: Any) -> dict[str, Any]:
    """A step that posts messages."""
    return do("post", queue, messages=[{"id": id, "body": id, "ttl": ttl, **fields} for id in ids])


def claim(queue: str, id: str | None = None, ttl: int = 60, grace: int = 60, **fields: Any) -> dict[str, Any]:
    """A step that claims messages."""
    return do("claim", queue, ttl=ttl, grace=grace, **({} if id is None else {"claim": id}), **fields)


def look(*ids: str) -> list[dict[str, Any]]:
    """Steps that look at messages as they are stored."""
    return [do("look", message=id) for id in ids]


def _scenario(queues: dict[str, Any], *steps: dict[str, Any]) -> dict[str, Any]:
    return {"queues": queues, "steps": list(steps)}


SCENARIOS: dict[str, dict[str, Any]] = {
    "one claim, then the dead-letter queue": _scenario(
        _TWO,
        post("jobs", "a", "b"),
        claim("jobs", "first", limit=1),
        do("release", "jobs", claim="first"),
        *look("a"),
        claim("jobs", "second"),
        *look("a", "b"),
        do("stats", "dead"),
        do("stats", "jobs"),
    ),
    "a release counts": _scenario(
        {"jobs": {**_RULE, "_max_claim_count": 3}, "dead": {}},
        post("jobs", "a"),
        *[step for n in "123" for step in (claim("jobs", n), do("release", "jobs", claim=n), *look("a"))],
        claim("jobs", "4"),
        *look("a"),
        do("get", "dead", message="a"),
    ),
    "releasing a mixed claim frees its dead letters": _scenario(
        _TWO,
        post("jobs", "old"),
        claim("jobs", "1"),
        do("release", "jobs", claim="1"),
        post("jobs", "new"),
        claim("jobs", "mixed"),
        do("get_claim", "jobs", claim="mixed"),
        do("list", "dead"),
        do("release", "jobs", claim="mixed"),
        *look("old", "new"),
        do("list", "dead"),
        claim("dead", "at once"),
    ),
    "a longer claim takes a dead letter with it": _scenario(
        {"jobs": {**_RULE, "_dead_letter_queue_messages_ttl": 3000}, "dead": {}},
        post("jobs", "a", ttl=60),
        claim("jobs", "1", ttl=90, grace=70),
        *look("a"),
        do("release", "jobs", claim="1"),
        *look("a"),
        claim("jobs", "2"),
        *look("a"),
    ),
    "a renewal prolongs and does not count": _scenario(
        _TWO,
        post("jobs", "a", ttl=61),
        claim("jobs", "1"),
        do("renew", "jobs", claim="1", ttl=400, grace=60),
        do("get_claim", "jobs", claim="1"),
        *look("a"),
        do("renew", "jobs", claim="1", ttl=60, grace=60),
        *look("a"),
        do("release", "jobs", claim="1"),
        claim("jobs", "2"),
        *look("a"),
        do("renew", "jobs", claim="1", ttl=60, grace=60),
        do("get_claim", "jobs", claim="1"),
    ),
    "chains carry the count": _scenario(
        {
            "a": {"_max_claim_count": 1, "_dead_letter_queue": "b"},
            "b": {"_max_claim_count": 2, "_dead_letter_queue": "c"},
        },
        post("a", "x"),
        claim("a", "1"),
        do("end_claims"),
        claim("a", "2"),
        *look("x"),
        do("end_claims"),
        claim("b", "3"),
        do("release", "b", claim="3"),
        claim("b", "4"),
        *look("x"),
        do("list", "c"),
    ),
    "a queue that is its own dead-letter queue loses": _scenario(
        {"jobs": {"_max_claim_count": 0, "_dead_letter_queue": "jobs"}},
        post("jobs", "a"),
        claim("jobs"),
        *look("a"),
        do("end_claims"),
        do("list", "jobs"),
        do("get", "jobs", message="a"),
        do("stats", "jobs"),
    ),
    "names are cut at dots": _scenario(
        {"jobs": {"_max_claim_count": 0, "_dead_letter_queue": "dead.letters"}, "dead.letters": {}, "dead": {}},
        post("jobs", "a"),
        claim("jobs"),
        *look("a"),
        do("end_claims"),
        do("list", "dead.letters"),
        do("list", "dead"),
        do("request", method="GET", path="/v2/queues?detailed=true"),
    ),
    "a dead-letter queue that was never created": _scenario(
        {"jobs": {"_max_claim_count": 0, "_dead_letter_queue": "ghost"}},
        post("jobs", "a"),
        claim("jobs"),
        do("end_claims"),
        do("list", "ghost"),
        do("stats", "ghost"),
        claim("ghost", "1"),
        do("delete", "ghost", message="a", claim="1"),
        do("delete", "jobs", message="a", claim="1"),
        *look("a"),
    ),
    "a pop claims": _scenario(
        _TWO,
        post("jobs", "a", "b", "c"),
        claim("jobs", "1", limit=2),
        do("release", "jobs", claim="1"),
        do("pop", "jobs", limit=3),
        *look("a", "b", "c"),
        do("pop", "jobs"),
        do("list", "dead"),
        post("jobs", "d"),
        claim("jobs", "2"),
        do("release", "jobs", claim="2"),
        do("pop", "jobs"),
        *look("d"),
        do("pop", "nowhere"),
        do("pop", "jobs", limit=21),
    ),
    "a claim takes what another holds": _scenario(
        _TWO,
        post("jobs", "a", "b", "c"),
        claim("jobs", "A", limit=1),
        claim("jobs", "B", limit=1),
        do("release", "jobs", claim="A"),
        claim("jobs", "C"),
        *look("a", "b", "c"),
        do("get_claim", "jobs", claim="B"),
        do("delete", "jobs", message="b", claim="B"),
        do("stats", "jobs"),
        do("release", "jobs", claim="B"),
        *look("b"),
    ),
    "attributes that are there and empty": _scenario(
        {
            "null": {"_max_claim_count": None, "_dead_letter_queue": "dead"},
            "text": {"_max_claim_count": "", "_dead_letter_queue": "dead"},
            "number": {"_max_claim_count": 0.0, "_dead_letter_queue": "dead"},
            "false": {"_max_claim_count": False, "_dead_letter_queue": "dead"},
            "unnamed": {"_max_claim_count": 0, "_dead_letter_queue": ""},
            "nameless": {"_max_claim_count": 0, "_dead_letter_queue": None},
            "five": {"_max_claim_count": 0, "_dead_letter_queue": 5},
            "half": {"_max_claim_count": 1},
        },
        *[
            step
            for queue in ("null", "text", "number", "false", "unnamed", "nameless", "five", "half")
            for step in (
                post(queue, f"in {queue}"),
                claim(queue),
                *look(f"in {queue}"),
                claim(queue),
                do("get", queue, message=f"in {queue}"),
            )
        ],
    ),
    "switched on later, and lowered": _scenario(
        {"jobs": {}, "dead": {}},
        post("jobs", "a"),
        claim("jobs", "1"),
        do("release", "jobs", claim="1"),
        *look("a"),
        do("configure", "jobs", metadata={**_RULE, "_max_claim_count": 5}),
        claim("jobs", "2"),
        do("release", "jobs", claim="2"),
        claim("jobs", "3"),
        do("release", "jobs", claim="3"),
        do("create", "jobs", metadata={}),
        do("configure", "jobs", metadata={"_max_claim_count": 2}),
        claim("jobs"),
        *look("a"),
        do("configure", "jobs", metadata={"_max_claim_count": None, "nothing": None}),
        do("configure", "jobs", metadata={"_max_claim_count": None}),
    ),
    "who may delete": _scenario(
        {"jobs": {}},
        post("jobs", "a", "b", "c"),
        claim("jobs", "1", limit=1),
        claim("jobs", "2", limit=1),
        do("delete", "jobs", message="a"),
        do("delete", "jobs", message="a", claim="2"),
        do("delete", "jobs", message="a", claim="no uuid"),
        do("delete", "jobs", message="a", claim="ce5f9a43-6b8e-4e33-8e3e-5b1f0a6f6d5c"),
        do("delete", "jobs", message="c", claim="1"),
        do("delete", "jobs", message="c", claim="no uuid"),
        do("delete", "jobs", message="a", claim="1"),
        do("delete", "jobs", message="a"),
        do("get", "jobs", message="a"),
        do("get_claim", "jobs", claim="1"),
        do("delete", "elsewhere", message="b"),
        do("release", "jobs", claim="2"),
        do("delete", "jobs", message="b"),
        do("stats", "jobs"),
    ),
    "delays": _scenario(
        {"late": {"_default_message_delay": 60, "_default_message_ttl": 100}, "jobs": {}},
        do("post", "late", messages=[{"id": "a", "body": 1}, {"id": "b", "body": 2, "delay": 0}]),
        do("post", "jobs", messages=[{"id": "c", "body": 3, "delay": 60}]),
        do("list", "late"),
        claim("late", "1"),
        do("release", "late", claim="1"),
        do("request", method="GET", path="/v2/queues/late/messages?echo=1&include_delayed=on"),
        claim("jobs", "2"),
        *look("a", "b", "c"),
    ),
    "pages": _scenario(
        {"jobs": {}, "b": {}, "a": {}},
        post("jobs", "1", "2", "3", "4"),
        claim("jobs", "first", limit=1),
        do("request", method="GET", path="/v2/queues/jobs/messages?limit=2"),
        do("request", method="GET", path="/v2/queues/jobs/messages?limit=2&include_claimed=true"),
        do("request", method="GET", path="/v2/queues/jobs/messages?limit=21"),
        do("request", method="GET", path="/v2/queues/jobs/messages?limit=1&marker=nowhere&include_claimed=true"),
        do("request", method="GET", path="/v2/queues/jobs/messages?echo=perhaps"),
        do("request", method="GET", path="/v2/queues/jobs/messages?ids=nowhere"),
        do("request", method="GET", path="/v2/queues?limit=1"),
        do("request", method="GET", path="/v2/queues?limit=1&marker=a"),
        do("request", method="GET", path="/v2/queues?limit=1&marker=b&with_count=true"),
        do("request", method="GET", path="/v2/queues?limit=0"),
        do("request", method="DELETE", path="/v2/queues/jobs/messages"),
        do("request", method="DELETE", path="/v2/queues/jobs/messages?ids=a&pop=1"),
        do("remove", "jobs"),
        do("list", "jobs"),
        do("request", method="GET", path="/v2/queues/jobs"),
    ),
    "refusals": _scenario(
        {"jobs": {}},
        *[
            do("create", "q", metadata=metadata)
            for metadata in (
                {"_max_claim_count": "3"},
                {"_dead_letter_queue_messages_ttl": 59},
                {"_dead_letter_queue_messages_ttl": []},
                {"_default_message_ttl": 59},
                {"_default_message_ttl": "x"},
                {"_default_message_delay": 901},
                {"_max_messages_post_size": 0},
                {"_max_messages_post_size": 1 << 20},
                {"_enable_encrypt_messages": 1},
            )
        ],
        *[
            do("request", method="POST", path="/v2/queues/jobs/messages", body=body)
            for body in (
                "",
                "{",
                "[]",
                "{}",
                '{"messages": []}',
                '{"messages": {}}',
                '{"messages": [1]}',
                '{"messages": [{"ttl": 60}]}',
            )
        ],
        do("request", method="POST", path="/v2/queues/jobs/messages", body={"messages": [{"body": 1, "ttl": "1"}]}),
        do("request", method="POST", path="/v2/queues/jobs/claims", body="[]"),
        do("request", method="PATCH", path="/v2/queues/jobs/claims/x", body="{}"),
        do("request", method="PATCH", path="/v2/queues/jobs/claims/x", body={"ttl": 59}),
        do("request", method="DELETE", path="/v2/queues/jobs/claims/x"),
        *[
            do(
                "request",
                method="PATCH",
                path="/v2/queues/jobs",
                body=[change],
                headers={"Content-Type": "application/openstack-messaging-v2.0-json-patch"},
            )
            for change in (
                1,
                {},
                {"op": "add"},
                {"op": "add", "path": "/metadata/a"},
                {"op": "add", "path": "/other/a", "value": 1},
                {"op": "add", "path": "/metadata", "value": 1},
                {"op": "add", "path": "/metadata//a", "value": 1},
                {"op": "add", "path": "/metadata/a/", "value": 1},
                {"op": "add", "path": "/metadata/a~2", "value": 1},
                {"op": "remove", "path": "/elsewhere/a"},
                {"op": "add", "path": 1, "value": 1},
                {"op": "add", "path": "/metadata/_dead_letter_queue_messages_ttl", "value": ""},
            )
        ],
    ),
    "a purge is a row of pops": _scenario(
        _TWO,
        post("jobs", "a"),
        claim("jobs", "1"),
        do("release", "jobs", claim="1"),
        post("jobs", "b"),
        do("request", method="POST", path="/v2/queues/jobs/purge"),
        *look("a", "b"),
        do("request", method="POST", path="/v2/queues/dead/purge", body={"resource_types": ["messages"]}),
        *look("a"),
    ),
}

SLOW: dict[str, dict[str, Any]] = {
    "claims and messages that run out": _scenario(
        {**_TWO, "idle": {}, "short": {}},
        post("jobs", "a", ttl=600),
        post("short", "brief", ttl=61),
        post("short", "revived", ttl=62),
        claim("jobs", "1"),
        claim("short", "2", limit=2),
        do("wait", s=30),
        do("release", "short", claim="2"),
        *look("brief", "revived"),
        do("wait", s=33),
        *look("a", "brief", "revived"),
        # The claim ran out: redis has dropped it, and its queue still names it.
        do("release", "jobs", claim="1"),
        do("get_claim", "jobs", claim="1"),
        do("stats", "jobs"),
        claim("jobs", "3"),
        *look("a"),
        do("list", "dead"),
        # Expired, and hidden, but its key lives since the release: a claim hands it out.
        do("list", "short"),
        do("get", "short", message="revived"),
        do("stats", "short"),
        claim("short", "4"),
        *look("brief", "revived"),
    ),
}
