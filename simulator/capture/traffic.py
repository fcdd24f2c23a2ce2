"""What a log shows of its messages: how many were in which queue, died, came back, or carried what."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from simulator.capture.capture_errors import Broken
from simulator.capture.read import open_log

ANY = "any message"
_COLUMNS = (
    "event", "vhost", "queue", "routed_queues", "routing_keys", "redelivered", "message",
    "expiration", "properties", "headers", "broker_headers", "x_death",
)  # fmt: skip
Where = tuple[str, str, str]
"""A kind of message, a virtual host, and a queue; no queue where none is known."""


class LogTraffic:
    """What logs show. Messages are told apart by their identity in the log.

    Attributes:
        total: how many messages there are.
        unchecked: what a log does not show.
    """

    def __init__(self) -> None:
        self._seen: dict[Where, set[str]] = defaultdict(set)
        self._delivered: set[tuple[str, str, str, str]] = set()
        self.broken = 0

    @property
    def total(self) -> int:
        """How many messages there are."""
        return len(set().union(*(messages for (kind, _, _), messages in self._seen.items() if kind == ANY)))

    @property
    def unchecked(self) -> tuple[str, ...]:
        """What the log does not show, in sentences."""
        said = [
            "messages that died and were dropped, which leave no row in a log: only what comes after a death shows it",
            "whether a message was returned by basic.nack or by basic.reject, which a log does not show",
        ]
        return (*said, f"{self.broken:,} records of the log that cannot be read") if self.broken else tuple(said)

    def messages(self, kind: str, vhost: str, queues: Sequence[str] = ()) -> int:
        """Return how many messages of a kind there are in these queues; in the virtual host without any."""
        found: set[str] = set()
        for (one, host, queue), messages in self._seen.items():
            if one == kind and host == vhost and (not queues or not queue or queue in queues):
                found |= messages
        return len(found)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row of a capture."""
        if row["event"] == "published":
            self._add_published(row)
        elif row["event"] == "delivered":
            self._add_delivered(row)

    def _add_published(self, row: Mapping[str, Any]) -> None:
        queues = row["routed_queues"] or ("",)
        kinds = [ANY]
        kinds += ["expiration"] if row["expiration"] is not None else []
        kinds += ["CC"] if len(row["routing_keys"]) > 1 or '"CC"' in row["headers"] else []
        kinds += ["priority"] if '"priority"' in row["properties"] else []
        if row["x_death"] is not None:
            self._seen["republished", row["vhost"], ""].add(row["message"])
        for kind in kinds:
            for queue in queues:
                self._seen[kind, row["vhost"], queue].add(row["message"])

    def _add_delivered(self, row: Mapping[str, Any]) -> None:
        vhost, queue, message, deaths = row["vhost"], row["queue"] or "", row["message"], row["x_death"]
        self._seen[ANY, vhost, queue].add(message)
        before = (vhost, queue, message, deaths or "")
        returned = row["redelivered"] or before in self._delivered or '"x-delivery-count"' in row["broker_headers"]
        self._delivered.add(before)
        if returned:
            self._seen["return", vhost, queue].add(message)
        if deaths is not None:
            self._seen["dead letter", vhost, queue].add(message)
            for name in _queues_of(deaths):
                self._seen["death", vhost, name].add(message)
                for kind in ("CC", "expiration"):  # a dead letter has what its publish had
                    if message in self._seen[kind, vhost, ""] or _carried(kind, row):
                        self._seen[kind, vhost, name].add(message)


def _carried(kind: str, row: Mapping[str, Any]) -> bool:
    return "original-expiration" in row["x_death"] if kind == "expiration" else len(row["routing_keys"]) > 1


def _queues_of(x_death: str) -> set[str]:
    """Return the queues in an x-death header; none for any other value."""
    deaths = msgspec.json.decode(x_death)
    tables = [each for each in deaths if isinstance(each, dict)] if isinstance(deaths, list) else []
    return {each["queue"] for each in tables if isinstance(each.get("queue"), str)}


def read_traffic(logs: Iterable[str | os.PathLike[str]]) -> LogTraffic:
    """Read what logs of any format show. Raises ``CaptureError`` for one that cannot be read."""
    traffic = LogTraffic()

    def broken(_record: Broken) -> None:
        traffic.broken += 1

    for log in logs:
        for batch in open_log(log, on_broken=broken):
            for row in batch.select(_COLUMNS).to_pylist():
                traffic.add(row)
    return traffic
