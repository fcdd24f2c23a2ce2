"""Asks a log in this process: replays it, reads what consumers did, and plays it under both settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from dlx.releases import DEFAULT
from simulator.definitions import Definitions
from simulator.replay.kernel_input import in_order, kernel_rows
from simulator.replay.local import kernel_of
from simulator.replay.seldom_collecting import seldom_collecting
from simulator.replay.tables import LocalTable
from simulator.replay.whatif.asked import AnyAsked, Asked
from simulator.replay.whatif.captured import of_the_log, with_left
from simulator.replay.whatif.causes import find_causes
from simulator.replay.whatif.conclusion import conclusion
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.lives import lives
from simulator.replay.whatif.log_rows import BESIDE, file_numbers, files_of, replayed_rows
from simulator.replay.whatif.outcomes import read_stories
from simulator.replay.whatif.rerun import Unseen
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.tally import Tally
from simulator.replay.whatif.what_if import Case, Comparison, Prepared, prepared, side_of

if TYPE_CHECKING:
    import pyarrow as pa
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
) -> AnyAsked:
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
        from simulator.replay.whatif.spark import what_if_on_spark  # which needs Spark

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
) -> Asked:
    """Return what would have become of the messages of a capture.

    ``left`` is a capture of what was found in the queues in the end. With ``examples``, some messages that change are
    played once more, and all that happens to them is kept.

    Raises:
        CaptureError: files of ``left`` have the names of files in the log.
        DefinitionsError: the broker refuses the definitions of a side.
        MatchesNothingError: those of a side are of other virtual hosts or queues.
    """
    one, other = map(prepared, of_the_log(captured, before, after))
    names = () if left is None else files_of(left)
    stories = read_log(captured if left is None else with_left(captured, left), one, progress, names)
    comparison = Comparison(stories, one, other, unseen)
    count = len(stories)
    cases = comparison.play(lambda done: progress("playing messages", done, count))
    progress("looking for causes", count, count)
    tallies = [(Tally(own), unit, own) for unit, own in comparison.parts()]
    parts = (part.part(own, unit.queues) for part, unit, own in tallies if part.changed)
    tally = Tally.whole(part for part, _, _ in tallies)
    answer = conclusion(tally, find_causes(comparison.runs, parts), comparison.runs, captured, left)
    shown = lives(comparison.runs, _groups(comparison), answer.shown_examples) if examples else {}
    return Asked(answer=answer, tally=tally, units=comparison.units, lives=shown, cases=cases)


def _groups(comparison: Comparison) -> Iterator[Sequence[Case]]:
    """Yield cases that are played together."""
    for unit, own in comparison.parts():
        yield from [own] if unit.queues else ([case] for case in own)


def read_log(captured: LocalTable, side: Prepared, progress: Progress, left: Collection[str] = ()) -> list[Story]:
    """Replay a capture under its own settings, and return what it shows of each message."""
    kernel = kernel_of(captured, side.side.definitions, side.side.release.name)
    batches = _told(in_order(kernel_rows(captured, BESIDE)).batches(), progress)
    rows = replayed_rows(kernel.replay, batches, file_numbers(captured))
    return list(read_stories(rows, side.flows, only=side.only_vhost, left=left))


def _told(batches: Iterable[pa.RecordBatch], progress: Progress) -> Iterator[pa.RecordBatch]:
    """Yield batches, and tell how many rows are done."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        progress("replaying", done, None)
