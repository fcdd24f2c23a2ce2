"""What a watcher has found, for Prometheus: ``GET /metrics`` on the loopback address.

None of it has one of RabbitMQ's names. RabbitMQ counts a death as it happens, by queue type and strategy; a watcher
counts it when a delivery shows it, by queue and way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from simulator.replay.verdicts import VERDICTS
from simulator.replay.watch.status import Status

LOOPBACK = "127.0.0.1"


@contextmanager
def served(port: int, status: Callable[[], Status]) -> Iterator[int]:
    """Serve the status in a thread of its own, and yield the port; 0 takes a free one.

    Raises ``OSError`` if the port is taken.
    """
    registry = CollectorRegistry()
    registry.register(_Found(status))
    server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Found(Collector):
    """Tells Prometheus' library what was found."""

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
        for each in found.stuck:
            stuck.add_metric([each.vhost, each.queue], each.count)
        yield stuck
        labels = ["vhost", "queue", "reason", "exchange", "to_queue"]
        paths = GaugeMetricFamily("dlx_dead_letter_copies", "Copies of dead letters, by way.", labels=labels)
        for path in found.paths:
            paths.add_metric(
                [path.vhost, path.queue, path.reason, path.exchange or "", path.to_queue or ""], path.count
            )
        yield paths
