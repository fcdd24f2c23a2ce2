"""What is written of a row is read back as it was, whatever characters it holds. Spark's part is in ``test_spark``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.json_values import canonical_json
from simulator.replay.rows.row_codec import (
    read_content,
    read_signature,
    without_expirations,
    write_content,
    write_lineage,
    write_signatures,
)
from tests.replay.odd_rows import ODD, captured, odd_rows, signature_of

TEXT = st.sampled_from(ODD) | st.text(max_size=12)
NUMBER = st.integers(-(2**63), 2**63 - 1)
HEADERS = st.dictionaries(TEXT, TEXT | st.none() | NUMBER | st.lists(TEXT, max_size=2), max_size=3)
ROW = st.fixed_dictionaries({
    "event": st.sampled_from(["published", "delivered", "acked", "rejected", "requeued"]),
    "vhost": TEXT,
    "queue": TEXT | st.none(),
    "exchange": TEXT,
    "expiration": TEXT | st.none(),
    "routing_keys": st.lists(TEXT, max_size=3),
    "properties": HEADERS.map(canonical_json),
    "headers": HEADERS.map(canonical_json),
    "broker_headers": HEADERS.map(canonical_json),
    "x_death": st.lists(HEADERS, max_size=2).map(canonical_json) | st.none(),
    "routed_queues": st.lists(TEXT, max_size=3) | st.none(),
})  # fmt: skip


def check(rows: list[dict[str, Any]]) -> None:
    written = write_signatures(captured(rows))
    assert [read_signature(text) for text in written] == [signature_of(row) for row in rows]
    contents = [(row["properties"], row["headers"]) for row in rows]
    assert [read_content(write_content(*content)) for content in contents] == contents


def test_odd_characters_are_read_back() -> None:
    check(odd_rows())


@given(st.lists(ROW, min_size=1, max_size=3))
def test_what_is_written_is_read_back(rows: list[dict[str, Any]]) -> None:
    check(rows)


@given(ROW)
def test_an_expiration_is_left_out_and_nothing_else(row: dict[str, Any]) -> None:
    """Also where routing keys, names and headers look like one."""
    row |= {"expiration": "1500", "x_death": canonical_json([{"original-expiration": "70", "queue": "5"}])}
    (text,) = write_signatures(captured([row]))
    template, own, of_deaths = without_expirations(text)
    assert (own, of_deaths) == ("1500", ("70",))
    row |= {"expiration": "", "x_death": canonical_json([{"original-expiration": "", "queue": "5"}])}
    assert read_signature(template) == signature_of(row)


@pytest.mark.parametrize("expiration", [None, "", "0", "-1", "01", "1.5", "1e3", "123456789012", "5\n", '5"'])
def test_what_no_broker_writes_is_no_expiration(expiration: str | None) -> None:
    row = odd_rows()[0] | {"expiration": expiration, "routing_keys": ["5"]}
    (text,) = write_signatures(captured([row]))
    assert without_expirations(text) == (text, None, ())


def test_messages_of_two_virtual_hosts_are_kept_apart() -> None:
    assert write_lineage("a", "b") != write_lineage("b", "a")
