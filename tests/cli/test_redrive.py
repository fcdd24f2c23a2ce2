"""``dlx redrive``: what would become of messages, and bringing them back."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest

from simulator.capture.connected import exact_values
from simulator.cli.main import main
from simulator.redrive import bring_back, execute
from simulator.redrive import server as asking
from simulator.redrive.plan import RedrivePlanner
from simulator.redrive.server import ready_in
from tests.redrive.dead_letters import (
    DEAD,
    TIMED,
    WORK,
    Place,
    about_dead,
    answer,
    declare,
    let_die,
    ready,
    seen_by,
    simulated,
    with_six_dead,
)


@pytest.fixture
def place() -> Iterator[Place]:
    with with_six_dead("quorum") as found:
        yield found


def given(place: Place, *options: str) -> list[str]:
    return about_dead("redrive", place, *options)


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
        answer(capsys, given(place, "--execute", "--journal", str(tmp_path / how), *chosen), 0)
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
    answer(capsys, given(place, "--execute", "--journal", str(tmp_path / "j"), "--only", "id=typed"), 0)
    with exact_values(to_publish=True):
        ((_, properties, _),) = place.waiting(WORK)
    assert properties.headers.pop("at").replace(tzinfo=UTC) == at
    assert properties.headers == headers
    assert (properties.user_id, properties.priority) == (None, 3)


@pytest.mark.parametrize("options", [(), ("--execute",), ("work", "--to", "amq.direct", "--execute")])
def test_who_may_not_publish_is_told_before_a_message_is_touched(
    options: tuple[str, ...], place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal"
    assert main(given(seen_by(place, "monitoring", write="^other$"), *options, "--journal", str(journal))) == 69
    exchange = "amq.direct" if "--to" in options else "amq.default"
    said = capsys.readouterr().err
    assert f"no message was read or moved: ACCESS_REFUSED - write access to exchange '{exchange}'" in said
    assert not journal.exists()
    assert not place.waiting()[0][0].redelivered  # the one that expired, so no consumer has had it before


def test_a_monitoring_user_moves_what_it_may_publish(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with place.channel() as channel:
        for exchange in ("open", "closed"):
            channel.exchange_declare(exchange, durable=True)
            channel.queue_bind(WORK, exchange, exchange)
            channel.basic_publish(exchange, exchange, b"", pika.BasicProperties(message_id=exchange))
            method, _, _ = channel.basic_get(WORK)
            assert method is not None
            channel.basic_reject(method.delivery_tag, requeue=False)
    night = seen_by(place, "monitoring", configure="", write="^open$")
    options = ["--to", "published", "--execute", "--journal", str(tmp_path / "journal"), "--only", "id~open|closed"]
    found = answer(capsys, given(night, *options), 1)
    assert (found["moved"], found["refused"]["the broker refuses the publish"]) == (1, 1)
    assert ids(place, WORK) == ["open"]


def test_the_audit_file_is_as_private_as_the_journal_and_its_place_is_checked_first(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, audit = tmp_path / "journal", tmp_path / "journal.audit.jsonl"
    audit.mkdir()
    assert main(given(place, "--execute", "--journal", str(journal))) == 65
    assert "journal.audit.jsonl: Is a directory" in capsys.readouterr().err
    audit.rmdir()
    found = answer(capsys, given(place, "--execute", "--journal", str(journal)), 1)
    assert found["moved"] == 4
    assert [path.stat().st_mode & 0o777 for path in (journal, audit)] == [0o600, 0o600]


def test_only_what_is_asked_for_moves(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--only", "first-death=work rejected", "--only", "header.tenant!=t1", "--only", "id~^m[24]$"]
    found = answer(capsys, given(place, "--execute", "--journal", str(tmp_path / "journal"), *chosen), 0)
    assert (found["moved"], found["refused"]) == (2, {"not selected by --only": 4})
    assert ids(place, WORK) == ["m2", "m4"]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (
            ["first-death=work"],
            "'first-death=work' fits none, first-death is 'work rejected' (4), 'timed expired' (2);"
            " did you mean 'work rejected'?",
        ),
        (["reason!=expired", "header.tenant~^x"], "'header.tenant~^x' fits none, header.tenant is 't0' (3), 't1' (3)"),
        (
            ["id=m1", "reason=expired"],
            "none fits all expressions together: id=m1 (1), reason=expired (2)",
        ),
    ],
)
@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_if_nothing_is_chosen_it_says_what_there_is(
    execute: list[str], chosen: list[str], said: str, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        *execute,
        "--journal",
        str(tmp_path / "journal"),
        *(part for each in chosen for part in ("--only", each)),
    ]
    assert main(given(place, *options)) == 65
    assert f"--only chose none of 6 messages: {said}" in capsys.readouterr().err
    assert len(place.waiting()) == 6


def test_what_was_asked_for_and_done_ends_with_0(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given(place, "--only", "reason=rejected")) == 0
    assert main(given(place, "--only", "reason=expired")) == 1
    assert main(given(place, "--execute", "--max", "2", "--journal", str(tmp_path / "journal"))) == 1  # m0 stays
    assert main(given(place, "--execute", "--max", "1", "--only", "id=m2", "--journal", str(tmp_path / "one"))) == 65


def test_a_run_that_goes_on_says_what_was_done_before(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = ["--execute", "--journal", str(tmp_path / "journal")]
    answer(capsys, given(place, *journal, "--only", "id~^m[12]$"), 0)
    assert main(given(place, *journal)) == 1
    out, err = capsys.readouterr()
    assert "; 2 of 6 messages were moved before" in err
    assert "4 were left before, and are planned again: not selected by --only" in err
    assert "4 messages moved (2 of them by earlier runs), 2 left in the queue" in out


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


def test_how_fast_messages_come_decides_whether_they_meet(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """They live for 40 ms, in a queue that has room for one."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish", "x-message-ttl": 40}
    with place.channel() as channel:
        channel.queue_declare("short", durable=True, arguments=arguments)
    given_short = given(place, "short", "--to", "")
    at_once = {"dies again at once, and is lost": 1, "refused by a full queue": 5}
    assert answer(capsys, given_short, 1)["fates"] == at_once
    assert answer(capsys, [*given_short, "--rate", "100"], 1)["fates"] == {
        "dies again at once, and is lost": 2,  # the first, and the one 40 ms later
        "refused by a full queue": 4,
    }
    assert answer(capsys, [*given_short, "--rate", "20"], 1)["fates"] == {"dies again at once, and is lost": 6}


def test_what_is_gone_before_publishers_hear_that_they_should_stop_does_not_fill_a_queue(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"}
    with place.channel() as channel:
        for queue, ttl_ms in (("shorter", 1), ("longer", 600)):
            channel.queue_declare(queue, durable=True, arguments={**arguments, "x-message-ttl": ttl_ms})
    assert answer(capsys, given(place, "shorter", "--to", ""), 1)["fates"] == {"dies again at once, and is lost": 6}
    assert answer(capsys, given(place, "longer", "--to", ""), 1)["fates"] == {
        "dies again at once, and is lost": 2,
        "refused by a full queue": 4,
    }


def test_canaries_that_come_back_end_it(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring_back, "CANARY_S", 0.0)
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--allow", "dies-at-once", "--canary", "1"]
    found = answer(capsys, given(place, *options), 1)
    assert found["stopped"].startswith("1 message that was moved has come back")
    assert found["moved"] == 1


def test_other_messages_that_come_after_the_canaries_do_not_end_it(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring_back, "CANARY_S", 0.0)
    monkeypatch.setattr(bring_back, "ready_in", lambda server, queue: fail(place, "new") or ready_in(server, queue))
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--canary", "1"]
    found = answer(capsys, given(place, *options), 1)
    assert (found["moved"], found["stopped"]) == (4, "")
    assert ids(place, DEAD) == ["m0", "m3", "new"]


@pytest.mark.parametrize("with_id", [True, False])
def test_what_was_moved_and_comes_back_ends_it(
    with_id: bool, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without ids, bodies tell."""
    with place.channel() as channel:
        channel.queue_purge(DEAD)
        for number in range(40):
            properties = pika.BasicProperties(message_id=f"r{number}" if with_id else None)
            channel.basic_publish("", DEAD, b"body %d" % number, properties)
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--allow", "dies-at-once", "--rate", "50"]
    found = answer(capsys, given(place, TIMED, "--to", "", *options), 1)
    assert "messages that were moved have come back" in found["stopped"]
    assert ("known by their bodies" in found["stopped"]) == (not with_id)
    assert 10 <= found["moved"] < 40
    assert len(ids(place, DEAD)) == 40


def test_others_that_fail_meanwhile_do_not_end_it(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = RedrivePlanner.planned

    def failing(self: RedrivePlanner, *arguments: Any, **named: Any) -> Any:
        fail(place, *(f"n{number}" for number in range(4)))
        return planned(self, *arguments, **named)

    monkeypatch.setattr(RedrivePlanner, "planned", failing)
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--rate", "20"]
    found = answer(capsys, given(place, *options), 1)
    assert (found["moved"], found["stopped"]) == (4, "")
    assert ids(place, DEAD) == ["m0", "m3", *(f"n{number}" for number in range(4))] + [
        f"n{number}" for _ in range(5) for number in range(4)
    ]


def test_what_came_is_not_read_behind_too_many_others(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring_back, "CANARY_S", 0.0)
    monkeypatch.setattr(bring_back, "ready_in", lambda server, queue: fail(place, "new") or ready_in(server, queue))
    monkeypatch.setattr(execute, "AHEAD_MAX", 3)
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--canary", "1"]
    found = answer(capsys, given(place, *options), 1)
    assert "1 message came into the queue behind 5 others, and was not read" in found["stopped"]
    assert ids(place, DEAD) == ["m0", "m2", "m3", "m4", "m5", "new"]


def fail(place: Place, *ids: str) -> None:
    """Put other messages into the dead-letter queue."""
    with place.channel() as channel:
        channel.confirm_delivery()
        for each in ids:
            channel.basic_publish("", DEAD, b"body", pika.BasicProperties(message_id=each))


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
    assert "not a line of a journal" in capsys.readouterr().err


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_a_stream_and_a_queue_into_itself_are_refused(
    place: Place, execute: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with place.channel() as channel:
        channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    stream = [word if word != DEAD else "log" for word in given(place, *execute)]
    assert main(stream) == 65
    assert "'log' is a stream: nothing can be taken out of it" in capsys.readouterr().err
    assert main(given(place, DEAD, "--to", "", *execute)) == 65
    assert "'dead' would be moved into itself" in capsys.readouterr().err
    assert len(ids(place, DEAD)) == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "raeson=rejected"], "no field 'raeson'; did you mean 'reason'?"),
        (["--only", "reason"], "expected FIELD=VALUE"),
        (["--only", "id~["], "is not a regular expression"),
        (["--allow", "cicle"], "did you mean 'cycle'?"),
        (["--allow", "not-asked-for"], "no fate 'not-asked-for' to allow"),
        (["--to", "orders"], "'orders' needs a routing key after it"),
        (["--to", "", "--own-keys"], "needs --to EXCHANGE, and no routing key after it"),
    ],
)
def test_wrong_usage_is_explained(
    place: Place, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given(place, *options)) == 64
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("journal", "said"), [("missing/moved.jsonl", "No such file"), ("/dev/full", "No space left")])
def test_a_journal_that_cannot_be_written_moves_nothing(
    place: Place, journal: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / journal
    assert main(given(place, "--execute", "--journal", str(path))) == 65
    assert f"{path}: {said}" in capsys.readouterr().err
    assert len(ids(place, DEAD)) == 6


def test_a_disk_that_fills_up_ends_it_without_a_loss(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that cannot be written are those of the first confirms."""
    path, write = tmp_path / "moved.jsonl", os.write

    def full(file: int, data: bytes) -> int:
        if data.startswith(b'["confirmed"'):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        assert main(given(place, "--execute", "--journal", str(path))) == 65
    assert f"{path}: No space left" in capsys.readouterr().err
    found = answer(capsys, given(place, "--execute", "--journal", str(path)), 1)
    assert (found["moved"], found["left"], found["possible_duplicates"]) == (4, 2, ["m1", "m2", "m4", "m5"])
    assert (ids(place, WORK), ids(place, DEAD)) == (["m1", "m2", "m4", "m5"] * 2, ["m0", "m3"])


@pytest.mark.parametrize("command", [["inspect"], ["redrive"], ["redrive", "--execute"]])
def test_a_single_active_consumer_hides_all_messages(
    place: Place, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with place.channel() as channel:
        channel.queue_declare("alone", durable=True, arguments={"x-single-active-consumer": True})
        channel.basic_publish("", "alone", b"body")
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("alone", lambda *delivery: None)
        name, *options = command
        api = ["--management-url", place.server.management_url]
        assert main([name, place.amqp_url, "alone", *api, *options]) == 65
    assert "its single active consumer gets every message" in capsys.readouterr().err


def test_canaries_are_the_first_that_are_brought_back(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the first that are looked at: m0 and m1 are not asked for."""
    monkeypatch.setattr(bring_back, "CANARY_S", 0.0)
    seen: list[tuple[int, list[str]]] = []

    def in_queues(server: Any, queue: str) -> int:
        seen.append((place.api("GET", "overview") is not None, ids(place, WORK)))
        return 4

    monkeypatch.setattr(bring_back, "ready_in", in_queues)
    options = ["--execute", "--journal", str(tmp_path / "journal"), "--canary", "2", "--only", "id~^m[245]$"]
    found = answer(capsys, given(place, *options), 0)
    assert [moved for _, moved in seen] == [["m2", "m4"]]
    assert (found["moved"], ids(place, WORK)) == (3, ["m5"])


def test_fates_and_refusals_are_those_of_the_whole_journal(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bring_back, "CANARY_S", 0.0)
    journal = str(tmp_path / "journal")
    allowed = ["--execute", "--journal", journal, "--allow", "dies-at-once"]
    first = answer(capsys, given(place, *allowed, "--canary", "1"), 1)  # which comes back
    assert (first["fates"], first["moved"]) == ({"dies again at once": 1}, 1)
    second = answer(capsys, given(place, "--execute", "--journal", journal), 1)
    assert second["fates"] == {"dies again at once": 2, "arrives": 4}
    assert (second["planned"], second["moved"], second["left"]) == (6, 5, 1)
    assert second["refused"] == {"dies again at once": 1}
    third = answer(capsys, given(place, *allowed), 0)
    assert (third["fates"], third["refused"]) == ({"dies again at once": 2, "arrives": 4}, {})
    assert (third["planned"], third["moved"], third["left"]) == (6, 6, 0)
    assert ids(place, DEAD) == ["m0", "m3"]  # which came back, and were not there at the start


def test_the_audit_file_says_what_became_of_each_message(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, given(place, "--execute", "--journal", str(tmp_path / "journal")), 1)
    rows = [json.loads(line) for line in Path(found["audit"]).read_text().splitlines()]
    assert {row["message"]: (row["outcome"], row.get("to")) for row in rows} == {
        **dict.fromkeys(("m0", "m3"), ("stays", None)),
        **dict.fromkeys(("m1", "m2", "m4", "m5"), ("moved", "the queue 'work'")),
    }
    assert all(row["by"] and datetime.fromisoformat(row["at"]).tzinfo is not None for row in rows)
    assert rows[0]["why"].startswith("in 'timed' its time to live is 0 ms")


@pytest.mark.parametrize("how", ["strip", "keep"])
def test_the_dry_run_shows_what_a_message_would_carry(
    place: Place, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with place.channel() as channel:
        properties = pika.BasicProperties(
            message_id="full", headers={"tenant": "t9", "CC": ["elsewhere"]}, expiration="60000", user_id="guest"
        )
        channel.basic_publish("", DEAD, b"body", properties)
    found = answer(capsys, given(place, WORK, "--to", "", "--headers", how), 0)
    dead, published = found["messages"][1], found["messages"][-1]
    assert published["carries"] == {"tenant": "t9"}
    assert published["leaves_behind"] == {"CC": ["elsewhere"], "expiration": "60000", "user_id": "guest"}
    where = "carries" if how == "keep" else "leaves_behind"
    assert dead[where]["x-death"][0]["queue"] == WORK
    assert dead[where]["x-delivery-count"] == 1
    assert main(given(place, WORK, "--to", "", "--headers", how)) == 0
    shown = capsys.readouterr().out
    assert "CC (1 of them), expiration 60000 (1 of them)" in shown
    assert ("carrying tenant, x-acquired-count" in shown) == (how == "keep")


def test_ids_are_shown_whole(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    long = "-".join(["0123456789"] * 12)
    with place.channel() as channel:
        channel.basic_publish("", DEAD, b"body", pika.BasicProperties(message_id=long))
    main(given(place, WORK, "--to", "", "--only", f"id={long}"))
    assert f"such as {long}\n" in capsys.readouterr().out
    assert main(["inspect", place.amqp_url, DEAD, "--management-url", place.server.management_url]) == 0
    assert long in capsys.readouterr().out


def test_what_dies_at_once_is_followed_to_its_end(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    def to(queue: str) -> dict[str, str]:
        return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}

    with place.channel() as channel:
        for queue, arguments in (
            ("brief", {"x-message-ttl": 1, **to(DEAD)}),
            ("first", {"x-message-ttl": 0, **to("second")}),
            ("second", {"x-max-length": 0, **to("last")}),
            ("last", {}),
            ("lost", {"x-message-ttl": 1, **to("second no more")}),
            ("later", {"x-message-ttl": 60_000, **to(DEAD)}),
        ):
            channel.queue_declare(queue, durable=True, arguments=arguments)
    found = {}
    for queue in ("brief", "first", "lost", "later"):
        message = answer(capsys, given(place, queue, "--to", ""), 0 if queue == "later" else 1)["messages"][0]
        found[queue] = (message["fate"], message["queues"])
    assert found == {
        "brief": ("dies again at once", [DEAD]),
        "first": ("dies again at once", ["last"]),
        "lost": ("dies again at once, and is lost", []),
        "later": ("arrives", ["later"]),
    }
    assert f"after 60,000 ms in 'later' it comes to '{DEAD}'" in message["why"]


def test_internal_exchanges_and_exclusive_queues_are_known(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with place.channel() as channel:
        channel.exchange_declare("inside", internal=True)
        channel.queue_declare("own", exclusive=True, arguments={"x-message-ttl": 0})
        inside = answer(capsys, given(place, "key", "--to", "inside"), 1)
        assert inside["fates"] == {"the broker refuses the publish": 6}
        assert "is internal" in inside["messages"][0]["why"]
        own = answer(capsys, given(place, "own", "--to", ""), 1)
        assert own["fates"] == {"dies again at once, and is lost": 6}


def test_a_wrong_port_is_explained(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    management = place.server.management_url
    said = {}
    for port in (1, management.rsplit(":", 1)[1].strip("/")):
        url = f"amqp://guest:guest@127.0.0.1:{port}/?stack_timeout=2"
        assert main(["redrive", url, DEAD, "--management-url", management]) == 69
        said[port] = capsys.readouterr().err
    assert all("RabbitMQ's AMQP port is usually 5672" in text for text in said.values())
    assert "nothing listens there" in said[1]


@pytest.mark.parametrize(
    ("release", "limit", "order"),
    [
        ("4.0", {}, "rabbitmqctl set_policy -p / --apply-to queues redrive '^dead$' '{\"delivery-limit\": 1000}'"),
        ("4.3", {}, None),
        ("4.3", {"delivery_limit": 1}, "the queue was declared with that limit"),
        ("3.8", {"delivery_limit": 20}, "the queue was declared with that limit"),
        ("3.8", {}, None),
    ],
)
def test_messages_near_the_delivery_limit_are_not_touched(
    release: str, limit: dict[str, int], order: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where giving back counts, twenty looks are one too few for the run that would give them back once more."""
    with simulated(release) as place:
        declare(place, "quorum", **limit)
        let_die(place, 3)
        with place.channel() as channel:
            for _ in range(19):
                tags = [channel.basic_get(DEAD)[0].delivery_tag for _ in range(3)]  # type: ignore[union-attr]
                channel.basic_nack(max(tags), multiple=True)
        execute = given(place, "--execute", "--journal", str(tmp_path / "journal"), "--only", "id=m1")
        if order is None:
            assert main(execute) == 0
            assert ids(place, WORK) == ["m1"]
            return
        assert main(execute) == 65
        said = capsys.readouterr().err
        assert "nothing was moved" in said
        assert order in said
        assert ids(place, WORK) == []
        moved = answer(capsys, [*execute, "--allow", "exceeds-limit"], 0)
        assert (moved["moved"], ids(place, WORK)) == (1, ["m1"])


def test_what_would_go_round_for_ever_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it keeps its history with a rejection, 3.8 does not see the cycle."""
    with simulated("3.8") as place:
        declare(place, "classic")
        let_die(place, 1, expire=False)
        with place.channel() as channel:
            for queue, other in (("here", "there"), ("there", "here")):
                arguments = {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
                channel.queue_declare(queue, durable=True, arguments=arguments)
        kept = answer(capsys, given(place, "here", "--to", "", "--headers", "keep"), 1)
        assert kept["fates"] == {"dies again and again without end": 1}
        stripped = answer(capsys, given(place, "here", "--to", ""), 1)
        assert stripped["fates"] == {"dies again at once, and is lost": 1}


def test_what_is_discarded_is_kept_whole_and_can_be_put_back(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    with exact_values(to_publish=True), place.channel() as channel:
        typed = pika.BasicProperties(message_id="typed", priority=3, headers={"share": 0.5, "raw": b"\x00", "at": at})
        channel.basic_publish("", DEAD, b"\xff\x00", typed)
    discard = ["--discard", "--only", "id~^m[14]$|typed", "--journal", str(tmp_path / "j")]
    assert main(given(place, *discard)) == 0
    assert "3 would move  leaves the queue, and is kept in the archive" in capsys.readouterr().out
    archive = tmp_path / "j.archive.jsonl"
    assert not archive.exists()
    assert main(given(place, *discard, "--execute")) == 0
    assert f"--put-back {archive}" in capsys.readouterr().err
    assert archive.stat().st_mode & 0o777 == 0o600
    with place.channel() as channel:
        assert ready(channel, DEAD) == 4
    assert answer(capsys, given(place, "--put-back", str(archive)), 0)["put_back"] == 0
    first = answer(capsys, given(place, "--put-back", str(archive), "--only", "id=typed", "--execute"), 0)
    assert (first["archived"], first["put_back"]) == (3, 1)
    rest = answer(capsys, given(place, "--put-back", str(archive), "--execute"), 0)
    assert (rest["put_back_before"], rest["put_back"]) == (1, 2)
    with exact_values(to_publish=True):
        waiting = {str(properties.message_id): (properties, body) for _, properties, body in place.waiting()}
    assert (list(waiting)[:4], len(waiting)) == (["m0", "m2", "m3", "m5"], 7)  # the priorities order the others
    properties, body = waiting["typed"]
    assert (properties.priority, properties.headers["share"], properties.headers["raw"], body) == (
        3,
        0.5,
        b"\x00",
        b"\xff\x00",
    )
    assert properties.headers["at"].replace(tzinfo=UTC) == at
    assert waiting["m1"][0].headers["x-death"][0]["queue"] == WORK


def test_what_was_discarded_is_inspected_in_the_archive(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLX_URL", place.amqp_url)  # where a file is given, it is not asked
    queue = answer(capsys, about_dead("inspect", place))
    answer(capsys, given(place, "--discard", "--journal", str(tmp_path / "j"), "--execute"))
    archive = str(tmp_path / "j.archive.jsonl")
    assert answer(capsys, given(place, "--put-back", archive, "--max", "2", "--execute"))["put_back"] == 2
    found = answer(capsys, ["inspect", archive, DEAD, "--out", str(tmp_path / "again.parquet")])
    assert found["groups"] == queue["groups"]
    assert found["notes"][0].startswith("2 of 6 messages were put back since")
    assert answer(capsys, ["inspect", str(tmp_path / "again.parquet"), DEAD])["groups"] == queue["groups"]
    (life,) = answer(capsys, ["inspect", archive, "--message", "m1", "--body"])["lives"]
    assert (life["body"], life["headers"]["tenant"]) == ("body", "t1")
    monkeypatch.delenv("DLX_URL")
    assert main(["inspect", str(tmp_path / "again.parquet")]) == 64
    assert "again.parquet is no archive of dlx redrive --discard" in capsys.readouterr().err
    assert main(["inspect", archive, WORK]) == 65
    assert "an archive of the queue 'dead' of virtual host '/' at http://127.0.0.1:" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--discard"]])
def test_a_run_that_is_refused_leaves_no_files(
    options: list[str], place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with place.channel() as channel:
        channel.queue_declare("deadly", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 0})
    asked = ["redrive", place.amqp_url, "deadly", "--management-url", place.server.management_url, *options]
    assert main([*asked, "--execute", "--journal", str(tmp_path / "j")]) == 65
    assert "nothing was moved" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_was_on_its_way_back_when_it_was_killed_is_named(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(given(place, "--discard", "--max", "3", "--journal", str(tmp_path / "j"), "--execute")) == 0
    archive = tmp_path / "j.archive.jsonl"
    publish = pika.adapters.blocking_connection.BlockingChannel.basic_publish

    def publish_and_end(self: Any, exchange: str, key: str, body: bytes, *args: Any, **named: Any) -> None:
        publish(self, exchange, key, body, *args, **named)
        if args[0].message_id == "m1":
            raise SystemExit(137)

    with monkeypatch.context() as patched, suppress(SystemExit):
        patched.setattr(pika.adapters.blocking_connection.BlockingChannel, "basic_publish", publish_and_end)
        main(given(place, "--put-back", str(archive), "--execute"))
    capsys.readouterr()
    for put_back, before in ((2, 1), (0, 3)):
        assert main(given(place, "--put-back", str(archive), "--execute", "--json")) == 0
        said = capsys.readouterr()
        assert "possible duplicate: m1 (an earlier run may have put it back)" in said.err
        found = json.loads(said.out)
        assert (found["put_back"], found["put_back_before"], found["possible_duplicates"]) == (put_back, before, ["m1"])
    assert sorted(ids(place, DEAD)) == ["m0", "m1", "m1", "m2", "m3", "m4", "m5"]


def test_a_queue_that_refuses_doubles_nothing(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(given(place, "--discard", "--max", "1", "--journal", str(tmp_path / "j"), "--execute")) == 0
    archive = tmp_path / "j.archive.jsonl"

    publish = pika.adapters.blocking_connection.BlockingChannel.basic_publish

    def refuse(self: Any, exchange: str, key: str, body: bytes, *args: Any, **named: Any) -> None:
        if args and args[0].message_id == "m0":
            raise pika.exceptions.NackError([])
        publish(self, exchange, key, body, *args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(pika.adapters.blocking_connection.BlockingChannel, "basic_publish", refuse)
        assert main(given(place, "--put-back", str(archive), "--execute")) == 65
    assert "'m0' was not put back: the queue refuses it" in capsys.readouterr().err
    assert not (tmp_path / "j.archive.jsonl.put-back").exists()
    assert answer(capsys, given(place, "--put-back", str(archive), "--execute"), 0)["possible_duplicates"] == []
    (tmp_path / "j.archive.jsonl.put-back").write_text("1\nx\n")
    assert main(given(place, "--put-back", str(archive), "--execute")) == 65
    assert "put-back:2: expected the number of a message that was put back, found 'x'" in capsys.readouterr().err


def test_many_headers_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.3") as place, place.channel() as channel:
        declare(place, "classic")
        channel.basic_publish("", DEAD, b"", pika.BasicProperties(headers={f"k{n:02}": "v" for n in range(15)}))
        command = given(place, "--to", "", WORK)
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert len(answer(capsys, command, 0)["messages"][0]["carries"]) == 15
    assert shown.startswith("1 message; nothing was moved")
    assert "carrying k00 v, " in shown
    assert "k11 v, and 3 more (--json has all)\n" in shown


def test_a_message_without_x_death_needs_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.3") as place, place.channel() as channel:
        declare(place, "classic")
        channel.basic_publish("", DEAD, b"")
        assert main(given(place)) == 1
    assert "no header names its origin" in (shown := capsys.readouterr().out)
    assert "it has no x-death: give --to EXCHANGE KEY\n" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--discard", "--canary", "2"], "--discard and --canary do not go together"),
        (["--discard", "--headers", "keep"], "--discard and --headers do not go together"),
        (["work", "--discard", "--to", ""], "--discard and --to do not go together"),
    ],
)
def test_discarding_takes_no_address(
    options: list[str], said: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given(place, *options)) == 64
    assert said in capsys.readouterr().err


def test_a_discard_that_cannot_be_written_down_leaves_the_messages(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "j.archive.jsonl").mkdir()
    assert main(given(place, "--discard", "--journal", str(tmp_path / "j"), "--execute")) == 65
    assert "j.archive.jsonl: Is a directory" in capsys.readouterr().err
    (tmp_path / "other").write_text("{}\n")
    assert main(given(place, "--put-back", str(tmp_path / "other"))) == 65
    assert "other:1: not a line of an archive" in capsys.readouterr().err
    with place.channel() as channel:
        channel.queue_declare("small", durable=True, arguments={"x-max-length": 1})
    assert main(given(place, "--discard", "--journal", str(tmp_path / "k"), "--max", "2", "--execute")) == 0
    command = [place.amqp_url, "small", "--management-url", place.server.management_url]
    assert main(["redrive", *command, "--put-back", str(tmp_path / "k.archive.jsonl"), "--execute"]) == 65
    assert "'small' holds 1 message at most, and has no room for 2 more" in capsys.readouterr().err
    assert ids(place, DEAD) == ["m2", "m3", "m4", "m5"]
