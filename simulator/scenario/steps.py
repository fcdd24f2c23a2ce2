"""The steps of a history: each is something that a publisher, a consumer, an operator or time does to a broker.

Steps are values. They name queues, never deliveries, so that a history stays
meaningful when steps are taken out of it, and they go to JSON and back. A step that
finds nothing to do, such as an acknowledgement where the queue is empty, does nothing.
``simulator.scenario.player`` plays them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from dlx.field_values import plain
from dlx.topology import Policy

TIMES_MAX = 1_000_000_000
BODY_BYTES_MAX = 1 << 24

_NO_HEADERS: Mapping[str, Any] = {}


class Step(
    msgspec.Struct,
    frozen=True,
    tag_field="do",
    omit_defaults=True,
    repr_omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The base of all steps. The JSON form says in ``do`` which it is: ``{"do": "crash", "queue": "orders"}``."""


def _checked_times(times: int) -> None:
    if not 1 <= times <= TIMES_MAX:
        raise ValueError(f"times is {times}; expected 1 to {TIMES_MAX:,}")


_Short = Annotated[str, msgspec.Meta(max_length=255)]
_Octet = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Properties(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, forbid_unknown_fields=True):
    """The basic properties of a publish that a step does not name itself, by their names in the protocol."""

    content_type: _Short | None = None
    content_encoding: _Short | None = None
    delivery_mode: _Octet = 2
    priority: _Octet | None = None
    correlation_id: _Short | None = None
    reply_to: _Short | None = None
    message_id: _Short | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0)] | None = None
    type: _Short | None = None
    user_id: _Short | None = None
    app_id: _Short | None = None
    cluster_id: _Short | None = None


class Publish(Step, tag="publish", frozen=True):
    """A client publishes ``times`` messages.

    Attributes:
        body_bytes: the size of each body.
        properties: the other basic properties, such as ``message_id``.
    """

    exchange: str
    routing_key: str
    headers: Mapping[str, Any] = _NO_HEADERS
    expiration_ms: int | None = None
    body_bytes: int = 0
    times: int = 1
    vhost: str = "/"
    properties: Properties = Properties()

    def __post_init__(self) -> None:
        _checked_times(self.times)
        if not 0 <= self.body_bytes <= BODY_BYTES_MAX:
            raise ValueError(f"body_bytes is {self.body_bytes}; expected 0 to {BODY_BYTES_MAX:,}")


class _AtQueue(Step, frozen=True):
    queue: str
    times: int = 1
    vhost: str = "/"

    def __post_init__(self) -> None:
        _checked_times(self.times)


class Ack(_AtQueue, tag="ack", frozen=True):
    """The queue's consumer acknowledges its oldest delivery; it subscribes first if it has no delivery."""


class Reject(_AtQueue, tag="reject", frozen=True):
    """The queue's consumer rejects its oldest delivery for good (``basic.reject``, ``requeue=False``)."""


class Requeue(_AtQueue, tag="requeue", frozen=True):
    """The queue's consumer returns its oldest delivery with ``requeue=True``, by ``basic.reject`` or ``basic.nack``."""

    method: Literal["reject", "nack"] = "reject"


class Crash(_AtQueue, tag="crash", frozen=True):
    """The connection of the queue's consumer dies while it has a delivery; afterwards the queue has no consumer."""


class Hold(_AtQueue, tag="hold", frozen=True):
    """A consumer subscribes with a prefetch of ``times``, and keeps what it gets."""


class Get(_AtQueue, tag="get", frozen=True):
    """A client that does not subscribe takes a message by ``basic.get``; the queue's consumer settles it."""


class Leave(Step, tag="leave", frozen=True):
    """The queue's consumer closes its connection; what it has goes back."""

    queue: str
    vhost: str = "/"


class Wait(Step, tag="wait", frozen=True):
    """Time passes."""

    ms: int

    def __post_init__(self) -> None:
        if self.ms < 0:
            raise ValueError(f"ms is {self.ms}; time only goes forward")


class SetPolicy(Step, tag="set-policy", frozen=True):
    """An operator sets a policy, or with ``operator`` an operator policy."""

    policy: Policy
    operator: bool = False
    vhost: str = "/"


class ClearPolicy(Step, tag="clear-policy", frozen=True):
    """An operator removes a policy."""

    name: str
    operator: bool = False
    vhost: str = "/"


class Repeat(Step, tag="repeat", frozen=True):
    """The same steps again and again."""

    steps: tuple[AnyStep, ...]
    times: int

    def __post_init__(self) -> None:
        _checked_times(self.times)
        for step in self.steps:
            checked(step)
        if length([self]) > TIMES_MAX:
            raise ValueError(f"repeated steps make {length([self]):,} actions; expected {TIMES_MAX:,} at most")


AnyStep = Publish | Ack | Reject | Requeue | Crash | Hold | Get | Leave | Wait | SetPolicy | ClearPolicy | Repeat
History = tuple[AnyStep, ...]
Changed = TypeVar("Changed", bound=Step)


def to_builtins(history: Iterable[AnyStep]) -> list[dict[str, Any]]:
    """Return the history as plain JSON values."""
    values: list[dict[str, Any]] = msgspec.to_builtins(list(history), enc_hook=plain)
    return values


def from_builtins(values: Any) -> History:
    """Return a history from plain JSON values. Raises ``msgspec.ValidationError`` naming the place that is wrong."""
    return msgspec.convert(values, type=History)


def made(do: str, **fields: Any) -> AnyStep:
    """Return a step of that kind. Raises ``ValueError`` naming the field that is wrong."""
    try:
        step: AnyStep = msgspec.convert({"do": do, **fields}, type=AnyStep)
    except msgspec.ValidationError as error:
        raise ValueError(f"{do}: {error}") from error
    return step


def checked(step: Any) -> AnyStep:
    """Return the step. Raises ``TypeError`` for anything else."""
    if not isinstance(step, Step):
        raise TypeError(f"{step!r} is no step; expected one of simulator.scenario.steps, such as Wait(1_000)")
    return step  # type: ignore[return-value]


def changed(step: Changed, **fields: Any) -> Changed:
    """Return the step with other values in some fields."""
    return msgspec.structs.replace(step, **fields)


def again(part: History, times: int) -> AnyStep:
    """Return the steps of ``part``, ``times`` times: one step that says how often, where that is possible."""
    if len(part) == 1 and hasattr(part[0], "times") and not isinstance(part[0], Hold):
        step: AnyStep = changed(part[0], times=part[0].times * times)
        return step
    return Repeat(part, times)


def length(history: Iterable[AnyStep]) -> int:
    """Return how many single actions the history has."""
    return sum(_length(step) for step in history)


def _length(step: AnyStep) -> int:
    if isinstance(step, Repeat):
        return step.times * length(step.steps)
    return getattr(step, "times", 1)
