"""Message priorities in classic and quorum queues."""

from typing import Any

from tests.differential.operations import Ack, Consume, Count, Nack, Qos, SelectConfirms, Wait
from tests.differential.words import Part, gets, policy, publish, queue, quorum, rejected, scenario

CONFIRMED = SelectConfirms()


def _priority(priority: int | None) -> dict[str, Any]:
    return {} if priority is None else {"priority": priority}


def prioritised(queue_name: str, *priorities: int | None) -> list[Part]:
    """A publish for each priority, named by it; ``None`` is published without one."""
    return [publish(queue_name, f"{each}", **_priority(each)) for each in priorities]


MIXED = (1, 9, 3, 7, 0, 5, None, 2, 31, 40)

SCENARIOS = [
    scenario("classic", CONFIRMED, queue("q", max_priority=5), prioritised("q", *MIXED), Count("q")),
    scenario("classic without priorities", CONFIRMED, queue("q"), prioritised("q", *MIXED)),
    scenario("classic with a single priority", CONFIRMED, queue("q", max_priority=0), prioritised("q", 0, 5, 1)),
    scenario("quorum", CONFIRMED, quorum("q"), prioritised("q", *MIXED)),
    scenario(
        "quorum, taken one by one",
        CONFIRMED, quorum("q"), prioritised("q", 1, 9, 3, 9), gets("q", 2), prioritised("q", 9, 1), gets("q", 4),
    ),
    scenario(
        "classic, to a consumer",
        CONFIRMED, queue("q", max_priority=5), prioritised("q", 1, 5, 3), Qos(1), Consume("q", "c"),
        prioritised("q", 4), Ack(), Ack(), Ack(), Ack(),
    ),
    scenario(
        "quorum, to a consumer",
        CONFIRMED, quorum("q"), prioritised("q", 1, 9, 3), Qos(1), Consume("q", "c"), prioritised("q", 4, 8), Ack(),
        Ack(), Ack(), Ack(), Ack(),
    ),
    scenario(
        "dead letters by priority",
        CONFIRMED, quorum("d"), queue("q", dlx="", dlrk="d"), prioritised("q", 1, 9, None), rejected("q", 3),
    ),
    scenario(
        "rejected at once, the highest priority dies first",
        CONFIRMED, queue("d"), queue("q", max_priority=5, dlx="", dlrk="d"), Consume("q", "c"),
        prioritised("q", None, 1, 0, 2, 1), Nack(multiple=True, tag=0, requeue=False),
    ),
    scenario(
        "expired unnoticed, until a policy of the queue's own",
        CONFIRMED, queue("q", max_priority=5), queue("r"), prioritised("q", 1),
        publish("q", priority=3, expiration="300"), Wait(600), Count("q"),
        policy("p", "^r$", max_length=9), Wait(200), Count("q"),
        policy("p", "^q$", max_length=9), Wait(200), Count("q"),
        prioritised("q", 1), publish("q", priority=3, expiration="300"), Wait(600),
        policy("p", "^q$", max_length=9), Wait(200), Count("q"),
        policy("z", "^(q|r)$", max_length=8, priority=-1), Wait(200), Count("q"),
    ),
    scenario(
        "length limit of a priority queue",
        CONFIRMED, queue("d"), queue("q", max_priority=5, length=2, dlx="", dlrk="d"), prioritised("q", 1, 2, 3, 4),
    ),
]  # fmt: skip
