"""The worked example at the top of ``simulator.replay``, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import simulator.replay
from simulator.capture import open_log
from simulator.replay.engines.local import arranged_table, replay_table
from simulator.replay.rows.row_codec import LINEAGE, SIGNATURE
from tests.replay.logs import Log, death, definitions_of, died, write_log

DEFINITIONS = definitions_of(
    {
        "work": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"},
        "retry": {"x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"},
    }
)


def _came_back(rejections: int) -> dict[str, Any]:
    return died(death("retry", "expired", keys=["retry"]), death("work", "rejected", count=rejections, keys=["work"]))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The six rows."""
    written = Log()
    for message, rejections in (("a", 1), ("b", 2)):
        written.publish("", "work", message_id=message)
        written.deliver("work", "", ["work"], message_id=message)
        written.deliver("work", "", ["work"], message_id=message, headers=_came_back(rejections))
    return write_log(tmp_path / "trace.log", written.records)


def test_the_rows_have_two_lineages_and_four_signatures(log: Path) -> None:
    rows: pa.Table = arranged_table(open_log(log))
    assert rows.column(LINEAGE).to_pylist() == ["/\na"] * 3 + ["/\nb"] * 3
    signatures = rows.column(SIGNATURE).to_pylist()
    assert [signatures.index(each) for each in signatures] == [0, 1, 2, 0, 1, 5]


def test_the_deliveries_have_these_verdicts_and_deaths(log: Path) -> None:
    rows = [row for row in replay_table(open_log(log), DEFINITIONS, "4.3").to_pylist() if row["event"] == "delivered"]
    assert [row["verdict"] for row in rows] == ["agree", "agree", "agree", "differ"]
    deaths = [(hop["queue"], hop["reason"]) for row in rows for hop in row["hops"]]
    assert deaths == [("work", "rejected"), ("retry", "expired")] * 2
    (differs,) = rows[-1]["differences"]
    assert (differs["field"], differs["expected"], differs["seen"]) == ("x-death[1].count", "1", "2")


def test_the_rooms_stand_in_the_order_that_the_page_gives() -> None:
    page = simulator.replay.__doc__ or ""
    (line,) = [each for each in page.splitlines() if "->" in each]
    root = Path(simulator.replay.__file__).parent
    rooms = [each.strip() for each in line.split("->")]
    for place, room in enumerate(rooms):
        later = [f"simulator.replay.{each}" for each in rooms[place + 1 :]]
        for path in (root / room).glob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not [each for each in later if f"from {each}." in text], path
