"""Check the arguments of a consumer.

Source: rabbit_amqqueue.erl check_consume_arguments; the capabilities of each queue type; live servers.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlx import argument_values as values
from dlx.amqp_errors import Refusal, explained, internal_error, resource
from dlx.argument_values import Check
from dlx.releases import Release
from dlx.topology import CLASSIC, QUORUM, STREAM, Arguments, Queue

CHECKS: tuple[tuple[str, Check], ...] = (
    ("x-priority", values.integer),
    ("x-cancel-on-ha-failover", values.boolean),
    ("x-consumer-timeout", values.not_negative),
    ("x-stream-offset", values.stream_offset),
)


def check_consumer_arguments(queue: Queue, arguments: Arguments, *, vhost: str, release: Release) -> None:
    """Raise ``Refusal`` for arguments that a consumer of ``queue`` may not have.

    RabbitMQ checks them before anything else about the queue.
    """
    if not arguments:
        return
    by_type = {
        CLASSIC: release.classic_consumer_arguments,
        QUORUM: release.quorum_consumer_arguments,
        STREAM: release.stream_consumer_arguments,
    }
    own, known = by_type[queue.type], frozenset().union(*by_type.values())
    for key, check in CHECKS:
        if key in own and key in arguments:
            _check(key, check, queue, arguments, vhost, release)
    for key in arguments:
        if key in known - own:
            named = resource("queue", queue.name, vhost)
            raise Refusal(406, f"invalid arg '{key}' for {named} of queue type rabbit_{queue.type}_queue")


def check_stream_offset(arguments: Arguments) -> None:
    """Raise ``Refusal`` for a type of offset that nothing looks at before the stream does."""
    offset = "x-stream-offset"
    if offset in arguments and not values.is_stream_offset(arguments[offset]):
        raise internal_error()


def check_credit(queue: Queue, arguments: Arguments, release: Release) -> None:
    """Raise ``Refusal`` for an ``x-credit`` that the queue cannot read. It does so last, when it adds the consumer."""
    if queue.type in release.credit_read_by and not isinstance(arguments.get("x-credit", {}), Mapping):
        raise internal_error()


def _check(key: str, check: Check, queue: Queue, arguments: Arguments, vhost: str, release: Release) -> None:
    why = check(arguments[key], arguments, release)
    if why is not None:
        text = f"invalid arg '{key}' for {resource('queue', queue.name, vhost)}: "
        raise Refusal(406, explained(text, why, release, values.LINE))
