"""``dlx doctor``: what an operator sees of a full dead-letter queue, and the command to run next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from simulator.cli.main import main
from simulator.redrive import diagnosis
from simulator.redrive.diagnosis import Growth, Length
from simulator.redrive.server import queue_on, server_at
from tests.redrive.dead_letters import (
    DEAD,
    WORK,
    Place,
    about_dead,
    answer,
    declare,
    let_die,
    ready,
    seen_by,
    simulated,
    until,
    with_six_dead,
)

SCREEN = 40


@pytest.fixture
def place() -> Iterator[Place]:
    with with_six_dead("classic") as found:
        yield found


def given(place: Place, *options: str) -> list[str]:
    return about_dead("doctor", place, *options)


def screen(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def a_user(place: Place, tags: str, read: str = ".*", write: str = "") -> list[str]:
    """Return the command as another user gives it, who may read those queues."""
    return given(seen_by(place, tags, configure="", read=read, write=write))


def test_one_screen_says_what_matters_first(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    shown = screen(capsys, given(place))
    parts = [
        *("6 messages in 'dead'", "4  work rejected", "Lost or held", "Consumers", "2  would stay: dies again at once"),
        *("4  would move: arrives in 'work'", "Next", "dlx redrive", "What reading did", "Not seen", "Assumed"),
    ]
    assert sorted(parts, key=shown.index) == parts
    lines = shown.splitlines()
    assert len(lines) <= SCREEN
    assert [line for line in lines if len(line) > 80 and "dlx " not in line] == []
    assert "guest:guest" not in shown


@pytest.mark.parametrize("through", ["amqp", "management"])
def test_the_next_command_can_be_run(place: Place, through: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = given(place) if through == "amqp" else ["doctor", place.server.management_url, DEAD]
    found = answer(capsys, asked)
    command = shlex.split(found["next_command"])
    assert command[:2] == ["dlx", "redrive"]
    assert command[command.index("--only") + 1] == "first-death=work rejected"
    for option in ("--execute", "--canary", "5"):  # a dry run shows as much, at once
        command.remove(option)
    assert main(command[1:]) == 0
    assert "4 would move  arrives" in capsys.readouterr().out


def test_without_a_url_it_is_the_one_in_the_environment(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLX_URL", place.server.management_url)
    assert answer(capsys, ["doctor", DEAD])["read"] == 6


def test_nothing_moves_and_the_order_stays(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, given(place, "--sample", "2"))
    assert (found["read"], found["length"]["ready"], found["unchecked"][0]) == (2, 6, "4 of 6 messages")
    assert [properties.message_id for _, properties, _ in place.waiting()] == [f"m{number}" for number in range(6)]


def test_where_the_limit_counts_each_read_few_are_read_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.0") as place:
        declare(place, "quorum")
        let_die(place, 25, expire=False)
        assert answer(capsys, given(place))["read"] == diagnosis.COUNTED_SAMPLE
        with place.channel() as channel:
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume(DEAD, lambda *_: None)
            found = answer(capsys, given(place))
        assert found["read"] == 0
        assert "counts each read" in found["why_next"]
        assert found["next_command"].startswith("dlx doctor ")
        assert answer(capsys, shlex.split(found["next_command"])[1:])["read"] == 25


def test_below_a_small_limit_no_message_comes_nearer_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.0") as place:
        declare(place, "quorum", delivery_limit=3)
        let_die(place, 2, expire=False)
        assert answer(capsys, given(place))["read"] == 0
        assert [properties.headers.get("x-delivery-count") for _, properties, _ in place.waiting()] == [None, None]


def test_what_would_kill_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.0") as place:
        declare(place, "quorum", delivery_limit=0)
        let_die(place, 1, expire=False)
        found = answer(capsys, given(place, "--sample", "1"))
        assert (found["read"], found["next_command"]) == (0, "")
        assert "so the message dies" in found["why_next"]
        assert len(place.waiting()) == 1


def test_losses_and_holds_on_the_way_come_first(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    safe = {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    with place.channel() as channel:
        channel.exchange_declare("deliver", "direct")
        channel.queue_bind(DEAD, "deliver", "dead")
        channel.queue_declare("level", durable=True, arguments={**safe, "x-dead-letter-exchange": "deliver"})
        to_work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": WORK}
        channel.queue_declare("wait", arguments={**to_work, "x-message-ttl": 60_000}, durable=True)
        channel.queue_declare("elsewhere", arguments={"x-dead-letter-exchange": "missing"}, durable=True)
        lost = {"x-dead-letter-exchange": "deliver", "x-message-ttl": 60_000}
        channel.queue_declare("fragile", arguments=lost, durable=True)
        channel.basic_publish("", "level", b"body")
        until(lambda: ready(channel, "level"))
        method, _, _ = channel.basic_get("level")
        channel.basic_reject(method.delivery_tag, requeue=False)
        until(lambda: answer(capsys, given(place))["held"] == {"level": 1})
    found = answer(capsys, given(place))
    assert sorted(found["sources"]) == ["fragile", "level", "timed", "wait", "work"]
    assert found["findings"][0]["object"] == "fragile"
    assert "elsewhere" not in {each["object"] for each in found["findings"]}
    shown = screen(capsys, given(place))
    assert "1 dead letter of 'level' is held in it" in shown
    assert shown.index("letters of 'fragile'") < shown.index("letters of 'level' with") < shown.index("Consumers")


def test_consumers_are_named_with_their_client(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    parameters = pika.URLParameters(place.amqp_url)
    parameters.client_properties = {"connection_name": "billing"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume(WORK, lambda *_: None, consumer_tag="worker")
        (consumer,) = answer(capsys, given(place))["consumers"]
        assert consumer.pop("since") is not None
        assert consumer == {"queue": WORK, "tag": "worker", "prefetch": 7, "client": "billing"}
        shown = screen(capsys, given(place))
        assert "'work': worker of billing, prefetch 7, connected since" in shown
        assert "none of 'dead', 'timed'" in shown
        of_another = screen(capsys, a_user(place, "management"))
    assert "none that this user may see of 'dead', 'timed', 'work'" in of_another
    assert "consumers of other users" in " ".join(of_another.split())


@pytest.mark.parametrize("tags", ["monitoring", "policymaker", "management"])
def test_no_administrator_is_needed(place: Place, tags: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, a_user(place, tags))
    assert (found["read"], found["sees_all"]) == (6, tags == "monitoring")
    assert any("'night' is no administrator" in each for each in found["unchecked"])
    assert not any("administrator" in each for each in found["did"])
    assert found["next_command"].endswith("--ask-password")
    assert "secret" not in found["next_command"] + found["lint_command"]


def test_the_next_command_gets_in_as_this_one_did(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "a password"
    secret.write_text("secret\n")
    asked = [each.replace(":secret@", "@") for each in a_user(place, "monitoring", write=".*")]
    command = shlex.split(answer(capsys, [*asked, "--password-file", str(secret)])["next_command"])
    assert command[-2:] == ["--password-file", str(secret)]
    for option in ("--execute", "--canary", "5"):
        command.remove(option)
    assert main(command[1:]) == 0


def test_who_may_not_read_sees_the_rest(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, a_user(place, "monitoring", read="^other$"))
    assert (found["read"], found["length"]["ready"], sorted(found["sources"])) == (0, 6, ["timed", "work"])
    assert "ACCESS_REFUSED" in found["why_next"]
    assert "nothing was read, and nothing has changed" in screen(capsys, a_user(place, "monitoring", read="^other$"))


def test_a_queue_that_grows_is_not_redriven(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "length_of", lambda *_: Length(6, 0, 0, Growth(400, 600, 40, 60)))
    assert "it grew by 400 in 10 min, by 40 in the last 1 min: still growing" in " ".join(
        screen(capsys, given(place)).split()
    )
    found = answer(capsys, given(place))
    assert "mend what kills the messages first" in found["why_next"]
    assert "--execute" not in found["next_command"]


def test_growth_is_between_the_samples_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [{"sample": 100 - number, "timestamp": 1_000_000 - 10_000 * number} for number in range(61)]
    shown = {"messages_ready": 100, "messages_details": {"samples": samples}}
    monkeypatch.setattr(diagnosis, "shown_by_api", lambda *_: shown)
    found = diagnosis.length_of(server_at("http://guest:guest@127.0.0.1:1"), DEAD)
    assert found == Length(100, 0, 0, Growth(60, 600, 6, 60))


def test_an_empty_queue_and_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated("4.3") as place:
        declare(place, "classic")
        empty = answer(capsys, given(place))
        assert (empty["why_next"], empty["next_command"]) == ("There is nothing to bring back.", "")
        with place.channel() as channel:
            channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        asked = ["doctor", place.amqp_url, "log", "--management-url", place.server.management_url]
        assert answer(capsys, asked)["next_command"].startswith("dlx inspect ")


def test_a_queue_without_a_dead_letter_key_leads_here_only_where_messages_show_it(place: Place) -> None:
    with place.channel() as channel:
        channel.queue_declare("own-key", durable=True, arguments={"x-dead-letter-exchange": ""})
    flow = queue_on(place.server, DEAD).flow
    assert sorted(diagnosis.leading_to(flow, DEAD)) == ["timed", "work"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([DEAD[:-1]], 65, "did you mean 'dead'?"),
        ([DEAD, "--vhost", "shop"], 65, "no virtual host 'shop'"),
        ([], 64, "Missing argument 'QUEUE'"),
        ([DEAD, "--sample", "-1"], 64, "Invalid value for '--sample'"),
    ],
)
def test_what_is_not_there_is_named(
    place: Place, options: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", place.amqp_url, *options, "--management-url", place.server.management_url]) == code
    assert said in capsys.readouterr().err
