"""Policies and operator policies on live queues and exchanges: which applies, what it changes, what is refused."""

from tests.differential.operations import Bind, ClearPolicy, Count, Get, SelectConfirms, SetPolicy, Wait
from tests.differential.words import exchange, policy, publish, queue, quorum, rejected, scenario
from tests.real_servers import since, until

CONFIRMED = SelectConfirms()
FROM_39 = since("3.9")

SCENARIOS = [
    scenario(
        "set before the queue",
        CONFIRMED, policy("p", "^q", max_length=1), queue("q1"), publish("q1", "1", "2"), queue("other"),
        publish("other", "1", "2"),
    ),
    scenario(
        "the highest priority applies",
        CONFIRMED, queue("q"), policy("low", "q", max_length=1), policy("high", "q", priority=5, max_length=2),
        publish("q", *"123"), Count("q"), ClearPolicy("high"), Count("q"),
    ),
    scenario(
        "one policy applies, not their sum",
        CONFIRMED, queue("d"), queue("q"), policy("a", "^q$", priority=1, dlx="", dlrk="d"),
        policy("b", "^q$", max_length=1), publish("q", *"123"), Count("q"), rejected("q"),
    ),
    scenario(
        "patterns are not anchored",
        CONFIRMED, queue("my.queue"), policy("p", "queue", max_length=0), publish("my.queue"), Count("my.queue"),
    ),
    scenario(
        "patterns",
        CONFIRMED, queue("a1"), queue("b1"), queue("A1"), policy("p", "^[ab]\\d$", max_length=0), publish("a1"),
        publish("b1"), publish("A1"),
    ),
    scenario(
        "an operator policy on top of a policy",
        CONFIRMED, queue("d"), queue("q"), policy("p", "^q$", dlx="", dlrk="d", max_length=5),
        policy("o", "^q$", operator=True, max_length=2), publish("q", *"1234"), Count("q"), ClearPolicy("p"),
        publish("q", "5"), Count("q"),
    ),
    scenario(
        "an operator policy alone",
        CONFIRMED, queue("q"), policy("o", "^q$", operator=True, max_length=1), publish("q", "1", "2"), Count("q"),
    ),
    scenario(
        "an operator policy is no way around an argument",
        CONFIRMED, queue("q", length=1), policy("o", "^q$", operator=True, max_length=5), publish("q", "1", "2"),
        Count("q"),
    ),
    scenario(
        "the last policy of that name counts",
        CONFIRMED, queue("q"), policy("p", "^q$", max_length=1), policy("p", "^q$", max_length=2),
        publish("q", *"123"), Count("q"),
    ),
    scenario(
        "a policy with an unsupported key is skipped",
        CONFIRMED, queue("d"), queue("q"), policy("p", "^q$", priority=1, dlx="", dlrk="d", delivery_limit=5),
        policy("r", "^q$", max_length=1), publish("q", "1", "2"), rejected("q"), releases=FROM_39,
    ),
    scenario(
        "a policy with an unsupported key, 3.8",
        CONFIRMED, queue("d"), queue("q"), policy("p", "^q$", priority=1, dlx="", dlrk="d", delivery_limit=5),
        policy("r", "^q$", max_length=1), publish("q", "1", "2"), rejected("q"), releases=until("3.9"),
    ),
    scenario(
        "a policy with an unsupported key, quorum",
        CONFIRMED, queue("d"), quorum("q"), policy("p", "^q$", priority=1, dlx="", dlrk="d", queue_mode="lazy"),
        policy("r", "^q$", max_length=1), Wait(100), publish("q", "1", "2"), rejected("q"),
    ),
    scenario(
        "apply to queue types",
        CONFIRMED, queue("q"), quorum("r"), policy("p", "^[qr]$", apply_to="quorum_queues", max_length=0), Wait(100),
        publish("q"), publish("r"), Count("q"), Count("r"),
        policy("p2", "^[qr]$", apply_to="classic_queues", priority=2, max_length=0), publish("q"), Count("q"),
    ),
    scenario(
        "apply to queues and exchanges",
        CONFIRMED, queue("q"), queue("u"), exchange("x", "direct"), exchange("ae"), Bind("ae", "u"),
        policy("p", "^[qx]$", apply_to="queues", alternate_exchange="ae", max_length=0), publish("k", exchange="x"),
        publish("q"), policy("p", "^[qx]$", apply_to="exchanges", alternate_exchange="ae"),
        publish("k", exchange="x"),
    ),
    scenario(
        "alternate exchange by policy",
        CONFIRMED, queue("u"), exchange("x", "direct"), exchange("ae"), Bind("ae", "u"), publish("k", exchange="x"),
        policy("p", "^x$", alternate_exchange="ae"), publish("k", exchange="x"), ClearPolicy("p"),
        publish("k", exchange="x"),
    ),
    scenario(
        "alternate exchange by argument and policy",
        CONFIRMED, queue("u"), queue("v"), exchange("x", "direct", ae="one"), exchange("one"), exchange("two"),
        Bind("one", "u"), Bind("two", "v"), policy("p", "^x$", alternate_exchange="two"), publish("k", exchange="x"),
    ),
    scenario(
        "bytes by policy",
        CONFIRMED, queue("q"), publish("q", "12345", "67890"), policy("p", "^q$", max_length_bytes=7), Count("q"),
        publish("q", "x"),
    ),
    scenario("a policy that is not there", ClearPolicy("missing"), ClearPolicy("missing", operator=True)),
    scenario(
        "types of policy values",
        policy("p", "q", dlx=5), policy("p", "q", message_ttl=-1), policy("p", "q", message_ttl="1"),
        policy("p", "q", max_length="a"), policy("p", "q", overflow="x"), policy("p", "q", expires=0),
        policy("p", "q", foo=1), SetPolicy("p", "q", {}), policy("p", "q", max_length_bytes=-5),
        policy("p", "q", dlrk=7),
    ),
    scenario(
        "delivery limits and strategies in policies",
        policy("p", "q", delivery_limit=-1), policy("p", "q", delivery_limit="x"),
        policy("p", "q", dead_letter_strategy="x"), policy("p", "q", dead_letter_strategy="at-most-once"),
    ),
    scenario(
        "operator policies that are refused",
        policy("o", "q", operator=True, dlx="x"), policy("o", "q", operator=True, overflow="drop-head"),
        policy("o", "q", operator=True, message_ttl=-1), policy("o", "q", operator=True, alternate_exchange="x"),
        SetPolicy("o", "q", {}, operator=True),
    ),
    scenario(
        "patterns that are refused",
        policy("p", "q", priority=1, apply_to="nope", max_length=1), policy("p", "[", max_length=1),
        policy("p", "", max_length=1), SetPolicy("p", "q", {"max-length": 1}, priority="high"),
        SetPolicy("p", 5, {"max-length": 1}),
    ),
    scenario(
        "a queue renewed under a policy",
        CONFIRMED, policy("p", "^q$", max_length=1), queue("q", length=3), publish("q", *"123"), Count("q"),
    ),
    scenario(
        "key of the dead letter by policy, exchange by argument, changed",
        CONFIRMED, queue("d"), queue("e"), queue("q", dlx=""), policy("p", "^q$", dlrk="d"), publish("q", "1", "2"),
        rejected("q"), policy("p", "^q$", dlrk="e"), rejected("q"),
    ),
    scenario(
        "policy of a quorum queue changes its dead-letter exchange",
        CONFIRMED, queue("d"), queue("e"), quorum("q"), publish("q", *"123"), rejected("q"),
        policy("p", "^q$", dlx="", dlrk="d"), Wait(100), rejected("q"), policy("p", "^q$", dlx="", dlrk="e"),
        Wait(100), rejected("q"), Get("e"),
    ),
]  # fmt: skip
