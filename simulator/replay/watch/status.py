"""What a watcher has found so far, for people and for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from simulator.replay.rows.verdict_words import VERDICTS
from simulator.replay.search.copies import HELD_UP

HELD = "no queue takes their dead letters"
_PATH = msgspec.json.Decoder(tuple[str, str, str, str | None, str | None]).decode


class DeadLetterPath(msgspec.Struct, frozen=True):
    """How many copies of dead letters went one way: they died in ``queue`` for ``reason``."""

    vhost: str
    queue: str
    reason: str
    exchange: str | None
    to_queue: str | None
    count: int


class StuckMessages(msgspec.Struct, frozen=True):
    """How many messages wait for a consumer for longer than they may: ``queue`` names all where copies wait.

    ``why`` is empty, or they have died there and are held: ``HELD`` if no queue takes their dead letters, ``HELD_UP``
    if others hold them up that died before.
    """

    vhost: str
    queue: str
    count: int
    why: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What has been found so far.

    Attributes:
        rows, broken: rows that were read, and lines that could not be.
        deliveries: those with a verdict; the four verdicts count misrouted publishes too.
        unchecked: verdicts that leave something unchecked.
        dead_letters: deaths that were reconstructed; ``paths`` has their copies by way.
        lost: messages that are lost by the time of the last row, as a replay counts them.
        stuck: messages that nobody has taken from their queue for too long, and those that are held in it.
        held: how many of those are held, as a replay counts them.
        corrections: verdicts that a late row has changed.
        open_messages: messages whose rows are kept.
        lag_p95_s: from a row's time to its verdict, in seconds: 95 % of the last verdicts took no longer.
        twice: how many rows stood in their file twice, and count once.
        left_out: how many rows there are of virtual hosts that the definitions are not of, by virtual host.
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
    stuck: tuple[StuckMessages, ...]
    held: int
    paths: tuple[DeadLetterPath, ...]
    corrections: int
    open_messages: int
    lag_p95_s: float | None
    twice: int = 0
    left_out: dict[str, int] = {}

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
        parts[4:4] = [f"{self.held:,} of them held"] if self.held else []
        parts += [f"{self.ambiguous:,} ambiguous"] if self.ambiguous else []
        parts += [f"{self.corrections:,} corrected"] if self.corrections else []
        parts += [f"{self.broken:,} broken lines"] if self.broken else []
        lag = "" if self.lag_p95_s is None else f", lag {self.lag_p95_s:.1f} s"
        return f"{', '.join(parts)}; {self.rows:,} rows, {self.open_messages:,} messages open{lag}"


def read_paths(totals: Mapping[str, int]) -> tuple[DeadLetterPath, ...]:
    """Return the ways of dead letters that the totals have (``watcher.totals_of``), the most frequent first."""
    found = [
        DeadLetterPath(*_PATH(key.removeprefix("path ")), n)
        for key, n in totals.items()
        if key.startswith("path ") and n
    ]
    return tuple(sorted(found, key=lambda path: (-path.count, path.vhost, path.queue, path.reason)))


def read_queues(waiting: Mapping[str, int], held: Iterable[tuple[str, bool, int]]) -> tuple[StuckMessages, ...]:
    """Return where messages wait or are held, from what a ``WatchState`` says of both, the most frequent first."""
    found = []
    for text, why, count in [
        *((text, "", count) for text, count in waiting.items()),
        *((text, HELD_UP if held_up else HELD, count) for text, held_up, count in held),
    ]:
        vhost, *queues = msgspec.json.decode(text, type=list[str])
        found.append(StuckMessages(vhost, ", ".join(queues), count, why))
    return tuple(sorted(found, key=lambda each: (-each.count, each.vhost, each.queue, each.why)))


# What a watcher has found, for Prometheus: ``GET /metrics`` on the loopback address.
#
# None of it has one of RabbitMQ's names. RabbitMQ counts a death as it happens, by queue type and strategy; a watcher
# counts it when a delivery shows it, by queue and way.


LOOPBACK = "127.0.0.1"


@contextmanager
def served(port: int, status: Callable[[], Status]) -> Iterator[int]:
    """Serve the status in a thread of its own, and yield the port; 0 takes a free one.

    Raises ``OSError`` if the port is taken.
    """
    registry = CollectorRegistry()
    registry.register(_WatchCollector(status))
    server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _WatchCollector(Collector):
    """Gives Prometheus' library what was found."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        found = self._status()
        yield CounterMetricFamily("dlx_rows", "Rows that were read.", found.rows)
        yield CounterMetricFamily("dlx_broken_lines", "Lines that could not be read.", found.broken)
        yield CounterMetricFamily("dlx_dead_letters", "Deaths that were reconstructed.", found.dead_letters)
        yield CounterMetricFamily("dlx_corrections", "Verdicts that a late row changed.", found.corrections)
        yield GaugeMetricFamily("dlx_lost_messages", "Messages that are lost, as a replay says.", found.lost)
        yield GaugeMetricFamily("dlx_open_messages", "Messages whose rows are kept.", found.open_messages)
        if found.lag_p95_s is not None:
            yield GaugeMetricFamily("dlx_lag_seconds", "From a row to its verdict: 95 % of the last.", found.lag_p95_s)
        verdicts = GaugeMetricFamily("dlx_verdicts", "Verdicts; a correction may take one back.", labels=["verdict"])
        for name in VERDICTS:
            verdicts.add_metric([name], getattr(found, name))
        yield verdicts
        stuck = GaugeMetricFamily("dlx_stuck_messages", "Messages that wait for too long.", labels=["vhost", "queue"])
        counts: Counter[tuple[str, str]] = Counter()
        for each in found.stuck:
            counts[each.vhost, each.queue] += each.count
        for place, count in counts.items():
            stuck.add_metric(place, count)
        yield stuck
        yield GaugeMetricFamily("dlx_held_messages", "Dead messages held in their queue, as a replay says.", found.held)
        labels = ["vhost", "queue", "reason", "exchange", "to_queue"]
        paths = GaugeMetricFamily("dlx_dead_letter_copies", "Copies of dead letters, by way.", labels=labels)
        for path in found.paths:
            paths.add_metric(
                [path.vhost, path.queue, path.reason, path.exchange or "", path.to_queue or ""], path.count
            )
        yield paths
