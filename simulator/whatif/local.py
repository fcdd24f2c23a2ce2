"""Asks a log in this process: replays it, reads what consumers did, and plays it under both settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from dlx.releases import DEFAULT
from dlx.routing import share_indexes
from simulator.definitions import Definitions
from simulator.replay.engines.gc_tuning import seldom_collecting
from simulator.replay.engines.local import kernel_of
from simulator.replay.kernel.batch_replay import Kernel
from simulator.replay.kernel.kernel_input import in_order, kernel_rows
from simulator.replay.rows.tables import LocalTable
from simulator.whatif.both_sides import Playbacks, compare
from simulator.whatif.causes import PlayedGroup
from simulator.whatif.consumer_actions import read_stories
from simulator.whatif.coupling import Unit
from simulator.whatif.differences import Side
from simulator.whatif.log import Captured, coupling_queues_of, of_the_log
from simulator.whatif.log_rows import BESIDE, ReplayedRows, replayed_batches, rows_of
from simulator.whatif.plain_player import PlainPlayer, WeightedCase
from simulator.whatif.playback import Unseen
from simulator.whatif.playback_broker import QueueRef
from simulator.whatif.result import AnyResult, WhatIfResult, conclusion
from simulator.whatif.settings_given import read_setting, with_settings
from simulator.whatif.shared_player import SharedPlayer
from simulator.whatif.sides import PreparedSide, prepared, side_of
from simulator.whatif.stories import Story
from simulator.whatif.tally import Tally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame as SparkTable

Progress = Callable[[str, int, int | None], object]
PlayerOf = Callable[[Playbacks, frozenset[QueueRef], Collection[str], Mapping[str, int]], PlainPlayer]


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
    player_of: PlayerOf = SharedPlayer,
) -> WhatIfResult:
    """Return what would have become of the messages of a capture.

    ``left`` is a capture of what was found in the queues in the end. With ``examples``, some messages that change are
    played once more, and all that happens to them is kept. ``player_of`` makes what plays messages by themselves.

    Raises:
        CaptureError: files of ``left`` have the names of files in the log.
        DefinitionsError: the broker refuses the definitions of a side.
        MatchesNothingError: those of a side are of other virtual hosts or queues.
    """
    given = Captured.of(captured, left)
    one, other = map(prepared, of_the_log(given.overview, before, after))
    playbacks = Playbacks(one, other, unseen, given.overview.log(one, given.left))
    kernel = kernel_of_side(given.rows, one)
    coupling = coupling_queues_of(given, playbacks.reaches, one)
    player = player_of(playbacks, coupling, given.left_files, given.file_numbers)
    of_alone = Tally()
    look = player.first(player.stories(of_alone.add_verdicts(_replayed(given.rows, kernel, progress))))
    count = len(look.coupled)
    playbacks, together = compare(
        look.coupled, playbacks, look.waits_us, lambda done: progress("playing messages", done, count)
    )
    progress("looking for causes", count, count)
    player.playbacks = playbacks
    alone = [*look.found, *(case for waiting in look.waiting for case in player.second(waiting))]
    groups = []
    for unit, own in together:
        weighted = list(map(WeightedCase.of, own))
        if unit.queues:
            groups.append(PlayedGroup(unit, Tally(weighted), own))
        else:
            alone += weighted
    for case in alone:
        of_alone.add(case)
    wanted = of_alone.examples()
    read_again = in_order(kernel_rows(given.of_messages(wanted), BESIDE)).batches()
    stories_again = player.stories(replayed_batches(kernel.replay, read_again))
    coupled = [WeightedCase.of(case) for group in groups for case in group.cases]
    groups.append(PlayedGroup(Unit(range(of_alone.messages)), of_alone, playbacks.all_alone(stories_again, wanted)))
    answer, tally, shown = conclusion(groups, playbacks, given, examples=examples)
    units = [group.unit for group in groups if group.unit.stories]
    return WhatIfResult(answer=answer, tally=tally, units=units, lives=shown, cases=[*coupled, *alone])


def read_log(captured: LocalTable, side: PreparedSide) -> list[Story]:
    """Replay a capture under its own settings, and return what it shows of each message."""
    kernel = kernel_of_side(captured, side)
    rows = rows_of(_replayed(captured, kernel, lambda what, done, of: None), Captured.of(captured).file_numbers)
    return list(read_stories(rows, side.flows, only=side.only_vhost))


def kernel_of_side(captured: LocalTable, side: PreparedSide) -> Kernel:
    """Return what replays a capture under its own settings."""
    definitions = side.side.definitions
    for vhost, flow in side.flows.items():
        if vhost in definitions.vhosts:
            share_indexes(definitions.topology(vhost), flow.topology)
    return kernel_of(captured, definitions, side.side.release.name, details=False)


def _replayed(captured: LocalTable, kernel: Kernel, progress: Progress) -> Iterator[ReplayedRows]:
    batches = _report_progress(in_order(kernel_rows(captured, BESIDE)).batches(), progress)
    return replayed_batches(kernel.replay, batches)


def _report_progress(batches: Iterable[pa.RecordBatch], progress: Progress) -> Iterator[pa.RecordBatch]:
    """Yield batches, and tell how many rows are done."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        progress("replaying", done, None)
