"""Calls about bindings that nobody made, or whose ends are not there."""

from __future__ import annotations

from tests.management.calls import Call, binding, delete, get, import_, post, put

_BETWEEN = "/api/bindings/{v}/e"

SCENARIOS: dict[str, list[Call]] = {
    "bindings to the default exchange": [
        put("/api/queues/{v}/q", {}),
        *(get(f"{_BETWEEN}/amq.default/{end}") for end in ("q/q", "q/no", "q/q/q", "q/no/no", "q/q/k", "e/amq.topic")),
        delete(f"{_BETWEEN}/amq.default/q/q/q"),
        delete(f"{_BETWEEN}/amq.default/q/no/no"),
        get("/api/exchanges/{v}/amq.default/bindings/source"),
        import_(bindings=[binding("", destination="q", routing_key="q")]),
        import_(bindings=[binding("", destination="no", routing_key="k")]),
        import_(bindings=[binding("", destination="no", destination_type="exchange")]),
    ],
    "bindings whose ends are not there": [
        get(f"{_BETWEEN}/no/q/q"),
        post(f"{_BETWEEN}/no/q/q", {"routing_key": 5}),
        post(f"{_BETWEEN}/amq.topic/q/q", {"routing_key": None, "arguments": []}),
        post(f"{_BETWEEN}/amq.topic/e/no", {"routing_key": [1]}),
        post(f"{_BETWEEN}/no/e/no", {"routing_key": [1]}),
        post(f"{_BETWEEN}/amq.topic/e/amq.default", {"routing_key": [1]}),
        post(f"{_BETWEEN}/amq.default/q/q", {"routing_key": {}}),
        put("/api/queues/{v}/q", {}),
        post(f"{_BETWEEN}/amq.default/q/q", {"routing_key": {}}),
        get("/api/bindings/{v}"),
    ],
}
