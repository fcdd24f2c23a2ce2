"""``dlx replay --otlp``: the hidden hops of each message as spans that OpenTelemetry's tools read."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from simulator.cli.main import main
from simulator.definitions import Definitions
from tests.otlp import facts, traces
from tests.replay.logs import EXAMPLES, Log, death, definitions_of, died, write_log
from tests.replay.test_held import levels, publishes

CAPTURED = EXAMPLES / "captured-4.3"
REMOTE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TTL_POLICY = {
    "vhost": "/", "name": "ttls", "pattern": "^wait$", "apply-to": "queues", "priority": 0,
    "definition": {"message-ttl": 1_000},
}  # fmt: skip


def loop(**arguments: Any) -> Definitions:
    """``work`` dead-letters to ``wait``, and that back after the second that a policy says."""
    queues = {
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"},
        "wait": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", **arguments},
    }
    return definitions_of(queues, policies=[TTL_POLICY])


def retried(**headers: Any) -> Log:
    """Published to ``work``, rejected there, and back after it waited."""
    deaths = died(death("wait", "expired", keys=["wait"]), death("work", "rejected", keys=["work"]))
    log = Log().publish("", "work", headers=headers).deliver("work", "", ["work"], headers=headers)
    for number in range(3):  # so that time passes
        log.publish("", "work", message_id=f"other {number}")
    return log.deliver("work", "", ["work"], headers={**headers, **deaths})


def replayed(folder: Path, log: Log, definitions: Definitions, *options: str) -> list[list[Span]]:
    given = folder / "definitions.json"
    given.write_bytes(definitions.to_json())
    trace = write_log(folder / "trace.log", log.records)
    main(["replay", str(trace), "--definitions", str(given), "--otlp", str(folder / "traces.jsonl"), *options])
    return traces(folder / "traces.jsonl")


def of(found: list[list[Span]], message: str) -> list[Span]:
    (spans,) = (each for each in found if facts(each[0])["dlx.message"] == message)
    return spans


def names(spans: list[Span]) -> list[str]:
    return [span.name for span in spans]


def test_the_stays_and_deaths_that_no_row_shows_are_spans(tmp_path: Path) -> None:
    spans = of(replayed(tmp_path, retried(), loop()), "m1")
    assert names(spans) == [
        "publish work",
        "queue work",
        "dead-letter work",
        "queue wait",
        "dead-letter wait",
        "queue work",
    ]
    publish, first, rejection, waited, expiry, last = spans
    assert (
        facts(expiry).items()
        >= {
            "dlx.death.reason": "expired",
            "dlx.death.setting": "message-ttl",
            "dlx.death.setting.value": "1000",
            "dlx.death.setting.origin": "policy ttls",
            "dlx.death.to_queue": "work",
            "dlx.seen": False,
        }.items()
    )
    assert facts(expiry)["dlx.death.address"] == [
        "dead-letter-exchange '' by argument", "dead-letter-routing-key work by argument",
    ]  # fmt: skip
    assert facts(last)["dlx.verdict"] == "agree"
    assert facts(last)["dlx.row"] == "trace.log:6"
    assert facts(rejection)["dlx.death.rule"].startswith("rejected in 'work'")
    assert [span.parent_span_id for span in spans] == [
        b"", publish.span_id, first.span_id, publish.span_id, waited.span_id, publish.span_id,
    ]  # fmt: skip
    hops = [[link.span_id for link in span.links] for span in spans[1:]]
    assert hops == [
        [publish.span_id],
        *([publish.span_id, before.span_id] for before in (first, rejection, waited, expiry)),
    ]
    assert all(span.status.code == 0 for span in spans)


def test_a_death_of_which_bounds_are_known_says_so_and_lies_within(workload: Path) -> None:
    bounded = 0
    for spans in traces(workload):
        own = {span.span_id: span for span in spans}
        for span in spans:
            told = facts(span)
            if {"dlx.at.earliest", "dlx.at.latest"} <= told.keys():
                earliest, latest = (_nanos(told[f"dlx.at.{bound}"]) for bound in ("earliest", "latest"))
                assert earliest <= span.start_time_unix_nano == span.end_time_unix_nano <= latest
                assert own[span.parent_span_id].end_time_unix_nano <= span.start_time_unix_nano
                bounded += 1
            if told.get("dlx.arrived.by") == "dead-letter":
                before = own[span.links[1].span_id]
                assert span.start_time_unix_nano == before.end_time_unix_nano
                assert told.get("dlx.start.latest") == facts(before).get("dlx.at.latest")
    assert bounded > 1_000


def _nanos(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1_000_000) * 1_000


def test_the_trace_goes_on_with_that_of_the_publisher(tmp_path: Path) -> None:
    spans = of(replayed(tmp_path, retried(traceparent=REMOTE), loop()), "m1")
    assert spans[0].trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert spans[0].parent_span_id.hex() == "b7ad6b7169203331"
    assert all(span.links[0].span_id.hex() == "b7ad6b7169203331" for span in spans)
    assert spans[0].kind == Span.SPAN_KIND_INTERNAL


@pytest.mark.parametrize(
    "traceparent",
    ["", 7, "00-" + "0" * 32 + "-b7ad6b7169203331-01", "ff" + REMOTE[2:], REMOTE.upper(), REMOTE[:-1]],
)
def test_a_header_that_names_no_span_is_none(tmp_path: Path, traceparent: object) -> None:
    publish = of(replayed(tmp_path, retried(traceparent=traceparent), loop()), "m1")[0]
    assert publish.parent_span_id == b""
    assert publish.trace_id.hex() != REMOTE[3:35]
    assert publish.kind == Span.SPAN_KIND_PRODUCER


def test_the_names_are_those_of_the_conventions(tmp_path: Path) -> None:
    definitions = definitions_of({"work": {}}, {"shop": "topic"}, [("shop", "work", "#")])
    log = Log().publish("shop", "orders.new", routed=["work"]).deliver("work", "shop", ["orders.new"])
    publish, stay = of(replayed(tmp_path, log, definitions), "m1")
    assert publish.name == "publish shop:orders.new"
    assert (
        facts(publish).items()
        >= {
            "messaging.operation.name": "publish",
            "messaging.operation.type": "send",
            "messaging.destination.name": "shop:orders.new",
            "messaging.rabbitmq.destination.routing_key": "orders.new",
            "messaging.message.id": "m1",
        }.items()
    )
    assert facts(stay)["messaging.destination.name"] == "shop:orders.new:work"


def test_a_loss_is_an_error_and_says_why(tmp_path: Path) -> None:
    definitions = definitions_of({"work": {"x-message-ttl": 1_000, "x-dead-letter-exchange": "gone"}, "other": {}})
    log = Log().publish("", "work").publish("", "other", message_id="m2")
    for _ in range(9):
        log.deliver("other", "", ["other"], message_id="m2")
    *_, stay, lost = of(replayed(tmp_path, log, definitions), "m1")
    assert (lost.name, lost.status.code, facts(lost)["error.type"]) == ("dead-letter work", 2, "lost")
    assert facts(lost)["dlx.outcome"] == "lost"
    assert "'gone'" in facts(lost)["dlx.why"]
    assert lost.start_time_unix_nano - stay.start_time_unix_nano == 1_000_000_000


def test_a_message_with_a_time_to_live_of_its_own_died_of_that(tmp_path: Path) -> None:
    log = Log().publish("", "wait", expiration="900")
    first = {"original-expiration": "900"}
    log.deliver("work", "", ["work"], headers=died({**death("wait", "expired", keys=["wait"]), **first}))
    *_, expiry, _ = of(replayed(tmp_path, log, loop()), "m1")
    assert facts(expiry)["dlx.death.rule"] == "expired in 'wait': its expiration is 900"
    assert "dlx.death.setting" not in facts(expiry)


def test_what_is_held_is_a_fact_and_what_is_held_up_an_error(tmp_path: Path) -> None:
    ends = [spans[-1] for spans in replayed(tmp_path, publishes(*["gone"] * 33, "there"), levels())]
    told = [(facts(end)["dlx.outcome"], end.status.code) for end in ends if end.name == "dead-letter level"]
    assert sorted(told) == [*[("held", 0)] * 33, ("held up", 2)]


def test_a_publish_that_no_queue_takes_is_an_error(tmp_path: Path) -> None:
    log = Log().publish("", "nowhere", routed=[]).publish("", "work", message_id="m2")
    (publish,) = of(replayed(tmp_path, log, loop()), "m1")
    assert facts(publish)["error.type"] == "unroutable"


def test_a_copy_that_is_not_seen_again_stays_until_the_log_ends(tmp_path: Path) -> None:
    log = Log().publish("", "work").publish("", "work", message_id="m2").publish("", "work", message_id="m3")
    publish, stay = of(replayed(tmp_path, log, loop()), "m1")
    assert facts(stay)["dlx.outcome"] == "not seen again"
    assert stay.end_time_unix_nano - publish.start_time_unix_nano == 2_000_000_000


def test_two_copies_of_one_dead_letter_come_from_one_death(tmp_path: Path) -> None:
    definitions = definitions_of(
        {"work": {"x-dead-letter-exchange": "both"}, "one": {}, "two": {}},
        {"both": "fanout"}, [("both", "one", ""), ("both", "two", "")],
    )  # fmt: skip
    headers = died(death("work", "rejected", keys=["work"]))
    log = Log().publish("", "work").deliver("work", "", ["work"])
    for queue in ("one", "two"):
        log.deliver(queue, "both", ["work"], headers=headers)
    spans = of(replayed(tmp_path, log, definitions), "m1")
    assert names(spans) == ["publish work", "queue work", "dead-letter work", "queue one", "queue two"]
    assert spans[3].links[1].span_id == spans[4].links[1].span_id == spans[2].span_id


def test_of_a_message_with_very_many_rows_the_first_are_in_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.replay.traces.ROWS_MAX", 2)
    spans = of(replayed(tmp_path, retried(), loop()), "m1")
    assert names(spans) == ["publish work", "queue work"]
    assert facts(spans[0])["dlx.rows_left_out"] == 1


def test_the_same_log_makes_the_same_bytes_and_every_message_is_in_it(workload: Path, tmp_path: Path) -> None:
    found = captured(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == workload.read_bytes()
    assert len(found) == 1_123
    every = [facts(span) for spans in found for span in spans]
    deaths = [each for each in every if each["messaging.operation.name"] == "dead-letter"]
    assert sum("dlx.death.to_queue" in each for each in deaths) >= 2_047
    assert sum(each.get("error.type") == "lost" for each in deaths) == 19
    assert sum("dlx.verdict" in each for each in every) == 2_928


@pytest.mark.spark
def test_both_engines_write_the_same(workload: Path, tmp_path: Path) -> None:
    captured(tmp_path / "spark", "--engine", "spark")
    assert (tmp_path / "spark").read_bytes() == workload.read_bytes()


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of a workload on a server of 4.3, by the local engine."""
    out = tmp_path_factory.mktemp("workload") / "traces.jsonl"
    captured(out)
    return out


def captured(out: Path, *options: str) -> list[list[Span]]:
    """Replay that workload into a file."""
    command = ["replay", str(CAPTURED / "trace.log.gz"), "--definitions", str(CAPTURED / "definitions.json")]
    main([*command, "--release", "4.3", "--otlp", str(out), *options])
    return traces(out)


def test_a_folder_that_is_not_there_is_named_before_the_replay(tmp_path: Path, capsys: Any) -> None:
    away = tmp_path / "away"
    status = main(["replay", "no.log", "--definitions", "no.json", "--otlp", str(away / "traces.jsonl")])
    assert status == 64
    assert f"there is no folder {away}" in " ".join(capsys.readouterr().err.split())


def test_a_device_is_no_file_for_traces(capsys: Any) -> None:
    assert main(["replay", "no.log", "--definitions", "no.json", "--otlp", "/dev/null"]) == 64
    assert "/dev/null is a device or a pipe" in " ".join(capsys.readouterr().err.split())
