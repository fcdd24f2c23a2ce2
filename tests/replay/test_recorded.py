"""A log that says what consumers did: a replay takes their word for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pika
import pyarrow as pa
import pytest

import simulator
from examples.consumers import with_pika
from examples.consumers.ladder import PARKING, TRY_QUEUES, WAIT_QUEUES, queue_arguments
from simulator.capture import Observation, read_capture
from simulator.capture.recorder import Recorder
from simulator.capture.schema import to_batches
from simulator.capture.trace_logs import read_trace_json
from simulator.cli.main import main
from simulator.definitions import Definitions
from simulator.replay import replay_table
from simulator.testing.assertions import inspect
from tests.otlp import facts, traces
from tests.replay.logs import Log, definitions_of, write_log
from tests.replay.test_inference import LADDER, lap

ACKED, REJECTED, REQUEUED = "acked", "rejected", "requeued"


def observed(log: Log, tmp_path: Path) -> list[Observation]:
    with write_log(tmp_path / "trace.log", log.records).open("rb") as stream:
        return list(read_trace_json(stream, "trace.log"))


def with_ends(rows: list[Observation], ends: dict[int, str], *, late_us: int = 1) -> Iterator[pa.RecordBatch]:
    """The rows, and for those with these numbers another one that says what became of the delivery."""
    settled = [
        msgspec.structs.replace(rows[at], event=event, time_us=rows[at].time_us + late_us, line=100 + at)
        for at, event in ends.items()
    ]
    return to_batches([*rows, *settled])


def verdicts(batches: Iterator[pa.RecordBatch], definitions: Definitions = LADDER) -> list[tuple[str, str | None]]:
    """Verdict and reason of each delivery; what is no delivery has none."""
    found = replay_table(batches, definitions).to_pylist()
    assert {row["verdict"] for row in found if row["event"] != "delivered"} == {None}
    return [(row["verdict"], row["why"]) for row in found if row["event"] == "delivered"]


@pytest.fixture
def tried_again(tmp_path: Path) -> list[Observation]:
    """Published, delivered, and delivered once more with a rejection in its history."""
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"], headers=lap(1))
    return observed(log, tmp_path)


@pytest.mark.parametrize("late_us", [1, 5_000_000, -5_000_000], ids=["in order", "late", "early"])
@pytest.mark.parametrize("ends", [{}, {1: REJECTED}, {1: REJECTED, 2: ACKED}])
def test_a_delivery_that_was_rejected_may_die(
    tried_again: list[Observation], ends: dict[int, str], late_us: int
) -> None:
    rows = with_ends(tried_again, ends, late_us=late_us)
    assert verdicts(rows) == [("agree", None), ("agree", None)]


@pytest.mark.parametrize("end", [ACKED, REQUEUED])
def test_a_delivery_that_was_not_rejected_does_not_die_of_it(tried_again: list[Observation], end: str) -> None:
    first, second = verdicts(with_ends(tried_again, {1: end}))
    assert first == ("agree", None)
    assert second == ("unexplained", "rejected in 'work': every delivery there was acknowledged or requeued")


def test_one_delivery_of_unknown_end_is_enough(tmp_path: Path) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"])
    rows = observed(log.deliver("work", "", ["work"], headers=lap(1)), tmp_path)
    assert [verdict for verdict, _ in verdicts(with_ends(rows, {1: REQUEUED}))] == ["agree"] * 3
    assert verdicts(with_ends(rows, {1: REQUEUED, 2: REQUEUED}))[2][0] == "unexplained"


def test_ends_change_the_verdict_of_their_own_message_only(tmp_path: Path) -> None:
    """Messages with equal rows are judged once: an end is a row too."""
    log = Log()
    for name in ("m1", "m2", "m3"):
        log.publish("", "work", message_id=name).deliver("work", "", ["work"], message_id=name)
        log.deliver("work", "", ["work"], message_id=name, headers=lap(1))
    found = verdicts(with_ends(observed(log, tmp_path), {1: REJECTED, 4: ACKED}))
    assert [verdict for verdict, _ in found] == ["agree"] * 3 + ["unexplained"] + ["agree"] * 2


def test_rows_of_an_unknown_virtual_host_have_no_verdict_but_deliveries(tried_again: list[Observation]) -> None:
    elsewhere = [msgspec.structs.replace(row, vhost="elsewhere") for row in tried_again]
    assert [verdict for verdict, _ in verdicts(with_ends(elsewhere, {1: REJECTED}))] == ["agree"] * 2


# -- from a consumer to its replay ---------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with pika on the simulator, its publisher and its consumer recorded; with the definitions."""
    folder = tmp_path_factory.mktemp("recorded")
    with (
        simulator.serve("4.3", management_port=0) as server,
        Recorder(folder / "orders.parquet", now_us=server.clock.now_us) as recorder,
        pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection,
    ):
        channel = recorder.wrap(connection.channel())
        with_pika.consume(channel)
        for number in range(20):
            body = b"broken" if number % 4 == 0 else b"fine"
            channel.basic_publish("", TRY_QUEUES[0], body, pika.BasicProperties(message_id=f"order-{number}"))
        for _ in TRY_QUEUES:
            channel.queue_declare(PARKING, passive=True)
            connection.process_data_events(0)
            channel.queue_declare(PARKING, passive=True)
            server.clock.advance(seconds=30)
        truth = inspect(server).traces("truth")
    (folder / "truth.jsonl").write_bytes(b"".join(truth))
    definitions = definitions_of(queue_arguments())
    (folder / "definitions.json").write_bytes(definitions.to_json())
    return folder


def test_a_recorded_consumer_replays_with_full_agreement(recorded: Path) -> None:
    definitions = definitions_of(queue_arguments())
    found = replay_table(read_capture(recorded / "orders.parquet"), definitions).to_pylist()
    counted: dict[tuple[str, str | None], int] = {}
    for row in found:
        key = row["event"], row["verdict"]
        counted[key] = counted.get(key, 0) + 1
    assert counted == {
        ("published", None): 25,
        ("delivered", "agree"): 35,
        ("rejected", None): 15,
        ("acked", None): 20,
    }
    assert {row["queue"] for row in found if row["event"] == "rejected"} == set(TRY_QUEUES[:-1])
    hops = [(hop["queue"], hop["reason"]) for row in found for hop in row["hops"] or ()]
    expected = [*((queue, "rejected") for queue in TRY_QUEUES[:-1]), *((queue, "expired") for queue in WAIT_QUEUES)]
    assert sorted(hops) == sorted(expected * 5)


def test_the_command_replays_a_recording(recorded: Path, tmp_path: Path, capsys: Any) -> None:
    arguments = [str(recorded / "orders.parquet"), "--definitions", str(recorded / "definitions.json")]
    assert main(["replay", *arguments, "--json", "--out", str(tmp_path / "out")]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["deliveries"], summary["agree"], summary["dead_letters"]) == (35, 35, 30)
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


def test_what_a_recorded_consumer_did_is_in_the_traces(recorded: Path, tmp_path: Path) -> None:
    arguments = [str(recorded / "orders.parquet"), "--definitions", str(recorded / "definitions.json")]
    main(["replay", *arguments, "--otlp", str(tmp_path / "traces.jsonl")])
    did: Counter[str] = Counter()
    for spans in traces(tmp_path / "traces.jsonl"):
        own = {span.span_id: span for span in spans}
        for span in spans:
            if facts(span).get("messaging.operation.type") == "settle":
                stay = own[span.parent_span_id]
                assert stay.name == f"queue {facts(span)['dlx.queue']}"
                assert stay.end_time_unix_nano <= span.start_time_unix_nano
                did[facts(span)["messaging.operation.name"]] += 1
    assert did == {"reject": 15, "ack": 20}


def test_the_traces_are_those_of_the_broker_that_saw_every_hop(recorded: Path, tmp_path: Path) -> None:
    arguments = [str(recorded / "orders.parquet"), "--definitions", str(recorded / "definitions.json")]
    main(["replay", *arguments, "--otlp", str(tmp_path / "traces.jsonl")])
    true, found = (deaths(file) for file in (recorded / "truth.jsonl", tmp_path / "traces.jsonl"))
    assert len(true) == 30
    assert [death[:3] for death in found] == [death[:3] for death in true]
    tolerance_ns = 100_000_000
    for (*what, first_ns, last_ns), (*_, at_ns, _) in zip(found, true, strict=True):
        assert first_ns - tolerance_ns <= at_ns <= last_ns + tolerance_ns, what


def deaths(file: Path) -> list[tuple[str, str, str, int, int]]:
    """Message, queue and reason of each death, and between which moments it was, in order."""
    found = []
    for spans in traces(file):
        for span in spans:
            told = facts(span)
            if "dlx.death.reason" in told:
                bounds = [told.get(f"dlx.at.{bound}") for bound in ("earliest", "latest")]
                at = [span.start_time_unix_nano if each is None else nanos(each) for each in bounds]
                found.append((told["dlx.message"], told["dlx.queue"], told["dlx.death.reason"], *at))
    return sorted(found, key=lambda death: (death[0], death[3]))


def nanos(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1_000_000) * 1_000
