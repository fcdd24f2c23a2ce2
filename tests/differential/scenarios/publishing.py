"""Publishes that are refused or returned, confirms, and transactions."""

from itertools import combinations
from typing import Any

from tests.differential.operations import (
    Ack,
    AddUser,
    Bind,
    CloseChannel,
    Commit,
    Consume,
    Count,
    Get,
    Nack,
    OpenConnection,
    Publish,
    PurgeQueue,
    Reject,
    Rollback,
    SelectConfirms,
    SelectTransactions,
    SetPermissions,
    SetTopicPermissions,
)
from tests.differential.words import Part, burst, exchange, fan, gets, publish, queue, quorum, scenario, stream
from tests.real_servers import LIVE, since
from tests.vectors.amqp import Field

CONFIRMED = SelectConfirms()
TRANSACTIONS = SelectTransactions()
FROM_39 = since("3.9")
REJECTS = [release for release in LIVE if release in FROM_39]
CONFIRMED_B = SelectConfirms(channel="b")
FULL = [CONFIRMED_B, quorum("q", length=2, overflow="reject-publish"), publish("q", *"123", on="b")]

NO_ARRAYS = [
    True, None, "k", b"k", {}, 5, 2**40, 0.5, Field("f", 0.5), Field("D", (1, 5)), Field("T", 1700000000),
    *(Field(tag, 5) for tag in "bBsuil"),
]  # fmt: skip
REPLIES = "amq.rabbitmq.reply-to"
WRONG: dict[str, dict[str, Any]] = {
    "user_id": {"user_id": "carol"},
    "expiration": {"expiration": "soon"},
    "CC": {"headers": {"CC": 5}},
    "BCC": {"headers": {"BCC": "k"}},
    "delivery_mode": {"delivery_mode": 3},
    "reply_to": {"reply_to": REPLIES},
}


def wrong_twice(key: str) -> list[Part]:
    """A publish to the exchange ``t`` for each two things that may be wrong with it."""
    return [publish(key, exchange="t", on="b", **_both(*pair)) for pair in combinations(WRONG, 2)]


def _both(one: str, other: str) -> dict[str, Any]:
    found = WRONG[one] | WRONG[other]
    if "headers" in found:
        found["headers"] = WRONG[one].get("headers", {}) | WRONG[other].get("headers", {})
    return found


SCENARIOS = [
    *[
        scenario(f"{name} of another type", [publish("k", headers={name: value}) for value in NO_ARRAYS])
        for name in ("CC", "BCC")
    ],
    scenario("wrong in two ways", exchange("t", "topic"), wrong_twice("a")),
    scenario(
        "wrong in two ways and not permitted",
        exchange("t", "topic"), AddUser("bob"), SetPermissions("bob", ".*", ".*", ".*"),
        SetTopicPermissions("bob", "t", "^a", ""), OpenConnection("b", "bob"),
        [publish("b", exchange="t", on="b", **fault) for fault in WRONG.values()], wrong_twice("b"),
    ),
    scenario("a missing exchange", publish("k", exchange="missing"), CONFIRMED, publish("k", exchange="missing")),
    scenario("an internal exchange", exchange("x", internal=True), publish("", exchange="x")),
    scenario(
        "mandatory",
        queue("q"), publish("missing", mandatory=True, headers={"a": 1}, message_id="m", expiration="007"),
        publish("q", mandatory=True), exchange("x"),
        publish("", exchange="x", mandatory=True, headers={"BCC": ["missing"], "CC": ["c"], "z": 1, "a": 2}),
    ),
    scenario(
        "mandatory with confirms",
        CONFIRMED, queue("q"), publish("missing", mandatory=True), publish("missing"), publish("q", mandatory=True),
    ),
    scenario(
        "mandatory to a full queue",
        CONFIRMED, queue("q", length=0, overflow="reject-publish"), publish("q", mandatory=True),
    ),
    scenario(
        "mandatory in a burst",
        CONFIRMED, queue("q"),
        burst(publish("missing", "1", "2", mandatory=True), publish("q", "3"), publish("missing", "4", mandatory=True)),
    ),
    scenario(
        "mandatory and an alternate exchange",
        CONFIRMED, fan("ae", "q"), exchange("x", "direct", ae="ae"), publish("k", exchange="x", mandatory=True),
        exchange("y", "direct", ae="missing"), publish("k", exchange="y", mandatory=True),
    ),
    scenario("immediate", queue("q"), Publish("q", immediate=True), publish("q")),
    *[
        scenario(f"expiration {text!r}", queue("q"), publish("q", expiration=text))
        for text in ("abc", "", " 5", "1.5", "5 ", "1e3", "0x10", "-1", "315360000000", "315360000001", "+5000000")
    ],
    scenario("user_id", queue("q"), publish("q", user_id="guest"), publish("q", user_id="bob"), Get("q")),
    scenario(
        "user_id of an impersonator",
        queue("q"), AddUser("bob", "impersonator"), SetPermissions("bob", ".*", ".*", ".*"),
        OpenConnection("b", "bob"), publish("q", user_id="guest", on="b"), AddUser("eve"),
        SetPermissions("eve", ".*", ".*", ".*"), OpenConnection("c", "eve"), publish("q", user_id="eve", on="c"),
        publish("q", user_id="guest", on="c"),
    ),
    scenario(
        "property values",
        queue("q"), publish("q", priority=255, delivery_mode=0), publish("q", delivery_mode=7, timestamp=2**63 - 1),
        publish("q", timestamp=0, content_type="", message_id=""), gets("q", 3),
    ),
    scenario(
        "header order",
        queue("q"), publish("q", headers={"b": 1, "a": 2, "B": 3, "1": 4, "": 5}),
        publish("q", headers={"z": {"y": 1, "x": 2}}), gets("q", 2),
    ),
    scenario(
        "confirms, one by one",
        CONFIRMED, queue("q"), quorum("r"), publish("q"), publish("r"), publish("missing"),
    ),
    scenario("confirms in a burst", CONFIRMED, queue("q"), burst(publish("q", *"12345678"))),
    scenario("confirms in a burst, quorum", CONFIRMED, quorum("q"), burst(publish("q", *"12345678"))),
    scenario(
        "confirms of several queues",
        CONFIRMED, fan("x", "q1", "q2"), quorum("q3"), Bind("x", "q3"), publish("", "1", "2", exchange="x"),
    ),
    scenario(
        "confirms asked for late",
        queue("q"), publish("q", "1"), CONFIRMED, publish("q", "2"), CONFIRMED, publish("q", "3"),
    ),
    scenario(
        "confirms begin at 1 on each channel",
        queue("q"), CONFIRMED, publish("q"), CloseChannel(), CONFIRMED, publish("q"),
    ),
    scenario(
        "confirm of a publish to a consumer that does not acknowledge",
        CONFIRMED, queue("q"), Consume("q", "c", channel="b"), publish("q"),
    ),
    scenario(
        "confirm of a persistent publish to a consumer that does not acknowledge",
        CONFIRMED, queue("q"), Consume("q", "c", channel="b"), publish("q", delivery_mode=2), Ack(channel="b"),
    ),
    scenario(
        "a publish that closes the channel, with confirms",
        CONFIRMED, queue("q"), publish("q", "1"), publish("q", "2", exchange="missing"), publish("q", "3"),
        Count("q"),
    ),
    scenario(
        "transaction committed",
        TRANSACTIONS, queue("q"), publish("q", "1", "2"), Count("q"), Commit(), Count("q"),
    ),
    scenario(
        "transaction rolled back",
        TRANSACTIONS, queue("q"), publish("q", "1", "2"), Rollback(), Count("q"), Commit(), Count("q"),
    ),
    scenario(
        "transaction of acknowledgements",
        queue("q"), publish("q", *"123", on="b"), TRANSACTIONS, gets("q", 3), Ack(delivery=0),
        Nack(delivery=1, requeue=False), Count("q"), Rollback(), Ack(delivery=0), Commit(), CloseChannel(),
        Count("q"),
    ),
    scenario(
        "transaction of a rejection",
        queue("d"), queue("q", dlx="", dlrk="d"), publish("q", on="b"), TRANSACTIONS, Get("q"), Reject(requeue=False),
        Count("d"), Commit(), Count("d"),
    ),
    scenario(
        "transaction of a requeue",
        queue("q"), publish("q", "1", "2", on="b"), TRANSACTIONS, gets("q", 2), Reject(delivery=1), Nack(delivery=0),
        Count("q"), Commit(), Count("q"), gets("q", 2),
    ),
    scenario(
        "transaction and the channel closes",
        queue("q"), TRANSACTIONS, publish("q"), CloseChannel(), Count("q"),
    ),
    scenario("transaction of a mandatory publish", TRANSACTIONS, publish("missing", mandatory=True), Commit()),
    scenario(
        "transaction of a publish that is refused",
        TRANSACTIONS, queue("q"), publish("q", "1"), publish("k", exchange="missing"), Count("q"),
    ),
    scenario(
        "transaction into a full queue",
        TRANSACTIONS, queue("q", length=1, overflow="reject-publish"), publish("q", "1", "2"), Commit(), Count("q"),
    ),
    scenario(
        "transaction into a full quorum queue",
        TRANSACTIONS, quorum("q", length=1, overflow="reject-publish"), publish("q", *"1234"), Commit(), Count("q"),
        releases=FROM_39,
    ),
    scenario(
        "transaction into a quorum queue that refuses",
        FULL, TRANSACTIONS, publish("q", "4"), Commit(), publish("q", "5", mandatory=True), Commit(), Count("q"),
        PurgeQueue("q"), publish("q", "6"), Commit(), Count("q"), releases=REJECTS,
    ),
    scenario(
        "transaction into a quorum queue that refuses, and one that does not",
        FULL, queue("r"), exchange("x"), Bind("x", "q"), Bind("x", "r"), TRANSACTIONS, publish("", "4", exchange="x"),
        publish("r", "5"), Commit(), Count("q"), Count("r"), publish("r", "6"), publish("q", "7"), Commit(), Count("r"),
        releases=REJECTS,
    ),
    scenario(
        "transaction into a quorum queue and a classic one that both refuse",
        FULL, queue("r", length=1, overflow="reject-publish"), publish("r", on="b"), TRANSACTIONS, publish("q", "4"),
        publish("r", "5"), Commit(), Count("r"), releases=REJECTS,
    ),
    scenario(
        "transaction into a quorum queue that refuses, with an acknowledgement",
        FULL, TRANSACTIONS, publish("q", "4"), Get("q"), Ack(), publish("q", "5"), Commit(), Count("q"), Get("q"),
        publish("q", "6"), Reject(requeue=False), Commit(), Count("q"), releases=REJECTS,
    ),
    scenario(
        "transaction into a quorum queue that comes to refuse before the commit",
        CONFIRMED_B, quorum("q", length=2, overflow="reject-publish"), TRANSACTIONS, publish("q", "1"),
        publish("q", *"234", on="b"), Commit(), Count("q"), publish("q", "5"), Commit(), Count("q"), releases=REJECTS,
    ),
    scenario(
        "transaction into a quorum queue that refuses, and a mandatory publish that no queue gets",
        FULL, TRANSACTIONS, publish("q", "4"), publish("missing", "5", mandatory=True), Commit(), Count("q"),
        releases=REJECTS,
    ),
    scenario(
        "transaction into a quorum queue that refuses, and a stream",
        FULL, stream("s"), exchange("x"), Bind("x", "q"), Bind("x", "s"), TRANSACTIONS, publish("", "4", exchange="x"),
        publish("s", "5"), Commit(), Count("q"), releases=REJECTS,
    ),
    *[
        scenario(
            f"transaction into a full {type} queue that drops its head",
            CONFIRMED_B, queue("d"), queue("q", type=type, length=1, dlx="", dlrk="d"), publish("q", "1", on="b"),
            TRANSACTIONS, publish("q", "2", "3"), Commit(), Count("q"), Count("d"), releases=LIVE,
        )
        for type in ("classic", "quorum")
    ],
    scenario(
        "transaction into a full queue that dead-letters what it refuses",
        CONFIRMED_B, queue("d"), queue("q", length=1, overflow="reject-publish-dlx", dlx="", dlrk="d"),
        publish("q", "1", on="b"), TRANSACTIONS, publish("q", "2"), Commit(), Count("q"), Count("d"), releases=LIVE,
    ),
    scenario(
        "transaction, quorum",
        TRANSACTIONS, quorum("q"), publish("q", "1", "2"), Commit(), gets("q", 2), Ack(multiple=True), Commit(),
        Count("q"),
    ),
    scenario("transaction acknowledges what never was", TRANSACTIONS, queue("q"), Ack(tag=7), Commit()),
    scenario("confirms after transactions", TRANSACTIONS, CONFIRMED),
    scenario("transactions after confirms", CONFIRMED, TRANSACTIONS),
    scenario("commit without a transaction", Commit(), Rollback()),
]  # fmt: skip
