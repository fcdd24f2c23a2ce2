"""``dlx inspect``: a dead-letter queue of a running server, or what was written of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest

from simulator.cli.main import main
from tests.redrive.dead_letters import DEAD, Place, about_dead, answer, declare, let_die, seen_by, simulated


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A simulated 4.3 with four messages in a classic dead-letter queue."""
    with simulated("4.3") as found:
        declare(found, "classic")
        let_die(found, 4)
        yield found


def given(place: Place, *options: str) -> list[str]:
    return about_dead("inspect", place, *options)


def sizes(found: dict[str, Any], name: str) -> dict[str, int]:
    return {group["value"]: group["messages"] for group in found["groups"][name]}


def test_groups_are_by_death_key_and_header(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, given(place, "--header", "tenant", "--header", "region"))
    assert (found["messages"], found["release"], found["unseen"]) == (4, "4.3", 0)
    assert sizes(found, "first death") == {"timed expired": 2, "work rejected": 2}
    assert sizes(found, "reason") == {"expired": 2, "rejected": 2}
    assert sizes(found, "routing key") == {"timed": 2, "work": 2}
    assert sizes(found, "header tenant") == {"t0": 2, "t1": 2}
    assert sizes(found, "header region") == {"no region": 4}
    assert found["groups"]["first death"][0]["example"] == "m0"


def test_people_see_groups_and_what_was_not_seen(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(given(place)) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("4 messages in 'dead' of http://127.0.0.1:")
    assert "guest" not in shown
    assert "work rejected" in shown
    assert "Not seen: messages that consumers hold" in shown


def test_of_some_the_rest_is_counted(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, given(place, "--max", "1"))
    assert (found["messages"], found["unseen"]) == (1, 3)
    assert found["unchecked"][0] == "3 of 4 messages"


def test_what_another_queue_holds_that_would_come_here_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.3") as place:
        declare(place, "classic")
        with place.channel() as channel:
            holds = {
                "x-queue-type": "quorum",
                "x-dead-letter-strategy": "at-least-once",
                "x-overflow": "reject-publish",
            }
            channel.exchange_declare("dying", "topic", durable=True)
            channel.queue_bind(DEAD, "dying", "known")
            channel.queue_declare("held", durable=True, arguments={"x-dead-letter-exchange": "dying", **holds})
            channel.confirm_delivery()
            for _ in range(2):
                channel.basic_publish("", "held", b"")
                got, _, _ = channel.basic_get("held")
                assert got is not None
                channel.basic_reject(got.delivery_tag, requeue=False)
        unchecked = answer(capsys, given(place))["unchecked"]
    assert unchecked[0] == "2 that died in 'held' and are held there until a queue takes their dead letters"


def test_one_message_is_told_in_sentences(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(given(place, "--message", "m1")) == 0
    publish, death, now = capsys.readouterr().out.splitlines()
    assert publish == "Published to the default exchange with 'work'."
    assert death.endswith("UTC: In 'work' a consumer rejected it.")
    assert now.startswith("Now it waits in 'dead', where it came through the default exchange with 'dead'")


def test_one_message_is_shown_whole_by_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.3") as place:
        declare(place, "classic")
        with place.channel() as channel:
            for body in (b"one", "zwölf".encode(), b"\xff\x00", b"behind"):
                properties = pika.BasicProperties(content_type="text/plain", headers={"tenant": "t1"})
                channel.basic_publish("", DEAD, body, properties)
        assert main(given(place, "--message", "#2", "--headers", "--body")) == 0
        shown = capsys.readouterr().out
        assert '"content_type": "text/plain"' in shown
        assert '"tenant": "t1"' in shown
        assert shown.endswith("Body, 6 bytes:\nzwölf\n")
        (raw,) = answer(capsys, given(place, "--message", "#3", "--body"))["lives"]
        assert (raw["body_base64"], raw["headers"]) == ("/wA=", {"tenant": "t1"})
        assert [method.redelivered for method, _, _ in place.waiting()] == [True, True, True, False]


def test_what_is_written_can_be_inspected_again(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "dead.parquet"
    live = answer(capsys, given(place, "--out", str(out)))
    again = answer(capsys, ["inspect", str(out), DEAD])
    assert again["groups"] == live["groups"]
    assert again["where"] == str(out)
    assert out.stat().st_mode & 0o777 == 0o600  # it has the bodies


@pytest.mark.parametrize("asked", [["inspect"], ["inspect", "--message", "m0"], ["doctor", "--sample", "1"]])
def test_a_count_that_a_dead_letter_brought_along_kills_nothing_for_sure(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Until a message was given back, a quorum queue of 4.0 shows the count of the queue before."""
    with simulated("4.0") as place, place.channel() as channel:
        declare(place, "quorum", delivery_limit=1)
        dying = {"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
        channel.queue_declare("level", durable=True, arguments=dying)
        channel.basic_publish("", "level", b"", pika.BasicProperties(message_id="m0"))
        method, _, _ = channel.basic_get("level")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
        name, *options = asked
        assert main(about_dead(name, place, *options)) == 1
        shown = " ".join(capsys.readouterr().out.split())
        assert "Reading may have killed 'm0': giving it back exceeded the delivery limit, unless the count" in shown
        assert len(place.waiting()) == 1


def test_a_device_is_not_replaced_by_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with simulated("4.3") as place:
        declare(place, "classic")
        let_die(place, 1)
        assert main(given(place, "--out", str(pipe))) == 65
        assert [method.redelivered for method, _, _ in place.waiting()] == [False]
    assert "pipe: cannot be written: Is a device or a pipe; a file is needed" in capsys.readouterr().err
    assert pipe.is_fifo()


def test_deaths_of_one_second_are_told_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    died = {"count": 1, "exchange": "", "time": datetime(2026, 1, 2, tzinfo=UTC)}
    entries = [
        {**died, "queue": "wait", "reason": "expired", "routing-keys": ["wait"]},
        {**died, "queue": "work", "reason": "rejected", "routing-keys": ["work"]},
    ]
    with simulated("4.3") as place, place.channel() as channel:
        declare(place, "classic")
        properties = pika.BasicProperties(message_id="again", headers={"x-death": entries})
        channel.basic_publish("", DEAD, b"", properties)
        assert main(given(place, "--message", "again")) == 0
    _, first, second, _ = capsys.readouterr().out.splitlines()
    assert "In 'work' a consumer rejected it" in first
    assert "In 'wait' its time to live ran out" in second


def test_messages_of_one_id_stay_apart_in_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "dead.parquet"
    with simulated("4.3") as place:
        declare(place, "classic")
        with place.channel() as channel:
            for _ in range(4):
                channel.basic_publish("", DEAD, b"the same")
        live = answer(capsys, given(place, "--out", str(out)))
    again = answer(capsys, ["inspect", str(out), DEAD])
    assert (live["messages"], again["messages"]) == (4, 4)
    assert again["groups"] == live["groups"]


def test_both_ways_of_looking_find_the_same(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    consumed = answer(capsys, given(place))
    got = answer(capsys, ["inspect", place.server.management_url, DEAD])
    assert got["groups"] == consumed["groups"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ([DEAD[:-1]], 65, "did you mean 'dead'?"),
        ([DEAD, "--vhost", "shop"], 65, "no virtual host 'shop'"),
        ([DEAD, "--message", "m9"], 65, "no message 'm9' among the 4 that were read"),
        ([DEAD, "--message", "#5"], 65, "no message '#5' among the 4 that were read"),
        ([DEAD, "--body"], 64, "--body needs --message ID"),
    ],
)
def test_what_is_not_there_is_named(
    place: Place, args: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", place.amqp_url, *args, "--management-url", place.server.management_url]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "options", "code", "said"),
    [
        ("ftp://host", [], 64, "expected amqp://USER@HOST/VHOST"),
        (
            "amqp://user:secret@127.0.0.1:5673/",
            [],
            64,
            "cannot guess the management API of port 5673; pass --management-url",
        ),
        ("http://127.0.0.1:1", ["--peek", "consume"], 64, "--peek consume needs the server's AMQP URL"),
        ("http://user:secret@127.0.0.1:1", [], 69, "no answer"),
        ("nothing.parquet", [], 65, "nothing.parquet: No such file or directory"),
    ],
)
def test_wrong_sources_are_refused_without_their_password(
    source: str, options: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", source, DEAD, *options]) == code
    shown = capsys.readouterr().err
    assert said in shown
    assert "secret" not in shown


def test_a_capture_shows_the_last_delivery_of_each_message(capsys: pytest.CaptureFixture[str]) -> None:
    logs = sorted(Path("examples/captured-4.3").glob("trace.log*"))
    found = answer(capsys, ["inspect", str(logs[0]), "orders.work"])
    assert found["messages"] > 0
    assert "what happened to the messages after their last delivery in the file" in found["unchecked"]


def test_a_queue_without_deliveries_is_no_empty_answer(capsys: pytest.CaptureFixture[str]) -> None:
    logs = sorted(Path("examples/captured-4.3").glob("trace.log*"))
    assert main(["inspect", str(logs[0]), "orders.wrk"]) == 65
    assert "no delivery from a queue 'orders.wrk'; did you mean 'orders.work'" in capsys.readouterr().err


def test_a_look_that_would_kill_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.0") as place:
        declare(place, "quorum", delivery_limit=0)
        let_die(place, 1)
        assert main(given(place)) == 65
        assert "the delivery limit 0 counts that" in capsys.readouterr().err
        assert [properties.message_id for _, properties, _ in place.waiting()] == ["m0"]


@pytest.mark.parametrize("release", ["3.8", "4.3"])
@pytest.mark.parametrize("tag", ["management", "policymaker", "monitoring"])
def test_whoever_is_no_administrator_looks_and_is_told_what_was_not_seen(
    release: str, tag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with simulated(release) as place:
        declare(place, "classic")
        let_die(place, 4)
        by_administrator = answer(capsys, given(place))
        found = answer(capsys, given(seen_by(place, tag, configure="", write="")))
    assert found["groups"] == by_administrator["groups"]
    assert any("is no administrator, so this was not seen: users" in note for note in found["notes"])


def test_what_keeps_a_file_from_being_written_ends_it_before_a_message_is_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with simulated("4.3") as place:
        declare(place, "classic")
        let_die(place, 2)
        assert main(given(place, "--out", str(tmp_path / "none" / "dead.parquet"))) == 65
        assert "dead.parquet: cannot be written: No such file or directory" in capsys.readouterr().err
        assert not place.waiting()[0][0].redelivered  # the one that expired, so no consumer has had it before
