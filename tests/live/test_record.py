"""A recording of a real server, and one of the simulator, of the same client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

import simulator
from simulator.capture import open_log
from simulator.definitions import read_definitions
from simulator.record.recorder import ApplicationRecorder
from simulator.record.recording import DEFINITIONS, TRACE, Recording, read_recording
from tests.live.servers import LiveServer, fresh_vhost
from tests.record.random_client import recorded, told

SEEDS = (1, 2, 3, 5, 8, 13)
ATTEMPTS = 3  # a busy server tells of something too late now and then; a real difference shows each time


def seen(recording: Recording) -> dict[str, Any]:
    """What both can see, without times, addresses and the numbers of connections."""
    return {
        "declarations": sorted(
            (each.kind, each.name, each.gone_us is not None, each.times, _plain(each.item), each.replaces)
            for each in recording.declarations
        ),
        "published": {(each.exchange, each.routing_key): _plain(each) for each in recording.published},
        "consumed": {each.queue: _plain(each) for each in recording.consumed},
        "connections": sorted((each.name, each.product, each.version, each.user) for each in recording.connections),
        "refused": recording.refusals,
        "omitted": recording.omitted,
    }


def _different(one: Any, other: Any, at: str = "") -> list[str]:
    """Say where two values differ: pytest shows but the beginning of such large ones."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return [text for key in keys for text in _different(one.get(key), other.get(key), f"{at} {key}")]
    return [] if one == other else [f"{at}: simulated {one!r}, real {other!r}"]


def _plain(given: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(given)
    return {key: value for key, value in found.items() if key not in ("vhost", "connections")}


def recorded_on_both(live_server: LiveServer, vhost: str, folder: Path) -> tuple[Recording, list[str]]:
    """Record the clients on the server, and on the simulator from outside and inside; return what differs."""
    folder.mkdir()
    url = live_server.vhost_url(vhost)
    counts_empty = live_server.release != "3.8"
    real = recorded(live_server.management_url, url, vhost, folder / "real", SEEDS, counts_empty=counts_empty)
    assert not live_server.api("GET", f"vhosts/{vhost}")["tracing"]
    inside: list[ApplicationRecorder] = []
    with simulator.serve(release=live_server.release, port=0, management_port=0) as server:
        server.run(lambda node: inside.append(ApplicationRecorder(node)))
        simulated = recorded(
            server.management_url or "", server.amqp_url, "/", folder / "simulated", SEEDS, counts_empty=counts_empty
        )
        server.run(lambda node: inside[0].stop())
    assert real.release == simulated.release == live_server.release
    uncounted = () if counts_empty else ("gets",)
    different = _different(seen(simulated), seen(real))
    return real, [*different, *_different(told(inside[0].recording, *uncounted), told(real, *uncounted))]


def test_a_recording_of_the_simulator_is_that_of_the_server(live_server: LiveServer, tmp_path: Path) -> None:
    different = [""]
    for attempt in range(ATTEMPTS):
        with fresh_vhost(live_server) as vhost:
            real, different = recorded_on_both(live_server, vhost, tmp_path / str(attempt))
        assert real == read_recording(tmp_path / str(attempt) / "real")
        if not different:
            break
    assert different == []
    for name in ("real", "simulated"):
        folder = tmp_path / str(attempt) / name
        assert read_definitions(folder / DEFINITIONS).document["queues"]
        rows = [row for batch in open_log(folder / TRACE) for row in batch.to_pylist()]
        assert {row["payload"] for row in rows} == {b""}
        assert sum(row["event"] == "published" for row in rows) == sum(each.times for each in real.published)
