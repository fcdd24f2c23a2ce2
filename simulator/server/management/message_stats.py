"""Describes counters as the management API does: ``message_stats``, with a rate beside each number.

All rates are 0.0: this server takes no samples over time, since a virtual clock would
make them meaningless.
"""

from __future__ import annotations

from typing import Any

from simulator.broker import Channel, Counters, VirtualHost
from simulator.server.management.management_releases import Api

_TAKEN = ("ack", "deliver", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack", "redeliver")
_NOTHINGS = ("drop_unroutable", "get_empty")
_DELIVERED = ("deliver", "deliver_no_ack", "get", "get_no_ack")
_PUBLISHED = ("confirm", "drop_unroutable", "publish", "return_unroutable")
_NOTHING = Counters()  # of the thousands of queues that a server may have, most are idle


def with_rates(numbers: dict[str, int]) -> dict[str, Any]:
    """Return the numbers, each with its rate."""
    shown: dict[str, Any] = {}
    for name, number in numbers.items():
        shown[name] = number
        shown[f"{name}_details"] = {"rate": 0.0}
    return shown


def queue_stats(counters: Counters, api: Api) -> dict[str, Any]:
    """Return ``message_stats`` of a queue: deliveries once there were any, publishes once there were any."""
    numbers = _as_counted(_taken(counters), api)
    if counters.publish:
        numbers["publish"] = counters.publish
    return with_rates(dict(sorted(numbers.items())))


def exchange_stats(counters: Counters | None) -> dict[str, Any]:
    """Return ``message_stats`` of an exchange: publishes to it, and how many copies it routed to queues."""
    if counters is None or not counters.publish:
        return {}
    numbers = {"publish_in": counters.publish}
    if counters.publish_out:
        numbers["publish_out"] = counters.publish_out
    return with_rates(numbers)


def channel_stats(channel: Channel) -> dict[str, Any]:
    """Return ``message_stats`` of a channel: deliveries, publishes that it confirms, and those that came back."""
    numbers = {}
    if channel.next_delivery_tag > 1:
        numbers["deliver_get"] = channel.next_delivery_tag - 1
    if channel.next_publish > 1:
        numbers["publish"] = channel.next_publish - 1
    if channel.next_publish > 1 or channel.returned:
        numbers["return_unroutable"] = channel.returned
    return with_rates(numbers)


def overall_stats(vhosts: list[VirtualHost], api: Api) -> dict[str, Any]:
    """Return ``message_stats`` of several virtual hosts together."""
    queues = [queue.counters for vhost in vhosts for queue in vhost.queues.values() if queue.counters != _NOTHING]
    exchanges = [counters for vhost in vhosts for counters in vhost.exchange_counters.values()]
    numbers = dict.fromkeys(_TAKEN + _PUBLISHED, 0)
    for counters in queues:
        for name in _TAKEN:
            numbers[name] += _count(counters, name)
    for counters in exchanges:
        for name in _PUBLISHED:
            numbers[name] += getattr(counters, name)
    return with_rates(_as_counted(numbers, api)) if any(numbers.values()) else {}


def _as_counted(numbers: dict[str, int], api: Api) -> dict[str, int]:
    """Return the numbers as the release counts them."""
    return numbers if api.nothings_counted else {name: 0 if name in _NOTHINGS else n for name, n in numbers.items()}


def _taken(counters: Counters) -> dict[str, int]:
    numbers = {name: _count(counters, name) for name in _TAKEN}
    return numbers if any(numbers.values()) else {}


def _count(counters: Counters, name: str) -> int:
    if name == "deliver_get":
        return sum(getattr(counters, part) for part in _DELIVERED)
    number: int = getattr(counters, name)
    return number
