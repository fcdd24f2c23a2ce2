"""What a log shows of its messages: in which queue they were, died and came back, and what they carried."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.capture.traffic import LogTraffic

DEATH = '[{"count":1,"queue":"work","reason":"expired","original-expiration":"100"}]'


def row(event: str, message: str, **fields: Any) -> dict[str, Any]:
    empty = {
        "vhost": "/",
        "queue": None,
        "routed_queues": None,
        "routing_keys": ["k"],
        "redelivered": None,
        "expiration": None,
        "properties": "{}",
        "headers": "{}",
        "broker_headers": "{}",
        "x_death": None,
    }
    return {**empty, "event": event, "message": message, **fields}


def published(message: str, *queues: str, **fields: Any) -> dict[str, Any]:
    return row("published", message, routed_queues=list(queues), **fields)


def delivered(message: str, queue: str, **fields: Any) -> dict[str, Any]:
    return row("delivered", message, queue=queue, **fields)


def counted(*rows: dict[str, Any]) -> LogTraffic:
    traffic = LogTraffic()
    for each in rows:
        traffic.add(each)
    return traffic


def test_messages_are_counted_once_by_queue() -> None:
    traffic = counted(published("m", "work", "copy"), delivered("m", "work"), published("n", "work"))
    assert traffic.total == 2
    assert [traffic.messages("any message", "/", [queue]) for queue in ("work", "copy", "other")] == [2, 1, 0]
    assert traffic.messages("any message", "/") == 2
    assert traffic.messages("any message", "elsewhere") == 0


@pytest.mark.parametrize(
    "second",
    [
        delivered("m", "work"),
        delivered("m", "work", redelivered=True),
        delivered("m", "work", broker_headers='{"x-delivery-count":1}'),
    ],
)
def test_a_second_delivery_is_a_return(second: dict[str, Any]) -> None:
    assert counted(delivered("m", "work"), second).messages("return", "/", ["work"]) == 1


def test_a_first_delivery_and_one_of_a_dead_letter_are_no_returns() -> None:
    traffic = counted(delivered("m", "work"), delivered("n", "work"), delivered("m", "work", x_death=DEATH))
    assert traffic.messages("return", "/", ["work"]) == 0


def test_a_dead_letter_died_in_the_queues_that_it_names() -> None:
    traffic = counted(delivered("m", "dead", x_death=DEATH))
    assert traffic.messages("death", "/", ["work"]) == 1
    assert traffic.messages("death", "/", ["dead"]) == 0
    assert traffic.messages("dead letter", "/", ["dead"]) == 1
    assert traffic.messages("expiration", "/", ["work"]) == 1


def test_a_forged_history_names_no_queue() -> None:
    traffic = counted(delivered("m", "dead", x_death='"forged"'), delivered("n", "dead", x_death="[1,{}]"))
    assert traffic.messages("death", "/") == 0
    assert traffic.messages("dead letter", "/") == 2


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"expiration": "100"}, "expiration"),
        ({"routing_keys": ["k", "other"]}, "CC"),
        ({"headers": '{"CC":["other"]}'}, "CC"),
        ({"properties": '{"priority":3}'}, "priority"),
        ({"x_death": DEATH}, "republished"),
    ],
)
def test_what_a_publish_carries(fields: dict[str, Any], kind: str) -> None:
    traffic = counted(published("m", "work", **fields), published("n", "work"))
    assert traffic.messages(kind, "/", ["work"]) == 1
    others = {"expiration", "CC", "priority", "republished"} - {kind}
    assert [traffic.messages(other, "/") for other in others] == [0, 0, 0]


def test_broken_records_are_told() -> None:
    traffic = LogTraffic()
    assert not any("cannot be read" in each for each in traffic.unchecked)
    traffic.broken = 3
    assert any("3 records" in each for each in traffic.unchecked)
