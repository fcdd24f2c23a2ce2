"""Asks a log in this process: replays it, reads what consumers did, and plays it under both settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from dlx.releases import DEFAULT
from simulator.capture import CaptureError
from simulator.definitions import Definitions
from simulator.replay.local import replay_files
from simulator.replay.tables import LocalTable, rows, select
from simulator.replay.whatif.answer import SHOWN_MAX, Answer
from simulator.replay.whatif.causes import find_causes
from simulator.replay.whatif.coupling import Unit
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.lives import Life, lives
from simulator.replay.whatif.outcomes import ROWS, read_stories
from simulator.replay.whatif.rerun import Unseen
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.tally import Tally
from simulator.replay.whatif.what_if import Case, Comparison, Prepared, prepared, side_of

if TYPE_CHECKING:
    from pandas import DataFrame

Progress = Callable[[str, int, int | None], object]


class Asked(NamedTuple):
    """The answer, with its tally, the messages behind it, the plan by which they were played, and a few lives."""

    answer: Answer
    tally: Tally
    cases: Sequence[Case]
    units: Sequence[Unit]
    lives: Mapping[str, Life]

    def __repr__(self) -> str:
        answer = self.answer
        return (
            f"<{answer.changed} of {answer.reproduced} messages would end differently; of {answer.messages} in the log>"
        )

    def frame(self) -> DataFrame:
        """Return a row per message and side, as ``dlx whatif --out`` writes them (``files.SCHEMA``), for pandas."""
        from simulator.replay.whatif.files import rows_of

        found: DataFrame = rows_of(self.cases).to_pandas()
        return found

    def _repr_html_(self) -> str:
        """Return the answer as notebooks show it: what changes, where messages end, why, and how sure that is."""
        from simulator.replay.whatif.page import fragment  # plotly is only needed here

        return fragment(self.answer)


def what_if(
    captured: LocalTable,
    definitions: Definitions,
    rules: str = DEFAULT,
    *,
    against: Definitions | None = None,
    against_release: str | None = None,
    settings: Sequence[str] = (),
    left: LocalTable | None = None,
    unseen: Unseen = "ack",
) -> Asked:
    """Return what other settings, or another release, would have done to the messages of a capture.

    Args:
        captured: a table of a ``Database``, as ``replay_files`` takes it.
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
        UnknownReleaseError: there are no rules for a release.
        TooMuchError: messages go round without end.
    """
    other = definitions if against is None else against
    other = with_settings(other, [read_setting(each, other) for each in settings])
    sides = side_of(definitions, rules), side_of(other, against_release or rules)
    with TemporaryDirectory(prefix="dlx-") as work:
        return what_if_files(captured, *sides, Path(work), left=left, unseen=unseen)


def what_if_files(
    captured: LocalTable,
    before: Side,
    after: Side,
    work: Path,
    *,
    left: LocalTable | None = None,
    unseen: Unseen = "ack",
    examples: bool = False,
    progress: Progress = lambda what, done, of: None,
) -> Asked:
    """Return what would have become of the messages of a capture.

    ``work`` is a folder for what does not stay in memory; ``left`` a capture of what was found in the queues in the
    end. With ``examples``, some messages that change are played once more, and all that happens to them is kept.

    Raises:
        CaptureError: files of ``left`` have the names of files in the log.
        DefinitionsError: the broker refuses the definitions of a side.
        TooMuchError: messages go round without end.
    """
    before, after = _named(before, captured), _named(after, captured)
    one, other = prepared(before), prepared(after)
    names = () if left is None else _files(left)
    stories = read_log(captured if left is None else _with_left(captured, left), one, work, progress, names)
    comparison = Comparison(stories, one, other, unseen)
    count = len(stories)
    cases = comparison.play(lambda done: progress("playing messages", done, count))
    progress("looking for causes", count, count)
    causes = find_causes(comparison)
    unchecked = (*dict.fromkeys((*one.notes, *other.notes)), *causes.unchecked, *_not_looked_at(captured, stories))
    tally = Tally(cases)
    answer = tally.answer(causes.found, unchecked)
    wanted = {change.examples[0] for change in answer.changes[:SHOWN_MAX]} if examples else set()
    return Asked(answer, tally, cases, comparison.units, lives(comparison, wanted))


def _files(captured: LocalTable) -> set[str]:
    return {row["file"] for row in rows("SELECT DISTINCT file FROM {captured}", captured=captured)}


def _with_left(captured: LocalTable, left: LocalTable) -> LocalTable:
    """Return the log and what was left in the queues, in one table."""
    if both := _files(captured) & _files(left):
        raise CaptureError(min(both), "a file of this name is in the log, and in what was left: rename one of them")
    return select("SELECT * FROM {captured} UNION ALL BY NAME SELECT * FROM {left}", captured=captured, left=left)


def _named(side: Side, captured: LocalTable) -> Side:
    """Return the side with the virtual host of the log, where its definitions do not name theirs."""
    if side.definitions.vhost_named:
        return side
    vhosts = rows("SELECT DISTINCT vhost FROM {captured}", captured=captured)
    if len(vhosts) != 1:
        return side
    document = {**side.definitions.document, "original_vhost_name": vhosts[0]["vhost"]}
    return Side(Definitions(document, side.definitions.source), side.release)


def read_log(
    captured: LocalTable, side: Prepared, work: Path, progress: Progress, left: Collection[str] = ()
) -> list[Story]:
    """Replay a capture under its own settings, and return what it shows of each message."""
    replayed = replay_files(
        captured,
        side.side.definitions,
        side.side.release.name,
        verdicts=work / "whatif-verdicts.parquet",
        replayed=lambda done: progress("replaying", done, None),
    )
    joined = select(ROWS, captured=captured, replayed=replayed)
    found = rows("SELECT * FROM {joined} ORDER BY vhost, message, time_us, place", joined=joined)
    return list(read_stories(found, side.flows, only=side.only_vhost, left=left))


def _not_looked_at(captured: LocalTable, stories: Sequence[Story]) -> list[str]:
    (counted,) = rows("SELECT count(DISTINCT (vhost, message)) AS messages FROM {captured}", captured=captured)
    missing = counted["messages"] - len(stories)
    return [f"{missing:,} messages of virtual hosts that the definitions do not have"] if missing else []
