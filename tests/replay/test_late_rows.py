"""Rows are late where the tracer was: nobody is blamed for that, and settings that cannot be right are still told.

``late`` has a log of a live 4.3.6 that was traced while its machine was busy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from simulator.capture import open_log
from simulator.cli.main import main
from simulator.definitions import Definitions, parse_definitions
from simulator.replay import replay_table
from simulator.replay.kernel.message_verdicts import LOST
from tests.long import some_in_ci
from tests.replay.logs import Log, Record, death, definitions_of, died, example_definitions, example_records, write_log

BUSY = Path(__file__).parent / "late"
LASTS_S = 1.9
"""How long the captured examples last."""
Lag = Callable[[float], float]
Row = dict[str, Any]


def run(capsys: Any, log: Path, definitions: Path, *options: str) -> tuple[int, str]:
    code = main(["replay", str(log), "--definitions", str(definitions), "--release", "4.3", *options])
    return code, capsys.readouterr().out


def test_nobody_is_blamed_for_the_log_of_a_busy_broker(capsys: Any) -> None:
    code, out = run(capsys, BUSY / "trace.log.gz", BUSY / "definitions.json", "--json")
    summary = json.loads(out)
    assert (code, summary["agree"], summary["differ"]) == (0, 4602, 0)
    (stretch,) = summary["late"]
    assert 100_000 < stretch["least_us"] < stretch["most_us"] < 10_000_000
    _, out = run(capsys, BUSY / "trace.log.gz", BUSY / "definitions.json")
    assert "Rows from 2026-11-27 03:04:42.464 UTC to 2026-11-27 03:04:56.196 UTC were written late" in out
    assert "check who" not in out


@pytest.mark.spark
def test_both_engines_find_the_same_rows_late(capfd: Any, tmp_path: Path) -> None:
    found = []
    for engine in ("local", "spark"):
        options = ("--engine", engine, "--out", str(tmp_path / engine))
        code, out = run(capfd, BUSY / "trace.log.gz", BUSY / "definitions.json", "--json", *options)
        verdicts = pq.read_table(tmp_path / engine / "verdicts.parquet").drop_columns("shown").to_pylist()
        found.append((code, json.loads(out), sorted(map(repr, verdicts))))
    assert found[0] == found[1]
    assert found[0][1]["late"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])])
def test_whatif_says_that_it_takes_late_rows_for_prompt(engine: str, capfd: Any) -> None:
    definitions = str(BUSY / "definitions.json")
    options = (
        "--definitions",
        definitions,
        "--release",
        "4.3",
        "--set",
        "queue:retry.1.x-message-ttl=500",
        "--engine",
        engine,
    )
    main(["whatif", str(BUSY / "trace.log.gz"), *options])
    assert "all are assumed to be on time, though some may come up to 5,196 ms late" in capfd.readouterr().out


def other_ttl(queue: str, ttl_ms: int) -> Definitions:
    document = json.loads((BUSY / "definitions.json").read_bytes())
    (found,) = [each for each in document["queues"] if each["name"] == queue]
    found["arguments"]["x-message-ttl"] = ttl_ms
    return parse_definitions(json.dumps(document).encode(), "definitions.json")


@pytest.mark.slow
@pytest.mark.parametrize(("queue", "ttl_ms"), [("retry.3", 60_000), ("retry.1", 2_500)])
def test_a_ttl_that_cannot_be_right_is_told_of_a_late_log(queue: str, ttl_ms: int) -> None:
    found = delivered(BUSY / "trace.log.gz", other_ttl(queue, ttl_ms), "4.3")
    told = {each["field"] for row in found for each in row["differences"]}
    assert told == {f"time in '{queue}'"}


@pytest.mark.slow
def test_a_ttl_that_lateness_may_explain_is_unchecked() -> None:
    """Some rows are too prompt for it: those tell."""
    found = delivered(BUSY / "trace.log.gz", other_ttl("retry.1", 350), "4.3")
    assert {each["field"] for row in found for each in row["differences"]} <= {"time in 'retry.1'"}
    hidden = [row for row in found if "too late to show it" in " ".join(each["why"] for each in row["unchecked"])]
    assert "retry.1" in {each["name"] for row in hidden for each in row["unchecked"]}


# -- the captured examples, written late -----------------------------------------


def constant(random: Random) -> Lag:
    late_ms = random.choice([150, 300, 700, 1_500, 3_000, 10_000])
    return lambda _: late_ms


def bursts(random: Random) -> Lag:
    drawn = [
        (random.uniform(0, LASTS_S), random.uniform(0.05, 0.6), random.uniform(100, 1_500))
        for _ in range(random.randint(1, 4))
    ]
    return lambda at_s: max((ms for begin_s, long_s, ms in drawn if 0 <= at_s - begin_s <= long_s), default=0)


def drift(random: Random) -> Lag:
    most_ms, rises = random.choice([500, 2_000, 10_000]), random.random() < 0.7
    return lambda at_s: most_ms * (at_s if rises else max(0, LASTS_S - at_s)) / LASTS_S


def written_late(records: list[Record], lag: Lag) -> list[Record]:
    """The records as a tracer writes them that is behind by so many milliseconds: late, and in their order."""
    begin = datetime.fromisoformat(records[0]["timestamp"])
    found, written = [], begin
    for record in records:
        time = datetime.fromisoformat(record["timestamp"])
        written = max(written, time + timedelta(milliseconds=round(lag((time - begin).total_seconds()))))
        found.append({**record, "timestamp": written.isoformat(timespec="milliseconds")})
    return found


def delivered(log: Path, definitions: Definitions, rules: str) -> list[Row]:
    return [row for row in replay_table(open_log(log), definitions, rules).to_pylist() if row["event"] == "delivered"]


LAGS = [(kind, seed) for kind in (constant, bursts, drift) for seed in range(20)]
FEW = [(constant, 5), (bursts, 10), (drift, 0)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), some_in_ci(LAGS, FEW))
@pytest.mark.parametrize("name", ["3.10", "4.3"])
def test_late_rows_differ_in_nothing(name: str, kind: Callable[[Random], Lag], seed: int, tmp_path: Path) -> None:
    log = write_log(tmp_path / "trace.log", written_late(example_records(name), kind(Random(seed))))
    assert {row["verdict"] for row in delivered(log, example_definitions(name), name)} == {"agree"}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), some_in_ci(LAGS, [(bursts, 2), (drift, 5)]))
@pytest.mark.parametrize(("ttl_ms", "is_told"), [(600_000, True), (600, False)])
def test_a_wrong_ttl_is_told_or_named_as_unchecked(
    kind: Callable[[Random], Lag], seed: int, ttl_ms: int, is_told: bool, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "trace.log", written_late(example_records("4.3"), kind(Random(seed))))
    found = delivered(log, example_definitions("4.3", orders_wait__x_message_ttl=ttl_ms), "4.3")
    waited = [row for row in found if ("orders.wait", "expired") in [(h["queue"], h["reason"]) for h in row["hops"]]]
    told = [row for row in waited if row["verdict"] == "differ"]
    named = [row for row in waited if "orders.wait" in [each["name"] for each in row["unchecked"]]]
    assert len(told) > 100 if is_told else len(told) + len(named) > 100


def test_a_log_that_is_not_late_says_nothing_of_it(capsys: Any, tmp_path: Path) -> None:
    wait = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
    log = Log().publish("", "inbox")
    log.deliver("late", "", ["late"], headers=died(death("inbox", "expired", keys=["inbox"])))
    (tmp_path / "definitions.json").write_bytes(definitions_of({"inbox": wait, "late": {}}).to_json())
    code, out = run(capsys, write_log(tmp_path / "t.log", log.records), tmp_path / "definitions.json", "--json")
    summary = json.loads(out)
    assert (code, summary["differ"]) == (1, 1)
    assert "late" not in summary


# -- logs of which a part is missing ---------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3.10", "4.3"])
@pytest.mark.parametrize(
    ("kept_until", "kept_from"), [(0, 0.1), (0, 0.35), (0, 0.6), (0.65, 1), (0.35, 0.5), (0.5, 0.6), (0.25, 0.8)]
)
def test_what_a_part_of_a_log_does_not_show_is_no_difference(
    name: str, kept_until: float, kept_from: float, tmp_path: Path
) -> None:
    records = example_records(name)
    kept = [*records[: round(kept_until * len(records))], *records[round(kept_from * len(records)) :]]
    found = delivered(write_log(tmp_path / "trace.log", kept), example_definitions(name), name)
    assert [row["why"] or row["differences"] for row in found if row["verdict"] not in ("agree", "ambiguous")] == []
    lacking = [row for row in found if "publish" in [each["what"] for each in row["unchecked"]]]
    assert bool(lacking) == (kept_from < 1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "begin", "rows"), [("3.10", 3105, 351), ("3.10", 401, 605), ("4.3", 3341, 90)])
def test_what_consumers_published_in_a_gap_is_no_difference(name: str, begin: int, rows: int, tmp_path: Path) -> None:
    records = example_records(name)
    log = write_log(tmp_path / "trace.log", [*records[:begin], *records[begin + rows :]])
    found = delivered(log, example_definitions(name), name)
    assert [row["why"] or row["differences"] for row in found if row["verdict"] not in ("agree", "ambiguous")] == []
    assert LOST in {each["why"] for row in found for each in row["unchecked"]}


def test_a_gap_hides_no_wrong_definitions(tmp_path: Path) -> None:
    records = example_records("3.10")
    log = write_log(tmp_path / "trace.log", [*records[:3105], *records[3456:]])
    found = delivered(log, example_definitions("3.10", orders_wait__x_message_ttl=600_000), "3.10")
    assert len([row for row in found if row["verdict"] == "differ"]) > 100


@pytest.mark.parametrize(
    ("lacking_s", "is_told"), [((), True), ((12.5,), True), ((12.5,) * 3, False), ((9.5, *[12.5] * 3), True)]
)
def test_a_delivery_that_nothing_explains_is_told_unless_the_log_has_a_gap(
    lacking_s: tuple[float, ...], is_told: bool, tmp_path: Path
) -> None:
    """A gap is where other messages have no publish, unless some had none before, too."""
    start = datetime.fromisoformat("2026-01-01T00:00:00.000+00:00")
    log = Log().publish("", "work").deliver("elsewhere", "", ["elsewhere"])
    for number, _ in enumerate(lacking_s):
        log.deliver("work", "", ["work"], message_id=f"other {number}")
    records = [
        {**record, "timestamp": (start + timedelta(seconds=at_s)).isoformat(timespec="milliseconds")}
        for record, at_s in zip(log.records, (11, 12, *lacking_s), strict=True)
    ]
    trace = write_log(tmp_path / "trace.log", sorted(records, key=lambda record: str(record["timestamp"])))
    found = delivered(trace, definitions_of({"work": {}, "elsewhere": {}}), "4.3")
    assert [row["verdict"] for row in found if row["queue"] == "elsewhere"] == ["unexplained" if is_told else "agree"]


def test_a_log_that_begins_on_a_running_system_is_not_red(capsys: Any, tmp_path: Path) -> None:
    """A message that had died before, and one that was published shortly before and not traced."""
    wait = {"x-message-ttl": 500, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
    lap = died(death("wait", "expired", keys=["wait"]), death("work", "rejected", keys=["work"]))
    log = Log().deliver("work", "", ["work"], headers=lap).deliver("work", "", ["work"], message_id="m2")
    log.publish("", "work", message_id="m3").deliver("work", "", ["work"], message_id="m3")
    (tmp_path / "definitions.json").write_bytes(definitions_of({"wait": wait, "work": work}).to_json())
    trace = write_log(tmp_path / "trace.log", log.records)
    code, out = run(capsys, trace, tmp_path / "definitions.json")
    assert code == 0
    assert "A client published" not in out
    assert "it may have begun later" in out
    code, out = run(capsys, trace, tmp_path / "definitions.json", "--json")
    assert json.loads(out)["unchecked"]["publish"] == 2
