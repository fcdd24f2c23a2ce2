"""Calls that import definitions, odd and broken ones among them, and calls about the whole cluster."""

from __future__ import annotations

from typing import Any

from tests.management.calls import (
    POLICY,
    USER,
    Call,
    binding,
    delete,
    exchange,
    get,
    import_,
    import_all,
    policy,
    post,
    put,
    queue,
)
from tests.management.limit_calls import user

_WITHOUT_KEY = {name: value for name, value in binding("").items() if name != "routing_key"}
_PROTECTION = get("/api/vhosts/{v}-p?columns=name,protected_from_deletion")
_LENIENT = (
    '{"queues":[],}', '{"queues":[,]}', '{"queues":[],,}', "{,}", '/* c */ {"queues":[]}', '{"queues":[]} // c',
    '{"queues" // c\n :[/*,*/]}', '/* c {"queues":[]}', '# c\n{"queues":[]}', "{'queues':[]}", '{"zz":"a\tb"}',
    '{"zz":"\\x"}', '{"zz":"\\ud800"}', '{"zz":"\\u12"}', '{"zz":"\\\'"}', '{"zz":1.0e400}', '{"zz":NaN}',
    "{queues:[]}", '{"zz":01}', '{"queues":[]}]', '\ufeff{"queues":[]}', "\ufeff", ' \ufeff{"queues":[]}', "\f{}",
    "[1,]",
)  # fmt: skip
_QUEUE_IN_QUOTES = (
    "{'name': 'q', 'durable': true, 'auto_delete': false, /* c */"
    " 'arguments': {'x-dead-letter-exchange': 'a\"\\'b\\x\tc'}}"
)
_EXCHANGE = '{"name":"x","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{}}'
_TWICE = '"arguments":{"x-max-length":1,"x-max-length":2,"x-max-length":3}'


def _protected(metadata: dict[str, bool]) -> dict[str, Any]:
    return {"vhosts": [{"name": "{v}-p", "metadata": metadata}]}


SCENARIOS: dict[str, list[Call]] = {
    "content types": [
        *(
            Call(method, path, body, content_type=kind)
            for method, path, body in (
                ("POST", "/api/definitions", {"users": []}),
                ("POST", "/api/definitions/{v}", {"queues": []}),
                ("POST", "/api/definitions/{v}-no", {}),
                ("PUT", "/api/operator-policies/{v}/op", POLICY),
                ("PUT", "/api/vhost-limits/{v}/max-queues", {"value": -1}),
                ("PUT", "/api/user-limits/{u}/max-channels", {"value": -1}),
                ("PUT", "/api/traces/{v}/{v}", {}),
                ("PUT", "/api/policies/{v}/p", POLICY),
                ("PUT", "/api/queues/{v}/q", {}),
            )
            for kind in (None, "text/plain", "Application/JSON ; charset=utf-8")
        ),
        Call("POST", "/api/definitions", {"users": []}, None, content_type="text/plain"),
        Call("POST", "/api/definitions/{v}", {"queues": []}, content_type="application/x-www-form-urlencoded"),
    ],
    "imported virtual hosts": [
        post("/api/definitions", {"vhosts": [{"name": "{v}-2", "limits": {"max-queues": 1}}]}),
        get("/api/vhosts/{v}-2/permissions"),
        get("/api/vhost-limits/{v}-2"),
        delete("/api/permissions/{v}-2/guest"),
        post("/api/definitions", {"vhosts": [{"name": "{v}-2"}]}),
        get("/api/vhosts/{v}-2/permissions"),
        delete("/api/vhosts/{v}-2"),
        post(
            "/api/definitions",
            {
                "vhosts": [{"name": "{v}-2"}],
                "permissions": [{"user": "guest", "vhost": "{v}-2", "configure": "a", "write": "b", "read": "c"}],
            },
        ),
        get("/api/vhosts/{v}-2/permissions"),
        delete("/api/vhosts/{v}-2"),
        user(password="secret", tags="administrator"),
        post("/api/definitions", {"vhosts": [{"name": "{v}-2"}]}, auth=USER),
        get("/api/vhosts/{v}-2/permissions"),
        delete("/api/vhosts/{v}-2"),
    ],
    "cluster name": [
        put("/api/cluster-name", {}),
        put("/api/cluster-name", {"name": "{v}-cluster"}),
        get("/api/cluster-name"),
        get("/api/overview", "cluster_name"),
        get("/api/global-parameters/cluster_name"),
        get("/api/definitions", "original_cluster_name", "explanation"),
        put("/api/cluster-name", {"name": 5}),
        put("/api/cluster-name", {"name": None}),
        user(password="secret"),
        get("/api/cluster-name", auth=USER),
        put("/api/cluster-name", {"name": "x"}, auth=USER),
        delete("/api/global-parameters/cluster_name"),
        get("/api/global-parameters/cluster_name"),
    ],
    "values of global parameters": [
        *(
            call
            for value in ({}, [], {"a": {"b": {}}, "c": [{"d": 1}]}, None, True, 1.5, "s", [1, [2]], [["a", 1]])
            for call in (
                put("/api/global-parameters/{v}", {"value": value}),
                get("/api/global-parameters/{v}"),
            )
        ),
        post("/api/definitions", {"global_parameters": [{"name": "{v}", "value": {"e": 1}}]}),
        get("/api/global-parameters/{v}"),
        post("/api/definitions", {"global_parameters": [{"name": "{v}"}]}),
        get("/api/global-parameters/{v}"),
        delete("/api/global-parameters/{v}"),
        post("/api/definitions", {"global_parameters": [{"value": 1}]}),
        post("/api/definitions", {"global_parameters": [{"name": 5, "value": 1}]}),
        delete("/api/global-parameters/undefined"),
        delete("/api/global-parameters/5"),
    ],
    "odd policies": [
        *(
            put("/api/policies/{v}/p", POLICY | changed)
            for changed in (
                {"priority": 1.5}, {"priority": -1}, {"priority": 10**20}, {"priority": None}, {"priority": True},
                {"pattern": 5}, {"pattern": None}, {"pattern": ["a"]}, {"apply-to": 5}, {"apply-to": None},
                {"definition": [["max-length", 5]]}, {"definition": [[5, 1]]}, {"definition": [5]}, {"definition": []},
                {"definition": None}, {"definition": {"max-length": 1.5}}, {"definition": {"5": 1}},
            )
        ),
        get("/api/policies/{v}"),
        *(
            import_(policies=[policy("i") | changed])
            for changed in (
                {"priority": 1.5}, {"priority": None}, {"priority": "x"}, {"pattern": 5}, {"pattern": None},
                {"apply-to": 5}, {"apply-to": None}, {"definition": [["max-length", 5]]}, {"definition": [[5, 1]]},
                {"definition": [["max-length"]]}, {"definition": [5]}, {"definition": []}, {"definition": None},
                {"definition": "x"}, {"definition": {"max-length": 1.5}},
            )
        ),
        get("/api/policies/{v}"),
        *(
            import_(parameters=[{"component": "operator_policy", "name": "o", "value": value}])
            for value in (
                {"pattern": "", "definition": {"max-length": 1}}, {"pattern": ""}, {"definition": {"max-length": 1}},
                {"pattern": "", "definition": []}, {"pattern": "", "definition": [["max-length", 1]]},
                {"pattern": "", "definition": [[5, 1]]}, {"pattern": "", "definition": "x"}, "x", 5, None, [], ["a"],
                POLICY | {"priority": 1.5}, POLICY | {"zz": 1},
            )
        ),
        get("/api/operator-policies/{v}"),
    ],
    "odd definitions": [
        *(
            call
            for document in ([], 5, "x", "null", '"x"', "true", '{"queues"', {"zz": 5})
            for call in (post("/api/definitions", document), post("/api/definitions/{v}", document))
        ),
        *(
            call
            for item in (
                {"name": "q1"}, {"name": "q2", "durable": True}, {"name": "q3", "auto_delete": False},
                {"name": "q4", "durable": True, "auto_delete": False},
                {"name": "q5", "durable": True, "auto_delete": False, "arguments": [], "exclusive": True},
                {"name": "q6", "durable": True, "auto_delete": False, "arguments": {}, "type": "quorum"},
                {"name": "q7", "durable": True, "auto_delete": False, "arguments": {"x-max-length": None}},
            )
            for call in (import_(queues=[item]), post("/api/definitions", {"queues": [{"vhost": "{v}"} | item]}))
        ),
        import_(exchanges=[{"name": "x1"}]),
        import_(exchanges=[{"name": "x2", "type": "topic", "durable": True, "auto_delete": False}]),
        import_(bindings=[{k: v for k, v in binding("amq.topic", destination="q6").items() if k != "arguments"}]),
        *(
            call
            for item in ({"name": "p"}, {"name": "p", "pattern": "x"}, {"name": "p", "definition": {"max-length": 1}})
            for call in (import_(policies=[item]), post("/api/definitions", {"policies": [{"vhost": "{v}"} | item]}))
        ),
        *(
            call
            for item in (
                {"component": "operator_policy"}, {"component": 5, "name": "x", "value": 1},
                {"component": "operator_policy", "name": "o"}, {"component": "nope", "name": "o"},
            )
            for call in (
                import_(parameters=[item]), post("/api/definitions", {"parameters": [{"vhost": "{v}"} | item]}),
            )
        ),
        *(
            post("/api/definitions", {"vhosts": [{"name": "{v}"} | item]})
            for item in (
                {"description": "d"}, {"tracing": "x"}, {"metadata": {"tags": "a,b"}}, {"default_queue_type": "zz"},
                {"metadata": {"default_queue_type": "zz"}},
            )
        ),
        get("/api/queues/{v}?columns=name,type,arguments"),
        get("/api/exchanges/{v}?columns=name,type,durable,auto_delete,internal"),
        get("/api/bindings/{v}?columns=source,destination,routing_key,arguments"),
    ],
    "imported bindings without a routing key": [
        import_(queues=[queue("dq")], exchanges=[exchange("d", "direct"), exchange("t", "topic"), exchange("h")]),
        *(import_(bindings=[_WITHOUT_KEY | {"source": name}]) for name in ("d", "h", "", "no", "t")),
        put("/api/exchanges/{v}/t2", {"type": "topic"}),
        import_all(bindings=[_WITHOUT_KEY | {"source": "h"}]),
        get("/api/bindings/{v}/e/d/q/dq"),
        get("/api/bindings/{v}/e/h/q/dq"),
        post("/api/bindings/{v}/e/t2/q/dq", {}),
        get("/api/bindings/{v}/e/t2/q/dq"),
    ],
    "imported default queue types": [
        *(
            call
            for name, item in (
                ("1", {"default_queue_type": "quorum"}),
                ("2", {"metadata": {"default_queue_type": "quorum"}}),
                ("3", {"metadata": {"default_queue_type": "quorum"}, "default_queue_type": "stream"}),
            )
            for call in (
                post(
                    "/api/definitions",
                    {
                        "vhosts": [{"name": "{v}-" + name} | item],
                        "queues": [queue("q") | {"vhost": "{v}-" + name}],
                    },
                ),
                get("/api/queues/{v}-" + name + "/q?columns=type,arguments"),
                get("/api/vhosts/{v}-" + name + "?columns=default_queue_type"),
                delete("/api/vhosts/{v}-" + name),
            )
        ),
        post("/api/definitions/{v}", {"default_queue_type": "quorum", "queues": [queue("q")]}),
        post("/api/definitions/{v}", {"metadata": {"default_queue_type": "quorum"}, "queues": [queue("r")]}),
        get("/api/queues/{v}?columns=name,type,arguments"),
    ],
    "virtual hosts protected from deletion": [
        post("/api/definitions", _protected({"protected_from_deletion": True})),
        _PROTECTION,
        get("/api/definitions/{v}-p", "metadata"),
        delete("/api/vhosts/{v}-p"),
        put("/api/vhosts/{v}-p", {}),
        _PROTECTION,
        post("/api/definitions", _protected({})),
        _PROTECTION,
        post("/api/definitions", _protected({"protected_from_deletion": False})),
        _PROTECTION,
        delete("/api/vhosts/{v}-p"),
        post("/api/definitions", {"vhosts": [{"name": "{v}-p", "protected_from_deletion": True}]}),
        _PROTECTION,
        post("/api/vhosts/{v}-p/deletion/protection", {}),
        post("/api/vhosts/{v}-p/deletion/protection", {}),
        _PROTECTION,
        delete("/api/vhosts/{v}-p"),
        delete("/api/vhosts/{v}-p/deletion/protection"),
        delete("/api/vhosts/{v}-p/deletion/protection"),
        _PROTECTION,
        post("/api/vhosts/{v}-no/deletion/protection", {}),
        delete("/api/vhosts/{v}-no/deletion/protection"),
        delete("/api/vhosts/{v}-p"),
    ],
    "JSON that is none": [
        *(
            call
            for text in _LENIENT
            for call in (post("/api/definitions/{v}", text), put("/api/exchanges/{v}/x", text))
        ),
        post("/api/definitions/{v}", "{'queues': [" + _QUEUE_IN_QUOTES + ",]}"),
        get("/api/queues/{v}?columns=name,arguments"),
    ],
    "equal keys": [
        post("/api/definitions/{v}", '{"exchanges":[' + _EXCHANGE + '],"queues":[],"exchanges":[]}'),
        get("/api/exchanges/{v}/x", "name"),
        post("/api/definitions/{v}", '{"queues":[{"name":"a","durable":true,"auto_delete":false,' + _TWICE + "}]}"),
        put("/api/queues/{v}/b", '{"durable":true,"auto_delete":true,"durable":false,' + _TWICE + "}"),
        put("/api/queues/{v}/c", '{"arguments":{"x-max-length":1,"x-max-lengt\\u0068":2}}'),
        get("/api/queues/{v}?columns=name,arguments,durable"),
    ],
    "parameters of plugins": [
        *(
            call
            for component in ("shovel", "federation-upstream", "federation-upstream-set")
            for call in (
                put("/api/parameters/" + component + "/{v}/s", {"value": {}}),
                import_(parameters=[{"component": component, "name": "s", "value": {}}], queues=[queue("q")]),
                import_all(parameters=[{"component": component, "name": "s", "value": {}}], queues=[queue("q")]),
                get("/api/queues/{v}?columns=name"),
            )
        ),
        import_(policies=[policy("f", definition={"federation-upstream-set": "all"})]),
        import_(exchanges=[exchange("x", "x-delayed-message")]),
    ],
    "bindings with many wildcards": [
        import_(queues=[queue("dq")], bindings=[binding("amq.topic", routing_key="#.#.#")]),
        import_all(bindings=[binding("amq.topic", routing_key="#.a.#.#")]),
        post("/api/bindings/{v}/e/amq.topic/q/dq", {"routing_key": "#.#.#"}),
        get("/api/bindings/{v}/e/amq.topic/q/dq"),
    ],
    "deprecated features": [
        Call("GET", "/api/deprecated-features", unordered=True),
        user(password="secret"),
        Call("GET", "/api/deprecated-features", auth=USER, keys=("name",), unordered=True),
    ],
}  # fmt: skip
