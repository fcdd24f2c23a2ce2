"""What asking "what if" costs beside one replay of the same log: processor time in this process, both in turn.

    python benchmarks/what_if_speed.py [--rounds 3]

Two generated logs of 10,000 rows: one whose messages are played by themselves (rows of messages with an
expiration are left out), and one whose messages queues couple. The other side has a lower delivery limit
or another waiting time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from figures import Figure
from figures import show as show_figures
from local_replay import DEFINITIONS, wide_definitions

from simulator.definitions import Definitions, read_definitions
from simulator.generate import Wish, generate
from simulator.replay import Database, replay_files
from simulator.replay.tables import LocalTable, select
from simulator.replay.whatif.local import what_if_files
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.what_if import side_of

ROWS = 10_000
COMMAND = "`benchmarks/what_if_speed.py`"
LASTING = "SELECT * FROM {log} WHERE message NOT IN (SELECT message FROM {log} WHERE expiration IS NOT NULL)"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    show_figures(figures(parser.parse_args().rounds))


def figures(rounds: int = 3) -> list[Figure]:
    """Both logs: the processor time of both sides relative to one replay."""
    found = []
    with tempfile.TemporaryDirectory(prefix="dlx-benchmark-") as name:
        folder = Path(name)
        ladders = folder / "ladders.json"
        ladders.write_bytes(msgspec.json.encode(wide_definitions()))
        for what, file, setting, alone in (
            ("by themselves", ladders, "queue:wait.1.x-message-ttl=5000", True),
            ("coupled by queues", DEFINITIONS, "queue:emails.send.x-delivery-limit=1", False),
        ):
            definitions = read_definitions(file)
            logs = folder / file.parent.name
            logs.mkdir()
            generate(Wish(file.read_bytes(), ROWS), logs)
            other = with_settings(definitions, [read_setting(setting, definitions)])
            with Database(folder) as database:
                log = database.parquet(sorted(logs.glob("log-*.parquet")))
                log = select(LASTING, log=log) if alone else log
                found.append(figure(what, log, definitions, other, folder, rounds))
    return found


def figure(what: str, log: LocalTable, one: Definitions, other: Definitions, work: Path, rounds: int) -> Figure:
    """Both sides relative to one replay, and rows a second."""

    def replayed() -> None:
        replay_files(log, one, "4.3", verdicts=work / "verdicts.parquet")

    def asked() -> None:
        what_if_files(log, side_of(one, "4.3"), side_of(other, "4.3"), work)

    replays, answers = zip(*((cpu_s(replayed), cpu_s(asked)) for _ in range(rounds)), strict=True)
    rows = len(log.to_list())
    rate = rows / statistics.median(answers)
    ratio = statistics.median(answers) / statistics.median(replays)
    return Figure(
        f"`dlx whatif` of messages {what}, processor time relative to one replay",
        "≤ 1.5",
        f"{ratio:.1f} ({rate:,.0f} rows/s)",
        COMMAND,
    )


def cpu_s(work: Callable[[], object]) -> float:
    """The processor time that the work takes, in seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
