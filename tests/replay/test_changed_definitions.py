"""Definitions that changed during the log: each row is judged by those of its time, and none is blamed wrongly."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import simulator
from dlx.topology import Binding, Exchange, Policy, Queue, Topology
from simulator.capture import open_log
from simulator.capture.parquet import write_capture
from simulator.capture.schema import Observation, to_batches
from simulator.cli.main import main
from simulator.scenario import steps
from simulator.scenario.player import START_US
from simulator.testing.strategies import definitions_document
from tests.replay.broker_logs import broker_log
from tests.replay.logs import START, Log, definitions_of, write_log
from tests.replay.test_damage import CAPTURES

CHANGES: dict[str, list[dict[str, Any]]] = {
    "3.8": [{"message-ttl": 700}, {"message-ttl": 1_900}],
    "3.10": [{"message-ttl": 700}, {"message-ttl": 700, "dead-letter-routing-key": "other"}],
    "4.3": [{"message-ttl": 1_900}, {"message-ttl": 700}, {"message-ttl": 700, "dead-letter-routing-key": "other"}],
}
"""What the policy of the queue ``wait`` says, one after the other."""
ROUNDS = 8
ROUND_MS = 300 + 2_400 + 300
AT = datetime.fromtimestamp(START_US / 1_000_000, UTC)


def policy(definition: dict[str, Any]) -> Policy:
    back = {"dead-letter-exchange": "", "dead-letter-routing-key": "done"}
    return Policy(name="waiting", pattern="^wait$", definition={**back, **definition}, apply_to="queues")


def topology(definition: dict[str, Any]) -> Topology:
    to_wait = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    queues = [Queue(name="work", arguments=to_wait), *(Queue(name=name) for name in ("wait", "done", "other"))]
    return Topology.of(queues=queues, policies=[policy(definition)])


def a_round() -> list[steps.AnyStep]:
    work = [steps.Publish("", "work", times=2), steps.Reject("work", 2), steps.Wait(300)]
    return [*work, steps.Wait(2_400), steps.Ack("done", 2), steps.Ack("other", 2), steps.Wait(300)]


def changed_at_us(number: int) -> int:
    """When the policy changes for the n-th time: 300 ms into a round, while its messages wait."""
    return START_US + 1_000 * (ROUND_MS * ROUNDS * (number + 1) + 300)


class Case:
    """A log of a release, in which the policy changes while messages are under way, and the files of definitions."""

    def __init__(self, folder: Path, release: str) -> None:
        self.release, self.definitions = release, []
        history: list[steps.AnyStep] = []
        for number, definition in enumerate(CHANGES[release]):
            for each in range(ROUNDS):
                part = a_round()
                if number and not each:
                    part.insert(3, steps.SetPolicy(policy(definition)))
                history += part
            file = folder / f"definitions-{number}.json"
            file.write_text(json.dumps(definitions_document(topology(definition), release)))
            self.definitions.append(file)
        self.rows = broker_log(history, topology(CHANGES[release][0]), release)
        self.log = written(folder / "log.parquet", self.rows)

    def options(self) -> list[str]:
        times = [f"@{changed_at_us(number) / 1_000_000:.3f}" for number in range(len(self.definitions) - 1)]
        both = zip(self.definitions, ["", *times], strict=True)
        return [option for file, time in both for option in ("--definitions", f"{file}{time}")]


def written(path: Path, rows: list[Observation]) -> Path:
    with write_capture(path) as writer:
        for batch in to_batches(rows):
            writer.write(batch)
    return path


def replay(capsys: Any, log: Path, *options: str) -> tuple[int, str, str]:
    code = main(["replay", str(log), *options])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture(params=list(CHANGES))
def case(request: Any, tmp_path: Path) -> Case:
    return Case(tmp_path, request.param)


def test_each_row_is_judged_by_the_definitions_of_its_time(case: Case, capsys: Any) -> None:
    code, out, err = replay(capsys, case.log, *case.options(), "--release", case.release, "--json")
    found = json.loads(out)
    assert (code, found["differ"], found["unexplained"], found["misrouted"]) == (0, 0, 0, 0), out
    assert found["agree"] == found["deliveries"] == 4 * ROUNDS * len(case.definitions)
    assert found["unchecked"].get("definitions", 0) <= 2 * (len(case.definitions) - 1)
    assert "no row" not in err


def test_the_last_definitions_alone_say_when_they_changed(case: Case, capsys: Any) -> None:
    code, out, _ = replay(capsys, case.log, "--definitions", str(case.definitions[-1]), "--release", case.release)
    assert code == 1
    said = re.match(
        r"All [0-9]+ deliveries that differ are of messages published before (\S+):"
        r" the definitions were probably changed then\.",
        out,
    )
    assert said, out
    earlier, later = case.definitions[-2:]
    named = ["--definitions", str(earlier), "--definitions", f"{later}@{said[1]}"]
    assert replay(capsys, case.log, *named, "--release", case.release)[0] == 0


@pytest.mark.parametrize("release", ["3.10", "4.3"])
def test_definitions_of_the_beginning_alone_say_when_they_changed(release: str, tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, release)
    code, out, _ = replay(capsys, case.log, "--definitions", str(case.definitions[0]), "--release", case.release)
    said = re.match(r"All [0-9]+ deliveries that differ lie after (\S+): the definitions were probably", out)
    assert code == 1
    assert said, out
    if len(case.definitions) == 2:
        named = ["--definitions", str(case.definitions[0]), "--definitions", f"{case.definitions[1]}@{said[1]}"]
        assert replay(capsys, case.log, *named, "--release", case.release)[0] == 0


def test_what_is_wrong_in_each_period_is_found(case: Case, capsys: Any, tmp_path: Path) -> None:
    """In the middle of each period, a delivery comes from another queue than it should."""
    ends = [START_US, *(changed_at_us(number) for number in range(len(case.definitions) - 1))]
    ends.append(max(row.time_us for row in case.rows))
    rows = list(case.rows)
    for begin, end in pairwise(ends):
        at = next(
            at for at, row in enumerate(rows)
            if row.event == "delivered" and row.queue in ("done", "other") and row.time_us > (begin + end) // 2
        )  # fmt: skip
        rows[at] = msgspec.structs.replace(rows[at], queue="work")
    log = written(tmp_path / "wrong.parquet", rows)
    code, out, _ = replay(capsys, log, *case.options(), "--release", case.release, "--json")
    found = json.loads(out)
    assert code == 1
    assert found["differ"] + found["unexplained"] == len(case.definitions)
    assert "changed" not in found


def test_what_is_wrong_in_one_period_alone_is_found(tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.10")
    first = str(case.definitions[0])
    later = f"{first}@{changed_at_us(0) / 1_000_000:.3f}"
    given = ["--definitions", first, "--definitions", later, "--release", "3.10", "--json"]
    code, out, err = replay(capsys, case.log, *given)
    assert code == 1, err
    found = json.loads(out)
    assert found["differ"] + found["unexplained"] >= 2 * ROUNDS - 2


def test_a_message_under_way_at_a_change_that_fits_neither_is_not_checked(tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.10")
    at = next(
        at for at, row in enumerate(case.rows)
        if row.queue in ("done", "other") and row.event == "delivered" and row.time_us > changed_at_us(0)
    )  # fmt: skip
    case.rows[at] = msgspec.structs.replace(case.rows[at], queue="work")
    log = written(tmp_path / "wrong.parquet", case.rows)
    code, out, _ = replay(capsys, log, *case.options(), "--release", "3.10", "--out", str(tmp_path / "out"))
    assert code == 0
    assert "1 delivery was not checked: the message was published before the definitions changed" in out
    changed = f"{datetime.fromtimestamp(changed_at_us(0) / 1_000_000, UTC):%Y-%m-%d %H:%M:%S}.300 UTC"
    assert f"definitions of work: published before the definitions changed at {changed}" in out


@pytest.mark.spark
def test_spark_says_the_same(tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "4.3")
    given = [*case.options(), "--release", "4.3", "--json"]
    here, there = (json.loads(replay(capsys, case.log, *given, "--engine", each)[1]) for each in ("local", "spark"))
    assert here == there


@pytest.mark.parametrize("release", list(CAPTURES))
def test_a_recorded_log_agrees_with_its_definitions_given_thrice(release: str, tmp_path: Path, capsys: Any) -> None:
    log, definitions = CAPTURES[release] / "trace.log.gz", CAPTURES[release] / "definitions.json"
    times = sorted(row["time_us"] for batch in open_log(log) for row in batch.to_pylist())
    moments = [times[len(times) // 3] / 1_000_000, times[len(times) * 2 // 3] / 1_000_000]
    timed = [option for at in moments for option in ("--definitions", f"{definitions}@{at:.6f}")]
    given = ["--definitions", str(definitions), "--release", release, "--json"]
    once, thrice = (json.loads(replay(capsys, log, *given, *more)[1]) for more in ([], timed))
    left_out = ("overfull", "unfilled", "untested", "untested_more")
    assert [thrice.pop(name) for name in left_out] == [[], [], None, 0]
    assert thrice == {name: value for name, value in once.items() if name not in left_out}


def recorded(release: str) -> tuple[Path, list[Path], list[float]]:
    """A log of a server on which a policy was changed twice, the definitions of each time, and the two moments."""
    folder = Path(__file__).parent / "changed" / release
    return folder / "log.parquet", sorted(folder.glob("definitions-*")), json.loads((folder / "times.json").read_text())


@pytest.mark.parametrize("release", ["3.8", "3.10", "4.3"])
def test_a_server_whose_policy_was_changed_is_not_blamed(release: str, capsys: Any) -> None:
    log, (first, *others), times = recorded(release)
    timed = [option for file, at in zip(others, times, strict=True) for option in ("--definitions", f"{file}@{at}")]
    code, out, _ = replay(capsys, log, "--definitions", str(first), *timed, "--release", release)
    assert code == 0
    assert out.startswith(f"RabbitMQ delivered everything as the rules of {release} predict.")
    code, out, _ = replay(capsys, log, "--definitions", str(others[-1]), "--release", release)
    said = re.match(r"All [0-9]+ deliveries that differ are of messages published before (\S+): the definitions", out)
    assert code == 1
    assert said is not None
    assert abs(datetime.fromisoformat(said[1]).timestamp() - times[0]) < 1


def test_messages_are_lost_only_before_a_change_that_mends_it(tmp_path: Path, capsys: Any) -> None:
    """The exchange of the dead letters is missing at first, and messages die half a second after their publish."""
    log = Log()
    for name in ("before", "under way", "after"):
        log.publish("", "orders", message_id=name)
    log.publish("", "work", message_id="other").deliver("work", "", ["work"], message_id="other")
    files = []
    for exchange in ("missing", ""):
        arguments = {"x-message-ttl": 500, "x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "dead"}
        files.append(tmp_path / f"definitions-{len(files)}.json")
        files[-1].write_bytes(definitions_of({"orders": arguments, "dead": {}, "work": {}}).to_json())
    trace = write_log(tmp_path / "trace.log", log.records)
    code, out, _ = replay(capsys, trace, "--definitions", str(files[0]), "--json")
    assert (code, json.loads(out)["lost"]) == (0, 3)
    timed = f"{files[1]}@{(START + timedelta(seconds=1.25)).isoformat()}"
    code, out, _ = replay(capsys, trace, "--definitions", str(files[0]), "--definitions", timed, "--json")
    assert (code, json.loads(out)["lost"]) == (0, 1)


# A binding that was added during the log: nothing differs, but messages are missing that should have come.


def parked(*bound: str, ttl: bool = False) -> Topology:
    """Two queues for dead letters, of which ``bound`` get those of ``work``."""
    to_dead = {"x-dead-letter-exchange": "dead", **({"x-message-ttl": 500} if ttl else {})}
    queues = [Queue(name="work", arguments=to_dead), *(Queue(name=name) for name in ("parked", "audit"))]
    bindings = [Binding(source="dead", destination=name, routing_key="work") for name in bound]
    return Topology.of(exchanges=[Exchange(name="dead", type="direct")], queues=queues, bindings=bindings)


def two_parts(folder: Path, before: Topology, after: Topology, history: list[steps.AnyStep]) -> list[str]:
    """A log in which ``before`` turns into ``after`` a minute after its beginning, and the later definitions."""
    rows = broker_log(history, before, "4.3")
    for row in broker_log([steps.Wait(60_000), *history], after, "4.3"):
        name = f"{row.message}-later"
        rows.append(msgspec.structs.replace(row, message=name, message_id=name, line=row.line + 1_000))
    file = folder / "definitions.json"
    file.write_text(json.dumps(definitions_document(after, "4.3")))
    return [str(written(folder / "log.parquet", rows)), "--definitions", str(file), "--release", "4.3"]


EXPIRES = [steps.Publish("", "work", times=3), steps.Wait(5_000), steps.Ack("parked", 3)]
REJECTED = [steps.Publish("", "work", times=3), steps.Reject("work", 3), steps.Ack("parked", 3), steps.Ack("audit", 3)]


@pytest.mark.parametrize(
    ("before", "queue", "history"),
    [(parked(ttl=True), "parked", EXPIRES), (parked("parked"), "audit", REJECTED)],
    ids=["the only binding", "one more binding"],
)
def test_messages_that_died_before_a_binding_was_added_are_missing(
    before: Topology, queue: str, history: list[steps.AnyStep], tmp_path: Path, capsys: Any
) -> None:
    after = parked("parked", *(["audit"] if queue == "audit" else []), ttl=queue == "parked")
    log, *options = two_parts(tmp_path, before, after, history)
    code, out, _ = replay(capsys, Path(log), *options)
    assert code == 0
    assert re.match(
        rf"3 messages that died before 2026-01-01T00:01:0\S+Z did not reach queue '{queue}', though the definitions"
        r" bind it: the binding was probably added then\. Give the definitions of both times",
        out,
    ), out
    found = json.loads(replay(capsys, Path(log), *options, "--json")[1])
    assert [(each["queue"], each["messages"]) for each in found["bound_later"]] == [(queue, 3)]


@pytest.mark.parametrize("history", [EXPIRES, REJECTED])
def test_messages_that_still_wait_are_not_missing(history: list[steps.AnyStep], tmp_path: Path, capsys: Any) -> None:
    both = parked("parked", "audit", ttl=history is EXPIRES)
    log, *options = two_parts(tmp_path, both, both, [*history, *history[:-1]])
    assert "bound_later" not in json.loads(replay(capsys, Path(log), *options, "--json")[1])


# The other commands that take several.


def test_a_message_is_explained_by_the_definitions_of_its_time(case: Case, capsys: Any) -> None:
    """The third message of each period died in ``wait``, under the TTL and the key of that period."""
    published = [row.message for row in case.rows if row.event == "published"]
    for number, definition in enumerate(CHANGES[case.release]):
        message = published[2 * ROUNDS * number + 2]
        told = [*case.options(), "--message", message, "--release", case.release, "--json"]
        assert main(["explain", str(case.log), *told]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["verdict"] == "agree"
        (death,) = [step for step in found["steps"] if "it died in 'wait'" in step["text"]]
        assert f"to '{definition.get('dead-letter-routing-key', 'done')}'" in death["text"]
        assert death["because"].startswith(f"message-ttl {definition['message-ttl']} by policy")
    alone = ["--definitions", str(case.definitions[-1]), "--message", published[2], "--release", case.release]
    assert main(["explain", str(case.log), *alone]) == 1


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])])
def test_what_if_answers_for_the_last_definitions(engine: str, tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.10")
    changed = "policy:waiting.message-ttl=1900"
    given = [*case.options(), "--release", "3.10", "--set", changed, "--engine", engine]
    assert main(["whatif", str(case.log), *given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["messages"] == found["reproduced"] == 2 * ROUNDS - 2
    assert found["before"]["acknowledged"] == {"other": 2 * ROUNDS - 2}
    at = f"{datetime.fromtimestamp(changed_at_us(0) / 1_000_000, UTC):%Y-%m-%d %H:%M:%S}.300 UTC"
    assert found["unchecked"][0] == (
        f"{2 * ROUNDS + 2} messages published before {at}: other definitions held then, and the answer is for the last"
    )


@pytest.mark.parametrize("command", ["replay", "explain", "whatif", "watch"])
def test_a_running_server_gives_its_definitions(command: str, tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.10")
    document = json.loads(case.definitions[0].read_bytes())
    more = {"explain": ["--message", case.rows[0].message], "watch": ["--once"]}.get(command, [])
    with simulator.serve("3.10", definitions=document, management_port=0) as server:
        url = str(server.management_url)
        given = ["--definitions", url]
        if command == "replay":
            given += ["--definitions", f"{url}api/definitions@{changed_at_us(0) // 1_000_000}"]
        main([command, str(case.log), *given, *more, "--json"])
    out, err = capsys.readouterr()
    assert out, err
    assert "3.10" in err
    assert "the rules are those of 3.10" in err


# What is given wrongly.


@pytest.mark.parametrize(
    "time", ["14", "14:03", "00:00:24.3", "2026-01-01T00:00:24.3", "2026-01-01T01:00:24.300+01:00"]
)
def test_times_are_of_the_first_day_or_absolute(time: str, tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.8")
    first, second = case.definitions
    given = ["--definitions", str(first), "--definitions", f"{second}@{time}"]
    code, _, err = replay(capsys, case.log, *given, "--release", "3.8")
    if time == "14:03":
        assert f"{second.name}@14:03: no row lies after 2026-01-01 14:03:00.000 UTC; the last is of" in err
    elif time == "14":
        assert f"{second.name}@14: no row lies before 1970-01-01 00:00:14.000 UTC; the first is of" in err
    else:
        assert (code, "no row" in err) == (0, False)


def test_wrong_use_is_explained(tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.8")
    first, second = map(str, case.definitions)

    def refused(*given: str, command: str = "replay") -> str:
        options = [option for each in given for option in ("--definitions", each)]
        assert main([command, str(case.log), *options, *([] if command != "explain" else ["--message", "m1"])]) == 64
        return capsys.readouterr().err

    assert "'half past two' is no time. After the @ goes one such as 2026-" in refused(first, f"{second}@half past two")
    url = refused(first, "http://guest:secret@localhost:15672/api/definitions@half past two")
    assert "what follows the last @ is no time. After it" in url
    assert "secret" not in url
    assert "'25:03' is no time" in refused(first, f"{second}@25:03")
    assert "both hold from the beginning" in refused(first, second)
    assert "give the definitions that hold from the beginning, too" in refused(f"{second}@14:03")
    assert "hold from the same time on, 2026-01-01 14:03:00.000 UTC" in refused(
        first, f"{second}@14:03", f"{first}@2026-01-01T14:03:00"
    )
    for command in ("whatif", "explain"):
        assert "both hold from the beginning" in refused(first, second, command=command)
        assert "give the definitions that hold from the beginning, too" in refused(f"{second}@14:03", command=command)
    for given in ([first, second], [first, f"{second}@14:03"], [f"{second}@14:03"]):
        assert "dlx watch takes one file or URL" in refused(*given, command="watch")


@pytest.mark.parametrize("option", ["--complete", "--counters"])
def test_options_that_add_up_the_whole_log_are_refused(option: str, tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.8")
    value = [str(case.definitions[0])] if option == "--counters" else []
    code, _, err = replay(capsys, case.log, *case.options(), option, *value)
    assert code == 64
    assert f"{option}: not for several --definitions" in err


def test_a_file_with_an_at_in_its_name_comes_first(tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.8")
    named = case.definitions[0].rename(tmp_path / "ops@14:03")
    later = f"{case.definitions[1]}@{changed_at_us(0) // 1_000_000}"
    given = ["--definitions", str(named), "--definitions", later]
    assert replay(capsys, case.log, *given, "--release", "3.8")[0] == 0


def test_definitions_of_another_release_are_named(tmp_path: Path, capsys: Any) -> None:
    case = Case(tmp_path, "3.8")
    document = json.loads(case.definitions[1].read_bytes())
    case.definitions[1].write_text(json.dumps({**document, "rabbitmq_version": "4.1.2"}))
    _, _, err = replay(capsys, case.log, *case.options(), "--release", "3.8")
    assert "4.1.2" in err
