"""Replays logs of any system, in the neutral event schema, under that system's rules.

A log has one history a line: JSON with ``system``, the ``scenario`` (how the system was
configured and what the application did, in that system's form), and the ``events`` that
were seen, in the vocabulary of ``simulator.events`` as ``dlx simulate`` prints them. A
history is replayed by running its scenario, so no rows have to be joined: the lines of
a large log go through Spark as they are.

The replay compares which event, when, in which queue, of which message, and the reason
where the log gives one. Messages are identified by the order in which they first appear,
because a simulator does not know a server's identities. A log that holds only some kinds of
events says so in ``kinds``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from simulator.scenario.scenario_errors import ScenarioError
from simulator.systems import SYSTEMS, simulate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AGREE, DIFFERS, UNREADABLE = "agree", "differs", "unreadable"

VERDICTS = pa.schema(
    [
        pa.field("history", pa.string(), False, {"doc": "Its name in the log; empty where it has none."}),
        pa.field("system", pa.string(), False, {"doc": "The system whose rules were applied."}),
        pa.field("verdict", pa.string(), False, {"doc": "agree, differs, or unreadable."}),
        pa.field("events", pa.int64(), False, {"doc": "How many events were seen."}),
        pa.field("at", pa.int64(), True, {"doc": "The first event that differs, from 0; null where none does."}),
        pa.field("expected", pa.string(), True, {"doc": "That event by the rules, as JSON; null if there is none."}),
        pa.field("seen", pa.string(), True, {"doc": "That event in the log, as JSON; null if there is none."}),
        pa.field("problem", pa.string(), True, {"doc": "Why a line is unreadable, and what would be right."}),
    ]
)


class LoggedHistory(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One line of a log.

    Attributes:
        system: one of ``simulator.systems.SYSTEMS``.
        scenario: the scenario in the form of that system.
        events: what was seen, in order; each with ``event`` and ``time_ms``, and ``queue``, ``message``, ``reason``.
        history: its name.
        kinds: the kinds of events that the log holds; ``None`` for all.
    """

    system: str
    scenario: dict[str, Any]
    events: list[dict[str, Any]]
    history: str = ""
    kinds: list[str] | None = None


class HistoryVerdict(msgspec.Struct):
    """The verdict on one history; the fields are the columns of ``VERDICTS``."""

    history: str
    system: str
    verdict: str
    events: int = 0
    at: int | None = None
    expected: str | None = None
    seen: str | None = None
    problem: str | None = None


def replay_history(
    line: str | bytes, *, change: Callable[[dict[str, Any]], dict[str, Any]] | None = None, tolerance_ms: float = 0
) -> HistoryVerdict:
    """Return the verdict on one line of a log.

    Args:
        line: the line.
        change: returns the scenario to replay instead: with another profile or other limits.
        tolerance_ms: how far times may be apart, for logs of servers whose clocks are real.
    """
    try:
        history = msgspec.json.decode(line, type=LoggedHistory)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        problem = f"{error}; expected an object with system, scenario and events"
        return HistoryVerdict("", "", UNREADABLE, problem=problem)
    if history.system not in SYSTEMS:
        problem = f"system: {history.system!r}; expected one of {', '.join(SYSTEMS)}"
        return HistoryVerdict(history.history, history.system, UNREADABLE, problem=problem)
    scenario = history.scenario if change is None else change(history.scenario)
    try:
        trace = simulate(history.system, scenario)
    except ScenarioError as error:
        return HistoryVerdict(history.history, history.system, UNREADABLE, problem=f"scenario.{error}")
    return _compared(history, trace["events"], tolerance_ms)


def _compared(history: LoggedHistory, expected: list[dict[str, Any]], tolerance_ms: float) -> HistoryVerdict:
    kinds = None if history.kinds is None else set(history.kinds)
    ours = _comparable([event for event in expected if kinds is None or event["event"] in kinds])
    theirs = _comparable(history.events)
    verdict = HistoryVerdict(history.history, history.system, AGREE, len(theirs))
    for at in range(max(len(ours), len(theirs))):
        one, other = (events[at] if at < len(events) else None for events in (ours, theirs))
        if one is None or other is None or not _same(one, other, tolerance_ms):
            verdict.verdict, verdict.at = DIFFERS, at
            verdict.expected, verdict.seen = (_json(each) for each in (one, other))
            break
    return verdict


def _comparable(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events as they are compared: messages by the order in which they first appear."""
    numbers: dict[Any, int] = {}
    comparable = []
    for event in events:
        name = event.get("message")
        number = None if name is None else numbers.setdefault(str(name), len(numbers))
        comparable.append({
            "event": event.get("event"), "time_ms": event.get("time_ms"), "queue": event.get("queue"),
            "message": number, "reason": event.get("reason"),
        })  # fmt: skip
    return comparable


def _same(one: dict[str, Any], other: dict[str, Any], tolerance_ms: float) -> bool:
    if any(one[key] != other[key] for key in ("event", "queue", "message")):
        return False
    if other["reason"] is not None and one["reason"] != other["reason"]:
        return False
    times = one["time_ms"], other["time_ms"]
    if not all(isinstance(each, (int, float)) for each in times):
        return False
    return bool(abs(times[0] - times[1]) <= tolerance_ms)


def _json(event: dict[str, Any] | None) -> str | None:
    return None if event is None else msgspec.json.encode(event).decode()


# On Spark


class _LineReplay:
    """Replays batches of lines on a worker. Spark ships it to the workers, so it holds only what they need."""

    def __init__(self, tolerance_ms: float) -> None:
        self._tolerance_ms = tolerance_ms

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lines = batch.column("value").to_pylist()
            found = [replay_history(line, tolerance_ms=self._tolerance_ms) for line in lines if line.strip()]
            columns = {name: [getattr(each, name) for each in found] for name in VERDICTS.names}
            yield pa.RecordBatch.from_pydict(columns, schema=VERDICTS)


def replay_histories(lines: DataFrame, *, tolerance_ms: float = 0) -> DataFrame:
    """Replay a log on Spark: turn a DataFrame of lines (``value``, as of ``spark.read.text``) into ``VERDICTS``."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return lines.select("value").mapInArrow(_LineReplay(tolerance_ms), from_arrow_schema(VERDICTS))
