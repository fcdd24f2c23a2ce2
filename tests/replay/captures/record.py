"""Records the rules that the workload of ``examples/`` does not exercise: a small virtual host on a real server.

    python -m tests.replay.captures.record --release 4.3 \\
        --url amqp://guest:guest@localhost:5672/ --management-url http://localhost:15672

writes ``trace.log.gz`` and ``definitions.json`` into the folder of that release here; after that,
``python -m tests.replay.exercised`` lists what they exercise. Each function plays one rule or a few.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika

from examples.workload.broker import Broker
from examples.workload.consumers import ACK, REJECT, REQUEUE, Verdict, answer
from examples.workload.recording import collect, save, traced_vhost, wait_for_quiet
from examples.workload.stage import Stage

HERE = Path(__file__).parent
TIMEOUT_S = 30
TRIES_MAX = 25
"""Deliveries of a message that is put back until it dies: more than the default delivery limit of 20."""


def take(s: Stage, queue: str, verdict: Verdict = ACK) -> pika.BasicProperties:
    """Fetch the next message, once there is one, and answer it."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        method, properties, _ = s.channel.basic_get(queue)
        if method:
            answer(s.channel, method.delivery_tag, verdict)
            assert isinstance(properties, pika.BasicProperties)
            return properties
        assert time.monotonic() < deadline, f"{queue} has no message after {TIMEOUT_S} s"
        time.sleep(0.05)


def put_back(s: Stage, queue: str, then: str) -> None:
    """Put a message back until it dies, and take its dead letter."""
    for _ in range(TRIES_MAX):
        method, _, _ = s.channel.basic_get(then)
        if method:
            answer(s.channel, method.delivery_tag, ACK)
            return
        method, _, _ = s.channel.basic_get(queue)
        if method:
            answer(s.channel, method.delivery_tag, REQUEUE)
        else:
            time.sleep(0.05)
    take(s, then)


def policy(s: Stage, name: str, pattern: str, apply_to: str, priority: int = 0, **keys: Any) -> None:
    definition = {key.replace("_", "-"): value for key, value in keys.items()}
    body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
    s.broker.management.call("PUT", "policies", s.broker.vhost, name, body=body)


def operator_policies(s: Stage) -> None:
    """Length limits and delivery limits by operator policy, a delivery limit by policy."""
    s.policy("ops-length", r"^ops\.length$", operator=True, max_length=2)
    s.policy("ops-tries", r"^ops\.tries$", operator=True, delivery_limit=1)
    s.policy(
        "ops-policy", r"^ops\.policy$", delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="ops.dead"
    )
    s.queue("ops.dead")
    s.queue("ops.length", dlx="", dlrk="ops.dead")
    s.queue("ops.tries", type="quorum", dlx="", dlrk="ops.dead")
    s.queue("ops.policy", type="quorum")
    for _ in range(4):
        s.publish("", "ops.length", "task")
    for queue in ("ops.dead", "ops.dead", "ops.length", "ops.length"):
        take(s, queue)
    for queue in ("ops.tries", "ops.policy"):
        s.publish("", queue, "task")
        put_back(s, queue, "ops.dead")


def expirations(s: Stage) -> None:
    """A TTL of 0; expirations with a sign and with zeros in front; one of more than ten years, until 3.9."""
    s.queue("times.dead")
    s.queue("times.zero", ttl_ms=0, dlx="", dlrk="times.dead")
    s.queue("times.odd", dlx="", dlrk="times.dead")
    s.publish("", "times.zero", "task")
    take(s, "times.dead")
    odd = ["+600000", "000600000"] + (["400000000000"] if s.broker.release < (3, 10) else [])
    for expiration in odd:
        s.publish("", "times.odd", "task", expiration=expiration)
        take(s, "times.odd", REJECT)
        take(s, "times.dead")


def routes(s: Stage) -> None:
    """Several bindings that lead to one queue; headers bindings whose answer depends on the release."""
    s.exchange("routes.dlx", "topic")
    s.queue("routes.dead")
    s.queue("routes.twice", dlx="routes.dlx")
    s.bind("routes.dead", "routes.dlx", "#", "routes.*")
    s.publish("", "routes.twice", "task")
    take(s, "routes.twice", REJECT)
    take(s, "routes.dead")
    s.exchange("routes.else", "fanout")
    s.queue("routes.other")
    s.bind("routes.other", "routes.else")
    headers: dict[str, dict[str, Any]] = {
        "expired": {"x-match": "all-with-x", "x-first-death-reason": "expired"},
        "number": {"x-match": "all", "number": 1.0},
        "history": {"x-match": "all-with-x", "x-death": None},
    }
    if s.broker.release < (3, 10):
        headers = {"number": headers["number"]}
    for name, arguments in headers.items():
        s.exchange(f"routes.{name}", "headers", arguments={"alternate-exchange": "routes.else"})
        s.queue(f"routes.{name}.dead")
        s.queue(f"routes.{name}.work", dlx=f"routes.{name}")
        if name == "number":  # pika writes no floats
            body = {"routing_key": "", "arguments": arguments}
            path = ("bindings", s.broker.vhost, "e", f"routes.{name}", "q", f"routes.{name}.dead")
            s.broker.management.call("POST", *path, body=body)
        else:
            s.bind(f"routes.{name}.dead", f"routes.{name}", **arguments)
        s.publish("", f"routes.{name}.work", "task", headers={"number": 1})
        take(s, f"routes.{name}.work", REJECT)
        take_from_either(s, f"routes.{name}.dead", "routes.other")


def take_from_either(s: Stage, one: str, other: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for queue in (one, other):
            method, _, _ = s.channel.basic_get(queue)
            if method:
                answer(s.channel, method.delivery_tag, ACK)
                return
        time.sleep(0.05)
    raise AssertionError(f"neither {one} nor {other} has a message")


def claimed(s: Stage) -> None:
    """A client's own x-death, with a field that no broker writes."""
    s.queue("claims.dead")
    s.queue("claims.work", dlx="", dlrk="claims.dead")
    claim = {"queue": "claims.old", "reason": "rejected", "count": 2, "exchange": "", "routing-keys": ["a"], "by": "us"}
    s.publish("", "claims.work", "task", headers={"x-death": [claim]})
    take(s, "claims.work", REJECT)
    take(s, "claims.dead")


def delivery_limits(s: Stage) -> None:
    """Limits that are default, negative, or no number; a count that a dead letter brings along."""
    s.queue("limits.dead")
    if s.broker.release >= (4, 0):
        s.queue("limits.default", type="quorum", dlx="", dlrk="limits.dead")
        s.queue("limits.negative", type="quorum", delivery_limit=-1, dlx="", dlrk="limits.dead")
        s.publish("", "limits.default", "task")
        put_back(s, "limits.default", "limits.dead")
        s.publish("", "limits.negative", "task")
        for verdict in (REQUEUE, REQUEUE, REJECT):
            take(s, "limits.negative", verdict)
        take(s, "limits.dead")
    if s.broker.release >= (4, 2):
        s.queue("limits.text", type="quorum", delivery_limit="ten", dlx="", dlrk="limits.dead")
        s.publish("", "limits.text", "task")
        put_back(s, "limits.text", "limits.dead")
    s.queue("limits.first", type="quorum", delivery_limit=5, dlx="", dlrk="limits.second")
    s.queue("limits.second", type="quorum", delivery_limit=1, dlx="", dlrk="limits.dead")
    s.publish("", "limits.first", "task")
    for verdict in (REQUEUE, REQUEUE, REQUEUE, REJECT):
        take(s, "limits.first", verdict)
    take(s, "limits.second", REJECT)
    take(s, "limits.dead")


def chosen_policies(s: Stage) -> None:
    """Policies that a release skips for a queue, or applies to a type of queue; overflow by operator policy."""
    s.queue("chosen.dead")
    s.queue("chosen.other")
    dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "chosen.dead"}
    other = {"dead_letter_exchange": "", "dead_letter_routing_key": "chosen.other"}
    policy(s, "chosen-limit", r"^chosen\.classic$", "queues", priority=5, delivery_limit=3, **other)
    policy(s, "chosen-plain", r"^chosen\.classic$", "queues", priority=1, **dead)
    s.queue("chosen.classic")
    s.publish("", "chosen.classic", "task")
    take(s, "chosen.classic", REJECT)
    take_from_either(s, "chosen.dead", "chosen.other")
    if s.broker.release < (3, 12):
        return
    policy(s, "chosen-quorum", r"^chosen\.quorum$", "quorum_queues", **dead)
    s.queue("chosen.quorum", type="quorum")
    s.publish("", "chosen.quorum", "task")
    take(s, "chosen.quorum", REJECT)
    take(s, "chosen.dead")
    s.policy("chosen-full", r"^chosen\.full$", overflow="reject-publish")
    s.policy("chosen-overflow", r"^chosen\.full$", operator=True, overflow="drop-head")
    s.queue("chosen.full", max_length=1, dlx="", dlrk="chosen.dead")
    for _ in range(2):
        s.publish("", "chosen.full", "task")
    take(s, "chosen.dead")
    take(s, "chosen.full")


def at_least_once(s: Stage) -> None:
    """Dead-lettering at least once, by argument and by policy; into a stream, too."""
    if s.broker.release < (3, 10):
        return
    strategy = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    s.queue("safe.dead")
    s.exchange("safe.dlx", "fanout")
    s.bind("safe.dead", "safe.dlx")
    policy(s, "safe-policy", r"^safe\.policy$", "queues", dead_letter_exchange="safe.dlx", **strategy)
    s.queue("safe.argument", type="quorum", dlx="safe.dlx", **strategy)
    s.queue("safe.policy", type="quorum")
    for queue in ("safe.argument", "safe.policy"):
        s.publish("", queue, "task")
        take(s, queue, REJECT)
        take(s, "safe.dead")
    s.queue("safe.stream", type="stream")
    s.queue("safe.to.stream", type="quorum", dlx="", dlrk="safe.stream", **strategy)
    s.publish("", "safe.to.stream", "task", headers={"list": ["a", "b"], "CC": ["nowhere"]})
    take(s, "safe.to.stream", REJECT)
    streamed = 1
    if s.broker.release >= (3, 12):
        s.queue("safe.at.most", dlx="", dlrk="safe.stream")
        s.publish("", "safe.at.most", "task", headers={"list": ["a", "b"]})
        take(s, "safe.at.most", REJECT)
        streamed += 1
    read_stream(s, "safe.stream", streamed)


def read_stream(s: Stage, stream: str, messages: int) -> None:
    s.channel.basic_qos(prefetch_count=10)
    left = messages
    for method, _, _ in s.channel.consume(stream, arguments={"x-stream-offset": "first"}, inactivity_timeout=TIMEOUT_S):
        assert method is not None, f"{stream} has no more messages after {TIMEOUT_S} s"
        s.channel.basic_ack(method.delivery_tag)
        left -= 1
        if not left:
            break
    s.channel.cancel()


SCENARIOS: tuple[tuple[str, Callable[[Stage], None]], ...] = (
    ("ops", operator_policies),
    ("times", expirations),
    ("routes", routes),
    ("claims", claimed),
    ("limits", delivery_limits),
    ("chosen", chosen_policies),
    ("safe", at_least_once),
)


def record(broker: Broker, out: Path) -> None:
    """Play the scenarios one after the other, and write the trace and the definitions."""
    with traced_vhost(broker) as trace:
        for name, scenario in SCENARIOS:
            stage = Stage(name, 1, 1, broker)
            try:
                scenario(stage)
            finally:
                stage.close()
        wait_for_quiet(broker, trace)
        save(out, *collect(broker, trace), compressed=True)


def main() -> None:
    """Record one release."""
    parser = argparse.ArgumentParser(description="Record rules that the workload does not exercise.")
    parser.add_argument("--release", required=True, help="such as 4.3: the folder to write to")
    parser.add_argument("--url", required=True, help="amqp://user:password@host:port/")
    parser.add_argument("--management-url", required=True, help="http://host:port of the management plugin")
    parser.add_argument("--vhost", default="dlx-corners", help="created, and deleted at the end")
    given = parser.parse_args()
    record(Broker(given.url, given.management_url, given.vhost), HERE / given.release)


if __name__ == "__main__":
    main()
