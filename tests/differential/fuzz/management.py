"""Strategies for what operators do through the management API, beside policies.

Only what a server answers at once: no statistics, and no list in an order that it leaves open.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.differential import operations as ops
from tests.differential.fuzz.values import NAMES

V = ops.VHOST
EFFECT = ops.Wait(150)  # what an operator does needs a moment on a real server
JSON_VALUES: list[Any] = ["red", 1, -1, 2**40, 1.5, True, None, [], ["a", 1], {"a": 1}, {}]
ACK_MODES = ["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false", "other"]

Steps = list[ops.Operation]


def _values() -> st.SearchStrategy[Any]:
    return st.sampled_from(JSON_VALUES)


@st.composite
def publishes(draw: st.DrawFn, queues: list[str], expirations: list[str]) -> Steps:
    """A message for a queue, or for whatever an exchange leads to."""
    properties = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "delivery_mode": st.sampled_from([1, 2, 2, "2"]),
                "priority": st.sampled_from([0, 5, -1]),
                "expiration": st.sampled_from([*expirations, 60000]),
                "headers": st.dictionaries(st.sampled_from(NAMES), _values(), max_size=2),
                "message_id": st.just("id"),
                "user_id": st.sampled_from(["guest", "somebody"]),
            },
        )
    )
    body: dict[str, Any] = {
        "properties": properties,
        "routing_key": draw(st.sampled_from([*queues, *queues, "nowhere"])),
        "payload": draw(st.sampled_from(["h", "ö", "aGk="])),
        "payload_encoding": draw(st.sampled_from(["string", "string", "string", "base64", "other"])),
    }
    if draw(st.integers(0, 11)) == 0:
        del body[draw(st.sampled_from(sorted(body)))]
    exchange = draw(st.sampled_from(["amq.default"] * 4 + ["missing"]))
    return [ops.Http("POST", ("exchanges", V, exchange, "publish"), body)]


@st.composite
def gets(draw: st.DrawFn, stores: list[str], rejections: bool) -> Steps:
    """Messages are looked at, taken, or rejected."""
    modes = ACK_MODES if rejections else ACK_MODES[:2]
    body: dict[str, Any] = {
        "count": draw(st.sampled_from([1, 1, 2, 5])),
        "ackmode": draw(st.sampled_from(modes)),
        "encoding": draw(st.sampled_from(["auto", "base64", "other"])),
    }
    if draw(st.integers(0, 3)) == 0:
        body["truncate"] = draw(st.sampled_from([0, 1, 50]))
    if draw(st.integers(0, 15)) == 0:
        del body[draw(st.sampled_from(sorted(body)))]
    return [ops.Http("POST", ("queues", V, draw(st.sampled_from([*stores, *stores, "missing"])), "get"), body)]


@st.composite
def declarations(draw: st.DrawFn, declared: list[ops.DeclareQueue], exchanges: list[ops.DeclareExchange]) -> Steps:
    """Queues and exchanges are declared (again), emptied and deleted."""
    existing, exchange = draw(st.sampled_from(declared)), draw(st.sampled_from(exchanges))
    queue = ("queues", V, existing.queue)
    names = ["x-queue-type", "x-dead-letter-exchange"]
    given = _values() | st.sampled_from(["classic", "quorum"])
    other = draw(st.dictionaries(st.sampled_from(names), given, max_size=2))
    odd = draw(st.dictionaries(st.sampled_from([*names, "x-max-length", "x-message-ttl"]), given, max_size=2))
    wrong = draw(st.dictionaries(st.sampled_from(["durable", "auto_delete", "arguments"]), _values(), max_size=1))
    kind = draw(st.sampled_from(["direct", "topic", "x", 1]))
    kinds: list[Steps] = [
        [ops.Http("PUT", queue, {"durable": existing.durable, "arguments": other})],
        [ops.Http("PUT", ("queues", V, "w"), {"arguments": odd} | wrong), ops.Http("DELETE", ("queues", V, "w"))],
        [ops.Http("PUT", ("exchanges", V, exchange.exchange), {"type": kind})],
        [ops.Http("DELETE", (*queue, "contents")), EFFECT],
        [ops.Http("DELETE", queue), EFFECT],
        [ops.Http("DELETE", ("exchanges", V, exchange.exchange)), EFFECT],
        [ops.Http("PUT", ("exchanges", V, "amq.new"), {"type": "direct"})],
    ]
    return draw(st.sampled_from(kinds))


@st.composite
def bindings(draw: st.DrawFn, binding: ops.Bind | ops.BindExchange) -> Steps:
    """A binding as AMQP could have made it, or one that is not there is deleted."""
    if isinstance(binding, ops.BindExchange):
        path = ("bindings", V, "e", binding.source, "e", binding.destination)
    else:
        path = ("bindings", V, "e", binding.exchange, "q", binding.queue)
    arguments = draw(st.sampled_from([{}, {}, {"x-match": "any"}, {"a": 1}]))
    made = ops.Http("POST", path, {"routing_key": binding.routing_key, "arguments": arguments})
    gone = ops.Http("DELETE", (*path, draw(st.sampled_from([binding.routing_key or "~", "nothing"]))))
    return draw(st.sampled_from([[made], [made], [gone, EFFECT], [made, gone, EFFECT]]))


@st.composite
def definitions(draw: st.DrawFn, declared: list[ops.DeclareQueue]) -> Steps:
    """A small document with a queue, an exchange, a binding and a policy, of which some may be wrong."""
    wrong = draw(st.integers(0, 3)) == 0
    queue = {"name": "w", "durable": True, "auto_delete": False, "arguments": {"x-max-length": -1 if wrong else 5}}
    parts: dict[str, Any] = {
        "queues": [queue, {"name": declared[0].queue, "durable": True, "auto_delete": False, "arguments": {}}],
        "exchanges": [
            {"name": "x9", "type": draw(st.sampled_from(["fanout", "x-unheard-of"])), "durable": True,
             "auto_delete": False, "internal": False, "arguments": {}}
        ],
        "bindings": [
            {"source": draw(st.sampled_from(["x9", "missing"])), "destination": "w", "destination_type": "queue",
             "routing_key": "k", "arguments": {}}
        ],
    }  # fmt: skip
    kept = draw(st.lists(st.sampled_from(sorted(parts)), unique=True, min_size=1))
    document = {name: parts[name] for name in parts if name in kept}
    gone = [ops.Http("DELETE", ("queues", V, "w")), ops.Http("DELETE", ("exchanges", V, "x9")), EFFECT]
    return [ops.Http("POST", ("definitions", V), document), EFFECT, *gone]


def limits() -> st.SearchStrategy[Steps]:
    """A limit of queues, which the script may meet, and leaves."""
    return st.sampled_from([0, 1, 3, 6, -1]).map(lambda most: [ops.SetVhostLimit("max-queues", most), EFFECT])
