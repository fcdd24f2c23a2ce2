"""The bodies of a message's deliveries, compared with those of its publishes: no rule changes a body.

A body is a number here, a hash of the payload as far as the log holds it. Messages without ``message_id`` have none:
their payload identifies them, so that another body is another message.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from simulator.events import Event
from simulator.replay.rows.verdict_words import Difference, Unchecked, Verdict

BODY = "body"
"""The column that holds them."""
BODY_SQL = "CASE WHEN message_id IS NOT NULL THEN xxhash64(payload) END"
"""What a captured row makes it, in Spark's SQL. Only bodies of one replay are compared."""
PAYLOAD = "payload"
SEVERAL = "publishes of this message had several bodies, and the log does not show which of them this copy has"


def body_sql(columns: Sequence[str]) -> str:
    """Return what makes the column, of captured rows that have these: a log may come without payloads."""
    return BODY_SQL if {"message_id", PAYLOAD} <= set(columns) else "CAST(NULL AS BIGINT)"


def body_of(message_id: str | None, payload: bytes) -> int | None:
    """Return the same without SQL."""
    if message_id is None:
        return None
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), signed=True)


class Bodies:
    """The bodies that one message has been seen with."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def judged(self, event: str, body: int | None, queue: str, verdict: Verdict | None) -> Verdict | None:
        """Take the next row of the message, and return the verdict on it with what its body says.

        A delivery without a publish before it is the first that shows the body.
        """
        if body is None or event not in (Event.PUBLISHED, Event.DELIVERED):
            return verdict
        if event == Event.PUBLISHED or not self._known:
            self._known.add(body)
        if event == Event.PUBLISHED or verdict is None or verdict.name == "unexplained":
            return verdict
        if body not in self._known:
            found = Difference(PAYLOAD, "that of its publish", "another")
            differences = (*verdict.differences, found)
            return msgspec.structs.replace(verdict, name="differ", alternatives=(), differences=differences)
        if len(self._known) > 1:
            return msgspec.structs.replace(
                verdict, unchecked=(*verdict.unchecked, Unchecked("payload", queue, SEVERAL))
            )
        return verdict
