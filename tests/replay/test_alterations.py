"""A log altered in one place is reported at that place, and nowhere else."""

from __future__ import annotations

import pytest

from tests.replay.logs import altered, deliveries, example_definitions, example_records, write_log

RECORDS = example_records("4.3")
DEFINITIONS = example_definitions("4.3")


def _dead_letter(minimum=2):
    """A delivery with that many deaths, of a message that is delivered again after it."""
    for index, record in enumerate(RECORDS):
        deaths = record["properties"].get("headers", {}).get("x-death", [])
        if record["type"] == "received" and record["queue"] == "orders.work" and len(deaths) >= minimum:
            later = [r for r in RECORDS[index + 1 :] if _identity(r) == _identity(record)]
            if later:
                return index
    raise AssertionError("the example has no such delivery")


def _identity(record):
    return record["properties"].get("message_id")


def _bad(tmp_path, records):
    rows = deliveries(write_log(tmp_path / "trace.log", records), DEFINITIONS)
    return [row for row in rows if row["verdict"] != "agree"]


def _set_death(field, value):
    def change(record):
        record["properties"]["headers"]["x-death"][0][field] = value

    return change


def _set(field, value):
    def change(record):
        record[field] = value

    return change


def _set_header(name, value):
    def change(record):
        record["properties"]["headers"][name] = value

    return change


@pytest.mark.parametrize(
    ("change", "field", "seen"),
    [
        (_set_death("count", 7), "x-death[0].count", "7"),
        (_set_death("reason", "maxlen"), "x-death[0].reason", '"maxlen"'),
        (_set_death("queue", "orders.parking"), "x-death[0].queue", '"orders.parking"'),
        (_set_death("exchange", "elsewhere"), "x-death[0].exchange", '"elsewhere"'),
        (_set_death("routing-keys", ["other"]), "x-death[0].routing-keys[0]", '"other"'),
        (_set("routing_keys", ["another"]), "routing_keys[0]", '"another"'),
        (_set("exchange", "another"), "exchange", '"another"'),
        (_set_header("x-first-death-queue", "other"), "x-first-death-queue", '"other"'),
        (_set_header("x-last-death-reason", "maxlen"), "x-last-death-reason", '"maxlen"'),
        (_set_header("added", 1), "headers.added", "1"),
    ],
)
def test_one_changed_field_is_one_difference(tmp_path, change, field, seen):
    index = _dead_letter()
    bad = _bad(tmp_path, altered(RECORDS, index, change))
    assert [(row["line"], row["verdict"]) for row in bad] == [(index + 1, "differ")]
    assert [(d["field"], d["seen"]) for d in bad[0]["differences"]] == [(field, seen)]


def test_a_changed_property_is_named(tmp_path):
    index = _dead_letter()

    def change(record):
        record["properties"]["app_id"] = "forged"

    (row,) = _bad(tmp_path, altered(RECORDS, index, change))
    assert row["line"] == index + 1
    (difference,) = row["differences"]
    assert (difference["field"], difference["seen"]) == ("properties.app_id", '"forged"')


def test_a_removed_publish_leaves_its_first_delivery_unchecked(tmp_path):
    wanted = _identity(RECORDS[_dead_letter()])
    publish = next(i for i, r in enumerate(RECORDS) if r["type"] == "published" and _identity(r) == wanted)
    first = next(i for i, r in enumerate(RECORDS) if r["type"] == "received" and _identity(r) == wanted)
    path = write_log(tmp_path / "altered.log", [*RECORDS[:publish], *RECORDS[publish + 1 :]])
    found = deliveries(path, DEFINITIONS)
    assert {row["verdict"] for row in found} == {"agree"}
    unchecked = [row["line"] for row in found if "publish" in [each["what"] for each in row["unchecked"]]]
    assert unchecked == [first], "one line up: the publish is gone"
