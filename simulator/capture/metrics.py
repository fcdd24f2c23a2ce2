"""Reads the global counters of a RabbitMQ node where its Prometheus plugin shows them: ``/metrics``."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from urllib.parse import unquote, urlsplit

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from dlx.global_counters import PREFIX, Series, account_of
from simulator.capture.capture_errors import CaptureUnavailable
from simulator.capture.counters import NodeReadings, Reading, reading
from simulator.capture.http_authorization import authorization

_TIMEOUT_SECONDS = 30
_COUNTED = "_total"
_WHERE = "expected the metrics of RabbitMQ's Prometheus plugin, such as http://localhost:15692/metrics"


class NodeReading(msgspec.Struct, frozen=True):
    """What one node has counted; ``release`` is its version."""

    node: str
    release: str
    reading: Reading

    def until(self, after: NodeReading) -> NodeReadings:
        """Return this reading and a later one together. Raises ``ValueError`` if that is of another node."""
        if (after.node, after.release) != (self.node, self.release):
            raise ValueError(
                f"at first {self.node} of RabbitMQ {self.release} answered, then {after.node} of {after.release}"
            )
        return NodeReadings(node=self.node, release=self.release, before=self.reading, after=after.reading)


def read_metrics(url: str) -> NodeReading:
    """Read the global counters of the node whose metrics are at ``url``, with or without the path ``/metrics``.

    Raises:
        CaptureUnavailable: nobody answers there, or it is not a RabbitMQ that counts dead letters.
    """
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.hostname}:{parts.port or 15692}"  # without the password
    path = parts.path.rstrip("/") or "/metrics"
    now_us = time.time_ns() // 1_000
    text = _fetched(server, path, _headers(parts.username, parts.password))
    try:
        return parsed(text, now_us)
    except ValueError as error:
        raise CaptureUnavailable(f"{server}{path}", f"{error}; {_WHERE}") from error


def _headers(user: str | None, password: str | None) -> dict[str, str]:
    return {} if user is None else authorization(unquote(user), unquote(password or ""))


def _fetched(server: str, path: str, headers: dict[str, str]) -> str:
    request = urllib.request.Request(f"{server}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            return str(response.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        with error:
            raise CaptureUnavailable(f"{server}{path}", f"{error.code} {error.reason}; {_WHERE}") from error
    except (OSError, http.client.HTTPException) as error:
        raise CaptureUnavailable(f"{server}{path}", f"no answer: {error}; is the Prometheus plugin on?") from error


def parsed(text: str, time_us: int) -> NodeReading:
    """Read Prometheus' text, as it was at ``time_us``. Raises ``ValueError`` if it does not count dead letters."""
    counted: dict[Series, int] = {}
    labels: dict[str, str] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith(PREFIX) and sample.name.endswith(_COUNTED):
                    name = sample.name.removeprefix(PREFIX).removesuffix(_COUNTED)
                    counted[Series(name, tuple(sorted(sample.labels.items())))] = int(sample.value)
                elif sample.name in ("rabbitmq_identity_info", "rabbitmq_build_info"):
                    labels |= sample.labels
    except (ValueError, KeyError, IndexError) as error:  # what its parser raises
        raise ValueError(f"not Prometheus' text ({error})") from error
    node, version = labels.get("rabbitmq_node"), labels.get("rabbitmq_version")
    if node is None or version is None:
        raise ValueError("it does not tell which node and version of RabbitMQ it is of")
    if not any(account_of(series) for series in counted):
        raise ValueError(f"RabbitMQ {version} does not count dead letters: RabbitMQ 3.10 and later do")
    return NodeReading(node, version, reading(time_us, counted))
