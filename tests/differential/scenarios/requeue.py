"""Where messages go that are given back, and what is said of them when they come again."""

from tests.differential.operations import (
    Ack,
    Cancel,
    CloseChannel,
    CloseConnection,
    Consume,
    Count,
    Get,
    KillConnection,
    Nack,
    Qos,
    Recover,
    Reject,
    Scenario,
    SelectConfirms,
)
from tests.differential.words import Part, burst, gets, publish, queue, quorum, scenario

CONFIRMED = SelectConfirms()


def both(name: str, *parts: Part) -> list[Scenario]:
    """The scenario for a classic, and for a quorum queue, with and without a delivery limit."""
    return [
        scenario(f"classic, {name}", CONFIRMED, queue("q"), *parts),
        scenario(f"quorum, {name}", CONFIRMED, quorum("q"), *parts),
        scenario(f"quorum with a limit, {name}", CONFIRMED, quorum("q", limit=10), *parts),
    ]


SCENARIOS = [
    *both("one of three", publish("q", "1", "2", "3"), Get("q"), Nack(), gets("q", 3)),
    *both("the middle one", publish("q", "1", "2", "3"), gets("q", 2), Reject(delivery=1), gets("q", 2)),
    *both(
        "many at once",
        publish("q", "1", "2", "3", "4"), gets("q", 3), Nack(delivery=2, multiple=True), gets("q", 4),
    ),
    *both(
        "one by one backwards",
        publish("q", "1", "2", "3", "4"), gets("q", 3), Nack(delivery=2), Nack(delivery=1), Nack(delivery=0),
        gets("q", 4),
    ),
    *both(
        "one by one in a burst",
        publish("q", "1", "2", "3", "4"), gets("q", 3), burst(Nack(delivery=1), Nack(delivery=0), Nack(delivery=2)),
        gets("q", 4),
    ),
    *both("recover", publish("q", "1", "2", "3", "4"), gets("q", 3), Ack(delivery=1), Recover(), gets("q", 4)),
    *both(
        "channel closed",
        publish("q", "1", "2", "3", "4", on="b"), gets("q", 3), CloseChannel(), Count("q"), gets("q", 4),
    ),
    *both("connection closed", publish("q", "1", "2", "3"), gets("q", 2, on="b"), CloseConnection("b"), gets("q", 3)),
    *both("connection cut", publish("q", "1", "2", "3"), gets("q", 2, on="b"), KillConnection("b"), gets("q", 3)),
    *both(
        "consumer, multiple",
        Qos(3), Consume("q", "c"), publish("q", "1", "2", "3", "4", "5"), Nack(delivery=1, multiple=True),
        Ack(multiple=True),
    ),
    *both(
        "consumer, the first of its prefetch",
        Qos(2), Consume("q", "c"), publish("q", "1", "2", "3"), Nack(delivery=0), Ack(delivery=1), Ack(delivery=2),
    ),
    *both(
        "to another consumer",
        Qos(1), Consume("q", "c"), Qos(1, channel="b"), publish("q", "1", "2"), Consume("q", "d", channel="b"),
        Nack(), Ack(channel="b"), CloseChannel(), Ack(channel="b", multiple=True),
    ),
    *both(
        "cancelled before",
        Consume("q", "c"), publish("q", "1", "2"), Cancel("c"), Count("q"), Nack(delivery=0), Get("q"),
        Ack(delivery=1),
    ),
    *both(
        "two channels give back",
        publish("q", "1", "2", "3", "4"), Get("q"), Get("q", channel="b"), Get("q"), CloseChannel(channel="b"),
        Nack(delivery=1), Nack(delivery=0), gets("q", 4),
    ),
    scenario(
        "redelivered flags of a classic queue",
        CONFIRMED, queue("q"), publish("q", "1", "2"), Get("q"), Nack(), Consume("q", "c", channel="b"),
        CloseConnection("b"), Consume("q", "c", no_ack=True, channel="b"),
    ),
    scenario(
        "priority queue",
        CONFIRMED, queue("q", max_priority=3), publish("q", "1", priority=1), publish("q", "3", priority=3),
        publish("q", "1 again", priority=1), gets("q", 3), Nack(multiple=True), gets("q", 3), Nack(delivery=4),
        Get("q"),
    ),
    scenario(
        "single active consumer",
        CONFIRMED, queue("q", single_active_consumer=True), Qos(1), Consume("q", "c"), Qos(1, channel="b"),
        Consume("q", "d", channel="b"), publish("q", "1", "2"), Nack(), CloseChannel(), Ack(channel="b"),
    ),
    scenario(
        "quorum, single active consumer",
        CONFIRMED, quorum("q", single_active_consumer=True), Qos(1), Consume("q", "c"), Qos(1, channel="b"),
        Consume("q", "d", channel="b"), publish("q", "1", "2"), Nack(), CloseChannel(), Ack(channel="b"),
    ),
]  # fmt: skip
