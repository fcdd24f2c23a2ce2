"""Length limits: messages and bytes, every overflow mode, and dead letters into full queues."""

from tests.differential.operations import (
    Ack,
    ClearPolicy,
    CloseChannel,
    Consume,
    Count,
    Drain,
    Get,
    Nack,
    Qos,
    Reject,
    SelectConfirms,
    SetPolicy,
    Wait,
)
from tests.differential.words import burst, fan, gets, policy, publish, queue, quorum, rejected, scenario
from tests.real_servers import since

FROM_39 = since("3.9")
CONFIRMED = SelectConfirms()

SCENARIOS = [
    scenario(
        "drop-head",
        CONFIRMED, queue("d"), queue("q", length=2, dlx="", dlrk="d"), publish("q", "1", "2", "3", "4"),
    ),
    scenario("drop-head without a dead-letter exchange", CONFIRMED, queue("q", length=1), publish("q", "1", "2")),
    scenario("drop-head, mandatory", CONFIRMED, queue("q", length=0), publish("q", mandatory=True), Count("q")),
    scenario(
        "length 0 with a consumer",
        CONFIRMED, queue("d"), queue("q", length=0, dlx="", dlrk="d"), Qos(1), Consume("q", "c"),
        publish("q", "1", "2"), Ack(), publish("q", "3"),
    ),
    scenario(
        "reject-publish",
        CONFIRMED, queue("d"), queue("q", length=2, overflow="reject-publish", dlx="", dlrk="d"),
        publish("q", "1", "2", "3"), Get("q"), publish("q", "4"), Nack(requeue=True),
    ),
    scenario(
        "reject-publish without confirms",
        queue("q", length=1, overflow="reject-publish"), publish("q", "1", "2"), Count("q"),
    ),
    scenario(
        "reject-publish, mandatory",
        CONFIRMED, queue("q", length=0, overflow="reject-publish"), publish("q", mandatory=True),
    ),
    scenario(
        "reject-publish with length 0 and an idle consumer",
        CONFIRMED, queue("q", length=0, overflow="reject-publish"), Consume("q", "c"), publish("q"),
    ),
    scenario(
        "reject-publish-dlx",
        CONFIRMED, queue("d"), queue("q", length=2, overflow="reject-publish-dlx", dlx="", dlrk="d"),
        publish("q", "1", "2", "3", headers={"a": 1}, expiration="60000"),
    ),
    scenario(
        "one of two queues refuses",
        CONFIRMED, fan("x", "open"), queue("full", length=0, overflow="reject-publish"), fan("y", "other"),
        publish("", "to one", exchange="x"), publish("full", headers={"CC": ["open"]}),
    ),
    scenario(
        "bytes, drop-head",
        CONFIRMED, queue("d"), queue("q", max_length_bytes=10, dlx="", dlrk="d"), publish("q", "12345", "67890", "x"),
        publish("q", "larger than the limit"), Count("q"),
    ),
    scenario(
        "bytes, reject-publish",
        CONFIRMED, queue("q", max_length_bytes=10, overflow="reject-publish"), publish("q", "12345", "67890", "x"),
        publish("q", ""), Count("q"),
    ),
    scenario(
        "bytes and messages",
        CONFIRMED, queue("d"), queue("q", length=3, max_length_bytes=10, dlx="", dlrk="d"),
        publish("q", "1", "2", "3", "4"), publish("q", "123456789"),
    ),
    scenario(
        "quorum, bytes with properties",
        CONFIRMED, queue("d"), quorum("q", max_length_bytes=60, dlx="", dlrk="d"),
        publish("q", "12345", headers={"a": 1, "b": "text"}, message_id="m1"), publish("q", "12345", "12345"),
        publish("q", "12345", headers={"a": [1, 2], "CC": ["nobody"]}, expiration="60000", delivery_mode=2),
        Count("q"), publish("q", "x" * 30), Count("q"),
    ),
    scenario(
        "unacknowledged messages do not count",
        CONFIRMED, queue("d"), queue("q", length=1, dlx="", dlrk="d"), publish("q", "1"), Get("q"), publish("q", "2"),
        Count("d"), Nack(requeue=True), Count("q"),
    ),
    scenario(
        "requeue of many over the limit",
        CONFIRMED, queue("d"), queue("q", length=2, dlx="", dlrk="d"), publish("q", "1", "2"), gets("q", 2),
        publish("q", "3", "4"), Nack(multiple=True, requeue=True), Count("q"),
    ),
    scenario(
        "quorum, requeue over the limit",
        CONFIRMED, queue("d"), quorum("q", length=2, dlx="", dlrk="d"), publish("q", "1", "2"), gets("q", 2),
        publish("q", "3", "4"), Nack(multiple=True, requeue=True), Count("q"),
    ),
    scenario(
        "channel close over the limit",
        CONFIRMED, queue("d"), queue("q", length=1, dlx="", dlrk="d"), publish("q", "1"), Get("q"), publish("q", "2"),
        CloseChannel(), Count("q"),
    ),
    scenario(
        "requeue into reject-publish",
        CONFIRMED, queue("q", length=1, overflow="reject-publish"), publish("q", "1"), Get("q"), publish("q", "2"),
        Nack(requeue=True), Count("q"), publish("q", "3"),
    ),
    scenario(
        "quorum, drop-head",
        CONFIRMED, queue("d"), quorum("q", length=2, dlx="", dlrk="d"), publish("q", "1", "2", "3", "4"), Count("q"),
    ),
    scenario(
        "quorum, reject-publish is soft",
        CONFIRMED, quorum("q", length=1, overflow="reject-publish"), publish("q", "1", "2", "3", "4"), Count("q"),
        Get("q", no_ack=True), publish("q", "5"), Get("q", no_ack=True), publish("q", "6", "7", "8"), releases=FROM_39,
    ),
    scenario(
        "quorum, reject-publish opens at four fifths",
        CONFIRMED, quorum("q", length=5, overflow="reject-publish"), publish("q", *"1234567"), Count("q"),
        Get("q", no_ack=True), publish("q", "8"), Get("q", no_ack=True), publish("q", "9"), Count("q"),
        releases=FROM_39,
    ),
    scenario(
        "quorum, reject-publish opens when a get empties it, though all comes back",
        CONFIRMED, quorum("q", length=2, overflow="reject-publish"), publish("q", *"1234"), gets("q", 2),
        Nack(multiple=True), publish("q", "5", "6"), Count("q"), releases=FROM_39,
    ),
    scenario(
        "quorum, who may publish again stays so under another overflow",
        CONFIRMED, quorum("q", length=1, overflow="reject-publish"), publish("q", *"123"), gets("q", 2),
        policy("p", "^q$", overflow="drop-head"), Wait(200), publish("q", "4", "5"), Count("q"), releases=FROM_39,
    ),
    scenario(
        "quorum, a limit with reject-publish comes later",
        CONFIRMED, quorum("q"), publish("q", *"1234567"), policy("p", "^q$", max_length=5, overflow="reject-publish"),
        Wait(300), gets("q", 2), publish("q", "8"), SelectConfirms(channel="b"), publish("q", "9", on="b"), Count("q"),
        releases=FROM_39,
    ),
    scenario(
        "quorum, reject-publish comes later to a queue with a limit",
        CONFIRMED, quorum("q", length=5), publish("q", *"12345"),
        policy("p", "^q$", max_length=3, overflow="reject-publish"), Wait(300), gets("q", 2), publish("q", "6"),
        Get("q"), publish("q", "7", "8", "9"), Count("q"), releases=FROM_39,
    ),
    scenario(
        "quorum, a limit with reject-publish comes later, and there is room",
        CONFIRMED, quorum("q"), publish("q", "1", "2"), policy("p", "^q$", max_length=2, overflow="reject-publish"),
        Wait(300), publish("q", "3"), publish("q", "4"), Count("q"), releases=FROM_39,
    ),
    scenario(
        "quorum, a limit with reject-publish comes after a dead letter",
        CONFIRMED, quorum("q"), queue("s", dlx="", dlrk="q"), publish("q", *"12345"), publish("s", "6"), rejected("s"),
        policy("p", "^q$", max_length=4, overflow="reject-publish"), Wait(300), publish("q", "7"),
        Get("q", no_ack=True),
        Get("q", no_ack=True), publish("q", "8"), publish("s", "9"), rejected("s"), Count("q"), releases=FROM_39,
    ),
    scenario(
        "quorum, a limit with reject-publish comes while another channel has published",
        CONFIRMED, SelectConfirms(channel="b"), quorum("q"), publish("q", *"1234567", on="b"),
        policy("p", "^q$", max_length=5, overflow="reject-publish"), Wait(300), Get("q", no_ack=True),
        Get("q", no_ack=True), publish("q", "8"), publish("q", "9", on="b"), Count("q"), releases=FROM_39,
    ),
    scenario(
        "quorum, reject-publish-dlx is drop-head",
        CONFIRMED, queue("d"), quorum("q", length=1, overflow="reject-publish-dlx", dlx="", dlrk="d"),
        publish("q", "1", "2"),
    ),
    scenario(
        "dead letters into a full queue, drop-head",
        CONFIRMED, queue("dd"), queue("d", length=1, dlx="", dlrk="dd"), queue("q", dlx="", dlrk="d"),
        publish("q", "1", "2"), rejected("q", 2),
    ),
    scenario(
        "dead letters into a full queue, reject-publish",
        CONFIRMED, queue("d", length=1, overflow="reject-publish"), queue("q", dlx="", dlrk="d"),
        publish("q", "1", "2"), rejected("q", 2),
    ),
    scenario(
        "dead letters into a full queue, reject-publish-dlx",
        CONFIRMED, queue("dd"), queue("d", length=1, overflow="reject-publish-dlx", dlx="", dlrk="dd"),
        queue("q", dlx="", dlrk="d"), publish("q", "1", "2"), rejected("q", 2),
    ),
    scenario(
        "dead letters into a full quorum queue, drop-head",
        CONFIRMED, queue("dd"), quorum("d", length=1, dlx="", dlrk="dd"), queue("q", dlx="", dlrk="d"),
        publish("q", "1", "2"), rejected("q", 2),
    ),
    scenario(
        "dead letters into a full quorum queue, reject-publish",
        CONFIRMED, quorum("d", length=1, overflow="reject-publish"), queue("q", dlx="", dlrk="d"),
        publish("q", "1", "2", "3", "4"), rejected("q", 4), Count("d"), publish("d", "5"), releases=FROM_39,
    ),
    scenario(
        "the limit shrinks by policy",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", *"123456"),
        SetPolicy("p", "^q$", {"max-length": 2}), Count("q"), Drain("d"), ClearPolicy("p"), publish("q", "7", "8"),
        Count("q"),
    ),
    scenario(
        "quorum, the limit shrinks by policy",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", *"123456"),
        SetPolicy("p", "^q$", {"max-length": 2}), Wait(100), Count("q"), Drain("d"), publish("q", "7"),
    ),
    scenario(
        "smaller of argument, policy and operator policy",
        CONFIRMED, queue("q", length=4), SetPolicy("p", "^q$", {"max-length": 3}), publish("q", *"12345"), Count("q"),
        SetPolicy("o", "^q$", {"max-length": 2}, operator=True), Count("q"), publish("q", "6"), Count("q"),
        ClearPolicy("o", operator=True), publish("q", *"789"), Count("q"),
    ),
    scenario(
        "overflow of argument and policy, classic",
        CONFIRMED, queue("q", length=1, overflow="drop-head"), SetPolicy("p", "^q$", {"overflow": "reject-publish"}),
        publish("q", "1", "2"),
    ),
    scenario(
        "overflow of argument and policy, quorum",
        CONFIRMED, quorum("q", length=1, overflow="drop-head"), SetPolicy("p", "^q$", {"overflow": "reject-publish"}),
        Wait(100), publish("q", "1", "2", "3"), releases=FROM_39,
    ),
    scenario(
        "overflow by policy",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"),
        SetPolicy("p", "^q$", {"overflow": "reject-publish-dlx", "max-length": 1}), publish("q", "1", "2"),
        SetPolicy("p", "^q$", {"overflow": "reject-publish", "max-length": 1}), publish("q", "3"),
        SetPolicy("p", "^q$", {"max-length": 1}), publish("q", "4"),
    ),
    scenario(
        "priority queue: the highest priority is dropped first",
        CONFIRMED, queue("d"), queue("q", length=2, dlx="", dlrk="d", max_priority=5),
        publish("q", "low", priority=1), publish("q", "high", priority=5), publish("q", "middle", priority=3),
        publish("q", "none"),
    ),
    scenario(
        "quorum with priorities: the next one is dropped",
        CONFIRMED, queue("d"), quorum("q", length=2, dlx="", dlrk="d"), publish("q", "low", priority=1),
        publish("q", "high", priority=9), publish("q", "middle", priority=5), publish("q", "none"),
    ),
    scenario(
        "a burst over the limit",
        CONFIRMED, queue("d"), queue("q", length=1, overflow="reject-publish-dlx", dlx="", dlrk="d"),
        burst(publish("q", *"12345")),
    ),
    scenario(
        "over the limit and past the deadline",
        CONFIRMED, queue("d"), queue("q", length=1, ttl=1500, dlx="", dlrk="d"), publish("q", "1"), Get("q"),
        publish("q", "2"), Wait(1800), publish("q", "3"), Nack(requeue=True), Reject(requeue=True), Count("q"),
    ),
]  # fmt: skip
