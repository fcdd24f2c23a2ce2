"""Asks what would have been, of logs in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dlx.releases import DEFAULT
from dlx.topology import Topology
from simulator.capture import convert
from simulator.capture.parquet import write_capture
from simulator.capture.schema import to_batches
from simulator.definitions import Definitions
from simulator.replay import Database
from simulator.scenario.steps import AnyStep
from simulator.testing.strategies import definitions_document
from simulator.whatif.differences import Side
from simulator.whatif.local import what_if_files
from simulator.whatif.playback import LogFacts, Unseen
from simulator.whatif.result import WhatIfResult
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.sides import side_of
from simulator.whatif.stories import Story
from tests.replay.broker_logs import broker_log


def asked_of(
    logs: Sequence[Path], before: Side, after: Side, *, left: Sequence[Path] = (), unseen: Unseen = "ack"
) -> WhatIfResult:
    """Ask of logs on disk; ``left`` are captures of what the queues held in the end."""
    with TemporaryDirectory() as name, Database(Path(name)) as database:
        work = Path(name)
        convert(logs, work / "log.parquet")
        captured = database.parquet([work / "log.parquet"])
        found = database.parquet(left) if left else None
        return what_if_files(captured, before, after, left=found, unseen=unseen)


def asked_about(
    topology: Topology,
    history: Iterable[AnyStep],
    *settings: str,
    release: str = DEFAULT,
    against: str | None = None,
    unseen: Unseen = "ack",
) -> WhatIfResult:
    """Play a history on the simulator, record it as a server would, and ask what other settings would have done."""
    definitions = Definitions(definitions_document(topology, release), "definitions.json")
    other = with_settings(definitions, [read_setting(each, definitions) for each in settings])
    with TemporaryDirectory() as name, Database(Path(name)) as database:
        work = Path(name)
        with write_capture(work / "log.parquet") as writer:
            for batch in to_batches(broker_log(history, topology, release)):
                writer.write(batch)
        captured = database.parquet([work / "log.parquet"])
        sides = side_of(definitions, release), side_of(other, against or release)
        return what_if_files(captured, *sides, unseen=unseen)


def shown_by(stories: Iterable[Story]) -> LogFacts:
    """Return what stories show together."""
    end_us, consumed = 0, set()
    for story in stories:
        publishes = (publication.at_us for publication in story.publications)
        deliveries = (delivery.at_us for delivery in story.deliveries)
        end_us = max(end_us, *publishes, *deliveries)
        consumed |= {(story.vhost, delivery.queue) for delivery in story.deliveries}
    return LogFacts(end_us, frozenset(consumed))
