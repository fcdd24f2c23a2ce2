"""How several deaths of one message add up: merging, order, first and last death."""

from __future__ import annotations

from tests.vectors.build import (
    Part,
    bind,
    exchange,
    expired,
    fan,
    letters,
    maxlen,
    nacked,
    publish,
    queue,
)

ENTRY = "rabbit_dead_letter.erl make_msg (until 3.12); mc_amqpl.erl death_table (from 3.13)"
FIELDS = "rabbit_dead_letter.erl update_x_death_header (until 3.12); mc_amqpl.erl death_table (from 3.13)"
MERGE = "rabbit_dead_letter.erl update_x_death_header (until 3.12); mc.erl record_death (from 3.13)"
ORDER = "rabbit_dead_letter.erl group_by_queue_and_reason (until 3.12); mc.erl record_death (from 3.13.3)"
EXPIRATION = "rabbit_dead_letter.erl per_msg_ttl_header (until 3.12); mc.erl record_death (from 3.13)"
HEADERS = "rabbit_misc.erl set_table_value (until 3.12); mc_amqpl.erl protocol_state (from 3.13)"
GUIDE = "RabbitMQ guide Dead Letter Exchanges, section Effects on Messages"


def chain(*names: str) -> list[Part]:
    """Queues that each dead-letter into the next through the default exchange."""
    following = [*names[1:], None]
    return [queue(n, dlx=None if to is None else "", dlrk=to) for n, to in zip(names, following, strict=True)]


CASES = [
    letters(
        "merge-two-entries",
        "A death in another queue is a new entry at the front.",
        MERGE,
        chain("q1", "q2", "q3"),
        publish("", "q1"),
        nacked("q1"),
        nacked("q2"),
    ),
    letters(
        "order-of-three-deaths",
        "Until 3.12 the entries behind the first are reversed at each death; from 3.13.3 the newest is first.",
        ORDER,
        chain("q1", "q2", "q3", "dlq"),
        publish("", "q1"),
        nacked("q1"),
        nacked("q2"),
        nacked("q3"),
    ),
    letters(
        "order-of-four-deaths",
        "Four hops give q4,q2,q1,q3 until 3.12 and q4,q3,q2,q1 from 3.13.3.",
        ORDER,
        chain("q1", "q2", "q3", "q4", "dlq"),
        publish("", "q1"),
        nacked("q1"),
        nacked("q2"),
        nacked("q3"),
        nacked("q4"),
    ),
    letters(
        "order-of-five-deaths",
        "The reversal until 3.12 happens at every further death.",
        ORDER,
        chain("q1", "q2", "q3", "q4", "q5", "dlq"),
        publish("", "q1"),
        *(nacked(f"q{n}") for n in range(1, 6)),
    ),
    letters(
        "merge-second-lap",
        "The second death for the same queue and reason adds 1 to count and moves the entry to the front.",
        MERGE,
        queue("work", dlx="", dlrk="wait"),
        queue("wait", dlx="", dlrk="work"),
        publish("", "work"),
        nacked("work"),
        nacked("wait"),
        nacked("work"),
    ),
    letters(
        "merge-retry-loop-three-laps",
        "A retry loop of rejection and expiry counts each lap in two entries.",
        MERGE,
        queue("work", dlx="", dlrk="wait"),
        queue("wait", dlx="", dlrk="work", ttl=150),
        publish("", "work"),
        nacked("work"),
        expired("wait"),
        nacked("work"),
        expired("wait"),
        nacked("work"),
        expired("wait"),
    ),
    letters(
        "merge-retry-loop-stopped-in-wait",
        "The rejection entry is at the front while the message waits for its second lap.",
        MERGE,
        queue("work", dlx="", dlrk="wait"),
        queue("wait", dlx="", dlrk="work", ttl=400),
        publish("", "work"),
        nacked("work"),
        expired("wait"),
        nacked("work"),
    ),
    letters(
        "merge-two-reasons-in-one-queue",
        "Two reasons in one queue are two entries.",
        MERGE,
        queue("q", dlx="", dlrk="back", length=1),
        queue("back", dlx="", dlrk="q"),
        publish("", "q"),
        maxlen("q"),
        nacked("back"),
        nacked("q"),
    ),
    letters(
        "merge-keeps-first-exchange-and-keys",
        "A merged entry keeps exchange and routing-keys of its first death, though the message came another way.",
        MERGE,
        exchange("in", "direct"),
        exchange("again", "direct"),
        queue("work", dlx="", dlrk="wait"),
        queue("wait", dlx="again", dlrk="retry"),
        bind("in", "work", "fresh"),
        bind("again", "work", "retry"),
        publish("in", "fresh"),
        nacked("work"),
        nacked("wait"),
        nacked("work"),
    ),
    letters(
        "merge-three-queue-ring-two-laps",
        "Entries of a ring of three queues after two laps.",
        ORDER,
        queue("a", dlx="", dlrk="b"),
        queue("b", dlx="", dlrk="c"),
        queue("c", dlx="", dlrk="a"),
        publish("", "a"),
        *(nacked(n) for n in "abcabc"),
    ),
    letters(
        "merge-in-the-middle",
        "A merge with an entry that is neither first nor last.",
        ORDER,
        queue("a", dlx="", dlrk="b"),
        queue("b", dlx="", dlrk="c"),
        queue("c", dlx="", dlrk="d"),
        queue("d", dlx="", dlrk="b"),
        publish("", "a"),
        *(nacked(n) for n in "abcdbc"),
    ),
    letters(
        "first-and-last-death",
        "x-first-death-* stay as set by the first death; x-last-death-* (from 3.13) follow each death.",
        "mc.erl record_death; guide Dead Letter Exchanges",
        exchange("in", "direct"),
        *fan("dlx", "q2"),
        queue("q1", dlx="dlx"),
        queue("q2", dlx="", dlrk="q3", length=1),
        queue("q3"),
        bind("in", "q1", "k"),
        publish("in", "k"),
        nacked("q1"),
        maxlen("q2"),
    ),
    letters(
        "first-death-exchange-may-be-empty",
        "For the default exchange x-first-death-exchange is there and empty.",
        "mc.erl record_death; rabbit_dead_letter.erl update_x_death_header",
        chain("q", "dlq"),
        publish("", "q"),
        nacked("q"),
    ),
    letters(
        "client-first-and-last-death-headers",
        "Until 3.12 a client's x-last-death-queue passes and x-first-death-* are overwritten; from 3.13 both are.",
        "rabbit_dead_letter.erl update_x_death_header (until 3.12); mc_amqpl.erl protocol_state (from 3.13)",
        chain("q", "dlq"),
        publish(
            "",
            "q",
            headers={"x-first-death-queue": "mine", "x-last-death-queue": "mine", "x-delivery-count": 7},
        ),
        nacked("q"),
    ),
    letters(
        "client-first-death-headers-without-death",
        "A client's death headers are plain data until the first death.",
        "mc_amqpl.erl protocol_state",
        queue("q"),
        publish("", "q", headers={"x-first-death-queue": "mine", "x-last-death-queue": "mine"}),
    ),
    letters(
        "client-header-collision-sorted",
        "Broker headers and client headers are one sorted table.",
        HEADERS,
        chain("q", "dlq"),
        publish(
            "",
            "q",
            headers={"x-first-death-queue": "a", "Z": 1, "a": 2, "x-foo": 3, "x-last-death-reason": 4},
        ),
        nacked("q"),
    ),
]
