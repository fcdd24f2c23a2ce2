"""The workload's publishers and consumers, recorded beside the broker's trace: both logs tell the same, and replay."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pika
import pytest

import simulator
from dlx.deaths import REASONS
from examples.workload.broker import Broker
from examples.workload.recording import collect, play, save, traced_vhost
from examples.workload.virtual_time import VirtualStage
from simulator.capture import open_log
from simulator.capture.merge_captures import merge_captures
from simulator.capture.recorder import Recorder
from simulator.definitions import read_definitions
from tests.recordings.recording import START_US, UNSTEADY, VHOST
from tests.replay.logs import replayed

pytestmark = pytest.mark.slow

COMPARED = ("event", "exchange", "queue", "message", "expiration", "properties", "headers", "broker_headers", "x_death")
SETTLED = ("acked", "rejected", "requeued")

Row = dict[str, Any]


@pytest.fixture(scope="module", params=["3.10", "4.3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``trace.log`` and ``definitions.json`` of the broker, ``recorded.parquet`` of its clients."""
    out = tmp_path_factory.mktemp(f"recorded-{request.param}")
    plain_channel = pika.BlockingConnection.channel
    with simulator.serve(request.param, management_port=0, start_us=START_US) as server:
        assert server.management_url is not None
        broker = Broker(server.amqp_url, server.management_url, VHOST)
        recorder = Recorder(out / "recorded.parquet", vhost=VHOST, now_us=server.clock.now_us)
        with traced_vhost(broker) as trace, recorder, pytest.MonkeyPatch.context() as patched:
            patched.setattr(pika.BlockingConnection, "channel", lambda *args: recorder.wrap(plain_channel(*args)))
            play(broker, 40, 1, VirtualStage)
            recorder.close()
            patched.undo()
            save(out, *collect(broker, trace))
    return out


def rows(path: Path) -> list[Row]:
    return [row for batch in open_log(path) for row in batch.to_pylist()]


def verdicts(log: Path, folder: Path) -> list[Row]:
    definitions = read_definitions(folder / "definitions.json")
    return replayed(log, definitions, "4.3" if definitions.rabbitmq_version.startswith("4.3") else "3.10")


def blind_copies(log: Path) -> set[str]:
    """The messages with BCC keys, which only their publisher knows."""
    published = (row for row in rows(log) if row["event"] == "published")
    return {
        row["message"]
        for row in published
        if len(row["routing_keys"]) > 1 + len(json.loads(row["broker_headers"]).get("CC", []))
    }


def test_the_recording_agrees_and_its_rejects_appear(folder: Path) -> None:
    log = folder / "recorded.parquet"
    blind = blind_copies(log)
    found = verdicts(log, folder)
    events = Counter(row["event"] for row in found)
    assert all(events[event] > 100 for event in ("published", "delivered", *SETTLED))
    assert {row["verdict"] for row in found if row["event"] != "delivered"} == {None}
    unlike = [row for row in found if row["verdict"] not in (None, "agree")]
    assert {row["lineage"].partition("\n")[2] for row in unlike} <= blind
    fields = {difference["field"] for row in unlike for difference in row["differences"]}
    assert "routing_keys" in fields <= {"routing_keys", "x-death[0].routing-keys"}
    assert {hop["reason"] for row in found for hop in row["hops"] or ()} == set(REASONS)


def test_the_recording_tells_what_the_trace_does(folder: Path) -> None:
    """But for deliveries that were on their way to a channel when its consumer closed it."""
    traced, recorded = rows(folder / "trace.log"), rows(folder / "recorded.parquet")
    blind = blind_copies(folder / "recorded.parquet")

    def seen(log: list[Row], event: str) -> Counter[tuple[Any, ...]]:
        found = (row for row in log if row["event"] == event)
        return Counter(
            tuple(str(row[name]) for name in COMPARED)
            + ((*row["routing_keys"],) if event == "published" or row["message"] not in blind else ())
            for row in found
        )

    assert seen(recorded, "published") == seen(traced, "published")
    assert seen(recorded, "delivered") - seen(traced, "delivered") == Counter()
    missing = seen(traced, "delivered") - seen(recorded, "delivered")
    assert {json.loads(row[COMPARED.index("properties")])["app_id"] for row in missing} <= UNSTEADY
    assert sum(missing.values()) < 100


def test_every_delivery_has_an_end(folder: Path) -> None:
    recorded = rows(folder / "recorded.parquet")
    ends = Counter(row["event"] for row in recorded)
    assert ends["delivered"] == sum(ends[event] for event in SETTLED)


def test_a_trace_and_a_recording_together_agree_on_everything(folder: Path) -> None:
    log = folder / "combined.parquet"
    made = merge_captures(folder / "trace.log", [folder / "recorded.parquet"], log)
    found = verdicts(log, folder)
    events = Counter(row["event"] for row in found)
    assert made == len(found) == sum(events.values())
    assert {row["verdict"] for row in found} == {None, "agree"}
    assert events["delivered"] == sum(row["event"] == "delivered" for row in rows(folder / "trace.log"))
    assert all(events[event] for event in SETTLED)


def test_beside_a_trace_of_publishes_deliveries_come_from_the_recording(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "trace.log").read_text(encoding="utf-8").splitlines(keepends=True)
    published = [line for line in lines if '"type":"published"' in line]
    (tmp_path / "publishes.log").write_text("".join(published), encoding="utf-8")
    made = merge_captures(tmp_path / "publishes.log", [folder / "recorded.parquet"], tmp_path / "combined.parquet")
    assert made == len(rows(folder / "recorded.parquet"))
