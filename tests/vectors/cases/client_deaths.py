"""x-death that a client publishes: republished messages and made-up headers."""

from __future__ import annotations

from typing import Any

from tests.vectors.amqp import Field
from tests.vectors.build import (
    Case,
    Part,
    expired,
    letters,
    maxlen,
    nacked,
    publish,
    queue,
    republish,
)

TRUST = (
    "rabbit_dead_letter.erl update_x_death_header (until 3.12); release notes 4.0.1: x-death of clients not interpreted"
)
RESET = "rabbit_dead_letter.erl update_x_death_header, group_by_queue_and_reason (until 3.12); release notes 4.0.1"


def entry(**fields: Any) -> dict[str, Any]:
    """An x-death entry; ``_`` in names stands for ``-``."""
    return {name.replace("_", "-"): value for name, value in fields.items()}


def whole(queue: str, reason: str, count: int, keys: list[str] | None = None) -> dict[str, Any]:
    """A well-formed entry as a server writes it."""
    return entry(
        count=Field("l", count),
        reason=reason,
        queue=queue,
        time=Field("T", 1_700_000_000),
        exchange="",
        routing_keys=keys or [queue],
    )


def claims(name: str, rule: str, value: Any, *, headers: dict[str, Any] | None = None) -> Case:
    """A persistent message with this x-death dies once in ``q``."""
    given = {"x-death": value} | (headers or {})
    return letters(name, rule, RESET, *THERE, publish("", "q", headers=given, delivery_mode=2), nacked("q"))


THERE: list[Part] = [queue("q", dlx="", dlrk="dlq"), queue("dlq")]
PAIR = [queue("a", dlx="", dlrk="dlq", length=1), queue("dlq")]

CASES = [
    letters(
        "republish-continues-history",
        "Until 3.12 a republished message's count goes on; from 4.0 it starts again at 1.",
        TRUST,
        *THERE,
        publish("", "q"),
        nacked("q"),
        republish("dlq", "", "q"),
        nacked("q"),
    ),
    letters(
        "republish-twice",
        "Until 3.12 counts go 1, 2, 3; from 4.0 the count is 1 every time.",
        TRUST,
        *THERE,
        publish("", "q"),
        nacked("q"),
        republish("dlq", "", "q"),
        nacked("q"),
        republish("dlq", "", "q"),
        nacked("q"),
    ),
    letters(
        "republish-without-death",
        "A republished copy carries the old x-death as plain data until it dies again.",
        TRUST,
        *THERE,
        publish("", "q"),
        nacked("q"),
        republish("dlq", "", "q"),
    ),
    letters(
        "republish-without-death-headers",
        "Without the headers a republished message has no history anywhere.",
        TRUST,
        *THERE,
        publish("", "q"),
        nacked("q"),
        republish(
            "dlq",
            "",
            "q",
            without=["x-death"]
            + [f"x-{which}-death-{what}" for which in ("first", "last") for what in ("reason", "queue", "exchange")],
        ),
        nacked("q"),
    ),
    letters(
        "republish-other-reason",
        "Until 3.12 maxlen, republish, rejected gives two entries and the old first death; from 4.0 one and a new one.",
        TRUST,
        *PAIR,
        publish("", "a"),
        maxlen("a"),
        republish("dlq", "", "a"),
        nacked("a"),
    ),
    letters(
        "republish-elsewhere",
        "A republished message that dies in another queue.",
        TRUST,
        *THERE,
        queue("other", dlx="", dlrk="dlq2"),
        queue("dlq2"),
        publish("", "q"),
        nacked("q"),
        republish("dlq", "", "other"),
        nacked("other"),
    ),
    letters(
        "republish-with-expiration",
        "A republished message may have a new expiration, recorded in the new entry.",
        TRUST,
        *THERE,
        publish("", "q", expiration="60000"),
        nacked("q"),
        republish("dlq", "", "q"),
        nacked("q"),
    ),
    claims(
        "claim-well-formed",
        "Until 3.12 a well-formed claimed history is continued.",
        [whole("q", "rejected", 4)],
    ),
    claims(
        "claim-other-queue",
        "Until 3.12 a claimed entry of another queue stays behind the new one, and no first death is set.",
        [whole("elsewhere", "expired", 2)],
    ),
    claims(
        "claim-two-others",
        "Until 3.12 two or more claimed entries are reversed behind the new one.",
        [whole("x1", "expired", 2), whole("x2", "rejected", 1)],
    ),
    claims(
        "claim-match-in-second-place",
        "Until 3.12 a matching entry in second place is counted up and moved to the front.",
        [whole("x1", "expired", 2), whole("q", "rejected", 7), whole("x2", "maxlen", 1)],
    ),
    claims(
        "claim-duplicate-with-count",
        "Until 3.12 of entries with the same queue and reason the first is kept.",
        [whole("q", "rejected", 3), whole("q", "rejected", 9)],
    ),
    claims(
        "claim-duplicates-without-count",
        "Until 3.12 duplicates without count collapse into one whose count is their number, then plus 1.",
        [entry(queue="q", reason="rejected"), entry(queue="q", reason="rejected")],
    ),
    claims(
        "claim-single-without-count",
        "Until 3.12 one matching entry without count.",
        [entry(queue="q", reason="rejected")],
    ),
    claims(
        "claim-count-only",
        "Until 3.12 a matching entry with count 99 becomes 100 and has only the fields the client gave.",
        [entry(queue="q", reason="rejected", count=99)],
    ),
    claims(
        "claim-extra-fields",
        "Until 3.12 fields a server does not know stay in a matching entry.",
        [whole("q", "rejected", 1) | {"zz": "mine", "aa": 5}],
    ),
    claims(
        "claim-string",
        "Until 3.12 an x-death that is no array is reset to one entry, and no first death is set.",
        "made up",
    ),
    claims("claim-integer", "Until 3.12 an integer as x-death is reset.", 5),
    claims("claim-table", "Until 3.12 a table as x-death is reset.", {"queue": "q", "reason": "rejected"}),
    claims("claim-void", "Until 3.12 a void x-death is reset.", None),
    claims(
        "claim-empty-array",
        "Until 3.12 an empty array gets one entry with sorted fields, and no first death is set.",
        [],
    ),
    claims(
        "claim-table-without-queue",
        "Until 3.12 a table without queue and reason is kept behind the new entry.",
        [entry(note="mine")],
    ),
    claims(
        "claim-array-of-strings",
        "Until 3.12 an array with an element that is no table crashes the queue; a persistent message survives that.",
        ["oops"],
    ),
    claims(
        "claim-count-is-a-string",
        "Until 3.12 a matching entry whose count is a string crashes the queue.",
        [entry(queue="q", reason="rejected", count="many")],
    ),
    claims(
        "claim-with-first-death-headers",
        "Until 3.12 claimed first-death headers stay where there is an x-death; from 4.0 they are overwritten.",
        [whole("x", "expired", 1)],
        headers={
            "x-first-death-queue": "x",
            "x-first-death-reason": "expired",
            "x-first-death-exchange": "ex",
        },
    ),
    letters(
        "claim-in-transient-message-crash",
        "Until 3.12 a transient message is lost when a malformed x-death crashes its queue.",
        RESET,
        *THERE,
        publish("", "q", headers={"x-death": ["oops"]}),
        nacked("q"),
    ),
    letters(
        "claim-second-death",
        "Until 3.12 a claimed history goes through two more deaths; from 4.0 only those two are there.",
        TRUST,
        queue("q1", dlx="", dlrk="q2"),
        queue("q2", dlx="", dlrk="q3"),
        queue("q3"),
        publish("", "q1", headers={"x-death": [whole("x1", "expired", 2), whole("x2", "rejected", 1)]}),
        nacked("q1"),
        nacked("q2"),
    ),
    letters(
        "claim-provokes-cycle",
        "Until 3.12 a claimed expiry in the target queue makes a cycle; from 4.0 claims do not count.",
        "rabbit_dead_letter.erl detect_cycles (until 3.12); mc.erl is_death_cycle (from 4.0)",
        queue("q", dlx="", dlrk="dlq", ttl=60),
        queue("dlq"),
        publish("", "q", headers={"x-death": [whole("dlq", "expired", 1)]}),
        expired("q"),
    ),
    letters(
        "claim-prevents-cycle",
        "Until 3.12 a claimed rejection exempts from a cycle; from 4.0 claims do not count.",
        "rabbit_dead_letter.erl detect_cycles (until 3.12); mc.erl is_death_cycle (from 4.0)",
        queue("a", dlx="", dlrk="b", length=1),
        queue("b", dlx="", dlrk="a", length=1),
        publish("", "a", headers={"x-death": [whole("b", "rejected", 1)]}),
        maxlen("a"),
        maxlen("b"),
    ),
    letters(
        "claim-table-without-queue-in-cycle-check",
        "Until 3.12 a claimed table without queue is part of the cycle check.",
        "rabbit_dead_letter.erl is_cycle (until 3.12); mc.erl is_death_cycle (from 4.0)",
        queue("a", dlx="", dlrk="b", length=1),
        queue("b", dlx="", dlrk="a", length=1),
        publish("", "a", headers={"x-death": [entry(note="mine")]}),
        maxlen("a"),
        maxlen("b"),
    ),
]
