"""What a dead letter keeps of the message: properties and header types; streams and at-least-once."""

from __future__ import annotations

from tests.vectors.build import (
    expired,
    letters,
    nacked,
    publish,
    queue,
    quorum,
)

ROUTING = "guide Dead Letter Exchanges, section Routing; rabbit_dead_letter.erl publish"
MISSING = "rabbit_amqqueue_process.erl with_dlx; guide Dead Letter Exchanges"
AE = "guide Alternate Exchanges; rabbit_exchange.erl process_alternate"
LENGTH = "guide Queue Length Limit; rabbit_amqqueue_process.erl maybe_deliver_or_enqueue"
HEADERS = "rabbit_exchange_type_headers.erl route; guide Dead Letter Exchanges"
RESULT = {"x-first-death-reason": "rejected"}

CASES = [
    letters(
        "dead-letter-into-stream",
        "A stream as target loses at-most-once dead letters until 3.11; later it keeps expiration.",
        "release notes 3.12.0; rabbitmq-server issues 7846 and 11173",
        queue("q", dlx="", dlrk="st"),
        queue("st", type="stream"),
        publish("", "q", expiration="60000", headers={"a": 1, "CC": ["x"]}),
        nacked("q"),
    ),
    letters(
        "dead-letter-at-least-once",
        "At-least-once writes the same headers.",
        "guide Quorum Queues, section Dead Lettering; rabbit_fifo_dlx_worker.erl forward",
        quorum("q", dlx="", dlrk="dlq", overflow="reject-publish", dead_letter_strategy="at-least-once"),
        queue("dlq"),
        publish("", "q", expiration="60000", headers={"CC": ["x"]}),
        nacked("q"),
    ),
    letters(
        "dead-letter-at-least-once-two-hops",
        "At-least-once, then at-most-once.",
        "guide Quorum Queues, section Dead Lettering; rabbit_fifo_dlx_worker.erl forward",
        quorum("q", dlx="", dlrk="q2", overflow="reject-publish", dead_letter_strategy="at-least-once"),
        queue("q2", dlx="", dlrk="dlq"),
        queue("dlq"),
        publish("", "q", headers={"CC": ["x"]}),
        nacked("q"),
        nacked("q2"),
    ),
    letters(
        "properties-survive",
        "All properties but expiration survive a death.",
        "guide Dead Letter Exchanges, Effects on Messages; rabbit_dead_letter.erl make_msg",
        queue("q", dlx="", dlrk="dlq"),
        queue("dlq"),
        publish(
            "",
            "q",
            headers={"a": 1},
            content_type="application/json",
            content_encoding="gzip",
            delivery_mode=2,
            priority=7,
            correlation_id="c",
            reply_to="r",
            expiration="60000",
            message_id="m-1",
            timestamp=1_700_000_000,
            type="t",
            user_id="guest",
            app_id="app",
            cluster_id="cl",
        ),
        nacked("q"),
    ),
    letters(
        "properties-survive-quorum",
        "The same through a quorum queue.",
        "rabbit_quorum_queue.erl dead_letter_publish",
        quorum("q", dlx="", dlrk="dlq"),
        queue("dlq"),
        publish("", "q", delivery_mode=1, priority=3, message_id="m-1", timestamp=1_700_000_000, type="t"),
        nacked("q"),
    ),
    letters(
        "properties-header-types-survive",
        "Header values of all types survive a death.",
        "mc_amqpl.erl; rabbit_dead_letter.erl make_msg",
        queue("q", dlx="", dlrk="dlq"),
        queue("dlq"),
        publish(
            "",
            "q",
            headers={
                "int": 5,
                "long": 2**40,
                "bool": True,
                "double": 1.5,
                "void": None,
                "bytes": b"\x00\xff",
                "list": ["a", 1, [True], {"b": 2}],
                "table": {"z": "1", "a": {"n": None}},
                "empty-list": [],
                "empty-table": {},
                "empty": "",
            },
        ),
        nacked("q"),
    ),
    letters(
        "expired-out-of-dead-letter-queue",
        "A message that expired by its property does not expire again in the next queue.",
        "guide Dead Letter Exchanges: the expiration property is removed",
        queue("q", dlx="", dlrk="dlq"),
        queue("dlq", dlx="", dlrk="dlq2"),
        queue("dlq2"),
        publish("", "q", expiration="60"),
        expired("q"),
    ),
]
