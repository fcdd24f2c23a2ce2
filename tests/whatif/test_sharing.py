"""Messages that share a play get what each would get that is played by itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulator.capture.parquet import write_capture
from simulator.capture.schema import Observation, to_batches
from simulator.definitions import Definitions
from simulator.generate import Wish, generate
from simulator.replay import Database
from simulator.replay.rows.tables import select
from simulator.whatif import shared_player
from simulator.whatif.local import what_if_files
from simulator.whatif.page import page
from simulator.whatif.plain_player import PlainPlayer
from simulator.whatif.result import WhatIfResult
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.sides import side_of
from tests.long import some_in_ci
from tests.whatif.asking import AskedTwice, ask
from tests.whatif.random_questions import random_question
from tests.whatif.test_second_side import UNCOUPLED, definitions

SAME_MOMENTS = "SELECT * REPLACE (time_us DIV 2000000 * 2000000 AS time_us) FROM {log}"
TWO_FILES = "SELECT * REPLACE (if(line % 3 = 0, 'a', 'b') AS file) FROM {log}"
NO_CONNECTIONS = "SELECT * REPLACE (if(line % 2 = 0, '', 'all') AS connection) FROM {log}"


NO_LOG = {75}
"""Seeds of topologies in which no message gets anywhere."""


def told(asked: WhatIfResult) -> tuple[Any, ...]:
    """All that people get."""
    rows = sorted(map(repr, asked.frame().to_dict("records")))
    ways = sorted((repr(way), *of_way) for way, of_way in asked.tally.ways.items())
    lives = sorted(asked.lives)
    return (
        msgspec.json.encode(asked.answer),
        rows,
        ways,
        lives,
        page(asked.answer, asked.tally, asked.lives, ("1", "2")),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", some_in_ci([seed for seed in range(100) if seed not in NO_LOG], {1, 5, 6, 9, 13, 14, 17, 21})
)
def test_each_message_gets_what_its_own_play_gives(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = random.Random(seed)
    before, after, unseen = random_question(given)
    faults = given.choice((0, 0, 50))
    definitions_json, diversity = before.definitions.to_json(), given.choice(("low", "high"))
    generate(Wish(definitions_json, 800, before.release.name, seed, diversity, faults), tmp_path)
    monkeypatch.setattr("simulator.replay.rows.tables.BATCH_ROWS", given.choice((50, 400, 10_000)))
    if given.random() < 0.3:
        monkeypatch.setattr(shared_player, "KNOWN_MAX", 10)  # what is known is forgotten all the time
    with Database(tmp_path) as database:
        log = database.parquet(sorted(tmp_path.glob("log-*.parquet")))
        for change in (UNCOUPLED, SAME_MOMENTS, TWO_FILES, NO_CONNECTIONS):
            if given.random() < 0.4:
                log = select(change, log=log)
        shared = what_if_files(log, before, after, unseen=unseen, examples=True)
        plain = what_if_files(log, before, after, unseen=unseen, examples=True, player_of=PlainPlayer)
    assert told(shared) == told(plain)


@pytest.mark.parametrize("against", ["4.3", "3.13"])
def test_most_messages_by_themselves_share_a_play(against: str, tmp_path: Path) -> None:
    generate(Wish(definitions().to_json(), 1_000, "4.3", 1), tmp_path)
    with Database(tmp_path) as database:
        log = select(UNCOUPLED, log=database.parquet(sorted(tmp_path.glob("log-*.parquet"))))
        asked = what_if_files(log, side_of(definitions(), "4.3"), side_of(definitions(), against))
    assert sum(len(each.names) for each in asked.cases) == asked.answer.messages
    assert sharing(asked) > 0.5 * asked.answer.messages


def sharing(asked: WhatIfResult) -> int:
    """How many messages share a play with others."""
    return sum(len(each.names) for each in asked.cases if len(each.names) > 1)


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


def asked_of_rows(rows: list[Observation], document: dict[str, Any], tmp_path: Path, **arguments: int) -> AskedTwice:
    """Ask what other arguments of the queue "one" would have done."""
    own = Definitions({"exchanges": [], "bindings": [], **document}, "definitions.json")
    other = with_settings(own, [read_setting(f"queue:one.{name}={value}", own) for name, value in arguments.items()])
    with write_capture(tmp_path / "log.parquet") as writer:
        for batch in to_batches(rows):
            writer.write(batch)
    with Database(tmp_path) as database:
        return ask(database.parquet([tmp_path / "log.parquet"]), side_of(own, "4.3"), side_of(other, "4.3"))


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
    assert sharing(asked) == 4
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
    assert sharing(asked) == 15


def test_messages_that_come_elsewhere_share_a_play(tmp_path: Path) -> None:
    """They wait there as long as others do, which is known when all first plays are over."""
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
    took_us = {
        name: ends_us[3] - ends_us[2]
        for each in asked.cases
        for name, ends_us in zip(each.names, each.ends_us, strict=True)
    }
    assert sharing(asked) == 25
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
            assert ask(database.parquet([tmp_path / "log.parquet"]), before, after).answer.changed == 0


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
        answer = ask(database.parquet([tmp_path / "log.parquet"]), side_of(own, "4.3"), side_of(other, "4.3")).answer
    assert sorted((cause.what, cause.messages) for cause in answer.causes) == [
        ("x-message-ttl of queue 'one': none → 10", 4),
        ("x-message-ttl of queue 'two': none → 10", 3),
    ]
