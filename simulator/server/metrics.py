"""The metrics of a node for Prometheus, as an ASGI application: ``GET /metrics``.

It shows what is counted of messages (``rabbitmq_global_*``), and which node and version
counts. RabbitMQ's plugin shows a few hundred metrics more, of its memory, files and so on.

Source: prometheus_rabbitmq_global_metrics_collector.erl, prometheus_rabbitmq_core_metrics_collector.erl.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from dlx.global_counters import PREFIX
from simulator.server.node import Node

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one node, as an ASGI application.

    Args:
        node: the node that counts.
    """

    def __init__(self, node: Node) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Node(node))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        request = Request(scope, receive)
        if request.url.path.rstrip("/") != "/metrics":
            response: Response = PlainTextResponse("Not found", 404)
        elif request.method not in ("GET", "HEAD"):
            response = PlainTextResponse("Method not allowed", 405, {"Allow": "GET, HEAD"})
        else:
            response = Response(generate_latest(self._registry), headers={"Content-Type": _CONTENT_TYPE})
        await response(scope, receive, send)


class _Node(Collector):
    """Tells Prometheus' library about one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        broker = self._node.broker
        yield _info("rabbitmq_build_info", "The version that is simulated.", rabbitmq_version=broker.release.version)
        yield _info("rabbitmq_identity_info", "The node.", rabbitmq_node=broker.node, rabbitmq_cluster=broker.node)
        counted = sorted(broker.global_counters().items())
        for name, series in groupby(counted, key=lambda item: item[0].name):
            rows = list(series)
            labels = [label for label, _ in rows[0][0].labels]
            family = CounterMetricFamily(PREFIX + name, f"{name.replace('_', ' ')} since the start", labels=labels)
            for one, count in rows:
                family.add_metric([value for _, value in one.labels], count)
            yield family


def _info(name: str, documentation: str, **labels: str) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family
