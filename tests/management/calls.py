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
    ``content_type``: of the body; ``None`` leaves the header out.
    ``hashes``: compare password hashes too; only those that a request gave are the same everywhere.
    """

    method: str
    path: str
    body: Any = None
    auth: str | None = GUEST
    keys: tuple[str, ...] | None = None
    settled: bool = False
    unordered: bool = False
    content_type: str | None = "application/json"
    hashes: bool = False


def get(path: str, *keys: str, auth: str | None = GUEST, settled: bool = False, unordered: bool = False) -> Call:
    """Ask for something; ``keys`` of the answer alone."""
    return Call("GET", path, auth=auth, keys=keys or None, settled=settled, unordered=unordered)


def put(path: str, body: Any, auth: str = GUEST) -> Call:
    """Set or declare something."""
    return Call("PUT", path, body, auth)


def post(path: str, body: Any, auth: str = GUEST) -> Call:
    """Do something."""
    return Call("POST", path, body, auth)


def delete(path: str, auth: str = GUEST) -> Call:
    """Delete something."""
    return Call("DELETE", path, auth=auth)


DECLARED = ("arguments", "auto_delete", "durable", "exclusive", "name", "type", "vhost")
_X = "/api/bindings/{v}/e/x/q/q"
PUBLISH = {"properties": {}, "routing_key": "q", "payload": "hello", "payload_encoding": "string"}
LOOK = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
POLICY = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}
TRACE = {"format": "json", "pattern": "#"}
ALL_RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}
_PROPERTIES = {
    "delivery_mode": 2, "content_type": "text/plain", "content_encoding": "utf8", "priority": 3,
    "correlation_id": "c", "reply_to": "r", "message_id": "m", "timestamp": 1_700_000_000, "type": "t",
    "user_id": "guest", "app_id": "a", "cluster_id": "cl",
    "headers": {"a": 1, "b": [1, "x", 2.5, True], "c": {"d": "e"}, "big": 9_007_199_254_740_993},
}  # fmt: skip


def publish(**changed: Any) -> Call:
    """Publish through the default exchange, to the queue ``q`` unless told."""
    return post("/api/exchanges/{v}/amq.default/publish", PUBLISH | changed)


def look(**changed: Any) -> Call:
    """Get messages from the queue ``q``, to keep them there unless told."""
    return post("/api/queues/{v}/q/get", LOOK | changed)


def import_(**sections: list[dict[str, Any]]) -> Call:
    """Import definitions into the virtual host."""
    return post("/api/definitions/{v}", sections)


def import_all(vhost: str = "{v}", **sections: list[dict[str, Any]]) -> Call:
    """Import definitions, whose items name their virtual host, into the server."""
    named = {section: [item | {"vhost": vhost} for item in items] for section, items in sections.items()}
    return post("/api/definitions", named)


def queue(name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    """A queue in definitions."""
    return {"name": name, "durable": True, "auto_delete": False, "arguments": arguments or {}}


def exchange(name: str, kind: str = "headers") -> dict[str, Any]:
    """An exchange in definitions."""
    return {"name": name, "type": kind, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}


def binding(source: str, **changed: Any) -> dict[str, Any]:
    """A binding in definitions."""
    binding = {"destination": "dq", "destination_type": "queue", "routing_key": "a", "arguments": {}}
    return {"source": source, **binding, **changed}


def policy(name: str, **changed: Any) -> dict[str, Any]:
    """A policy in definitions."""
    return {"name": name, **POLICY, **changed}


def operator_policy(definition: dict[str, Any]) -> dict[str, Any]:
    """An operator policy in definitions."""
    return {"component": "operator_policy", "name": "op", "value": POLICY | {"definition": definition}}


SCENARIOS: dict[str, list[Call]] = {
    "who and where": [
        get("/api/whoami"),
        get("/api/whoami", auth="guest:wrong"),
        get("/api/whoami", auth="nobody:x"),
        get("/api/whoami", auth=None),
        get("/api/nope"),
        get("/api/nope", auth=None),
        get("/api"),
        get("/api/"),
        get("/zzz"),
        post("/api/queues/{v}", {}),
        Call("PATCH", "/api/queues/{v}/q", {}),
        Call("OPTIONS", "/api/queues/{v}/q"),
        Call("OPTIONS", "/api/bindings/{v}/e/x/q/q"),
        get("/api/auth", auth=None),
        get("/api/version"),
        get("/api/user-limits"),
        get("/api/vhost-limits/{v}"),
        get("/api/vhost-limits/{v}-no"),
        get("/api/rebalance/queues"),
        get("/api/nodes/zz/memory"),
        get("/api/nodes", "name", "running", "type", "mem_alarm", "disk_free_alarm", "partitions"),
        get("/api/overview", "product_name", "product_version", "rabbitmq_version", "management_version", "node"),
    ],
    "virtual hosts": [
        get("/api/vhosts/{v}", "name", "description", "tags", "default_queue_type", "metadata", "tracing"),
        put("/api/vhosts/{v}", {"description": "d", "tags": "a,b"}),
        get("/api/vhosts/{v}", "name", "description", "tags", "default_queue_type", "metadata", "cluster_state"),
        get("/api/vhosts/{v}-no"),
        get("/api/vhosts/{v}/permissions"),
        get("/api/vhosts/{v}/topic-permissions"),
        put("/api/vhosts/{v}", {"tracing": True}),
        get("/api/vhosts/{v}", "name", "tracing"),
        put("/api/vhosts/{v}", {"tracing": "zz"}),
        put("/api/vhosts/{v}", {"tracing": False}),
        get("/api/vhosts/{v}", "name", "tracing"),
        put("/api/vhosts/{v}-2", {}),
        get("/api/vhosts/{v}-2/permissions"),
        delete("/api/vhosts/{v}-2"),
        put("/api/vhosts/{v}-2", {"default_queue_type": "quorum"}),
        get("/api/vhosts/{v}-2", "default_queue_type"),
        put("/api/queues/{v}-2/q", {"durable": True}),
        get("/api/queues/{v}-2/q", *DECLARED),
        delete("/api/vhosts/{v}-2"),
        delete("/api/vhosts/{v}-2"),
    ],
    "queues": [
        put("/api/queues/{v}/q", {}),
        put("/api/queues/{v}/q", {"durable": True}),
        put("/api/queues/{v}/q", {"durable": False}),
        put("/api/queues/{v}/q2", {"durable": "true", "arguments": {"x-message-ttl": -1}}),
        put("/api/queues/{v}/q2", {"durable": "zzz"}),
        put(
            "/api/queues/{v}/q2",
            {"durable": True, "auto_delete": "true", "arguments": {"x-dead-letter-exchange": "", "x-expires": 60000}},
        ),
        put("/api/queues/{v}/qq", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
        put("/api/queues/{v}/st", {"durable": True, "arguments": {"x-queue-type": "stream"}}),
        put("/api/queues/{v}/amq.x", {}),
        put("/api/queues/{v}-no/q", {}),
        put("/api/queues/{v}/q", "not json"),
        put("/api/queues/{v}/q", ""),
        put("/api/queues/{v}/q", "[]"),
        put("/api/queues/{v}/q", '"x"'),
        put("/api/queues/{v}/q", "null"),
        put("/api/queues/{v}/qx", {"arguments": []}),
        put("/api/queues/{v}/qx", {"arguments": "x"}),
        put("/api/queues/{v}/qx", {"arguments": {"x": None}}),
        put("/api/queues/{v}/qx", {"node": "no@where"}),
        put("/api/queues/{v}/qx", {"name": "other", "unknown": 1}),
        put("/api/queues/{v}/qy", {"arguments": {"x-max-length": "s"}}),
        put("/api/queues/{v}/qy", {"arguments": {"x-max-length": 1.5}}),
        put("/api/queues/{v}/" + "q" * 256, {}),
        get("/api/queues/{v}/q", *DECLARED),
        get("/api/queues/{v}/q/", *DECLARED),
        get("/api/queues/{v}/q2", *DECLARED),
        get("/api/queues/{v}/qq", *DECLARED),
        get("/api/queues/{v}/st", *DECLARED),
        get("/api/queues/{v}/nope"),
        get("/api/queues/{v}-no/nope"),
        get("/api/queues/{v}-no"),
        get("/api/queues/{v}/q/nope"),
        delete("/api/queues/{v}/nope"),
        Call("HEAD", "/api/queues/{v}/q"),
        publish(),
        delete("/api/queues/{v}/q?if-empty=true"),
        delete("/api/queues/{v}/q?if-unused=true"),
        delete("/api/queues/{v}/st/contents"),
        post("/api/queues/{v}/qq/actions", {"action": "zz"}),
        post("/api/queues/{v}/qq/actions", {"action": "sync"}),
        post("/api/queues/{v}/qq/actions", {}),
        post("/api/queues/{v}/nope/actions", {"action": "sync"}),
    ],
    "lists": [
        *(put(f"/api/queues/{{v}}/{name}", {}) for name in ("a", "b", "Queue", "qz", "ünï")),
        get("/api/queues/{v}", *DECLARED),
        get("/api/queues/{v}?columns=name,type,arguments.x-queue-type"),
        get("/api/queues/{v}?page=1&page_size=2&columns=name"),
        get("/api/queues/{v}?page=3&page_size=2&columns=name"),
        get("/api/queues/{v}?page=9&page_size=2&columns=name"),
        get("/api/queues/{v}?page=0"),
        get("/api/queues/{v}?page=zz"),
        get("/api/queues/{v}?page=1&page_size=1000"),
        get("/api/queues/{v}?page=1&page_size=10&name=Q&columns=name"),
        get("/api/queues/{v}?page=1&page_size=10&name=%5Eq&use_regex=true&columns=name"),
        get("/api/queues/{v}?page=1&page_size=10&name=(&use_regex=true&columns=name"),
        get("/api/queues/{v}?sort=name&sort_reverse=true&columns=name"),
        get("/api/queues/{v}?name=zz&columns=name"),
        get("/api/queues/{v}?lengths_age=60&lengths_incr=0"),
        get("/api/queues/{v}?disable_stats=true&columns=name,state,type,node"),
        get("/api/exchanges/{v}?columns=name,type,internal"),
        get("/api/exchanges/{v}?page=1&page_size=2&columns=name"),
    ],
    "exchanges": [
        put("/api/exchanges/{v}/x", {"type": "topic"}),
        put("/api/exchanges/{v}/x", {"type": "topic"}),
        put("/api/exchanges/{v}/x", {"type": "direct"}),
        put("/api/exchanges/{v}/x2", {}),
        put("/api/exchanges/{v}/x3", {"type": "nosuch"}),
        put("/api/exchanges/{v}/x3", {"durable": "x"}),
        put("/api/exchanges/{v}/amq.x", {"type": "direct"}),
        put(
            "/api/exchanges/{v}/xi",
            {"type": "fanout", "internal": True, "durable": True, "arguments": {"alternate-exchange": "x"}},
        ),
        get("/api/exchanges/{v}/x"),
        get("/api/exchanges/{v}/xi"),
        get("/api/exchanges/{v}/amq.default"),
        get("/api/exchanges/{v}/nope"),
        delete("/api/exchanges/{v}/nope"),
        delete("/api/exchanges/{v}/amq.direct"),
        delete("/api/exchanges/{v}/amq.default"),
        put("/api/queues/{v}/q", {}),
        post("/api/bindings/{v}/e/x/q/q", {"routing_key": "k"}),
        delete("/api/exchanges/{v}/x?if-unused=true"),
        delete("/api/exchanges/{v}/x"),
    ],
    "bindings": [
        put("/api/exchanges/{v}/x", {"type": "topic"}),
        put("/api/exchanges/{v}/xi", {"type": "fanout"}),
        put("/api/queues/{v}/q", {}),
        post(_X, {"routing_key": "a.b"}),
        post(_X, {"routing_key": "a.b"}),
        post(_X, {"routing_key": "a.b", "arguments": {"k": "v", "n": 1}}),
        post(_X, {"routing_key": "t", "arguments": {"a": {"b": [1, 2.5, True, -7, 5_000_000_000]}}}),
        post(_X, {}),
        post(_X, {"routing_key": "a b/ü~%#*"}),
        post(_X, {"routing_key": "n", "arguments": {"x": None}}),
        post(_X, "not json"),
        post("/api/bindings/{v}/e/x/e/xi", {"routing_key": "k"}),
        post("/api/bindings/{v}/e/x/q/nope", {"routing_key": "k"}),
        post("/api/bindings/{v}/e/nope/q/q", {"routing_key": "k"}),
        post("/api/bindings/{v}/e/amq.default/q/q", {"routing_key": "k"}),
        post("/api/bindings/{v}-no/e/x/q/q", {"routing_key": "k"}),
        get(_X),
        get(f"{_X}/a.b"),
        get(f"{_X}/a.b~c8kv6Q"),
        get(f"{_X}/~"),
        get(f"{_X}/nope"),
        get(f"{_X}/nope~abc"),
        get("/api/bindings/{v}/e/x/e/xi"),
        get("/api/bindings/{v}"),
        get("/api/bindings/{v}-no"),
        get("/api/exchanges/{v}/x/bindings/source"),
        get("/api/exchanges/{v}/xi/bindings/destination"),
        get("/api/exchanges/{v}/nope/bindings/source"),
        get("/api/queues/{v}/q/bindings"),
        get("/api/queues/{v}/nope/bindings"),
        delete(f"{_X}/a.b"),
        delete(f"{_X}/a.b"),
        delete(f"{_X}/~"),
        delete(f"{_X}/a.b~c8kv6Q"),
        delete("/api/bindings/{v}/e/x/e/xi/k"),
        get(_X),
    ],
    "messages": [
        put("/api/queues/{v}/q", {}),
        put("/api/exchanges/{v}/xi", {"type": "fanout", "internal": True}),
        publish(),
        publish(routing_key="nope"),
        post("/api/exchanges/{v}/nope/publish", PUBLISH),
        post("/api/exchanges/{v}/xi/publish", PUBLISH),
        post("/api/exchanges/{v}-no/amq.default/publish", PUBLISH),
        post("/api/exchanges/{v}/amq.default/publish", {}),
        publish(payload=1),
        publish(payload_encoding="zz"),
        publish(payload_encoding="base64", payload="!!"),
        publish(payload_encoding="base64", payload="AAH/"),
        publish(properties=[]),
        publish(properties=_PROPERTIES),
        publish(properties={"expiration": "abc"}),
        publish(properties={"expiration": 6000}),
        publish(properties={"user_id": "other"}),
        publish(properties={"delivery_mode": "2"}),
        publish(properties={"headers": {"n": None}}),
        publish(properties={"headers": {"CC": "x"}}),
        publish(properties={"zzz": 1}),
        publish(properties={"message_id": 5}),
        post("/api/queues/{v}/q/get", {}),
        post("/api/queues/{v}/nope/get", LOOK),
        post("/api/queues/{v}-no/q/get", LOOK),
        look(ackmode="zz"),
        look(encoding="zz"),
        look(count="zz"),
        look(count="2", truncate="3"),
        look(count=0),
        look(),
        look(encoding="base64", ackmode="reject_requeue_true"),
        look(ackmode="ack_requeue_false", count=1),
        look(ackmode="reject_requeue_false", count=1),
        get("/api/queues/{v}/q/contents"),
        delete("/api/queues/{v}/q/contents"),
        delete("/api/queues/{v}/nope/contents"),
        look(),
    ],
    "dead letters": [
        put("/api/queues/{v}/dead", {"durable": True}),
        put(
            "/api/queues/{v}/q",
            {"durable": True, "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}},
        ),
        publish(properties={"message_id": "m", "headers": {"h": "v"}}),
        look(ackmode="reject_requeue_false", count=1),
        look(),
        put("/api/queues/{v}/full", {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}}),
        publish(routing_key="full"),
        publish(routing_key="full"),
    ],
    "policies": [
        put("/api/policies/{v}/p", POLICY),
        put("/api/policies/{v}/p", POLICY),
        put("/api/policies/{v}/p", {"pattern": "("}),
        put("/api/policies/{v}/p2", {"pattern": "(", "definition": {"max-length": 5}}),
        put("/api/policies/{v}/p2", {"pattern": "x", "definition": {"max-length": -5}}),
        put("/api/policies/{v}/p2", {"pattern": "x", "definition": {"nope": 1}}),
        put("/api/policies/{v}/p2", {"pattern": "x", "definition": {}}),
        put("/api/policies/{v}/p2", {"pattern": "x", "definition": {"max-length": 5}, "apply-to": "zz"}),
        put("/api/policies/{v}/p2", {"pattern": "x", "definition": {"max-length": 5}, "priority": "1"}),
        put("/api/policies/{v}/p2", {"pattern": "x", "definition": "s"}),
        put("/api/policies/{v}-no/p2", POLICY),
        get("/api/policies/{v}"),
        get("/api/policies/{v}/p"),
        get("/api/policies/{v}/nope"),
        get("/api/policies/{v}-no/p"),
        delete("/api/policies/{v}/nope"),
        put("/api/operator-policies/{v}/op", POLICY | {"definition": {"max-length": 3, "message-ttl": 60000}}),
        put("/api/operator-policies/{v}/op2", {"pattern": "x", "definition": {"dead-letter-exchange": "x"}}),
        get("/api/operator-policies/{v}"),
        get("/api/operator-policies/{v}/op"),
        get("/api/operator-policies/{v}/nope"),
        get("/api/parameters/operator_policy/{v}"),
        get("/api/parameters/policy/{v}"),
        get("/api/parameters/nope/{v}"),
        get("/api/parameters/operator_policy/{v}/op"),
        get("/api/parameters/operator_policy/{v}/nope"),
        put("/api/parameters/nope/{v}/x", {"value": {"a": 1}}),
        put("/api/parameters/policy/{v}/x", {"value": {"a": 1}}),
        put("/api/parameters/nope/{v}/x", {}),
        put("/api/parameters/nope/{v}-no/x", {"value": 1}),
        delete("/api/parameters/operator_policy/{v}/nope"),
        put("/api/queues/{v}/q", {"durable": True}),
        get(
            "/api/queues/{v}/q?columns=name,policy,operator_policy,effective_policy_definition",
            settled=True,
        ),
        delete("/api/policies/{v}/p"),
        delete("/api/operator-policies/{v}/op"),
        delete("/api/policies/{v}/p"),
    ],
    "global parameters": [
        put("/api/global-parameters/{v}", {"value": {"a": 1}}),
        put("/api/global-parameters/{v}", {"value": 5}),
        put("/api/global-parameters/{v}", {}),
        get("/api/global-parameters/{v}"),
        delete("/api/global-parameters/{v}"),
        get("/api/global-parameters/{v}"),
        delete("/api/global-parameters/{v}"),
    ],
    "users": [
        put("/api/users/{u}", {"password": "secret"}),
        put("/api/users/{u}", {"password": "secret", "tags": ""}),
        get("/api/whoami", auth=USER),
        put("/api/users/{u}", {"password": "secret", "tags": "management,foo"}),
        get("/api/users/{u}", "name", "tags", "limits", "hashing_algorithm"),
        put("/api/users/{u}", {"password": "secret", "tags": ["monitoring"]}),
        put("/api/users/{u}", {"password_hash": "zz", "tags": "management"}),
        put("/api/users/{u}", {"tags": "management"}),
        get("/api/users/{u}", "name", "password_hash"),
        get("/api/whoami", auth=USER),
        put("/api/users/{u}", {"password": "secret", "tags": "management"}),
        get("/api/users/{v}-nobody"),
        delete("/api/users/{v}-nobody"),
        get("/api/users/{u}/permissions"),
        get("/api/users/{v}-nobody/permissions"),
        get("/api/users/{u}/topic-permissions"),
        get("/api/permissions/{v}/guest"),
        get("/api/permissions/{v}/{u}"),
        get("/api/permissions/{v}/nope"),
        put("/api/permissions/{v}/{v}-nobody", ALL_RIGHTS),
        put("/api/permissions/{v}-no/guest", ALL_RIGHTS),
        put("/api/permissions/{v}/{u}", {"configure": "("}),
        get("/api/queues/{v}", auth=USER),
        get("/api/queues", auth=USER),
        get("/api/nodes", auth=USER),
        get("/api/users", auth=USER),
        get("/api/vhosts", auth=USER),
        put("/api/policies/{v}/p", POLICY, auth=USER),
        put("/api/queues/{v}/uq", {}, auth=USER),
        put("/api/permissions/{v}/{u}", {"configure": "^a", "write": "^a", "read": "^a"}),
        put("/api/permissions/{v}/{u}", {"configure": "^a", "write": "^a", "read": "^a"}),
        get("/api/users/{u}/permissions"),
        put("/api/queues/{v}/uq", {}, auth=USER),
        put("/api/queues/{v}/aq", {}, auth=USER),
        put("/api/queues/{v}/qq", {}),
        post("/api/queues/{v}/qq/get", LOOK, auth=USER),
        post("/api/exchanges/{v}/amq.default/publish", PUBLISH | {"routing_key": "aq"}, auth=USER),
        get("/api/queues/{v}?columns=name", auth=USER),
        put("/api/policies/{v}/p", POLICY, auth=USER),
        get("/api/connections", auth=USER),
        put("/api/users/{u}", {"password": "secret", "tags": "policymaker"}),
        put("/api/policies/{v}/p", POLICY, auth=USER),
        put("/api/operator-policies/{v}/p", POLICY, auth=USER),
        put("/api/topic-permissions/{v}/{u}", {"exchange": "amq.topic", "write": "a", "read": "b"}),
        put("/api/topic-permissions/{v}/{u}", {"exchange": "amq.topic", "write": "a", "read": "b"}),
        put("/api/topic-permissions/{v}/{u}", {"exchange": "amq.topic"}),
        get("/api/topic-permissions/{v}/{u}"),
        delete("/api/topic-permissions/{v}/{u}/amq.topic"),
        delete("/api/topic-permissions/{v}/{u}"),
        delete("/api/permissions/{v}/{u}"),
        delete("/api/permissions/{v}/{u}"),
        post("/api/users/bulk-delete", {"users": ["{v}-nobody"]}),
        post("/api/users/bulk-delete", {}),
        post("/api/users/bulk-delete", {"users": ["{u}"]}),
        get("/api/users/{u}"),
    ],
    "definitions": [
        get("/api/definitions/{v}-no"),
        post("/api/definitions", "not json"),
        post("/api/definitions/{v}-no", {}),
        post("/api/definitions/{v}", {}),
        post(
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
        get("/api/queues/{v}?columns=name,durable,arguments,type"),
        get("/api/bindings/{v}"),
    ],
    "refused definitions": [
        put("/api/queues/{v}/dq", {"durable": True}),
        import_(queues=[queue("dq2", {"x-message-ttl": -5})]),
        import_(queues=[queue("dq2", {"x-dead-letter-exchange": 5}), queue("after")]),
        import_(queues=[queue("dq2", {"x-queue-type": "nope"})]),
        import_(queues=[queue("dq2", {"x-queue-type": "quorum", "x-max-priority": 5})]),
        import_(queues=[queue("dq2", {"x-queue-type": "quorum"}) | {"durable": False}]),
        import_(queues=[queue("dq2", {"x": None})]),
        import_(queues=[queue("dq", {"x-max-length": -1})]),
        import_(queues=[queue("amq.dq")], exchanges=[exchange("amq.dx"), exchange("")]),
        import_(exchanges=[exchange("dx"), exchange("dt", "topic")]),
        import_(exchanges=[exchange("dx", "fanout")]),
        import_(exchanges=[exchange("dx", "nosuch")]),
        import_(exchanges=[exchange("dx2", "nosuch")]),
        import_(bindings=[binding("nope")]),
        import_(bindings=[binding("nope", destination="none")]),
        import_(bindings=[binding("dx", destination="none", destination_type="exchange")]),
        import_(bindings=[binding("dx", arguments={"x-match": 5}), binding("dx")]),
        import_(bindings=[binding("dx", arguments={"x-match": "zz"})]),
        import_(bindings=[binding("dt", routing_key="#.#.#.#")]),
        import_(policies=[policy("p1"), policy("p2", pattern="("), policy("p3")]),
        import_(policies=[policy("p2", definition={"nope": 1})]),
        import_(policies=[policy("p2", definition={"max-length": -1}, **{"apply-to": "zz"})]),
        import_(parameters=[operator_policy({"nope": 1})]),
        import_(parameters=[{"component": "nope", "name": "p", "value": {"a": 1}}]),
        import_(parameters=[{"component": "policy", "name": "p", "value": POLICY}]),
        import_(
            queues=[queue("last", {"x-max-length": -1})],
            exchanges=[exchange("last")],
            policies=[policy("last")],
        ),
        get("/api/queues/{v}?columns=name"),
        get("/api/exchanges/{v}?columns=name,type"),
        get("/api/policies/{v}?columns=name"),
        get("/api/bindings/{v}?columns=source,destination,routing_key,arguments"),
    ],
    "refused definitions of a cluster": [
        put("/api/queues/{v}/dq", {"durable": True}),
        import_all(queues=[queue("dq2", {"x-message-ttl": -5})]),
        import_all(policies=[policy("p2", definition={"nope": 1})]),
        import_all(parameters=[operator_policy({"nope": 1})]),
        import_all(exchanges=[exchange("dx2", "nosuch")]),
        import_all(bindings=[binding("nope")]),
        import_all("{v}-no", queues=[queue("dq")]),
        import_all("{v}-no", exchanges=[exchange("dx")]),
        import_all("{v}-no", policies=[policy("p")]),
        import_all("{v}-no", bindings=[binding("dx")]),
        import_all("{v}-no", permissions=[ALL_RIGHTS | {"user": "guest"}]),
        import_all(permissions=[ALL_RIGHTS | {"user": "{u}"}]),
        import_all(permissions=[ALL_RIGHTS | {"user": "guest", "read": "("}]),
        import_all(topic_permissions=[{"user": "guest", "exchange": "nope", "write": "", "read": ""}]),
        import_all(topic_permissions=[{"user": "guest", "exchange": "amq.topic", "write": "(", "read": ""}]),
        post("/api/definitions", {"queues": [queue("dq")]}),
        post("/api/definitions", {"users": [{"name": "{u}", "password": "x"}]}),
        post("/api/definitions", {"users": [{"name": "{u}", "password_hash": "zz", "tags": ""}]}),
        get("/api/queues/{v}?columns=name"),
        get("/api/exchanges/{v}?columns=name"),
        get("/api/policies/{v}?columns=name"),
        put("/api/permissions/{v}/guest", ALL_RIGHTS | {"write": "("}),
        put("/api/topic-permissions/{v}/guest", {"exchange": "amq.topic", "write": "", "read": "a("}),
        put("/api/topic-permissions/{v}/guest", {"exchange": "nope", "write": "", "read": ""}),
    ],
    "health": [
        get("/api/aliveness-test/{v}"),
        get("/api/queues/{v}?columns=name"),
        get("/api/aliveness-test/{v}-no"),
        get("/api/healthchecks/node"),
        get("/api/healthchecks/node/zz"),
        *(
            get(f"/api/health/checks/{check}")
            for check in (
                "alarms", "local-alarms", "port-listener/zz", "node-is-quorum-critical",
                "node-is-mirror-sync-critical", "certificate-expiration/1/weeks", "certificate-expiration/1/zz",
                "is-in-service", "ready-to-serve-clients", "below-node-connection-limit",
                "metadata-store/initialized", "quorum-queues-without-elected-leaders/all-vhosts/",
            )
        ),
        get("/api/health/checks/port-listener/1", "status", "reason", "missing"),
        get("/api/health/checks/protocol-listener/amqp091", "status", "protocol"),
        get("/api/health/checks/protocol-listener/http", "status", "protocol"),
        get("/api/health/checks/protocol-listener/zz", "status", "reason", "missing"),
    ],
    "traces": [
        put("/api/traces/{v}/{v}", {"format": "zz", "pattern": "#"}),
        put("/api/traces/{v}/{v}", {}),
        put("/api/traces/{v}/{v}", TRACE | {"max_payload_bytes": "x"}),
        put("/api/traces/{v}-no/{v}", TRACE),
        put("/api/traces/{v}/{v}", TRACE),
        get("/api/traces/{v}/{v}", "vhost", "name", "format", "pattern"),
        get("/api/traces/{v}/nope"),
        get("/api/vhosts/{v}", "name", "tracing"),
        publish(),
        get("/api/trace-files/{v}-nope.log"),
        delete("/api/trace-files/{v}-nope.log"),
        delete("/api/traces/{v}/nope"),
        delete("/api/traces/{v}/{v}"),
        get("/api/vhosts/{v}", "name", "tracing"),
        delete("/api/traces/{v}/{v}"),
        delete("/api/trace-files/{v}.log"),
        get("/api/traces/node/zz@localhost"),
        get("/api/trace-files/node/zz@localhost"),
    ],
    "connections": [
        get("/api/connections/nope"),
        delete("/api/connections/nope"),
        get("/api/connections/nope/channels"),
        get("/api/channels/nope"),
        get("/api/consumers/{v}"),
        get("/api/consumers/{v}-no"),
        get("/api/vhosts/{v}/connections"),
        get("/api/vhosts/{v}-no/connections"),
        get("/api/vhosts/{v}/channels"),
    ],
    "dot segments in a path": [
        put("/api/queues/{v}/q", {"durable": True}), put("/api/exchanges/{v}/x", {"type": "topic"}),
        post(_X, {"routing_key": "."}), delete(f"{_X}/."), delete(f"{_X}/%2E"), delete(f"{_X}/.."),
        get("/api/queues/{v}/other/../q", *DECLARED), get("/api/queues/{v}/q/./", *DECLARED),
        get("/api/queues/{v}/other%2F..%2Fq"), get("/api/x/%2e%2e/queues/{v}/q", *DECLARED),
        get("/../api/queues/{v}/q", *DECLARED), get("/%61pi/%71ueues/{v}/q", *DECLARED), get("/api/x/.."),
        get("/api/queues/{v}/..."), get("/api/queues/{v}/%"), get("/api/queues/{v}/%4"), get("/api/x/%4g/.."),
        get("/api/x/a%5Cb/.."), get("/api//"),
    ],
}  # fmt: skip
