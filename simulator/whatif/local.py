"""Asks a log in this process: replays it, reads what consumers did, and plays it under both settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from dlx.releases import DEFAULT
from dlx.routing import share_indexes
from simulator.definitions import Definitions
from simulator.replay.engines.gc_tuning import seldom_collecting
from simulator.replay.engines.local import kernel_of
from simulator.replay.kernel.kernel_input import in_order, kernel_rows
from simulator.replay.rows.tables import LocalTable
from simulator.whatif.both_sides import Playbacks, compare
from simulator.whatif.causes import PlayedGroup
from simulator.whatif.consumer_actions import read_stories
from simulator.whatif.differences import Side
from simulator.whatif.log import Captured, of_the_log
from simulator.whatif.log_rows import BESIDE, ReplayedRows, replayed_batches, rows_of
from simulator.whatif.playback import Unseen
from simulator.whatif.result import AnyResult, WhatIfResult, conclusion
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.sides import PreparedSide, prepared, side_of
from simulator.whatif.stories import Story
from simulator.whatif.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as SparkTable

Progress = Callable[[str, int, int | None], object]


def what_if(
    captured: LocalTable | SparkTable,
    definitions: Definitions,
    rules: str = DEFAULT,
    *,
    against: Definitions | None = None,
    against_release: str | None = None,
    settings: Sequence[str] = (),
    left: LocalTable | SparkTable | None = None,
    unseen: Unseen = "ack",
) -> AnyResult:
    """Return what other settings, or another release, would have done to the messages of a capture.

    Args:
        captured: a table of a ``Database``, as ``replay_files`` takes it, or a DataFrame of Spark with all columns
            of a capture (``simulator.capture.SCHEMA``).
        definitions: those of the broker that wrote it.
        rules: the RabbitMQ release of that broker.
        against: other definitions; by default the same.
        against_release: another release; by default the same.
        settings: such as ``queue:jobs.x-delivery-limit=2``, laid over the other definitions.
        left: a capture of what was found in the queues in the end.
        unseen: what consumers do with a delivery that the log does not have.

    Raises:
        CaptureError: files of ``left`` have the names of files in the log.
        SettingError: a setting names what there is not.
        DefinitionsError: the broker refuses the definitions of a side.
        MatchesNothingError: those of a side are of other virtual hosts or queues.
        UnknownReleaseError: there are no rules for a release.
    """
    other = definitions if against is None else against
    other = with_settings(other, [read_setting(each, other) for each in settings])
    sides = side_of(definitions, rules), side_of(other, against_release or rules)
    if not isinstance(captured, LocalTable):
        from simulator.whatif.spark import what_if_on_spark  # which needs Spark

        return what_if_on_spark(captured, *sides, left=cast("SparkTable | None", left), unseen=unseen)
    return what_if_files(captured, *sides, left=cast("LocalTable | None", left), unseen=unseen)


@seldom_collecting()  # all messages are in memory, and live to the end
def what_if_files(
    captured: LocalTable,
    before: Side,
    after: Side,
    *,
    left: LocalTable | None = None,
    unseen: Unseen = "ack",
    examples: bool = False,
    progress: Progress = lambda what, done, of: None,
) -> WhatIfResult:
    """Return what would have become of the messages of a capture.

    ``left`` is a capture of what was found in the queues in the end. With ``examples``, some messages that change are
    played once more, and all that happens to them is kept.

    Raises:
        CaptureError: files of ``left`` have the names of files in the log.
        DefinitionsError: the broker refuses the definitions of a side.
        MatchesNothingError: those of a side are of other virtual hosts or queues.
    """
    given = Captured.of(captured, left)
    one, other = map(prepared, of_the_log(given.overview, before, after))
    read = Tally()
    replayed = read.add_verdicts(_report_progress(_replayed(given, one), progress))
    stories = list(_stories(given, one, replayed))
    count = len(stories)
    playbacks, together = compare(
        stories,
        Playbacks(one, other, unseen, given.overview.log(one, given.left)),
        lambda done: progress("playing messages", done, count),
    )
    progress("looking for causes", count, count)
    groups = [PlayedGroup.of(unit, own) for unit, own in together]
    answer, tally, shown = conclusion(read, groups, playbacks, given, examples=examples)
    cases = [case for _, own in together for case in own]
    return WhatIfResult(answer=answer, tally=tally, units=[unit for unit, _ in together], lives=shown, cases=cases)


def read_log(captured: LocalTable, side: PreparedSide) -> list[Story]:
    """Replay a capture under its own settings, and return what it shows of each message."""
    given = Captured.of(captured)
    return list(_stories(given, side, _replayed(given, side)))


def _replayed(given: Captured[LocalTable], side: PreparedSide) -> Iterator[ReplayedRows]:
    """Replay a capture under its own settings."""
    definitions = side.side.definitions
    for vhost, flow in side.flows.items():
        if vhost in definitions.vhosts:
            share_indexes(definitions.topology(vhost), flow.topology)
    kernel = kernel_of(given.rows, definitions, side.side.release.name, details=False)
    return replayed_batches(kernel.replay, in_order(kernel_rows(given.rows, BESIDE)).batches())


def _stories(given: Captured[LocalTable], side: PreparedSide, replayed: Iterable[ReplayedRows]) -> Iterator[Story]:
    """Yield what the log shows of each message."""
    rows = rows_of(replayed, given.file_numbers)
    return read_stories(rows, side.flows, only=side.only_vhost, left=given.left_files)


def _report_progress(batches: Iterable[ReplayedRows], progress: Progress) -> Iterator[ReplayedRows]:
    """Yield batches, and tell how many rows are done."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.captured.num_rows
        progress("replaying", done, None)
