"""Calls whose bodies hold something else than the API expects."""

from __future__ import annotations

from typing import Any

from tests.management.calls import LOOK, Call, delete, get, post, put

_BODIES: tuple[Any, ...] = (True, False, 1, 1.5, "x", [], None, {})
_QUORUM = {"x-queue-type": "quorum"}
_RETRIES: dict[str, dict[str, Any]] = {
    "none": {},
    "all": {"x-delayed-retry-type": "all", "x-delayed-retry-min": 1000},
    "failed": {"x-delayed-retry-type": "failed", "x-delayed-retry-min": 1000, "x-delayed-retry-max": 5000},
    "backwards": {"x-delayed-retry-type": "returned", "x-delayed-retry-min": 1000, "x-delayed-retry-max": 5},
    "disabled": {"x-delayed-retry-type": "disabled", "x-delayed-retry-min": 1000},
}
_LIMITS = "/api/parameters/vhost-limits/{v}"


def exchange(**given: Any) -> Call:
    """Declare an exchange."""
    return put("/api/exchanges/{v}/x", given)


SCENARIOS: dict[str, list[Call]] = {
    "bodies that are no objects": [
        *(put(f"/api/queues/{{v}}/q{number}", body) for number, body in enumerate(_BODIES)),
        *(put("/api/policies/{v}/p", body) for body in _BODIES),
        *(post("/api/bindings/{v}/e/amq.direct/q/q7", body) for body in _BODIES),
        *(post("/api/queues/{v}/q7/get", body) for body in _BODIES),
        *(put("/api/vhost-limits/{v}/max-queues", body) for body in _BODIES),
        *(post("/api/queues/{v}/q7/actions", body) for body in _BODIES),
    ],
    "actions that there are not": [
        put("/api/queues/{v}/q", {}),
        *(post("/api/queues/{v}/q/actions", {"action": action}) for action in (1, None, "no", [], True)),
        post("/api/queues/{v}/no/actions", {}),
        post("/api/queues/{v}/no/actions", {"action": "no"}),
        post("/api/queues/{v}/no/actions", {"action": "sync"}),
    ],
    "odd exchanges": [
        exchange(type=True, durable=5),
        exchange(type=[], auto_delete="x"),
        exchange(type=-1, internal={}),
        *(exchange(type=kind) for kind in (True, False, None, [], {}, 1.5, -1)),
        exchange(type="no", durable=5),
        exchange(type=True, arguments=5),
        exchange(type=True, node=5),
        put("/api/exchanges/{v}/amq.default", {"type": True}),
        put("/api/exchanges/{v}/amq.default", {"type": True, "internal": 5}),
        get("/api/exchanges/{v}/x"),
    ],
    "odd queues": [
        *(put("/api/queues/{v}/q", {"exclusive": exclusive}) for exclusive in (5, "true", "x", None, [])),
        put("/api/queues/{v}/q", {"exclusive": "x", "durable": 7}),
        put("/api/queues/{v}/q", {"exclusive": "x", "arguments": 5}),
        put("/api/queues/{v}/q", {"exclusive": "x", "node": 5}),
        put("/api/queues/{v}-no/q", {"exclusive": 5}),
        get("/api/queues/{v}/q"),
        put("/api/queues/{v}/q", {"exclusive": True}),
        put("/api/queues/{v}/q", {"exclusive": 5}),
        get("/api/queues/{v}/q?columns=name,exclusive"),
        *(post("/api/queues/{v}/q/get", LOOK | {"ackmode": mode, "count": "x"}) for mode in ([], ["a"], "no", None)),
        *(post("/api/queues/{v}/q/get", LOOK | {"ackmode": [], "count": count}) for count in (0, 1, None)),
    ],
    "delayed retries": [
        put("/api/policies/{v}/p", {"pattern": ".*", "definition": {"max-length": 9}}),
        *(
            call
            for name, arguments in _RETRIES.items()
            for call in (
                put(f"/api/queues/{{v}}/{name}", {"durable": True, "arguments": _QUORUM | arguments}),
                get(f"/api/queues/{{v}}/{name}", "policy", "delayed_retry", "arguments", settled=True),
            )
        ),
    ],
    "patterns that only PCRE refuses": [
        *(
            put("/api/policies/{v}/p", {"pattern": pattern, "definition": {"max-length": 1}})
            for pattern in (
                "a{99999}", "a{1,65536}", "a{65535}", "bb{2,1}", "[{99999}]", "(?<n>a)(?<n>b)", "(?P<nn>a)(?'nn'b)",
                "(?|(?<n>a)|(?<n>b))", "(?J)(?<n>a)(?<n>b)", r"(?<n>a)\k<n>", r"(?<n>a)\k'n'",
            )
        ),
    ],
    "nodes that are no names": [
        *(put("/api/queues/{v}/q", {"node": node}) for node in (1, True, None, [], {}, "no", "5", "No such@where")),
        exchange(type="direct", node=1.5),
        get("/api/queues/{v}?columns=name"),
    ],
    "limits as parameters": [
        put("/api/vhost-limits/{v}/max-queues", {"value": 5}),
        delete("/api/vhost-limits/{v}/max-queues"),
        get(_LIMITS),
        get("/api/vhost-limits/{v}"),
        get("/api/definitions/{v}", "parameters"),
        put("/api/vhost-limits/{v}/max-queues", {"value": 5}),
        *(put(f"{_LIMITS}/limits", {"value": value}) for value in (None, 5, True)),
        get("/api/vhost-limits/{v}"),
        put(f"{_LIMITS}/limits", {"value": []}),
        get(_LIMITS),
        put(f"{_LIMITS}/limits", {"value": {}}),
        get(f"{_LIMITS}/limits"),
        *(put(f"{_LIMITS}/other", {"value": value}) for value in (None, "x", [1], {"zz": 1}, {"max-queues": "x"})),
    ],
    "limits of users who are not there": [
        put("/api/user-limits/nobody-{u}/zz", {"value": 5}),
        put("/api/user-limits/nobody-{u}/max-channels", {"value": "x"}),
        put("/api/user-limits/nobody-{u}/max-channels", {"value": -5}),
        put("/api/user-limits/nobody-{u}/max-channels", {"value": 5}),
    ],
}  # fmt: skip
