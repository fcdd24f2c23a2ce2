"""What a recording shows of clients takes the place of assumptions: in lint, fuzz, explain and upgrade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from dlx.releases import RELEASES, release
from simulator.capture.journal import CaptureFile
from simulator.capture.schema import Observation
from simulator.cli.main import main
from simulator.record.recording import RecordedLoss, RecordedPublishes, RecordedQueue, RecordedRefusal, read_recording
from simulator.record.seen_clients import clients_seen
from simulator.scenario.trial import Trial
from tests.record.made import binding, celery, exchange, queue, write

Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *args: str, status: int | None = None) -> str:
    found = main(list(args))
    out, err = capsys.readouterr()
    assert status in (None, found), err
    return str(out)


def report(capsys: Capture, *args: str) -> Any:
    return json.loads(printed(capsys, *args, "--json"))


def findings(capsys: Capture, folder: str, *args: str) -> list[tuple[str, str, str]]:
    """The findings of lint, in order: rule, object, and what it rests on."""
    found = report(capsys, "lint", folder, *args)["findings"]
    return [(each["code"], each["object"], each["basis"]) for each in found]


def facts(capsys: Capture, folder: str, *args: str) -> list[tuple[str, str]]:
    return [(each["kind"], each["text"]) for each in report(capsys, "lint", folder, *args)["recording"]["facts"]]


def work(folder: Path, **rest: Any) -> str:
    """A quorum queue without a dead-letter exchange to which a client publishes."""
    given: dict[str, Any] = {
        "queues": (queue("work", type="quorum", delivery_limit=3),),
        "published": [RecordedPublishes(vhost="/", exchange="", routing_key="work", times=5)],
    }
    return write(folder, **(given | rest))


def did(**counts: int) -> list[RecordedQueue]:
    return [RecordedQueue(vhost="/", queue="work", entered=5, consumers=1, deliveries=5, **counts)]


def test_a_recording_is_its_definitions(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    found = report(capsys, "lint", folder)
    assert {each["place"]["file"] for each in found["findings"]} == {f"{folder}/definitions.json"}
    assert not [each for each in found["assumed"] if "omits" in each]
    for command in (["settings", folder], ["graph", folder]):
        assert "emails" in printed(capsys, *command, status=0)


def test_seen_comes_before_what_follows_and_that_before_what_is_assumed(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    assert findings(capsys, folder) == [
        ("DLX002", "emails", "seen"),
        ("DLX003", "celery", "follows"),
        ("DLX002", "reports", "assumed"),
    ]
    text = printed(capsys, "lint", folder, status=1)
    assert (
        "seen: 3 messages lost like this; the first, last published to exchange 'celery' with routing key 'emails'"
        in text
    )
    assert "follows: 140 messages came into 'celery' and consumers of 'celery' rejected 4" in text
    assert "assumed: it takes a consumer of 'reports' that returns messages; the recording has 6 acks" in text
    assert "196 messages of 2 clients" in text
    assert "Not recorded: what other brokers got." in text


@pytest.mark.parametrize(("held", "basis"), [(0, "follows"), (3, "seen")])
def test_dead_letters_that_a_queue_held_at_the_end_were_seen(
    tmp_path: Path, capsys: Capture, held: int, basis: str
) -> None:
    holds = {"dead_letter_exchange": "dead", "dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    folder = work(
        tmp_path / "app",
        queues=(queue("work", type="quorum", **holds),),
        exchanges=(exchange("dead", "direct"),),
        consumed=did(rejected=5, held=held),
    )
    assert ("DLX003", "work", basis) in findings(capsys, folder)
    said = "seen: 'work' held 3 dead letters when the recording ended"
    assert (said in printed(capsys, "lint", folder)) == bool(held)


def test_losses_that_were_seen_come_first_then_what_the_broker_refused(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    (kind, text), (second, _), *_ = facts(capsys, folder)
    assert (kind, second) == ("refused", "unroutable")
    assert text.startswith("queue.declare was refused to worker@host (py-amqp 5.2.0): 406 PRECONDITION_FAILED")
    told = printed(capsys, "lint", folder)
    places = [told.index(each) for each in ("seen: 3 messages", "refused:", "unroutable:", "follows:")]
    assert places == sorted(places)


def test_a_refusal_alone_is_told_with_exit_code_1(tmp_path: Path, capsys: Capture) -> None:
    refused = [RecordedRefusal(vhost="/", method="queue.declare", code=406, text="PRECONDITION_FAILED")]
    folder = write(tmp_path / "app", queues=(queue("plain"),), refusals=refused)
    assert "406 PRECONDITION_FAILED" in printed(capsys, "lint", folder, status=1)
    assert "406 PRECONDITION_FAILED" in printed(capsys, "lint", folder, "--fail-on", "lost", status=0)


@pytest.mark.parametrize(
    ("consumed", "basis", "words"),
    [
        (did(acked=2, requeued=3, failed=3), "follows", "consumers of 'work' returned 3"),
        (did(acked=5, requeued=3), "assumed", "and none that the delivery limit counts under 4.3"),
        (did(acked=4, abandoned=1), "follows", "consumers of 'work' returned 1"),
        (did(acked=5), "assumed", "5 acks of 'work', and nothing returned"),
        (did(), "assumed", "5 deliveries from 'work', and not how they ended"),
        ([], "assumed", "no consumer of 'work'"),
    ],
)
def test_a_return_that_a_loss_takes_was_seen_or_not(
    tmp_path: Path, capsys: Capture, consumed: list[RecordedQueue], basis: str, words: str
) -> None:
    folder = work(tmp_path / "app", consumed=consumed)
    (found,) = [each for each in report(capsys, "lint", folder)["findings"] if each["code"] == "DLX002"]
    assert (found["basis"], words in found["basis_text"]) == (basis, True)


def test_nothing_vanishes_because_it_was_not_seen(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    alone = report(capsys, "lint", f"{folder}/definitions.json")["findings"]
    assert {(code, about) for code, about, _ in findings(capsys, folder)} >= {
        (each["code"], each["object"]) for each in alone
    }


def test_a_routing_key_that_nobody_published_is_assumed(tmp_path: Path, capsys: Capture) -> None:
    topology: dict[str, Any] = {
        "exchanges": (exchange("shop", "topic"), exchange("dead", "direct")),
        "queues": (queue("orders", message_ttl=1_000, dead_letter_exchange="dead"), queue("failed")),
        "bindings": (
            binding("shop", "orders", "order.#"),
            binding("dead", "failed", "order.paid"),
        ),
    }
    paid = RecordedPublishes(vhost="/", exchange="shop", routing_key="order.paid", times=7)
    other = msgspec.structs.replace(paid, routing_key="order.sent", times=2)
    folder = write(tmp_path / "paid", **topology, published=[paid])
    assert ("DLX003", "orders", "assumed") in findings(capsys, folder)
    assert "7 messages, and none that is routed like that" in printed(capsys, "lint", folder)
    folder = write(tmp_path / "both", **topology, published=[paid, other])
    assert ("DLX003", "orders", "follows") in findings(capsys, folder)


def test_a_promise_that_consumers_broke_is_a_finding(tmp_path: Path, capsys: Capture) -> None:
    lost = [
        RecordedLoss(
            vhost="/", event="dropped", queue="plain", reason="rejected", exchange="", routing_key="plain", times=2
        )
    ]
    consumed = [RecordedQueue(vhost="/", queue="plain", entered=2, consumers=1, deliveries=2, rejected=2)]
    folder = write(tmp_path / "app", queues=(queue("plain"),), consumed=consumed, lost=lost)
    found = report(capsys, "lint", folder)
    assert [(each["code"], each["severity"], each["basis"]) for each in found["findings"]] == [
        ("DLX002", "error", "seen")
    ]
    assert not [each for each in found["assumed"] if "no consumer rejects" in each]
    assert not found["recording"]["facts"]


def test_a_publish_to_a_bound_queue_by_its_name_was_seen(tmp_path: Path, capsys: Capture) -> None:
    topology: dict[str, Any] = {
        "exchanges": (exchange("events", "topic"), exchange("dead", "topic")),
        "queues": (queue("mail", dead_letter_exchange="dead"), queue("failed")),
        "bindings": (binding("events", "mail", "user.new"), binding("dead", "failed", "user.#")),
        "consumed": [RecordedQueue(vhost="/", queue="mail", entered=5, consumers=1, deliveries=5, rejected=2)],
    }
    usual = RecordedPublishes(vhost="/", exchange="events", routing_key="user.new", times=3)
    again = RecordedPublishes(vhost="/", exchange="", routing_key="mail", times=2)
    folder = write(tmp_path / "usual", **topology, published=[usual])
    assert [code for code, *_ in findings(capsys, folder)] == ["DLX036"]
    folder = write(tmp_path / "again", **topology, published=[usual, again])
    assert findings(capsys, folder) == [("DLX003", "mail", "follows")]
    gone = [RecordedLoss(
        vhost="/", event="unroutable", queue="mail", reason="rejected", exchange="", routing_key="mail", times=2
    )]  # fmt: skip
    folder = write(tmp_path / "gone", **topology, published=[usual, again], lost=gone)
    assert findings(capsys, folder) == [("DLX003", "mail", "seen")]
    assert not facts(capsys, folder)


def test_a_loss_that_no_finding_is_about_is_told_as_seen(tmp_path: Path, capsys: Capture) -> None:
    lost = [RecordedLoss(
        vhost="/", event="purged", queue="plain", reason=None, exchange="", routing_key="plain", times=1,
        story=["it was published", "queue 'plain' was deleted"],
    )]  # fmt: skip
    folder = write(tmp_path / "app", queues=(queue("plain"),), lost=lost)
    ((kind, text),) = facts(capsys, folder)
    assert kind == "lost"
    assert text.startswith("1 message lost from 'plain'")
    assert "queue 'plain' was deleted" in printed(capsys, "lint", folder, "--fail-on", "lost", status=1)


def test_what_became_of_publishes_is_told(tmp_path: Path, capsys: Capture) -> None:
    published = [
        RecordedPublishes(vhost="/", exchange="shop", routing_key="a", times=9, unroutable=4, connections=[2]),
        RecordedPublishes(vhost="/", exchange="shop", routing_key="b", times=2, unroutable=2, returned=2),
        RecordedPublishes(vhost="/", exchange="shop", routing_key="c", times=5, refused=3),
        RecordedPublishes(
            vhost="/", exchange="shop", routing_key="d", times=5, least_expiration_ms=10, most_expiration_ms=900
        ),
    ]
    folder = write(tmp_path / "app", exchanges=(exchange("shop", "direct"),), published=published)
    told = dict(facts(capsys, folder))
    assert told["unroutable"].startswith("4 messages to exchange 'shop' with routing key 'a' reached no queue")
    assert told["unroutable"].endswith("Published by web (py-amqp 5.2.0)")
    assert "'b' reached no queue and went back" in told["returned"]
    assert "refused 3 messages" in told["full"]
    assert "nobody was told" in told["full"]
    assert "an expiration of 10 to 900 ms" in told["expiration"]


@pytest.mark.parametrize(("release", "words"), [("3.13.7", "counts on from it"), ("4.3.0", "does not count on")])
def test_x_death_that_clients_publish_is_told(tmp_path: Path, capsys: Capture, release: str, words: str) -> None:
    again = [RecordedPublishes(vhost="/", exchange="", routing_key="work", times=3, republished=3, with_x_death=3)]
    folder = work(tmp_path / "app", published=again, release=release)
    told = report(capsys, "lint", folder)
    assert words in dict(facts(capsys, folder))["x-death"]
    assert not [each for each in told["assumed"] if "CC, BCC or x-death" in each]


def test_a_counter_next_to_a_delivery_limit_is_told(tmp_path: Path, capsys: Capture) -> None:
    again = [
        RecordedPublishes(vhost="/", exchange="", routing_key="work", times=8, republished=3, counters={"tries": 3})
    ]
    consumed = did(acked=5)
    folder = work(tmp_path / "app", published=again, consumed=[msgspec.structs.replace(consumed[0], republished=3)])
    assert "count tries in header 'tries'" in dict(facts(capsys, folder))["counter"]


@pytest.mark.parametrize("of", RELEASES)
def test_a_prefetch_beside_a_delivery_limit_is_told_since_a_crash_counts_for_all_that_it_had(
    tmp_path: Path, capsys: Capture, of: str
) -> None:
    def told(limit: int, **did: Any) -> list[str]:
        queues = tuple(queue(name, type="quorum", delivery_limit=limit) for name in ("jobs", "mail"))
        consumed = [RecordedQueue(vhost="/", queue=name, entered=9, deliveries=9, **did) for name in ("jobs", "mail")]
        folder = write(tmp_path / str(sorted(did)), queues=queues, release=f"{of}.0", consumed=consumed)
        return [line for line in printed(capsys, "lint", folder, "--release", of).splitlines() if " prefetch: " in line]

    (note,) = told(2, prefetch=[1, 10], acked=9)
    assert note.startswith(
        "note prefetch: consumers of 'jobs', 'mail' take 10 messages in advance, with a delivery limit"
    )
    (warning,) = told(2, prefetch=[0], acked=7, abandoned=2)
    assert warning.startswith("warning prefetch: consumers of 'jobs', 'mail' take any number of messages in advance")
    assert told(2, prefetch=[1], acked=9) == told(2, prefetch=[10], automatic=9) == []

    settings = {"x-queue-type": "quorum", "x-delivery-limit": 2}
    jobs = {"name": "jobs", "vhost": "/", "durable": True, "auto_delete": False, "arguments": settings}
    trial = Trial({"vhosts": [{"name": "/"}], "queues": [jobs]}, release=of)
    trial.publish("", "jobs", times=3)
    left = []
    for _ in range(3):
        trial.hold("jobs", 3)
        trial.crash("jobs")
        left.append(sum(1 for _ in trial.copies()))
    assert left == [3, 3, 0]


@pytest.mark.parametrize(
    ("kind", "bound", "severity"),
    [("topic", False, "warning"), ("fanout", False, "warning"), ("topic", True, "error"), ("direct", False, "error")],
)
def test_events_that_nobody_ever_listened_to_are_no_loss(
    tmp_path: Path, capsys: Capture, kind: str, bound: bool, severity: str
) -> None:
    folder = write(
        tmp_path / "app",
        exchanges=(exchange("events", kind),),
        queues=(queue("seldom"),),
        bindings=(binding("events", "seldom", "seldom"),) if bound else (),
        published=[RecordedPublishes(vhost="/", exchange="events", routing_key="often", times=3, unroutable=3)],
    )
    document = json.loads(printed(capsys, "lint", folder, "--format", "json"))
    (fact,) = document["recording"]["facts"]
    assert (fact["kind"], fact["severity"]) == ("unroutable", severity)


def test_equal_findings_say_how_many_rest_on_what(tmp_path: Path, capsys: Capture) -> None:
    names = [f"jobs-{number}" for number in range(4)]
    lost = [
        RecordedLoss(
            vhost="/", event="dropped", queue=names[2], reason="expired", exchange="", routing_key=names[2], times=1
        )
    ]
    published = [RecordedPublishes(vhost="/", exchange="", routing_key=name, times=1) for name in names[:3]]
    queues = tuple(queue(name, message_ttl=1_000) for name in names)
    text = printed(capsys, "lint", write(tmp_path / "app", queues=queues, published=published, lost=lost))
    assert "seen (1 seen, 2 follows, 1 assumed): 1 message lost like this" in text


def test_machines_are_told_the_basis(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    (run,) = json.loads(printed(capsys, "lint", folder, "--format", "sarif"))["runs"]
    assert [each["properties"]["basis"] for each in run["results"]] == ["seen", "follows", "assumed"]
    assert run["properties"]["recordings"][0]["messages"] == 196
    suite = ElementTree.fromstring(printed(capsys, "lint", folder, "--format", "junit"))
    cases = suite.findall("testcase")
    assert suite.get("tests") == str(len(cases))
    assert suite.get("failures") == str(sum(case.find("failure") is not None for case in cases))
    assert any("Seen: 3 messages lost" in (each.text or "") for each in suite.iter("failure"))
    lines = printed(capsys, "lint", folder, "--format", "github").splitlines()
    assert [line.split(" ")[0] for line in lines[:3]] == ["::error", "::warning", "::warning"]
    assert lines[1].startswith("::warning title=refused::queue.declare")
    assert any("%0AFollows: 140 messages" in each for each in lines)


def test_definitions_that_are_no_recording_have_no_basis(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    found = report(capsys, "lint", f"{folder}/definitions.json")
    assert "recording" not in found
    assert not any("basis" in each for each in found["findings"])


@pytest.mark.parametrize(
    ("text", "words"), [("{", "not a recording"), ('{"format": 99}', "another version of dlx"), ('{"lost": 1}', "lost")]
)
def test_a_recording_that_cannot_be_read_is_named(tmp_path: Path, capsys: Capture, text: str, words: str) -> None:
    folder = celery(tmp_path / "app")
    (tmp_path / "app" / "recording.json").write_text(text)
    assert main(["lint", folder]) == 65
    error = " ".join(capsys.readouterr().err.split())
    assert f"{folder}/recording.json" in error
    assert words in error


def test_fuzz_does_what_clients_did(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    found = report(capsys, "fuzz", folder, "--all", "--seconds", "20")
    assert {(each["queue"], each["reason"]) for each in found["findings"]} == {
        ("celery", "rejected"),
        ("emails", "expired"),
    }
    assert "196 messages of 2 clients" in found["recording"]
    assert any("(recorded: 6 acks of 'reports')" in each for each in found["assumed"])
    assert any("'failed' (recorded: no consumer of 'failed')" in each for each in found["assumed"])


def test_what_is_stated_wins_over_what_was_seen(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    given = ("--publish", "celery", "reports", "--on-failure", "requeue", "--all", "--seconds", "20")
    found = report(capsys, "fuzz", folder, *given)
    assert [(each["queue"], each["reason"]) for each in found["findings"]] == [("reports", "delivery_limit")]
    assert not any("acks" in each for each in found["assumed"])
    (tmp_path / "dlx.toml").write_text('[[clients.queue]]\nname = "reports"\non_failure = ["requeue"]\n')
    found = report(capsys, "fuzz", folder, "--all", "--seconds", "20")
    assert ("reports", "delivery_limit") in {(each["queue"], each["reason"]) for each in found["findings"]}
    assert any("(clients.queue[0].on_failure)" in each for each in found["assumed"])
    assert any("(recorded: 132 acks and 4 rejects of 'celery')" in each for each in found["assumed"])


def test_what_a_recording_cannot_know_stays_open(tmp_path: Path) -> None:
    folder = work(tmp_path / "app", consumed=did(), not_seen=["how deliveries ended"])
    seen = clients_seen(read_recording(folder), release())
    assert seen.failures("/", "work") is None
    assert seen.consumes("/", "work")


def test_each_virtual_host_has_clients_of_its_own(tmp_path: Path) -> None:
    consumed = [
        RecordedQueue(vhost="/", queue="a[1]", entered=2, consumers=1, deliveries=2, rejected=2),
        RecordedQueue(vhost="tenant*", queue="a[1]", entered=1, consumers=1, deliveries=1, acked=1),
    ]
    published = [RecordedPublishes(vhost="tenant*", exchange="", routing_key="a[1]", times=1)]
    seen = clients_seen(read_recording(write(tmp_path / "app", consumed=consumed, published=published)), release())
    assert seen.failures("/", "a[1]") == ("reject",)
    assert seen.failures("tenant*", "a[1]") == ()
    assert seen.failures("tenant-2", "a[1]") is None


def test_explain_says_what_consumers_did(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    text = printed(capsys, "explain", folder, "--publish", "celery", "celery")
    assert "ack (seen 132 times): it is done with" in text
    assert "reject (seen 4 times): lost" in text
    assert "requeue, nack or crash (not seen)" in text
    assert f"taken from {folder}" in text
    document = report(capsys, "explain", folder, "--publish", "celery", "celery")
    assert [each.get("seen") for each in document["missing"][0]["possibilities"]] == [132, 4, 0]


def test_explain_finds_a_message_of_the_recording(tmp_path: Path, capsys: Capture) -> None:
    folder = celery(tmp_path / "app")
    rows = CaptureFile(tmp_path / "app" / "trace.jsonl")
    published = Observation(
        time_us=2_000_000, file="trace.log", line=0, event="published", node="", connection="c", vhost="/",
        user="guest", channel=1, exchange="celery", queue=None, routed_queues=["celery"], routing_keys=["celery"],
        redelivered=None, message="m1", message_id="task-7", expiration=None, properties="{}", headers="{}",
        broker_headers="{}", x_death=None, x_death_times=None, payload=b"",
    )  # fmt: skip
    delivered = msgspec.structs.replace(published, event="delivered", queue="celery", routed_queues=None,
                                        redelivered=False, time_us=2_500_000)  # fmt: skip
    rows.append(published)
    rows.append(delivered)
    rows.close()
    text = printed(capsys, "explain", folder, "--message", "task-7")
    assert "the queue 'celery' handed it to a consumer" in text


def test_a_loss_for_another_reason_is_no_basis_of_a_delivery_limit(tmp_path: Path, capsys: Capture) -> None:
    lost = [
        RecordedLoss(
            vhost="/", event="unroutable", queue="work", reason="rejected", exchange="", routing_key="", times=2
        )
    ]
    topology = {
        "queues": (queue("work", type="quorum", dead_letter_exchange="dead"),),
        "exchanges": (exchange("dead", "fanout"),),
    }
    folder = work(tmp_path / "app", **topology, lost=lost, consumed=did(acked=3, rejected=2))
    assert findings(capsys, folder) == [("DLX003", "work", "seen"), ("DLX010", "work", "assumed")]


def test_a_full_queue_that_refused_a_dead_letter_is_seen(tmp_path: Path, capsys: Capture) -> None:
    folder = write(
        tmp_path / "app",
        queues=(
            queue("work", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="full"),
            queue("full", max_length=2, overflow="reject-publish"),
        ),
        published=[RecordedPublishes(vhost="/", exchange="", routing_key="work", times=3)],
        lost=[
            RecordedLoss(
                vhost="/", event="dropped", queue="full", reason="maxlen", exchange="", routing_key="", times=1
            )
        ],
    )
    assert ("DLX014", "full", "seen") in findings(capsys, folder)
    assert not facts(capsys, folder)


def test_a_queue_that_goes_with_its_consumer_takes_one(tmp_path: Path, capsys: Capture) -> None:
    answers = {**queue("answers"), "auto_delete": True}
    given: dict[str, Any] = {
        "queues": (answers,),
        "published": [RecordedPublishes(vhost="/", exchange="", routing_key="answers", times=3)],
    }
    folder = write(tmp_path / "alone", **given)
    assert findings(capsys, folder) == [("DLX023", "answers", "assumed")]
    consumed = [RecordedQueue(vhost="/", queue="answers", entered=3, consumers=1, deliveries=3, acked=3)]
    folder = write(tmp_path / "consumed", **given, consumed=consumed)
    assert findings(capsys, folder) == [("DLX023", "answers", "follows")]


def test_upgrade_says_what_was_seen_of_each_change(tmp_path: Path, capsys: Capture) -> None:
    folder = work(tmp_path / "app", consumed=did(requeued=12, abandoned=2), release="3.13.7")
    found = report(capsys, "upgrade", folder, "--to", "4.3")
    seen = {each["behaviour"]: each["seen"] for each in found["changes"] if "seen" in each}
    expected = "12 requeues and 2 deliveries that a closed channel gave back at 'work'"
    assert seen["quorum_delivery_limit_counts"] == expected
    assert "taken from" in found["recording"]
    assert "seen: 12 requeues" in printed(capsys, "upgrade", folder, "--to", "4.3")


def lost(queue: str, reason: str | None, event: str, times: int = 5, **rest: Any) -> RecordedLoss:
    return RecordedLoss(
        vhost="/", event=event, queue=queue, reason=reason, exchange="", routing_key=queue, times=times, **rest
    )


def test_messages_that_expired_by_their_own_are_lost_by_the_wrong_key(tmp_path: Path, capsys: Capture) -> None:
    nowhere = queue("work", type="quorum", dead_letter_exchange="", dead_letter_routing_key="nope")
    folder = work(tmp_path / "app", queues=(nowhere,), lost=[lost("work", "expired", "unroutable")])
    assert ("DLX003", "work", "seen") in findings(capsys, folder)
    assert ("DLX010", "work", "assumed") in findings(capsys, folder)
    assert not facts(capsys, folder)


@pytest.mark.parametrize(
    ("gone_us", "consumers", "basis"),
    [(None, 1, "follows"), (1_200_000, 0, "assumed"), (1_200_000, 1, "seen")],
)
def test_only_an_auto_delete_queue_that_went_with_its_consumer_is_a_loss_seen(
    tmp_path: Path, capsys: Capture, gone_us: int | None, consumers: int, basis: str
) -> None:
    consumed = [RecordedQueue(vhost="/", queue="work", entered=5, consumers=consumers, deliveries=consumers)]
    folder = work(
        tmp_path / "app", queues=({**queue("work"), "auto_delete": True},), gone_us=gone_us, consumed=consumed,
        lost=[lost("work", None, "purged")],
    )  # fmt: skip
    assert findings(capsys, folder) == [("DLX023", "work", basis)]


@pytest.mark.parametrize(("gone_us", "basis"), [(1_200_000, "follows"), (61_000_000, "seen")])
def test_a_queue_that_a_client_deleted_did_not_expire(
    tmp_path: Path, capsys: Capture, gone_us: int, basis: str
) -> None:
    folder = work(
        tmp_path / "app", queues=(queue("work", expires=60_000),), gone_us=gone_us, consumed=did(),
        lost=[lost("work", None, "purged")],
    )  # fmt: skip
    assert findings(capsys, folder) == [("DLX023", "work", basis)]


def test_a_full_queue_that_refused_is_no_delivery_limit(tmp_path: Path, capsys: Capture) -> None:
    to_full = queue("work", type="quorum", dead_letter_exchange="", dead_letter_routing_key="full")
    folder = work(
        tmp_path / "app", queues=(to_full, queue("full", max_length=2, overflow="reject-publish")),
        consumed=did(rejected=5), lost=[lost("full", "maxlen", "dropped")],
    )  # fmt: skip
    assert findings(capsys, folder) == [("DLX014", "full", "seen"), ("DLX010", "work", "assumed")]


def test_only_what_the_delivery_limit_counts_is_a_return_for_fuzz_and_explain(tmp_path: Path, capsys: Capture) -> None:
    for name, failed, status in (("nacks", 0, 0), ("rejects", 8, 1)):
        folder = work(tmp_path / name, consumed=did(acked=5, requeued=8, failed=failed))
        printed(capsys, "fuzz", folder, "--seconds", "20", status=status)
        text = printed(capsys, "explain", folder, "--publish", "", "work")
        assert f"requeue or crash ({'seen 8 times' if failed else 'not seen'}): " in text
        nacked = f"nack ({'not seen' if failed else 'seen 8 times'}): it goes back to 'work'; that is not a failure"
        assert nacked in text


def test_publishes_that_were_not_recorded_are_no_sign_that_there_were_none(tmp_path: Path, capsys: Capture) -> None:
    queues = (queue("work", message_ttl=500), queue("idle", message_ttl=500))
    consumed = [RecordedQueue(vhost="/", queue="work", entered=5)]
    not_seen = ["what was published in /, and its keys: the firehose was off"]
    folder = work(tmp_path / "app", queues=queues, published=[], consumed=consumed, not_seen=not_seen)
    assert findings(capsys, folder) == [("DLX002", "work", "follows"), ("DLX002", "idle", "assumed")]
    text = printed(capsys, "lint", folder, "--all")
    assert "2 clients, and publishes were not recorded." in text
    assert "no message that came into 'idle', and publishes were not recorded" in text
    assert "0 messages" not in text


@pytest.mark.parametrize(("confirmed", "severity"), [(0, "error"), (5, "warning")])
def test_a_refusal_of_which_nobody_is_told_loses_messages(
    tmp_path: Path, capsys: Capture, confirmed: int, severity: str
) -> None:
    refused = RecordedPublishes(vhost="/", exchange="", routing_key="work", times=5, refused=3, confirmed=confirmed)
    folder = work(tmp_path / "app", published=[refused])
    (fact,) = report(capsys, "lint", folder)["recording"]["facts"]
    assert (fact["kind"], fact["severity"], "basic.nack" in fact["text"]) == ("full", severity, confirmed > 0)


def test_a_queue_with_a_consumer_does_not_expire(tmp_path: Path, capsys: Capture) -> None:
    queues = (queue("work", expires=60_000),)
    consumed = [RecordedQueue(vhost="/", queue="work", entered=5, consumers=1, consumers_max=1, deliveries=5, acked=5)]
    folder = work(tmp_path / "app", queues=queues, consumed=consumed)
    assert findings(capsys, folder) == [("DLX023", "work", "assumed")]
    assert "it takes 60,000 ms in which nobody uses 'work'" in printed(capsys, "lint", folder)
    folder = work(tmp_path / "gone", queues=queues, consumed=consumed, gone_us=61_000_000)
    assert findings(capsys, folder) == [("DLX023", "work", "follows")]


def test_a_queue_for_replies_is_no_error(tmp_path: Path, capsys: Capture) -> None:
    replies = {**queue("work"), "auto_delete": True, "exclusive": True}
    folder = work(tmp_path / "app", queues=(replies,), consumed=did(automatic=5))
    (found,) = report(capsys, "lint", folder)["findings"]
    assert (found["code"], found["severity"], found["basis"]) == ("DLX023", "note", "assumed")
    printed(capsys, "lint", folder, "--fail-on", "lost", status=0)


@pytest.mark.parametrize(("counters", "kinds"), [({}, ["x-death"]), ({"x-tries": 3}, [])])
def test_x_death_of_messages_that_the_application_counts_itself_is_not_told(
    tmp_path: Path, capsys: Capture, counters: dict[str, int], kinds: list[str]
) -> None:
    again = [RecordedPublishes(
        vhost="/", exchange="", routing_key="work", times=3, republished=3, with_x_death=3, counters=counters
    )]  # fmt: skip
    assert [kind for kind, _ in facts(capsys, work(tmp_path / "app", published=again))] == kinds


def test_equal_findings_add_up_what_was_lost_and_tell_what_happened(tmp_path: Path, capsys: Capture) -> None:
    names = ("a", "b", "c")
    folder = write(
        tmp_path / "app",
        queues=tuple(queue(n, type="quorum", dead_letter_exchange="", dead_letter_routing_key="no") for n in names),
        published=[RecordedPublishes(vhost="/", exchange="", routing_key=name, times=9) for name in names],
        lost=[
            lost(name, reason, "unroutable", times, story=["It entered its queue.", "It was gone."])
            for name, reason, times in zip(names, ("expired", "rejected", "expired"), (4, 6, 2), strict=True)
        ],
    )
    text = printed(capsys, "lint", folder, "--select", "DLX003")
    assert "seen (3 seen): 12 messages in 3 queues lost like this: 6 expired, 6 rejected" in text
    assert "  what happened to the first:\n    It entered its queue.\n    It was gone." in text
    assert "this loses a message" not in text
    (found, *_) = report(capsys, "lint", folder, "--select", "DLX003")["findings"]
    assert (found["lost"], found["story"][-1]) == ({"expired": 4}, "It was gone.")


def test_a_baseline_does_not_hide_what_happened(tmp_path: Path, capsys: Capture) -> None:
    before = work(tmp_path / "before")
    (tmp_path / "known.json").write_text(printed(capsys, "lint", before, "--json"))
    known = ("--baseline", str(tmp_path / "known.json"))
    assert not findings(capsys, before, *known)
    after = work(tmp_path / "after", lost=[lost("work", "delivery_limit", "dropped")])
    assert findings(capsys, after, *known) == [("DLX002", "work", "seen")]


def test_a_loss_that_was_seen_counts_as_lost_whatever_its_severity(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "dlx.toml").write_text('[lint.severity]\nDLX002 = "note"\n')
    printed(capsys, "lint", work(tmp_path / "quiet"), "--fail-on", "lost", status=0)
    folder = work(tmp_path / "app", lost=[lost("work", "delivery_limit", "dropped")])
    printed(capsys, "lint", folder, "--fail-on", "lost", status=1)
    gone = [RecordedPublishes(vhost="/", exchange="", routing_key="nope", times=5, unroutable=5)]
    printed(capsys, "lint", work(tmp_path / "gone", published=gone), "--fail-on", "lost", status=1)


def test_facts_are_counted(tmp_path: Path, capsys: Capture) -> None:
    folder = write(tmp_path / "app", queues=(queue("plain"),), lost=[lost("plain", None, "purged")])
    assert f"{folder}: 1 error in 1 queue under 4.3" in printed(capsys, "lint", folder)
    assert printed(capsys, "lint", folder, "--statistics").split() == ["1", "error", "lost"]


def test_that_no_client_connected_is_an_error_and_comes_first(tmp_path: Path, capsys: Capture) -> None:
    folder = write(tmp_path / "app", connections=[])
    ((kind, text),) = facts(capsys, folder)
    assert (kind, text.startswith("No client connected: the broker's address is in AMQP_URL")) == (
        "no-client", True,
    )  # fmt: skip
    printed(capsys, "lint", folder, "--fail-on", "lost", status=1)
    server = write(tmp_path / "server", connections=[], of="http://localhost:15672")
    assert "has to connect to http://localhost:15672" in printed(capsys, "lint", server, status=1)
    unknown = ["connections and channels of other users: this user has no tag 'monitoring'"]
    assert not facts(capsys, write(tmp_path / "user", connections=[], not_seen=unknown))


@pytest.mark.parametrize(("redeliveries", "kinds"), [(40, []), (41, ["loop"])])
def test_messages_that_are_returned_over_and_over_are_told(
    tmp_path: Path, capsys: Capture, redeliveries: int, kinds: list[str]
) -> None:
    consumed = [RecordedQueue(
        vhost="/", queue="work", consumers=1, deliveries=redeliveries + 2, redeliveries=redeliveries, acked=2
    )]  # fmt: skip
    assert [kind for kind, _ in facts(capsys, work(tmp_path / "app", consumed=consumed))] == kinds


@pytest.mark.parametrize(("method", "severity"), [("basic.publish", "warning"), ("queue.declare", "note")])
def test_a_publish_to_a_missing_exchange_is_more_than_a_look(
    tmp_path: Path, capsys: Capture, method: str, severity: str
) -> None:
    refused = [RecordedRefusal(vhost="/", method=method, code=404, text="NOT_FOUND - no exchange 'shop'")]
    (fact,) = report(capsys, "lint", work(tmp_path / "app", refusals=refused))["recording"]["facts"]
    assert (fact["kind"], fact["severity"]) == ("refused", severity)
