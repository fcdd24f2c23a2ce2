"""Definitions that are not those of the log are told, by queue and setting; those that are leave little unchecked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from dlx.releases import release
from simulator.capture import open_log
from simulator.definitions import Definitions
from simulator.replay import Assumptions
from simulator.replay.definitions import topologies
from simulator.replay.kernel import Kernel
from simulator.replay.local import arranged_table, replay_table
from tests.replay.logs import EXAMPLES, example_definitions

CAPTURED = ["3.10", "4.3"]
EXACT = Assumptions(tolerance_ms=20)
WHOLE = Assumptions(tolerance_ms=20, complete=True)
Row = dict[str, Any]


@cache
def rows(name: str) -> pa.Table:
    return arranged_table(open_log(EXAMPLES / f"captured-{name}" / "trace.log.gz"))


def replayed(name: str, given: Definitions, assumptions: Assumptions = EXACT) -> list[Row]:
    table = replay_table(open_log(EXAMPLES / f"captured-{name}" / "trace.log.gz"), given, name, assumptions)
    return [row for row in table.to_pylist() if row["event"] == "delivered"]


def unchecked(found: list[Row]) -> Counter[tuple[str, str]]:
    return Counter((each["what"], each["name"]) for row in found for each in row["unchecked"])


def told(found: list[Row]) -> set[tuple[str, str]]:
    return {(each["field"], each["expected"]) for row in found for each in row["differences"]}


@pytest.mark.parametrize("name", CAPTURED)
def test_the_right_definitions_agree(name: str) -> None:
    found = replayed(name, example_definitions(name))
    assert {row["verdict"] for row in found} == {"agree"}
    # 3.10 lost channels with messages on their way to them, 4.3 does not export internal exchanges.
    assert unchecked(found) == (
        {("delivery-limit", "emails.send"): 5} if name == "3.10" else {("routing", "logs.internal"): 48}
    )


@pytest.mark.parametrize("name", CAPTURED)
def test_a_wait_of_ten_minutes_is_told(name: str) -> None:
    found = replayed(name, example_definitions(name, orders_wait__x_message_ttl=600_000), Assumptions())
    bad = [row for row in found if row["verdict"] != "agree"]
    assert len(bad) > 100
    assert told(bad) == {("time in 'orders.wait'", "at least 600,000 ms (message-ttl 600000 by argument)")}
    waited = ("orders.wait", "expired")
    assert all(waited in [(hop["queue"], hop["reason"]) for hop in row["hops"]] for row in bad)


@pytest.mark.parametrize("name", CAPTURED)
def test_a_delivery_limit_of_0_is_told(name: str) -> None:
    found = replayed(name, example_definitions(name, emails_send__x_delivery_limit=0))
    bad = [row for row in found if row["verdict"] != "agree"]
    assert len(bad) > 100
    assert {row["queue"] for row in bad} == {"emails.send"}
    assert all("delivery-limit 0 by argument in 'emails.send'" in expected for _, expected in told(bad))


@pytest.mark.parametrize("name", CAPTURED)
def test_a_delivery_limit_that_no_message_reached_is_unchecked(name: str) -> None:
    found = replayed(name, example_definitions(name, emails_send__x_delivery_limit=9))
    assert {row["verdict"] for row in found} == {"agree"}
    assert unchecked(found)["delivery-limit", "emails.send"] == 43


LIMITED = {"events.recent": 14, "events.strict": 15, "events.replicated": 13, "jobs.crowded": 20}
"""How often messages died of the length limit, by queue."""


@pytest.mark.parametrize("name", CAPTURED)
def test_a_length_limit_of_a_million_is_unchecked_and_told_of_a_complete_log(name: str) -> None:
    changes = {f"{queue.replace('.', '_')}__x_max_length": 1_000_000 for queue in LIMITED}
    open_end = replayed(name, example_definitions(name, **changes))
    assert {row["verdict"] for row in open_end} == {"agree"}
    found = unchecked(open_end)
    assert {queue: found["max-length", queue] for queue in LIMITED} == LIMITED
    bad = [row for row in replayed(name, example_definitions(name, **changes), WHOLE) if row["verdict"] != "agree"]
    assert Counter(row["differences"][0]["field"] for row in bad) == {
        f"messages in '{queue}'": count for queue, count in LIMITED.items()
    }
    assert {expected for _, expected in told(bad)} == {"more than 1,000,000 (max-length 1000000 by argument)"}


@pytest.mark.parametrize("name", CAPTURED)
def test_the_right_definitions_agree_with_a_complete_log(name: str) -> None:
    assert {row["verdict"] for row in replayed(name, example_definitions(name), WHOLE)} == {"agree"}


WRONG: list[Callable[[], Definitions]] = [
    lambda: example_definitions("4.3", orders_wait__x_message_ttl=600_000),
    lambda: example_definitions("4.3", clicks_work__x_message_ttl=1, emails_send__x_delivery_limit=9),
]


@pytest.mark.slow
@pytest.mark.parametrize("given", WRONG)
@pytest.mark.parametrize("size", [7, 500])
def test_the_size_of_batches_changes_nothing(given: Callable[[], Definitions], size: int) -> None:
    """Messages at the end of a batch are stepped, and others looked up: both come to the same."""

    def run(batch_rows: int) -> pa.Table:
        kernel = Kernel(topologies(given()), release("4.3"), None, Assumptions(10))
        return pa.Table.from_batches(list(kernel.replay(iter(rows("4.3").to_batches(max_chunksize=batch_rows)))))

    assert run(size).equals(run(100_000))
