"""Where dead letters go: every type of dead-letter exchange, CC and BCC, and nowhere."""

from __future__ import annotations

from typing import Any

from examples.workload.consumers import accept, obey, refuse
from examples.workload.stage import Stage


def carbon_copies(s: Stage) -> None:
    """CC and BCC keys route the dead letter too, unless the queue names a dead-letter-routing-key."""
    regions = ["eu", "us", "asia"]
    for exchange in ("invoices", "invoices.dlx", "invoices.second"):
        s.exchange(exchange)
    for region in regions:
        s.queue(f"invoices.{region}", dlx="invoices.dlx")
        s.bind(f"invoices.{region}", "invoices", region)
        s.queue(f"invoices.parking.{region}", **({"dlx": "invoices.second"} if region == "eu" else {}))
        s.bind(f"invoices.parking.{region}", "invoices.dlx", region)
    s.queue("invoices.fixed", dlx="invoices.dlx", dlrk="asia")
    s.bind("invoices.fixed", "invoices", "fixed")
    s.queue("invoices.final")
    s.bind("invoices.final", "invoices.second", "us")

    s.work({f"invoices.{place}": obey for place in [*regions, "fixed"]})
    s.work(
        {
            "invoices.parking.eu": refuse,
            "invoices.parking.us": accept,
            "invoices.parking.asia": accept,
            "invoices.final": accept,
        }
    )
    for _ in range(s.messages // 2):
        rng = s.random
        headers: dict[str, Any] = {"refused": rng.choice(["no", "reject", "nack"])}
        for copies, chance in (("CC", 0.6), ("BCC", 0.4)):
            if rng.random() < chance:
                headers[copies] = rng.sample(regions, rng.randrange(1, 3))
        s.publish("invoices", rng.choice([*regions, "fixed"]), "invoice", headers=headers)
    s.drain()


def fanout(s: Stage) -> None:
    """One death, three dead letters; one of the three dies again."""
    s.exchange("shipments")
    s.exchange("shipments.dlx", "fanout")
    s.queue("shipments.work", dlx="shipments.dlx")
    s.queue("shipments.slow", ttl_ms=120, dlx="shipments.dlx")
    s.bind("shipments.work", "shipments", "parcel", "letter")
    s.bind("shipments.slow", "shipments", "freight", "letter")
    s.queue("shipments.alert", ttl_ms=60, dlx="", dlrk="shipments.parking")
    for queue in ("shipments.audit", "shipments.parking"):
        s.queue(queue)
    for queue in ("shipments.audit", "shipments.parking", "shipments.alert"):
        s.bind(queue, "shipments.dlx")

    s.work({"shipments.work": obey})
    s.work({"shipments.audit": accept, "shipments.parking": accept})
    for _ in range(s.messages // 2):
        key = s.random.choice(["parcel", "freight", "letter"])
        s.publish("shipments", key, "shipment", headers={"refused": s.random.choice(["reject", "nack"])})
    s.drain()


def headers_exchange(s: Stage) -> None:
    """A headers exchange sorts dead letters by what the user wrote and by why they died."""
    s.exchange("tickets.triage", "headers")
    s.queue("tickets.open", dlx="tickets.triage")
    s.queue("tickets.stale", ttl_ms=100, dlx="tickets.triage")
    bindings: dict[str, dict[str, Any]] = {
        "tickets.database": {"x-match": "all", "team": "database", "severity": "high"},
        "tickets.urgent": {"x-match": "any", "severity": "high", "vip": True},
    }
    if s.has("x-headers-match"):
        bindings["tickets.expired"] = {"x-match": "all-with-x", "x-first-death-reason": "expired"}
    for queue, arguments in bindings.items():
        s.queue(queue)
        s.bind(queue, "tickets.triage", **arguments)

    s.work({"tickets.open": refuse})
    s.work(dict.fromkeys(bindings, accept), prefetch=5)
    for _ in range(s.messages):
        choose = s.random.choice
        headers = {
            "team": choose(["database", "network"]),
            "severity": choose(["high", "low"]),
            "vip": choose([True, False]),
        }
        s.publish("", choose(["tickets.open", "tickets.stale"]), "ticket", headers=headers)
    s.drain()


def topics(s: Stage) -> None:
    """A topic DLX with an alternate exchange and an exchange bound to it; then an internal DLX."""
    s.exchange("logs.unrouted", "fanout")
    s.exchange("logs.pager", "fanout")
    s.exchange("logs.internal", "fanout", internal=True)
    s.exchange("logs.dlx", "topic", arguments={"alternate-exchange": "logs.unrouted"})
    s.channel.exchange_bind("logs.pager", "logs.dlx", "#.critical")
    s.queue("logs.work", dlx="logs.dlx")
    s.queue("logs.errors", dlx="logs.internal")
    for queue, source, key in (
        ("logs.errors", "logs.dlx", "error.#"),
        ("logs.database", "logs.dlx", "*.database.*"),
        ("logs.pager", "logs.pager", ""),
        ("logs.unrouted", "logs.unrouted", ""),
        ("logs.review", "logs.internal", ""),
    ):
        if queue != "logs.errors":
            s.queue(queue)
        s.bind(queue, source, key)
    s.exchange("logs", "topic")
    s.bind("logs.work", "logs", "#")

    s.work({"logs.work": refuse, "logs.errors": refuse})
    s.work(dict.fromkeys(("logs.database", "logs.pager", "logs.unrouted", "logs.review"), accept))
    keys = ["error", "error.database.slow", "info.database.slow", "error.web.critical", "debug.cache.miss"]
    for _ in range(s.messages):
        s.publish("logs", s.random.choice(keys), "entry")
    s.drain()


def lost(s: Stage) -> None:
    """Dead letters that vanish: a DLX that does not exist, one without bindings, none at all."""
    s.exchange("feeds.unbound")
    s.queue("feeds.missing", dlx="feeds.nowhere")
    s.queue("feeds.unbound", dlx="feeds.unbound")
    s.queue("feeds.plain", ttl_ms=80)
    s.work({"feeds.missing": refuse, "feeds.unbound": refuse})
    for number in range(s.messages):
        s.publish("", s.queues[number % 3], "feed")
    s.drain()
