"""Asks a log in this process: replays it, reads what consumers did, and plays it under both settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from dlx.releases import DEFAULT
from simulator.definitions import Definitions
from simulator.replay.local import replay_files
from simulator.replay.tables import LocalTable, rows, select
from simulator.replay.whatif.answer import Answer, answered
from simulator.replay.whatif.causes import find_causes
from simulator.replay.whatif.coupling import Unit
from simulator.replay.whatif.differences import Side
from simulator.replay.whatif.lives import Life, lives
from simulator.replay.whatif.outcomes import ROWS, read_stories
from simulator.replay.whatif.queue_order import put_in_order
from simulator.replay.whatif.rerun import Unseen
from simulator.replay.whatif.settings_given import read_setting, with_settings
from simulator.replay.whatif.stories import Story
from simulator.replay.whatif.what_if import Case, Prepared, compared, plan, prepared, side_of

Progress = Callable[[str, int, int | None], object]


EXAMPLES_MAX = 12
"""Ways of change of which an example is played once more, for the page."""


class Asked(NamedTuple):
    """The answer, with the messages behind it, the plan by which they were played, and a few of their lives."""

    answer: Answer
    cases: Sequence[Case]
    units: Sequence[Unit]
    lives: Mapping[str, Life]


def what_if(
    captured: LocalTable,
    definitions: Definitions,
    rules: str = DEFAULT,
    *,
    against: Definitions | None = None,
    against_release: str | None = None,
    settings: Sequence[str] = (),
    left: Collection[str] = (),
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
        left: names of files in the capture whose rows are what was found in the queues in the end.
        unseen: what consumers do with a delivery that the log does not have.

    Raises:
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
    left: Collection[str] = (),
    unseen: Unseen = "ack",
    examples: bool = False,
    progress: Progress = lambda what, done, of: None,
) -> Asked:
    """Return what would have become of the messages of a capture.

    ``work`` is a folder for what does not stay in memory; ``left`` are names of files in the capture whose rows are
    what was found in the queues in the end. With ``examples``, some messages that change are played once more, and all
    that happens to them is kept.

    Raises:
        DefinitionsError: the broker refuses the definitions of a side.
        TooMuchError: messages go round without end.
    """
    before, after = _named(before, captured), _named(after, captured)
    one, other = prepared(before), prepared(after)
    stories = read_log(captured, one, work, progress, left)
    parts = plan(stories, one, other)
    count = len(stories)
    cases = list(
        compared(
            stories, one, other, unseen=unseen, parts=parts, done=lambda done: progress("playing messages", done, count)
        )
    )
    progress("looking for causes", count, count)
    causes = find_causes(cases, parts, before, after, unseen)
    unchecked = (*dict.fromkeys((*one.notes, *other.notes)), *causes.unchecked, *_not_looked_at(captured, stories))
    answer = answered(cases, causes.found, unchecked)
    names = {change.examples[0] for change in answer.changes[:EXAMPLES_MAX]} if examples else set()
    return Asked(answer, cases, parts, lives(stories, one, other, names, unseen) if names else {})


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
    stories = list(read_stories(found, side.flows, only=side.only_vhost, left=left))
    put_in_order(stories, side.flows)
    return stories


def _not_looked_at(captured: LocalTable, stories: Sequence[Story]) -> list[str]:
    (counted,) = rows("SELECT count(DISTINCT (vhost, message)) AS messages FROM {captured}", captured=captured)
    missing = counted["messages"] - len(stories)
    return [f"{missing:,} messages of virtual hosts that the definitions do not have"] if missing else []
