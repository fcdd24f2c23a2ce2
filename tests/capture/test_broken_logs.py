"""Broken records are counted, kept and explained; the good ones beside them stay."""

from __future__ import annotations

import base64
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulator.capture import SCHEMA, Broken, CaptureError, NothingReadable, convert, open_log, read_capture
from simulator.capture.trace_logs import read_trace_json, read_trace_text
from tests.capture.sample_logs import RELEASES, rows, trace_log

GOOD = trace_log("json", "4.3").read_bytes().splitlines(keepends=True)


def changed(**fields: Any) -> bytes:
    """A good line with some fields changed."""
    return json.dumps({**json.loads(GOOD[0]), **fields}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (GOOD[0][:100], "the line ends in the middle of a record"),
        (GOOD[0][:100] + b"\n", "not JSON: JSON is malformed: invalid character (byte 100)"),
        (b"2026-11-21 hello\n", "expected a JSON object, got '2026-11-21 hello'"),
        (b"[1,2]\n", "expected a JSON object, got '[1,2]'"),
        (b"\xff\xfe\n", "expected a JSON object, got"),
        (changed(type="acked"), "type: invalid enum value 'acked'"),
        (changed(channel="one"), "channel: expected `int`, got `str`"),
        (changed(channel=2**40), "channel: expected `int` <= 2147483647"),
        (changed(properties=[]), "properties: expected `object`, got `array`"),
        (changed(properties={"headers": "no"}), "properties.headers: expected an object, got 'no'"),
        (changed(properties={"message_id": 5}), "properties.message_id: expected a string, got 5"),
        (changed(routing_keys=[1]), "routing_keys[0]: expected `str`, got `int`"),
        (changed(routed_queues="none"), "routed_queues: expected a list of strings"),
        (changed(payload="*"), "payload: invalid base64 encoded string"),
        (changed(timestamp="yesterday"), "timestamp: expected one such as 2026-11-21T00:37:37.634+00:00"),
        (b'{"type":"published"}\n', "object missing required field `timestamp`"),
        (b'{"properties":' + b'{"a":' * 400 + b"\n", "properties: nested too deeply"),
        (b'{"properties":' + b'{"a":' * 5000 + b"\n", "properties: nested too deeply"),
        (b'{"properties":' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n", "properties: nested too deeply"),
    ],
)
def test_a_broken_json_line_is_reported_with_its_reason(line: bytes, reason: str) -> None:
    broken: list[Broken] = []
    stream = io.BytesIO(GOOD[0] + line + (GOOD[1] if line.endswith(b"\n") else b""))
    found = list(read_trace_json(stream, "x.log", broken.append))
    assert [row.line for row in found] == ([1, 3] if line.endswith(b"\n") else [1])
    assert [(record.file, record.line, record.raw) for record in broken] == [("x.log", 2, line.strip())]
    assert broken[0].reason.startswith(reason)


def test_a_line_without_end_does_not_fill_memory() -> None:
    broken: list[Broken] = []
    stream = io.BytesIO(GOOD[0] + b"x" * 5_000_000 + b"\n" + GOOD[1])
    found = list(read_trace_json(stream, "x.log", broken.append, limit=10_000))
    assert [row.line for row in found] == [1, 3]
    assert broken[0].reason == "longer than 10000 bytes"
    assert len(broken[0].raw) < 10_000


TEXT = trace_log("text", "3.10").read_bytes()
RECORDS = [b"\n" + b"=" * 80 + b"\n" + part for part in TEXT.split(b"\n" + b"=" * 80 + b"\n")[1:5]]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b": Message published", b": Message acked", "Message: expected published or received, got acked"),
        (b"Channel:      1", b"Channel:      one", "Channel: expected a number, got 'one'"),
        (b"User:         guest\n", b"", "User: missing"),
        (
            b'[<<"order.types">>]',
            b'[<<"order.types"]',
            "Routing keys: expected ',' or '>>', got ']\\nRouted queues: [<<'",
        ),
        (b"Routed queues: ", b"Routed: ", "Routed queues: missing"),
        (b'{<<"message_id">>,longstr,', b'{<<"message_id">>,', "Properties: expected {Name, Type, Value}"),
        (b'{<<"bool">>,bool,true}', b'{<<"bool">>,bool,{1}}', "Properties: bool: unexpected (1,)"),
        (b"Payload: \n{}\n", b"Pay", "Payload: missing"),
        (b"T02:", b"T52:", "timestamp: expected one such as"),
    ],
)
def test_a_broken_text_record_is_reported_with_its_reason(old: bytes, new: bytes, reason: str) -> None:
    assert old in RECORDS[2]
    broken: list[Broken] = []
    stream = io.BytesIO(RECORDS[0] + RECORDS[2].replace(old, new, 1) + RECORDS[1])
    found = list(read_trace_text(stream, "x.log", broken.append))
    assert len(found) == 2
    assert [record.line for record in broken] == [RECORDS[0].count(b"\n") + 2]
    assert broken[0].reason.startswith(reason)


def test_a_text_log_cut_at_both_ends_keeps_what_is_whole() -> None:
    broken: list[Broken] = []
    found = list(read_trace_text(io.BytesIO(TEXT[100:-3]), "x.log", broken.append))
    assert len(found) == 28
    assert broken[0].line == 1
    assert broken[0].reason.startswith("no record header")
    assert broken[1].reason == "the log ends in the middle of the payload"


def test_a_text_record_without_end_does_not_fill_memory() -> None:
    broken: list[Broken] = []
    endless = RECORDS[0][:-1] + b"line\n" * 1_000_000
    found = list(read_trace_text(io.BytesIO(endless + RECORDS[1]), "x.log", broken.append, limit=10_000))
    assert [row.line for row in found] == [endless.count(b"\n") + 2]
    assert [(record.line, record.reason) for record in broken] == [(2, "longer than 10000 bytes")]


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("release", RELEASES)
def test_line_numbers_point_at_the_record(form: str, release: str) -> None:
    lines = trace_log(form, release).read_bytes().split(b"\n")
    for row in rows(trace_log(form, release)):
        line = lines[row["line"] - 1]
        assert line.startswith(b"{") if form == "json" else line == b"=" * 80


def test_the_first_broken_record_raises_unless_told_otherwise(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    log.write_bytes(GOOD[0] + b"{\n")
    with pytest.raises(CaptureError, match=r"some\.log: line 2: not JSON"):
        list(open_log(log))


def test_converting_keeps_good_rows_and_puts_broken_ones_aside(tmp_path: Path) -> None:
    damaged, out = tmp_path / "damaged.log", tmp_path / "out.parquet"
    damaged.write_bytes(GOOD[0] + changed(channel="one") + b"\xff\n" + GOOD[1])
    report = convert([trace_log("text", "3.8"), damaged], out)
    assert (report.rows, report.broken) == (32, 2)
    assert [(log.file, log.rows, log.broken) for log in report.files] == [
        ("trace-text-3.8.log", 30, 0),
        ("damaged.log", 2, 2),
    ]
    rejected = [json.loads(line) for line in Path(report.rejected_path or "").read_text().splitlines()]
    assert [(row["file"], row["line"]) for row in rejected] == [("damaged.log", 2), ("damaged.log", 3)]
    assert rejected[0]["raw"].encode() + b"\n" == changed(channel="one")
    assert base64.b64decode(rejected[1]["raw_base64"]) == b"\xff"
    table = pq.read_table(out)
    assert table.select(SCHEMA.names).schema.equals(SCHEMA, check_metadata=True)
    assert table["file"].to_pylist()[-2:] == ["damaged.log", "damaged.log"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "damaged.log", "out.parquet", "out.parquet.rejected.jsonl",
    ]  # fmt: skip


def test_converting_again_without_broken_records_removes_the_old_rejects(tmp_path: Path) -> None:
    log, out = tmp_path / "a.log", tmp_path / "out.parquet"
    log.write_bytes(GOOD[0] + b"{\n")
    assert convert([log], out).rejected_path
    log.write_bytes(GOOD[0])
    assert convert([log], out).rejected_path is None
    assert not (tmp_path / "out.parquet.rejected.jsonl").exists()


@pytest.mark.parametrize("form", ["json", "text"])
def test_gzip_is_read_like_the_plain_log(form: str, tmp_path: Path) -> None:
    plain = trace_log(form, "4.3")
    packed = tmp_path / plain.name
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert rows(packed) == rows(plain)


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_damaged_gzip_keeps_what_comes_before(form: str, tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(trace_log(form, "4.3").read_bytes() * 300)[:-5000])
    broken: list[Broken] = []
    found = sum(batch.num_rows for batch in open_log(packed, on_broken=broken.append))
    assert found > 0
    assert "the gzip stream is damaged" in broken[-1].reason


def test_a_log_with_nothing_readable_is_an_error_by_itself(tmp_path: Path) -> None:
    empty, broken, out = tmp_path / "empty.log", tmp_path / "broken.log", tmp_path / "out.parquet"
    empty.write_bytes(b"\n")
    broken.write_bytes(b'{"type":\n{}\n')
    with pytest.raises(NothingReadable, match=r"empty\.log: no record in it"):
        convert([empty], out)
    with pytest.raises(NothingReadable, match=r"broken\.log: all 2 records are broken; the last: line 2: "):
        convert([broken], out)
    assert not list(tmp_path.glob("*out*"))
    report = convert([empty, broken, trace_log("json", "4.3")], out)
    assert [(log.rows, log.broken) for log in report.files] == [(0, 0), (0, 2), (30, 0)]


def test_what_is_no_log_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(CaptureError, match=r"picture\.png: not a trace log: expected JSON or text"):
        convert([trace_log("json", "4.3"), picture], out)
    with pytest.raises(CaptureError, match=r"missing\.log: No such file"):
        convert([trace_log("json", "4.3"), tmp_path / "missing.log"], out)
    with pytest.raises(CaptureError, match="Is a directory"):
        convert([tmp_path], out)
    with pytest.raises(CaptureError, match="given twice"):
        convert([picture, picture], out)
    with pytest.raises(CaptureError, match="is the file to write"):
        convert([picture], picture)
    with pytest.raises(CaptureError, match="cannot be written"):
        convert([trace_log("json", "4.3")], tmp_path / "nowhere" / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


def test_logs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    logs = [tmp_path / node / "trace.log" for node in ("one", "two")]
    for log in logs:
        log.parent.mkdir()
        log.write_bytes(GOOD[0])
    report = convert(logs, tmp_path / "out.parquet")
    assert [log.file for log in report.files] == ["one/trace.log", "two/trace.log"]


def test_a_capture_can_be_converted_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    convert([trace_log("json", "4.3"), trace_log("text", "3.8")], first)
    convert([first], second)
    assert pq.read_table(first).equals(pq.read_table(second))


def test_a_damaged_or_foreign_parquet_file_is_named(tmp_path: Path) -> None:
    whole, cut, foreign, older = (tmp_path / f"{name}.parquet" for name in ("whole", "cut", "foreign", "older"))
    convert([trace_log("json", "4.3")], whole)
    cut.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(CaptureError, match=r"cut\.parquet: not a whole Parquet file .*`dlx convert"):
        convert([whole, cut], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    pq.write_table(pa.table({"a": [1]}), foreign)
    with pytest.raises(CaptureError, match=r"foreign\.parquet: Parquet, but not a capture"):
        list(read_capture(foreign))
    table = pq.read_table(whole)
    pq.write_table(table.replace_schema_metadata({"dlx.capture.schema_version": "0"}), older)
    with pytest.raises(CaptureError, match="capture schema 0, expected 1"):
        list(read_capture(older))
    pq.write_table(table.drop_columns(["x_death"]), older)
    with pytest.raises(CaptureError, match="column x_death: missing"):
        list(read_capture(older))
    at = table.schema.get_field_index("channel")
    pq.write_table(table.set_column(at, "channel", table["channel"].cast(pa.string())), older)
    with pytest.raises(CaptureError, match="column channel: expected int32, got string"):
        list(read_capture(older))
