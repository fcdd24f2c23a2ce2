"""The data sources of Spark: what they read, what they ask of the rules, and what they say of bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from simulator.capture import convert
from simulator.capture.codes import CODED
from simulator.replay import replay, spark_session, summarize
from simulator.spark_sources import register
from tests.replay.logs import EXAMPLES, example_definitions, example_records, write_log

pytestmark = pytest.mark.spark

EXAMPLE = EXAMPLES / "captured-4.3"
TEXT = Path(__file__).parents[1] / "capture" / "samples" / "trace-text-4.3.log"


@pytest.fixture(scope="module")
def spark():
    session = spark_session("local[2]")
    register(session)
    yield session
    session.stop()


def trace(spark, *paths: Path, **options: str):
    return spark.read.format("rabbitmq_trace").options(**options).load([str(path) for path in paths])


def definitions(spark, *paths: Path, **options: str):
    return spark.read.format("rabbitmq_definitions").options(**options).load([str(path) for path in paths])


def refused(frame) -> str:
    """What an analyst reads when the rows are asked for."""
    with pytest.raises(PySparkException) as error:
        frame().collect()
    return str(error.value)


def test_a_trace_has_the_rows_of_its_conversion(spark, tmp_path):
    convert([EXAMPLE / "trace.log.gz"], tmp_path / "log.parquet")
    read = trace(spark, EXAMPLE / "trace.log.gz")
    converted = spark.read.parquet(str(tmp_path / "log.parquet")).drop(*CODED)
    assert read.columns == converted.columns
    rows = {(row.file, row.line): row for row in converted.collect()}
    assert {(row.file, row.line): row for row in read.collect()} == rows
    assert len(rows) > 4000


def test_a_replay_takes_it_as_it_is(spark):
    replayed = replay(trace(spark, EXAMPLE / "trace.log.gz"), example_definitions("4.3"), "4.3")
    summary = summarize(replayed, example_definitions("4.3"))
    assert summary.agree == summary.deliveries > 2000


def test_files_folders_and_patterns_are_read_file_by_file(spark, tmp_path):
    records = example_records("4.3")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_log(tmp_path / folder / "trace.log", records[:5])
    write_log(tmp_path / "more-1.log", records[5:8])
    write_log(tmp_path / "_unfinished.log", records[8:])
    (tmp_path / "more-2.log").touch()  # a trace that has just begun
    read = trace(spark, tmp_path / "*" / "trace.log", tmp_path)
    counts = {row["file"]: row["count"] for row in read.groupBy("file").count().collect()}
    assert counts == {"a/trace.log": 5, "b/trace.log": 5, "more-1.log": 3}
    assert read.rdd.getNumPartitions() == 4


def test_text_logs_and_captures_are_recognized(spark, tmp_path):
    convert([TEXT], tmp_path / "log.parquet")
    read, again = trace(spark, TEXT).collect(), trace(spark, tmp_path / "log.parquet").collect()
    assert sorted(read, key=str) == sorted(again, key=str)
    assert read


def test_a_broken_line_is_named_or_left_out(spark, tmp_path):
    log = write_log(tmp_path / "trace.log", example_records("4.3")[:2])
    log.write_text(log.read_text() + '{"timestamp": 1\n')
    assert f"{log}: line 3: timestamp: expected" in refused(lambda: trace(spark, log))
    assert trace(spark, log, mode="DROPMALFORMED").count() == 2


def test_wrong_options_are_refused_with_what_is_right(spark, tmp_path):
    log = EXAMPLE / "trace.log.gz"
    assert "mode: expected FAILFAST or DROPMALFORMED, got 'LOUD'" in refused(lambda: trace(spark, log, mode="loud"))
    assert "no option 'mod'; did you mean 'mode'?" in refused(lambda: trace(spark, log, mod="x"))
    assert "none.log: no such file" in refused(lambda: trace(spark, tmp_path / "none.log"))
    assert "no path" in refused(lambda: spark.read.format("rabbitmq_trace").load())
    assert "9.9" in refused(lambda: definitions(spark, EXAMPLE / "definitions.json", release="9.9"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "shop.json"
    queues = [
        {"vhost": "shop", "name": "orders", "arguments": {"x-dead-letter-exchange": "", "x-message-ttl": 60_000}},
        {"vhost": "shop", "name": "jobs", "arguments": {"x-queue-type": "quorum", "x-max-length": 10}},
    ]
    ttl = {"pattern": "^orders", "definition": {"message-ttl": 5_000}, "apply-to": "queues", "priority": 1}
    document = {
        "vhosts": [{"name": "shop"}],
        "exchanges": [
            {"vhost": "shop", "name": "in", "type": "topic", "arguments": {"alternate-exchange": "unrouted"}},
        ],
        "queues": queues,
        "bindings": [
            {"vhost": "shop", "source": "in", "destination": "orders", "destination_type": "queue", "routing_key": "#"}
        ],
        "policies": [{"vhost": "shop", "name": "short", **ttl}],
    }
    path.write_text(json.dumps(document))
    return path


def test_a_queue_has_the_settings_in_force_with_their_origin(spark, shop):
    table = definitions(spark, shop, release="4.3").where("kind = 'queue'")
    orders, jobs = table.orderBy("name", ascending=False).collect()
    assert (orders.vhost, orders.name, orders.type, orders.policy) == ("shop", "orders", "classic", "short")
    assert (orders.dead_letter_exchange, orders.message_ttl_ms, orders.overflow) == ("", 5_000, None)
    ttl = orders.settings["message-ttl"]
    assert (ttl.value, ttl.origin) == ("5000", "policy short")
    assert [(hidden.value, hidden.origin) for hidden in ttl.hidden] == [("60000", "argument")]
    assert (jobs.dead_letter_exchange, jobs.delivery_limit, jobs.overflow) == (None, 20, "drop-head")
    older = definitions(spark, shop, release="3.13").where("name = 'jobs'").first()
    assert (older.release, older.delivery_limit) == ("3.13", None)


def test_the_other_objects_have_rows_too(spark, shop):
    rows = definitions(spark, shop).where("kind != 'queue' and coalesce(name, '') not like 'amq.%'").collect()
    told = {(row.kind, row.name, row.source, row.destination, row.pattern, row.alternate_exchange) for row in rows}
    assert told == {
        ("exchange", "", None, None, None, None),
        ("exchange", "in", None, None, None, "unrouted"),
        ("binding", None, "in", "orders", None, None),
        ("policy", "short", None, None, "^orders", None),
    }


def test_deliveries_join_the_queue_that_they_came_from(spark):
    queues = definitions(spark, EXAMPLE / "definitions.json").where("kind = 'queue'")
    delivered = trace(spark, EXAMPLE / "trace.log.gz").where("event = 'delivered'")
    joined = delivered.alias("d").join(queues.alias("q"), delivered.queue == queues.name)
    assert joined.count() == delivered.count()


def test_wrong_definitions_are_named_with_the_place(spark, tmp_path):
    syntax, field = tmp_path / "syntax.json", tmp_path / "field.json"
    syntax.write_text('{\n"queues": [\n}')
    field.write_text(json.dumps({"queues": [{"vhost": "/", "name": 7}], "vhosts": [{"name": "/"}]}))
    assert f"{syntax}: line 3, column" in refused(lambda: definitions(spark, syntax))
    assert f"{field}: queues[0].name: expected a string, got 7" in refused(lambda: definitions(spark, field))
