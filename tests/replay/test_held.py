"""Messages that at-least-once dead-lettering holds, as no queue takes their dead letters: told like losses.

``held/`` is from RabbitMQ 4.3.6: 33 messages for a key that no queue is bound to, and 2 s later three for one that is,
all into the queue 'level' (TTL 500 ms). Seconds later the server had all 36 in 'level', none ready, 'endpoint' none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.broker import WORKER_PREFETCH
from simulator.cli.main import main
from simulator.definitions import Definitions
from tests.replay.logs import Log, death, definitions_of, died, write_log
from tests.replay.test_report import unpacked

CASE = Path(__file__).parent / "held"
GONE = "exchange 'deliver' routes key 'gone' to no queue"
AT_LEAST_ONCE = {
    "x-queue-type": "quorum",
    "x-overflow": "reject-publish",
    "x-dead-letter-strategy": "at-least-once",
    "x-message-ttl": 500,
}
HOLD_UP = "32 messages held in 'level' hold up 2 more that died there"


def levels(**arguments: Any) -> Definitions:
    """``level`` dead-letters at least once to ``deliver``, which knows the key ``there`` only."""
    level = {**AT_LEAST_ONCE, "x-dead-letter-exchange": "deliver", **arguments}
    bindings = [("in", "level", "#"), ("deliver", "endpoint", "there")]
    return definitions_of({"level": level, "endpoint": {}, "other": {}}, {"in": "topic", "deliver": "topic"}, bindings)


def publishes(*keys: str, queue: str = "level") -> Log:
    """One publish a second, and after 10 s a delivery that ends the log."""
    log = Log()
    for number, key in enumerate(keys):
        log.publish("in", key, message_id=f"{key} {number}", routed=[queue])
    for number in range(10):
        log.publish("", "other", message_id=f"other {number}")
    return log.deliver("other", "", ["other"], message_id="other 0")


def summary(folder: Path, log: Log, definitions: Definitions, capsys: Any, *options: str) -> dict[str, Any]:
    trace, given = written(folder, log, definitions)
    main(["replay", str(trace), "--definitions", str(given), "--json", *options])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def written(folder: Path, log: Log, definitions: Definitions) -> tuple[Path, Path]:
    given = folder / "definitions.json"
    given.write_bytes(definitions.to_json())
    return write_log(folder / "trace.log", log.records), given


def causes(told: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Queue, rule without its origin, and number of messages held for it."""
    return [(each["queue"], each["why"].partition(" (")[0], each["held"]) for each in told["dead_ends"]]


def at_most_once(folder: Path) -> Path:
    document = json.loads((CASE / "definitions.json").read_bytes())
    for queue in document["queues"]:
        queue["arguments"].pop("x-dead-letter-strategy", None)
    (folder / "definitions.json").write_text(json.dumps(document), encoding="utf-8")
    return folder / "definitions.json"


def test_what_a_server_held_is_told_as_what_it_lost_is(tmp_path: Path, capsys: Any) -> None:
    trace = str(CASE / "trace.jsonl")
    told = {}
    for end, definitions in {"held": CASE / "definitions.json", "lost": at_most_once(tmp_path)}.items():
        assert main(["replay", trace, "--definitions", str(definitions)]) == 0
        told[end] = capsys.readouterr().out
    assert told["held"].startswith(
        "33 messages are held in the queues where they died: no queue took their dead letters.\n"
        "  The log has no delivery that could be compared.\n"
        "  32 messages held in 'level' hold up 1 more that died there\n"
        "  3 messages not seen again: held if they died in 'level'\n"
    )
    assert "33 held, 0 may be  in queue level: exchange 'deliver' routes key '0.gone' to no queue" in told["held"]
    assert told["lost"].startswith("33 messages were lost: their dead letters reached no queue.\n")
    assert "33 lost, 0 may be  in queue level: exchange 'deliver' routes key '0.gone' to no queue" in told["lost"]
    assert "held" not in told["lost"].split("Not tested")[0]


def test_as_many_held_messages_as_rabbitmq_has_in_hand_hold_up_what_could_be_routed(
    tmp_path: Path, capsys: Any
) -> None:
    gone = ["gone"] * WORKER_PREFETCH
    told = summary(tmp_path, publishes("there", *gone, "there", "gone"), levels(), capsys)
    assert (told["held"], told["may_be_held"], told["lost"]) == (WORKER_PREFETCH + 2, 0, 0)
    ((_, why, count), (_, held_up, others)) = causes(told)
    assert (why, count) == (GONE, WORKER_PREFETCH + 1)
    assert (held_up, others) == (f"{WORKER_PREFETCH} messages are held there, and hold up those that die later", 1)
    (holding,) = told["holding"]
    assert (holding["vhost"], holding["queue"], holding["held_up"]) == ("/", "level", 2)


def test_one_fewer_holds_up_nothing(tmp_path: Path, capsys: Any) -> None:
    gone = ["gone"] * (WORKER_PREFETCH - 1)
    told = summary(tmp_path, publishes(*gone, "there"), levels(), capsys)
    assert (told["held"], told["may_be_held"]) == (WORKER_PREFETCH - 1, 0)
    assert causes(told) == [("level", GONE, WORKER_PREFETCH - 1)]
    assert "holding" not in told


def test_what_a_queue_holds_up_is_not_lost_behind_it(tmp_path: Path, capsys: Any) -> None:
    """``next`` loses what expires there, but only what comes there."""
    level = {**AT_LEAST_ONCE, "x-dead-letter-exchange": "deliver"}
    queues = {"level": level, "next": {"x-message-ttl": 100, "x-dead-letter-exchange": "missing"}, "other": {}}
    bindings = [("in", "level", "#"), ("deliver", "next", "there")]
    definitions = definitions_of(queues, {"in": "topic", "deliver": "topic"}, bindings)
    gone = ["gone"] * WORKER_PREFETCH
    told = summary(tmp_path, publishes("there", *gone, "there"), definitions, capsys)
    assert (told["lost"], told["held"]) == (1, WORKER_PREFETCH + 1)


def test_a_cycle_is_held_and_named(tmp_path: Path, capsys: Any) -> None:
    loop = {**AT_LEAST_ONCE, "x-dead-letter-exchange": ""}
    queues = {
        "a": {**loop, "x-dead-letter-routing-key": "b"}, "b": {**loop, "x-dead-letter-routing-key": "a"}, "other": {},
    }  # fmt: skip
    definitions = definitions_of(queues, {"in": "topic"}, [("in", "a", "#")])
    told = summary(tmp_path, publishes("x", queue="a"), definitions, capsys)
    assert (told["held"], told["lost"]) == (1, 0)
    ((queue, why, _),) = causes(told)
    assert (queue, why) == ("b", "would return to 'a' without a rejection on the way: b <- a")


def test_a_delivery_that_consumers_may_have_rejected_is_a_footnote(tmp_path: Path, capsys: Any) -> None:
    log = publishes("gone").deliver("level", "in", ["gone"], message_id="gone 0")
    trace, given = written(tmp_path, log, levels(**{"x-message-ttl": 60_000}))
    assert main(["replay", str(trace), "--definitions", str(given)]) == 0
    out = capsys.readouterr().out
    assert "held in the queues" not in out
    assert "  1 message last delivered in 'level': held if consumers rejected it\n" in out


@pytest.mark.parametrize("more", [0, 1])
def test_what_may_be_held_would_hold_up_the_rest(more: int, tmp_path: Path, capsys: Any) -> None:
    log = publishes(*["gone"] * (WORKER_PREFETCH - 1 + more))
    for number in range(WORKER_PREFETCH - 1 + more):
        log.deliver("level", "in", ["gone"], message_id=f"gone {number}")
    trace, given = written(tmp_path, log, levels(**{"x-message-ttl": 600_000}))
    assert main(["replay", str(trace), "--definitions", str(given)]) == 0
    told = "  If 32 of them are held in 'level', it holds 32, and these hold up all that will die there\n"
    assert (told in capsys.readouterr().out) == bool(more)


def test_what_was_delivered_in_the_end_is_not_held(tmp_path: Path, capsys: Any) -> None:
    expired = died(death("level", "expired", exchange="in", keys=["there"]))
    log = publishes("there").deliver("endpoint", "deliver", ["there"], message_id="there 0", headers=expired)
    told = summary(tmp_path, log, levels(), capsys)
    assert (told["held"], told["may_be_held"], told["dead_letters"]) == (0, 0, 1)


@pytest.fixture
def mixed(tmp_path: Path) -> tuple[str, str]:
    log = publishes(*["gone"] * WORKER_PREFETCH, "there", "gone")
    trace, given = written(tmp_path, log, levels())
    return str(trace), str(given)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("gone 0", GONE),
        ("there 32", "32 messages are held there, and hold up those that die later"),
        ("gone 33", GONE),
    ],
)
def test_the_life_of_a_message_says_that_it_is_held_and_why(
    mixed: tuple[str, str], message: str, why: str, capsys: Any
) -> None:
    trace, given = mixed
    assert main(["explain", trace, "--definitions", given, "--message", message]) == 0
    out = capsys.readouterr().out
    assert "Last known: held." in out
    assert f"it is held in 'level', 500 ms later: {why}" in out
    assert HOLD_UP in out


def test_what_is_held_is_stuck_to_a_watch(mixed: tuple[str, str], tmp_path: Path, capsys: Any) -> None:
    trace, given = mixed
    command = ["watch", trace, "--definitions", given, "--once", "--stuck-after", "3600"]
    assert main(command) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert "0 lost, 0 unexplained, 0 differ, 34 stuck, 34 of them held" in first
    assert others == [
        "      33  stuck in level (virtual host /), held: no queue takes their dead letters",
        "       1  stuck in level (virtual host /), held: 32 messages are held there, and hold up those that die later",
    ]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]
    assert (told["held"], [each["count"] for each in told["stuck"]]) == (34, [33, 1])


def test_the_report_names_what_is_held(mixed: tuple[str, str], tmp_path: Path) -> None:
    trace, given = mixed
    assert main(["replay", trace, "--definitions", given, "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<h1>34 messages are held in the queues where they died" in page
    assert '<b class="bad">33 held</b> in <code>level</code>' in page
    assert "Held in 'level' (expired)" in unpacked(page, "figures")


@pytest.mark.spark
def test_spark_says_the_same(mixed: tuple[str, str], tmp_path: Path, capfd: Any) -> None:
    trace, given = mixed
    told = {}
    for engine in ("local", "spark"):
        assert main(["replay", trace, "--definitions", given, "--json", "--engine", engine]) == 0
        told[engine] = json.loads(capfd.readouterr().out)
    assert told["local"]["held"] == 34
    assert told["local"] == told["spark"]


def test_one_held_message_is_told_in_the_singular(tmp_path: Path, capsys: Any) -> None:
    trace, given = written(tmp_path, publishes("gone"), levels())
    main(["replay", str(trace), "--definitions", str(given)])
    told = "1 message is held in the queue where it died: no queue took its dead letter.\n"
    assert capsys.readouterr().out.startswith(told)


@pytest.mark.parametrize("strategy", ["at-least-once", "at-most-once"])
@pytest.mark.parametrize("proof", ["delivery", "publishes"])
def test_a_log_that_lacks_rows_proves_neither_that_messages_are_held_nor_lost(
    strategy: str, proof: str, tmp_path: Path, capsys: Any
) -> None:
    """``other`` delivered a message that it rejects, or three that were published, and the log lacks those rows."""
    definitions = definitions_of(
        {
            "level": {**AT_LEAST_ONCE, "x-dead-letter-strategy": strategy, "x-dead-letter-exchange": "deliver"},
            "other": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "endpoint"},
            "endpoint": {},
        },
        {"in": "topic", "deliver": "topic"},
        [("in", "level", "#")],
    )
    log = publishes("gone")
    whole, given = written(tmp_path, log, definitions)
    end = "held" if strategy == "at-least-once" else "lost"
    assert main(["replay", str(whole), "--definitions", str(given), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told[end], told[f"may_be_{end}"]) == (1, 0)
    if proof == "delivery":
        headers = died(death("other", "rejected", keys=["other"]))
        log.deliver("endpoint", "", ["endpoint"], message_id="other 1", headers=headers)
    else:
        for number in range(20, 23):
            log.deliver("other", "", ["other"], message_id=f"other {number}")
    trace, _ = written(tmp_path, log, definitions)
    assert main(["replay", str(trace), "--definitions", str(given), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told[end], told[f"may_be_{end}"]) == (0, 1)
    main(["explain", str(trace), "--definitions", str(given), "--message", "gone 0"])
    assert f"it is {end} in 'level' if it died there" in capsys.readouterr().out
    if proof == "delivery":
        main(["watch", str(trace), "--definitions", str(given), "--once", "--json"])
        watched = json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]
        assert watched["lost"] == watched.get("held", 0) == 0
