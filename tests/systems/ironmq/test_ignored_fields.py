"""Fields that IronMQ does not know: ignored with 200, and told on the log and in the answers of the strict mode."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from simulator.systems.ironmq import fields
from simulator.systems.ironmq.fields import Shape, ignored
from simulator.systems.ironmq.settings import FIELDS
from tests.systems.ironmq.client import Client

_NO_SUCH = "is ignored: IronMQ has no such field here"


@pytest.mark.parametrize(
    ("request_", "shape", "told"),
    [
        ({"queue": {"dead_letter": {"queue_name": "dead", "max_reservations": 3}}}, fields.QUEUE, []),
        (
            {"queue": {"dead_leter": {"queue_name": "dead"}}},
            fields.QUEUE,
            [f"queue.dead_leter {_NO_SUCH}; did you mean queue.dead_letter?"],
        ),
        (
            {"dead_letter": {"queue_name": "dead"}},
            fields.QUEUE,
            [f"dead_letter {_NO_SUCH}; did you mean queue.dead_letter?"],
        ),
        (
            {"queue": {"dead_letter": {"name": "dead", "max_reservation": 3}}},
            fields.QUEUE,
            [
                f"queue.dead_letter.name {_NO_SUCH}; did you mean queue.dead_letter.queue_name?",
                f"queue.dead_letter.max_reservation {_NO_SUCH}; did you mean queue.dead_letter.max_reservations?",
            ],
        ),
        (
            {"messages": [{"body": "a"}, {"body": "b", "delai": 1, "zzz": 2}]},
            fields.MESSAGES,
            [f"messages[1].delai {_NO_SUCH}; did you mean messages[1].delay?", f"messages[1].zzz {_NO_SUCH}"],
        ),
        ({"messages": [{"body": "a", "push_headers": {"anything": "b"}}]}, fields.MESSAGES, []),
        ({"queue": None, "messages": "no list"}, fields.MESSAGES, [f"queue {_NO_SUCH}"]),
    ],
)
def test_what_is_ignored(request_: dict[str, Any], shape: Shape, told: list[str]) -> None:
    assert ignored(request_, shape) == told


def test_every_setting_is_known() -> None:
    assert set(FIELDS) <= set(fields.QUEUE["queue"])


@pytest.mark.parametrize("strict", [False, True])
def test_the_server_tells_on_its_log_and_strictly_in_its_answer(strict: bool, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(strict=strict)
    with caplog.at_level(logging.WARNING):
        answer = client.call("PUT", "/queues/jobs", {"queue": {"dead_leter": {"queue_name": "dead"}}})
    warning = f"queue.dead_leter {_NO_SUCH}; did you mean queue.dead_letter?"
    assert answer.status == 200
    assert "dead_letter" not in answer.body["queue"]
    assert answer.body.get("warnings") == ([warning] if strict else None)
    assert [record.message for record in caplog.records] == [f"PUT /3/projects/p/queues/jobs: {warning}"]


def test_a_strict_answer_to_a_request_without_such_fields_is_as_ever() -> None:
    sent = {"queue": {"message_timeout": 30}}
    assert Client().call("PUT", "/queues/jobs", sent) == Client(strict=True).call("PUT", "/queues/jobs", sent)
