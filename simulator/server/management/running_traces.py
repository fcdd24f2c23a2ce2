"""Traces that run: each consumes the firehose of a virtual host and writes it to a log.

A trace is a consumer on a queue of its own, bound to ``amq.rabbitmq.trace``; while a
virtual host has one, its firehose is on.

Source: rabbit_tracing_traces.erl, rabbit_tracing_consumer.erl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from simulator.broker.commands import BindQueue, Consume, DeclareQueue, SetTracing
from simulator.broker.replies import ConsumerCancelled, Delivered, QueueDeclared, Reply
from simulator.server.management.http_errors import bad_request
from simulator.server.management.internal_channel import InternalChannel, RefusedByBroker
from simulator.server.management.management_releases import Api, api_of
from simulator.server.management.trace_log import TraceLog, trace_record
from simulator.server.node import Node

START_FAILED = "Something went wrong trying to start the trace - check the logs."
_EXCHANGE = "amq.rabbitmq.trace"
_TRACES_MAX = 100


class Trace:
    """A running trace. To the node it is a client that only takes deliveries.

    Attributes:
        settings: the body of the request that started it.
        queue: the queue that it consumes.
        log: the log that it writes.
    """

    def __init__(
        self, channel: InternalChannel, vhost: str, name: str, settings: Mapping[str, Any], log: TraceLog
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.settings = dict(settings)
        self.log = log
        self.queue = ""
        self._node = channel.node
        self._api: Api = api_of(channel.node.broker.release)
        self._channel = channel

    def start(self, user: str) -> None:
        """Consume. Raises ``RefusedByBroker`` when the user may not."""
        channel = self._channel
        channel.open(self.vhost, user)
        declared = channel.run(DeclareQueue(channel=channel.id, exclusive=True))
        self.queue = next(reply.queue for reply in declared if isinstance(reply, QueueDeclared))
        channel.run(BindQueue(channel.id, self.queue, _EXCHANGE, self.settings["pattern"]))
        self._node.connections[channel.connection] = _Tap(self, channel)
        channel.run(Consume(channel=channel.id, queue=self.queue, no_ack=True))

    def stop(self) -> None:
        """Stop consuming; the log stays."""
        self._node.connections.pop(self._channel.connection, None)
        self._channel.close()

    def take(self, delivered: Delivered) -> None:
        """Write down one message of the firehose."""
        record = trace_record(
            delivered.message,
            delivered.body,
            self._node.clock.now_us(),
            self._api,
            form=self.settings["format"],
            max_payload_bytes=self.settings.get("max_payload_bytes"),
        )
        self.log.append(record)


class _Tap:
    """Stands for the trace among the node's clients."""

    id = 0
    protocol = "Direct 0-9-1"
    peer_host = host = ""
    peer_port = port = 0
    auth_mechanism = user = ""
    channel_max = frame_max = heartbeat_s = pending_bytes = 0
    state = "running"
    busy = False
    client_properties: Mapping[str, Any] = MappingProxyType({})
    received_bytes = received_packets = sent_bytes = sent_packets = 0

    def __init__(self, trace: Trace, channel: InternalChannel) -> None:
        self.name = channel.connection.name
        self.connected_us = channel.node.clock.now_us()
        self._trace = trace

    def reply(self, reply: Reply) -> None:
        """Take a reply of the broker: write down deliveries."""
        if isinstance(reply, Delivered):
            self._trace.take(reply)
        elif isinstance(reply, ConsumerCancelled):
            self._trace.stop()

    def flush(self) -> None:
        """Do nothing: nothing waits to be sent."""

    def alarm_changed(self, active: bool) -> None:
        """Do nothing: a trace does not publish."""

    def close(self, reason: str) -> None:
        """Stop the trace."""
        self._trace.stop()

    def abort(self) -> None:
        """Stop the trace."""
        self._trace.stop()


class Traces:
    """The traces of a node, and their logs.

    Attributes:
        running: by virtual host and name.
        logs: by file name, of finished traces too.
    """

    def __init__(self, node: Node, new_channel: Callable[[], InternalChannel]) -> None:
        self.running: dict[tuple[str, str], Trace] = {}
        self.logs: dict[str, TraceLog] = {}
        self._node = node
        self._new_channel = new_channel

    def start(self, vhost: str, name: str, settings: Mapping[str, Any], user: str) -> None:
        """Start a trace, which appends to a log of its name. Raises ``ApiError`` when that does not work."""
        if (vhost, name) in self.running or len(self.running) >= _TRACES_MAX:
            raise bad_request(START_FAILED)
        log = self.logs.setdefault(f"{name}.log", TraceLog(f"{name}.log"))
        trace = Trace(self._new_channel(), vhost, name, settings, log)
        try:
            trace.start(user)
        except RefusedByBroker as refusal:
            raise bad_request(START_FAILED) from refusal
        self.running[vhost, name] = trace
        self._node.handle(SetTracing(vhost, True))

    def stop(self, vhost: str, name: str) -> None:
        """Stop a trace; with the last one of a virtual host, its firehose ends."""
        self.running.pop((vhost, name)).stop()
        if not any(other == vhost for other, _ in self.running):
            self._node.handle(SetTracing(vhost, False))

    def forget_vhost(self, vhost: str) -> None:
        """Stop the traces of a virtual host that is being deleted."""
        for key in [key for key in self.running if key[0] == vhost]:
            self.stop(*key)
