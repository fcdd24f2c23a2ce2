"""Logs as they come: rows lost, twice, out of order, of other virtual hosts. None of it is blamed on the broker."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from simulator.capture import open_log
from simulator.capture.parquet import write_capture
from simulator.capture.schema import Observation, to_batches
from simulator.definitions import parse_definitions, read_definitions
from simulator.replay.engines.local import local_engine
from simulator.replay.results.headline import headline
from simulator.replay.results.summary import Summary
from simulator.replay.run import prepare, run_replay
from tests.replay.logs import Log, definitions_of, example_definitions, example_records, write_log

TESTS = Path(__file__).parents[1]
CAPTURES = {
    "4.3": TESTS / "whatif" / "recorded" / "4.3" / "own",
    "3.10": TESTS / "whatif" / "recorded" / "3.10" / "own",
    "3.8": TESTS / "replay" / "captures" / "3.8",
}


def records_of(release):
    with gzip.open(CAPTURES[release] / "trace.log.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def summary_of(log, definitions, rules, tmp_path) -> Summary:
    work = tmp_path / "work"
    work.mkdir()
    prepared = prepare([log], work, definitions=definitions)
    with local_engine(work) as engine:
        return run_replay(engine, prepared, definitions, work, rules=rules).summary


def lacking(records, chance):
    gone = set(chance.sample(range(len(records)), len(records) // 100 + 1))
    return [record for at, record in enumerate(records) if at not in gone]


def at_once_again(records, chance):
    twice = set(chance.sample(range(len(records)), len(records) // 100 + 1))
    return [each for at, record in enumerate(records) for each in [record] * (1 + (at in twice))]


def sent_again(records, chance):
    """Some rows once more at the end, as a shipper sends them that had no answer."""
    return [*records, *chance.sample(records, len(records) // 100 + 1)]


def shuffled(records, chance):
    found = list(records)
    for at in chance.sample(range(len(records)), len(records) // 100 + 1):
        found.insert(chance.randrange(len(found)), found.pop(at))
    return found


def without_a_file(records, chance):
    begin = chance.randrange(len(records) * 2 // 3)
    return records[:begin] + records[begin + len(records) // 5 :]


def interleaved(records, chance):
    half = len(records) // 2
    return [each for pair in zip(records[:half], records[half:], strict=False) for each in pair] + records[2 * half :]


def whole_again(records, chance):
    return [*records, *records]


@pytest.mark.parametrize(
    "damage", [lacking, whole_again, at_once_again, sent_again, shuffled, without_a_file, interleaved]
)
@pytest.mark.parametrize("release", list(CAPTURES))
def test_damage_is_not_blamed_on_the_broker(release, damage, tmp_path):
    definitions = read_definitions(CAPTURES[release] / "definitions.json")
    records = records_of(release)
    log = write_log(tmp_path / "trace.log", damage(records, random.Random(damage.__name__)))
    found = summary_of(log, definitions, release, tmp_path)
    assert found.explained
    if damage is sent_again:
        assert found.twice == len(records) // 100 + 1
    if damage is whole_again:
        assert found.twice == len(records)
    if damage in (sent_again, interleaved):
        assert found.behind_us > 100_000
        assert any(each.startswith("Rows of the log are out of order, by up to") for each in told(found))


def told(summary):
    found = headline(summary, "4.3")
    return (found.text, *found.more)


def test_a_client_whose_publish_is_lost_is_not_blamed(tmp_path):
    """Its consumer publishes again what failed, and of one such message the log lacks the second publish."""
    log = write_log(tmp_path / "trace.log", lacking(example_records("4.3"), random.Random(0)))
    found = summary_of(log, example_definitions("4.3"), "4.3", tmp_path)
    assert (found.differ, found.unexplained) == (0, 0)
    assert found.unchecked["rejection"] > 3
    assert any("rows of the log are missing" in each for each in told(found))


def test_wrong_definitions_are_found_in_a_log_that_lacks_rows(tmp_path):
    log = write_log(tmp_path / "trace.log", lacking(example_records("4.3"), random.Random(0)))
    found = summary_of(
        log, example_definitions("4.3", orders_work__x_dead_letter_exchange="shop.dead"), "4.3", tmp_path
    )
    assert found.differ + found.unexplained > 50


def test_redeliveries_within_a_millisecond_do_not_stand_twice(tmp_path):
    """The examples have equal rows side by side, of classic queues."""
    log = write_log(tmp_path / "trace.log", example_records("4.3"))
    assert summary_of(log, example_definitions("4.3"), "4.3", tmp_path).twice == 0


@pytest.mark.parametrize(("flag", "twice"), [(False, 1), (True, 0)])
def test_what_is_no_redelivery_stands_twice_side_by_side(flag, twice, tmp_path):
    definitions = definitions_of({"work": {}})
    log = Log().publish("", "work").deliver("work", "", ["work"]).deliver("work", "", ["work"])
    log.records[2]["timestamp"] = log.records[1]["timestamp"]
    trace = write_log(tmp_path / "trace.log", log.records)
    rows = [Observation(**row) for batch in open_log(trace) for row in batch.to_pylist()]
    rows[1:] = [msgspec.structs.replace(row, redelivered=flag) for row in rows[1:]]
    with write_capture(tmp_path / "log.parquet") as writer:
        for batch in to_batches(rows):
            writer.write(batch)
    assert summary_of(tmp_path / "log.parquet", definitions, "4.3", tmp_path).twice == twice


def test_an_acknowledgement_without_a_delivery_is_told(tmp_path):
    definitions = read_definitions(CAPTURES["4.3"] / "definitions.json")
    trace = write_log(tmp_path / "trace.log", records_of("4.3"))
    rows = [Observation(**row) for batch in open_log(trace) for row in batch.to_pylist()]
    came = Counter((row.message, row.queue) for row in rows if row.event == "delivered")
    last = max(at for at, row in enumerate(rows) if came[row.message, row.queue] == 1)
    rows[last] = msgspec.structs.replace(rows[last], event="acked")
    with write_capture(tmp_path / "log.parquet") as writer:
        for batch in to_batches(rows):
            writer.write(batch)
    found = summary_of(tmp_path / "log.parquet", definitions, "4.3", tmp_path)
    assert found.undelivered == 1
    assert (
        "1 message came back from a consumer, or was acknowledged, without a delivery: rows of the log are missing"
        in (told(found))
    )


@pytest.mark.parametrize("names_its_own", [True, False])
def test_rows_of_another_virtual_host_are_left_out(names_its_own, tmp_path):
    path = CAPTURES["4.3"] / "definitions.json"
    document = json.loads(path.read_bytes())
    definitions = read_definitions(path)
    records = records_of("4.3")
    alone = summary_of(write_log(tmp_path / "alone.log", records), definitions, "4.3", tmp_path)
    if not names_its_own:
        for kind in ("vhosts", "original_vhost_name"):
            document.pop(kind, None)
        for kind in ("queues", "exchanges", "bindings", "policies"):
            document[kind] = [{k: v for k, v in each.items() if k != "vhost"} for each in document[kind]]
        definitions = parse_definitions(json.dumps(document).encode(), "definitions.json")
        assert not definitions.vhost_named
    others = [{**each, "vhost": "b", "queue": each["queue"] and f"other.{each['queue']}"} for each in records]
    both = [each for pair in zip(records, others, strict=True) for each in pair]
    (tmp_path / "both").mkdir()
    found = summary_of(write_log(tmp_path / "both.log", both), definitions, "4.3", tmp_path / "both")
    assert msgspec.structs.replace(found, left_out={}) == alone
    assert found.left_out == {"b": len(records)}
    assert any(
        each.startswith("629 rows of virtual host 'b' are left out: the definitions are") for each in told(found)
    )
