"""Questions about rows that stand here: what decides over messages that are alike but for a detail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.capture.parquet import write_capture
from simulator.capture.schema import Observation, to_batches
from simulator.definitions import Definitions
from simulator.replay import Database
from simulator.whatif.local import what_if_files
from simulator.whatif.result import WhatIfResult
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.sides import side_of

BEGIN_US = 1_767_225_600_000_000


def row(at_us: int, queue: str | None, message: str, keys: list[str], vhost: str = "/", **other: Any) -> Observation:
    """A delivery from the queue, or a publish."""
    values: dict[str, Any] = dict.fromkeys(Observation.__struct_fields__)
    values |= dict.fromkeys(("node", "user", "exchange", "connection"), "")
    values |= dict.fromkeys(("properties", "headers", "broker_headers"), "{}")
    values |= {"time_us": BEGIN_US + at_us, "file": "log", "line": at_us, "channel": 1, "payload": b""}
    values |= {"event": "published" if queue is None else "delivered", "queue": queue}
    return Observation(
        **values | {"message": message, "message_id": message, "routing_keys": keys, "vhost": vhost} | other
    )


def asked_of_rows(rows: list[Observation], document: dict[str, Any], tmp_path: Path, **arguments: int) -> WhatIfResult:
    """Ask what other arguments of the queue "one" would have done."""
    own = Definitions({"exchanges": [], "bindings": [], **document}, "definitions.json")
    other = with_settings(own, [read_setting(f"queue:one.{name}={value}", own) for name, value in arguments.items()])
    with write_capture(tmp_path / "log.parquet") as writer:
        for batch in to_batches(rows):
            writer.write(batch)
    with Database(tmp_path) as database:
        return what_if_files(database.parquet([tmp_path / "log.parquet"]), side_of(own, "4.3"), side_of(other, "4.3"))


def queue(name: str, vhost: str = "/", **arguments: Any) -> dict[str, Any]:
    return {"vhost": vhost, "name": name, "durable": True, "auto_delete": False, "arguments": arguments}


def test_where_an_exchange_chooses_at_random_no_message_is_played_as_an_example(tmp_path: Path) -> None:
    """Else the messages themselves would be sent elsewhere than on the other side."""
    bindings = [
        {"vhost": "/", "source": "any", "destination": name, "destination_type": "queue", "routing_key": ""}
        for name in ("one", "two")
    ]
    exchange = {"vhost": "/", "name": "any", "type": "x-local-random", "durable": True, "auto_delete": False}
    document = {"queues": [queue("one"), queue("two")], "exchanges": [exchange], "bindings": bindings}
    rows = [
        row(
            10_000 * number + delivered,
            ["one", "two"][number % 2] if delivered else None,
            f"m{number}",
            ["k"],
            exchange="any",
        )
        for number in range(40)
        for delivered in (0, 5_000)
    ]
    rows.append(row(900_000_000, None, "last", ["nowhere"]))
    asked = asked_of_rows(rows, document, tmp_path, **{"x-message-ttl": 20_000})
    assert asked.answer.changed == 0


def test_two_messages_of_one_lineage_are_two(tmp_path: Path) -> None:
    rows = [
        row(10_000 * number + delivered, "one" if delivered else None, message, ["one"], vhost)
        for number, (vhost, message) in enumerate([("/", "x\ny"), ("/\nx", "y")])
        for delivered in (0, 5_000)
    ]
    document = {"vhosts": [{"name": "/"}, {"name": "/\nx"}], "queues": [queue("one"), queue("one", "/\nx")]}
    assert asked_of_rows(rows, document, tmp_path).answer.messages == 2


def test_a_delivery_may_have_the_line_of_its_publish(tmp_path: Path) -> None:
    """Two captures may have one name."""
    rows = [
        row(10_000 * number + delivered, "one" if delivered else None, f"m{number}", ["one"], line=number)
        for number in range(5)
        for delivered in (0, 5_000)
    ]
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    asked = asked_of_rows(rows, {"queues": [queue("one", **dead), queue("dead")]}, tmp_path)
    assert [text.startswith("whether the 5 messages that ended in 'one'") for text in asked.answer.unchecked] == [True]


def test_of_one_id_in_two_virtual_hosts_the_message_that_changes_tells_why(tmp_path: Path) -> None:
    rows = [
        row(10_000 * number, None, f"m{number}", [key], vhost)
        for vhost, key in (("a", "one"), ("b", "two"))
        for number in range(4)
    ]
    rows.append(row(900_000_000, None, "last", ["nowhere"], "a"))
    document = {"vhosts": [{"name": "a"}, {"name": "b"}], "queues": [queue("one", "a"), queue("two", "b")]}
    asked = asked_of_rows(rows, document, tmp_path, **{"x-message-ttl": 20_000})
    assert [cause.messages for cause in asked.answer.causes] == [4]


def delivered_after(*waits_us: int, **other: Any) -> list[Observation]:
    """Messages that wait so long in the queue "one", and one much later, so that the log goes on."""
    rows = [
        row(1_000_000 * number + after_us, "one" if after_us else None, f"m{number}", ["one"], **other)
        for number, wait_us in enumerate(waits_us)
        for after_us in (0, wait_us)
    ]
    return [*rows, row(900_000_000, None, "last", ["nowhere"])]


def test_messages_around_a_ttl_are_told_apart_by_a_microsecond(tmp_path: Path) -> None:
    """All have the same rows in the same order: one that is delivered when its TTL ends is too late, too."""
    rows = delivered_after(*5 * [19_999], *5 * [20_000], *5 * [20_001])
    asked = asked_of_rows(rows, {"queues": [queue("one")]}, tmp_path, **{"x-message-ttl": 20})
    assert (asked.answer.changed, asked.answer.after.lost) == (10, {"one": {"expired": 10}})


def test_messages_that_come_elsewhere_wait_there_as_long_as_others_do(tmp_path: Path) -> None:
    """That is known when all first plays are over."""
    waits_us = [20_000 + 37 * number for number in range(20)]
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "two"}
    rows = delivered_after(*waits_us)
    rows += [
        row(500_000_000 + 1_000_000 * number + after_us, "two" if after_us else None, f"n{number}", ["two"])
        for number in range(5)
        for after_us in (0, 3_000 + number)
    ]
    document = {"queues": [queue("one", **dead), queue("two")]}
    asked = asked_of_rows(rows, document, tmp_path, **{"x-message-ttl": 10})
    assert (asked.answer.changed, asked.answer.assumed) == (20, 20)
    took_us = {each.story.message: each.after.last_us - each.after.first_us for each in asked.cases}
    assert {took_us[f"m{number}"] for number in range(20)} == {10_000 + 3_002}


def test_a_ttl_of_ages_ends_in_no_log(tmp_path: Path) -> None:
    """Of a policy RabbitMQ takes any number; in microseconds this one has more than 64 bits."""
    rows = delivered_after(*5 * [20_000])
    document = {"queues": [queue("one")]}
    ages = [
        {"vhost": "/", "name": "ages", "pattern": "one", "apply-to": "queues", "definition": {"message-ttl": 10**16}}
    ]
    with write_capture(tmp_path / "log.parquet") as writer:
        for batch in to_batches(rows):
            writer.write(batch)
    sides = [
        side_of(Definitions({"exchanges": [], "bindings": [], **document, **more}, "definitions.json"), "4.3")
        for more in ({}, {"policies": ages})
    ]
    for before, after in (sides, sides[::-1]):
        with Database(tmp_path) as database:
            assert what_if_files(database.parquet([tmp_path / "log.parquet"]), before, after).answer.changed == 0


def test_a_queue_with_a_highest_priority_of_0_couples_messages(tmp_path: Path) -> None:
    """It looks for expired messages by a timer that one message sets for another."""
    rows = delivered_after(*5 * [20_000])
    asked = asked_of_rows(rows, {"queues": [queue("one", **{"x-max-priority": 0})]}, tmp_path, **{"x-message-ttl": 10})
    assert [unit.queues for unit in asked.units if unit.queues] == [(("/", "one"),)]
    assert asked.answer.changed == 5


def test_messages_of_one_id_have_causes_of_their_own_where_no_virtual_host_is_named(tmp_path: Path) -> None:
    rows = [
        row(1_000_000 * number + after_us, name if after_us else None, f"m{number % 4}", [name], vhost)
        for number, (vhost, name) in enumerate([*4 * [("a", "one")], *3 * [("b", "two")]])
        for after_us in (0, 20_000)
    ]
    rows.append(row(900_000_000, None, "last", ["nowhere"], "a"))
    own = Definitions({"exchanges": [], "bindings": [], "queues": [
        {name: value for name, value in queue(each).items() if name != "vhost"} for each in ("one", "two")
    ]}, "definitions.json")  # fmt: skip
    texts = [f"queue:{name}.x-message-ttl=10" for name in ("one", "two")]
    other = with_settings(own, [read_setting(each, own) for each in texts])
    with write_capture(tmp_path / "log.parquet") as writer:
        for batch in to_batches(rows):
            writer.write(batch)
    with Database(tmp_path) as database:
        answer = what_if_files(
            database.parquet([tmp_path / "log.parquet"]), side_of(own, "4.3"), side_of(other, "4.3")
        ).answer
    assert sorted((cause.what, cause.messages) for cause in answer.causes) == [
        ("x-message-ttl of queue 'one': none → 10", 4),
        ("x-message-ttl of queue 'two': none → 10", 3),
    ]
