"""Strategies for what a server refuses, often for one of two reasons: which one it names tells the order of its checks.

All of it happens on a channel of its own, which the refusal closes, or with it its connection.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.differential import operations as ops
from tests.differential.fuzz.names import EXCHANGES, ODD_KEYS
from tests.differential.fuzz.values import anything, plain, retyped, widths

CHANNEL = "f"
SPARE = "w"  # a queue that nothing else knows
EXPIRATIONS = ["", "1.5", "-1", " 5", "5 ", "+5", "99999999999", "4294967296", "x", "0x10", "٣"]
WRONG_COPIES = ["text", 5, [1], [[]], {}, ["k", None]]
ARGUMENTS = [
    "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy",
    "x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-type",
    "x-single-active-consumer", "x-max-age", "x-stream-max-segment-size-bytes", "x-queue-leader-locator",
    "x-quorum-initial-group-size", "x-unheard-of",
]  # fmt: skip


def properties() -> st.SearchStrategy[dict[str, Any]]:
    """Properties of which one or two are wrong, or just right."""
    return st.fixed_dictionaries(
        {},
        optional={
            "expiration": st.sampled_from(EXPIRATIONS),
            "user_id": st.sampled_from(["guest", "somebody", "", "Guest"]),
            "delivery_mode": st.sampled_from([0, 2, 3, 9]),
            "priority": st.sampled_from([10, 255]),
        },
    )


@st.composite
def publishes(draw: st.DrawFn, queues: list[str]) -> list[ops.Operation]:
    """A publish with up to four faults: where to, by whom, for how long, with copies for whom."""
    exchange = draw(st.sampled_from(["", "", "missing", "amq.rabbitmq.trace", *EXCHANGES]))
    copies = st.dictionaries(st.sampled_from(["CC", "BCC"]), st.sampled_from(WRONG_COPIES), max_size=2)
    headers = draw(st.none() | copies)
    key = draw(st.sampled_from([*queues, "nowhere", *ODD_KEYS]))
    flags = {"mandatory": draw(st.booleans()), "immediate": draw(st.integers(0, 15)) == 0}
    confirms = [ops.SelectConfirms(channel=CHANNEL)] if draw(st.integers(0, 3)) == 0 else []
    return [*confirms, ops.Publish(key, exchange, "f", draw(properties()), headers, **flags, channel=CHANNEL)]


@st.composite
def declarations(draw: st.DrawFn, declared: list[ops.DeclareQueue]) -> list[ops.Operation]:
    """A queue of one or two arguments that are hardly right, which is deleted again; or one that exists, otherwise."""
    flags: dict[str, Any] = {name: draw(st.integers(0, 5)) == 0 for name in ("exclusive", "auto_delete")}
    kept_out = {"x-delayed-retry-type", "stream"}  # see topologies.endless; a stream counts its messages late
    safe = [queue for queue in declared if not kept_out & {*queue.arguments, queue.arguments.get("x-queue-type")}]
    if draw(st.booleans()) and safe:
        existing = draw(st.sampled_from(safe))
        arguments = draw(altered(existing.arguments))
        return [ops.DeclareQueue(existing.queue, existing.durable, arguments=arguments, channel=CHANNEL, **flags)]
    kind = draw(st.sampled_from(["classic", "classic", "quorum", "stream"]))
    wrong = draw(st.dictionaries(st.sampled_from(ARGUMENTS), anything(), min_size=1, max_size=2))
    durable = draw(st.integers(0, 5)) > 0
    name = draw(st.sampled_from([SPARE, SPARE, SPARE, "amq.q"]))
    queue = ops.DeclareQueue(name, durable, arguments={"x-queue-type": kind} | wrong, channel=CHANNEL, **flags)
    return [queue, ops.DeleteQueue(name, channel=CHANNEL)]


@st.composite
def altered(draw: st.DrawFn, arguments: dict[str, Any]) -> dict[str, Any]:
    """Much the same arguments: one is missing, of another value, or only of another width."""
    found = draw(retyped(arguments))
    if not arguments:
        return {draw(st.sampled_from(ARGUMENTS)): draw(anything())}
    name = draw(st.sampled_from(sorted(arguments)))
    value = plain(arguments[name])
    change = draw(st.sampled_from(["width", "width", "value", "missing"]))
    if change == "missing":
        del found[name]
    elif change == "value":
        found[name] = draw(anything())
    elif type(value) is int:
        found[name] = draw(widths(value))
    return found


@st.composite
def consumes(draw: st.DrawFn, queues: list[str]) -> list[ops.Operation]:
    """A consumer whose arguments are hardly right, of a queue that may not be there; it goes at once."""
    names = st.sampled_from(["x-priority", "x-stream-offset", "x-cancel-on-ha-failover", "x-unheard-of"])
    arguments = draw(st.dictionaries(names, anything(), min_size=1, max_size=2))
    queue = draw(st.sampled_from([*queues, "missing"]))
    consumer = ops.Consume(queue, "f", arguments=arguments, channel=CHANNEL)
    return [ops.Qos(1, channel=CHANNEL), consumer, ops.CloseChannel(channel=CHANNEL)]


@st.composite
def bindings(draw: st.DrawFn, queues: list[str]) -> list[ops.Operation]:
    """A binding with any x-match, of what may not be there; it goes at once."""
    source = draw(st.sampled_from([*EXCHANGES, "missing", "amq.headers", ""]))
    arguments = {"x-match": draw(anything() | st.sampled_from(["all", "any-with-x"])), "a": draw(anything())}
    queue = draw(st.sampled_from([*queues, "missing"]))
    bound: dict[str, Any] = {"queue": queue, "arguments": arguments, "channel": CHANNEL}
    return [ops.Bind(source, routing_key="f", **bound), ops.Unbind(source, routing_key="f", **bound)]


def steps(queues: list[str], declared: list[ops.DeclareQueue]) -> st.SearchStrategy[list[ops.Operation]]:
    """One thing that a server refuses, or is just allowed."""
    refused = [publishes(queues), declarations(declared), consumes(queues), bindings(queues)]
    return st.one_of(publishes(queues), *refused)
