"""``dlx redrive``: what would become of messages, and bringing them back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest

from simulator.capture.amqp_values import exact_values
from simulator.cli.main import main
from simulator.redrive import bring_back, server as asking
from tests.redrive.dead_letters import DEAD, TIMED, WORK, Place, declare, let_die, simulated


@pytest.fixture
def place() -> Iterator[Place]:
    """A simulated 4.3 with six messages in a dead-letter queue: two expired in a queue with a TTL of 0."""
    with simulated("4.3") as found:
        declare(found, "quorum")
        let_die(found, 6)
        yield found


def given(place: Place, *options: str) -> list[str]:
    return ["redrive", place.amqp_url, DEAD, "--management-url", place.server.management_url, *options]


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def ids(place: Place, queue: str) -> list[str]:
    return [str(properties.message_id) for _, properties, _ in place.waiting(queue)]


def test_without_execute_nothing_moves(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, given(place), 1)
    assert found["fates"] == {"arrives": 4, "dies again at once": 2}
    assert (found["planned"], found["moved"], found["left"], found["would_stay"]) == (6, 0, 6, 2)
    assert found["messages"][1]["to"] == {"exchange": "", "routing_key": "work"}
    assert ids(place, DEAD) == [f"m{number}" for number in range(6)]


def test_people_see_what_stays_first(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(given(place)) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("6 messages; nothing was moved")
    assert shown.index("2 would stay  dies again at once") < shown.index("4 would move  arrives")
    assert "Assumed: the definitions stay as they are." in shown


def test_what_arrives_is_moved_and_the_rest_stays(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, given(place, "--execute", "--journal", str(tmp_path / "journal")), 1)
    assert (found["planned"], found["moved"], found["left"]) == (6, 4, 2)
    assert found["refused"] == {"dies again at once": 2}
    assert (ids(place, WORK), ids(place, DEAD)) == (["m1", "m2", "m4", "m5"], ["m0", "m3"])


def test_the_broker_s_headers_stay_behind_or_are_counted(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for how, wanted in (
        ("strip", {"tenant": "t1"}),
        ("attempts", {"tenant": "t1", "x-failed-attempts": 1}),
    ):
        chosen = ["--only", "id=m1", "--headers", how]
        answer(capsys, given(place, "--execute", "--journal", str(tmp_path / how), *chosen), 1)
        ((method, properties, _),) = place.waiting(WORK)
        assert (method.exchange, properties.headers) == ("", wanted)
        with place.channel() as channel:  # it dies once more, for the next round
            channel.basic_publish("", WORK, b"body", pika.BasicProperties(message_id="m1", headers={"tenant": "t1"}))
            got, _, _ = channel.basic_get(WORK)
            assert got is not None
            channel.basic_reject(got.delivery_tag, requeue=False)


def test_headers_keep_their_types_and_the_user_is_left_out(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    headers = {"share": 0.5, "raw": b"\x00\xff", "far": 2**40, "none": None}
    with exact_values(to_publish=True), place.channel() as channel:
        typed = pika.BasicProperties(message_id="typed", user_id="guest", headers={**headers, "at": at}, priority=3)
        channel.basic_publish("", WORK, b"body", typed)
        got, _, _ = channel.basic_get(WORK)
        assert got is not None
        channel.basic_reject(got.delivery_tag, requeue=False)
    answer(capsys, given(place, "--execute", "--journal", str(tmp_path / "j"), "--only", "id=typed"), 1)
    with exact_values(to_publish=True):
        ((_, properties, _),) = place.waiting(WORK)
    assert properties.headers.pop("at").replace(tzinfo=UTC) == at
    assert properties.headers == headers
    assert (properties.user_id, properties.priority) == (None, 3)


def test_only_what_is_asked_for_moves(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--only", "first-death=work rejected", "--only", "header.tenant!=t1", "--only", "id~^m[24]$"]
    found = answer(capsys, given(place, "--execute", "--journal", str(tmp_path / "journal"), *chosen), 1)
    assert (found["moved"], found["refused"]) == (2, {"not asked for": 4})
    assert ids(place, WORK) == ["m2", "m4"]


def test_a_fate_can_be_allowed(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--allow", "dies-at-once", "--max", "6"]
    found = answer(capsys, given(place, *options), 0)
    assert (found["moved"], found["left"]) == (6, 0)
    assert ids(place, DEAD) == ["m0", "m3"]  # they came back, and were not taken again
    assert ids(place, TIMED) == []


def test_another_address_and_one_without_a_queue(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = answer(capsys, given(place, "nobody", "--to", ""), 1)
    assert nowhere["fates"] == {"routed nowhere": 6}
    missing = answer(capsys, given(place, "eu", "--to", "shop"), 1)
    assert missing["messages"][0]["why"] == "there is no exchange 'shop'"
    with place.channel() as channel:
        channel.queue_declare("parked", durable=True)
    found = answer(capsys, given(place, "parked", "--to", "", "--execute", "--journal", str(tmp_path / "j")), 0)
    assert found["moved"] == 6
    assert ids(place, "parked") == [f"m{number}" for number in range(6)]


def test_what_was_routable_and_is_not_comes_back_to_its_queue(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The definitions have changed since they were read: the broker itself says so."""
    held = asking.held_by_queue

    def deleted_meanwhile(server: Any) -> dict[str, Any]:
        found = held(server)
        place.api("DELETE", f"queues/%2F/{WORK}")
        return found

    monkeypatch.setattr(asking, "held_by_queue", deleted_meanwhile)
    found = answer(capsys, given(place, "--execute", "--journal", str(tmp_path / "journal")), 1)
    assert (found["moved"], found["left"], found["refused"]) == (0, 6, {"routed nowhere": 4, "dies again at once": 2})
    assert ids(place, DEAD) == [f"m{number}" for number in range(6)]


def test_a_full_queue_is_seen_beforehand(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with place.channel() as channel:
        channel.queue_declare("small", durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
        channel.queue_declare("dropping", durable=True, arguments={"x-max-length": 2})
    assert answer(capsys, given(place, "small", "--to", ""), 1)["fates"] == {
        "arrives": 2,
        "refused by a full queue": 4,
    }
    assert answer(capsys, given(place, "dropping", "--to", ""), 1)["fates"] == {
        "arrives": 2,
        "arrives, and pushes another message out": 4,
    }


def test_canaries_that_come_back_end_it(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring_back, "CANARY_S", 0.0)
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--allow", "dies-at-once", "--canary", "1"]
    found = answer(capsys, given(place, *options), 1)
    assert found["stopped"] == "1 messages came into the queue after the canaries"
    assert found["moved"] == 1


def test_canaries_that_stay_away_let_the_rest_go(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring_back, "CANARY_S", 0.0)
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--canary", "2"]
    found = answer(capsys, given(place, *options), 1)
    assert (found["planned"], found["moved"], found["left"], found["stopped"]) == (6, 4, 2, "")


def test_a_journal_of_another_redrive_is_refused(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal"
    answer(capsys, given(place, "--execute", "--journal", str(journal)), 1)
    assert main(given(place, "--execute", "--journal", str(journal), "--headers", "keep")) == 65
    assert "the journal was begun with headers 'strip', and this is 'keep'" in capsys.readouterr().err
    journal.write_bytes(journal.read_bytes() + b"{}\n")
    assert main(given(place, "--execute", "--journal", str(journal))) == 65
    assert "no line of a journal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "raeson=rejected"], "no field 'raeson'; did you mean 'reason'?"),
        (["--only", "reason"], "expected FIELD=VALUE"),
        (["--only", "id~["], "is no regular expression"),
        (["--allow", "arives"], "did you mean 'arrives'?"),
        (["--to", "orders"], "'orders' needs a routing key behind it"),
    ],
)
def test_wrong_usage_is_explained(
    place: Place, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given(place, *options)) == 64
    assert said in capsys.readouterr().err
