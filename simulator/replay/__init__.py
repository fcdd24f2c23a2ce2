"""Replay of captured logs: what RabbitMQ delivered against what the rules predict.

``replay`` takes and gives a Spark DataFrame; ``replay_files`` does the same in this process with a table of a
``Database``, in bounded memory, and ``replay_table`` with batches in memory. ``summarize`` and the like take the
result of either of the first two. ``simulator.replay.run`` is the whole way from log files to results on disk. Names
are loaded on first use, so that the workers, which need only the kernel, do not import Spark's client side.

Theory of operation
===================

A trace shows publishes and deliveries. It never shows a dead letter: what happened between two rows of a message has
to be inferred. Replay predicts, from the definitions and the rules of a release, every state that the message can
have reached from what was seen before, and looks for the one that was delivered. The rooms stand in the order in
which a row passes through them, and import only from rooms to their left::

    rows  ->  search  ->  checks  ->  coverage  ->  kernel  ->  results  ->  engines

rows      A row of a capture becomes three strings (``row_codec``). The *lineage* says whose row it is, the
          *signature* is all that the rules look at, the *content* is what no rule changes. Times stay apart.
search    ``visible_state`` turns a signature into a message, and a message into what a row would show of it. ``graph``
          searches for the deaths that lead from one state to another; ``sources`` are the states to start from.
checks    What a way must fit besides its headers: delivery counts (``counts``), length limits (``lengths``) and times
          (``times``). ``explain`` puts search and checks together for one delivery: the ways that fit, or else the
          nearest one with what differs.
coverage  Which rules a delivery has shown: a log that shows few proves little.
kernel    Column batches in, the same rows with verdicts out. Equal signatures get one number, and messages with equal
          sequences of numbers get equal verdicts, so the rules run once for each sequence (``message_verdicts``),
          however many messages have it. ``times`` then judges the times of all rows at once; where they refute a way,
          the next one that fits is taken. ``verdict_cache`` is all that the kernel remembers.
results   Sums over rows with verdicts: the totals, queues that held too much, how late rows were written, what
          the broker's counters say, settings that nothing in the log put to the test, and the headline.
engines   ``local`` sorts with DuckDB in this process, ``spark`` with Spark. Both feed the same kernel.

Beside this way: ``repair`` looks for what may be behind rows that differ, ``watch`` replays a log while it grows,
``report`` draws a finished replay, ``one_message`` tells the life of a single message, and ``traces`` writes those of
all as OpenTelemetry traces.

An example
----------

The queue ``work`` dead-letters to ``retry``, which has a time to live of one second and dead-letters back to ``work``.
Six rows of two messages, ``a`` and ``b``::

    1  a  published  key work
    2  a  delivered  from work
    3  a  delivered  from work   x-death: retry expired 1, work rejected 1
    4  b  published  key work
    5  b  delivered  from work
    6  b  delivered  from work   x-death: retry expired 1, work rejected 2

rows      Two lineages. Four signatures: rows 1 and 4 are alike, rows 2 and 5 are, rows 3 and 6 are not.
kernel    The sequence of ``a`` is 0 1 2, that of ``b`` is 0 1 3: two sequences, so the rules run twice.
search    Row 2: the publish alone reaches ``work`` with no death. Row 3: from row 2, ``work`` rejects to ``retry``,
          which expires back to ``work``; that state shows the counts 1 and 1.
checks    Row 3 fits: it came a second after row 2, as the time to live asks. For row 6 no way leads to a count of 2
          after one delivery; the nearest way is that of row 3, and ``x-death[1].count`` differs (1 expected, 2 seen).
results   Four deliveries: three ``agree``, one ``differ``. Four dead letters that no row of the log shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlx._lazy import lazy
from simulator.extras import importing

if TYPE_CHECKING:
    from simulator.capture import CaptureError as CaptureError
    from simulator.replay.engines.local import repair_table as repair_table
    from simulator.replay.engines.local import replay_files as replay_files
    from simulator.replay.engines.local import replay_table as replay_table
    from simulator.replay.engines.spark import replay as replay
    from simulator.replay.engines.spark import scan as scan
    from simulator.replay.engines.spark import ship as ship
    from simulator.replay.engines.spark_sessions import spark_session as spark_session
    from simulator.replay.results.summary import Finding as Finding
    from simulator.replay.results.summary import LostMessages as LostMessages
    from simulator.replay.results.summary import MatchesNothingError as MatchesNothingError
    from simulator.replay.results.summary import Summary as Summary
    from simulator.replay.results.summary import UncheckedFinding as UncheckedFinding
    from simulator.replay.results.summary import findings as findings
    from simulator.replay.results.summary import hops as hops
    from simulator.replay.results.summary import lost_messages as lost_messages
    from simulator.replay.results.summary import summarize as summarize
    from simulator.replay.results.summary import unchecked_findings as unchecked_findings
    from simulator.replay.rows.assumptions import Assumptions as Assumptions
    from simulator.replay.rows.tables import Database as Database
    from simulator.replay.rows.verdict_words import VERDICTS as VERDICTS
    from simulator.replay.rows.verdict_words import Difference as Difference
    from simulator.replay.rows.verdict_words import Unchecked as Unchecked
    from simulator.replay.rows.verdict_words import Verdict as Verdict
    from simulator.whatif.local import what_if as what_if
    from simulator.whatif.settings_given import SettingError as SettingError
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "simulator.capture": ("CaptureError",),
            "simulator.replay.engines.local": ("repair_table", "replay_files", "replay_table"),
            "simulator.replay.engines.spark": ("replay", "scan", "ship"),
            "simulator.replay.engines.spark_sessions": ("spark_session",),
            "simulator.replay.results.summary": (
                "Finding",
                "LostMessages",
                "MatchesNothingError",
                "Summary",
                "UncheckedFinding",
                "findings",
                "hops",
                "lost_messages",
                "summarize",
                "unchecked_findings",
            ),
            "simulator.replay.rows.assumptions": ("Assumptions",),
            "simulator.replay.rows.tables": ("Database",),
            "simulator.replay.rows.verdict_words": ("VERDICTS", "Difference", "Unchecked", "Verdict"),
            "simulator.whatif.local": ("what_if",),
            "simulator.whatif.settings_given": ("SettingError",),
        },
        load=importing("replay"),
    )
