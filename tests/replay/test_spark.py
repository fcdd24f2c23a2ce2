"""The Spark plan gives what the kernel gives, however the rows are spread."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulator.capture import convert, open_log, read_capture
from simulator.capture.codes import read_codes
from simulator.replay import Assumptions, findings, hops, replay, replay_table, scan, spark_session, summarize
from simulator.replay.coverage.totals import coverage, table_coverage
from simulator.replay.engines.spark import SparkEngine, arranged
from simulator.replay.kernel.kernel_input import ORDER, kernel_rows
from simulator.replay.rows import tables
from simulator.replay.rows.row_codec import CONTENT, LINEAGE, SIGNATURE, read_content, read_signature, write_lineage
from tests.long import some_in_ci
from tests.replay.logs import EXAMPLES, Log, definitions_of, example_definitions, write_log
from tests.replay.odd_rows import captured as captured_rows
from tests.replay.odd_rows import odd_rows, signature_of
from tests.replay.test_delays import RETRY, retried

pytestmark = pytest.mark.spark

LOG = EXAMPLES / "captured-4.3" / "trace.log.gz"
DEFINITIONS = example_definitions("4.3")
COMPARED = (
    "file",
    "line",
    "verdict",
    "why",
    "hops",
    "new_hops",
    "new_deaths",
    "differences",
    "alternatives",
    "unchecked",
)


@pytest.fixture(scope="module")
def spark():
    session = spark_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("captured") / "captured.parquet"
    convert([LOG], path)
    return str(path)


@pytest.fixture(scope="module")
def captured(spark, capture):
    return scan(spark, [capture])


def comparable(rows):
    chosen = [{name: row[name] for name in COMPARED} for row in rows]
    return sorted(chosen, key=lambda row: (row["file"], row["line"]))


@pytest.mark.parametrize("rules", some_in_ci(["4.3", "3.10"], ["4.3"]))
def test_spark_and_local_replay_agree(captured, rules):
    on_spark = replay(captured, DEFINITIONS, rules).toArrow().to_pylist()
    here = replay_table(open_log(LOG), DEFINITIONS, rules).to_pylist()
    assert comparable(on_spark) == comparable(here)


def test_delays_are_held_against_the_log_on_spark_too(spark, tmp_path):
    path = tmp_path / "delays.parquet"
    convert([write_log(tmp_path / "trace.log", retried(9_000, 3).records)], path)
    on_spark = replay(scan(spark, [str(path)]), RETRY, "4.0").toArrow().to_pylist()
    here = replay_table(open_log(tmp_path / "trace.log"), RETRY, "4.0").to_pylist()
    assert comparable(on_spark) == comparable(here)
    assert [row["verdict"] for row in comparable(on_spark)] == [None, "agree", None, None, "differ"]


@pytest.mark.parametrize("rules", some_in_ci(["4.3", "3.10"], ["3.10"]))
def test_a_replay_with_codes_reads_no_texts_and_says_the_same(spark, capture, captured, rules):
    with_codes = replay(scan(spark, [capture], coded=True), DEFINITIONS, rules, codes=read_codes([capture]))
    (read,) = re.findall("ReadSchema: struct<(.*)>", plan_of(with_codes))
    assert "signature_code:bigint" in read
    assert not {"headers", "x_death", "properties"} & {column.split(":")[0] for column in read.split(",")}
    expected = replay(captured, DEFINITIONS, rules).toArrow().to_pylist()
    assert comparable(with_codes.toArrow().to_pylist()) == comparable(expected)


def test_rows_that_are_left_out_take_no_codes_away(spark, capture, captured):
    kept = "file = 'trace.log.gz' AND line % 3 > 0"
    codes = read_codes([capture])
    with_codes = replay(scan(spark, [capture], coded=True).where(kept), DEFINITIONS, codes=codes)
    expected = replay(captured.where(kept), DEFINITIONS).toArrow().to_pylist()
    assert 0 < len(expected) < captured.count()
    assert comparable(with_codes.toArrow().to_pylist()) == comparable(expected)


def test_a_capture_without_codes_beside_one_with_them(spark, capture, tmp_path):
    older = tmp_path / "older.parquet"
    pq.write_table(pa.Table.from_batches(read_capture(capture)), older)
    engine = SparkEngine(spark)
    rows = {}
    for name, captures in {"older": [str(older)], "both": [str(older), capture], "with codes": [capture]}.items():
        read = engine.read(captures)
        folder = tmp_path / name
        replayed = engine.replay(read, DEFINITIONS, "4.3", Assumptions(), folder, lambda _: None)
        rows[name] = replayed.toArrow().to_pylist()
    assert comparable(rows["older"]) == comparable(rows["with codes"])
    assert len(rows["both"]) == 2 * len(rows["older"])


@pytest.mark.parametrize("coded", [False, True])
def test_rows_are_moved_once_and_reach_the_kernel_in_order(spark, capture, coded):
    codes = read_codes([capture]) if coded else None
    plan = plan_of(replay(scan(spark, [capture], coded=coded), DEFINITIONS, codes=codes))
    tree = plan[: plan.index("\n\n\n")]
    steps = re.findall(r"^[-+: *]*(\w+) ?(?:\(|$)", tree, re.MULTILINE)
    assert [step for step in steps if step in {"MapInArrow", "Sort", "Exchange"}] == ["MapInArrow", "Sort", "Exchange"]
    (order,) = re.findall(r"^Arguments: \[(_*hash.* ASC NULLS FIRST)\], false", plan, re.MULTILINE)
    assert re.findall(r"(\w+)#\d+L? ASC", order) == ["hash", *ORDER]


def plan_of(frame):
    return frame._jdf.queryExecution().explainString(
        frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )


def test_coverage_is_the_same_on_spark(captured):
    here = table_coverage(replay_table(open_log(LOG), DEFINITIONS, "4.3"), DEFINITIONS, "4.3")
    assert coverage(replay(captured, DEFINITIONS, "4.3"), DEFINITIONS, "4.3") == here
    assert here.exercised > 60


@pytest.mark.parametrize("complete", [False, True])
def test_spark_and_local_replay_refute_and_leave_unchecked_the_same(captured, complete):
    wrong = example_definitions(
        "4.3",
        events_recent__x_max_length=9_000,
        orders_wait__x_message_ttl=9_000,
        emails_send__x_delivery_limit=9,
    )
    assumptions = Assumptions(tolerance_ms=60, complete=complete)
    on_spark = replay(captured, wrong, "4.3", assumptions).toArrow().to_pylist()
    here = replay_table(open_log(LOG), wrong, "4.3", assumptions).to_pylist()
    assert comparable(on_spark) == comparable(here)
    found = {each["what"] for row in here for each in row["unchecked"] or ()}
    always = {"message-ttl", "delivery-limit", "delivery-count", "routing"}
    assert found == always | (set() if complete else {"max-length"})


def test_the_summary_adds_up(captured):
    replayed = replay(captured, DEFINITIONS).cache()
    summary = summarize(replayed, DEFINITIONS, broken_lines=2)
    assert summary.deliveries == replayed.where("event = 'delivered'").count() == summary.agree
    assert summary.messages == captured.select("message").distinct().count()
    assert summary.dead_letters == hops(replayed).where("first_copy").count()
    assert summary.broken_lines == 2
    assert summary.explained
    assert findings(replayed) == []


def test_findings_are_grouped_with_the_first_example(captured):
    found = findings(replay(captured, DEFINITIONS, "3.10"))
    assert found[0].what == "x-last-death-queue"
    assert found[0].behaviours == ("last_death_headers",)
    assert found[0].count > found[-1].count
    assert found[0].file == "trace.log.gz"


def test_a_message_id_may_hold_anything(spark, tmp_path):
    odd = "line\nbreak \x01 'quote\""
    log = Log().publish("", "work", message_id=odd).deliver("work", "", ["work"], message_id=odd)
    convert([write_log(tmp_path / "trace.log", log.records)], tmp_path / "odd.parquet")
    replayed = replay(scan(spark, [str(tmp_path / "odd.parquet")]), definitions_of({"work": {}}))
    assert [(row.message, row.verdict) for row in replayed.sort("line").collect()] == [(odd, None), (odd, "agree")]


def test_what_spark_writes_of_a_row_is_read_back(spark, tmp_path):
    rows = odd_rows()
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.Table.from_batches([captured_rows(rows)]), path)
    written = arranged(kernel_rows(scan(spark, [str(path)]))).toArrow().sort_by("line").to_pylist()
    assert [read_signature(each[SIGNATURE]) for each in written] == [signature_of(row) for row in rows]
    assert [read_content(each[CONTENT]) for each in written] == [(row["properties"], row["headers"]) for row in rows]
    assert [each[LINEAGE] for each in written] == [write_lineage(row["vhost"], row["message"]) for row in rows]
    replayed = replay(scan(spark, [str(path)]), DEFINITIONS).toArrow().sort_by("line").to_pylist()
    assert [each["message"] for each in replayed] == [row["message"] for row in rows]


def test_a_table_that_is_persisted_is_made_once_however_often_it_is_asked(spark, tmp_path):
    """Spark's own SQL over tables persists them no longer after the first question."""
    made = tmp_path / "made"

    def make(batches):
        with made.open("a") as file:
            file.write("once\n")
        yield from batches

    table = spark.range(10, numPartitions=1).mapInArrow(make, "id bigint").persist()
    for least in range(3):
        assert tables.rows(f"SELECT id FROM {{table}} WHERE id > {least}", table=table) == [
            {"id": each} for each in range(least + 1, 10)
        ]
    assert made.read_text() == "once\n"
    table.unpersist()
