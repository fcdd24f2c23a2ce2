"""Asks a log in this process: replays it, reads what consumers did, and plays it under both settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from dlx.releases import DEFAULT
from dlx.routing import share_indexes
from simulator.definitions import Definitions
from simulator.replay.kernel import Kernel
from simulator.replay.kernel_input import in_order, kernel_rows
from simulator.replay.local import kernel_of
from simulator.replay.seldom_collecting import seldom_collecting
from simulator.replay.tables import LocalTable
from simulator.replay.whatif.alike_messages import AlikeMessages
from simulator.replay.whatif.asked import AnyAsked, Asked
from simulator.replay.whatif.captured import Captured, coupling_queues_of
from simulator.replay.whatif.causes import find_causes
from simulator.replay.whatif.conclusion import conclusion
from simulator.replay.whatif.coupling import Reaches, Unit
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.lives import lives
from simulator.replay.whatif.log_rows import BESIDE, Replayed, replayed_batches, rows_of
from simulator.replay.whatif.outcomes import read_stories
from simulator.replay.whatif.overview import of_the_log
from simulator.replay.whatif.rerun import Unseen
from simulator.replay.whatif.row_numbers import keys_of_both_sides
from simulator.replay.whatif.second_plays import SecondPlays
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.stage import Queue
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.tally import Tally
from simulator.replay.whatif.together import Alike, FirstLook
from simulator.replay.whatif.what_if import Case, Comparison, Prepared, Runs, began, prepared, side_of

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
    given = Captured.of(captured, left)
    one, other = map(prepared, of_the_log(given.overview, before, after))
    runs = Runs(one, other, unseen, given.of_all(one))
    kernel = kernel_of_side(given.rows, one, runs.reaches)
    coupling = coupling_queues_of(given, runs.reaches, one)
    known = AlikeMessages(runs, coupling, given.left_files, given.file_numbers, lambda: kernel.signatures)
    stories, looks = _apart(known.messages(_replayed(given.rows, kernel, progress)))
    comparison = Comparison(stories, runs, _waits_us(looks))
    count = len(stories)
    comparison.play(lambda done: progress("playing messages", done, count))
    progress("looking for causes", count, count)
    alike, alone = _together(looks, comparison.runs)
    tallies = []
    for unit, own in comparison.parts():
        if unit.queues:
            tallies.append((Tally(own), unit.queues, own))
        else:
            alone.tally.merge(Tally(own))
            alone.examples.extend(own)
    tallies.append((alone.tally, (), sorted(alone.examples, key=began)))
    tally = Tally.whole(part for part, *_ in tallies)
    parts = (part.part(own, queues) for part, queues, own in tallies if part.changed)
    answer = conclusion(tally, find_causes(comparison.runs, parts), comparison.runs, given)
    shown = lives(comparison.runs, _groups(tallies), answer.shown_examples) if examples else {}
    found = _units(comparison, tally)
    return Asked(answer=answer, tally=tally, units=found, lives=shown, singles=comparison.cases, alike=alike)


def _apart(messages: Iterable[Story | FirstLook]) -> tuple[list[Story], list[FirstLook]]:
    stories: list[Story] = []
    looks: list[FirstLook] = []
    for each in messages:
        if isinstance(each, FirstLook):
            looks.append(each)
        else:
            stories.append(each)
    return stories, looks


def _together(looks: Iterable[FirstLook], runs: Runs) -> tuple[list[Alike], _Alone]:
    """Play what is alike under the other side, and count it."""
    alike: list[Alike] = []
    alone, second_plays = _Alone(Tally(), []), SecondPlays(runs)
    for look in looks:
        alone.tally.add_last(look.last_seen)
        if look.alike is not None:
            alike.append(look.alike)
        if look.waiting is not None:
            found = second_plays.play(look.waiting)
            alike.append(found.alike)
            alone.examples.extend(map(runs.alone, found.examples))
    for each in alike:
        alone.tally.add_alike(each)
    return alike, alone


def _units(comparison: Comparison, tally: Tally) -> list[Unit]:
    """Return which messages were played together, and why; those that were looked at together are by themselves."""
    coupled = [unit for unit in comparison.units if unit.queues]
    alone = tally.messages - sum(len(unit.stories) for unit in coupled)
    return [*coupled, Unit(range(alone))] if alone else coupled


class _Alone(NamedTuple):
    """The tally of messages that are played by themselves, and some of them: the examples are among these."""

    tally: Tally
    examples: list[Case]


def _waits_us(looks: Iterable[FirstLook]) -> dict[Queue, list[int]]:
    """Return how long messages waited to be delivered, in each queue that they came into."""
    found: dict[Queue, list[int]] = {}
    for look in looks:
        for queue, waits_us in look.waits.by_queue():
            found.setdefault(queue, []).extend(waits_us)
    return found


def _groups(tallies: Iterable[tuple[Tally, Sequence[Queue], list[Case]]]) -> Iterator[Sequence[Case]]:
    """Yield cases that are played together."""
    for _, queues, own in tallies:
        yield from [own] if queues else ([case] for case in own)


def read_log(captured: LocalTable, side: Prepared) -> list[Story]:
    """Replay a capture under its own settings, and return what it shows of each message."""
    kernel = kernel_of_side(captured, side, Reaches([side.flows]))
    rows = rows_of(_replayed(captured, kernel, lambda what, done, of: None), Captured.of(captured).file_numbers)
    return list(read_stories(rows, side.flows, only=side.only_vhost))


def kernel_of_side(captured: LocalTable, side: Prepared, reaches: Reaches) -> Kernel:
    """Return what replays a capture under its own settings."""
    definitions = side.side.definitions
    for vhost, flow in side.flows.items():
        if vhost in definitions.vhosts:
            share_indexes(definitions.topology(vhost), flow.topology)
    return kernel_of(
        captured,
        definitions,
        side.side.release.name,
        details=False,
        alike_keys=keys_of_both_sides(reaches, side.only_vhost),
    )


def _replayed(captured: LocalTable, kernel: Kernel, progress: Progress) -> Iterator[Replayed]:
    batches = _told(in_order(kernel_rows(captured, BESIDE)).batches(), progress)
    return replayed_batches(kernel.replay, batches)


def _told(batches: Iterable[pa.RecordBatch], progress: Progress) -> Iterator[pa.RecordBatch]:
    """Yield batches, and tell how many rows are done."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        progress("replaying", done, None)
