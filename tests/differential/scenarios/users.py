"""Permissions, and what a user without them is told."""

from tests.differential.operations import (
    AddUser,
    Bind,
    BindExchange,
    ClearPermissions,
    CloseConnection,
    Consume,
    Count,
    DeclareQueue,
    DeleteQueue,
    Get,
    OpenConnection,
    PurgeQueue,
    SelectConfirms,
    SetPermissions,
    SetTopicPermissions,
    Wait,
)
from tests.differential.words import Part, exchange, policy, publish, queue, quorum, rejected, scenario
from tests.real_servers import LIVE

CONFIRMED = SelectConfirms()


def bob(configure: str = ".*", write: str = ".*", read: str = ".*") -> list[Part]:
    """A user with permissions, connected as ``b``."""
    return [AddUser("bob"), SetPermissions("bob", configure, write, read), OpenConnection("b", "bob")]


SCENARIOS = [
    scenario("no permissions in the virtual host", AddUser("bob"), OpenConnection("b", "bob"), queue("q", on="b")),
    scenario("a wrong password", AddUser("bob"), OpenConnection("b", "bob", "wrong")),
    scenario("an unknown user", OpenConnection("b", "nobody-of-that-name")),
    scenario(
        "declare a queue",
        bob("^mine"), queue("mine", on="b"), queue("yours", on="b"), queue("amq.gen-no", on="b"),
    ),
    scenario(
        "declare a queue with a dead-letter exchange",
        exchange("x"), bob("^q", "^x$", "^q1"), queue("q1", dlx="x", on="b"), queue("q2", dlx="x", on="b"),
        queue("q1", dlx="y", on="b"), queue("q1b", dlx="y", on="b"), queue("q1c", dlx="", on="b"),
        quorum("q1d", dlx="y", on="b"),
    ),
    scenario(
        "declare again without permission for the dead-letter exchange",
        queue("q", dlx="x"), bob("^q$", "", ""), queue("q", dlx="x", on="b"),
    ),
    scenario(
        "declare an exchange with an alternate one",
        bob("^x", "^ae$", "^x1"), exchange("x1", ae="ae", on="b"), exchange("x2", ae="ae", on="b"),
        exchange("x1b", ae="other", on="b"),
    ),
    scenario("declare an exchange", bob("^mine"), exchange("mine", on="b"), exchange("yours", on="b")),
    scenario(
        "publish",
        queue("q"), exchange("x"), bob("", "^amq.default$", ""), publish("q", on="b"),
        publish("q", exchange="x", on="b"), publish("q", exchange="missing", on="b"),
    ),
    scenario("publish to the default exchange", queue("q"), bob("", "^x$", ""), publish("q", on="b")),
    scenario(
        "read",
        queue("q"), bob("", "", "^no$"), Get("q", channel="b"), Consume("q", "c", channel="b"),
        PurgeQueue("q", channel="b"), DeleteQueue("q", channel="b"), Get("missing", channel="b"),
    ),
    scenario(
        "bind",
        queue("q"), exchange("x"), exchange("y"), bob("", "^q$", "^x$"), Bind("x", "q", channel="b"),
        Bind("y", "q", channel="b"), BindExchange("x", "y", channel="b"),
    ),
    scenario(
        "passive declare",
        queue("q"), bob("", "", ""), Count("q", "b"), bob("", "", "q"), CloseConnection("b"), Count("q", "b"),
    ),
    scenario(
        "permissions taken away",
        queue("q"), bob(), publish("q", "1", on="b"), ClearPermissions("bob"), OpenConnection("c", "bob"),
    ),
    scenario(
        "dead letters need no permission",
        CONFIRMED, queue("d"), queue("q"), bob("", "^amq.default$", "^q$"), policy("p", "^q$", dlx="", dlrk="d"),
        publish("q", on="b"), Get("q", channel="b"), rejected("q"), CloseConnection("b"), rejected("q"),
    ),
    scenario(
        "topic permissions",
        exchange("t", "topic"), queue("q"), Bind("t", "q", "#"), bob(),
        SetTopicPermissions("bob", "t", "^a\\.", "^a"), publish("a.b", exchange="t", on="b"),
        publish("b.a", exchange="t", on="b"), Bind("t", "q", "a.#", channel="b"), Bind("t", "q", "b.#", channel="b"),
    ),
    scenario(
        "a channel remembers what it was allowed",
        queue("q"), queue("r"), bob(), publish("q", "1", on="b"), Get("q", channel="b"), queue("r", on="b"),
        Bind("amq.direct", "q", channel="b"), SetPermissions("bob"), publish("q", "2", on="b"), Get("q", channel="b"),
        queue("r", length=1, on="b"), Consume("q", "c", channel="b"), publish("q", "3", on="b/2"),
        Bind("amq.direct", "q", "k", channel="b"), Bind("amq.topic", "q", channel="b"), publish("q", "4", on="b"),
        releases=LIVE,
    ),
    scenario(
        "a channel forgets what it was allowed when it sleeps",
        queue("q"), bob(), publish("q", "1", on="b"), ClearPermissions("bob"), publish("q", "2", on="b"), Wait(3000),
        publish("q", "3", on="b"), releases=LIVE,
    ),
    scenario(
        "deliveries keep a channel awake",
        queue("q"), bob(), Consume("q", "c", channel="b", no_ack=True), [[publish("q"), Wait(600)] for _ in range(3)],
        SetPermissions("bob"), Consume("q", "d", channel="b"), publish("q"), releases=LIVE,
    ),
    scenario(
        "a channel remembers the last twelve permissions",
        queue("q"), bob(), publish("q", on="b"), [queue(f"n{number}", on="b") for number in range(11)],
        SetPermissions("bob"), publish("q", on="b"), queue("n0", on="b"), SetPermissions("bob", ".*"),
        queue("m", on="b"), SetPermissions("bob"), publish("q", on="b"), releases=LIVE,
    ),
    scenario(
        "any permission that a channel remembers allows a passive declaration",
        queue("q"), bob("", "", "q"), Get("q", channel="b"), SetPermissions("bob"), Count("q", "b"),
        DeclareQueue("q", passive=True, channel="b"), releases=LIVE,
    ),
    scenario(
        "a channel remembers the last twelve topics",
        exchange("t", "topic"), queue("q"), Bind("t", "q", "#"), bob(), publish("k0", exchange="t", on="b"),
        [publish(f"k{number}", exchange="t", on="b") for number in range(1, 13)],
        SetTopicPermissions("bob", "t", "^x", ""), publish("k1", exchange="t", on="b"),
        publish("k0", exchange="t", on="b"), releases=LIVE,
    ),
    scenario("exclusive queues of others", queue("q", exclusive=True), bob(), Get("q", channel="b"), Count("q", "b")),
]  # fmt: skip
