"""Holds the readings of the broker's counters against the log that they are said to belong to: by times and release."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dlx.releases import Release
from dlx.releases.versions import known_release
from simulator.capture.counters import CounterReadings, NodeReadings
from simulator.replay.check_texts import moment
from simulator.replay.log_counts import LogCounts


class ReadingsFit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether readings can be those of a log.

    Attributes:
        other_time: why they are not of the time of the log, in words; empty if they are.
        doubts: what else does not fit, in words.
        until_us: until when the trace went on, as the last reading tells; 0 if it does not.
    """

    other_time: str = ""
    doubts: tuple[str, ...] = ()
    until_us: int = 0


UNCHECKED_FIT = ReadingsFit()
"""That of readings of which nobody has asked."""


def readings_fit(readings: CounterReadings, log: LogCounts, rules: Release, tolerance_us: int) -> ReadingsFit:
    """Hold readings against the first and the last row of a log, and against the release of the rules."""
    releases = tuple(_release_doubts(readings, rules))
    if log.first_us is None or log.last_us is None:
        return ReadingsFit(doubts=releases)
    first_us, last_us = log.first_us, log.last_us
    for node in readings.nodes:
        if node.before.time_us > last_us + tolerance_us or node.after.time_us < first_us - tolerance_us:
            return ReadingsFit(other_time=_other_time(node, first_us, last_us), doubts=releases)
    times = tuple(_time_doubts(readings, first_us + tolerance_us, last_us - tolerance_us))
    known = not times and not readings.cut
    until_us = min(node.after.time_us for node in readings.nodes) if known else 0
    return ReadingsFit(doubts=(*times, *releases), until_us=until_us)


def _other_time(node: NodeReadings, first_us: int, last_us: int) -> str:
    read, rows = (
        f"from {moment(begin)} to {moment(end)}"
        for begin, end in ((node.before.time_us, node.after.time_us), (first_us, last_us))
    )
    return (
        f"The counters of {node.node} were read {read}, and the log is {rows}: they are not of this log, unless the"
        " clocks of broker and capture differ by as much (--tolerance-ms)"
    )


def _time_doubts(readings: CounterReadings, begin_us: int, end_us: int) -> Iterator[str]:
    for node in readings.nodes:
        if node.before.time_us > begin_us:
            yield (
                f"The counters of {node.node} were first read at {moment(node.before.time_us)}, after the log began:"
                " what died before that is not among what it counted"
            )
        if node.after.time_us < end_us:
            yield (
                f"The counters of {node.node} were last read at {moment(node.after.time_us)}, before the log ended:"
                " what died after that is not among what it counted"
            )


def _release_doubts(readings: CounterReadings, rules: Release) -> Iterator[str]:
    for node in readings.nodes:
        if known_release(node.release) != rules.name:
            yield f"The counters are of RabbitMQ {node.release} ({node.node}), and the rules are those of {rules.name}"
