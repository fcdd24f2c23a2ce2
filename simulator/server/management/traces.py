"""``/api/traces`` and ``/api/trace-files``: write the firehose of a virtual host to a log.

A trace is a consumer on a queue of its own, bound to ``amq.rabbitmq.trace``; while a
virtual host has one, its firehose is on.

Source: rabbit_tracing_traces.erl, rabbit_tracing_consumer.erl, rabbit_tracing_wm_*.erl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from starlette.responses import Response

from simulator.broker.commands import (
    BindQueue,
    Consume,
    DeclareQueue,
    SetTracing,
)
from simulator.broker.replies import ConsumerCancelled, Delivered, QueueDeclared, Reply
from simulator.server.management import access, listing
from simulator.server.management.http_errors import Crash, bad_request, object_not_found
from simulator.server.management.internal_connections import Closed, PrivateChannel
from simulator.server.management.management_releases import Api, api_of
from simulator.server.management.queue_json import queue_facts
from simulator.server.management.request import Call
from simulator.server.management.resources import Resource
from simulator.server.management.trace_log import TraceLog, trace_record
from simulator.server.node import Node

_EXCHANGE = "amq.rabbitmq.trace"
_FAILED = "Something went wrong trying to start the trace - check the logs."
_TRACES_MAX = 100


class Trace:
    """A running trace: to the node, a client that only takes deliveries.

    Attributes:
        settings: what the request that started it said.
        queue: the queue that it consumes.
        log: what it writes.
    """

    def __init__(
        self, channel: PrivateChannel, vhost: str, name: str, settings: Mapping[str, Any], log: TraceLog
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.settings = dict(settings)
        self.log = log
        self.queue = ""
        self._node = channel.node
        self._api: Api = api_of(channel.node.broker.release.version)
        self._channel = channel

    def start(self, user: str) -> None:
        """Consume. Raises ``Closed`` when the user may not."""
        channel = self._channel
        channel.open(self.vhost, user)
        declared = channel.run(DeclareQueue(channel=channel.id, exclusive=True))
        self.queue = next(reply.queue for reply in declared if isinstance(reply, QueueDeclared))
        channel.run(BindQueue(channel.id, self.queue, _EXCHANGE, self.settings["pattern"]))
        self._node.connections[channel.connection] = _Tap(self, channel)
        channel.run(Consume(channel=channel.id, queue=self.queue, no_ack=True))

    def stop(self) -> None:
        """No more; the log stays."""
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
    """A trace as a client of the node."""

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

    def __init__(self, trace: Trace, channel: PrivateChannel) -> None:
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
        """Nothing waits."""

    def alarm_changed(self, active: bool) -> None:
        """A trace does not publish."""

    def close(self, reason: str) -> None:
        """Stop the trace."""
        self._trace.stop()

    def abort(self) -> None:
        """Stop the trace."""
        self._trace.stop()


class Traces:
    """The traces of a node, and their logs. ``numbers`` are for their private connections."""

    def __init__(self, node: Node, numbers: Iterator[int]) -> None:
        self.running: dict[tuple[str, str], Trace] = {}
        self.logs: dict[str, TraceLog] = {}
        self._node = node
        self._numbers = numbers

    def start(self, vhost: str, name: str, settings: Mapping[str, Any], user: str) -> None:
        """Start a trace, which appends to a log of its name. Raises ``ApiError`` when that does not work."""
        if (vhost, name) in self.running or len(self.running) >= _TRACES_MAX:
            raise bad_request(_FAILED)
        log = self.logs.setdefault(f"{name}.log", TraceLog(f"{name}.log"))
        trace = Trace(PrivateChannel(self._node, next(self._numbers)), vhost, name, settings, log)
        try:
            trace.start(user)
        except Closed as closed:
            raise bad_request(_FAILED) from closed
        self.running[vhost, name] = trace
        self._node.handle(SetTracing(vhost, True))

    def stop(self, vhost: str, name: str) -> None:
        """Stop a trace; with the last one of a virtual host, its firehose ends."""
        self.running.pop((vhost, name)).stop()
        if not any(other == vhost for other, _ in self.running):
            self._node.handle(SetTracing(vhost, False))

    def forget_vhost(self, vhost: str) -> None:
        """The virtual host goes away."""
        for key in [key for key in self.running if key[0] == vhost]:
            self.stop(*key)


# Traces


def _facts(trace: Trace, call: Call) -> dict[str, Any]:
    vhost = call.broker.vhosts.get(trace.vhost)
    queue = None if vhost is None else vhost.queues.get(trace.queue)
    facts: dict[str, Any] = {} if queue is None else {"queue": queue_facts(queue, call.node, call.api)}
    return facts | {"vhost": trace.vhost, "name": trace.name, **trace.settings}


def _all(call: Call) -> Any:
    _check_node(call)
    return [_facts(trace, call) for trace in call.management.traces.running.values()]


def _found(call: Call) -> Trace | None:
    return call.management.traces.running.get((call.id("vhost"), call.id("name")))


def _exists(call: Call) -> bool:
    return _found(call) is not None


def _one(call: Call) -> Any:
    _check_node(call)
    trace = _found(call)
    if trace is None:
        raise object_not_found()
    return listing.chosen(_facts(trace, call), call)


def _put(call: Call) -> None:
    _check_node(call)
    if call.vhost is None:
        raise Crash
    document = call.json("format", "pattern")
    if type(document.get("max_payload_bytes", 0)) is not int:
        raise bad_request("max_payload_bytes not integer")
    if document["format"] not in ("json", "text"):
        raise bad_request("format not json or text")
    if not isinstance(document["pattern"], str):
        raise bad_request(_FAILED)
    hidden = {name: value for name, value in document.items() if name != "tracer_connection_password"}
    call.management.traces.start(call.vhost.name, call.id("name"), hidden, call.user.name)


def _delete(call: Call) -> None:
    call.management.traces.stop(call.id("vhost"), call.id("name"))


def _check_node(call: Call) -> None:
    name = call.ids.get("node", call.broker.node)
    if name == call.broker.node:
        return
    if call.api.unknown_node == "not a member":
        raise bad_request("Node is not a cluster member")
    raise bad_request(f"Node {name} could not be contacted: {{badrpc,nodedown}}")


# Their logs


def _logs(call: Call) -> Any:
    _check_node(call)
    return [{"name": log.name, "size": log.size} for log in call.management.traces.logs.values()]


def _has_log(call: Call) -> bool:
    return call.id("name") in call.management.traces.logs


def _log(call: Call) -> Response:
    _check_node(call)
    return Response(call.management.traces.logs[call.id("name")].content(), media_type="text/plain")


def _delete_log(call: Call) -> None:
    del call.management.traces.logs[call.id("name")]


_ADMIN = access.administrators


def _trace_resources(prefix: str) -> tuple[Resource, ...]:
    return (
        Resource(f"/traces{prefix}", _all, allow=_ADMIN),
        Resource(f"/traces{prefix}/:vhost", _all, allow=_ADMIN),
        Resource(f"/traces{prefix}/:vhost/:name", _one, put=_put, delete=_delete, allow=_ADMIN, exists=_exists),
        Resource(f"/trace-files{prefix}", _logs, allow=_ADMIN),
        Resource(f"/trace-files{prefix}/:name", _log, delete=_delete_log, allow=_ADMIN, exists=_has_log),
    )


RESOURCES = (*_trace_resources(""), *_trace_resources("/node/:node"))
