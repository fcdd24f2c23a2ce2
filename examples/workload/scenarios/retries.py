"""Retries messages: through a wait queue, by requeueing them, by publishing them again."""

from __future__ import annotations

from collections import Counter

from examples.workload.consumers import (
    ACK,
    CLOSE_CHANNEL,
    CLOSE_CONNECTION,
    NACK,
    NACK_REQUEUE,
    REJECT,
    REQUEUE,
    Delivery,
    Verdict,
    accept,
    obey,
)
from examples.workload.stage import Stage


def retry_loop(s: Stage) -> None:
    """A rejected order waits 80 ms and is tried again; after four attempts the worker parks it itself."""
    s.exchange("orders", "topic")
    s.exchange("orders.retry", "fanout")
    s.queue("orders.work", dlx="orders.retry")
    s.queue("orders.wait", ttl_ms=80, dlx="orders")
    s.queue("orders.parking")
    s.bind("orders.work", "orders", "order.#")
    s.bind("orders.wait", "orders.retry")

    def work(delivery: Delivery) -> Verdict:
        if delivery.rejections() >= delivery.header("fails"):
            return ACK
        if delivery.rejections() < 3:
            return REJECT
        s.forward(delivery, "", "orders.parking", parked_by="orders worker")
        return ACK

    s.work({"orders.work": work})
    s.work({"orders.work": work, "orders.parking": accept}, prefetch=3)
    for _ in range(s.messages):
        key = s.random.choice(["order.new", "order.changed.address"])
        s.publish("orders", key, "order", headers={"fails": s.random.randrange(6)})
    s.drain()


def retry_ladder(s: Stage) -> None:
    """Each attempt has its own queue and each wait is longer; the last rejection parks the payment."""
    s.exchange("payments")
    for level, ttl_ms in enumerate((50, 100, 200), start=1):
        s.queue(f"payments.try.{level}", dlx="", dlrk=f"payments.wait.{level}")
        s.queue(f"payments.wait.{level}", ttl_ms=ttl_ms, dlx="payments", dlrk=f"try.{level + 1}")
    s.queue("payments.try.4", dlx="", dlrk="payments.parking")
    s.queue("payments.parking")
    for level in range(1, 5):
        s.bind(f"payments.try.{level}", "payments", f"try.{level}")

    def attempt(delivery: Delivery) -> Verdict:
        return ACK if delivery.header("fails") < int(delivery.queue[-1]) else REJECT

    s.work({"payments.try.1": attempt, "payments.try.2": attempt})
    s.work({"payments.try.3": attempt, "payments.try.4": attempt, "payments.parking": accept})
    for _ in range(s.messages):
        s.publish("payments", "try.1", "payment", headers={"fails": s.random.randrange(5)})
    s.drain()


def poison(s: Stage) -> None:
    """E-mails that fail again and again exceed the delivery limit of a quorum queue."""
    s.exchange("emails.dlx", "fanout")
    s.queue("emails.send", type="quorum", delivery_limit=3, dlx="emails.dlx")
    s.queue("emails.parking", type="quorum")
    s.bind("emails.parking", "emails.dlx")
    tries: Counter[tuple[str, str]] = Counter()

    def first_time(delivery: Delivery) -> bool:
        key = (delivery.queue, delivery.properties.message_id)
        tries[key] += 1
        return tries[key] == 1

    def send(delivery: Delivery) -> Verdict:
        trouble, first = delivery.header("trouble"), first_time(delivery)
        if trouble == "busy":  # 4.3 does not count a nack
            return NACK_REQUEUE if first else ACK
        if trouble == "crash" and delivery.header("x-delivery-count") == 1:
            return CLOSE_CHANNEL
        return REQUEUE if trouble in ("crash", "poison") else obey(delivery)

    def park(delivery: Delivery) -> Verdict:
        return REQUEUE if delivery.header("trouble") == "poison" and first_time(delivery) else ACK

    s.work({"emails.send": send}, prefetch=4)
    s.work({"emails.send": send, "emails.parking": park}, prefetch=2)
    for _ in range(s.messages):
        trouble = s.random.choice(["none", "busy", "crash", "poison", "poison"])
        refused = s.random.choice(["no", "reject", "nack"])
        s.publish("", "emails.send", "email", headers={"trouble": trouble, "refused": refused})
    s.drain()


def republish(s: Stage) -> None:
    """A consumer of dead letters publishes them again with all headers: 3.10 continues their x-death,
    4.0 begins a new one at the next death."""
    s.exchange("refunds")
    s.exchange("refunds.failed", "fanout")
    s.queue("refunds.work", dlx="refunds.failed")
    s.queue("refunds.slow", ttl_ms=70, dlx="refunds", dlrk="work")
    s.queue("refunds.failed")
    s.bind("refunds.work", "refunds", "work")
    s.bind("refunds.slow", "refunds", "slow")
    s.bind("refunds.failed", "refunds.failed")

    def work(delivery: Delivery) -> Verdict:
        return REJECT if delivery.header("republished") < delivery.header("fails") else ACK

    def again(delivery: Delivery) -> Verdict:
        times = delivery.header("republished")
        if times < 3:
            s.forward(delivery, "refunds", "slow" if times % 2 else "work", republished=times + 1)
        return ACK

    s.work({"refunds.work": work})
    s.work({"refunds.failed": again}, prefetch=3)
    for _ in range(s.messages // 2):
        s.publish("refunds", "work", "refund", headers={"republished": 0, "fails": s.random.randrange(5)})
    s.drain()


def requeues(s: Stage) -> None:
    """Deliveries returned in every way, from a classic and from a quorum queue, before they are settled."""
    s.exchange("carts.dlx", "fanout")
    s.queue("carts.work", dlx="carts.dlx")
    s.queue("carts.replicated", type="quorum", dlx="carts.dlx")
    s.queue("carts.parking")
    s.bind("carts.parking", "carts.dlx")
    returned: set[str] = set()
    returns = {
        "reject": REQUEUE,
        "nack": NACK_REQUEUE,
        "channel": CLOSE_CHANNEL,
        "connection": CLOSE_CONNECTION,
    }

    def work(delivery: Delivery) -> Verdict:
        verdict = returns.get(delivery.header("returned"))
        if verdict and delivery.properties.message_id not in returned:
            returned.add(delivery.properties.message_id)
            return verdict
        return obey(delivery)

    for number in range(s.messages):
        headers = {
            "returned": s.random.choice(["no", "reject", "nack", "nack", "channel", "connection"]),
            "refused": s.random.choice(["no", "reject", "nack"]),
        }
        s.publish("", ("carts.work", "carts.replicated")[number % 2], "cart", headers=headers)
    for queue in ("carts.work", "carts.replicated"):
        for verdict in (NACK_REQUEUE, REQUEUE, REJECT, NACK, ACK):
            s.get(queue, verdict)
    s.work({"carts.work": work, "carts.parking": accept}, prefetch=3)
    s.work({"carts.replicated": work}, prefetch=3)
    s.drain()
