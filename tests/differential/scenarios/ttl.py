"""Time to live: of queues, messages and policies, and what expires when."""

from tests.differential.operations import (
    Ack,
    ClearPolicy,
    CloseChannel,
    Consume,
    Count,
    Get,
    Nack,
    PurgeQueue,
    Qos,
    Recover,
    Reject,
    SelectConfirms,
    SetPolicy,
    Wait,
)
from tests.differential.words import burst, gets, publish, queue, quorum, scenario
from tests.real_servers import since, until

FROM_39 = since("3.9")
CONFIRMED = SelectConfirms()

SCENARIOS = [
    scenario(
        "queue ttl, in order",
        CONFIRMED, queue("d"), queue("q", ttl=350, dlx="", dlrk="d"), publish("q", "1", "2", "3"), Count("q"),
        Wait(500), Count("q"), Count("d"),
    ),
    scenario(
        "queue ttl without a dead-letter exchange",
        CONFIRMED, queue("q", ttl=350), publish("q"), Count("q"), Wait(500), Count("q"),
    ),
    scenario(
        "message ttl",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", expiration="150"), publish("q", "stays"),
        Wait(500), Count("q"), Count("d"),
    ),
    scenario(
        "smaller of queue and message ttl",
        CONFIRMED, queue("d"), queue("q", ttl=350, dlx="", dlrk="d"), queue("r", ttl=60000, dlx="", dlrk="d"),
        publish("q", "queue's", expiration="60000"), Wait(500), publish("r", "its own", expiration="150"), Wait(500),
    ),
    scenario(
        "only the head expires",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "long", expiration="900"),
        publish("q", "short", expiration="100"), Wait(250), Count("q"), Count("d"), Wait(900), Count("q"),
    ),
    scenario(
        "a message without ttl holds up the one behind it",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "forever"),
        publish("q", "short", expiration="100"), Wait(250), Count("q"), Get("q"), Count("q"), Count("d"), Ack(),
    ),
    scenario(
        "quorum, only the head expires",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", "forever"),
        publish("q", "short", expiration="100"), Wait(250), Count("q"), Get("q"), Count("q"), Wait(100), Count("d"),
        Ack(), releases=FROM_39,
    ),
    scenario(
        "quorum, queue ttl",
        CONFIRMED, queue("d"), quorum("q", ttl=400, dlx="", dlrk="d"), publish("q", "1", "2", headers={"a": 1}),
        Wait(600), Count("q"), releases=FROM_39,
    ),
    scenario("quorum, queue ttl is not supported", quorum("q", ttl=350), releases=until("3.9")),
    scenario(
        "quorum, message ttl is ignored",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", expiration="50"), Wait(200), Count("q"),
        releases=until("3.9"),
    ),
    scenario(
        "ttl 0 without a consumer",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", expiration="0"), Count("q"),
    ),
    scenario(
        "ttl 0 with a consumer",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), Consume("q", "c"), publish("q", expiration="0"),
        Nack(requeue=True),
    ),
    scenario(
        "ttl 0 with a consumer that is full",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), Qos(1), Consume("q", "c"), publish("q", "1"),
        publish("q", "2", expiration="0"), Ack(delivery=0),
    ),
    scenario(
        "queue ttl 0",
        CONFIRMED, queue("d"), queue("q", ttl=0, dlx="", dlrk="d"), publish("q", "1"), Consume("q", "c"),
        publish("q", "2"), Reject(requeue=True),
    ),
    scenario(
        "queue ttl 0 without a dead-letter exchange, mandatory",
        CONFIRMED, queue("q", ttl=0), publish("q", mandatory=True), Count("q"),
    ),
    scenario(
        "quorum, ttl 0 without a consumer",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", expiration="0"), Wait(150), Count("q"),
        releases=FROM_39,
    ),
    scenario(
        "requeued past its deadline",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", expiration="350"), Get("q"), Wait(500),
        Count("d"), Nack(requeue=True), Count("q"),
    ),
    scenario(
        "rejected past its deadline",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", expiration="350"), Get("q"), Wait(500),
        Reject(requeue=False),
    ),
    scenario(
        "quorum, requeued past its deadline",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", expiration="400"), Get("q"), Wait(600),
        Nack(requeue=True), Wait(100), Count("q"), releases=FROM_39,
    ),
    scenario(
        "requeued before its deadline",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", expiration="700"), Get("q"),
        Nack(requeue=True), Count("q"), Wait(900), Count("q"),
    ),
    scenario(
        "channel closed past the deadline",
        CONFIRMED, queue("d"), queue("q", ttl=350, dlx="", dlrk="d"), publish("q", "1", "2"), gets("q", 2), Wait(500),
        CloseChannel(),
    ),
    scenario(
        "recovered past the deadline",
        CONFIRMED, queue("d"), queue("q", ttl=350, dlx="", dlrk="d"), publish("q", "1", "2"), gets("q", 2), Wait(500),
        Recover(),
    ),
    scenario(
        "a fresh clock in the next queue",
        CONFIRMED, queue("d"), queue("r", ttl=350, dlx="", dlrk="d"), queue("q", ttl=350, dlx="", dlrk="r"),
        publish("q"), Wait(500), Count("r"), Wait(400), Count("r"), Count("d"),
    ),
    scenario(
        "expiration is gone in the next queue",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", expiration="100"), Wait(200), Count("d"),
        Wait(200), Count("d"),
    ),
    scenario(
        "priority queue: expiry looks at the highest priority",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d", max_priority=5),
        publish("q", "low", expiration="700", priority=1), publish("q", "high", priority=4), Wait(900), Count("q"),
        Get("q"), Count("q"), Count("d"),
    ),
    scenario(
        "quorum with priorities: expiry",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", "low", expiration="700", priority=1),
        publish("q", "high", priority=9), Wait(900), Count("q"), Get("q"), Wait(150), Count("q"), Count("d"),
        releases=since("4.0"),
    ),
    scenario(
        "policy ttl is for new messages only",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "old"),
        SetPolicy("p", "^q$", {"message-ttl": 150}), publish("q", "new"), Wait(500), Count("q"), Get("q"), Count("d"),
    ),
    scenario(
        "policy ttl taken away",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), SetPolicy("p", "^q$", {"message-ttl": 400}),
        publish("q", "old"), ClearPolicy("p"), publish("q", "new"), Wait(600), Count("q"), Count("d"),
    ),
    scenario(
        "smaller of argument and policy",
        CONFIRMED, queue("d"), queue("q", ttl=60000, dlx="", dlrk="d"), queue("r", ttl=350, dlx="", dlrk="d"),
        SetPolicy("p", "^[qr]$", {"message-ttl": 1100}), publish("q", "1100"), publish("r", "350"), Wait(500),
        Count("q"), Count("r"), Wait(800), Count("q"),
    ),
    scenario(
        "operator policy caps the ttl",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), SetPolicy("p", "^q$", {"message-ttl": 60000}),
        SetPolicy("o", "^q$", {"message-ttl": 150}, operator=True), publish("q"), Wait(500), Count("q"),
    ),
    scenario(
        "expiration in all its spellings",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", expiration="+060000"),
        publish("q", expiration="0060000"), publish("q", expiration="60000"), Get("q"), Reject(requeue=False),
        Get("q"), Reject(requeue=False), Get("q"), Reject(requeue=False),
    ),
    scenario(
        "expired in a burst keep their order",
        CONFIRMED, queue("d"), queue("q", ttl=350, dlx="", dlrk="d"), burst(publish("q", "1", "2", "3", "4", "5")),
        Wait(500), Count("d"),
    ),
    scenario(
        "unacknowledged messages do not expire",
        CONFIRMED, queue("d"), queue("q", ttl=350, dlx="", dlrk="d"), Consume("q", "c"), publish("q", "1", "2"),
        Wait(500), Ack(multiple=True), Count("d"),
    ),
    scenario(
        "purged messages are not dead-lettered",
        CONFIRMED, queue("d"), queue("q", ttl=900, dlx="", dlrk="d"), publish("q", "1", "2"), PurgeQueue("q"),
        Wait(1100), Count("d"),
    ),
    scenario(
        "dead letters of expiry go to a waiting consumer",
        CONFIRMED, queue("d"), queue("q", ttl=350, dlx="", dlrk="d"), Consume("d", "c", channel="b"),
        publish("q", "1", "2"), Wait(500), Reject(requeue=True, channel="b"), Ack(multiple=True, channel="b"),
    ),
]  # fmt: skip
