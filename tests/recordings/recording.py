"""The workload of ``examples/`` on the simulator, in virtual time, recorded in both formats of the tracing plugin."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import simulator
from examples.workload.broker import Broker
from examples.workload.recording import collect, play, save, traced_vhost
from examples.workload.virtual_time import VirtualStage
from simulator.definitions import Definitions, read_definitions
from tests.replay.logs import Record

VHOST = "dlx-workload"
UNSTEADY = {"emails", "carts"}
"""Scenarios that close channels: what else a channel holds then, and has returned, is a matter of timing."""
START_US = 1_790_000_000_000_000


@dataclass(frozen=True)
class Recording:
    """What a simulated release recorded of the workload."""

    release: str
    folder: Path

    @property
    def records(self) -> list[Record]:
        """The records of the JSON log, in file order."""
        return [json.loads(line) for line in self.log("json").read_text(encoding="utf-8").splitlines()]

    @property
    def definitions(self) -> Definitions:
        return read_definitions(self.folder / "definitions.json")

    def log(self, form: str) -> Path:
        """The log in the format ``json`` or ``text``."""
        return self.folder / ("trace.log" if form == "json" else "text.log")


def record(release: str, folder: Path, messages: int = 75) -> Recording:
    """Play the workload, with the seed of the captured examples."""
    with simulator.serve(release, management_port=0, start_us=START_US) as server:
        assert server.management_url is not None
        broker = Broker(server.amqp_url, server.management_url, VHOST)
        with traced_vhost(broker) as trace:
            call = broker.management.call
            call("PUT", "traces", VHOST, "text", body={"format": "text", "pattern": "#"})
            play(broker, messages, 1, VirtualStage)
            call("DELETE", "traces", VHOST, "text")
            save(folder, *collect(broker, trace))
            (folder / "text.log").write_bytes(call("GET", "trace-files", "text.log"))
    return Recording(release, folder)


def fates(records: Iterable[Record]) -> dict[tuple[str, str], set[tuple[Any, ...]]]:
    """All that was seen of each message but how often: where it was, where it was sent, its deaths.

    Of the unsteady scenarios, what was seen of all their messages.
    """
    found = defaultdict(set)
    for row in records:
        properties = row["properties"]
        deaths = (properties.get("headers") or {}).get("x-death", [])
        history = tuple((d["queue"], d["reason"], d["count"], d["exchange"], *d["routing-keys"]) for d in deaths)
        scenario, message = properties["app_id"], properties.get("message_id") or row["payload"]
        seen = row["type"], row["queue"], row["exchange"], tuple(row["routing_keys"]), history
        found[scenario, "" if scenario in UNSTEADY else message].add(seen)
    return dict(found)


def forms(records: Iterable[Record]) -> dict[str, set[tuple[str, ...]]]:
    """The types that stand at each place of the records, and the orders of the keys of each object."""
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)

    def look(place: str, value: Any) -> None:
        match value:
            case dict():
                found[place].add(tuple(value))
                for name, item in value.items():
                    look(f"{place}.{name}", item)
            case list():
                found[place].add(("list",))
                for item in value:
                    look(f"{place}[]", item)
            case _:
                found[place].add((type(value).__name__,))

    for row in records:
        look(row["type"], row)
    return dict(found)
