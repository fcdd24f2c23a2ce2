"""Several deaths: chains of rejections, retry ladders, cycles, and what x-death says of them."""

from tests.differential.operations import (
    Bind,
    Count,
    Get,
    Nack,
    Operation,
    Publish,
    Reject,
    SelectConfirms,
    Wait,
)
from tests.differential.words import exchange, fan, gets, nacked, publish, queue, quorum, rejected, returned, scenario
from tests.real_servers import since

FROM_39 = since("3.9")
CONFIRMED = SelectConfirms()


def lap(work: str, wait: str) -> list[Operation]:
    """Reject, and wait until the message is back."""
    return [Get(work), Reject(requeue=False), Count(wait), Wait(1000)]


SCENARIOS = [
    scenario(
        "four rejections",
        CONFIRMED, queue("d"), queue("q4", dlx="", dlrk="d"), queue("q3", dlx="", dlrk="q4"),
        queue("q2", dlx="", dlrk="q3"), queue("q1", dlx="", dlrk="q2"), publish("q1", headers={"a": 1}),
        rejected("q1"), rejected("q2"), rejected("q3"), rejected("q4"),
    ),
    scenario(
        "four rejections in quorum queues",
        CONFIRMED, quorum("d"), quorum("q4", dlx="", dlrk="d"), quorum("q3", dlx="", dlrk="q4"),
        quorum("q2", dlx="", dlrk="q3"), quorum("q1", dlx="", dlrk="q2"), publish("q1"), nacked("q1"), nacked("q2"),
        nacked("q3"), nacked("q4"),
    ),
    scenario(
        "many rejections at once keep their order",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", "1", "2", "3", "4"), gets("q", 4),
        Nack(delivery=2, multiple=True, requeue=False), Nack(delivery=3, requeue=False),
    ),
    scenario(
        "many rejections at once keep their order, quorum",
        CONFIRMED, queue("d"), quorum("q", dlx="", dlrk="d"), publish("q", "1", "2", "3", "4"), gets("q", 4),
        Nack(delivery=2, multiple=True, requeue=False), Nack(delivery=3, requeue=False),
    ),
    scenario(
        "all reasons, one after another",
        CONFIRMED, queue("end"), quorum("q4", limit=0, dlx="", dlrk="end"), queue("q3", length=0, dlx="", dlrk="q4"),
        queue("q2", ttl=50, dlx="", dlrk="q3"), queue("q1", dlx="", dlrk="q2"), publish("q1", expiration="60000"),
        rejected("q1"), Wait(300), Get("q4"), Reject(),
    ),
    scenario(
        "retry ladder, three laps",
        CONFIRMED, queue("work", dlx="", dlrk="wait"), queue("wait", ttl=700, dlx="", dlrk="work"), publish("work"),
        lap("work", "wait"), lap("work", "wait"), lap("work", "wait"), Get("work"),
    ),
    scenario(
        "retry ladder of quorum queues, three laps",
        CONFIRMED, quorum("work", dlx="", dlrk="wait"), quorum("wait", ttl=700, dlx="", dlrk="work"), publish("work"),
        lap("work", "wait"), lap("work", "wait"), lap("work", "wait"), Get("work"), releases=FROM_39,
    ),
    scenario(
        "retry ladder of three rungs",
        CONFIRMED, exchange("retry", "direct"), queue("work", dlx="retry"),
        queue("rung1", ttl=300, dlx="", dlrk="work"), queue("rung2", ttl=400, dlx="", dlrk="work"),
        Bind("retry", "rung1", "first"), Bind("retry", "rung2", "work"), Bind("", "work", "work"),
        publish("work", message_id="m"), rejected("work"), Count("rung2"), Wait(600), rejected("work"), Wait(600),
        Get("work"),
    ),
    scenario(
        "cycle of expiry onto itself",
        CONFIRMED, queue("q", ttl=50, dlx="", dlrk="q"), publish("q"), Wait(250), Count("q"),
    ),
    scenario(
        "cycle of expiry onto itself, default keys",
        CONFIRMED, queue("q", ttl=50, dlx=""), publish("q"), Wait(250), Count("q"),
    ),
    scenario(
        "cycle of length onto itself",
        CONFIRMED, queue("q", length=1, dlx="", dlrk="q"), publish("q", "1", "2"), Count("q"),
    ),
    scenario(
        "cycle of two queues",
        CONFIRMED, queue("q", ttl=50, dlx="", dlrk="r"), queue("r", ttl=50, dlx="", dlrk="q"), publish("q"),
        Wait(400),
    ),
    scenario(
        "cycle of length and expiry",
        CONFIRMED, queue("q", length=0, dlx="", dlrk="r"), queue("r", ttl=50, dlx="", dlrk="q"), publish("q"),
        Wait(300),
    ),
    scenario(
        "rejection onto itself is no cycle",
        CONFIRMED, queue("q", dlx="", dlrk="q"), publish("q"), rejected("q", 3), Get("q"),
    ),
    scenario(
        "delivery limit onto itself is a cycle",
        CONFIRMED, quorum("q", limit=0, dlx="", dlrk="q"), publish("q"), returned("q"), Count("q"),
    ),
    scenario(
        "a cycle drops one copy only",
        CONFIRMED, fan("x", "other"), queue("q", ttl=50, dlx="x"), Bind("x", "q"), publish("q"), Wait(300),
    ),
    scenario(
        "a rejection exempts the loop it closes",
        CONFIRMED, queue("q", dlx="", dlrk="r"), queue("r", ttl=300, dlx="", dlrk="q"), publish("q"), rejected("q"),
        Wait(500), rejected("q"), Wait(500), Get("q"),
    ),
    scenario(
        "a rejection before a loop does not exempt it",
        CONFIRMED, queue("a", dlx="", dlrk="b"), queue("b", ttl=100, dlx="", dlrk="c"),
        queue("c", ttl=100, dlx="", dlrk="b"), publish("a"), rejected("a"), Wait(600), releases=since("4.0"),
    ),
    scenario(
        "a rejection inside a loop exempts one lap",
        CONFIRMED, queue("b", ttl=300, dlx="", dlrk="c"), queue("c", dlx="", dlrk="b"), publish("b"), Wait(450),
        rejected("c"), Wait(450), Count("c"), Get("c"),
    ),
    scenario(
        "quorum cycle of expiry onto itself",
        CONFIRMED, quorum("q", ttl=50, dlx="", dlrk="q"), publish("q"), Wait(300), Count("q"), releases=FROM_39,
    ),
    scenario(
        "merged entries keep the first exchange and keys",
        CONFIRMED, exchange("x", "topic"), queue("q", dlx="", dlrk="q"), Bind("x", "q", "#"),
        publish("first.key", exchange="x"), rejected("q", 2), Get("q"),
    ),
    scenario(
        "merged entries move to the front",
        CONFIRMED, queue("a", dlx="", dlrk="b"), queue("b", dlx="", dlrk="c"), queue("c", dlx="", dlrk="a"),
        publish("a"), rejected("a"), rejected("b"), rejected("c"), rejected("a"), rejected("b"), Get("c"),
    ),
    scenario(
        "two reasons in one queue",
        CONFIRMED, queue("d", dlx="", dlrk="q"), queue("q", dlx="", dlrk="d"), publish("q", expiration="100"),
        Wait(250), rejected("d"), rejected("q"), rejected("d"), Get("q"),
    ),
    scenario(
        "a client's x-death",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"),
        publish("q", headers={"x-death": [{"queue": "q", "reason": "rejected", "count": 9}]}),
        publish("q", headers={"x-death": "text"}), publish("q", headers={"x-death": []}),
        publish("q", headers={"x-last-death-queue": "mine", "x-first-death-queue": "mine"}), rejected("q", 4),
    ),
    scenario(
        "a client's x-death provokes a cycle",
        CONFIRMED, queue("q", length=0, dlx="", dlrk="d"), queue("d"),
        publish("q", headers={"x-death": [{"queue": "d", "reason": "expired", "count": 1}]}),
    ),
    scenario(
        "fan out of a dead letter, each copy lives on",
        CONFIRMED, exchange("x"), queue("q", dlx="x"), queue("r1", dlx="", dlrk="d"), queue("r2", dlx="", dlrk="d"),
        queue("d"), Bind("x", "r1"), Bind("x", "r2"), publish("q"), rejected("q"), rejected("r1"), rejected("r2"),
    ),
    scenario(
        "a dead letter published again",
        CONFIRMED, queue("d"), queue("q", dlx="", dlrk="d"), publish("q", headers={"a": 1}, message_id="1"),
        rejected("q"), Get("d"),
        Publish("q", headers={"x-first-death-queue": "q", "x-first-death-reason": "rejected"}), rejected("q"),
    ),
]  # fmt: skip
