"""Random workloads in which messages die in every way there is, drawn from a seed.

What happens depends on the seed alone and not on timing: a message waits for its death
where nobody consumes, each step is over before the next begins, and what dies by
itself does not go round for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from dlx.declarations import queue_arguments
from dlx.releases import Release
from dlx.topology import CLASSIC

MISSPELT = "dlx-misspelt"
TTL_MS = (20, 40, 60)
EXPIRATION_MS = "30"
SETTLE_MS = 450
"""In this time all that dies by itself has died: TTLs add up to less along any way through the queues."""
_EXCHANGES = {"misspelt": MISSPELT, "fanout": "dlx.fanout", "unbound": "dlx.unbound"}
QUEUES = ("q0", "q1", "q2", "q3", "q4", "q5")

Death = Literal["ttl", "length", "limit", "none"]


@dataclass
class QueuePlan:
    """A queue to declare; ``dies`` is how messages die there without being rejected."""

    name: str
    kind: str
    dies: Death
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def by_itself(self) -> bool:
        """Whether messages die there although nobody consumes."""
        return self.dies in ("ttl", "length")


@dataclass
class Step:
    """``publish`` so many messages to a queue, or ``take`` them and ``ack``, ``reject`` or ``requeue`` each."""

    do: Literal["publish", "take"]
    queue: str
    count: int
    expiring: bool = False
    action: str = "ack"


@dataclass
class Workload:
    """Queues, the exchanges between them as (name, type, queues bound), and what is done.

    ``drained``: at the end consumers take all that is left.
    """

    seed: int
    queues: list[QueuePlan]
    exchanges: list[tuple[str, str, list[str]]]
    steps: list[Step]
    drained: bool


def draw(seed: int) -> Workload:
    """Draw the workload of a seed."""
    rng = Random(f"books/{seed}")
    rejects = rng.random() < 0.7
    queues = [_queue(rng, name) for name in QUEUES[: rng.randint(3, len(QUEUES))]]
    exchanges = [("dlx.fanout", "fanout", _after(rng, queues)), ("dlx.unbound", "direct", [])]
    for index, queue in enumerate(queues):
        _dead_letter(rng, queue, _targets(queues, index, rejects))
    steps = [_step(rng, queues, rejects) for _ in range(rng.randint(6, 14))]
    return Workload(seed, queues, exchanges, steps, drained=rng.random() < 0.8)


def for_release(workload: Workload, rules: Release) -> Workload:
    """Return the same without what the queues of a release do not take: a stream is a classic queue then."""
    return replace(workload, queues=[_for_release(queue, rules) for queue in workload.queues])


def _for_release(queue: QueuePlan, rules: Release) -> QueuePlan:
    if queue.kind not in rules.queue_types:
        return QueuePlan(queue.name, CLASSIC, "none")
    taken = queue_arguments(queue.kind, rules)
    return replace(queue, arguments={key: value for key, value in queue.arguments.items() if key in taken})


def _queue(rng: Random, name: str) -> QueuePlan:
    kind = rng.choices(["classic", "quorum", "stream"], [10, 9, 1])[0]
    if kind == "stream":
        return QueuePlan(name, kind, "none", {"x-queue-type": kind})
    dies: Death = rng.choices(["ttl", "length", "limit", "none"], [5, 4, 3 * (kind == "quorum"), 4])[0]
    arguments: dict[str, Any] = {"x-queue-type": kind}
    if dies == "ttl":
        arguments["x-message-ttl"] = rng.choice(TTL_MS)
    if dies == "length":
        arguments["x-max-length"] = rng.randint(1, 3)
        overflow = rng.choice(["drop-head", "drop-head", "reject-publish", "reject-publish-dlx"])
        if overflow != "drop-head" and (kind == "classic" or overflow == "reject-publish"):
            arguments["x-overflow"] = overflow
    if dies == "limit":
        arguments["x-delivery-limit"] = rng.randint(1, 2)
    return QueuePlan(name, kind, dies, arguments)


def _after(rng: Random, queues: list[QueuePlan]) -> list[str]:
    """The queues of a fanout: the last ones, in which nothing dies by itself."""
    still = [queue.name for queue in queues if not queue.by_itself]
    return rng.sample(still, min(len(still), 2))


def _targets(queues: list[QueuePlan], index: int, rejects: bool) -> list[str]:
    """The queues to which the dead letters of a queue may go.

    A rejection lets what dies by itself go round for ever in some releases. Where
    there are any, such a queue dead-letters only to later ones, or to where nothing dies so.
    """
    if not rejects or not queues[index].by_itself:
        return [queue.name for queue in queues]
    return [queue.name for at, queue in enumerate(queues) if at > index or not queue.by_itself]


def _dead_letter(rng: Random, queue: QueuePlan, targets: list[str]) -> None:
    """Give the queue a dead-letter exchange, a misspelt one, or none."""
    if queue.kind == "stream":
        return
    way = rng.choices(["none", "misspelt", "queue", "no queue", "fanout", "unbound"], [30, 12, 36, 5, 12, 5])[0]
    if way == "none" or (way == "queue" and not targets):
        return
    arguments = queue.arguments
    arguments["x-dead-letter-exchange"] = _EXCHANGES.get(way, "")
    if way in ("queue", "no queue"):
        arguments["x-dead-letter-routing-key"] = rng.choice(targets) if way == "queue" else "nowhere"
    if queue.kind == "quorum" and rng.random() < 0.35:
        arguments |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


def _step(rng: Random, queues: list[QueuePlan], rejects: bool) -> Step:
    """Publish anywhere, or take where messages stay long enough."""
    stays = [queue for queue in queues if queue.dies != "ttl" and queue.kind != "stream"]
    if not stays or rng.random() < 0.5:
        queue = rng.choice([each for each in queues if each.kind != "stream"] or queues)
        expiring = rng.random() < 0.2 and queue.dies != "length"  # which of the two comes first is a matter of time
        return Step("publish", queue.name, rng.randint(1, 6), expiring=expiring)
    queue = rng.choice(stays)
    actions = ["ack", "requeue"] + ["reject", "reject", "reject"] * rejects
    return Step("take", queue.name, rng.randint(1, 5), action=rng.choice(actions))
