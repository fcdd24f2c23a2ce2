"""The same traffic gives the same rows, whichever format it was logged in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.capture.sample_logs import RELEASES, firehose_rows, rows, trace_log

# Each trace is stamped by the tracer that wrote it, and stands on its own line.
OWN_OF_EACH_LOG = ("time_us", "file", "line")


def without(row: dict[str, Any], *columns: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in columns}


@pytest.mark.parametrize("release", RELEASES)
def test_firehose_and_json_agree(release: str) -> None:
    """All but ``redelivered``, which the tracing plugin does not log."""
    logged, live = rows(trace_log("json", release)), firehose_rows(release)
    assert len(logged) == len(live) == 30
    for ours, theirs in zip(live, logged, strict=True):
        assert without(ours, *OWN_OF_EACH_LOG, "redelivered") == without(theirs, *OWN_OF_EACH_LOG, "redelivered")


@pytest.mark.parametrize("release", ["3.8", "3.10"])
def test_text_and_json_agree(release: str) -> None:
    for ours, theirs in zip(rows(trace_log("text", release)), rows(trace_log("json", release)), strict=True):
        assert without(ours, *OWN_OF_EACH_LOG) == without(theirs, *OWN_OF_EACH_LOG)
        assert abs(ours["time_us"] - theirs["time_us"]) < 1_000_000


def test_text_of_4_0_lacks_characters_beyond_latin_1() -> None:
    """RabbitMQ 4.0 cannot write them: it loses those records, and writes the others as single bytes."""
    text, logged = rows(trace_log("text", "4.0")), rows(trace_log("json", "4.0"))
    assert [row["message"] for row in logged[len(text) :]] == ["☃", "☃"]
    for ours, theirs in zip(text, logged, strict=False):
        assert without(ours, *OWN_OF_EACH_LOG, "payload") == without(theirs, *OWN_OF_EACH_LOG, "payload")
        latin_1 = theirs["payload"].decode("latin-1" if theirs["message"] == "bin" else "utf-8")
        assert ours["payload"] == latin_1.encode("latin-1")


def test_text_of_4_3_writes_binary_payloads_as_latin_1() -> None:
    for ours, theirs in zip(rows(trace_log("text", "4.3")), rows(trace_log("json", "4.3")), strict=True):
        assert without(ours, *OWN_OF_EACH_LOG, "payload") == without(theirs, *OWN_OF_EACH_LOG, "payload")
        if theirs["message"] == "bin":
            assert ours["payload"] == theirs["payload"].decode("latin-1").encode()
        else:
            assert ours["payload"] == theirs["payload"]


@pytest.mark.parametrize("release", RELEASES)
def test_a_message_keeps_its_identity_when_it_dies(release: str) -> None:
    """Also without a message_id, with a CC header; expiration goes at the first death."""
    seen = rows(trace_log("json", release))
    copies = [row for row in seen if row["payload"] == b"copies"]
    assert len(copies) == 5
    assert len({row["message"] for row in copies}) == 1
    assert copies[0]["message"].startswith("content:")
    every = [row for row in seen if row["payload"] == b"every property"]
    assert {row["message"] for row in every} == {"m-3"}
    assert [row["expiration"] for row in every] == ["60000", "60000", None, None]


@pytest.mark.parametrize("release", RELEASES)
def test_death_history_is_in_columns_of_its_own(release: str) -> None:
    seen = rows(trace_log("json", release))
    [grave] = [row for row in seen if row["queue"] == "graveyard"]
    deaths = json.loads(grave["x_death"])
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        ("dead", "rejected", 1),
        ("work", "rejected", 1),
    ]
    assert all("time" not in death for death in deaths)
    assert len(grave["x_death_times"]) == 2
    assert abs(grave["x_death_times"][0] - grave["time_us"] / 1e6) < 60
    assert grave["headers"] == "{}"
    assert json.loads(grave["broker_headers"])["x-first-death-queue"] == "work"
    alive = seen[0]
    assert (alive["x_death"], alive["x_death_times"], alive["broker_headers"]) == (None, None, "{}")


@pytest.mark.parametrize("release", RELEASES)
def test_forged_death_headers_are_kept_as_they_are(release: str) -> None:
    seen = rows(trace_log("json", release))
    [forged] = [row for row in seen if row["message"] == "forged" and row["queue"] is None]
    assert forged["x_death"] == '"not an array"'
    assert forged["x_death_times"] is None
    assert json.loads(forged["broker_headers"]) == {"x-delivery-count": 7, "x-first-death-queue": "mine"}
    assert forged["headers"] == '{"x":"y"}'


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_payload_may_look_like_the_log(form: str) -> None:
    [fake] = [row for row in rows(trace_log(form, "4.3")) if row["message"] == "fake" and row["queue"]]
    assert b"\n" + b"=" * 80 + b"\n2026-11-21 0:00:00:000: Message published\n" in fake["payload"]
    [lines] = [row for row in rows(trace_log(form, "4.3")) if row["message"] == "lines" and row["queue"]]
    assert lines["payload"] == b"\n\ntwo blank lines around\n\n"


def test_every_amqp_type_has_a_place_in_canonical_json() -> None:
    [row] = [row for row in firehose_rows("4.3") if row["message"] == "m-2" and row["queue"]]
    headers = json.loads(row["headers"])
    assert list(headers) == sorted(headers)
    assert headers["double"] == -2.718281828459045
    assert headers["float"] == 1.5
    assert headers["long"] == 2**53 + 1
    assert headers["timestamp"] == 1_700_000_000
    assert headers["void"] == "undefined"
    assert headers["binary"] == "Not UTF-8, base64 is: AAH//g=="
    assert headers["bytes"] == "plain"
    assert headers["decimal"] == 2.12345  # scale 2, value 12345: what RabbitMQ makes of 123.45
    assert headers["table"] == {"inner": {"deep": [1, "two", {"three": 3}]}, "none": {}}


def test_only_the_firehose_knows_what_was_redelivered() -> None:
    redelivered = [row["redelivered"] for row in firehose_rows("4.3") if row["payload"] == b"copies"]
    # published; delivered; delivered again after a requeue; from the dead-letter queue, and from the CC queue
    assert redelivered[0] is None
    assert redelivered[1:3] == [False, True]
    assert all(row["redelivered"] is None for row in rows(trace_log("json", "4.3")))


@pytest.mark.parametrize(
    ("form", "properties", "probe"),
    [
        ("text", "Properties:   [", """Properties:   [{<<"type">>,longstr,<<"dlx.capture.probe">>},"""),
        ("json", '"properties":{', '"properties":{"type":"dlx.capture.probe",'),
    ],
)
def test_probes_of_a_capture_are_no_rows_of_a_log(form: str, properties: str, probe: str, tmp_path: Path) -> None:
    log = trace_log(form, "3.10").read_bytes()
    (tmp_path / "trace.log").write_bytes(log.replace(properties.encode(), probe.encode(), 1))
    before, after = rows(trace_log(form, "3.10")), rows(tmp_path / "trace.log")
    assert [each["line"] for each in after] == [each["line"] for each in before[1:]]
