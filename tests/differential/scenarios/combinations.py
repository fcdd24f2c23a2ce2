"""Several rules at work at once."""

from tests.differential.operations import (
    Ack,
    Bind,
    Cancel,
    ClearPolicy,
    CloseChannel,
    CloseConnection,
    Consume,
    Count,
    DeleteQueue,
    Drain,
    Get,
    KillConnection,
    Nack,
    PurgeQueue,
    Qos,
    Recover,
    Reject,
    SelectConfirms,
    Wait,
)
from tests.differential.words import (
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

CONFIRMED = SelectConfirms()
FROM_39 = since("3.9")
FROM_40 = since("4.0")

SCENARIOS = [
    scenario(
        "reject-publish-dlx in a priority queue",
        CONFIRMED, queue("d"), queue("q", max_priority=5, length=1, overflow="reject-publish-dlx", dlx="", dlrk="d"),
        publish("q", "low", priority=1), publish("q", "high", priority=5), Get("q"),
        publish("q", "again", priority=2), Nack(), Count("q"),
    ),
    scenario(
        "a priority queue, requeued past the deadline",
        CONFIRMED, queue("d"), queue("q", max_priority=5, ttl=800, dlx="", dlrk="d"), publish("q", "low", priority=1),
        publish("q", "high", priority=5), gets("q", 2), Wait(1000), Nack(multiple=True), Count("q"),
    ),
    scenario(
        "a dead-letter queue with a consumer of prefetch 1",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), Qos(1, channel="b"), Consume("d", "c", channel="b"),
        publish("q", *"1234"), gets("q", 4), Nack(multiple=True, requeue=False), Ack(channel="b"), Nack(channel="b"),
        Ack(channel="b"), Ack(channel="b"), Ack(channel="b"),
    ),
    scenario(
        "dead letters meet what is published",
        CONFIRMED, queue("d", length=3), queue("q", dlx="", dlrk="d"), publish("d", "a", "b"), publish("q", *"123"),
        rejected("q", 2), publish("d", "c"), rejected("q"),
    ),
    scenario(
        "expired, dropped and rejected in one queue",
        CONFIRMED, queue("d"), queue("q", length=3, dlx="", dlrk="d"), publish("q", "short", expiration="800"),
        publish("q", "2", "3", "4"), Wait(1000), rejected("q"), publish("q", "5", "6"), Count("q"),
    ),
    scenario(
        "the head goes and those behind it expire",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "head"),
        publish("q", "1", "2", expiration="200"), publish("q", "tail"), Wait(400), Get("q"), Count("q"),
        Nack(requeue=True), Count("q"), Get("q"), Get("q"),
    ),
    scenario(
        "the head goes and those behind it expire, quorum",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", "head"),
        publish("q", "1", "2", expiration="200"), publish("q", "tail"), Wait(500), Get("q"), Wait(100), Count("q"),
        Nack(requeue=True), Count("q"), Get("q"), Get("q"), releases=FROM_39,
    ),
    scenario(
        "purge takes those that wait, not those that are out",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", *"1234"), gets("q", 2), PurgeQueue("q"),
        Nack(delivery=0), Reject(delivery=1, requeue=False), Count("q"),
    ),
    scenario(
        "a full queue that is drained by its consumer",
        CONFIRMED, queue("q", length=1, overflow="reject-publish"), Qos(1), Consume("q", "c"), publish("q", *"1234"),
        Ack(), publish("q", "5"), Ack(), Ack(),
    ),
    scenario(
        "a full quorum queue that is drained by its consumer",
        CONFIRMED, queue("d"), quorum("q", length=1, dlx="", dlrk="d"), Qos(1), Consume("q", "c"),
        publish("q", *"1234"), Ack(), publish("q", "5"), Ack(), Ack(),
    ),
    scenario(
        "delivery limit and expiry",
        CONFIRMED, queue("d"), quorum("q", limit=1, ttl=1000, dlx="", dlrk="d"), publish("q", "returned"),
        returned("q", 2), publish("q", "expires"), returned("q"), Wait(1300), Count("q"), releases=FROM_39,
    ),
    scenario(
        "delivery limit and length limit",
        CONFIRMED, queue("d"), quorum("q", limit=1, length=2, dlx="", dlrk="d"), publish("q", *"12"), gets("q", 2),
        publish("q", "3", "4"), Reject(delivery=1), Reject(delivery=0), Count("q"), gets("q", 2),
    ),
    scenario(
        "delivery limit with two consumers",
        CONFIRMED, queue("d"), quorum("q", limit=2, dlx="", dlrk="d"), Qos(1), Consume("q", "c"), Qos(1, channel="b"),
        Consume("q", "e", channel="b"), publish("q", "1"), Reject(), Reject(channel="b"), Reject(),
        Reject(channel="b"), Count("d"),
    ),
    scenario(
        "a connection is cut again and again",
        CONFIRMED, queue("d"), quorum("q", limit=1, dlx="", dlrk="d"), publish("q", "1", "2", "3"),
        Qos(2, channel="b"), Consume("q", "c", channel="b"), KillConnection("b"), Qos(2, channel="b"),
        Consume("q", "c", channel="b"), KillConnection("b"), Count("q"), Count("d"),
    ),
    scenario(
        "a connection is cut again and again, classic",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "1", "2", "3"), Qos(2, channel="b"),
        Consume("q", "c", channel="b"), KillConnection("b"), Qos(2, channel="b"), Consume("q", "c", channel="b"),
        KillConnection("b"), Count("q"), Count("d"),
    ),
    scenario(
        "quorum, nack of many over the limit",
        CONFIRMED, queue("d"), quorum("q", length=3, dlx="", dlrk="d"), publish("q", *"123"), gets("q", 3),
        publish("q", *"456"), Nack(multiple=True), Count("q"), Get("q"),
    ),
    scenario(
        "quorum, the channel closes over the limit",
        CONFIRMED, queue("d"), quorum("q", length=2, dlx="", dlrk="d"), publish("q", *"12", on="b"), gets("q", 2),
        publish("q", *"34", on="b"), CloseChannel(), Count("q"), Get("q"),
    ),
    scenario(
        "quorum, purge and requeue",
        CONFIRMED, quorum("q"), publish("q", *"1234"), gets("q", 2), PurgeQueue("q"), Nack(multiple=True),
        gets("q", 2),
    ),
    scenario(
        "quorum, returned messages and new ones",
        CONFIRMED, quorum("q"), publish("q", *"12"), Get("q"), Nack(), publish("q", "3"), Get("q"), Get("q"),
        Reject(delivery=1), publish("q", "4"), Nack(delivery=2), gets("q", 4),
    ),
    scenario(
        "quorum with priorities, returned messages and new ones",
        CONFIRMED, quorum("q"), publish("q", "low", priority=1), publish("q", "high", priority=9), gets("q", 2),
        publish("q", "high 2", priority=9), publish("q", "low 2", priority=1), Nack(multiple=True), gets("q", 4),
        releases=FROM_40,
    ),
    scenario(
        "quorum with priorities, two to one",
        CONFIRMED, quorum("q"), publish("q", *"abcd", priority=1), publish("q", *"ABCDEF", priority=9), gets("q", 10),
        releases=FROM_40,
    ),
    scenario(
        "quorum with priorities, a consumer between",
        CONFIRMED, quorum("q"), Qos(1), Consume("q", "c"), publish("q", "a", priority=1),
        publish("q", "A", priority=9), publish("q", "b", priority=1), publish("q", "B", priority=9), Ack(), Ack(),
        publish("q", "C", priority=9), Ack(), Ack(), Ack(), releases=FROM_40,
    ),
    scenario(
        "fan out with a limit on one side",
        CONFIRMED, exchange("x"), queue("d"), queue("a", length=1, dlx="", dlrk="d"), quorum("b"), Bind("x", "a"),
        Bind("x", "b"), publish("", "1", "2", exchange="x"), rejected("a"), Get("b"),
    ),
    scenario(
        "fan out of dead letters into limits",
        CONFIRMED, fan("x", "keep"), queue("drop", length=1), Bind("x", "drop"),
        queue("refuse", length=1, overflow="reject-publish"), Bind("x", "refuse"), queue("q", dlx="x"),
        publish("q", *"123"), gets("q", 3), Nack(multiple=True, requeue=False),
    ),
    scenario(
        "one message, three queues, three deaths",
        CONFIRMED, fan("x"), queue("d"), queue("rejects", dlx="", dlrk="d"),
        queue("expires", ttl=1200, dlx="", dlrk="d"), queue("drops", length=0, dlx="", dlrk="d"), Bind("x", "rejects"),
        Bind("x", "expires"), Bind("x", "drops"), publish("", exchange="x", headers={"a": 1}, message_id="m"),
        rejected("rejects"), Wait(1500),
    ),
    scenario(
        "retry with a limit of laps by length",
        CONFIRMED, queue("work", dlx="", dlrk="wait"), queue("wait", ttl=1200, length=1, dlx="", dlrk="work"),
        publish("work", "1", "2"), gets("work", 2), Nack(multiple=True, requeue=False), Count("wait"), Wait(1500),
        gets("work", 2),
    ),
    scenario(
        "a dead-letter queue that is its own next hop by policy",
        CONFIRMED, queue("d"), queue("q"), policy("p", "^(q|d)$", dlx="", dlrk="d"), publish("q"), rejected("q"),
        rejected("d", 2), Get("d"),
    ),
    scenario(
        "the policy takes the dead-letter exchange away while a message expires",
        CONFIRMED, queue("d"), queue("q", ttl=700), policy("p", "^q$", dlx="", dlrk="d"), publish("q"),
        ClearPolicy("p"), Wait(900), Count("q"), Count("d"),
    ),
    scenario(
        "exclusive queue with consumers elsewhere on its connection",
        CONFIRMED, queue("q", exclusive=True), Consume("q", "c", channel="a/2"), publish("q"), CloseChannel(),
        Nack(channel="a/2"), CloseConnection("a"), Count("q"),
    ),
    scenario(
        "two queues of one consumer channel are deleted",
        CONFIRMED, queue("q"), queue("r"), Consume("q", "c", channel="b"), publish("q"), DeleteQueue("q"),
        Consume("r", "d", channel="b"), publish("r"), Nack(delivery=0, channel="b"), Nack(delivery=1, channel="b"),
        Cancel("d", channel="b"),
    ),
    scenario(
        "recover with several queues",
        CONFIRMED, queue("q"), quorum("r"), publish("q", "1", "2"), publish("r", "3", "4"), gets("q", 2),
        gets("r", 2), Recover(), gets("q", 2), gets("r", 2),
    ),
    scenario(
        "settle several queues at once",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), quorum("r", dlx="", dlrk="d"), publish("q", "1", "2"),
        publish("r", "3", "4"), gets("q", 2), Ack(multiple=True), gets("r", 2), Nack(multiple=True, requeue=False),
    ),
    scenario(
        "a message that dies in a queue it was CCed to",
        CONFIRMED, exchange("x", "direct"), queue("d"), Bind("x", "d", "main"), Bind("x", "d", "copy"),
        queue("main", dlx="x"), queue("copy", dlx="x"), publish("main", headers={"CC": ["copy"]}), rejected("copy"),
        nacked("main"),
    ),
    scenario(
        "a burst of publishes and gets",
        CONFIRMED, queue("q"), burst(publish("q", "1", "2", "3"), Get("q"), Get("q")),
        burst(Ack(delivery=0), Get("q")),
    ),
    scenario(
        "single active consumer and dead letters",
        CONFIRMED, queue("d", single_active_consumer=True), queue("q", dlx="", dlrk="d"),
        Consume("d", "c", channel="b"), Consume("d", "e", channel="c"), publish("q", "1", "2"), rejected("q"),
        KillConnection("b"), rejected("q"), Ack(channel="c", multiple=True),
    ),
    scenario(
        "max-length 0 with dead letters and a consumer",
        CONFIRMED, queue("d"), queue("q", length=0, dlx="", dlrk="d"), Consume("q", "c"), publish("q", "1", "2"),
        Nack(delivery=0), Reject(delivery=1, requeue=False),
    ),
    scenario(
        "max-length 0 with dead letters and a consumer, quorum",
        CONFIRMED, queue("d"), quorum("q", length=0, dlx="", dlrk="d"), Consume("q", "c"), publish("q", "1", "2"),
        Nack(delivery=0), Reject(delivery=1, requeue=False),
    ),
    *[
        scenario(
            f"many {verb} at once, of two consumers on one channel, {kind}",
            CONFIRMED, queue("d"), queue("q", type=kind, dlx="", dlrk="d"), Qos(2), Consume("q", "z"),
            Consume("q", "b"), publish("q", *"1234"), Nack(multiple=True, requeue=requeue), Count("d"), Drain("d"),
        )
        for kind in ("classic", "quorum")
        for verb, requeue in (("rejected", False), ("returned", True))
    ],
    *[
        scenario(
            f"many {verb} at once, of one consumer, {kind}",
            CONFIRMED, queue("d"), queue("q", type=kind, dlx="", dlrk="d"), Consume("q", "c"), publish("q", *"12345"),
            Nack(delivery=3, multiple=True, requeue=requeue), Count("d"), Drain("d"),
        )
        for kind in ("classic", "quorum")
        for verb, requeue in (("rejected", False), ("returned", True))
    ],
    *[
        scenario(
            f"many in a burst of {name}, of one consumer, {kind}",
            CONFIRMED, queue("d"), queue("q", type=kind, dlx="", dlrk="d"), Consume("q", "c"), publish("q", *"12345"),
            burst(*[Nack(delivery=each, requeue=False) for each in order]), Count("d"), Drain("d"),
        )
        for kind in ("classic", "quorum")
        for name, order in (("rejections", (0, 1, 2, 3)), ("rejections backwards", (3, 2, 1, 0)))
    ],
    scenario(
        "quorum, many over the delivery limit at once",
        CONFIRMED, queue("d"), quorum("q", limit=0, dlx="", dlrk="d"), Consume("q", "c", channel="b"),
        publish("q", *"12345"), CloseChannel(channel="b"), Count("d"), Drain("d"),
    ),
    scenario(
        "quorum, many expire at once",
        CONFIRMED, queue("d"), quorum("q", ttl=2500, dlx="", dlrk="d"), publish("q", *"1234"), gets("q", 4), Wait(2800),
        Nack(multiple=True), Count("d"), Drain("d"), releases=FROM_39,
    ),
    scenario(
        "quorum, many expire behind the head",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", "head"),
        publish("q", *"1234", expiration="100"), Wait(300), Get("q", no_ack=True), Wait(100), Drain("d"),
        releases=FROM_39,
    ),
    scenario(
        "classic, many over the limit at once",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d", length=2), publish("q", *"12"), gets("q", 2),
        publish("q", *"34"), Nack(multiple=True), Drain("d"),
    ),
    scenario(
        "quorum, many over the limit at once",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d", length=4), Consume("q", "c", channel="b"),
        publish("q", *"1234"), Cancel("c", channel="b"), publish("q", *"5678"), CloseChannel(channel="b"), Drain("d"),
    ),
]  # fmt: skip
