"""Messages that stay too long or are too many: TTL, expiration and length, by argument and by policy."""

from __future__ import annotations

from examples.workload.consumers import ACK, REJECT, accept, obey
from examples.workload.stage import Stage


def overflow(s: Stage) -> None:
    """Queues limited by argument, by policy in bytes, by refusing publishers, and a quorum queue."""
    s.policy("events-bytes", r"^events\.sized$", max_length_bytes=2000, dead_letter_exchange="events.dlx")
    s.exchange("events.dlx", "fanout")
    s.queue("events.recent", max_length=5, dlx="events.dlx")
    s.queue("events.sized")
    s.queue("events.strict", max_length=4, overflow="reject-publish-dlx", dlx="events.dlx")
    s.queue("events.replicated", type="quorum", max_length=5, dlx="events.dlx")
    s.queue("events.archive")
    s.bind("events.archive", "events.dlx")
    for number in range(s.messages):
        queue = ("events.recent", "events.sized", "events.strict", "events.replicated")[number % 4]
        s.publish("", queue, "event", confirmed=queue == "events.strict", size=s.random.randrange(200, 600))
    s.work({"events.recent": accept, "events.sized": accept, "events.strict": accept})
    s.work({"events.replicated": accept, "events.archive": accept})
    s.drain()


def priorities(s: Stage) -> None:
    """A priority queue with a TTL: the urgent jobs are fetched, the rest expires."""
    s.exchange("jobs.dlx")
    s.queue("jobs.ready", max_priority=5, ttl_ms=250, dlx="jobs.dlx", dlrk="late")
    s.queue("jobs.crowded", max_priority=5, max_length=5, dlx="jobs.dlx", dlrk="late")
    s.queue("jobs.late", max_priority=3)
    s.bind("jobs.late", "jobs.dlx", "late")
    for number in range(s.messages):
        priority = s.random.choice([None, 0, 1, 3, 5, 9])
        s.publish("", "jobs.crowded" if number % 3 == 0 else "jobs.ready", "job", priority=priority)
    s.get("jobs.ready", ACK, times=s.messages // 5)
    s.get("jobs.ready", REJECT, times=s.messages // 8)
    s.work({"jobs.late": accept, "jobs.crowded": accept})
    s.drain()


def delayed(s: Stage) -> None:
    """Queues without consumers delay reminders: by queue TTL, and by each message's own expiration."""
    s.exchange("reminders")
    s.queue("reminders.delay", ttl_ms=150, dlx="reminders", dlrk="due")
    s.queue("reminders.custom", dlx="reminders", dlrk="due")
    s.queue("reminders.both", ttl_ms=100, dlx="reminders", dlrk="due")
    if s.has("quorum-ttl"):
        s.queue("reminders.replicated", type="quorum", ttl_ms=200, dlx="reminders", dlrk="due")
    s.queue("reminders.due", dlx="", dlrk="reminders.parking")
    s.queue("reminders.parking")
    s.bind("reminders.due", "reminders", "due")
    delays = s.queues[:-2]

    s.work({"reminders.due": obey, "reminders.parking": accept})
    for number in range(s.messages):
        queue = delays[number % len(delays)]
        own = queue != "reminders.delay" and (queue == "reminders.custom" or s.random.random() < 0.5)
        expiration = str(s.random.randrange(50, 300, 10)) if own else None
        refused = s.random.choice(["no", "reject", "nack"])
        s.publish("", queue, "reminder", headers={"refused": refused}, expiration=expiration)
    s.drain()


def policies(s: Stage) -> None:
    """DLX, key and TTL by policy; arguments override or cap them, an operator policy caps both."""
    s.policy(
        "subscriptions-late",
        r"^subscriptions\.(renewals|trials|gifts|family)$",
        priority=1,
        message_ttl=200,
        dead_letter_exchange="subscriptions.dlx",
        dead_letter_routing_key="late",
    )
    s.policy("subscriptions-default", r"^subscriptions\.", message_ttl=60_000)
    s.policy("subscriptions-cap", r"^subscriptions\.gifts$", operator=True, message_ttl=80)
    s.exchange("subscriptions.dlx")
    s.queue("subscriptions.renewals")
    s.queue("subscriptions.trials", ttl_ms=60, dlx="", dlrk="subscriptions.parking")
    s.queue("subscriptions.gifts")
    if s.has("quorum-ttl"):
        s.queue("subscriptions.family", type="quorum")
    sources = list(s.queues)
    s.queue("subscriptions.late")
    s.queue("subscriptions.parking")
    s.bind("subscriptions.late", "subscriptions.dlx", "late")

    for number in range(s.messages):
        s.publish("", sources[number % len(sources)], "subscription")
    s.get("subscriptions.renewals", REJECT, times=s.messages // 10)
    s.work({"subscriptions.late": accept, "subscriptions.parking": accept})
    s.drain()
