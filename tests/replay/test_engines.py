"""Both engines say the same, row for row and word for word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulator.capture import convert, open_log
from simulator.cli.main import main
from simulator.replay import replay_table
from simulator.replay.engines.local import replay_files
from simulator.replay.kernel.kernel_input import kernel_rows
from simulator.replay.rows.row_codec import (
    CONTENT,
    LINEAGE,
    SIGNATURE,
    read_content,
    read_message,
    read_signature,
    write_lineage,
)
from simulator.replay.rows.tables import Database, rows, text
from tests.long import some_in_ci
from tests.replay.logs import EXAMPLES, example_definitions, example_records, write_log
from tests.replay.odd_rows import captured as captured_rows
from tests.replay.odd_rows import odd_rows, signature_of

LOG = EXAMPLES / "captured-4.3" / "trace.log.gz"
DEFINITIONS = EXAMPLES / "captured-4.3" / "definitions.json"


def results(capfd: pytest.CaptureFixture[str], engine: str, rules: str, out: Path) -> dict[str, Any]:
    """Everything that a replay gives: what it prints, Java included, its page, and the rows of its tables.

    Only which row is the first to show a rule depends on the order in which messages are taken.
    """
    command = ["replay", str(LOG), "--definitions", str(DEFINITIONS), "--release", rules, "--engine", engine]
    code = main([*command, "--json", "--out", str(out)])
    verdicts = pq.read_table(out / "verdicts.parquet").drop_columns("shown")
    tables = (each.to_pylist() for each in (verdicts, pq.read_table(out / "hops.parquet")))
    said = capfd.readouterr()
    return {
        "code": code,
        "json": json.loads(said.out),
        "stderr": said.err,
        "page": (out / "report.html").read_text(encoding="utf-8"),
        **{name: sorted(map(repr, table)) for name, table in zip(("verdicts", "hops"), tables, strict=True)},
    }


@pytest.mark.spark
@pytest.mark.parametrize("rules", some_in_ci(["4.3", "3.10"], ["3.10"]))
def test_both_engines_say_the_same(capfd: pytest.CaptureFixture[str], tmp_path: Path, rules: str) -> None:
    here, on_spark = (results(capfd, engine, rules, tmp_path / engine) for engine in ("local", "spark"))
    assert here["json"] == on_spark["json"]
    assert here == on_spark


def test_files_and_batches_are_replayed_alike(tmp_path: Path) -> None:
    definitions = example_definitions("4.3")
    file = tmp_path / "it's [a] log?*.parquet"
    log = write_log(tmp_path / "trace.log", example_records("4.3")[:1_500])
    convert([log], file)
    told: list[int] = []
    with Database(tmp_path) as database:
        captured = database.parquet([file])
        verdicts = tmp_path / "verdicts.parquet"
        replayed = replay_files(captured, definitions, "3.10", verdicts=verdicts, replayed=told.append).to_list()
    of_batches = replay_table(open_log(log), definitions, "3.10").to_pylist()
    for row in of_batches:
        row["message"] = read_message(row.pop(LINEAGE), row["vhost"])
    assert replayed == of_batches
    assert told == sorted(told)
    assert told[-1] == len(replayed)


def test_what_duckdb_writes_of_a_row_is_read_back(tmp_path: Path) -> None:
    given = odd_rows()
    pq.write_table(pa.Table.from_batches([captured_rows(given)]), tmp_path / "odd.parquet")
    with Database(tmp_path) as database:
        written = kernel_rows(database.parquet([tmp_path / "odd.parquet"])).to_list()
    written.sort(key=lambda row: row["line"])
    assert [read_signature(each[SIGNATURE]) for each in written] == [signature_of(row) for row in given]
    assert [read_content(each[CONTENT]) for each in written] == [(row["properties"], row["headers"]) for row in given]
    assert [each[LINEAGE] for each in written] == [write_lineage(row["vhost"], row["message"]) for row in given]


@pytest.mark.parametrize("value", ["it's", "back\\slash", "two\nlines", "{braces}", "100 %", "“quoted”", "\x01", ""])
def test_any_text_stands_in_a_query(tmp_path: Path, value: str) -> None:
    pq.write_table(pa.table({"one": [value, "other"]}), tmp_path / "one.parquet")
    with Database(tmp_path) as database:
        found = rows(
            f"SELECT * FROM {{one}} WHERE one = {text(value)}", one=database.parquet([tmp_path / "one.parquet"])
        )
    assert found == [{"one": value}]


def test_a_master_is_for_spark(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["replay", str(LOG), "--definitions", str(DEFINITIONS), "--engine", "local", "--master", "local[1]"]
    assert main(command) == 64
    assert "--engine local does without Spark" in capsys.readouterr().err
