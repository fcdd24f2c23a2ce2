"""Drawn rows of a log: consistent ones replay without a difference, and others do not make a replay fall over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dlx
from dlx.releases import RELEASES
from simulator.capture import SCHEMA, Observation, open_log, to_batches, write_capture
from simulator.definitions import Definitions
from simulator.replay import VERDICTS, replay_table
from simulator.testing.strategies import definitions_document, log_rows, topologies
from simulator.testing.strategies.history import LADDER
from tests.testing.reaching import reached

Case = tuple[str, dlx.Topology, list[Observation]]
SLOW = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def replayed(rows: list[Observation], topology: dlx.Topology, name: str) -> list[dict[str, Any]]:
    definitions = Definitions(definitions_document(topology, name), "drawn")
    found: list[dict[str, Any]] = replay_table(to_batches(rows), definitions, name).to_pylist()
    return [row for row in found if row["event"] == "delivered"]


CASES = st.sampled_from(RELEASES).flatmap(
    lambda name: topologies(release=name, cyclic=False).flatmap(
        lambda topology: st.tuples(st.just(name), st.just(topology), log_rows(topology=topology, release=name))
    )
)


@SLOW
@given(CASES)
def test_consistent_rows_replay_without_a_difference(case: Case) -> None:
    name, topology, rows = case
    if not rows:
        return
    for row in replayed(rows, topology, name):
        assert row["verdict"] in ("agree", "ambiguous"), row


@SLOW
@given(st.sampled_from(RELEASES).flatmap(lambda name: st.tuples(st.just(name), log_rows(release=name))))
def test_a_retry_ladder_replays_without_a_difference(case: tuple[str, list[Observation]]) -> None:
    name, rows = case
    verdicts = {row["verdict"] for row in replayed(rows, LADDER, name)} if rows else set()
    assert verdicts <= {"agree", "ambiguous"}


@SLOW
@given(st.sampled_from(RELEASES), log_rows(consistent=False))
def test_no_rows_make_a_replay_fall_over(name: str, rows: list[Observation]) -> None:
    if rows:
        assert {row["verdict"] for row in replayed(rows, LADDER, name)} <= set(VERDICTS)


@settings(max_examples=20)
@given((log_rows(consistent=False) | log_rows()).filter(bool))
def test_rows_are_a_capture(tmp_path_factory: pytest.TempPathFactory, rows: list[Observation]) -> None:
    path: Path = tmp_path_factory.mktemp("rows") / "log.parquet"
    with write_capture(path) as writer:
        for batch in to_batches(rows):
            writer.write(batch)
    read = [row for batch in open_log(path) for row in batch.to_pylist()]
    assert read == [{name: getattr(row, name) for name in SCHEMA.names} for row in rows]


def test_rows_are_drawn_without_what_reads_and_writes_captures() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None;"
        "from hypothesis import find; from simulator.testing.strategies import log_rows;"
        "print(find(log_rows(), bool)[0].event, find(log_rows(consistent=False), bool)[0].event)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "published published\n"


REACHED = {
    "a delivery of a dead letter": lambda row: row.x_death is not None and row.queue == "orders",
    "CC": lambda row: "CC" in row.broker_headers,
    "an unroutable publish": lambda row: row.event == "published" and row.routing_keys == ["nowhere"],
}


@pytest.mark.parametrize("what", REACHED)
def test_what_matters_is_reached(what: str) -> None:
    rows = reached(log_rows(), lambda rows: any(REACHED[what](row) for row in rows))
    assert rows[0].event == "published"
