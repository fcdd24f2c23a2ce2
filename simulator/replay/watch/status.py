"""What a watcher has found so far, for people and for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_PATH = msgspec.json.Decoder(tuple[str, str, str, str | None, str | None]).decode


class Path(msgspec.Struct, frozen=True):
    """How many copies of dead letters went one way: they died in ``queue`` for ``reason``."""

    vhost: str
    queue: str
    reason: str
    exchange: str | None
    to_queue: str | None
    count: int


class Waiting(msgspec.Struct, frozen=True):
    """How many messages wait for a consumer for longer than they may: ``queue`` names all where copies wait."""

    vhost: str
    queue: str
    count: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What has been found so far.

    Attributes:
        rows, broken: rows that were read, and lines that could not be.
        deliveries: those with a verdict; the four verdicts count misrouted publishes too.
        unchecked: verdicts that leave something unchecked.
        dead_letters: deaths that were reconstructed; ``paths`` has their copies by way.
        lost: messages that are lost by the time of the last row, as a replay counts them.
        stuck: messages that nobody has taken from their queue for too long.
        corrections: verdicts that a late row has changed.
        open_messages: messages whose rows are kept.
        lag_p95_s: from a row's time to its verdict, in seconds: 95 % of the last verdicts took no longer.
    """

    rows: int
    broken: int
    deliveries: int
    agree: int
    ambiguous: int
    differ: int
    unexplained: int
    unchecked: int
    dead_letters: int
    lost: int
    stuck: tuple[Waiting, ...]
    paths: tuple[Path, ...]
    corrections: int
    open_messages: int
    lag_p95_s: float | None

    @property
    def explained(self) -> bool:
        """Whether every verdict is as predicted."""
        return not (self.differ or self.unexplained)

    def line(self) -> str:
        """Return it in one line: losses first, then what is not explained, then what waits, then deaths."""
        parts = [
            f"{self.lost:,} lost",
            f"{self.unexplained:,} unexplained",
            f"{self.differ:,} differ",
            f"{sum(each.count for each in self.stuck):,} stuck",
            f"{self.dead_letters:,} dead letters",
            f"{self.agree:,} agree",
        ]
        parts += [f"{self.ambiguous:,} ambiguous"] if self.ambiguous else []
        parts += [f"{self.corrections:,} corrected"] if self.corrections else []
        parts += [f"{self.broken:,} broken lines"] if self.broken else []
        lag = "" if self.lag_p95_s is None else f", lag {self.lag_p95_s:.1f} s"
        return f"{', '.join(parts)}; {self.rows:,} rows, {self.open_messages:,} messages open{lag}"


def read_paths(totals: Mapping[str, int]) -> tuple[Path, ...]:
    """Return the ways of dead letters that the totals have (``verdict_lines.totals_of``), the most frequent first."""
    found = [Path(*_PATH(key.removeprefix("path ")), n) for key, n in totals.items() if key.startswith("path ") and n]
    return tuple(sorted(found, key=lambda path: (-path.count, path.vhost, path.queue, path.reason)))


def read_queues(waiting: Mapping[str, int]) -> tuple[Waiting, ...]:
    """Return where messages wait, from what ``verdict_lines.standing`` says, the most frequent first."""
    found = []
    for text, count in waiting.items():
        vhost, *queues = msgspec.json.decode(text, type=list[str])
        found.append(Waiting(vhost, ", ".join(queues), count))
    return tuple(sorted(found, key=lambda each: (-each.count, each.vhost, each.queue)))
