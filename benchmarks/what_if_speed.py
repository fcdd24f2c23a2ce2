"""What asking "what if" costs beside one replay of the same log: processor time in this process, both in turn.

    python benchmarks/what_if_speed.py [--rounds 3] [--rows 10000] [--copies 1]

Two generated logs: one whose messages are played by themselves (rows of messages with an expiration are
left out), so many times over, and one whose messages queues couple. The other side has another waiting time
in one queue or in sixty, or a lower delivery limit. Of the coupled messages it is also measured how many
events of both brokers a second of processor time plays.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from figures import Figure
from figures import show as show_figures
from local_replay import DEFINITIONS, LADDERS, wide_definitions
from replay_speed import copied

from simulator.capture import SCHEMA
from simulator.definitions import Definitions, read_definitions
from simulator.generate import Wish, generate
from simulator.replay import Database, replay_files
from simulator.replay.engines.gc_tuning import seldom_collecting
from simulator.replay.rows.tables import LocalTable, select
from simulator.whatif.both_sides import Playbacks, compare
from simulator.whatif.local import read_log, what_if_files
from simulator.whatif.log import Overview
from simulator.whatif.playback_broker import PlaybackBroker
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.sides import prepared, side_of

ROWS = 10_000
COMMAND = "`benchmarks/what_if_speed.py`"
LASTING = "SELECT * FROM {log} WHERE message NOT IN (SELECT message FROM {log} WHERE expiration IS NOT NULL)"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--copies", type=int, default=1)
    options = parser.parse_args()
    show_figures(figures(options.rounds, options.rows, options.copies))


def figures(rounds: int = 3, rows: int = ROWS, copies: int = 1) -> list[Figure]:
    """Both logs: the processor time of both sides relative to one replay; the coupled one: events a second."""
    found = []
    for asking in questions(rows, copies):
        found.append(figure(asking, rounds))
        if not asking.alone:
            found.append(events_figure(asking, rounds))
    return found


class Question(NamedTuple):
    """A generated log and the definitions of both sides; ``alone``: its messages are played by themselves."""

    what: str
    log: LocalTable
    one: Definitions
    other: Definitions
    work: Path
    alone: bool


def questions(rows: int, copies: int = 1) -> Generator[Question, None, None]:
    """Yield the questions, of logs of so many rows; each can be asked until the next one."""
    with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as name:
        folder = Path(name)
        ladders = folder / "ladders.json"
        ladders.write_bytes(msgspec.json.encode(wide_definitions()))
        for what, file, settings, alone in (
            ("by themselves", ladders, ["queue:wait.1.x-message-ttl=5000"], True),
            ("by themselves, with another waiting time in all sixty queues", ladders,
             [f"queue:wait.{number}.x-message-ttl=5000" for number in range(LADDERS)], True),
            ("coupled by queues", DEFINITIONS, ["queue:emails.send.x-delivery-limit=1"], False),
        ):  # fmt: skip
            definitions = read_definitions(file)
            other = with_settings(definitions, [read_setting(each, definitions) for each in settings])
            with Database(folder) as database:
                log = database.parquet(generated(file, rows, folder / file.parent.name))
                if alone:
                    log = many_times(select(LASTING, log=log), copies, database, folder / "copies.parquet")
                yield Question(what, log, definitions, other, folder, alone)


def generated(file: Path, rows: int, logs: Path) -> list[Path]:
    """Generate a log from definitions, unless it is there."""
    if not logs.exists():
        logs.mkdir()
        generate(Wish(file.read_bytes(), rows), logs)
    return sorted(logs.glob("log-*.parquet"))


def many_times(log: LocalTable, copies: int, database: Database, to: Path) -> LocalTable:
    """Return a log so many times over, one copy after the other."""
    if copies == 1:
        return log
    once = pa.Table.from_pylist(log.to_list(), SCHEMA).combine_chunks().to_batches()[0]
    times_us = once.column("time_us")
    seconds = (pc.max(times_us).as_py() - pc.min(times_us).as_py()) // 1_000_000 + 1
    pq.write_table(pa.Table.from_batches([copied(once, copy, seconds) for copy in range(copies)], SCHEMA), to)
    return database.parquet([to])


def figure(asking: Question, rounds: int) -> Figure:
    """Both sides relative to one replay, and rows a second."""
    what, log, one, other, work, alone = asking

    @seldom_collecting()  # as the command does
    def replayed(given: Definitions) -> None:
        replay_files(log, given, "4.3", verdicts=work / "verdicts.parquet")

    def asked(given: Definitions, against: Definitions) -> None:
        what_if_files(log, side_of(given, "4.3"), side_of(against, "4.3"))

    def anew(given: Definitions) -> Definitions:
        return Definitions(given.document, given.source)  # one that has served already knows its indexes and routes

    runs = ((anew(one), anew(one), anew(other)) for _ in range(rounds))
    both = ((cpu_s(partial(replayed, first)), cpu_s(partial(asked, *sides))) for first, *sides in runs)
    replays, answers = zip(*both, strict=True)
    rows = len(log.to_list())
    rate = rows / statistics.median(answers)
    ratio = statistics.median(answers) / statistics.median(replays)
    return Figure(
        f"`dlx whatif` of messages {what}, processor time relative to one replay",
        "≤ 2.0" if alone else "≤ 4.0",
        f"{ratio:.1f} ({rate:,.0f} rows/s)",
        COMMAND,
    )


def events_figure(asking: Question, rounds: int) -> Figure:
    """The events of both brokers that a second of processor time plays."""
    _, log, one, other, _, _ = asking
    sides = [prepared(side_of(each, "4.3")) for each in (one, other)]
    stories = read_log(log, sides[0])
    playbacks = Playbacks(*sides, "ack", Overview.of(log).log(sides[0]))
    for side in sides:
        side.broker  # noqa: B018 (made once, before the clock runs)
    events = 0

    def counting(broker: PlaybackBroker, command: Any, plain: Any = PlaybackBroker.tell) -> Any:
        nonlocal events
        observer = broker.observer

        def observe(*happened: Any) -> None:
            nonlocal events
            events += 1
            observer(*happened)

        broker.observer = observe
        try:
            return plain(broker, command)
        finally:
            broker.observer = observer

    with mock.patch.object(PlaybackBroker, "tell", counting):
        compare(stories, playbacks)
    with seldom_collecting():
        seconds = statistics.median(cpu_s(partial(compare, stories, playbacks)) for _ in range(rounds))
    return Figure(
        "events of both brokers a second, in `dlx whatif` of messages coupled by queues",
        "≥ 60,000",
        f"{events / seconds:,.0f} ({events:,} events)",
        COMMAND,
    )


def cpu_s(work: Callable[[], object]) -> float:
    """The processor time that the work takes, in seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
