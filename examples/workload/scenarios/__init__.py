"""The scenarios, one function each, and the deaths that each must leave in the log."""

from __future__ import annotations

from collections.abc import Callable

from examples.workload.scenarios.histories import anonymous, cycles, stages
from examples.workload.scenarios.limits import delayed, overflow, policies, priorities
from examples.workload.scenarios.retries import poison, republish, requeues, retry_ladder, retry_loop
from examples.workload.scenarios.routing import carbon_copies, fanout, headers_exchange, lost, topics
from examples.workload.stage import Stage

# Name (app_id of its messages, first word of its queues), function, reasons its deliveries must show.
SCENARIOS: list[tuple[str, Callable[[Stage], None], set[str]]] = [
    ("orders", retry_loop, {"rejected", "expired"}),
    ("payments", retry_ladder, {"rejected", "expired"}),
    ("emails", poison, {"delivery_limit", "rejected"}),
    ("events", overflow, {"maxlen"}),
    ("invoices", carbon_copies, {"rejected"}),
    ("shipments", fanout, {"rejected", "expired"}),
    ("tickets", headers_exchange, {"rejected", "expired"}),
    ("jobs", priorities, {"rejected", "expired", "maxlen"}),
    ("cycles", cycles, {"rejected", "expired"}),
    ("reminders", delayed, {"rejected", "expired"}),
    ("logs", topics, {"rejected"}),
    ("subscriptions", policies, {"rejected", "expired"}),
    ("refunds", republish, {"rejected", "expired"}),
    ("carts", requeues, {"rejected"}),
    ("stages", stages, {"rejected"}),
    ("feeds", lost, set()),
    ("clicks", anonymous, {"rejected", "expired"}),
]
