"""The metrics of a node for Prometheus, as an ASGI application: ``GET /metrics``.

It shows what is counted of messages (``rabbitmq_global_*``), how many messages, queues and
clients there are, and which node and version counts. RabbitMQ's plugin shows a few hundred
metrics more, of its memory, files and so on. What is counted nowhere here is left out.

Source: prometheus_rabbitmq_global_metrics_collector.erl, prometheus_rabbitmq_core_metrics_collector.erl;
the texts are those of live servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from dlx.global_counters import COUNTER_TEXTS, PREFIX
from simulator.server.node import Node, message_totals, object_totals

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one node, as an ASGI application.

    Args:
        node: the node that counts.
    """

    def __init__(self, node: Node) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_NodeCollector(node))

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


class _NodeCollector(Collector):
    """Gives Prometheus' library the figures of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        broker = self._node.broker
        version = broker.release.version
        yield from _totals(self._node)
        if broker.release.alarms_in_metrics:
            yield from _alarms(self._node)
        yield _info(
            "rabbitmq_build_info", "RabbitMQ & Erlang/OTP version info",
            rabbitmq_version=version, prometheus_plugin_version=version,
        )  # fmt: skip
        yield _info(
            "rabbitmq_identity_info", "RabbitMQ node & cluster identity info",
            rabbitmq_node=broker.node, rabbitmq_cluster=broker.cluster_name,
        )  # fmt: skip
        counted = sorted(broker.global_counters().items())
        for name, series in groupby(counted, key=lambda item: item[0].name):
            rows = list(series)
            labels = [label for label, _ in rows[0][0].labels]
            family = CounterMetricFamily(PREFIX + name, COUNTER_TEXTS[name], labels=labels)
            for one, count in rows:
                family.add_metric([value for _, value in one.labels], count)
            yield family


def _totals(node: Node) -> Iterator[Metric]:
    """Yield the sums over all virtual hosts."""
    vhosts = node.broker.vhosts.values()
    objects, messages = object_totals(vhosts, node), message_totals(vhosts)
    for name, text in _OBJECTS.items():
        yield GaugeMetricFamily(f"rabbitmq_{name}", text, value=objects[name])
    for name, (total, text) in _MESSAGES.items():
        yield GaugeMetricFamily(f"rabbitmq_queue_{name}", text, value=messages.get(total, 0))


def _alarms(node: Node) -> Iterator[Metric]:
    """Yield for each kind of alarm whether there is one."""
    for resource, (name, text) in _ALARMS.items():
        short = resource in node.alarm.resources
        yield UnknownMetricFamily(f"rabbitmq_alarms_{name}", f"is 1 if {text} alarm is in effect", value=short)


def _info(name: str, documentation: str, **labels: str) -> Metric:
    family = UnknownMetricFamily(name, documentation, labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family


_ALARMS = {
    "disk": ("free_disk_space_watermark", "free disk space watermark"),
    "memory": ("memory_used_watermark", "VM memory watermark"),
}
_OBJECTS = {
    "connections": "Connections currently open",
    "channels": "Channels currently open",
    "consumers": "Consumers currently connected",
    "queues": "Queues available",
}
# By the names of ``message_totals``.
_MESSAGES = {
    "messages_ready": ("messages_ready", "Messages ready to be delivered to consumers"),
    "messages_unacked": ("messages_unacknowledged", "Messages delivered to consumers but not yet acknowledged"),
    "messages": ("messages", "Sum of ready and unacknowledged messages - total queue depth"),
}
