"""Small logs and definitions for tests, in the form that rabbitmq_tracing writes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from simulator.capture import open_log
from simulator.definitions import Definitions, parse_definitions, read_definitions
from simulator.replay import replay_table

EXAMPLES = Path(__file__).parents[2] / "examples"
Record = dict[str, Any]
START = datetime(2026, 11, 21, 10, tzinfo=UTC)


def example_records(release: str) -> list[Record]:
    """The records of a captured example, in file order."""
    with gzip.open(EXAMPLES / f"captured-{release}" / "trace.log.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def example_definitions(release: str, **arguments: Any) -> Definitions:
    """The definitions of a captured example; ``orders_work__x_max_length=5`` sets an argument of ``orders.work``."""
    path = EXAMPLES / f"captured-{release}" / "definitions.json"
    if not arguments:
        return read_definitions(path)
    document = json.loads(path.read_bytes())
    for change, value in arguments.items():
        queue, argument = change.replace("_", "-").split("--")
        (found,) = [each for each in document["queues"] if each["name"].replace(".", "-") == queue]
        found["arguments"][argument] = value
    return parse_definitions(json.dumps(document).encode(), "definitions.json")


def write_log(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def replayed(path: Path, definitions: Definitions, rules: str = "4.3") -> list[dict[str, Any]]:
    """The replayed rows in the order of the log."""
    table: pa.Table = replay_table(open_log(path), definitions, rules)
    return sorted(table.to_pylist(), key=lambda row: (row["file"], row["line"]))


def deliveries(path: Path, definitions: Definitions, rules: str = "4.3") -> list[dict[str, Any]]:
    return [row for row in replayed(path, definitions, rules) if row["event"] == "delivered"]


class Log:
    """Writes a log record by record; each is one second after the one before.

    A death is recorded with the second before the delivery that first shows it.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._died: dict[tuple[Any, ...], int] = {}

    def publish(self, exchange: str, key: str, *, routed: list[str] | None = None, **properties: Any) -> Log:
        """``routed``: the queues it came into; those that its keys name, unless it says so."""
        keys = [key, *properties.get("headers", {}).get("CC", []), *properties.pop("bcc", [])]
        return self._add("published", exchange, "none", keys, properties, keys if routed is None else routed)

    def deliver(self, queue: str, exchange: str, keys: list[str], **properties: Any) -> Log:
        return self._add("received", exchange, queue, keys, properties)

    def _add(
        self,
        kind: str,
        exchange: str,
        queue: str,
        keys: list[str],
        properties: dict[str, Any],
        routed: list[str] | str = "none",
    ) -> Log:
        properties.setdefault("message_id", "m1")
        if properties["message_id"] is None:
            del properties["message_id"]
        at = len(self.records)
        self._tell_times(properties, int(START.timestamp()) + at - 1)
        self.records.append(
            {
                "timestamp": (START + timedelta(seconds=at)).isoformat(timespec="milliseconds"),
                "type": kind,
                "node": "rabbit@test",
                "connection": "127.0.0.1:1 -> 127.0.0.1:5672",
                "vhost": "/",
                "user": "guest",
                "channel": 1,
                "exchange": exchange,
                "queue": queue,
                "routed_queues": routed,
                "routing_keys": keys,
                "properties": properties,
                "payload": base64.b64encode(b"body").decode(),
            }
        )
        return self

    def _tell_times(self, properties: dict[str, Any], time_s: int) -> None:
        headers = properties.get("headers", {})
        if isinstance(headers.get("x-death"), list):
            kinds = [(properties.get("message_id"), entry["queue"], entry["reason"]) for entry in headers["x-death"]]
            times = [self._died.setdefault(kind, time_s) for kind in kinds]
            timed = [{"time": time, **entry} for time, entry in zip(times, headers["x-death"], strict=True)]
            properties["headers"] = {**headers, "x-death": timed}

    def replay(self, tmp_path: Path, definitions: Definitions, rules: str = "4.3") -> list[dict[str, Any]]:
        """The verdicts on the deliveries, in order."""
        return deliveries(write_log(tmp_path / "trace.log", self.records), definitions, rules)


def death(queue: str, reason: str, *, count: int = 1, exchange: str = "", keys: list[str]) -> Record:
    """One entry of ``x-death`` as a JSON log shows it, but its time."""
    return {
        "count": count,
        "reason": reason,
        "queue": queue,
        "exchange": exchange,
        "routing-keys": keys,
    }


def died(*deaths: Record, first: Record | None = None) -> Record:
    """The headers that 4.x delivers with these deaths, the newest first."""
    earliest, latest = first or deaths[-1], deaths[0]
    headers: Record = {"x-death": list(deaths)}
    for name, entry in (("first", earliest), ("last", latest)):
        for field in ("reason", "queue", "exchange"):
            headers[f"x-{name}-death-{field}"] = entry[field]
    return headers


def definitions_of(
    queues: dict[str, dict[str, Any]],
    exchanges: dict[str, str] | None = None,
    bindings: list[tuple[str, str, str]] | None = None,
    policies: list[dict[str, Any]] | None = None,
) -> Definitions:
    """Definitions of vhost ``/``: queues with arguments, exchanges with types, (source, queue, key) bindings."""
    document = {
        "rabbitmq_version": "4.3.6",
        "vhosts": [{"name": "/"}],
        "queues": [
            {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
            for name, arguments in queues.items()
        ],
        "exchanges": [
            {"name": name, "vhost": "/", "type": kind, "durable": True, "auto_delete": False, "arguments": {}}
            for name, kind in (exchanges or {}).items()
        ],
        "bindings": [
            {
                "source": source,
                "vhost": "/",
                "destination": queue,
                "destination_type": "queue",
                "routing_key": key,
                "arguments": {},
            }
            for source, queue, key in (bindings or [])
        ],
        "policies": policies or [],
    }
    return parse_definitions(json.dumps(document).encode(), "definitions.json")


def altered(records: list[Record], index: int, change: Callable[[Record], None]) -> list[Record]:
    """A copy of the records with one of them changed."""
    copied = [*records]
    copied[index] = json.loads(json.dumps(records[index]))
    change(copied[index])
    return copied
