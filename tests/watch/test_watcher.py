"""A watcher comes to what a replay of the whole log says, however the log grows."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulator.capture import SCHEMA, open_log
from simulator.definitions import parse_definitions, read_definitions
from simulator.replay.watch.watcher import WatchOptions
from tests.replay.logs import Log, definitions_of, write_log
from tests.watch.logs import CAPTURED, ROOT, log_of, replayed, said, watcher, wish_for


def fed(log: bytes, path: Path, slices: int, seed: int) -> list[bytes]:
    """Return the log in random slices, which cut lines anywhere."""
    cuts = sorted(random.Random(seed).sample(range(1, len(log)), slices - 1))
    return [log[start:end] for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True)]


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("forget_after_s", [0.05, 3600])
def test_random_slices_come_to_what_a_replay_says(name: str, forget_after_s: float, tmp_path: Path) -> None:
    """Also where messages are forgotten at once, come back, and rows come late."""
    log, whole, growing = log_of(name), tmp_path / "whole" / "trace.log", tmp_path / "trace.log"
    whole.parent.mkdir()
    whole.write_bytes(log)
    wish = wish_for(name, settle_s=2, forget_after_s=forget_after_s)
    each, state = watcher(growing, wish, tmp_path / "state")
    with state:
        for now, part in enumerate(fed(log, growing, 25, 7)):
            with growing.open("ab") as stream:
                stream.write(part)
            while each.step(now).more:
                pass
        while each.step(100).more:
            pass
        status = each.status(100)
    expected = replayed(whole, wish)
    assert said(tmp_path / "state") == expected
    assert status.agree + status.ambiguous + status.differ + status.unexplained == len(expected)
    if forget_after_s < 1:
        assert status.open_messages < 0.9 * len(expected)


def test_the_flag_redelivered_is_held_against_the_log(tmp_path: Path) -> None:
    """As in a replay: two first deliveries of one copy differ."""
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"])
    (batch,) = open_log(write_log(tmp_path / "trace.log", log.records))
    flags = pa.array([None, False, False], pa.bool_())
    batch = batch.set_column(batch.schema.get_field_index("redelivered"), "redelivered", flags)
    capture = tmp_path / "captured.parquet"
    pq.write_table(pa.Table.from_batches([batch], schema=SCHEMA), capture)
    each, state = watcher(
        capture, WatchOptions(definitions=definitions_of({"work": {}}), rules="4.3"), tmp_path / "state"
    )
    with state:
        while each.step(100, settled=True).more:
            pass
        assert (each.status(100).agree, each.status(100).differ) == (1, 1)


@pytest.mark.parametrize("forget_after_s", [0.3, 3600])
def test_rows_that_stand_twice_count_once(forget_after_s: float, tmp_path: Path) -> None:
    """Part of the log comes a second time, as a shipper sends it that had no answer."""
    lines = log_of("4.3").splitlines(keepends=True)
    wish, growing = wish_for("4.3", forget_after_s=forget_after_s), tmp_path / "trace.log"
    growing.write_bytes(b"".join(lines))
    expected = replayed(growing, wish)
    twice = len(lines) // 2
    given = [*lines[:twice], *lines[:twice], *lines[twice:]]
    growing.write_bytes(b"")
    for begin in range(0, len(given), 397):
        with growing.open("ab") as stream:
            stream.write(b"".join(given[begin : begin + 397]))
        each, state = watcher(growing, wish, tmp_path / "state")
        with state:
            while each.step(begin / 397).more:
                pass
            while each.step(100_000, settled=True).more:
                pass
            status = each.status(100_000)
    assert (status.rows, status.twice) == (len(given), twice)
    assert status.agree + status.ambiguous + status.differ + status.unexplained == len(expected)
    assert (status.differ, status.unexplained) == (0, 0)


def test_rows_of_another_virtual_host_are_left_out_and_counted(tmp_path: Path) -> None:
    """In each step, also one that has no others, and by a watch that goes on from its state."""
    log, growing = Log(), tmp_path / "trace.log"
    for number in range(3):
        log.publish("", "work", message_id=f"{number}").deliver("work", "", ["work"], message_id=f"{number}")
    others = [{**each, "vhost": "b"} for each in log.records]
    document = json.loads(definitions_of({"work": {}}).to_json())
    document["vhosts"] = [{"name": "/"}]
    for kind in ("queues", "exchanges", "bindings"):
        document[kind] = [{**each, "vhost": "/"} for each in document.get(kind, [])]
    definitions = parse_definitions(json.dumps(document).encode(), "definitions.json")
    for added in ([log.records[0]], others, log.records[1:], others[:1]):
        write_log(tmp_path / "added.log", added)
        with growing.open("ab") as stream:
            stream.write((tmp_path / "added.log").read_bytes())
        each, state = watcher(growing, WatchOptions(definitions=definitions, rules="4.3"), tmp_path / "state")
        with state:
            while each.step(100, settled=True).more:
                pass
            status = each.status(100)
    assert (status.rows, status.agree, status.open_messages) == (13, 3, 3)
    assert (status.unchecked, status.left_out) == (0, {"b": 7})


@pytest.mark.slow
def test_a_watch_notices_that_rows_are_late_and_still_knows_when_it_goes_on(tmp_path: Path) -> None:
    busy = ROOT / "tests" / "replay" / "late"
    log, growing = gzip.decompress((busy / "trace.log.gz").read_bytes()), tmp_path / "trace.log"
    lines = log.splitlines(keepends=True)
    wish = WatchOptions(definitions=read_definitions(busy / "definitions.json"), rules="4.3")
    size = len(lines) // 12
    for number, begin in enumerate(range(0, len(lines), size)):
        each, state = watcher(growing, wish, tmp_path / "state")
        with state:
            with growing.open("ab") as stream:
                stream.writelines(lines[begin : begin + size])
            while each.step(10 * number).more:
                pass
            while each.step(10 * number + 5).more:
                pass
            status = each.status(10 * number + 5)
    assert status.deliveries > 4_000
    assert (status.agree, status.differ) == (status.deliveries, 0)
