"""What x-death makes of it: cycles, the order of the entries, messages that only their content identifies."""

from __future__ import annotations

from examples.workload.consumers import ACK, NACK, REJECT, Delivery, Verdict, accept, obey
from examples.workload.stage import Stage


def cycles(s: Stage) -> None:
    """Automatic cycles drop the dead letter; a rejection on the way keeps it going for some laps.

    Releases up to 3.12 drop the reject loop's message on its second lap. No loop with a rejection
    turns without its consumer, so none can spin for ever.
    """
    s.exchange("cycles.back", "fanout")
    s.queue("cycles.a", ttl_ms=50, dlx="", dlrk="cycles.b")
    s.queue("cycles.b", ttl_ms=50, dlx="cycles.back")
    s.queue("cycles.observer")
    for queue in ("cycles.a", "cycles.observer"):
        s.bind(queue, "cycles.back")
    s.queue("cycles.silent.a", ttl_ms=50, dlx="", dlrk="cycles.silent.b")
    s.queue("cycles.silent.b", ttl_ms=50, dlx="", dlrk="cycles.silent.a")
    s.queue("cycles.in", dlx="", dlrk="cycles.near")
    s.queue("cycles.near", ttl_ms=50, dlx="", dlrk="cycles.far")
    s.queue("cycles.far", ttl_ms=50, dlx="", dlrk="cycles.in")
    s.queue("cycles.self", dlx="")

    def laps(delivery: Delivery) -> Verdict:
        return REJECT if delivery.rejections() < 3 else ACK

    s.work({"cycles.in": laps, "cycles.self": laps})
    s.work({"cycles.observer": accept})
    for number in range(s.messages):
        queue = ("cycles.a", "cycles.silent.a", "cycles.in", "cycles.self")[number % 4]
        s.publish("", queue, "task")
    s.drain()


def stages(s: Stage) -> None:
    """Four rejections in a row: up to 3.12 x-death is not in the order of the deaths."""
    for kind in ("classic", "quorum"):
        for number in range(1, 5):
            following = f"stages.{kind}.{number + 1}" if number < 4 else "stages.parking"
            s.queue(f"stages.{kind}.{number}", type=kind, dlx="", dlrk=following)
    s.queue("stages.parking")

    def step(delivery: Delivery) -> Verdict:
        if delivery.header("passes") < int(delivery.queue[-1]):
            return ACK
        return REJECT if delivery.header("refused") == "reject" else NACK

    s.work(dict.fromkeys(s.queues[:4], step))
    s.work(dict.fromkeys(s.queues[4:8], step) | {"stages.parking": accept})
    for _ in range(s.messages // 2):
        headers = {"passes": s.random.randrange(1, 6), "refused": s.random.choice(["reject", "nack"])}
        s.publish("", s.random.choice(["stages.classic.1", "stages.quorum.1"]), "document", headers=headers)
    s.drain()


def anonymous(s: Stage) -> None:
    """Messages without message_id: only their content tells one from another."""
    s.queue("clicks.work", ttl_ms=150, dlx="", dlrk="clicks.retry")
    s.queue("clicks.retry", dlx="", dlrk="clicks.parking")
    s.queue("clicks.parking")
    for _ in range(s.messages):
        s.publish("", "clicks.work", "click", identified=False, headers={"refused": "reject"})
    s.get("clicks.work", REJECT, times=s.messages // 4)
    s.work({"clicks.retry": obey, "clicks.parking": accept})
    s.drain()
