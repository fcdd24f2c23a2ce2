"""Exchanges of every type, alternate exchanges and exchanges bound to exchanges."""

from typing import Any

from tests.differential.operations import Bind, BindExchange, DeleteExchange, Unbind, UnbindExchange
from tests.differential.words import Part, exchange, fan, publish, queue, scenario
from tests.real_servers import since
from tests.vectors.amqp import Field

ALL_AND_ANY = ({"x-match": "all", "a": 1, "b": "two"}, {"x-match": "any", "a": 1, "b": "two"})
OF_EVERY_TYPE = (1, 1.0, "1", True, Field("l", 1), [1, 2], {"b": 1}, Field("T", 1700000000), None)


def topic(*keys: str) -> list[Part]:
    """A topic exchange with a queue for each binding key, named by it."""
    return [exchange("t", "topic"), *[(queue(f"[{key}]"), Bind("t", f"[{key}]", key)) for key in keys]]


def headers(*arguments: dict[str, Any]) -> list[Part]:
    """A headers exchange with a queue for each binding."""
    bound = [(f"q{i}", each) for i, each in enumerate(arguments)]
    return [exchange("h", "headers"), *[(queue(name), Bind("h", name, arguments=each)) for name, each in bound]]


SCENARIOS = [
    scenario(
        "direct",
        exchange("x", "direct"), queue("q"), queue("r"), Bind("x", "q", "a"), Bind("x", "r", "a"),
        Bind("x", "r", "b"), publish("a", "a", exchange="x"), publish("b", "b", exchange="x"),
        publish("A", "A", exchange="x"), publish("", "", exchange="x"),
    ),
    scenario("fanout ignores keys", fan("x", "q", "r"), publish("anything", exchange="x", headers={"CC": ["q"]})),
    scenario("default exchange", queue("q"), publish("q"), publish("r", mandatory=True), publish("", mandatory=True)),
    scenario(
        "one queue, several keys, one copy",
        exchange("x", "direct"), queue("q"), Bind("x", "q", "a"), Bind("x", "q", "b"),
        publish("a", exchange="x", headers={"CC": ["b"]}),
    ),
    scenario(
        "topic wildcards",
        topic("#", "*", "", "a.*", "a.#", "#.a", "*.*", "a.#.b", "a.*.b", "*.#"),
        [publish(k, k, exchange="t") for k in ("", "a", "a.", "a.b", "a.b.c", "b.a", "a..b", "a.x.y.b", ".", "A")],
    ),
    scenario("topic with CC", topic("a.*", "b"), publish("x", exchange="t", headers={"CC": ["a.1", "a.2", "b"]})),
    scenario(
        "topic unbound",
        topic("a.#"), publish("a.b", "1", exchange="t"), Unbind("t", "[a.#]", "a.#"),
        publish("a.b", "2", exchange="t", mandatory=True),
    ),
    scenario(
        "headers",
        headers(*ALL_AND_ANY, {"a": 1}, {}, {"x-match": "any"}, {"a": None}, {"x-match": "all", "x-secret": 1}),
        publish("", "both", exchange="h", headers={"a": 1, "b": "two"}),
        publish("", "a", exchange="h", headers={"a": 1}),
        publish("", "b", exchange="h", headers={"b": "two", "a": 2}), publish("", "none", exchange="h"),
        publish("", "x", exchange="h", headers={"x-secret": 1}),
    ),
    scenario(
        "headers of other types",
        headers(*[{"a": value} for value in OF_EVERY_TYPE]),
        publish("", "int", exchange="h", headers={"a": 1}),
        publish("", "short", exchange="h", headers={"a": Field("s", 1)}),
        publish("", "double", exchange="h", headers={"a": 1.0}),
        publish("", "text", exchange="h", headers={"a": "1"}), publish("", "bool", exchange="h", headers={"a": True}),
        publish("", "array", exchange="h", headers={"a": [1, 2]}),
        publish("", "table", exchange="h", headers={"a": {"b": 1}}),
        publish("", "time", exchange="h", headers={"a": Field("T", 1700000000)}),
        publish("", "void", exchange="h", headers={"a": None}),
    ),
    scenario(
        "headers with x",
        headers({"x-match": "all-with-x", "x-a": 1}, {"x-match": "any-with-x", "x-a": 1, "b": 2}),
        publish("", "x", exchange="h", headers={"x-a": 1}), publish("", "b", exchange="h", headers={"b": 2}),
        releases=since("3.9"),
    ),
    scenario(
        "alternate exchange",
        fan("ae", "u"), exchange("x", "direct", ae="ae"), queue("q"), Bind("x", "q", "k"),
        publish("k", "routed", exchange="x"), publish("other", "not", exchange="x", mandatory=True),
    ),
    scenario(
        "alternate exchange in a chain",
        fan("ae2", "u"), exchange("ae1", "direct", ae="ae2"), exchange("x", "direct", ae="ae1"),
        publish("k", exchange="x"),
    ),
    scenario(
        "alternate exchange in a circle",
        exchange("x", "direct", ae="y"), exchange("y", "direct", ae="x"), publish("k", exchange="x", mandatory=True),
    ),
    scenario(
        "alternate exchange that is the default one",
        queue("k"), exchange("x", "direct", ae=""), publish("k", exchange="x", mandatory=True),
    ),
    scenario(
        "alternate exchange comes later",
        exchange("x", "direct", ae="ae"), publish("k", "lost", exchange="x", mandatory=True), fan("ae", "u"),
        publish("k", "found", exchange="x"), DeleteExchange("ae"), publish("k", "lost", exchange="x", mandatory=True),
    ),
    scenario(
        "exchange to exchange",
        fan("y", "q"), exchange("x", "direct"), BindExchange("x", "y", "k"), publish("k", "1", exchange="x"),
        publish("z", "2", exchange="x", mandatory=True), UnbindExchange("x", "y", "k"),
        publish("k", "3", exchange="x", mandatory=True),
    ),
    scenario(
        "exchange to exchange that routes nowhere, with an alternate one",
        fan("ae", "u"), exchange("y"), exchange("x", ae="ae"), BindExchange("x", "y"),
        publish("", exchange="x", mandatory=True),
    ),
    scenario(
        "exchanges in a circle",
        fan("y", "q"), exchange("x"), BindExchange("x", "y"), BindExchange("y", "x"), publish("", exchange="x"),
        publish("", exchange="y"),
    ),
    scenario(
        "the order of keys",
        exchange("x", "topic"), queue("q"), Bind("x", "q", "#"),
        publish("first", exchange="x", headers={"CC": ["second"], "BCC": ["third"]}),
    ),
    scenario(
        "predeclared exchanges",
        queue("q"), Bind("amq.direct", "q", "k"), Bind("amq.fanout", "q"), Bind("amq.topic", "q", "#"),
        Bind("amq.headers", "q"), Bind("amq.match", "q"),
        [publish("k", f"{n}", exchange=f"amq.{n}") for n in ("direct", "fanout", "topic", "headers", "match")],
    ),
]  # fmt: skip
