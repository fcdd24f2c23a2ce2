"""Topic exchanges."""

from __future__ import annotations

from tests.vectors.build import Part, bind, bind_exchange, exchange, publish, queue, routing

TOPIC = "AMQP 0-9-1 Model Explained; rabbit_exchange_type_topic.erl"


def bound(*patterns: str) -> list[Part]:
    """A topic exchange ``x`` and a queue for each binding key, named as the key with ``=`` before."""
    parts = [exchange("x", "topic")]
    for pattern in patterns:
        parts += [queue(f"={pattern}"), bind("x", f"={pattern}", pattern)]
    return parts


def keys(*published: str) -> list[Part]:
    """A publish for each key."""
    return [publish("x", key) for key in published]


CASES = [
    routing(
        "topic-star-is-one-word",
        "* stands for exactly one word.",
        TOPIC,
        bound("*", "*.*", "a.*", "*.b", "a.*.c"),
        keys("a", "a.b", "a.b.c", "a.x.c", "b", "x.b", ""),
    ),
    routing(
        "topic-hash-is-any-words",
        "# stands for zero or more words.",
        TOPIC,
        bound("#", "a.#", "#.b", "a.#.b", "#.a"),
        keys("", "a", "b", "a.b", "a.x.b", "a.x.y.b", "b.a", "b.x"),
    ),
    routing(
        "topic-empty-words",
        "Dots at the edge or in a row delimit empty words, which * matches; the empty key has no word.",
        TOPIC,
        bound("*", "*.", "*.*", "a.*", "a.*.b", "", "a.", ".a", ".", "#."),
        keys("", "a", "a.", ".a", "a..b", ".", "a.b"),
    ),
    routing(
        "topic-literal-words",
        "Words are compared exactly, case and all.",
        TOPIC,
        bound("a", "A", "a.b", "ab"),
        keys("a", "A", "a.b", "ab", "a.B"),
    ),
    routing(
        "topic-wildcards-within-words",
        "* and # within a longer word are letters.",
        TOPIC,
        bound("a*", "*a", "#a", "a#.b", "**"),
        keys("ab", "a*", "*a", "#a", "a#.b", "x", "**"),
    ),
    routing(
        "topic-wildcards-in-keys",
        "* and # in a published key are words like others.",
        TOPIC,
        bound("*", "#", "a.b", "*.b", "a"),
        keys("*", "#", "*.b", "#.b", "a.*"),
    ),
    routing(
        "topic-two-hashes",
        "Two # in a binding key.",
        TOPIC,
        bound("#.a.#", "#.#", "a.#.#", "#.a.b.#"),
        keys("a", "x.a.y", "a.b", "x.a.b.y", "x.y", ""),
    ),
    routing(
        "topic-hash-next-to-star",
        "# next to * needs at least one word.",
        TOPIC,
        bound("#.*", "*.#", "*.#.*", "#.*.#"),
        keys("", "a", "a.b", "a.b.c"),
    ),
    routing(
        "topic-three-hashes",
        "Until 4.3.4 any number of # is allowed, later two.",
        TOPIC + "; rabbitmq-server issue 17039",
        bound("#.a.#.b.#"),
        keys("a.b", "x.a.y.b.z", "b.a"),
    ),
    routing(
        "topic-many-words",
        "Long keys.",
        TOPIC,
        bound("a.#.z", "*.*.*.*.*.*", "a.b.c.d.e.f"),
        keys("a.b.c.d.e.f", "a.b.c.d.e.z", "a.z", "a.b.c.d.e.f.g.z"),
    ),
    routing(
        "topic-unicode",
        "Words are bytes; UTF-8 is nothing special.",
        TOPIC,
        bound("größe.*", "*.日本"),
        keys("größe.x", "x.日本", "größe.日本", "groesse.x"),
    ),
    routing(
        "topic-several-keys",
        "Each of key, CC and BCC may match; a queue gets one copy.",
        TOPIC,
        bound("a.*", "b.*", "*.1"),
        publish("x", "a.1", headers={"CC": ["b.1"]}),
        publish("x", "none", headers={"CC": ["a.2"], "BCC": ["b.2"]}),
    ),
    routing(
        "topic-same-queue-many-bindings",
        "A queue bound several times gets one copy.",
        TOPIC,
        exchange("x", "topic"),
        exchange("y", "topic"),
        queue("q"),
        bind("x", "q", "a.*"),
        bind("x", "q", "*.b"),
        bind("x", "q", "#"),
        bind_exchange("x", "y", "a.#"),
        bind("y", "q", "*.*"),
        publish("x", "a.b"),
        publish("y", "a"),
    ),
]
