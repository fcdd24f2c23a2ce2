"""HTTP calls that the simulator's management API and real servers' are to answer alike.

Each scenario is a list of calls in a virtual host of its own. ``{v}`` in a path or body
stands for its name, ``{u}`` for the name of a user, ``{node}`` for the node's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GUEST = "guest:guest"
USER = "{u}:secret"


@dataclass(frozen=True)
class Call:
    """One request.

    ``keys``: compare only these keys of an object, or of each object in a list.
    ``settled``: the answer shows statistics, which a real server has only some seconds later.
    ``unordered``: lists in the answer are in no particular order.
    """

    method: str
    path: str
    body: Any = None
    auth: str | None = GUEST
    keys: tuple[str, ...] | None = None
    settled: bool = False
    unordered: bool = False


def _get(path: str, *keys: str, auth: str | None = GUEST, settled: bool = False) -> Call:
    return Call("GET", path, auth=auth, keys=keys or None, settled=settled)


def _put(path: str, body: Any, auth: str = GUEST) -> Call:
    return Call("PUT", path, body, auth)


def _post(path: str, body: Any, auth: str = GUEST) -> Call:
    return Call("POST", path, body, auth)


def _delete(path: str, auth: str = GUEST) -> Call:
    return Call("DELETE", path, auth=auth)


_DECLARED = ("arguments", "auto_delete", "durable", "exclusive", "name", "type", "vhost")
_X = "/api/bindings/{v}/e/x/q/q"
_PUBLISH = {"properties": {}, "routing_key": "q", "payload": "hello", "payload_encoding": "string"}
_LOOK = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
_POLICY = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}
_TRACE = {"format": "json", "pattern": "#"}
_ALL_RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}
_PROPERTIES = {
    "delivery_mode": 2, "content_type": "text/plain", "content_encoding": "utf8", "priority": 3,
    "correlation_id": "c", "reply_to": "r", "message_id": "m", "timestamp": 1_700_000_000, "type": "t",
    "user_id": "guest", "app_id": "a", "cluster_id": "cl",
    "headers": {"a": 1, "b": [1, "x", 2.5, True], "c": {"d": "e"}, "big": 9_007_199_254_740_993},
}  # fmt: skip


def _publish(**changed: Any) -> Call:
    return _post("/api/exchanges/{v}/amq.default/publish", _PUBLISH | changed)


def _look(**changed: Any) -> Call:
    return _post("/api/queues/{v}/q/get", _LOOK | changed)


def _import(**sections: list[dict[str, Any]]) -> Call:
    return _post("/api/definitions/{v}", sections)


def _import_all(vhost: str = "{v}", **sections: list[dict[str, Any]]) -> Call:
    named = {section: [item | {"vhost": vhost} for item in items] for section, items in sections.items()}
    return _post("/api/definitions", named)


def _queue(name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "durable": True, "auto_delete": False, "arguments": arguments or {}}


def _exchange(name: str, kind: str = "headers") -> dict[str, Any]:
    return {"name": name, "type": kind, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}


def _binding(source: str, **changed: Any) -> dict[str, Any]:
    binding = {"destination": "dq", "destination_type": "queue", "routing_key": "a", "arguments": {}}
    return {"source": source, **binding, **changed}


def _policy(name: str, **changed: Any) -> dict[str, Any]:
    return {"name": name, **_POLICY, **changed}


def _operator_policy(definition: dict[str, Any]) -> dict[str, Any]:
    return {"component": "operator_policy", "name": "op", "value": _POLICY | {"definition": definition}}


SCENARIOS: dict[str, list[Call]] = {
    "who and where": [
        _get("/api/whoami"),
        _get("/api/whoami", auth="guest:wrong"),
        _get("/api/whoami", auth="nobody:x"),
        _get("/api/whoami", auth=None),
        _get("/api/nope"),
        _get("/api/nope", auth=None),
        _get("/api"),
        _get("/api/"),
        _get("/zzz"),
        _post("/api/queues/{v}", {}),
        Call("PATCH", "/api/queues/{v}/q", {}),
        Call("OPTIONS", "/api/queues/{v}/q"),
        Call("OPTIONS", "/api/bindings/{v}/e/x/q/q"),
        _get("/api/auth", auth=None),
        _get("/api/version"),
        _get("/api/user-limits"),
        _get("/api/vhost-limits/{v}"),
        _get("/api/vhost-limits/{v}-no"),
        _get("/api/rebalance/queues"),
        _get("/api/nodes/zz/memory"),
        _get("/api/nodes", "name", "running", "type", "mem_alarm", "disk_free_alarm", "partitions"),
        _get("/api/overview", "product_name", "product_version", "rabbitmq_version", "management_version", "node"),
    ],
    "virtual hosts": [
        _get("/api/vhosts/{v}", "name", "description", "tags", "default_queue_type", "metadata", "tracing"),
        _put("/api/vhosts/{v}", {"description": "d", "tags": "a,b"}),
        _get("/api/vhosts/{v}", "name", "description", "tags", "default_queue_type", "metadata", "cluster_state"),
        _get("/api/vhosts/{v}-no"),
        _get("/api/vhosts/{v}/permissions"),
        _get("/api/vhosts/{v}/topic-permissions"),
        _put("/api/vhosts/{v}", {"tracing": True}),
        _get("/api/vhosts/{v}", "name", "tracing"),
        _put("/api/vhosts/{v}", {"tracing": "zz"}),
        _put("/api/vhosts/{v}", {"tracing": False}),
        _get("/api/vhosts/{v}", "name", "tracing"),
        _put("/api/vhosts/{v}-2", {}),
        _get("/api/vhosts/{v}-2/permissions"),
        _delete("/api/vhosts/{v}-2"),
        _put("/api/vhosts/{v}-2", {"default_queue_type": "quorum"}),
        _get("/api/vhosts/{v}-2", "default_queue_type"),
        _put("/api/queues/{v}-2/q", {"durable": True}),
        _get("/api/queues/{v}-2/q", *_DECLARED),
        _delete("/api/vhosts/{v}-2"),
        _delete("/api/vhosts/{v}-2"),
    ],
    "queues": [
        _put("/api/queues/{v}/q", {}),
        _put("/api/queues/{v}/q", {"durable": True}),
        _put("/api/queues/{v}/q", {"durable": False}),
        _put("/api/queues/{v}/q2", {"durable": "true", "arguments": {"x-message-ttl": -1}}),
        _put("/api/queues/{v}/q2", {"durable": "zzz"}),
        _put(
            "/api/queues/{v}/q2",
            {"durable": True, "auto_delete": "true", "arguments": {"x-dead-letter-exchange": "", "x-expires": 60000}},
        ),
        _put("/api/queues/{v}/qq", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
        _put("/api/queues/{v}/st", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
        _put("/api/queues/{v}/amq.x", {}),
        _put("/api/queues/{v}-no/q", {}),
        _put("/api/queues/{v}/q", "not json"),
        _put("/api/queues/{v}/q", ""),
        _put("/api/queues/{v}/q", "[]"),
        _put("/api/queues/{v}/q", '"x"'),
        _put("/api/queues/{v}/q", "null"),
        _put("/api/queues/{v}/qx", {"arguments": []}),
        _put("/api/queues/{v}/qx", {"arguments": "x"}),
        _put("/api/queues/{v}/qx", {"arguments": {"x": None}}),
        _put("/api/queues/{v}/qx", {"node": "no@where"}),
        _put("/api/queues/{v}/qx", {"name": "other", "unknown": 1}),
        _put("/api/queues/{v}/qy", {"arguments": {"x-max-length": "s"}}),
        _put("/api/queues/{v}/qy", {"arguments": {"x-max-length": 1.5}}),
        _put("/api/queues/{v}/" + "q" * 256, {}),
        _get("/api/queues/{v}/q", *_DECLARED),
        _get("/api/queues/{v}/q/", *_DECLARED),
        _get("/api/queues/{v}/q2", *_DECLARED),
        _get("/api/queues/{v}/qq", *_DECLARED),
        _get("/api/queues/{v}/st", *_DECLARED),
        _get("/api/queues/{v}/nope"),
        _get("/api/queues/{v}-no/nope"),
        _get("/api/queues/{v}-no"),
        _get("/api/queues/{v}/q/nope"),
        _delete("/api/queues/{v}/nope"),
        Call("HEAD", "/api/queues/{v}/q"),
        _publish(),
        _delete("/api/queues/{v}/q?if-empty=true"),
        _delete("/api/queues/{v}/q?if-unused=true"),
        _delete("/api/queues/{v}/st/contents"),
        _post("/api/queues/{v}/qq/actions", {"action": "zz"}),
        _post("/api/queues/{v}/qq/actions", {"action": "sync"}),
        _post("/api/queues/{v}/qq/actions", {}),
        _post("/api/queues/{v}/nope/actions", {"action": "sync"}),
    ],
    "lists": [
        *(_put(f"/api/queues/{{v}}/{name}", {}) for name in ("a", "b", "Queue", "qz", "ünï")),
        _get("/api/queues/{v}", *_DECLARED),
        _get("/api/queues/{v}?columns=name,type,arguments.x-queue-type"),
        _get("/api/queues/{v}?page=1&page_size=2&columns=name"),
        _get("/api/queues/{v}?page=3&page_size=2&columns=name"),
        _get("/api/queues/{v}?page=9&page_size=2&columns=name"),
        _get("/api/queues/{v}?page=0"),
        _get("/api/queues/{v}?page=zz"),
        _get("/api/queues/{v}?page=1&page_size=1000"),
        _get("/api/queues/{v}?page=1&page_size=10&name=Q&columns=name"),
        _get("/api/queues/{v}?page=1&page_size=10&name=%5Eq&use_regex=true&columns=name"),
        _get("/api/queues/{v}?page=1&page_size=10&name=(&use_regex=true&columns=name"),
        _get("/api/queues/{v}?sort=name&sort_reverse=true&columns=name"),
        _get("/api/queues/{v}?name=zz&columns=name"),
        _get("/api/queues/{v}?lengths_age=60&lengths_incr=0"),
        _get("/api/queues/{v}?disable_stats=true&columns=name,state,type,node"),
        _get("/api/exchanges/{v}?columns=name,type,internal"),
        _get("/api/exchanges/{v}?page=1&page_size=2&columns=name"),
    ],
    "exchanges": [
        _put("/api/exchanges/{v}/x", {"type": "topic"}),
        _put("/api/exchanges/{v}/x", {"type": "topic"}),
        _put("/api/exchanges/{v}/x", {"type": "direct"}),
        _put("/api/exchanges/{v}/x2", {}),
        _put("/api/exchanges/{v}/x3", {"type": "nosuch"}),
        _put("/api/exchanges/{v}/x3", {"durable": "x"}),
        _put("/api/exchanges/{v}/amq.x", {"type": "direct"}),
        _put(
            "/api/exchanges/{v}/xi",
            {"type": "fanout", "internal": True, "durable": True, "arguments": {"alternate-exchange": "x"}},
        ),
        _get("/api/exchanges/{v}/x"),
        _get("/api/exchanges/{v}/xi"),
        _get("/api/exchanges/{v}/amq.default"),
        _get("/api/exchanges/{v}/nope"),
        _delete("/api/exchanges/{v}/nope"),
        _delete("/api/exchanges/{v}/amq.direct"),
        _delete("/api/exchanges/{v}/amq.default"),
        _put("/api/queues/{v}/q", {}),
        _post("/api/bindings/{v}/e/x/q/q", {"routing_key": "k"}),
        _delete("/api/exchanges/{v}/x?if-unused=true"),
        _delete("/api/exchanges/{v}/x"),
    ],
    "bindings": [
        _put("/api/exchanges/{v}/x", {"type": "topic"}),
        _put("/api/exchanges/{v}/xi", {"type": "fanout"}),
        _put("/api/queues/{v}/q", {}),
        _post(_X, {"routing_key": "a.b"}),
        _post(_X, {"routing_key": "a.b"}),
        _post(_X, {"routing_key": "a.b", "arguments": {"k": "v", "n": 1}}),
        _post(_X, {"routing_key": "t", "arguments": {"a": {"b": [1, 2.5, True, -7, 5_000_000_000]}}}),
        _post(_X, {}),
        _post(_X, {"routing_key": "a b/ü~%#*"}),
        _post(_X, {"routing_key": "n", "arguments": {"x": None}}),
        _post(_X, "not json"),
        _post("/api/bindings/{v}/e/x/e/xi", {"routing_key": "k"}),
        _post("/api/bindings/{v}/e/x/q/nope", {"routing_key": "k"}),
        _post("/api/bindings/{v}/e/nope/q/q", {"routing_key": "k"}),
        _post("/api/bindings/{v}/e/amq.default/q/q", {"routing_key": "k"}),
        _post("/api/bindings/{v}-no/e/x/q/q", {"routing_key": "k"}),
        _get(_X),
        _get(f"{_X}/a.b"),
        _get(f"{_X}/a.b~c8kv6Q"),
        _get(f"{_X}/~"),
        _get(f"{_X}/nope"),
        _get(f"{_X}/nope~abc"),
        _get("/api/bindings/{v}/e/x/e/xi"),
        _get("/api/bindings/{v}"),
        _get("/api/bindings/{v}-no"),
        _get("/api/exchanges/{v}/x/bindings/source"),
        _get("/api/exchanges/{v}/xi/bindings/destination"),
        _get("/api/exchanges/{v}/nope/bindings/source"),
        _get("/api/queues/{v}/q/bindings"),
        _get("/api/queues/{v}/nope/bindings"),
        _delete(f"{_X}/a.b"),
        _delete(f"{_X}/a.b"),
        _delete(f"{_X}/~"),
        _delete(f"{_X}/a.b~c8kv6Q"),
        _delete("/api/bindings/{v}/e/x/e/xi/k"),
        _get(_X),
    ],
    "messages": [
        _put("/api/queues/{v}/q", {}),
        _put("/api/exchanges/{v}/xi", {"type": "fanout", "internal": True}),
        _publish(),
        _publish(routing_key="nope"),
        _post("/api/exchanges/{v}/nope/publish", _PUBLISH),
        _post("/api/exchanges/{v}/xi/publish", _PUBLISH),
        _post("/api/exchanges/{v}-no/amq.default/publish", _PUBLISH),
        _post("/api/exchanges/{v}/amq.default/publish", {}),
        _publish(payload=1),
        _publish(payload_encoding="zz"),
        _publish(payload_encoding="base64", payload="!!"),
        _publish(payload_encoding="base64", payload="AAH/"),
        _publish(properties=[]),
        _publish(properties=_PROPERTIES),
        _publish(properties={"expiration": "abc"}),
        _publish(properties={"expiration": 6000}),
        _publish(properties={"user_id": "other"}),
        _publish(properties={"delivery_mode": "2"}),
        _publish(properties={"headers": {"n": None}}),
        _publish(properties={"headers": {"CC": "x"}}),
        _publish(properties={"zzz": 1}),
        _publish(properties={"message_id": 5}),
        _post("/api/queues/{v}/q/get", {}),
        _post("/api/queues/{v}/nope/get", _LOOK),
        _post("/api/queues/{v}-no/q/get", _LOOK),
        _look(ackmode="zz"),
        _look(encoding="zz"),
        _look(count="zz"),
        _look(count="2", truncate="3"),
        _look(count=0),
        _look(),
        _look(encoding="base64", ackmode="reject_requeue_true"),
        _look(ackmode="ack_requeue_false", count=1),
        _look(ackmode="reject_requeue_false", count=1),
        _get("/api/queues/{v}/q/contents"),
        _delete("/api/queues/{v}/q/contents"),
        _delete("/api/queues/{v}/nope/contents"),
        _look(),
    ],
    "dead letters": [
        _put("/api/queues/{v}/dead", {"durable": True}),
        _put(
            "/api/queues/{v}/q",
            {"durable": True, "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}},
        ),
        _publish(properties={"message_id": "m", "headers": {"h": "v"}}),
        _look(ackmode="reject_requeue_false", count=1),
        _look(),
        _put("/api/queues/{v}/full", {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}}),
        _publish(routing_key="full"),
        _publish(routing_key="full"),
    ],
    "policies": [
        _put("/api/policies/{v}/p", _POLICY),
        _put("/api/policies/{v}/p", _POLICY),
        _put("/api/policies/{v}/p", {"pattern": "("}),
        _put("/api/policies/{v}/p2", {"pattern": "(", "definition": {"max-length": 5}}),
        _put("/api/policies/{v}/p2", {"pattern": "x", "definition": {"max-length": -5}}),
        _put("/api/policies/{v}/p2", {"pattern": "x", "definition": {"nope": 1}}),
        _put("/api/policies/{v}/p2", {"pattern": "x", "definition": {}}),
        _put("/api/policies/{v}/p2", {"pattern": "x", "definition": {"max-length": 5}, "apply-to": "zz"}),
        _put("/api/policies/{v}/p2", {"pattern": "x", "definition": {"max-length": 5}, "priority": "1"}),
        _put("/api/policies/{v}/p2", {"pattern": "x", "definition": "s"}),
        _put("/api/policies/{v}-no/p2", _POLICY),
        _get("/api/policies/{v}"),
        _get("/api/policies/{v}/p"),
        _get("/api/policies/{v}/nope"),
        _get("/api/policies/{v}-no/p"),
        _delete("/api/policies/{v}/nope"),
        _put("/api/operator-policies/{v}/op", _POLICY | {"definition": {"max-length": 3, "message-ttl": 60000}}),
        _put("/api/operator-policies/{v}/op2", {"pattern": "x", "definition": {"dead-letter-exchange": "x"}}),
        _get("/api/operator-policies/{v}"),
        _get("/api/operator-policies/{v}/op"),
        _get("/api/operator-policies/{v}/nope"),
        _get("/api/parameters/operator_policy/{v}"),
        _get("/api/parameters/policy/{v}"),
        _get("/api/parameters/nope/{v}"),
        _get("/api/parameters/operator_policy/{v}/op"),
        _get("/api/parameters/operator_policy/{v}/nope"),
        _put("/api/parameters/nope/{v}/x", {"value": {"a": 1}}),
        _put("/api/parameters/policy/{v}/x", {"value": {"a": 1}}),
        _put("/api/parameters/nope/{v}/x", {}),
        _put("/api/parameters/nope/{v}-no/x", {"value": 1}),
        _delete("/api/parameters/operator_policy/{v}/nope"),
        _put("/api/queues/{v}/q", {"durable": True}),
        _get(
            "/api/queues/{v}/q?columns=name,policy,operator_policy,effective_policy_definition",
            settled=True,
        ),
        _delete("/api/policies/{v}/p"),
        _delete("/api/operator-policies/{v}/op"),
        _delete("/api/policies/{v}/p"),
    ],
    "global parameters": [
        _put("/api/global-parameters/{v}", {"value": {"a": 1}}),
        _put("/api/global-parameters/{v}", {"value": 5}),
        _put("/api/global-parameters/{v}", {}),
        _get("/api/global-parameters/{v}"),
        _delete("/api/global-parameters/{v}"),
        _get("/api/global-parameters/{v}"),
        _delete("/api/global-parameters/{v}"),
    ],
    "users": [
        _put("/api/users/{u}", {"password": "secret"}),
        _put("/api/users/{u}", {"password": "secret", "tags": ""}),
        _get("/api/whoami", auth=USER),
        _put("/api/users/{u}", {"password": "secret", "tags": "management,foo"}),
        _get("/api/users/{u}", "name", "tags", "limits", "hashing_algorithm"),
        _put("/api/users/{u}", {"password": "secret", "tags": ["monitoring"]}),
        _put("/api/users/{u}", {"password_hash": "zz", "tags": "management"}),
        _put("/api/users/{u}", {"tags": "management"}),
        _get("/api/users/{u}", "name", "password_hash"),
        _get("/api/whoami", auth=USER),
        _put("/api/users/{u}", {"password": "secret", "tags": "management"}),
        _get("/api/users/{v}-nobody"),
        _delete("/api/users/{v}-nobody"),
        _get("/api/users/{u}/permissions"),
        _get("/api/users/{v}-nobody/permissions"),
        _get("/api/users/{u}/topic-permissions"),
        _get("/api/permissions/{v}/guest"),
        _get("/api/permissions/{v}/{u}"),
        _get("/api/permissions/{v}/nope"),
        _put("/api/permissions/{v}/{v}-nobody", _ALL_RIGHTS),
        _put("/api/permissions/{v}-no/guest", _ALL_RIGHTS),
        _put("/api/permissions/{v}/{u}", {"configure": "("}),
        _get("/api/queues/{v}", auth=USER),
        _get("/api/queues", auth=USER),
        _get("/api/nodes", auth=USER),
        _get("/api/users", auth=USER),
        _get("/api/vhosts", auth=USER),
        _put("/api/policies/{v}/p", _POLICY, auth=USER),
        _put("/api/queues/{v}/uq", {}, auth=USER),
        _put("/api/permissions/{v}/{u}", {"configure": "^a", "write": "^a", "read": "^a"}),
        _put("/api/permissions/{v}/{u}", {"configure": "^a", "write": "^a", "read": "^a"}),
        _get("/api/users/{u}/permissions"),
        _put("/api/queues/{v}/uq", {}, auth=USER),
        _put("/api/queues/{v}/aq", {}, auth=USER),
        _put("/api/queues/{v}/qq", {}),
        _post("/api/queues/{v}/qq/get", _LOOK, auth=USER),
        _post("/api/exchanges/{v}/amq.default/publish", _PUBLISH | {"routing_key": "aq"}, auth=USER),
        _get("/api/queues/{v}?columns=name", auth=USER),
        _put("/api/policies/{v}/p", _POLICY, auth=USER),
        _get("/api/connections", auth=USER),
        _put("/api/users/{u}", {"password": "secret", "tags": "policymaker"}),
        _put("/api/policies/{v}/p", _POLICY, auth=USER),
        _put("/api/operator-policies/{v}/p", _POLICY, auth=USER),
        _put("/api/topic-permissions/{v}/{u}", {"exchange": "amq.topic", "write": "a", "read": "b"}),
        _put("/api/topic-permissions/{v}/{u}", {"exchange": "amq.topic", "write": "a", "read": "b"}),
        _put("/api/topic-permissions/{v}/{u}", {"exchange": "amq.topic"}),
        _get("/api/topic-permissions/{v}/{u}"),
        _delete("/api/topic-permissions/{v}/{u}/amq.topic"),
        _delete("/api/topic-permissions/{v}/{u}"),
        _delete("/api/permissions/{v}/{u}"),
        _delete("/api/permissions/{v}/{u}"),
        _post("/api/users/bulk-delete", {"users": ["{v}-nobody"]}),
        _post("/api/users/bulk-delete", {}),
        _post("/api/users/bulk-delete", {"users": ["{u}"]}),
        _get("/api/users/{u}"),
    ],
    "definitions": [
        _get("/api/definitions/{v}-no"),
        _post("/api/definitions", "not json"),
        _post("/api/definitions/{v}-no", {}),
        _post("/api/definitions/{v}", {}),
        _post(
            "/api/definitions/{v}",
            {
                "queues": [{"name": "dq", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}],
                "exchanges": [
                    {"name": "dx", "type": "topic", "durable": True, "auto_delete": False, "internal": False,
                     "arguments": {}},
                    {"name": "di", "type": "fanout", "durable": True, "auto_delete": False, "internal": True,
                     "arguments": {}},
                ],
                "bindings": [
                    {"source": "dx", "destination": "dq", "destination_type": "queue", "routing_key": "a",
                     "arguments": {}}
                ],
                "policies": [
                    {"name": "dp", "pattern": "^x", "definition": {"max-length": 3}, "apply-to": "queues",
                     "priority": 2}
                ],
                "parameters": [],
            },
        ),
        Call("GET", "/api/definitions/{v}", unordered=True),
        _get("/api/queues/{v}?columns=name,durable,arguments,type"),
        _get("/api/bindings/{v}"),
    ],
    "refused definitions": [
        _put("/api/queues/{v}/dq", {"durable": True}),
        _import(queues=[_queue("dq2", {"x-message-ttl": -5})]),
        _import(queues=[_queue("dq2", {"x-dead-letter-exchange": 5}), _queue("after")]),
        _import(queues=[_queue("dq2", {"x-queue-type": "nope"})]),
        _import(queues=[_queue("dq2", {"x-queue-type": "quorum", "x-max-priority": 5})]),
        _import(queues=[_queue("dq2", {"x-queue-type": "quorum"}) | {"durable": False}]),
        _import(queues=[_queue("dq2", {"x": None})]),
        _import(queues=[_queue("dq", {"x-max-length": -1})]),
        _import(queues=[_queue("amq.dq")], exchanges=[_exchange("amq.dx"), _exchange("")]),
        _import(exchanges=[_exchange("dx"), _exchange("dt", "topic")]),
        _import(exchanges=[_exchange("dx", "fanout")]),
        _import(exchanges=[_exchange("dx", "nosuch")]),
        _import(exchanges=[_exchange("dx2", "nosuch")]),
        _import(bindings=[_binding("nope")]),
        _import(bindings=[_binding("nope", destination="none")]),
        _import(bindings=[_binding("dx", destination="none", destination_type="exchange")]),
        _import(bindings=[_binding("dx", arguments={"x-match": 5}), _binding("dx")]),
        _import(bindings=[_binding("dx", arguments={"x-match": "zz"})]),
        _import(bindings=[_binding("dt", routing_key="#.#.#.#")]),
        _import(policies=[_policy("p1"), _policy("p2", pattern="("), _policy("p3")]),
        _import(policies=[_policy("p2", definition={"nope": 1})]),
        _import(policies=[_policy("p2", definition={"max-length": -1}, **{"apply-to": "zz"})]),
        _import(parameters=[_operator_policy({"nope": 1})]),
        _import(parameters=[{"component": "nope", "name": "p", "value": {"a": 1}}]),
        _import(parameters=[{"component": "policy", "name": "p", "value": _POLICY}]),
        _import(
            queues=[_queue("last", {"x-max-length": -1})],
            exchanges=[_exchange("last")],
            policies=[_policy("last")],
        ),
        _get("/api/queues/{v}?columns=name"),
        _get("/api/exchanges/{v}?columns=name,type"),
        _get("/api/policies/{v}?columns=name"),
        _get("/api/bindings/{v}?columns=source,destination,routing_key,arguments"),
    ],
    "refused definitions of a cluster": [
        _put("/api/queues/{v}/dq", {"durable": True}),
        _import_all(queues=[_queue("dq2", {"x-message-ttl": -5})]),
        _import_all(policies=[_policy("p2", definition={"nope": 1})]),
        _import_all(parameters=[_operator_policy({"nope": 1})]),
        _import_all(exchanges=[_exchange("dx2", "nosuch")]),
        _import_all(bindings=[_binding("nope")]),
        _import_all("{v}-no", queues=[_queue("dq")]),
        _import_all("{v}-no", exchanges=[_exchange("dx")]),
        _import_all("{v}-no", policies=[_policy("p")]),
        _import_all("{v}-no", bindings=[_binding("dx")]),
        _import_all("{v}-no", permissions=[_ALL_RIGHTS | {"user": "guest"}]),
        _import_all(permissions=[_ALL_RIGHTS | {"user": "{u}"}]),
        _import_all(permissions=[_ALL_RIGHTS | {"user": "guest", "read": "("}]),
        _import_all(topic_permissions=[{"user": "guest", "exchange": "nope", "write": "", "read": ""}]),
        _import_all(topic_permissions=[{"user": "guest", "exchange": "amq.topic", "write": "(", "read": ""}]),
        _post("/api/definitions", {"queues": [_queue("dq")]}),
        _post("/api/definitions", {"users": [{"name": "{u}", "password": "x"}]}),
        _post("/api/definitions", {"users": [{"name": "{u}", "password_hash": "zz", "tags": ""}]}),
        _get("/api/queues/{v}?columns=name"),
        _get("/api/exchanges/{v}?columns=name"),
        _get("/api/policies/{v}?columns=name"),
        _put("/api/permissions/{v}/guest", _ALL_RIGHTS | {"write": "("}),
        _put("/api/topic-permissions/{v}/guest", {"exchange": "amq.topic", "write": "", "read": "a("}),
        _put("/api/topic-permissions/{v}/guest", {"exchange": "nope", "write": "", "read": ""}),
    ],
    "health": [
        _get("/api/aliveness-test/{v}"),
        _get("/api/queues/{v}?columns=name"),
        _get("/api/aliveness-test/{v}-no"),
        _get("/api/healthchecks/node"),
        _get("/api/healthchecks/node/zz"),
        *(
            _get(f"/api/health/checks/{check}")
            for check in (
                "alarms", "local-alarms", "port-listener/zz", "node-is-quorum-critical",
                "node-is-mirror-sync-critical", "certificate-expiration/1/weeks", "certificate-expiration/1/zz",
                "is-in-service", "ready-to-serve-clients", "below-node-connection-limit",
                "metadata-store/initialized", "quorum-queues-without-elected-leaders/all-vhosts/",
            )
        ),
        _get("/api/health/checks/port-listener/1", "status", "reason", "missing"),
        _get("/api/health/checks/protocol-listener/amqp091", "status", "protocol"),
        _get("/api/health/checks/protocol-listener/http", "status", "protocol"),
        _get("/api/health/checks/protocol-listener/zz", "status", "reason", "missing"),
    ],
    "traces": [
        _put("/api/traces/{v}/{v}", {"format": "zz", "pattern": "#"}),
        _put("/api/traces/{v}/{v}", {}),
        _put("/api/traces/{v}/{v}", _TRACE | {"max_payload_bytes": "x"}),
        _put("/api/traces/{v}-no/{v}", _TRACE),
        _put("/api/traces/{v}/{v}", _TRACE),
        _get("/api/traces/{v}/{v}", "vhost", "name", "format", "pattern"),
        _get("/api/traces/{v}/nope"),
        _get("/api/vhosts/{v}", "name", "tracing"),
        _publish(),
        _get("/api/trace-files/{v}-nope.log"),
        _delete("/api/trace-files/{v}-nope.log"),
        _delete("/api/traces/{v}/nope"),
        _delete("/api/traces/{v}/{v}"),
        _get("/api/vhosts/{v}", "name", "tracing"),
        _delete("/api/traces/{v}/{v}"),
        _delete("/api/trace-files/{v}.log"),
        _get("/api/traces/node/zz@localhost"),
        _get("/api/trace-files/node/zz@localhost"),
    ],
    "connections": [
        _get("/api/connections/nope"),
        _delete("/api/connections/nope"),
        _get("/api/connections/nope/channels"),
        _get("/api/channels/nope"),
        _get("/api/consumers/{v}"),
        _get("/api/consumers/{v}-no"),
        _get("/api/vhosts/{v}/connections"),
        _get("/api/vhosts/{v}-no/connections"),
        _get("/api/vhosts/{v}/channels"),
    ],
}  # fmt: skip
