"""At-least-once dead-lettering of quorum queues: dead letters are held until a queue has taken them."""

from typing import Any

from tests.differential.operations import (
    Bind,
    Cancel,
    ClearPolicy,
    Consume,
    Count,
    Drain,
    Get,
    Nack,
    Operation,
    PurgeQueue,
    Qos,
    Scenario,
    SelectConfirms,
    SetPolicy,
    ShowQueue,
    Unbind,
    Wait,
)
from tests.differential.words import (
    Part,
    burst,
    exchange,
    fan,
    gets,
    nacked,
    policy,
    publish,
    queue,
    quorum,
    rejected,
    returned,
    scenario,
)
from tests.real_servers import since

FROM_39 = since("3.9")
CONFIRMED = SelectConfirms()
HELD: dict[str, Any] = {"overflow": "reject-publish", "dead_letter_strategy": "at-least-once"}
STATISTICS = Wait(12_000)  # a server shows how many are held some seconds late
TOUCH = [SetPolicy("touch", "^q$", {"max-length": 1000}), Wait(300)]  # a change of policy makes the worker try again


def at_least_once(name: str, *parts: Part) -> Scenario:
    """A scenario of the releases that know it."""
    return scenario(name, CONFIRMED, *parts, releases=FROM_39)


def rejected_together(queue: str, number: int) -> list[Operation]:
    """A consumer takes so many messages and rejects them at once."""
    tag, where = "k", {"channel": "c"}
    return [
        Qos(number, **where), Consume(queue, tag, **where), Cancel(tag, **where),
        Nack(tag=0, multiple=True, requeue=False, **where), Wait(300),
    ]  # fmt: skip


def held_before_one_that_has_a_route(number: int) -> list[Part]:
    """So many messages that no queue gets die first, and then one that a queue gets."""
    return [
        exchange("x", "direct"), queue("d"), Bind("x", "d", "d"), quorum("q", dlx="x", **HELD), exchange("in"),
        Bind("in", "q"), burst(publish("gone", *["m"] * number, exchange="in"), publish("d", "last", exchange="in")),
        rejected_together("q", number + 1), Count("d"), STATISTICS, ShowQueue("q", ("messages_dlx",)),
        queue("e"), Bind("x", "e", "gone"), TOUCH, Count("d"), Count("e"), STATISTICS,
        ShowQueue("q", ("messages_dlx",)),
    ]  # fmt: skip


SCENARIOS = [
    at_least_once(
        "forwarded",
        queue("d"), quorum("q", dlx="", dlrk="d", **HELD),
        publish("q", "1", "2", headers={"a": 1}, expiration="60000"), rejected("q"), nacked("q"), Wait(100),
        Count("q"), Get("d"),
    ),
    at_least_once(
        "forwarded, all reasons",
        queue("d"), quorum("q", dlx="", dlrk="d", limit=0, **HELD), publish("q", "expires", expiration="50"),
        Wait(300), publish("q", "returned"), returned("q"), Wait(100), publish("q", "rejected"), rejected("q"),
        Wait(100),
    ),
    at_least_once(
        "held while the exchange is missing",
        quorum("q", dlx="x", length=3, **HELD), publish("q", "1", "2"), rejected("q", 2), Count("q"),
        publish("q", "3", "4", "5", "6"), Count("q"), fan("x", "d"), TOUCH, Count("d"), Count("q"), publish("q", "7"),
    ),
    at_least_once(
        "held while there is no route",
        exchange("x", "direct"), queue("d"), quorum("q", dlx="x", dlrk="k", **HELD), publish("q", "1", "2"),
        rejected("q", 2), Wait(100), Count("d"), Bind("x", "d", "k"), TOUCH, Count("d"),
    ),
    at_least_once(
        "held by a cycle",
        queue("d"), quorum("q", dlx="", dlrk="q", ttl=50, **HELD), publish("q"), Wait(300), Count("q"),
    ),
    at_least_once(
        "a cycle drops one copy only",
        fan("x", "d"), quorum("q", dlx="x", ttl=50, **HELD), Bind("x", "q"), publish("q"), Wait(300), Count("q"),
    ),
    at_least_once(
        "held by a cycle until another queue is bound",
        exchange("x"), quorum("q", dlx="x", ttl=50, **HELD), Bind("x", "q"), publish("q", "1", "2"), Wait(300),
        queue("d"), Bind("x", "d"), TOUCH, Count("d"), publish("q", "3"), Wait(300), Count("d"), STATISTICS,
        ShowQueue("q", ("messages_dlx",)),
    ),
    at_least_once(
        "held by a cycle until its binding is gone",
        exchange("x"), quorum("q", dlx="x", ttl=50, **HELD), Bind("x", "q"), publish("q", "1", "2"), Wait(300),
        Unbind("x", "q"), queue("d"), Bind("x", "d"), TOUCH, Count("d"), STATISTICS, ShowQueue("q", ("messages_dlx",)),
    ),
    at_least_once(
        "rejected onto itself is no cycle",
        quorum("q", dlx="", dlrk="q", **HELD), publish("q"), rejected("q"), Wait(100), rejected("q"), Wait(100),
        Get("q"),
    ),
    at_least_once(
        "rejected onto itself, while it is full",
        quorum("q", dlx="", dlrk="q", length=2, **HELD), publish("q", "1", "2"), nacked("q"), Wait(100), nacked("q"),
        Wait(100), Count("q"),
    ),
    at_least_once(
        "a full target that rejects",
        queue("d", length=1, overflow="reject-publish"), quorum("q", dlx="", dlrk="d", **HELD),
        publish("q", "1", "2"), rejected("q", 2), Wait(100), Count("d"), Count("q"), Drain("d"),
    ),
    at_least_once(
        "a full target that drops",
        queue("dd"), queue("d", length=1, dlx="", dlrk="dd"), quorum("q", dlx="", dlrk="d", **HELD),
        publish("q", "1", "2"), rejected("q", 2), Wait(100),
    ),
    at_least_once(
        "overflow drop-head falls back to at-most-once",
        quorum("q", dlx="x", dead_letter_strategy="at-least-once"), publish("q", "1"), rejected("q"), fan("x", "d"),
        TOUCH, Count("d"), publish("q", "2"), rejected("q"), Wait(100),
    ),
    at_least_once("no dead-letter exchange", quorum("q", **HELD), publish("q"), rejected("q"), Count("q")),
    at_least_once(
        "strategy by policy",
        queue("d"), quorum("q"), policy("p", "^q$", dlx="x", **HELD), Wait(200), publish("q", "1"), rejected("q"),
        exchange("x"), Bind("x", "d"), policy("p", "^q$", dlx="x", max_length=10, **HELD), Wait(300), Count("d"),
    ),
    at_least_once(
        "strategy taken away",
        queue("d"), quorum("q", dlx="x", overflow="reject-publish"),
        SetPolicy("p", "^q$", {"dead-letter-strategy": "at-least-once"}), Wait(200), publish("q", "1", "2"),
        rejected("q", 2), ClearPolicy("p"), Wait(200), exchange("x"), Bind("x", "d"), publish("q", "3"),
        rejected("q"), Wait(100), Count("d"),
    ),
    at_least_once(
        "purged while held",
        quorum("q", dlx="x", **HELD), publish("q", "1", "2", "3"), rejected("q", 2), Wait(100), PurgeQueue("q"),
        Count("q"), fan("x", "d"), TOUCH, Count("d"),
    ),
    at_least_once(
        "into two queues, quorum and classic",
        exchange("x"), queue("d1"), quorum("d2"), Bind("x", "d1"), Bind("x", "d2"), quorum("q", dlx="x", **HELD),
        publish("q", "1", "2"), gets("q", 2), nacked("q"), rejected("q"), Wait(100), Count("d1"), Count("d2"),
    ),
    at_least_once(
        "CC and BCC",
        exchange("x", "topic"), queue("d"), Bind("x", "d", "cc"), queue("e"), Bind("x", "e", "bcc"), queue("f"),
        Bind("x", "f", "q"), quorum("q", dlx="x", **HELD), publish("q", headers={"CC": ["cc"], "BCC": ["bcc"]}),
        rejected("q"), Wait(100),
    ),
    *[
        at_least_once(
            f"several at once into a {type} queue that refuses what is too much",
            queue("d", type=type, length=2, overflow="reject-publish"), quorum("q", dlx="", dlrk="d", **HELD),
            publish("q", "1", "2", "3", "4", "5"), gets("q", 5), Nack(multiple=True, tag=0, requeue=False), Wait(300),
            Count("d"), Drain("d"), TOUCH, Count("d"),
        )
        for type in ("classic", "quorum")
    ],
    *[
        at_least_once(f"{number} held before one that has a route", *held_before_one_that_has_a_route(number))
        for number in (31, 32, 40)
    ],
    *[
        at_least_once(
            f"forty at once into a {type} queue that refuses what is too much",
            queue("d", type=type, length=2, overflow="reject-publish"), quorum("q", dlx="", dlrk="d", **HELD),
            burst(publish("q", *map(str, range(40)))), rejected_together("q", 40), Count("d"), STATISTICS,
            ShowQueue("q", ("messages_dlx",)), PurgeQueue("d"), TOUCH, Count("d"),
        )
        for type in ("classic", "quorum")
    ],
    at_least_once(
        "several at once into its own queue",
        quorum("q", dlx="", length=2, **HELD), publish("q", "1", "2"), gets("q", 2),
        Nack(multiple=True, tag=0, requeue=False), Wait(300), Count("q"),
    ),
    scenario(
        "two full queues that dead-letter into each other",
        CONFIRMED, quorum("q", dlx="", dlrk="r", length=2, **HELD),
        quorum("r", dlx="", dlrk="q", length=2, **HELD), publish("q", "1", "2", "3"), publish("r", "4", "5", "6"),
        rejected("q", 3), Wait(300), rejected("r", 3), Wait(300), Count("q"), Count("r"), TOUCH, Count("r"), STATISTICS,
        ShowQueue("q", ("messages_dlx",)), ShowQueue("r", ("messages_dlx",)), publish("q", "7"),
        releases=("3.10", "4.0", "4.3"),
    ),
]  # fmt: skip
