"""Reads RabbitMQ's firehose: the traces of each publish and delivery from ``amq.rabbitmq.trace``, live.

``rabbitmqctl trace_on`` switches it on for a virtual host; ``simulator.capture.live``
does so through the management API.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from pika.adapters.blocking_connection import BlockingChannel

from simulator.capture.arrival_lag import ArrivalLag, is_probe
from simulator.capture.capture_errors import Broken, OnBroken, refuse
from simulator.capture.connected import connected, exact_values
from simulator.capture.observe import split_properties
from simulator.capture.schema import PROBE, Observation
from simulator.events import Event
from simulator.json_values import plain

TRACE_EXCHANGE = "amq.rabbitmq.trace"
_PREFETCH = 1_000
_ACK_EVERY = 250
_POLL_SECONDS = 0.1
_EXPECTED = {str: "a string", int: "an integer", list: "a list", dict: "an object"}


class CaptureLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that end a live capture; ``None`` and the default ``stop`` never do.

    Attributes:
        rows: after this many rows.
        seconds: after this long.
        idle_seconds: when nothing arrived for so long.
        stop: asked several times a second.
    """

    rows: int | None = None
    seconds: float | None = None
    idle_seconds: float | None = None
    stop: Callable[[], bool] = bool  # bool() is False


def read_firehose(
    url: str,
    *,
    vhost: str | None = None,
    pattern: str = "#",
    until: CaptureLimits = CaptureLimits(),  # noqa: B008  immutable
    on_ready: Callable[[], None] = lambda: None,
    on_idle: Callable[[float], None] = lambda seconds: None,
    on_broken: OnBroken = refuse,
    on_late: Callable[[int], None] | None = None,
    on_unmeasured: Callable[[str], None] = lambda problem: None,
) -> Iterator[Observation]:
    """Consume the firehose of one virtual host from a queue of our own, deleted afterwards.

    At the end the queue takes no further traces, and those that are in it already are read. Only a limit of rows
    ends the reading at once.

    Args:
        url: AMQP URL.
        vhost: virtual host, instead of the one in the URL.
        pattern: topic pattern, such as ``publish.orders`` or ``deliver.#``.
        until: when to end.
        on_ready: called once the queue is bound.
        on_idle: called several times a second while nothing arrives, with the seconds since something did.
        on_broken: gets every message that is not a trace; by default the first one raises.
        on_late: gets the largest lag of rows in microseconds whenever it rises; without it, no lag is measured.
        on_unmeasured: gets the reason, at the end, if the lag could not be measured to the end.

    Raises:
        CaptureUnavailable: no connection, or it was lost. The rows read before have been yielded.
    """
    started = last = before = time.monotonic()
    rows = number = tag = acknowledged = 0
    unbound = False
    with exact_values(), _trace_channel(url, vhost, pattern) as (channel, queue, name), ExitStack() as stack:
        lag = None if on_late is None else ArrivalLag(url, vhost, queue, on_late, _POLL_SECONDS)
        if lag is not None:
            stack.callback(lambda: on_unmeasured(lag.problem) if lag.problem else None)
            stack.callback(lag.close)
        on_ready()
        for method, properties, body in channel.consume(queue, inactivity_timeout=_POLL_SECONDS):
            now = time.monotonic()
            if lag is not None and not unbound:
                lag.probe(now, before)
            before = now
            # Tag 0 would acknowledge what is still on its way, too, and the broker closes a channel that acknowledges a
            # delivery twice.
            if tag - acknowledged >= (_ACK_EVERY if method else 1):
                channel.basic_ack(tag, multiple=True)
                acknowledged = tag
            if method is None:
                on_idle(now - last)
            else:
                tag = method.delivery_tag
                headers = properties.headers or {}
                if lag is not None and properties.type == PROBE:
                    lag.arrived(body, now)
                elif not is_probe(headers):
                    number, last = number + 1, now
                    try:
                        yield observe_trace(
                            method.routing_key, headers, body, file=name, line=number, time_us=time.time_ns() // 1000
                        )
                        rows += 1
                    except ValueError as error:
                        on_broken(Broken(file=name, line=number, reason=str(error), raw=body))
            full = until.rows is not None and rows >= until.rows
            if full or (unbound and method is None and _is_empty(channel, queue)):
                if lag is not None:
                    lag.end(now)
                return
            if not unbound and _is_over(until, now - started, now - last):
                channel.queue_unbind(queue, TRACE_EXCHANGE, pattern)
                unbound = True
                if lag is not None:
                    lag.probe(now, before, at_once=True)


def vhost_of(url: str) -> str:
    """Return the virtual host that an AMQP URL names."""
    return unquote(urlsplit(url).path[1:].partition("/")[0]) or "/"


def observe_trace(
    routing_key: str, headers: dict[str, Any], payload: bytes, *, file: str, line: int, time_us: int
) -> Observation:
    """Read one message of the trace exchange.

    Raises:
        ValueError: it is not a trace; the text names the field.
    """
    kind, _, queue = routing_key.partition(".")
    if kind not in ("publish", "deliver"):
        raise ValueError(f"routing key: expected publish.EXCHANGE or deliver.QUEUE, got {routing_key!r}")
    published = kind == "publish"
    fields = plain(headers)
    return Observation(
        time_us, file, line, Event.PUBLISHED.value if published else Event.DELIVERED.value,
        _field(fields, "node", str), _field(fields, "connection", str), _field(fields, "vhost", str),
        _field(fields, "user", str), _field(fields, "channel", int), _field(fields, "exchange_name", str),
        None if published else queue,
        _field(fields, "routed_queues", list) if published else None,
        _field(fields, "routing_keys", list),
        None if published else bool(_field(fields, "redelivered", int)),
        *split_properties(_field(fields, "properties", dict), payload), payload,
    )  # fmt: skip


def _field(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{name}: expected {_EXPECTED[kind]}, got {value!r:.60}")
    return value


def _is_empty(channel: BlockingChannel, queue: str) -> bool:
    """Return whether the queue has no message left, neither on the server nor on its way to us."""
    on_the_server: int = channel.queue_declare(queue, passive=True).method.message_count
    on_its_way: int = channel.get_waiting_message_count()
    return on_the_server == 0 and on_its_way == 0


def _is_over(until: CaptureLimits, seconds: float, idle_seconds: float) -> bool:
    return (
        (until.seconds is not None and seconds >= until.seconds)
        or (until.idle_seconds is not None and idle_seconds >= until.idle_seconds)
        or until.stop()
    )


@contextmanager
def _trace_channel(url: str, vhost: str | None, pattern: str) -> Iterator[tuple[BlockingChannel, str, str]]:
    """Bind a queue to the trace exchange, and yield the channel, the queue, and the server's name."""
    with connected(url, vhost) as (connection, name):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=_PREFETCH)
        queue = channel.queue_declare("", exclusive=True, auto_delete=True).method.queue
        channel.queue_bind(queue, TRACE_EXCHANGE, pattern)
        yield channel, queue, name
