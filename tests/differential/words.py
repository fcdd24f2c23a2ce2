"""Short words to write scenarios with. Everything here makes operations; a scenario is a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests import real_servers
from tests.differential import operations as ops

Part = ops.Operation | Sequence["Part"]


def scenario(name: str, *parts: Part, releases: Sequence[str] = real_servers.RECORDED) -> ops.Scenario:
    """A scenario of its parts in order; ``load`` puts the subject before its name."""
    return ops.Scenario(name, tuple(_flat(parts)), tuple(releases))


def _flat(parts: Sequence[Part]) -> list[ops.Operation]:
    found: list[ops.Operation] = []
    for part in parts:
        if isinstance(part, ops.Operation):
            found.append(part)
        else:
            found += _flat(part)
    return found


def queue(
    name: str,
    *,
    type: Any = None,
    dlx: Any = None,
    dlrk: Any = None,
    ttl: Any = None,
    length: Any = None,
    overflow: Any = None,
    limit: Any = None,
    durable: bool = True,
    exclusive: bool = False,
    auto_delete: bool = False,
    on: str = "a",
    **arguments: Any,
) -> ops.DeclareQueue:
    """Declare a queue; other arguments by their names without ``x-`` and with ``_`` for ``-``."""
    given = {
        "x-queue-type": type,
        "x-dead-letter-exchange": dlx,
        "x-dead-letter-routing-key": dlrk,
        "x-message-ttl": ttl,
        "x-max-length": length,
        "x-overflow": overflow,
        "x-delivery-limit": limit,
    } | {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return ops.DeclareQueue(
        name,
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        arguments={key: value for key, value in given.items() if value is not None},
        channel=on,
    )


def quorum(name: str, **given: Any) -> ops.DeclareQueue:
    """Declare a quorum queue."""
    return queue(name, type="quorum", **given)


def stream(name: str, **given: Any) -> ops.DeclareQueue:
    """Declare a stream."""
    return queue(name, type="stream", **given)


def exchange(
    name: str, type: str = "fanout", *, ae: str | None = None, on: str = "a", **given: Any
) -> ops.DeclareExchange:
    """Declare an exchange; ``ae`` is its alternate exchange."""
    arguments = {} if ae is None else {"alternate-exchange": ae}
    return ops.DeclareExchange(name, type, arguments=arguments, channel=on, **given)


def fan(name: str, *queues: str) -> list[ops.Operation]:
    """A fanout exchange bound to queues, which are declared, too."""
    return [exchange(name), *(part for each in queues for part in (queue(each), ops.Bind(name, each)))]


def publish(
    key: str = "",
    *bodies: str,
    exchange: str = "",
    headers: dict[str, Any] | None = None,
    mandatory: bool = False,
    on: str = "a",
    **properties: Any,
) -> list[ops.Operation]:
    """One publish for each body, ``m`` if there is none; other arguments are properties."""
    given: dict[str, Any] = {"properties": properties, "headers": headers, "mandatory": mandatory, "channel": on}
    return [ops.Publish(key, exchange, body, **given) for body in bodies or ["m"]]


def policy(
    name: str,
    pattern: str,
    *,
    priority: int = 0,
    apply_to: str = "all",
    operator: bool = False,
    dlx: Any = None,
    dlrk: Any = None,
    **definition: Any,
) -> ops.SetPolicy:
    """Set a policy; keys of the definition with ``_`` for ``-``."""
    given = {"dead-letter-exchange": dlx, "dead-letter-routing-key": dlrk}
    keys = {key: value for key, value in given.items() if value is not None}
    keys |= {key.replace("_", "-"): value for key, value in definition.items()}
    return ops.SetPolicy(name, pattern, keys, priority, apply_to, operator)


def burst(*parts: Part) -> ops.Burst:
    """Operations without waiting between them."""
    return ops.Burst(tuple(part for part in _flat(parts) if isinstance(part, ops.OnChannel)))


def gets(queue: str, times: int, on: str = "a") -> list[ops.Operation]:
    """basic.get so many times, leaving the messages unacknowledged."""
    return [ops.Get(queue, channel=on)] * times


def rejected(queue: str, times: int = 1) -> list[ops.Operation]:
    """basic.get and basic.reject without requeue."""
    return [ops.Get(queue), ops.Reject(requeue=False)] * times


def nacked(queue: str, times: int = 1) -> list[ops.Operation]:
    """basic.get and basic.nack without requeue."""
    return [ops.Get(queue), ops.Nack(requeue=False)] * times


def returned(queue: str, times: int = 1, by: type[ops.Nack | ops.Reject] = ops.Reject) -> list[ops.Operation]:
    """basic.get and give back, by basic.reject or basic.nack."""
    return [ops.Get(queue), by(requeue=True)] * times
