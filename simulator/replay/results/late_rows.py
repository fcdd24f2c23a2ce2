"""Finds from a first replay whether rows were written late, and when.

A replay at first assumes that rows are on time. If no delivery differs by time, they are. Otherwise some may be late,
which shows in two ways: a death is later in the rows than ``x-death`` says, or a queue, in which many messages waited
for their TTL, seems to have let go of some too early, before and after others that waited, or as several queues did.
Where definitions are wrong, all messages of a queue are too early, or all until a moment. What the broker's clock
rules out (``BrokerClock``) is not lateness either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlx.deaths import EXPIRED
from simulator.replay.results.summary import hops
from simulator.replay.rows.assumptions import NOT_LATE, BrokerClock, Lateness, LateStretch
from simulator.replay.rows.tables import Table, rows

AROUND_US = 10_000_000
"""Around a row that is certainly late others may be."""
BEFORE_US = 60_000_000
"""Deaths longer than that before the first row are not taken for a sign that it is late."""
SEVERAL = 3
"""This many queues do not have other definitions for a while at the same time."""
MIXED_SHARE = 0.75
"""The share of a queue's messages that may seem to have left it too early where rows are late."""
_SECOND_US = 1_000_000
_MISFITS = """
    SELECT file, vhost, time_us, misfit.kind AS kind, misfit.queue AS queue, misfit.by_us AS by_us,
        misfit.since_us AS since_us
    FROM {replayed} WHERE misfit IS NOT NULL"""
_SPAN = "SELECT min(time_us) AS from_us, max(time_us) AS until_us FROM {replayed}"
_SHOWN = f"""
    SELECT file, died_s, min(time_us) AS shown_us
    FROM (SELECT file, time_us, array_max(x_death_times) AS died_s FROM {{captured}} WHERE x_death_times IS NOT NULL)
    WHERE died_s * {_SECOND_US} <= time_us
    GROUP BY file, died_s"""
_WAITED = f"""
    SELECT vhost, queue, count(*) AS deaths, min(time_us) AS from_us, max(time_us) AS until_us
    FROM {{hops}} WHERE reason = '{EXPIRED}' AND first_copy AND verdict IN ('agree', 'ambiguous')
    GROUP BY vhost, queue"""

Row = Mapping[str, Any]


def lateness(captured: Table, replayed: Table) -> Lateness:
    """Return how late the rows of a capture may be; ``replayed`` is what came of it when they were taken for prompt."""
    misfits = rows(_MISFITS, replayed=replayed)
    if not misfits:
        return NOT_LATE
    (span,) = rows(_SPAN, replayed=replayed)
    waited = rows(_WAITED, hops=hops(replayed))
    return lateness_by(captured, misfits, waited, (span["from_us"], span["until_us"]))


def lateness_by(captured: Table, misfits: Iterable[Row], waited: Iterable[Row], ends_us: tuple[int, int]) -> Lateness:
    """Return how late the rows of a capture may be; for the other arguments see ``estimated``."""
    return estimated(misfits, rows(_SHOWN, captured=captured), waited, ends_us)


def misfits_of(replayed: pa.RecordBatch) -> list[Row]:
    """Return what times refute in a batch of verdicts (``schema.OUTPUT``), as ``estimated`` takes it."""
    found = replayed.filter(replayed.column("misfit").is_valid()).select(["file", "vhost", "time_us", "misfit"])
    return [{**row, **row["misfit"]} for row in found.to_pylist()]


def waited_in(replayed: pa.RecordBatch) -> list[Row]:
    """Return which deaths by expiry fit in a batch of verdicts (``schema.OUTPUT``), as ``estimated`` takes them."""
    fitting = replayed.filter(pc.is_in(replayed.column("verdict"), pa.array(["agree", "ambiguous"])))
    several, row = fitting.column("hops"), pc.list_parent_indices(fitting.column("hops"))
    hop, sizes = several.flatten(), pc.list_value_length(several).fill_null(0).to_numpy()
    new, deaths = (fitting.column(name).fill_null(0).to_numpy()[row] for name in ("new_hops", "new_deaths"))
    step = np.arange(len(hop)) - np.cumsum(sizes)[row] + new
    first_copy = (step > 0) | ((step == 0) & (deaths == new))
    chosen = pc.and_(pc.equal(hop.field("reason"), EXPIRED), pa.array(first_copy & (new > 0)))
    columns = [*(fitting.column(name).take(row) for name in ("vhost", "time_us")), hop.field("queue")]
    deadly = pa.table(columns, ["vhost", "time_us", "queue"]).filter(chosen).group_by(["vhost", "queue"])
    counted = deadly.aggregate([("time_us", how) for how in ("count", "min", "max")])
    named = {"time_us_count": "deaths", "time_us_min": "from_us", "time_us_max": "until_us"}
    found: list[Row] = counted.rename_columns([named.get(name, name) for name in counted.column_names]).to_pylist()
    return found


def estimated(
    misfits: Iterable[Row], shown: Iterable[Row], waited: Iterable[Row], ends_us: tuple[int, int]
) -> Lateness:
    """Return how late rows may be.

    Args:
        misfits: what times refute: ``file``, ``vhost``, ``time_us`` and the fields of ``schema.MISFIT``.
        shown: when each file first showed a death in a second: ``file``, ``died_s``, ``shown_us``.
        waited: of each queue (``vhost``, ``queue``) how many ``deaths`` by expiry fit, ``from_us`` and ``until_us``.
        ends_us: when the log begins and ends.
    """
    clocks = _clocks(shown, ends_us[0])
    known = [row for row in misfits if row["by_us"] <= _late_us(clocks, row)]
    proofs = [row for row in known if row["kind"] == "x-death"]
    early = defaultdict(list)
    for row in known:
        if row["kind"] == "early":
            early[row["vhost"], row["queue"]].append(row)
    fitting = {(row["vhost"], row["queue"]): row for row in waited}
    for queue, found in early.items():
        if _is_mixed(found, fitting.get(queue), several=len(early) >= SEVERAL):
            proofs += found
    return Lateness(tuple(_stretches(proofs, clocks, ends_us)), clocks)


def _clocks(shown: Iterable[Row], begins_us: int) -> dict[str, BrokerClock]:
    """Return what each file shows of the broker's clock; deaths long before the log show nothing."""
    by_file = defaultdict(list)
    for row in shown:
        if row["died_s"] * _SECOND_US > begins_us - BEFORE_US:
            by_file[row["file"]].append((row["shown_us"], row["died_s"] * _SECOND_US))
    clocks = {}
    for file, pairs in by_file.items():
        shown_us, reached_us = np.array(sorted(pairs), np.int64).T
        clocks[file] = BrokerClock(shown_us, np.maximum.accumulate(reached_us))
    return clocks


def _late_us(clocks: Mapping[str, BrokerClock], row: Row) -> int:
    """Return how late the row may be that the path of a misfit starts from."""
    clock = clocks.get(row["file"])
    return 0 if clock is None else int(clock.late_us(np.array([row["since_us"]]))[0])


def _is_mixed(early: list[Row], waited: Row | None, *, several: bool) -> bool:
    """Return whether many messages of a queue waited long enough, some of them before and some after one that did not.

    The latter does not matter where ``several`` queues have such messages.
    """
    if waited is None or len(early) > MIXED_SHARE * (len(early) + waited["deaths"]):
        return False
    times = [row["time_us"] for row in early]
    return several or bool(waited["from_us"] < max(times) and min(times) < waited["until_us"])


def _stretches(proofs: list[Row], clocks: Mapping[str, BrokerClock], ends_us: tuple[int, int]) -> Iterator[LateStretch]:
    """Yield the times around rows that are late, those that meet as one."""
    spans = sorted((row["since_us"] - AROUND_US, row["since_us"] + AROUND_US, row["by_us"]) for row in proofs)
    while spans:
        from_us, until_us, least_us = spans.pop(0)
        while spans and spans[0][0] <= until_us:
            _, until_us, other_us = spans.pop(0)
            least_us = max(least_us, other_us)
        from_us, until_us = max(from_us, ends_us[0]), min(until_us, ends_us[1])
        yield LateStretch(from_us, until_us, least_us, _most_us(clocks, from_us, until_us))


def _most_us(clocks: Mapping[str, BrokerClock], from_us: int, until_us: int) -> int:
    """Return how late rows may be in a stretch: the bound rises until the next death is shown."""
    most = 0
    for clock in clocks.values():
        shown = clock.shown_us[(clock.shown_us >= from_us) & (clock.shown_us <= until_us)]
        most = max(most, int(clock.late_us(np.append(shown, until_us)).max()))
    return most
