"""Plays the traffic on a server, and keeps the tracing plugin's log and what became of each message."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pika
import pika.exceptions

from examples.what_if.topology import BINDINGS, BURST, EXCHANGES, JOBS, MAILS, QUEUES, Settings, arguments
from examples.what_if.traffic import outcome, planned
from examples.workload.broker import Broker, Unavailable
from examples.workload.recording import collect, traced_vhost, wait_for_quiet
from simulator.capture.recorder import Recorder

QUIET_S = 2.0
TIMEOUT_S = 90
BURST_RESTS_S = 0.6
"""The consumer of the burst comes so long after it."""
STEADY_S = 0.004
"""Between two publishes that are no burst."""


@dataclass
class Recording:
    """A run: the log, the definitions, and by message and queue how many copies were acknowledged, and were left."""

    log: bytes
    definitions: Any
    acknowledged: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    waiting: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def fates(self) -> dict[str, Any]:
        """Return what became of the messages, as plain values."""
        names = sorted({*self.acknowledged, *self.waiting})
        return {
            name: {
                "acknowledged": dict(sorted(self.acknowledged.get(name, {}).items())),
                "waiting": dict(sorted(self.waiting.get(name, {}).items())),
            }
            for name in names
        }


def record(
    url: str, management_url: str, vhost: str, settings: Settings, *, seed: int, messages: int, left: Path
) -> Recording:
    """Play the traffic under these settings, and keep in ``left`` what the queues held in the end.

    Raises ``Unavailable``.
    """
    broker = Broker(url, management_url, vhost)
    with traced_vhost(broker) as trace:
        run = _Run(broker, settings, seed)
        try:
            run.declare()
            run.publish(messages)
            run.consume()
        finally:
            run.close()
        wait_for_quiet(broker, trace)
        log, definitions = collect(broker, trace)
        recording = Recording(log, definitions, run.acknowledged)
        _take_what_is_left(broker, recording, left)
    return recording


class _Run:
    """The publisher, and the consumers on a connection of their own."""

    def __init__(self, broker: Broker, settings: Settings, seed: int) -> None:
        self._broker, self._settings, self._seed = broker, settings, seed
        self._publisher = pika.BlockingConnection(broker.parameters)
        self._consumer = pika.BlockingConnection(broker.parameters)
        self._out, self._in = self._publisher.channel(), self._consumer.channel()
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._seen = time.monotonic()
        self.acknowledged: dict[str, Counter[str]] = defaultdict(Counter)

    def declare(self) -> None:
        for name, policy in self._settings.policies.items():
            body = {"apply-to": "queues", "priority": 1, **policy}
            self._broker.management.call("PUT", "policies", self._broker.vhost, name, body=body)
        for exchange, kind in EXCHANGES.items():
            self._out.exchange_declare(exchange, kind, durable=True)
        for queue in QUEUES:
            self._out.queue_declare(queue, durable=True, arguments=arguments(queue, self._settings))
        for exchange, key, queue in BINDINGS:
            self._out.queue_bind(queue, exchange, key)
        self._in.basic_qos(prefetch_count=1)
        for queue in (JOBS, MAILS):
            self._in.basic_consume(queue, self._delivered(queue))

    def publish(self, messages: int) -> None:
        for each in planned(self._seed, messages):
            properties = pika.BasicProperties(message_id=each.message_id, delivery_mode=2)
            self._out.basic_publish(each.exchange, each.routing_key, each.body, properties)
            if each.routing_key != BURST:
                self._consumer.process_data_events(time_limit=STEADY_S)
        self._publisher.process_data_events(time_limit=0)

    def consume(self) -> None:
        """Consume until nothing comes any more."""
        self._wait(BURST_RESTS_S)
        self._in.basic_consume(BURST, self._delivered(BURST))
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() - self._seen < QUIET_S:
            self._wait(0.1)
            if time.monotonic() > deadline:
                raise Unavailable(f"the consumers are busy after {TIMEOUT_S} s")

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._consumer.process_data_events(time_limit=max(0, end - time.monotonic()))

    def _delivered(self, queue: str) -> Any:
        def settle(channel: Any, method: Any, properties: Any, _body: bytes) -> None:
            name = properties.message_id
            self._attempts[name, queue] += 1
            self._seen = time.monotonic()
            done = outcome(self._seed, name, queue, self._attempts[name, queue])
            if done == "ack":
                self.acknowledged[name][queue] += 1
                channel.basic_ack(method.delivery_tag)
            else:
                channel.basic_nack(method.delivery_tag, requeue=done == "requeue")

        return settle

    def close(self) -> None:
        for connection in (self._consumer, self._publisher):
            if connection.is_open:
                connection.close()


def _take_what_is_left(broker: Broker, recording: Recording, left: Path) -> None:
    """Take what is left in the queues; the trace has ended."""
    connection = pika.BlockingConnection(broker.parameters)
    left.unlink(missing_ok=True)
    with Recorder(left, vhost=broker.vhost) as recorder:
        channel = recorder.wrap(connection.channel())
        for queue in QUEUES:
            while True:
                method, properties, _ = channel.basic_get(queue)
                if method is None:
                    break
                recording.waiting[properties.message_id][queue] += 1
    connection.close()


def as_json(recording: Recording) -> str:
    """Return what became of the messages, a line each."""
    lines = (f" {json.dumps(name)}: {json.dumps(fate)}" for name, fate in recording.fates().items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
