"""What an application does in the live tests: steps for the real broker and for the simulator alike.

Every scenario has queues of its own, for one broker serves all of them. Times are
long enough that a busy machine does not change the order of things.
"""

from __future__ import annotations

from typing import Any

Steps = list[dict[str, Any]]
DLQ = "ActiveMQ.DLQ"


def consumer(
    name: str, destination: str, maximum: int = 1, *, acknowledge: str = "transacted", delay_ms: int = 300, **more: Any
) -> Steps:
    """A connection, a session and a consumer of one name. ``more``: fields of the policy, and of the steps."""
    connect = {key: more.pop(key) for key in ("client_id", "non_blocking_redelivery") if key in more}
    consume = {key: more.pop(key) for key in ("subscription", "listener") if key in more}
    policy = {"maximumRedeliveries": maximum, "initialRedeliveryDelay": delay_ms, "redeliveryDelay": delay_ms, **more}
    return [
        {"do": "connect", "connection": name, "redelivery_policy": policy, **connect},
        {"do": "session", "session": name, "connection": name, "acknowledge": acknowledge},
        {"do": "consumer", "consumer": name, "session": name, "destination": destination, **consume},
    ]


def send(to: str, *bodies: str, **more: Any) -> Steps:
    """Messages, one after the other."""
    return [{"do": "send", "to": to, "body": body, "properties": {"app": "live"}, **more} for body in bodies]


def receive(name: str, count: int = 1) -> Steps:
    """So many messages, or as many nothings."""
    return [{"do": "receive", "consumer": name, "timeout_ms": 1500}] * count


def end(name: str, what: str = "session") -> dict[str, Any]:
    """Close it."""
    return {"do": "close", what: name}


def rollback(name: str) -> dict[str, Any]:
    """The session rolls back."""
    return {"do": "rollback", "session": name}


def process(name: str, fails: int | str = "always", idle_ms: int = 2000) -> dict[str, Any]:
    """Receive and fail until nothing comes."""
    return {"do": "process", "consumer": name, "fails": fails, "idle_ms": idle_ms}


def drain(*queues: str) -> Steps:
    """Show what is on the queues."""
    return [{"do": "drain", "queue": queue} for queue in queues]


SCENARIOS: dict[str, Steps] = {
    "back-off with a cap, then the individual queue": [
        *consumer("c", "ORDERS.a", 4, delay_ms=100, useExponentialBackOff=True, backOffMultiplier=3.0,
                  maximumRedeliveryDelay=700),
        *send("ORDERS.a", "m1"), process("c"), *drain("DEAD.ORDERS.a.LETTERS"),
    ],
    "success at the third attempt": [
        *consumer("c", "T1", 5), *send("T1", "m1", "m2"), process("c", fails=2), *drain(DLQ),
    ],
    "the more special pattern wins": [
        *consumer("c", "ORDERS.b.EU", 0), *send("ORDERS.b.EU", "m1"), process("c"),
        *drain("EU.ORDERS.b.EU", "DEAD.ORDERS.b.EU.LETTERS"),
    ],
    "the last message decides for the batch": [
        *consumer("c", "T2", 1), *send("T2", "m1", "m2"),
        *receive("c"), rollback("c"), *receive("c", 2), rollback("c"), *receive("c", 2), rollback("c"),
        *receive("c"), *drain(DLQ),
    ],
    "sessions that close without commit": [
        *send("T3", "m1", "m2"),
        *consumer("c", "T3", 1), *receive("c"), end("c"),
        *consumer("d", "T3", 1), *receive("d"), end("d"),
        *consumer("e", "T3", 1), *receive("e", 2), end("e"), *drain(DLQ),
    ],
    "a socket that breaks, twice": [
        *send("T4", "m1", "m2"),
        *consumer("c", "T4", 1), *receive("c"), {"do": "wait", "ms": 300}, {"do": "disconnect", "connection": "c"},
        *consumer("d", "T4", 1), *receive("d"), {"do": "wait", "ms": 300}, {"do": "disconnect", "connection": "d"},
        *consumer("e", "T4", 1), *receive("e"), end("e"), *drain(DLQ),
    ],
    "client acknowledgement and recover": [
        *consumer("c", "T5", 2, acknowledge="client"), *send("T5", "m1", "m2"),
        *receive("c"), {"do": "recover", "session": "c"}, *receive("c", 2), {"do": "acknowledge", "consumer": "c"},
        end("c"), *drain(DLQ),
    ],
    "a listener that throws": [
        *consumer("c", "T6", 2, acknowledge="auto", delay_ms=400,
                  listener={"fails": "always", "exception": "java.lang.RuntimeException: attempt {n}"}),
        *send("T6", "m1"), {"do": "wait", "ms": 2500}, end("c"), *drain(DLQ),
    ],
    "two durable subscribers, each with dead letters of its own": [
        *consumer("c", "topic://NEWS.x", 0, client_id="c1", subscription="s1"),
        *consumer("d", "topic://NEWS.x", 0, client_id="c2", subscription="s2"),
        *send("topic://NEWS.x", "m1"), process("c"), process("d"),
        *drain("DEAD.NEWS.x.c1:s1", "DEAD.NEWS.x.c2:s2"),
    ],
    "a durable subscription forgets its count with a rollback": [
        *consumer("c", "topic://T11", 3, client_id="c3", subscription="s3"), *send("topic://T11", "m1", "m2"),
        *receive("c", 2), {"do": "wait", "ms": 300}, {"do": "disconnect", "connection": "c"},
        *consumer("d", "topic://T11", 3, client_id="c3", subscription="s3"),
        *receive("d"), rollback("d"), *receive("d"), {"do": "wait", "ms": 300}, end("d", "connection"),
        *consumer("e", "topic://T11", 3, client_id="c3", subscription="s3"), *receive("e", 2),
        {"do": "commit", "session": "e"}, end("e", "connection"),
    ],
    "a message for two queues has one dead letter": [
        *consumer("c", "T7", 0), *consumer("d", "T8", 0), *send("T7,T8", "m1"), process("c"), process("d"), *drain(DLQ),
    ],
    "expired in the queue": [
        *send("SOON.q", "short", ttl_ms=400), *send("SOON.q", "long"), {"do": "wait", "ms": 2500},
        *consumer("c", "SOON.q"), *receive("c", 2), *drain("DEAD.SOON"),
    ],
    "expired, and the strategy does not care for it": [
        *send("SOONER.q", "short", ttl_ms=400), {"do": "wait", "ms": 2500}, *drain("SOONER.q", DLQ),
    ],
    "not persistent, with dead letters that expire": [
        *consumer("c", "LIGHT.q", 0), *send("LIGHT.q", "m1", persistent=False), process("c"), *drain("DEAD.LIGHT"),
    ],
    "a strategy that discards, and a plugin": [
        *consumer("c", "GONE.q", 0), *send("GONE.q", "m1"), process("c"),
        *consumer("d", "NEVER.q", 0), *send("NEVER.q", "m2"), process("d"), *drain(DLQ),
    ],
    "the redelivery plugin": [
        *consumer("c", "AGAIN.q", 0), *send("AGAIN.q", "m1"), process("c", idle_ms=4000), *drain(DLQ),
    ],
    "others overtake where redelivery does not block": [
        *consumer("c", "T9", 2, delay_ms=1000, non_blocking_redelivery=True), *send("T9", "m1", "m2"),
        *receive("c"), rollback("c"), *receive("c"), {"do": "commit", "session": "c"}, *receive("c"), rollback("c"),
        *receive("c"), rollback("c"), *receive("c"), *drain(DLQ),
    ],
    "a dead letter that dies is gone": [
        *consumer("c", "T10", 0), *send("T10", "m1"), process("c"), *consumer("d", DLQ, 0), process("d"), *drain(DLQ),
    ],
}  # fmt: skip
