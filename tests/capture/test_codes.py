"""The codes in a capture tell rows apart by the columns that they stand for, and only by these."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from simulator.capture import SCHEMA, convert, open_log
from simulator.capture.codes import CODED, CONTENT_CODE, SIGNATURE_CODE, with_codes
from simulator.replay.row_codec import Signature
from tests.replay.logs import Log, write_log
from tests.replay.odd_rows import captured, odd_rows


def test_a_capture_has_codes_and_is_read_without_them(tmp_path: Path) -> None:
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"])
    convert([write_log(tmp_path / "trace.log", log.records)], tmp_path / "capture.parquet")
    published, *delivered = pq.read_table(tmp_path / "capture.parquet").column(SIGNATURE_CODE).to_pylist()
    assert published not in delivered
    assert delivered[0] == delivered[1]
    assert {batch.schema for batch in open_log(tmp_path / "capture.parquet")} == {SCHEMA}


def test_codes_stand_for_all_that_the_rules_look_at() -> None:
    assert CODED[SIGNATURE_CODE] == Signature.__struct_fields__


COLUMNS = [*CODED[SIGNATURE_CODE], *CODED[CONTENT_CODE], "message", "message_id", "file", "user"]


@pytest.mark.parametrize("column", COLUMNS)
def test_another_value_has_another_code_where_it_counts(column: str) -> None:
    row = odd_rows()[0]
    other = ["other"] if column in ("routing_keys", "routed_queues") else "other"
    one, two = with_codes(captured([row, row | {column: other}])).select([*CODED]).to_pylist()
    assert {code for code in CODED if one[code] != two[code]} == {code for code in CODED if column in CODED[code]}
