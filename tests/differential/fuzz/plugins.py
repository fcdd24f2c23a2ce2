"""Strategies for the exchange types of plugins that servers bring along: hashes and histories in front of queues.

Where a message goes by its hash, and what a queue that is bound later gets of a history, can be compared message by
message; what an exchange chooses at random cannot, and is not drawn. In the end all queues are emptied.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dlx.releases import Release
from tests.differential import operations as ops
from tests.differential.fuzz.management import EFFECT
from tests.differential.fuzz.messages import sometimes

BUNDLED = ("consistent-hash", "recent-history", "sharding", "shovel")
"""The plugins whose exchange types are drawn, as ``simulator.serve`` names them; and shovels."""
QUEUES = ["q1", "q2", "q3", "q4"]
KEYS = ["a", "b", "order.1", "order.2", "x" * 40, "", "ü", "7"]
EXPIRED = ops.Wait(800)

Steps = list[ops.Operation]


@st.composite
def hashes(draw: st.DrawFn) -> ops.DeclareExchange:
    """An exchange that chooses by a hash: of the key, of a header or of a property."""
    by = draw(st.sampled_from([{}, {}, {}, {"hash-header": "h"}, {"hash-property": "message_id"}]))
    return ops.DeclareExchange("hash", "x-consistent-hash", arguments=by)


@st.composite
def queues(draw: st.DrawFn, name: str) -> ops.DeclareQueue:
    """A queue whose messages die after a while, into one of the exchanges, or never."""
    found: dict[str, Any] = {}
    if draw(st.integers(0, 2)) == 0:
        found = {"x-message-ttl": 250, "x-dead-letter-exchange": draw(st.sampled_from(["hash", "modulus", "history"]))}
        key = draw(sometimes(st.sampled_from(KEYS), 40))
        found |= {} if key is None else {"x-dead-letter-routing-key": key}
    return ops.DeclareQueue(name, arguments=found)


def bindings(names: list[str]) -> st.SearchStrategy[ops.Bind]:
    """A binding: its key is a weight for the consistent hash, and means nothing to the others."""
    queue, weight = st.sampled_from(names), st.sampled_from(["1", "2", "5", "10"])
    return st.builds(ops.Bind, st.sampled_from(["hash", "hash", "modulus", "history"]), queue, weight)


@st.composite
def publishes(draw: st.DrawFn, names: list[str]) -> Steps:
    """Some messages, one by one."""
    del names
    found: Steps = []
    exchange = draw(st.sampled_from(["hash", "hash", "modulus", "history"]))
    for number in range(draw(st.integers(1, 6))):
        said = draw(st.sampled_from([None, None, {"h": "one"}, {"h": 7}, {"h": "two", "CC": ["b"]}]))
        properties = draw(st.sampled_from([{}, {"message_id": "m1"}, {"message_id": "m2"}]))
        key, mandatory = draw(st.sampled_from(KEYS)), draw(st.booleans())
        found.append(ops.Publish(key, exchange, f"{number} {key}", properties, said, mandatory, channel="p"))
    return found


@st.composite
def rebound(draw: st.DrawFn, names: list[str]) -> Steps:
    """A binding goes, or comes, or a queue is deleted and declared again."""
    binding = draw(bindings(names))
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return [ops.DeleteQueue(binding.queue, channel="z"), EFFECT, ops.DeclareQueue(binding.queue, channel="z")]
    if kind == 1:
        return [ops.Unbind(binding.exchange, binding.queue, binding.routing_key, channel="z"), EFFECT]
    return [binding, EFFECT]


@st.composite
def scripts(draw: st.DrawFn, release: Release) -> tuple[ops.Operation, ...]:
    """A script for a server of any release that has the plugins."""
    del release
    names = QUEUES[: draw(st.integers(2, 4))]
    exchanges = [
        draw(hashes()),
        ops.DeclareExchange("modulus", "x-modulus-hash"),
        ops.DeclareExchange(
            "history", "x-recent-history", arguments=draw(sometimes(st.just({"x-recent-history-length": 2}), 50, {}))
        ),
    ]
    declared = [draw(queues(name)) for name in names]
    bound = draw(st.lists(bindings(names), min_size=2, max_size=6, unique_by=lambda each: (each.exchange, each.queue)))
    found: Steps = [ops.SelectConfirms(channel="p"), *exchanges, *declared, *bound]
    for _ in range(draw(st.integers(2, 6))):
        found += draw(draw(st.sampled_from([publishes, publishes, rebound]))(names))
    return (*found, EXPIRED, *map(ops.Drain, names))
