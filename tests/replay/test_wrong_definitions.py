"""Definitions that are not those of the log are told, by queue and setting; those that are leave little unchecked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dlx.releases import release
from simulator.capture import open_log
from simulator.definitions import Definitions
from simulator.replay import Assumptions
from simulator.replay.engines.local import arranged_table, replay_table
from simulator.replay.kernel.batch_replay import Kernel
from simulator.replay.rows.topologies import topologies
from tests.replay.logs import EXAMPLES, Log, definitions_of, example_definitions, write_log

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
    others = Counter({key: times for key, times in unchecked(found).items() if key[0] != "delivery-count"})
    assert others == ({("delivery-limit", "emails.send"): 5} if name == "3.10" else {("routing", "logs.internal"): 48})


@pytest.mark.parametrize("name", CAPTURED)
def test_counts_are_unchecked_where_a_death_brought_them_or_rows_are_missing(name: str) -> None:
    counts = {queue for what, queue in unchecked(replayed(name, example_definitions(name))) if what == "delivery-count"}
    assert {"emails.parking", "emails.send", "carts.replicated"} <= counts
    queues = example_definitions(name).topology("dlx-workload").queues
    assert {queues[queue].type for queue in counts} == {"quorum"}


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


def routed_elsewhere(found: pa.Table) -> Counter[tuple[str, str, str]]:
    rows = [row for row in found.to_pylist() if row["event"] == "published" and row["verdict"] is not None]
    assert {row["verdict"] for row in rows} <= {"differ"}
    return Counter((each["field"], each["expected"], each["seen"]) for row in rows for each in row["differences"])


def replayed_with(name: str, change: Callable[[dict[str, Any]], None]) -> pa.Table:
    document = json.loads(json.dumps(example_definitions(name).document))
    change(document)
    given = Definitions(document, "definitions.json")
    return replay_table(open_log(EXAMPLES / f"captured-{name}" / "trace.log.gz"), given, name, EXACT)


@pytest.mark.parametrize("name", CAPTURED)
def test_publishes_went_where_the_right_definitions_route_them(name: str) -> None:
    assert not routed_elsewhere(replayed_with(name, lambda document: None))


@pytest.mark.parametrize("name", CAPTURED)
def test_a_binding_that_the_broker_did_not_have_is_told(name: str) -> None:
    """No delivery is wrong: a copy that nobody consumed may still be in its queue."""

    def bind(document: dict[str, Any]) -> None:
        (known,) = [each for each in document["bindings"] if each["source"] == "orders"]
        document["bindings"].append({**known, "destination": "orders.parking"})

    assert routed_elsewhere(replayed_with(name, bind)) == {
        ("routed_queues of exchange 'orders'", '["orders.parking","orders.work"]', '["orders.work"]'): 75
    }


def test_an_exchange_of_another_type_is_told() -> None:
    def fan_out(document: dict[str, Any]) -> None:
        (exchange,) = [each for each in document["exchanges"] if each["name"] == "shipments"]
        exchange["type"] = "fanout"

    found = routed_elsewhere(replayed_with("4.3", fan_out))
    assert {field for field, _, _ in found} == {"routed_queues of exchange 'shipments'"}
    assert {expected for _, expected, _ in found} == {'["shipments.slow","shipments.work"]'}


def test_nothing_is_said_of_a_queue_that_the_definitions_lack(tmp_path: Path) -> None:
    """Exclusive queues are not exported."""
    log = Log().publish("x", "k", routed=["known", "amq.gen-1"]).publish("", "amq.gen-1", message_id="m2")
    path = write_log(tmp_path / "trace.log", log.records)
    given = definitions_of({"known": {}}, {"x": "direct"}, [("x", "known", "k")])
    assert not routed_elsewhere(replay_table(open_log(path), given))


def test_nothing_is_said_of_an_exchange_of_a_type_that_is_not_known(tmp_path: Path) -> None:
    log = Log().publish("x", "k", routed=["one"])
    path = write_log(tmp_path / "trace.log", log.records)
    given = definitions_of({"one": {}, "two": {}}, {"x": "x-random"}, [("x", "one", "k"), ("x", "two", "k")])
    assert not routed_elsewhere(replay_table(open_log(path), given))
